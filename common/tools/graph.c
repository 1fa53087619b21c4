/* Several operations one after the other, by the kernels of all steps: verified one by one and as a whole, timed on a GPU beside cuDNN.
 *
 *   build/emu/tools/graph mb2ic8ih14oc16kh3ph1+bias+relu mb2ic16ih14oc8kh3ph1
 *   build/emu/tools/graph --dtype fp16 g32mb2ic32ih14oc32kh3ph1+bias+relu g32mb2ic32ih14oc32kh3ph1 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/harness/graph_time.h"

static const char help_text[] =
    "usage: graph [options] OPERATION...\n"
    "An OPERATION is a benchdnn string, or pool:STRING for max-pooling, and what follows in it: +scale +bias +residual, one of +relu +relu6 +gelu +silu.\n"
    "Each reads what the one before it wrote. A residual is a new tensor; +residual=N: the result of operation N, 0: what the first one reads.\n"
    "  --dtype fp32|fp16  of all tensors; fp32 in NCHW, fp16 in NHWC (default: fp32)\n"
    "  --seed N           of the data (default: 1)\n"
    "  --no-time          verify only\n"
    "Exit status: 0 all right, 1 a result was wrong or a call failed, 2 bad input.\n";

static int bad(const char *what, const char *expected, const char *got) {
  fprintf(stderr, "%s: expected %s, got \"%s\"\n", what, expected, got);
  return 2;
}

/* Appends what the text says. y: the results so far, y[0] the first input. Returns 0 or 2. */
static int append(conv_graph *g, const char *text, int y[GRAPH_OPERATIONS + 1]) {
  char shape[256], epilogue[128] = "", wrong[EPILOGUE_NAME], error[512];
  const bool pools = strncmp(text, "pool:", 5) == 0;
  const char *from = pools ? text + 5 : text;
  const size_t length = strcspn(from, "+");
  conv_operation o = {.kind = pools ? OPERATION_MAX_POOL : OPERATION_CONVOLUTION, .pass = PASS_FPROP};
  int residual = -1;
  snprintf(shape, sizeof shape, "%.*s", (int)length, from);
  if (length >= sizeof shape || strlen(from + length) >= sizeof epilogue) return bad("OPERATION", "a benchdnn string and up to four words", text);
  char *to = epilogue;
  for (const char *c = from[length] ? from + length + 1 : ""; *c; c++) {
    if (*c == '=') { /* +residual=N */
      char *end;
      const long n = strtol(c + 1, &end, 10);
      if (end == c + 1 || (*end && *end != '+') || n < 0 || n > g->operations || y[n] < 0 || to - epilogue < 8 || memcmp(to - 8, "residual", 8) != 0)
        return bad("OPERATION", "+residual=N with N the number of an operation before it, or 0", text);
      residual = y[n];
      c = end - 1;
    } else {
      *to++ = *c == '+' ? ',' : *c;
    }
  }
  *to = 0;
  if (problem_parse(&o.problem, shape, error, sizeof error)) return fprintf(stderr, "%s\n", error), 2;
  if (*epilogue && epilogue_parse(&o.epilogue, epilogue, wrong))
    return bad("OPERATION", "scale, bias, residual and one of relu, relu6, gelu, silu, each once", wrong);
  char why[GRAPH_ERROR];
  const int result = graph_append(g, &o, g->operations ? y[g->operations] : -1, residual, why);
  if (result < 0) return fprintf(stderr, "%s\n", why), 2;
  y[0] = g->operation[0].x;
  y[g->operations] = result;
  return 0;
}

static void print_operation(const conv_graph *g, const graph_plan *plan, int i, const conv_verdict *v, bool integers) {
  static const char *const kinds[] = {"", "pointwise ", "max-pool "};
  const conv_operation *o = &g->operation[i].what;
  char shape[256], epilogue[EPILOGUE_NAME];
  problem_print(&o->problem, shape, sizeof shape);
  epilogue_print(&o->epilogue, epilogue);
  printf("  %d  %s%s%s  by %s%s%s: ", i + 1, kinds[o->kind], shape, epilogue, plan->kernel[i]->name, *plan->plan[i].words ? ", " : "", plan->plan[i].words);
  if (v->right && integers) printf("exact on integers\n");
  else if (v->right) printf("%.0f %% of the error bound\n", 100 * v->worst_share);
  else printf("WRONG\n");
}

/* Verifies with one kind of data. Returns 0 or 1. */
static int verify(conv_graph *g, const graph_plan *plan, uint64_t seed, bool integers) {
  graph_verdict v;
  graph_fill(g, seed, integers);
  const cudaError_t status = graph_verify(g, plan, integers, stdout, &v);
  if (status) return fprintf(stderr, "graph: %s\n", cudaGetErrorString(status)), 1;
  if (integers && strstr(v.note, "integers")) return printf("not compared on integers: %s\n", v.note), 0;
  for (int i = 0; i < g->operations; i++) print_operation(g, plan, i, &v.operation[i], integers);
  if (!v.right) return printf("WRONG: %s\n", v.note), 1;
  if (!integers) printf("the chain in fp64, rounded between operations: off by %.2g of its largest value in the end\n", v.drift);
  return 0;
}

static int time_it(const conv_graph *g, const graph_plan *plan, const conv_graph *asked, const machine *m) {
  graph_figures f;
  const cudaError_t status = graph_time(g, plan, asked, m, &f);
  if (status) return fprintf(stderr, "timing: %s\n", cudaGetErrorString(status)), 1;
  printf("all: %.1f us (min %.1f), floors of the operations %.1f us", f.us, f.min_us, f.floor_us);
  if (f.cudnn_us > 0) {
    printf("; cuDNN %.1f us", f.cudnn_us);
    for (int i = 0; i < asked->operations; i++) printf("%s%s", i ? ", " : " (", f.cudnn_plans[i]);
    printf(")");
  }
  printf("%s%s\n", *f.note ? "; " : "", f.note);
  return strstr(f.note, "other bits") != NULL;
}

int main(int argc, char **argv) {
  enum { DTYPE = 256, SEED, NO_TIME, HELP };
  static const struct option table[] = {
      {"dtype", required_argument, 0, DTYPE}, {"seed", required_argument, 0, SEED}, {"no-time", no_argument, 0, NO_TIME}, {"help", no_argument, 0, HELP}, {0}};
  conv_graph asked = {.dtype = DTYPE_FP32, .layout = LAYOUT_NCHW};
  bool timing = true;
  uint64_t seed = 1;
  int option, y[GRAPH_OPERATIONS + 1], failed = 0;
  char *end, error[512], why[GRAPH_ERROR];
  while ((option = getopt_long(argc, argv, "", table, NULL)) != -1) {
    if (option == HELP) return fputs(help_text, stdout), 0;
    if (option == NO_TIME) timing = false;
    if (option == SEED && (seed = strtoull(optarg, &end, 10), *end || end == optarg)) return bad("--seed", "an integer", optarg);
    if (option == DTYPE && strcmp(optarg, "fp32") != 0 && strcmp(optarg, "fp16") != 0) return bad("--dtype", "fp32 or fp16", optarg);
    if (option == DTYPE && strcmp(optarg, "fp16") == 0) asked.dtype = DTYPE_FP16, asked.layout = LAYOUT_NHWC;
    if (option == '?') return 2;
  }
  if (optind == argc) return bad("graph", "operations (see --help)", "");
  for (int i = optind; i < argc && !failed; i++) failed = append(&asked, argv[i], y);
  if (failed) return failed;
  machine m;
  if (machine_open_gpu(&m, error, sizeof error)) return fprintf(stderr, "%s\n", error), 2;
  conv_graph g = asked;
  static graph_plan plan;
  int steps = 0;
  while (all_steps[steps]) steps++;
  if (graph_choose(&g, all_steps, steps, &m.device, &plan, why)) return fprintf(stderr, "graph: %s\n", why), 2;
  int status = graph_alloc(&g, why) ? (fprintf(stderr, "graph: %s\n", why), 2) : 0;
  if (!status) status = verify(&g, &plan, seed, true);
  if (!status) status = verify(&g, &plan, seed, false);
  if (!status && timing && !m.device.emulated) status = time_it(&g, &plan, &asked, &m);
  graph_free(&g);
  return status;
}
