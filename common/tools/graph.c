/* Several operations one after the other, by the kernels of all steps: verified one by one and as a whole, timed on a GPU beside cuDNN.
 *
 *   build/emu/tools/graph mb2ic8ih14oc16kh3ph1+bias+relu mb2ic16ih14oc8kh3ph1
 *   build/emu/tools/graph --dtype fp16 g32mb2ic32ih14oc32kh3ph1+bias+relu g32mb2ic32ih14oc32kh3ph1 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/files/output.h"
#include "common/harness/graph_parse.h"
#include "common/harness/graph_time.h"

static const char help_text[] =
    "usage: graph [options] OPERATION...\n" GRAPH_OPERATION_HELP "  --dtype fp32|fp16  of all tensors; fp32 in NCHW, fp16 in NHWC (default: fp32)\n"
    "  --seed N           of the data (default: 1)\n"
    "  --unfused          a kernel for each operation, even where one can do several\n"
    "  --no-time          verify only\n"
    "  --verify WHERE     host or device: where right answers are worked out and compared (default: the GPU that runs the kernels)\n"
    "Exit status: 0 all right, 1 a result was wrong or a call failed, 2 bad input.\n";

static int bad(const char *what, const char *expected, const char *got) {
  fprintf(stderr, "%s: expected %s, got \"%s\"\n", what, expected, got);
  return 2;
}

static void print_operation(const conv_graph *g, const graph_plan *plan, int i, const conv_verdict *v, bool integers) {
  static const char *const kinds[] = {"", "pointwise ", "max-pool "};
  const conv_operation *o = &g->operation[i].what;
  char shape[256], epilogue[EPILOGUE_NAME];
  problem_print(&o->problem, shape, sizeof shape);
  epilogue_print(&o->epilogue, epilogue);
  const conv_kernel *k = plan->kernel[i];
  const chain_kernel *chain = plan->chain[i];
  printf("  %d  %s%s%s  ", i + 1, kinds[o->kind], shape, epilogue);
  if (k || chain) printf("by %s%s%s: ", k ? k->name : chain->name, *plan->plan[i].words ? ", " : "", plan->plan[i].words);
  else printf("by the same: ");
  if (g->tensor[g->operation[i].y].use == USE_INSIDE) printf("inside the kernel\n");
  else if (v->right && integers) printf("exact on integers\n");
  else if (v->right) printf("%.0f %% of the error bound\n", 100 * v->worst_share);
  else printf("WRONG\n");
}

/* Verifies with one kind of data. Returns 0 or 1. */
static int verify(conv_graph *g, const graph_plan *plan, uint64_t seed, bool integers, bool on_device) {
  graph_verdict v;
  graph_fill(g, seed, integers);
  const cudaError_t status = graph_verify(g, plan, integers, on_device, stdout, &v);
  if (status) return fprintf(stderr, "graph: %s\n", cudaGetErrorString(status)), 1;
  if (integers && strstr(v.note, "integers")) return printf("not compared on integers: %s\n", v.note), 0;
  for (int i = 0; i < g->operations; i++) print_operation(g, plan, i, &v.operation[i], integers);
  if (!v.right) return printf("WRONG: %s\n", v.note), 1;
  if (!integers) printf("the chain in fp64, rounded between operations: off by %.2g of its largest value in the end\n", v.drift);
  return 0;
}

static int time_it(const conv_graph *g, const graph_plan *plan, const conv_graph *asked, const machine *m) {
  graph_figures f;
  const cudaError_t status = graph_time(g, plan, asked, &(graph_timing){.cudnn = true}, m, &f);
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
  enum { DTYPE = 256, SEED, UNFUSED, NO_TIME, VERIFY, HELP };
  static const struct option table[] = {{"dtype", required_argument, 0, DTYPE},
                                        {"seed", required_argument, 0, SEED},
                                        {"unfused", no_argument, 0, UNFUSED},
                                        {"no-time", no_argument, 0, NO_TIME},
                                        {"verify", required_argument, 0, VERIFY},
                                        {"help", no_argument, 0, HELP},
                                        {0}};
  conv_graph asked = {.dtype = DTYPE_FP32, .layout = LAYOUT_NCHW};
  bool timing = true, chains = true;
  const char *where = NULL;
  uint64_t seed = 1;
  int option, y[GRAPH_OPERATIONS + 1], failed = 0;
  char *end, error[512], why[GRAPH_ERROR];
  output_start();
  while ((option = getopt_long(argc, argv, "", table, NULL)) != -1) {
    if (option == HELP) return fputs(help_text, stdout), 0;
    if (option == UNFUSED) chains = false;
    if (option == NO_TIME) timing = false;
    if (option == SEED && (seed = strtoull(optarg, &end, 10), *end || end == optarg)) return bad("--seed", "an integer", optarg);
    if (option == DTYPE && strcmp(optarg, "fp32") != 0 && strcmp(optarg, "fp16") != 0) return bad("--dtype", "fp32 or fp16", optarg);
    if (option == DTYPE && strcmp(optarg, "fp16") == 0) asked.dtype = DTYPE_FP16, asked.layout = LAYOUT_NHWC;
    if (option == VERIFY) where = optarg;
    if (option == '?') return 2;
  }
  if (optind == argc) return bad("graph", "operations (see --help)", "");
  for (int i = optind; i < argc && !failed; i++) failed = graph_parse(&asked, argv[i], y, why) ? (fprintf(stderr, "%s\n", why), 2) : 0;
  if (failed) return failed;
  if (where && strcmp(where, "host") != 0 && strcmp(where, "device") != 0) return bad("--verify", "host or device", where);
  machine m;
  if (machine_open_gpu(&m, error, sizeof error)) return fprintf(stderr, "%s\n", error), 2;
  conv_graph g = asked;
  static graph_plan plan;
  int steps = 0;
  while (all_steps[steps]) steps++;
  if (graph_choose(&g, all_steps, steps, chains, &m.device, &plan, why)) return fprintf(stderr, "graph: %s\n", why), 2;
  int status = graph_alloc(&g, why) ? (fprintf(stderr, "graph: %s\n", why), 2) : 0;
  const bool on_device = where ? strcmp(where, "device") == 0 : !m.device.emulated;
  if (!status) status = verify(&g, &plan, seed, true, on_device);
  if (!status) status = verify(&g, &plan, seed, false, on_device);
  if (!status && timing && !m.device.emulated) status = time_it(&g, &plan, &asked, &m);
  graph_free(&g);
  return status;
}
