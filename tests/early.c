/* Kernels that may begin before the kernel before them has ended, launched twice in one stream with nothing between. The second launch needs what the first one
 * touches: as its image, as its filters, or to write over it. Both results must be right: on a GPU the launches do overlap, and on the emulator, which ends one
 * before it begins the next, the checker is told what the second touches too early (tests/check_early.sh).
 *
 * And what the harness's timing says of such launches.
 *
 * early [LAYER PAIR]: not timed; one layer or all of them, one pair of launches or all of them. */
#include <stdlib.h>
#include <string.h>

#include "common/conv/verify.h"
#include "common/harness/plan.h"
#include "common/harness/registry.h"
#include "common/harness/timing.h"
#include "tests/tap.h"

extern const conv_step step_06, step_07;

/* K = C, P = H, Q = W, and N H W = K R S, or as many by a stride: image, filters and result have the same number of elements, so that a result can be the next
 * launch's either. */
static const struct layer {
  const char *name, *kernel, *shape, *words; /* words: of what the plan says */
  conv_pass pass;
} layers[] = {
    {"06f", "06f", "mb1ic64ih24oc64kh3ph1", "", PASS_FPROP},
    {"06g", "06g", "mb1ic64ih24oc64kh3ph1", "", PASS_FPROP},
    {"06h", "06h", "mb1ic64ih24oc64kh3ph1", "", PASS_FPROP},
    {"06i", "06i", "mb1ic64ih8oc64kh1", "by 1 block each", PASS_FPROP},
    {"06i-cluster", "06i", "mb2ic8ih6oc8kh3ph1", "blocks each", PASS_FPROP},
    {"06j", "06j", "mb1ic64ih24oc64kh3ph1", "", PASS_DGRAD},
    {"06l", "06l", "mb1ic64ih40oc64kh5ph2", "", PASS_WGRAD},
    {"06k", "06k", "mb1ic64ih24oc64kh3ph1", "", PASS_DGRAD},
    {"06m", "06m", "mb1ic64ih24oc64kh3ph1", "", PASS_WGRAD},
    {"06n", "06n", "mb1ic64ih40oc64kh5ph2", "", PASS_WGRAD},
    {"06o", "06o", "mb1ic16ih12oc16kh3ph1", "", PASS_FPROP},
    {"06o-both", "06o", "mb2ic8ih16oc32oh8kh4sh2ph1", "by both", PASS_DGRAD},
    {"06r", "06r", "g64mb1ic64ih5oc64kh5ph2", "", PASS_WGRAD},
    {"06s", "06s", "mb1ic4ih24oc16oh12kh6sh2ph2", "", PASS_FPROP},
    {"06t", "06t", "mb1ic4ih24oc16oh12kh6sh2ph2", "", PASS_WGRAD},
    {"06u", "06u", "g4mb1ic64ih12oc64kh3ph1", "", PASS_FPROP},
    {"06u-classes", "06u", "g4mb1ic16ih12oc64oh6kh3sh2ph1", "", PASS_DGRAD},
    {"06v", "06v", "g4mb1ic64ih12oc64kh3ph1", "", PASS_WGRAD},
    {"06w", "06w", "mb1ic4ih8oc16oh4kh2sh2", "", PASS_FPROP},
    {"06x", "06x", "g64mb1ic64ih3oc64kh3ph1", "", PASS_FPROP},
    {"06y", "06y", "g4mb1ic64ih12oc64kh3ph1", "", PASS_FPROP},
    {"06z", "06z", "g4mb1ic64ih12oc64kh3ph1", "", PASS_WGRAD},
    {"07a", "07a", "mb1ic64ih24oc64kh3ph1", "", PASS_FPROP},
    {"07b", "07b", "mb1ic64ih24oc64kh3ph1", "", PASS_FPROP},
    {"07c", "07c", "mb2ic8ih6oc8kh3ph1", "", PASS_FPROP},
};

/* The first launch reads image 0 and filters 1 and writes 2; so does the second with these. All four hold integers before. Another pass than fprop: its two inputs
 * and its output, in the order of common/conv/tensor.h. */
enum { BUFFERS = 4 };
static const struct pair {
  const char *name;
  int a, b, out;
} first = {"first", 0, 1, 2}, pairs[] = {{"image", 2, 1, 3}, {"filters", 0, 2, 3}, {"over", 3, 1, 0}};

typedef struct run {
  const conv_kernel *kernel;
  conv_problem problem;
  conv_plan plan;
  conv_tensor tensor[3]; /* the shapes, by tensor_role */
  void *host[BUFFERS], *device[BUFFERS], *workspace;
} run;

static conv_tensor tensor_in(const run *r, tensor_role role, int buffer) {
  conv_tensor t = r->tensor[role];
  t.data = r->host[buffer];
  return t;
}

static bool is_wanted(const char *wanted, const char *name) { return strcmp(wanted, "all") == 0 || strcmp(wanted, name) == 0; }

static cudaError_t launch(const run *r, const struct pair *p, cudaStream_t stream) {
  const conv_pass pass = r->kernel->pass;
  void *at[3];
  at[pass_input_a(pass)] = r->device[p->a], at[pass_input_b(pass)] = r->device[p->b], at[pass_output(pass)] = r->device[p->out];
  const conv_buffers b = {.x = at[TENSOR_X], .w = at[TENSOR_W], .y = at[TENSOR_Y], .workspace = r->workspace};
  return r->kernel->launch(&r->plan, &b, stream);
}

/* Compares a launch's result with the right answer from what it read, which the host's buffers hold; leaves it there. */
static bool right(run *r, const struct pair *p) {
  const conv_pass pass = r->kernel->pass;
  const conv_tensor a = tensor_in(r, pass_input_a(pass), p->a), b = tensor_in(r, pass_input_b(pass), p->b), out = tensor_in(r, pass_output(pass), p->out);
  conv_reference reference;
  char error[256];
  if (reference_compute(&reference, &r->problem, pass, &a, &b, false, false, error, sizeof error)) return diag("%s", error), false;
  const cudaError_t status = cudaMemcpy(out.data, r->device[p->out], tensor_bytes(&out), cudaMemcpyDeviceToHost);
  const bool is = !status && verify_output(&out, &reference, COMPARE_EXACT, (error_rule){0}, stdout).right;
  reference_free(&reference);
  return is;
}

static cudaError_t fill(run *r) {
  cudaError_t status = cudaSuccess;
  for (int i = 0; i < BUFFERS && !status; i++) {
    conv_tensor t = tensor_in(r, TENSOR_X, i);
    tensor_fill_integers(&t, (uint64_t)i + 1, 1);
    status = cudaMemcpy(r->device[i], t.data, tensor_bytes(&t), cudaMemcpyHostToDevice);
  }
  return status;
}

static void test_pair(run *r, const struct pair *second) {
  cudaStream_t stream = NULL;
  cudaError_t status = fill(r);
  if (!status) status = cudaStreamCreate(&stream);
  if (!status) status = launch(r, &first, stream);
  if (!status) status = launch(r, second, stream);
  if (!status) status = cudaStreamSynchronize(stream);
  if (stream) cudaStreamDestroy(stream);
  const char *said = "both right";
  if (status) said = cudaGetErrorString(status);
  else if (!right(r, &first)) said = "the first is wrong";
  else if (!right(r, second)) said = "the second is wrong";
  ok(strcmp(said, "both right") == 0, "%s, %s, %s: %s", r->kernel->name, r->plan.words, second->name, said);
}

static const conv_kernel *kernel_of(const char *name, conv_pass pass) {
  const conv_step *const steps[] = {&step_06, &step_07};
  for (int s = 0; s < 2; s++)
    for (int i = 0; i < steps[s]->kernel_count; i++)
      if (strcmp(steps[s]->kernels[i]->name, name) == 0 && steps[s]->kernels[i]->pass == pass) return steps[s]->kernels[i];
  return NULL;
}

static void test_layer(const struct layer *l, const conv_device *device, const char *wanted) {
  run r = {.kernel = kernel_of(l->kernel, l->pass)};
  char error[256] = "";
  if (problem_parse(&r.problem, l->shape, error, sizeof error)) diag("%s", error);
  const char *why = kernel_plan_pass(r.kernel, &r.problem, device, &r.plan);
  ok(!why && strstr(r.plan.words, l->words), "%s, %s: %s", l->kernel, l->shape, why ? why : r.plan.words);
  if (why) return;
  for (int role = 0; role < 3; role++) r.tensor[role] = tensor_describe(&r.problem, (tensor_role)role, r.kernel->dtype, r.kernel->layout);
  bool room = true;
  for (int i = 0; i < BUFFERS; i++)
    room = (r.host[i] = malloc(tensor_bytes(&r.tensor[0]))) && cudaMalloc(&r.device[i], tensor_bytes(&r.tensor[0])) == cudaSuccess && room;
  if (r.plan.workspace_bytes > 0) room = cudaMalloc(&r.workspace, r.plan.workspace_bytes) == cudaSuccess && room;
  ok(room && r.tensor[0].count == r.tensor[1].count && r.tensor[0].count == r.tensor[2].count, "image, filters and result have %lld elements each",
     (long long)r.tensor[0].count);
  for (size_t i = 0; i < sizeof pairs / sizeof *pairs && room; i++)
    if (is_wanted(wanted, pairs[i].name)) test_pair(&r, &pairs[i]);
  for (int i = 0; i < BUFFERS; i++) free(r.host[i]), cudaFree(r.device[i]);
  cudaFree(r.workspace);
}

/* ---------------------------------------------------------------- timed */

enum { SETS = 2 };

/* Launches on an even set by the first kernel, on an odd one by the second. */
typedef struct turns {
  const conv_kernel *kernel[SETS];
  conv_plan plan[SETS];
  conv_buffers buffers;
} turns;

static cudaError_t enqueue_turn(void *context, int set, cudaStream_t stream) {
  const turns *t = context;
  return t->kernel[set]->launch(&t->plan[set], &t->buffers, stream);
}
static cudaError_t no_poison(void *context) { return (void)context, cudaSuccess; }
static cudaError_t no_check(void *context, int start, int count) { return (void)context, (void)start, (void)count, cudaSuccess; }

/* 06e's launches wait for the one before, 06f's do not. */
static void timed(const machine *m) {
  enum { COUNT = 4, IN_ORDER = 3 };
  static const char *const names[COUNT][SETS] = {{"06e", "06e"}, {"06f", "06f"}, {"06e", "06f"}, {"06f", "06f"}};
  static turns all[COUNT];
  contender c[COUNT] = {0};
  conv_problem p = {0};
  char error[256];
  void *device[3] = {NULL};
  if (problem_parse(&p, "mb1ic64ih8oc64kh1", error, sizeof error)) diag("%s", error);
  for (int i = 0; i < 3; i++)
    if (cudaMalloc(&device[i], 64 * 64 * 2) || cudaMemset(device[i], 0, 64 * 64 * 2)) diag("no memory");
  for (int i = 0; i < COUNT; i++) {
    all[i].buffers = (conv_buffers){.x = device[0], .w = device[1], .y = device[2]};
    for (int set = 0; set < SETS; set++) {
      all[i].kernel[set] = kernel_of(names[i][set], PASS_FPROP);
      const char *why = kernel_plan_pass(all[i].kernel[set], &p, &m->device, &all[i].plan[set]);
      if (why) diag("%s: %s", names[i][set], why);
    }
    c[i] = (contender){.enqueue = enqueue_turn, .poison = no_poison, .check = no_check, .context = &all[i], .first_seconds = 1e-6, .in_order = i == IN_ORDER};
  }
  const cudaError_t status = time_in_turns(c, COUNT, ON_GPU, SETS, m);
  ok(!status && c[0].early_share == 0 && c[1].early_share == 1, "06e's launches are not early, 06f's are: %g and %g %s", c[0].early_share, c[1].early_share,
     status ? cudaGetErrorString(status) : "");
  ok(c[2].early_share > 0.4 && c[2].early_share < 0.7, "in turns, about half: %g", c[2].early_share);
  ok(c[IN_ORDER].early_share == 0 && c[IN_ORDER].median_us > 0, "asked to stay in order, 06f's are not early: %g", c[IN_ORDER].early_share);
  for (int i = 0; i < 3; i++) cudaFree(device[i]);
}

int main(int argc, char **argv) {
  const char *layer = argc == 3 ? argv[1] : "all", *pair = argc == 3 ? argv[2] : "all";
  machine m;
  char error[256];
  if (machine_open_gpu(&m, error, sizeof error)) return fprintf(stderr, "%s\n", error), 1;
  if (m.device.arch / 10 != 9) {
    ok(1, "# SKIP a GPU of compute capability 9.0 has these kernels");
    return done_testing();
  }
  for (size_t i = 0; i < sizeof layers / sizeof *layers; i++)
    if (is_wanted(layer, layers[i].name)) test_layer(&layers[i], &m.device, pair);
  if (argc < 3) timed(&m);
  return done_testing();
}
