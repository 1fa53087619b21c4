/* Finds cuDNN at run time. Only its headers are needed to build; no program links it.
 *
 * Where it may lie: $CUDNN_HOME alone if that is set; else the loader's path, the CUDA toolkit, and a pip package (nvidia/cudnn). Of several
 * the newest is taken: an opponent should be at its best. A child process asks each for its version, so that only one is ever loaded here. */
#include "common/cudnn/cudnn_api.h"

#ifndef HAVE_CUDNN
#include <stdio.h>

int cudnn_version(void) { return 0; }

const char *cudnn_describe(void) {
#ifdef CUDA_EMULATOR
  return "no cuDNN: kernels run on the emulator";
#else
  return "no cuDNN: its header cudnn.h (version 9) was not found when this was built";
#endif
}

/* The rest of cudnn.h's interface, without cuDNN. */
int cudnn_baseline_open(cudnn_baseline *b, const cudnn_task *task, const conv_buffers *views, int sets, const cudnn_options *options, const cudnn_truth *truth,
                        char *error, size_t error_size) {
  (void)task, (void)views, (void)sets, (void)options, (void)truth;
  *b = (cudnn_baseline){.heuristic = -1};
  snprintf(error, error_size, "%s", cudnn_describe());
  return 1;
}

int cudnn_plan_from_tag(cudnn_baseline *b, const cudnn_task *task, const char *tag, const conv_buffers *views, int sets, const cudnn_options *options,
                        const cudnn_truth *truth, char *error, size_t error_size) {
  (void)tag;
  return cudnn_baseline_open(b, task, views, sets, options, truth, error, error_size);
}

int cudnn_plan_again(cudnn_baseline *b, const cudnn_task *task, const cudnn_runner *known, const conv_buffers *views, int sets, const cudnn_options *options,
                     const cudnn_truth *truth, char *error, size_t error_size) {
  (void)known;
  return cudnn_baseline_open(b, task, views, sets, options, truth, error, error_size);
}

void cudnn_baseline_close(cudnn_baseline *b) { *b = (cudnn_baseline){.heuristic = -1}; }

error_rule cudnn_rule(const cudnn_task *task, unsigned note_bits, bool random) { return (void)task, (void)note_bits, (void)random, (error_rule){0}; }

cudaError_t cudnn_enqueue(void *runner, int set, cudaStream_t stream) {
  (void)runner, (void)set, (void)stream;
  return cudaErrorUnknown;
}

#else

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)
#define LIBRARY_NAME "libcudnn.so." TEXT(CUDNN_MAJOR)

enum { MOST_PLACES = 16 };
typedef struct {
  char path[MOST_PLACES][PATH_MAX];
  int count;
} places;

cudnn_library cudnn;
static char description[PATH_MAX + 256] = "no cuDNN";

static void add(places *p, const char *folder, const char *name) {
  if (p->count == MOST_PLACES) return;
  const int length = *folder ? snprintf(p->path[p->count], PATH_MAX, "%s/%s", folder, name) : snprintf(p->path[p->count], PATH_MAX, "%s", name);
  if (length < PATH_MAX) p->count++;
}

/* The folder of python3's nvidia.cudnn package, or "". */
static void pip_folder(char folder[PATH_MAX]) {
  folder[0] = 0;
  FILE *python = popen("python3 -c 'import nvidia.cudnn; print(list(nvidia.cudnn.__path__)[0])' 2>/dev/null", "r");
  if (!python) return;
  if (!fgets(folder, PATH_MAX, python)) folder[0] = 0;
  if (pclose(python) != 0) folder[0] = 0;
  folder[strcspn(folder, "\n")] = 0;
}

/* The toolkit's library folders, by the usual names. */
static void add_toolkit(places *p, const char *name) {
  static const char *const variables[] = {"CUDA_HOME", "CUDA_PATH"};
  char folder[PATH_MAX];
  for (int i = 0; i <= 2; i++) {
    const char *root = i < 2 ? getenv(variables[i]) : "/usr/local/cuda";
    if (!root || strlen(root) > PATH_MAX - 16) continue;
    snprintf(folder, sizeof folder, "%s/lib64", root), add(p, folder, name);
    snprintf(folder, sizeof folder, "%s/lib", root), add(p, folder, name);
  }
}

/* What cudnnGetVersion of that file says; 0 if it cannot be loaded. */
static int version_of(const char *path) {
  int ends[2], version = 0;
  if (pipe(ends)) return 0;
  const pid_t child = fork();
  if (child == 0) {
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    size_t (*get)(void) = NULL;
    if (library) *(void **)&get = dlsym(library, "cudnnGetVersion");
    version = get ? (int)get() : 0;
    _exit(write(ends[1], &version, sizeof version) == sizeof version ? 0 : 1);
  }
  close(ends[1]);
  if (child < 0 || read(ends[0], &version, sizeof version) != sizeof version) version = 0;
  close(ends[0]);
  if (child > 0) waitpid(child, NULL, 0);
  return version;
}

/* Engines that are compiled at run time open NVRTC by its bare name; it may lie where the loader does not look. Once loaded, it is found. */
static bool load_beside(const char *name, const char *pip) {
  places p = {0};
  char folder[PATH_MAX + 32];
  add(&p, "", name);
  add_toolkit(&p, name);
  if (pip[0]) {
    static const char *const siblings[] = {"../cu13/lib", "../cuda_nvrtc/lib", "../cublas/lib"};
    for (int i = 0; i < 3; i++) snprintf(folder, sizeof folder, "%s/%s", pip, siblings[i]), add(&p, folder, name);
  }
  for (int i = 0; i < p.count; i++)
    if (dlopen(p.path[i], RTLD_NOW | RTLD_GLOBAL)) return true;
  return false;
}

static bool bind(void *library) {
#define BIND(name)                                                                         \
  if (!(*(void **)&cudnn.name = dlsym(library, "cudnn" #name))) {                          \
    snprintf(description, sizeof description, "no cuDNN: its library has no cudnn" #name); \
    return false;                                                                          \
  }
  CUDNN_FUNCTIONS(BIND)
#undef BIND
#define BIND(name) *(void **)&cudnn.name = dlsym(library, "cudnn" #name);
  CUDNN_RNN_FUNCTIONS(BIND)
#undef BIND
  return true;
}

/* They are in a library of their own, which the first call of one of them would load; and end the program, were it missing. */
const char *cudnn_no_rnn(void) {
  static char why[PATH_MAX + 64];
  Dl_info info;
  if (cudnn_version() == 0) return cudnn_describe();
#define BOUND(name) &&cudnn.name
  if (!(true CUDNN_RNN_FUNCTIONS(BOUND))) return "cuDNN's library has no functions for recurrent layers";
#undef BOUND
  const char *path = dladdr(*(void **)&cudnn.RNNForward, &info) && info.dli_fname ? info.dli_fname : "", *slash = strrchr(path, '/');
  snprintf(why, sizeof why, "%.*s%s", slash ? (int)(slash + 1 - path) : 0, path, "libcudnn_adv.so." TEXT(CUDNN_MAJOR));
  if (dlopen(why, RTLD_NOW | RTLD_LOCAL)) return NULL;
  snprintf(why, sizeof why, "recurrent layers: %.300s", dlerror());
  return why;
}

static int load(void) {
  static places found; /* large */
  const char *home = getenv("CUDNN_HOME");
  char folder[PATH_MAX + 8], pip[PATH_MAX];
  pip_folder(pip);
  if (home && *home && strlen(home) < PATH_MAX) {
    snprintf(folder, sizeof folder, "%s/lib", home), add(&found, folder, LIBRARY_NAME);
    snprintf(folder, sizeof folder, "%s/lib64", home), add(&found, folder, LIBRARY_NAME);
    add(&found, home, LIBRARY_NAME);
  } else {
    add(&found, "", LIBRARY_NAME);
    add_toolkit(&found, LIBRARY_NAME);
    if (pip[0]) snprintf(folder, sizeof folder, "%s/lib", pip), add(&found, folder, LIBRARY_NAME);
  }
  int newest = -1, version = 0;
  for (int i = 0; i < found.count; i++) {
    const int v = version_of(found.path[i]);
    if (v > version) version = v, newest = i;
  }
  if (newest < 0) {
    snprintf(description, sizeof description, "no cuDNN: %s was not found %s", LIBRARY_NAME,
             home && *home ? "under $CUDNN_HOME" : "on the loader's path, in the CUDA toolkit or in a pip package; $CUDNN_HOME can name its folder");
    return 0;
  }
  void *library = dlopen(found.path[newest], RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    snprintf(description, sizeof description, "no cuDNN: %.300s", dlerror());
    return 0;
  }
  if (!bind(library)) return 0;
  char nvrtc[32], cublas[32], real[PATH_MAX];
  const int cuda = (int)(cudnn.GetCudartVersion() / 1000);
  snprintf(nvrtc, sizeof nvrtc, "libnvrtc.so.%d", cuda), snprintf(cublas, sizeof cublas, "libcublasLt.so.%d", cuda);
  const bool with_nvrtc = load_beside(nvrtc, pip);
  load_beside(cublas, pip);
  Dl_info info;
  const char *where = dladdr(*(void **)&cudnn.GetVersion, &info) && info.dli_fname && realpath(info.dli_fname, real) ? real : found.path[newest];
  snprintf(description, sizeof description, "cuDNN %d.%d.%d (%s; %s)", version / 10000, version / 100 % 100, version % 100, where,
           with_nvrtc ? nvrtc : "without NVRTC: engines compiled at run time are missing");
  return version;
}

int cudnn_version(void) {
  static int version = -1;
  if (version < 0) version = load();
  return version;
}

const char *cudnn_describe(void) {
  cudnn_version();
  return description;
}

#endif
