/* cuDNN's plans for one problem: searches, checks the fastest against the reference, times them in turns and prints a table.
 *
 *   cudnn_plans --shape mb32ic64ih56oc64oh56kh3ph1 --pass all --dtype fp16 --layout NHWC [--list-all] */
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/bound.h"
#include "common/buffers.h"
#include "common/cudnn.h"
#include "common/timing.h"
#include "common/verify.h"

static const char help_text[] =
    "usage: cudnn_plans [options]\n"
    "  --shape STRING      a benchdnn string (default: mb16ic64ih56oc128oh56kh3ph1)\n"
    "  --pass PASS         fprop, dgrad, wgrad or all (default: fprop)\n"
    "  --dtype TYPE        fp32 or fp16 (default: fp16)\n"
    "  --layout LAYOUT     of the data: NCHW or NHWC (default: NHWC)\n"
    "  --only-layout       plans in that layout alone; else fp32 tries both, fp16 NHWC\n"
    "  --fuse LIST         scale,bias,residual,relu after a forward convolution, any of them\n"
    "  --workspace MIB     a plan's scratch memory at most (default: 1024)\n"
    "  --plans N           plans timed at most (default: 200)\n"
    "  --seconds S         of search at most (default: 10)\n"
    "  --list-all          every timed plan, not only the fastest\n"
    "  --tag TAG           one plan, no search\n"
    "  --winners FILE      plans of an earlier search, if it has this problem\n"
    "  --append FILE       add the winners to FILE\n"
    "  --no-check          do not compare with the reference\n"
    "Exit status: 0 all right, 1 a result was wrong or a call failed, 2 bad input or no cuDNN.\n";

typedef struct {
  conv_problem problem;
  bool passes[PASS_COUNT], check, list_all, only_layout;
  conv_dtype dtype;
  conv_layout layout;
  unsigned fuse;
  const char *tag;
  cudnn_options search;
} settings;

/* What one pass works on. */
typedef struct {
  const settings *set;
  const machine *m;
  cudnn_task task;
  conv_tensor host[3];
  conv_reference reference;
  buffer_sets sets;
  conv_buffers *views;
  cudnn_epilogue *epilogues;
  void *extra; /* device: scale, bias, residuals */
} work;

static int bad(const char *option, const char *expected, const char *got) {
  fprintf(stderr, "%s: expected %s, got \"%s\"\n", option, expected, got);
  return -1;
}

static int parse_fuse(const char *text, unsigned *fuse) {
  static const char *const names[FUSE_COUNT] = {"scale", "bias", "residual", "relu"};
  char copy[128], *rest = copy, *word;
  snprintf(copy, sizeof copy, "%s", text);
  while ((word = strsep(&rest, ","))) {
    int found = -1;
    for (int i = 0; i < FUSE_COUNT; i++)
      if (strcmp(word, names[i]) == 0) found = i;
    if (found < 0) return bad("--fuse", "scale, bias, residual or relu", word);
    *fuse |= 1u << found;
  }
  return 0;
}

static int parse(settings *s, int argc, char **argv) {
  enum { SHAPE = 256, PASS, DTYPE, LAYOUT, ONLY, FUSE, WORKSPACE, PLANS, SECONDS, ALL, TAG, WINNERS, APPEND, NO_CHECK, HELP };
  static const struct option table[] = {
      {"shape", required_argument, 0, SHAPE},   {"pass", required_argument, 0, PASS},           {"dtype", required_argument, 0, DTYPE},
      {"layout", required_argument, 0, LAYOUT}, {"only-layout", no_argument, 0, ONLY},          {"fuse", required_argument, 0, FUSE},
      {"plans", required_argument, 0, PLANS},   {"workspace", required_argument, 0, WORKSPACE}, {"seconds", required_argument, 0, SECONDS},
      {"list-all", no_argument, 0, ALL},        {"tag", required_argument, 0, TAG},             {"winners", required_argument, 0, WINNERS},
      {"append", required_argument, 0, APPEND}, {"no-check", no_argument, 0, NO_CHECK},         {"help", no_argument, 0, HELP},
      {0},
  };
  *s = (settings){.dtype = DTYPE_FP16, .layout = LAYOUT_NHWC, .check = true};
  const char *shape = "mb16ic64ih56oc128oh56kh3ph1", *pass = "fprop";
  int option, failed = 0;
  while (!failed && (option = getopt_long(argc, argv, "", table, NULL)) != -1) {
    int known = 0;
    switch (option) {
      case SHAPE: shape = optarg; break;
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
      case FUSE: failed = parse_fuse(optarg, &s->fuse); break;
      case WORKSPACE: s->search.workspace_limit = (size_t)strtoull(optarg, NULL, 10) << 20; break;
      case PLANS: s->search.most_plans = atoi(optarg); break;
      case SECONDS: s->search.most_seconds = atof(optarg); break;
      case ALL: s->list_all = s->search.keep_all = true; break;
      case TAG: s->tag = optarg; break;
      case WINNERS: s->search.winners[0] = optarg; break;
      case APPEND: s->search.append_to = optarg; break;
      case NO_CHECK: s->check = false; break;
      case HELP: fputs(help_text, stdout); return 1;
      default: failed = -1; break;
    }
  }
  bool any = false;
  for (int i = 0; i < PASS_COUNT; i++) any |= s->passes[i] = strcmp(pass, pass_name((conv_pass)i)) == 0 || strcmp(pass, "all") == 0;
  char error[512];
  if (!failed && !any) failed = bad("--pass", "fprop, dgrad, wgrad or all", pass);
  if (!failed && s->fuse && (s->passes[PASS_DGRAD] || s->passes[PASS_WGRAD])) failed = bad("--fuse", "--pass fprop", pass);
  if (!failed && problem_parse(&s->problem, shape, error, sizeof error)) {
    fprintf(stderr, "--shape: %s\n", error);
    failed = -1;
  }
  s->search.layouts[s->layout] = s->only_layout;
  return failed;
}

/* ---------------------------------------------------------------- data */

/* Scale, bias and residual, on the device and in the reference: value = relu(scale * conv + bias + residual), where the bound's sum grows
 * by what is added. Residuals lie behind one another, one for each set. */
static cudaError_t make_epilogues(work *w) {
  const unsigned fuse = w->task.fuse;
  if (!fuse) return cudaSuccess;
  const conv_tensor *y = &w->host[TENSOR_Y];
  const int K = w->task.problem->K, sets = w->sets.count;
  const size_t channel_bytes = ((size_t)K * sizeof(float) + 511) / 512 * 512, residual_bytes = (tensor_bytes(y) + 511) / 512 * 512;
  conv_tensor residual = *y, channels = {.dtype = DTYPE_FP32, .layout = LAYOUT_NCHW, .dim = {2, K, 1, 1}, .stride = {K, 1, 1, 1}, .count = 2 * (int64_t)K};
  residual.data = NULL;
  w->epilogues = calloc((size_t)sets, sizeof *w->epilogues);
  if (!w->epilogues || tensor_alloc(&residual) || tensor_alloc(&channels)) return cudaErrorMemoryAllocation;
  tensor_fill_normal(&residual, 11);
  tensor_fill_normal(&channels, 12);
  const float *scale = channels.data, *bias = scale + K;
  cudaError_t status = cudaMalloc(&w->extra, 2 * channel_bytes + (size_t)sets * residual_bytes);
  char *at = w->extra;
  if (!status) status = cudaMemcpy(at, scale, (size_t)K * sizeof(float), cudaMemcpyHostToDevice);
  if (!status) status = cudaMemcpy(at + channel_bytes, bias, (size_t)K * sizeof(float), cudaMemcpyHostToDevice);
  for (int i = 0; i < sets && !status; i++) {
    char *mine = at + 2 * channel_bytes + (size_t)i * residual_bytes;
    status = cudaMemcpy(mine, residual.data, tensor_bytes(y), cudaMemcpyHostToDevice);
    w->epilogues[i] = (cudnn_epilogue){(float *)(void *)at, (float *)(void *)(at + channel_bytes), mine};
  }
  for (int64_t i = 0; w->set->check && i < w->reference.shape.count; i++) {
    int c[4];
    tensor_coordinates(&w->reference.shape, i, c);
    double v = w->reference.value[i], sum = (double)w->reference.scale[i];
    if (fuse & FUSE_SCALE) v *= (double)scale[c[1]], sum *= fabs((double)scale[c[1]]);
    const double added = (fuse & FUSE_BIAS ? (double)bias[c[1]] : 0), more = (fuse & FUSE_RESIDUAL ? (double)tensor_get(&residual, i) : 0);
    v += added + more;
    sum += fabs(added) + fabs(more);
    w->reference.value[i] = fuse & FUSE_RELU ? fmax(v, 0) : v;
    w->reference.scale[i] = round_scale(sum);
  }
  tensor_free(&residual), tensor_free(&channels);
  return status;
}

static int fail(char *error, size_t size, const char *what, const char *why) {
  snprintf(error, size, "%s: %s", what, why);
  return -1;
}

static int prepare(work *w, char *error, size_t error_size) {
  const cudnn_task *t = &w->task;
  const tensor_role a = pass_input_a(t->pass), b = pass_input_b(t->pass);
  for (int role = 0; role < 3; role++) {
    w->host[role] = tensor_describe(t->problem, (tensor_role)role, t->dtype, t->layout);
    if (tensor_alloc(&w->host[role])) return fail(error, error_size, "tensors", "no host memory");
  }
  tensor_fill_normal(&w->host[a], 1);
  tensor_fill_normal(&w->host[b], 2);
  if (w->set->check && reference_compute(&w->reference, t->problem, t->pass, &w->host[a], &w->host[b], true, true, error, error_size)) return -1;
  w->sets = buffer_sets_plan(ON_GPU, w->host, 0);
  const int wanted = timing_sets(w->sets.bytes[0] + w->sets.bytes[1] + w->sets.bytes[2], w->m->device.l2_bytes);
  cudaError_t status = buffer_sets_alloc(&w->sets, wanted);
  if (!status) status = buffer_upload(&w->sets, (int)a, w->host[a].data);
  if (!status) status = buffer_upload(&w->sets, (int)b, w->host[b].data);
  if (!status) status = buffer_replicate(&w->sets);
  if (!status) status = make_epilogues(w);
  w->views = calloc((size_t)wanted, sizeof *w->views);
  for (int i = 0; w->views && i < wanted; i++) w->views[i] = buffer_view(&w->sets, i);
  return status || !w->views ? fail(error, error_size, "buffers", cudaGetErrorString(status)) : 0;
}

static void release(work *w) {
  for (int role = 0; role < 3; role++) tensor_free(&w->host[role]);
  reference_free(&w->reference);
  buffer_sets_free(&w->sets);
  cudaFree(w->extra);
  free(w->views);
  free(w->epilogues);
}

/* ---------------------------------------------------------------- real timing, and the table */

static cudaError_t no_poison(void *context) { return (void)context, cudaSuccess; }
static cudaError_t no_check(void *context, int first, int count) { return (void)context, (void)first, (void)count, cudaSuccess; }

static cudaError_t print_plans(const work *w, const cudnn_baseline *b) {
  cudnn_runner runner[CUDNN_BEST + 1];
  contender turn[CUDNN_BEST + 1];
  memset(turn, 0, sizeof turn);
  for (int i = 0; i < b->count; i++) {
    runner[i] = (cudnn_runner){b, i};
    turn[i] = (contender){.enqueue = cudnn_enqueue, .poison = no_poison, .check = no_check, .context = &runner[i], .first_seconds = 1e-6 * b->plan[i].us};
  }
  const cudaError_t status = time_in_turns(turn, b->count, ON_GPU, w->sets.count, w->m);
  if (status) return status;
  const double flops = 2 * problem_macs(w->task.problem);
  printf("        us      min   quick  TFLOP/s   MHz    W  MiB    result              plan\n");
  for (int i = 0; i < b->count; i++) {
    const cudnn_candidate *c = &b->plan[i];
    char result[32] = "not checked";
    if (c->checked) snprintf(result, sizeof result, "right, %.0f %% of bound", 100 * c->worst_share);
    printf("  %8.2f %8.2f %7.1f  %7.1f  %4.0f %4.0f  %-5.4g  %-18s  %s%s%s%s%s\n", turn[i].median_us, turn[i].min_us, c->us,
           flops / turn[i].median_us / 1e6, turn[i].clock_mhz, turn[i].power_watts, (double)c->workspace / 1048576, result, c->tag, i == b->heuristic ? "  <- heuristic" : "", c->notes[0] ? "  (" : "", c->notes,
           c->notes[0] ? ")" : "");
  }
  for (int i = 0; i < b->all_count; i++)
    printf("    %4d  %8.2f us  %10zu B  %s  (%s)\n", i + 1, b->all[i].us, b->all[i].workspace, b->all[i].tag, b->all[i].notes);
  return cudaSuccess;
}

static void print_counts(const cudnn_counts *c) {
  printf("  %s%d plans timed (%d compiled at run time) in %.1f s (%.1f building, %.1f timing); left out: %d of other math, %d hopeless, %d refused, %d over the workspace, "
         "%d not capturable, %d failed, %d wrong; %d cut\n",
         c->from_file ? "from the winners' file: " : "", c->timed, c->runtime_built, c->seconds, c->build_seconds, c->time_seconds, c->other_math, c->hopeless, c->refused,
         c->over_workspace, c->not_capturable, c->failed, c->wrong, c->cut);
  if (c->slowest_build > 1) printf("  the slowest to build: %s, %.1f s\n", c->slowest_tag, c->slowest_build);
  if (c->wrong) printf("  the fastest with a wrong result: %s, its worst error is %.3g times the bound\n", c->wrong_tag, c->wrong_share);
}

static int run(const settings *s, const machine *m, conv_pass pass) {
  char error[CUDNN_ERROR] = "", shape[256], graph[CUDNN_GRAPH_NAME];
  work w = {.set = s, .m = m, .task = {.problem = &s->problem, .pass = pass, .dtype = s->dtype, .layout = s->layout, .fuse = s->fuse}};
  problem_print(&s->problem, shape, sizeof shape);
  cudnn_graph_name(s->fuse, graph);
  printf("\n%s %s %s %s %s, floor %.4g us\n", shape, pass_name(pass), dtype_name(s->dtype), layout_name(s->layout), graph,
         1e6 * machine_floor(m, &s->problem, pass, s->dtype));
  int status = prepare(&w, error, sizeof error);
  cudnn_baseline b = {.heuristic = -1};
  if (!status) {
    const cudnn_truth truth = {&w.host[pass_input_a(pass)], &w.host[pass_input_b(pass)], &w.reference}, *check = s->check ? &truth : NULL;
    status = s->tag ? cudnn_plan_from_tag(&b, &w.task, s->tag, w.views, w.epilogues, w.sets.count, &s->search, check, error, sizeof error)
                    : cudnn_baseline_open(&b, &w.task, w.views, w.epilogues, w.sets.count, &s->search, check, error, sizeof error);
    print_counts(&b.counts);
  }
  if (!status) {
    const cudaError_t timed = print_plans(&w, &b);
    if (timed) status = fail(error, sizeof error, "timing", cudaGetErrorString(timed));
  }
  if (status) fprintf(stderr, "  %s\n", error);
  cudnn_baseline_close(&b);
  release(&w);
  return status != 0;
}

int main(int argc, char **argv) {
  settings s;
  const int parsed = parse(&s, argc, argv);
  if (parsed) return parsed < 0 ? 2 : 0;
  machine m;
  char error[512];
  if (!cudnn_version() || machine_open_gpu(&m, error, sizeof error)) {
    fprintf(stderr, "%s\n", cudnn_version() ? error : cudnn_describe());
    return 2;
  }
  printf("%s on %s\n", cudnn_describe(), m.device.name);
  s.search.gpu = m.device.name;
  s.search.fp32_flops = m.peaks.fp32_flops;
  int status = 0;
  for (int pass = 0; pass < PASS_COUNT; pass++)
    if (s.passes[pass]) status |= run(&s, &m, (conv_pass)pass);
  return status;
}
