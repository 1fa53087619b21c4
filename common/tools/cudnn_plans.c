/* cuDNN's plans for one problem or a suite: searches, checks the fastest against the reference, times them in turns; a table, and CSV rows.
 *
 *   cudnn_plans --shape mb32ic64ih56oc64oh56kh3ph1 --pass all --dtype fp16 --layout NHWC [--list-all]
 *   cudnn_plans --suite resnet50 --batch 32 --pass all --winners w.csv --append w.csv --csv cudnn.csv */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cudnn/cudnn_csv.h"
#include "common/cudnn/cudnn_work.h"

static const char help_text[] =
    "usage: cudnn_plans [options]\n"
    "  --shape STRING      a benchdnn string (default: mb16ic64ih56oc128oh56kh3ph1)\n"
    "  --suite NAME|FILE   a list of them: a file, or one of common/suites/\n"
    "  --batch N, --mb N   every problem with N images\n"
    "  --pass PASS         fprop, dgrad, wgrad or all (default: fprop)\n"
    "  --dtype TYPE        fp32 or fp16 (default: fp16)\n"
    "  --layout LAYOUT     of the data: NCHW or NHWC (default: NHWC)\n"
    "  --only-layout       plans in that layout alone; else fp32 tries both, fp16 NHWC\n"
    "  --fuse LIST         scale,bias,residual and relu, relu6, gelu or silu after a forward convolution, any of them\n"
    "  --zero-bias         a bias of zeros after a forward convolution, in one graph with it: the same result, other engines\n"
    "  --workspace MIB     a plan's scratch memory at most (default: 1024)\n"
    "  --plans N           plans timed at most (default: 400)\n"
    "  --seconds S         of search at most (default: 10)\n"
    "  --hopeless          also plans that even at the peak of fp32 FMA would be slower than what was found; they can take 20 s to build\n"
    "  --any-math          also plans that round inputs to less, such as TF32, judged by what that may err; the winners' files are left alone\n"
    "  --direct            no plan that computes as Winograd or FFT; the winners' files are left alone\n"
    "  --list-all          every timed plan, not only the fastest\n"
    "  --tag TAG           one plan, no search\n"
    "  --winners FILE      plans of an earlier search, if it has this problem\n"
    "  --append FILE       add the winners to FILE\n"
    "  --csv FILE          add a row for each problem and pass to FILE\n"
    "  --no-check          do not compare with the reference\n"
    "Exit status: 0 all right, 1 a result was wrong or a call failed, 2 bad input or no cuDNN.\n";

typedef struct {
  conv_suite suite;
  bool passes[PASS_COUNT], check, list_all, only_layout, hopeless, zero_bias;
  conv_dtype dtype;
  conv_layout layout;
  conv_epilogue epilogue;
  const char *tag, *csv_path;
  output *csv;
  cudnn_options search;
} settings;

static int bad(const char *option, const char *expected, const char *got) {
  fprintf(stderr, "%s: expected %s, got \"%s\"\n", option, expected, got);
  return -1;
}

static int parse_number(const char *option, const char *text, double highest, double *value) {
  char *end, expected[64];
  *value = strtod(text, &end);
  snprintf(expected, sizeof expected, "a number above 0, at most %.10g", highest);
  return end == text || *end || !(*value > 0 && *value <= highest) ? bad(option, expected, text) : 0;
}

/* The problems: one shape or a suite, with the batch that was asked for. */
static int read_problems(settings *s, const char *shape, const char *suite, int batch) {
  char error[PATH_MAX + 512] = "", path[PATH_MAX];
  int failed = 0;
  if (shape && suite) {
    fprintf(stderr, "--shape, --suite: expected one of them\n");
    return -1;
  }
  if (suite) {
    suite_path(suite, path);
    failed = suite_read(&s->suite, path, error, sizeof error);
  } else if ((s->suite.problems = malloc(sizeof *s->suite.problems))) {
    s->suite.count = 1;
    failed = problem_parse(s->suite.problems, shape ? shape : "mb16ic64ih56oc128oh56kh3ph1", error, sizeof error);
  }
  if (failed) fprintf(stderr, "%s: %s\n", suite ? "--suite" : "--shape", error);
  for (int i = 0; !failed && batch && i < s->suite.count; i++)
    if ((failed = problem_set_batch(&s->suite.problems[i], batch, error, sizeof error))) fprintf(stderr, "--batch: %s\n", error);
  return failed ? -1 : 0;
}

static int parse(settings *s, int argc, char **argv) {
  enum {
    SHAPE = 256,
    SUITE,
    BATCH,
    MB,
    PASS,
    DTYPE,
    LAYOUT,
    ONLY,
    FUSE,
    ZERO_BIAS,
    WORKSPACE,
    PLANS,
    SECONDS,
    HOPELESS,
    ANY_MATH,
    DIRECT,
    ALL,
    TAG,
    WINNERS,
    APPEND,
    CSV,
    NO_CHECK,
    HELP
  };
  static const struct option table[] = {
      {"shape", required_argument, 0, SHAPE},     {"pass", required_argument, 0, PASS},     {"dtype", required_argument, 0, DTYPE},
      {"layout", required_argument, 0, LAYOUT},   {"only-layout", no_argument, 0, ONLY},    {"fuse", required_argument, 0, FUSE},
      {"zero-bias", no_argument, 0, ZERO_BIAS},   {"plans", required_argument, 0, PLANS},   {"workspace", required_argument, 0, WORKSPACE},
      {"seconds", required_argument, 0, SECONDS}, {"list-all", no_argument, 0, ALL},        {"tag", required_argument, 0, TAG},
      {"winners", required_argument, 0, WINNERS}, {"append", required_argument, 0, APPEND}, {"no-check", no_argument, 0, NO_CHECK},
      {"suite", required_argument, 0, SUITE},     {"batch", required_argument, 0, BATCH},   {"mb", required_argument, 0, MB},
      {"csv", required_argument, 0, CSV},         {"hopeless", no_argument, 0, HOPELESS},   {"help", no_argument, 0, HELP},
      {"any-math", no_argument, 0, ANY_MATH},     {"direct", no_argument, 0, DIRECT},       {0},
  };
  *s = (settings){.dtype = DTYPE_FP16, .layout = LAYOUT_NHWC, .check = true};
  const char *shape = NULL, *suite = NULL, *pass = "fprop";
  char wrong[EPILOGUE_NAME];
  int option, failed = 0, batch = 0;
  double number = 0;
  while (!failed && (option = getopt_long(argc, argv, "", table, NULL)) != -1) {
    int known = 0;
    switch (option) {
      case SHAPE: shape = optarg; break;
      case SUITE: suite = optarg; break;
      case MB:
      case BATCH: failed = parse_number(option == MB ? "--mb" : "--batch", optarg, 1e6, &number), batch = (int)number; break;
      case PASS: pass = optarg; break;
      case DTYPE:
        for (int i = 0; i < DTYPE_COUNT; i++)
          if (strcmp(optarg, dtype_name((conv_dtype)i)) == 0) s->dtype = (conv_dtype)i, known = 1;
        if (!known) failed = bad("--dtype", "fp32 or fp16", optarg);
        break;
      case LAYOUT:
        for (int i = 0; i < LAYOUT_COUNT; i++)
          if (strcmp(optarg, layout_name((conv_layout)i)) == 0) s->layout = (conv_layout)i, known = 1;
        if (!known) failed = bad("--layout", "NCHW or NHWC", optarg);
        break;
      case ONLY: s->only_layout = true; break;
      case FUSE:
        if (epilogue_parse(&s->epilogue, optarg, wrong)) failed = bad("--fuse", "scale, bias, residual and one of relu, relu6, gelu, silu, each once", wrong);
        break;
      case ZERO_BIAS: s->zero_bias = true; break;
      case WORKSPACE: failed = parse_number("--workspace", optarg, 1e6, &number), s->search.workspace_limit = (size_t)number << 20; break;
      case PLANS: failed = parse_number("--plans", optarg, 1e6, &number), s->search.most_plans = (int)number; break;
      case SECONDS: failed = parse_number("--seconds", optarg, 1e6, &s->search.most_seconds); break;
      case HOPELESS: s->hopeless = true; break;
      case ANY_MATH: s->search.any_math = true; break;
      case DIRECT: s->search.direct = true; break;
      case ALL: s->list_all = s->search.keep_all = true; break;
      case TAG: s->tag = optarg; break;
      case WINNERS: s->search.winners[0] = optarg; break;
      case APPEND: s->search.append_to = optarg; break;
      case CSV: s->csv_path = optarg; break;
      case NO_CHECK: s->check = false; break;
      case HELP: fputs(help_text, stdout); return 1;
      default: failed = -1; break; /* getopt has printed its line */
    }
  }
  bool any = false;
  for (int i = 0; i < PASS_COUNT; i++) any |= s->passes[i] = strcmp(pass, pass_name((conv_pass)i)) == 0 || strcmp(pass, "all") == 0;
  if (!failed && optind < argc) failed = bad(argv[0], "options only (see --help)", argv[optind]);
  if (!failed && !any) failed = bad("--pass", "fprop, dgrad, wgrad or all", pass);
  if (!failed && !epilogue_empty(&s->epilogue) && (s->passes[PASS_DGRAD] || s->passes[PASS_WGRAD])) failed = bad("--fuse", "--pass fprop", pass);
  if (!failed && s->zero_bias && (strcmp(pass, "fprop") != 0 || !epilogue_empty(&s->epilogue))) failed = bad("--zero-bias", "--pass fprop and no --fuse", pass);
  if (!failed) failed = read_problems(s, shape, suite, batch);
  s->search.layouts[s->layout] = s->only_layout;
  if (s->search.any_math || s->search.direct) s->search.winners[0] = s->search.append_to = NULL;
  return failed;
}

/* ---------------------------------------------------------------- real timing, and the table */

static cudaError_t no_poison(void *context) { return (void)context, cudaSuccess; }
static cudaError_t no_check(void *context, int first, int count) { return (void)context, (void)first, (void)count, cudaSuccess; }

/* What the plans computed was checked when they were chosen. */
static cudaError_t time_plans(const cudnn_work *w, const machine *m, const cudnn_baseline *b, contender turn[CUDNN_BEST + 1]) {
  cudnn_runner runner[CUDNN_BEST + 1];
  memset(turn, 0, (CUDNN_BEST + 1) * sizeof *turn);
  for (int i = 0; i < b->count; i++) {
    runner[i] = (cudnn_runner){b, i};
    turn[i] = (contender){.enqueue = cudnn_enqueue, .poison = no_poison, .check = no_check, .context = &runner[i], .first_seconds = 1e-6 * b->plan[i].us};
  }
  return time_in_turns(turn, b->count, ON_GPU, w->sets.count, m);
}

static void print_plans(const cudnn_work *w, const cudnn_baseline *b, const contender turn[CUDNN_BEST + 1]) {
  const double flops = 2 * problem_macs(w->task.problem);
  printf("        us      min   quick  TFLOP/s   MHz    W  MiB    result              plan\n");
  for (int i = 0; i < b->count; i++) {
    const cudnn_candidate *c = &b->plan[i];
    char result[48] = "not checked";
    if (c->checked) snprintf(result, sizeof result, "right, %.0f %% of bound", 100 * c->worst_share);
    if (c->plain_share > c->worst_share) snprintf(result + strlen(result), sizeof result - strlen(result), " (%.3g)", c->plain_share);
    printf("  %8.2f %8.2f %7.1f  %7.1f  %4.0f %4.0f  %-5.4g  %-18s  %s%s%s%s%s\n", turn[i].median_us, turn[i].min_us, c->us, flops / turn[i].median_us / 1e6,
           turn[i].clock_mhz, turn[i].power_watts, (double)c->workspace / 1048576, result, c->tag, i == b->heuristic ? "  <- heuristic" : "",
           c->notes[0] ? "  (" : "", c->notes, c->notes[0] ? ")" : "");
  }
  for (int i = 0; i < b->all_count; i++)
    printf("    %4d  %8.2f us  %10zu B  %s  (%s)\n", i + 1, b->all[i].us, b->all[i].workspace, b->all[i].tag, b->all[i].notes);
}

static void print_counts(const cudnn_counts *c) {
  printf("  %s%d plans timed (%d compiled at run time) in %.1f s (%.1f building, %.1f timing); left out: %d of other math, %d hopeless, %d refused, %d over "
         "the workspace, "
         "%d not capturable, %d failed, %d wrong; %d cut\n",
         c->from_file ? "from the winners' file: " : "", c->timed, c->runtime_built, c->seconds, c->build_seconds, c->time_seconds, c->other_math, c->hopeless,
         c->refused, c->over_workspace, c->not_capturable, c->failed, c->wrong, c->cut);
  if (c->slowest_build > 1) printf("  the slowest to build: %s, %.1f s\n", c->slowest_tag, c->slowest_build);
  if (c->wrong) printf("  the fastest with a wrong result: %s, %.2f us, its worst error is %.3g times the bound\n", c->wrong_tag, c->wrong_us, c->wrong_share);
}

static int run(const settings *s, const machine *m, const conv_problem *problem, conv_pass pass) {
  char error[CUDNN_ERROR] = "", shape[256], graph[CUDNN_GRAPH_NAME];
  const cudnn_task task = {.problem = problem, .pass = pass, .dtype = s->dtype, .layout = s->layout, .epilogue = s->epilogue, .zero_bias = s->zero_bias};
  const conv_operation operation = {.problem = *problem, .pass = pass, .epilogue = s->epilogue};
  cudnn_work w;
  cudnn_baseline b = {.heuristic = -1};
  contender turn[CUDNN_BEST + 1];
  problem_print(problem, shape, sizeof shape);
  cudnn_graph_name(&task, graph);
  printf("\n%s %s %s %s %s, floor %.4g us\n", shape, pass_name(pass), dtype_name(s->dtype), layout_name(s->layout), graph,
         1e6 * machine_floor(m, &operation, s->dtype));
  int status = cudnn_work_make(&w, &task, m, s->check, error, sizeof error);
  if (!status) {
    const cudnn_truth truth = {&w.host[pass_input_a(pass)], &w.host[pass_input_b(pass)], &w.reference}, *check = s->check ? &truth : NULL;
    status = s->tag ? cudnn_plan_from_tag(&b, &task, s->tag, w.views, w.sets.count, &s->search, check, error, sizeof error)
                    : cudnn_baseline_open(&b, &task, w.views, w.sets.count, &s->search, check, error, sizeof error);
    print_counts(&b.counts);
  }
  if (!status) {
    const cudaError_t timed = time_plans(&w, m, &b, turn);
    if (timed) snprintf(error, sizeof error, "timing: %s", cudaGetErrorString(timed));
    if (!timed) print_plans(&w, &b, turn);
    status = timed != cudaSuccess;
    if (!timed && s->csv) cudnn_csv_add(s->csv, &task, m, &b, turn);
  }
  if (status) fprintf(stderr, "  %s\n", error);
  fflush(stdout);
  cudnn_baseline_close(&b);
  cudnn_work_free(&w);
  return status != 0;
}

/* Files that get rows: can they? Returns 0, or 2 after a line on stderr. */
static int open_files(settings *s) {
  if (s->csv_path && !(s->csv = output_append("--csv", s->csv_path))) return 2;
  output *winners = s->search.append_to ? output_append("--append", s->search.append_to) : NULL;
  if (s->search.append_to && !winners) return 2;
  return output_close(winners) ? 2 : 0;
}

int main(int argc, char **argv) {
  settings s;
  output_start();
  const int parsed = parse(&s, argc, argv);
  if (parsed) return parsed < 0 ? 2 : 0;
  machine m;
  char error[512];
  if (!cudnn_version() || machine_open_gpu(&m, error, sizeof error)) {
    fprintf(stderr, "%s\n", cudnn_version() ? error : cudnn_describe());
    return 2;
  }
  if (open_files(&s)) return 2;
  printf("%s on %s\n", cudnn_describe(), m.device.name);
  s.search.gpu = m.device.name;
  s.search.fp32_flops = s.hopeless ? 0 : m.peaks.fp32_flops;
  int status = 0;
  for (int i = 0; i < s.suite.count; i++)
    for (int pass = 0; pass < PASS_COUNT; pass++)
      if (s.passes[pass]) status |= run(&s, &m, &s.suite.problems[i], (conv_pass)pass);
  suite_free(&s.suite);
  return output_close(s.csv) ? 1 : status;
}
