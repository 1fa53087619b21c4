/* Several operations one after the other, by the kernels of all steps: verified one by one and as a whole, timed on a GPU beside cuDNN.
 *
 *   build/emu/tools/graph mb2ic8ih14oc16kh3ph1+bias+relu mb2ic16ih14oc8kh3ph1
 *   build/emu/tools/graph --dtype fp16 g32mb2ic32ih14oc32kh3ph1+bias+relu g32mb2ic32ih14oc32kh3ph1 */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/cudnn/cudnn.h"
#include "common/files/output.h"
#include "common/harness/graph_parse.h"
#include "common/harness/graph_time.h"
#include "common/harness/report.h"

static const char help_text[] =
    "usage: graph [options] OPERATION...\n" GRAPH_OPERATION_HELP "  --dtype fp32|fp16  of all tensors; fp32 in NCHW, fp16 in NHWC (default: fp32)\n"
    "  --seed N           of the data (default: 1)\n"
    "  --unfused          a kernel for each operation, even where one can do several\n"
    "  --no-time          verify only\n"
    "  --seconds S        of a search of cuDNN's plans for one operation (default: 10)\n"
    "  --csv FILE         a row with its kernels and times\n"
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

/* A row: the operations as they were typed, the kernels, and times. */
static void write_row(FILE *file, char *const word[], int words, const conv_graph *g, const graph_plan *plan, const graph_figures *f, const machine *m) {
  char date[32], cuda[16], driver[16];
  const time_t now = time(NULL);
  strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", gmtime(&now));
  version_text(m->runtime_version, cuda), version_text(m->driver_version, driver);
  fputs("gpu,driver,cuda,cudnn,date,chain,kernels,us,us_min,cudnn_us,cudnn_plans,floor_us,us_in_order,early_share,cudnn_early_share\n", file);
  csv_text(file, m->device.name);
  static char chain[GRAPH_OPERATIONS * 400]; /* a word that was parsed is shorter */
  for (int i = 0; i < words; i++) snprintf(chain + strlen(chain), sizeof chain - strlen(chain), "%s%s", i ? " " : "", word[i]);
  fprintf(file, ",%s,%s,%d,%s,", driver, cuda, f->cudnn_us > 0 ? cudnn_version() : 0, date);
  csv_text(file, chain);
  fputc(',', file);
  for (int i = 0, count = 0; i < g->operations; i++)
    if (plan->kernel[i] || plan->chain[i]) fprintf(file, "%s%s", count++ ? " " : "", plan->kernel[i] ? plan->kernel[i]->name : plan->chain[i]->name);
  fprintf(file, ",%.3f,%.3f,%.3f,", f->us, f->min_us, f->cudnn_us);
  for (int i = 0; i < words && f->cudnn_us > 0; i++) fprintf(file, "%s%s", i ? " " : "", f->cudnn_plans[i]);
  fprintf(file, ",%.3f,%.3f,%.2f,%.2f\n", f->floor_us, f->in_order_us, f->early_share, f->cudnn_early_share);
}

/* What is asked of a run. */
typedef struct request {
  bool timing, chains;
  double seconds;
  uint64_t seed;
  const char *verify, *csv;
} request;

static int time_it(const conv_graph *g, const graph_plan *plan, const conv_graph *asked, const machine *m, double seconds, graph_figures *f) {
  const cudaError_t status = graph_time(g, plan, asked, &(graph_timing){.cudnn = true, .in_order = true, .seconds = seconds}, m, f);
  if (status) return fprintf(stderr, "timing: %s%s%s\n", cudaGetErrorString(status), *f->note ? ": " : "", f->note), 1;
  printf("all: %.1f us (min %.1f; each kernel after the one before it %.1f), floors of the operations %.1f us", f->us, f->min_us, f->in_order_us, f->floor_us);
  if (f->cudnn_us > 0) {
    printf("; cuDNN %.1f us", f->cudnn_us);
    for (int i = 0; i < asked->operations; i++) printf("%s%s", i ? ", " : " (", f->cudnn_plans[i]);
    printf(")");
  }
  printf("%s%s\n", *f->note ? "; " : "", f->note);
  return f->differs;
}

int main(int argc, char **argv) {
  enum { DTYPE = 256, SEED, UNFUSED, NO_TIME, VERIFY, SECONDS, CSV, HELP };
  static const struct option table[] = {
      {"dtype", required_argument, 0, DTYPE}, {"seed", required_argument, 0, SEED},     {"unfused", no_argument, 0, UNFUSED},
      {"no-time", no_argument, 0, NO_TIME},   {"verify", required_argument, 0, VERIFY}, {"seconds", required_argument, 0, SECONDS},
      {"csv", required_argument, 0, CSV},     {"help", no_argument, 0, HELP},           {0}};
  conv_graph asked = {.dtype = DTYPE_FP32, .layout = LAYOUT_NCHW};
  request r = {.timing = true, .chains = true, .seed = 1};
  int option, y[GRAPH_OPERATIONS + 1], failed = 0;
  char *end, error[512], why[GRAPH_ERROR];
  output_start();
  while ((option = getopt_long(argc, argv, "", table, NULL)) != -1) {
    if (option == HELP) return fputs(help_text, stdout), 0;
    if (option == UNFUSED) r.chains = false;
    if (option == NO_TIME) r.timing = false;
    if (option == SEED && (errno = 0, r.seed = strtoull(optarg, &end, 10), *end || end == optarg || errno || strchr(optarg, '-')))
      return bad("--seed", "an integer from 0 to 2^64 - 1", optarg);
    if (option == DTYPE && strcmp(optarg, "fp32") != 0 && strcmp(optarg, "fp16") != 0) return bad("--dtype", "fp32 or fp16", optarg);
    if (option == DTYPE)
      asked.dtype = strcmp(optarg, "fp16") == 0 ? DTYPE_FP16 : DTYPE_FP32, asked.layout = asked.dtype == DTYPE_FP16 ? LAYOUT_NHWC : LAYOUT_NCHW;
    if (option == VERIFY) r.verify = optarg;
    if (option == CSV) r.csv = optarg;
    if (option == SECONDS && (r.seconds = strtod(optarg, &end), end == optarg || *end || !(r.seconds > 0 && r.seconds <= 1000)))
      return bad("--seconds", "a number above 0 and up to 1000", optarg);
    if (option == '?') return 2;
  }
  if (optind == argc) return bad("graph", "operations (see --help)", "");
  for (int i = optind; i < argc && !failed; i++) failed = graph_parse(&asked, argv[i], y, why) ? (fprintf(stderr, "%s\n", why), 2) : 0;
  if (failed) return failed;
  if (r.verify && strcmp(r.verify, "host") != 0 && strcmp(r.verify, "device") != 0) return bad("--verify", "host or device", r.verify);
  machine m;
  if (machine_open_gpu(&m, error, sizeof error)) return fprintf(stderr, "%s\n", error), 2;
  conv_graph g = asked;
  static graph_plan plan;
  int steps = 0;
  while (all_steps[steps]) steps++;
  if (graph_choose(&g, all_steps, steps, r.chains ? &(graph_chains){0} : NULL, &m.device, &plan, why)) return fprintf(stderr, "graph: %s\n", why), 2;
  int status = graph_alloc(&g, why) ? (fprintf(stderr, "graph: %s\n", why), 2) : 0;
  const bool on_device = r.verify ? strcmp(r.verify, "device") == 0 : !m.device.emulated;
  graph_figures f = {0};
  output *csv = NULL;
  if (r.csv && m.device.emulated) return bad("--csv", "a GPU: the emulator times nothing", r.csv);
  if (r.csv && !(csv = output_open("--csv", r.csv))) return 2;
  if (!status) status = verify(&g, &plan, r.seed, true, on_device);
  if (!status) status = verify(&g, &plan, r.seed, false, on_device);
  if (!status && r.timing && !m.device.emulated) status = time_it(&g, &plan, &asked, &m, r.seconds, &f);
  if (csv && status) output_discard(csv);
  else if (csv) {
    write_row(csv->file, argv + optind, argc - optind, &g, &plan, &f, &m);
    if (output_close(csv)) status = 1;
  }
  graph_free(&g);
  return status;
}
