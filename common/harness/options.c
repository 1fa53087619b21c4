/* The command line of a step. See options.h. */
#include "common/harness/options.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/conv/epilogue.h"
#include "common/conv/tensor.h"
#include "common/files/output.h"
#include "common/harness/plan.h"

/* The tutorial's layer on a GPU; on the emulator one that takes a blink. A step whose kernels cannot do them has its own. */
static const char *default_shape(const conv_step *step) {
#ifdef CUDA_EMULATOR
  return step->small_layer ? step->small_layer : "mb1ic16ih28oc16oh28kh3ph1";
#else
  return step->layer ? step->layer : "mb16ic64ih56oc128oh56kh3ph1";
#endif
}

static const char help_text[] =
    "  --shape STRING     one problem as a benchdnn string, such as mb16ic64ih56oc128oh56kh3ph1:\n"
    "                     g groups, mb images, ic/oc channels, ih/iw in, oh/ow out, kh/kw filter, sh/sw stride,\n"
    "                     dh/dw dilation (0: none), ph/pw padding, n\"name\". Missing w-fields copy the h-fields;\n"
    "                     output or padding is deduced from the other.\n"
    "  --suite NAME|FILE  a list of such lines: a file, or one of common/suites/\n"
    "  --random N         N small random problems: groups, strides, dilation, uneven padding (a function of --seed);\n"
    "                     with kernels named: N for each of them that it can do\n"
    "  --batch N, --mb N  every problem with N images\n"
    "  --fuse LIST        scale, bias, residual and one of relu, relu6, gelu, silu, between commas: what happens to each result before it is\n"
    "                     stored; kernels that cannot say so\n"
    "  --pass PASS        fprop, dgrad, wgrad or all of these (default: all); or transposed: a transposed convolution with this input, oc oh ow,\n"
    "                     and this output, ic ih iw, by the kernels of dgrad; what ih is above its least is output padding\n"
    "  --dtype TYPE       fp32 or fp16 (default: whatever the kernels do)\n"
    "  --layout LAYOUT    NCHW or NHWC (default: whatever the kernels do)\n"
    "  --kernel NAMES     only this kernel of the step, or these (04b,04e); auto: the one that its rule (below) takes for the problem\n"
    "  --list             the kernels, and for the shape their registers, shared memory, block and grid; runs nothing\n"
    "  --which            the kernel that the step's rule takes for every problem and pass, as CSV; runs nothing\n"
    "  --exact            verify on small integers only, value for value; no timing\n"
    "  --no-time          verify only\n"
    "  --verify WHERE     host or device: where data are made and results compared (default: large problems on the GPU that runs them)\n"
    "  --no-cudnn         do not time cuDNN beside the kernels\n"
    "  --search-cudnn     search its plans again, though the winners of an earlier search are known; it begins with them\n"
    "  --cudnn-fused      for forward convolutions a second opponent: cuDNN's best plan of a fused graph with a bias of zeros, in columns of its own\n"
    "  --in-order         time our kernels also where each waits for the one before it to end: most of 06 and 07 begin early otherwise\n"
    "  --search-seconds S at most S seconds for a problem's search (default 10)\n"
    "  --seed N           other random data (default 1)\n"
    "  --x, --w, --dy FILE.npy   the pass's inputs, axes N,C,H,W (transposed: N,K,P,Q) / K,C/g,R,S / N,K,P,Q; what is not given is random;\n"
    "                     a kernel without a bound for its error on such data runs if --kernel names it, unverified\n"
    "  --out FILE.npy     the result, same axes (one shape, one pass, one kernel)\n"
    "  --keep-wrong       with --out: the result even if it is wrong, to look at; the exit status stays 1\n"
    "  --csv FILE, --json FILE   results; the JSON has every timing sample\n"
    "  --help\n"
    "Exit status: 0 all right, 1 a result that is wrong or was not verified, or a failed CUDA call, 2 bad input.\n";

static void print_help(const conv_step *step, const char *program) {
  printf("%s: step %s, %s\n\nusage: %s [options]\n%s\nkernels:\n", program, step->number, step->title, program, help_text);
  for (int i = 0; i < step->kernel_count; i++)
    printf("  %-4s %s  %s %s  %s\n", step->kernels[i]->name, pass_name(step->kernels[i]->pass), dtype_name(step->kernels[i]->dtype),
           layout_name(step->kernels[i]->layout), step->kernels[i]->idea);
  printf("default shape: %s\n", default_shape(step));
  if (step->rule_count) printf("\nthe rule (--kernel auto): for each pass and type the first kernel that can do the problem, if\n");
  for (int i = 0; i < step->rule_count; i++)
    printf("  %-4s %s  %s  %s\n", step->rule[i].kernel->name, pass_name(step->rule[i].kernel->pass), dtype_name(step->rule[i].kernel->dtype),
           step->rule[i].words);
}

static int bad(const char *option, const char *expected, const char *got) {
  fprintf(stderr, "%s: expected %s, got \"%s\"\n", option, expected, got);
  return -1;
}

/* Selects one of `count` names, or all of them for "all". */
static int choose(const char *option, const char *expected, const char *text, bool chosen[], int count, const char *(*name)(int)) {
  bool found = false;
  for (int i = 0; i < count; i++) {
    chosen[i] = strcmp(text, name(i)) == 0 || strcmp(text, "all") == 0;
    found |= chosen[i];
  }
  return found ? 0 : bad(option, expected, text);
}

static const char *name_of_pass(int i) { return pass_name((conv_pass)i); }
static const char *name_of_dtype(int i) { return dtype_name((conv_dtype)i); }
static const char *name_of_layout(int i) { return layout_name((conv_layout)i); }

static int parse_integer(const char *option, const char *text, long long lowest, long long highest, long long *value) {
  char *end, expected[64];
  errno = 0;
  *value = strtoll(text, &end, 10);
  snprintf(expected, sizeof expected, "an integer from %lld to %lld", lowest, highest);
  if (end == text || *end || errno || *value < lowest || *value > highest) return bad(option, expected, text);
  return 0;
}

static int read_problems(step_options *o, const conv_step *step, const char *shape, const char *suite, int random) {
  char error[PATH_MAX + 512], path[PATH_MAX];
  if ((shape != NULL) + (suite != NULL) + (random > 0) > 1) {
    fprintf(stderr, "--shape, --suite, --random: expected one of them\n");
    return -1;
  }
  o->random = random;
  if (random) return 0; /* options_draw */
  if (suite) {
    suite_path(suite, path);
    if (suite_read(&o->suite, path, error, sizeof error)) {
      fprintf(stderr, "--suite: %s\n", error);
      return -1;
    }
    if (o->suite.passed_over) printf("%s: %d passed over (lines of options, 1-D and 3-D shapes)\n", path, o->suite.passed_over);
    return 0;
  }
  o->one_shape = true;
  o->suite.problems = malloc(sizeof *o->suite.problems);
  o->suite.count = 1;
  if (!o->suite.problems || problem_parse(o->suite.problems, shape ? shape : default_shape(step), error, sizeof error)) {
    fprintf(stderr, "--shape: %s\n", o->suite.problems ? error : "no memory");
    return -1;
  }
  return 0;
}

/* Is every name in --kernel that of a kernel? */
static bool kernels_known(const step_options *o, const conv_step *step) {
  if (!o->kernel || strcmp(o->kernel, "auto") == 0) return true;
  for (const char *name = o->kernel; name; name = strchr(name, ',') ? strchr(name, ',') + 1 : NULL) {
    const size_t length = strcspn(name, ",");
    bool known = false;
    for (int i = 0; i < step->kernel_count; i++) known |= strlen(step->kernels[i]->name) == length && memcmp(name, step->kernels[i]->name, length) == 0;
    if (!known) return false;
  }
  return true;
}

static int set_batch(conv_problem *p, int batch) {
  char error[512];
  if (!batch || problem_set_batch(p, batch, error, sizeof error) == 0) return 0;
  fprintf(stderr, "--batch: %s\n", error);
  return -1;
}

int options_parse(step_options *o, const conv_step *step, int argc, char **argv) {
  enum {
    SHAPE = 256,
    SUITE,
    BATCH,
    MB,
    PASS,
    DTYPE,
    LAYOUT,
    KERNEL,
    LIST,
    WHICH,
    EXACT,
    NO_TIME,
    NO_CUDNN,
    SEARCH_CUDNN,
    CUDNN_FUSED,
    IN_ORDER,
    SEARCH_SECONDS,
    SEED,
    CSV,
    JSON,
    X,
    W,
    DY,
    OUT,
    KEEP_WRONG,
    RANDOM,
    FUSE_LIST,
    VERIFY,
    HELP
  };
  static const struct option table[] = {
      {"shape", required_argument, 0, SHAPE},
      {"suite", required_argument, 0, SUITE},
      {"batch", required_argument, 0, BATCH},
      {"mb", required_argument, 0, MB},
      {"pass", required_argument, 0, PASS},
      {"dtype", required_argument, 0, DTYPE},
      {"layout", required_argument, 0, LAYOUT},
      {"list", no_argument, 0, LIST},
      {"which", no_argument, 0, WHICH},
      {"kernel", required_argument, 0, KERNEL},
      {"exact", no_argument, 0, EXACT},
      {"no-time", no_argument, 0, NO_TIME},
      {"seed", required_argument, 0, SEED},
      {"csv", required_argument, 0, CSV},
      {"json", required_argument, 0, JSON},
      {"x", required_argument, 0, X},
      {"w", required_argument, 0, W},
      {"dy", required_argument, 0, DY},
      {"out", required_argument, 0, OUT},
      {"keep-wrong", no_argument, 0, KEEP_WRONG},
      {"random", required_argument, 0, RANDOM},
      {"help", no_argument, 0, HELP},
      {"no-cudnn", no_argument, 0, NO_CUDNN},
      {"search-cudnn", no_argument, 0, SEARCH_CUDNN},
      {"cudnn-fused", no_argument, 0, CUDNN_FUSED},
      {"in-order", no_argument, 0, IN_ORDER},
      {"search-seconds", required_argument, 0, SEARCH_SECONDS},
      {"fuse", required_argument, 0, FUSE_LIST},
      {"verify", required_argument, 0, VERIFY},
      {0},
  };
  *o = (step_options){.timing = true, .cudnn = true, .seed = 1};
  for (int i = 0; i < PASS_COUNT; i++) o->passes[i] = true;
  for (int i = 0; i < DTYPE_COUNT; i++) o->dtypes[i] = true;
  for (int i = 0; i < LAYOUT_COUNT; i++) o->layouts[i] = true;
  const char *shape = NULL, *suite = NULL;
  long long batch = 0, random = 0, number = 0;
  char wrong[EPILOGUE_NAME];
  int option, failed = 0;
  while (!failed && (option = getopt_long(argc, argv, "", table, NULL)) != -1) {
    switch (option) {
      case SHAPE: shape = optarg; break;
      case SUITE: suite = optarg; break;
      case MB:
      case BATCH: failed = parse_integer(option == MB ? "--mb" : "--batch", optarg, 1, INT_MAX, &batch); break;
      case PASS:
        o->transposed = strcmp(optarg, "transposed") == 0;
        failed = choose("--pass", "fprop, dgrad, wgrad, transposed or all", o->transposed ? "dgrad" : optarg, o->passes, PASS_COUNT, name_of_pass);
        break;
      case DTYPE: failed = choose("--dtype", "fp32, fp16 or all", optarg, o->dtypes, DTYPE_COUNT, name_of_dtype); break;
      case LAYOUT: failed = choose("--layout", "NCHW, NHWC or all", optarg, o->layouts, LAYOUT_COUNT, name_of_layout); break;
      case KERNEL: o->kernel = optarg; break;
      case LIST: o->list = true; break;
      case WHICH: o->which = true; break;
      case EXACT: o->exact_only = true; break;
      case NO_TIME: o->timing = false; break;
      case NO_CUDNN: o->cudnn = false; break;
      case SEARCH_CUDNN: o->cudnn_search = true; break;
      case CUDNN_FUSED: o->cudnn_fused = true; break;
      case IN_ORDER: o->in_order = true; break;
      case SEARCH_SECONDS: failed = parse_integer("--search-seconds", optarg, 1, 100000, &number), o->cudnn_seconds = (int)number; break;
      case SEED: failed = parse_integer("--seed", optarg, 0, LLONG_MAX, &number), o->seed = (uint64_t)number; break;
      case CSV: o->csv = optarg; break;
      case JSON: o->json = optarg; break;
      case X: output_keep("--x", o->npy_in[TENSOR_X] = optarg); break;
      case W: output_keep("--w", o->npy_in[TENSOR_W] = optarg); break;
      case DY: output_keep("--dy", o->npy_in[TENSOR_Y] = optarg); break;
      case OUT: o->npy_out = optarg; break;
      case KEEP_WRONG: o->keep_wrong = true; break;
      case RANDOM: failed = parse_integer("--random", optarg, 1, 1000000, &random); break;
      case FUSE_LIST:
        if (epilogue_parse(&o->epilogue, optarg, wrong)) failed = bad("--fuse", "scale, bias, residual and one of relu, relu6, gelu, silu, each once", wrong);
        break;
      case VERIFY:
        o->verify = strcmp(optarg, "device") == 0 ? VERIFY_ON_DEVICE : VERIFY_ON_HOST;
        if (strcmp(optarg, "device") != 0 && strcmp(optarg, "host") != 0) failed = bad("--verify", "host or device", optarg);
        break;
      case HELP: print_help(step, argv[0]); return 1;
      default: failed = -1; break; /* getopt has printed its line */
    }
  }
  if (!failed && optind < argc) failed = bad(argv[0], "options only (see --help)", argv[optind]);
  if (!failed && !kernels_known(o, step)) failed = bad("--kernel", "auto or kernels of this step (see --help)", o->kernel);
  if (!failed && o->verify == VERIFY_ON_DEVICE && step->kernels[0]->place == ON_CPU) failed = bad("--verify", "host, where the kernels run", "device");
#ifdef CUDA_EMULATOR
  if (!failed && o->verify == VERIFY_ON_DEVICE && emu_tool_name()) failed = bad("--verify", "host under the emulator's checker or counter", "device");
#endif
  if (!failed) failed = read_problems(o, step, shape, suite, (int)random);
  o->batch = (int)batch;
  for (int i = 0; !failed && i < o->suite.count; i++) failed = set_batch(&o->suite.problems[i], o->batch);
  if (!failed) failed = options_check(o);
  if (failed) {
    options_free(o);
    return 3;
  }
  return 0;
}

/* May a kernel of this name take part? With "auto" every one, before the rule. */
static bool named(const step_options *o, const char *kernel) {
  const size_t length = strlen(kernel);
  for (const char *name = o->kernel; name; name = strchr(name, ',') ? strchr(name, ',') + 1 : NULL)
    if (strcspn(name, ",") == length && memcmp(name, kernel, length) == 0) return true;
  return !o->kernel || strcmp(o->kernel, "auto") == 0;
}

bool options_select(const step_options *o, const conv_kernel *k) {
  return o->passes[k->pass] && o->dtypes[k->dtype] && o->layouts[k->layout] && named(o, k->name);
}

/* Problem number i of --random: for a kernel every other one is of a kind that some kernels are made for. */
static conv_problem draw(const step_options *o, bool for_kernel, uint64_t i) {
  const uint64_t seed = o->seed * 1000003 + i;
  return for_kernel && i % 2 ? problem_random_special(seed) : problem_random(seed);
}

int options_draw(step_options *o, const conv_step *step, const conv_device *device) {
  enum { MOST_DRAWS = 1000 /* for one that a kernel can do */ };
  const bool for_kernel = o->kernel && strcmp(o->kernel, "auto") != 0;
  if (!o->random) return 0;
  const size_t most = (size_t)o->random * (size_t)(for_kernel ? step->kernel_count : 1);
  o->suite.problems = malloc(most * sizeof *o->suite.problems);
  if (!o->suite.problems) return bad("--random", "a number of problems that fits memory", "more");
  for (int k = 0; k < (for_kernel ? step->kernel_count : 1); k++) {
    const conv_kernel *kernel = for_kernel ? step->kernels[k] : NULL;
    if (kernel && !options_select(o, kernel)) continue;
    int found = 0;
    const int64_t draws = (int64_t)o->random * MOST_DRAWS;
    /* For every kernel others; not all of them, if it seems to be able to do none. */
    for (int64_t i = 0; found < o->random && i < draws && i < (found + 5LL) * MOST_DRAWS; i++) {
      conv_problem p = draw(o, for_kernel, (uint64_t)(k * draws + i));
      if (set_batch(&p, o->batch)) return -1;
      conv_plan plan;
      if (kernel && kernel_plan_pass(kernel, &p, device, &plan)) continue;
      o->suite.problems[o->suite.count++] = p;
      found++;
    }
    if (found == o->random) continue;
    fprintf(stderr, "--random: expected to draw %d problems that %s can do, drew %d\n", o->random, kernel->name, found);
    return -1;
  }
  return 0;
}

bool options_from_files(const step_options *o) { return o->npy_in[0] || o->npy_in[1] || o->npy_in[2]; }

void options_free(step_options *o) { suite_free(&o->suite); }
