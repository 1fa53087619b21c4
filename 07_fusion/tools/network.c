/* A whole network: ResNet-18 or ResNet-50, inference, random weights of the right shapes. Every layer verified on what the layer before it really wrote; on a GPU timed as a
 * whole, one launch after the other, in turns with cuDNN's best plan for each layer. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "07_fusion/should_fuse.h"
#include "07_fusion/tools/network/layers.h"
#include "common/cudnn/cudnn.h"
#include "common/files/arguments.h"
#include "common/files/output.h"
#include "common/harness/graph_time.h"
#include "common/harness/report.h"

static const char help_text[] =
    "usage: network [options]\n"
    "  --network NAME   resnet50 or resnet18 (default: resnet50)\n"
    "  --batch N        images (default: 32; on the emulator 1)\n"
    "  --size N         of an image's sides, from 32 on (default: 224; on the emulator 32)\n"
    "  --narrower N     channels divided by 1, 2, 4 or 8 (default: 1; on the emulator 8)\n"
    "  --folded         batch norms folded into the filters, on both sides: a bias is left of each (default: a scale and a bias)\n"
    "  --fused          a kernel for several operations wherever there is one (on a GPU by default: where should_fuse() says that it pays)\n"
    "  --unfused        a kernel for each operation, even where one can do several\n"
    "  --seed N         of the data (default: 1)\n"
    "  --seconds S      of a search of cuDNN's plans for one layer (default: 10)\n"
    "  --no-cudnn       time our kernels only\n"
    "  --no-time        verify only\n"
    "  --csv FILE       the time of the whole network, and of each layer by itself\n"
    "Exit status: 0 all right, 1 a result was wrong or a call failed, 2 bad input.\n";

/* Whether to take the kernel of a chain: as should_fuse() says. data: the machine. */
static bool pays(const conv_chain *chain, const chain_kernel *kernel, const conv_plan *plan, const void *data) {
  const machine *m = data;
  chain_facts facts = {0};
  fusion_account account;
  kernel->facts(chain, plan, &facts);
  should_fuse(chain, &facts, &m->device, &m->peaks, &account);
  return account.pays;
}

/* Random weights, but for the average's. */
static void fill(network *n, const conv_graph *g, uint64_t seed) {
  graph_fill((conv_graph *)g, seed, false);
  const int w = n->graph.operation[n->average].w;
  conv_tensor *t = (conv_tensor *)&g->tensor[w].host;
  const double pixels = (double)t->dim[2] * t->dim[3];
  for (int64_t i = 0; i < t->count; i++) tensor_set(t, i, 1 / pixels);
}

/* A line for each operation: the layer, its kernel, how far off. */
static void print_layers(const network *n, const conv_graph *g, const graph_plan *plan, const graph_verdict *v) {
  int layer = -1;
  for (int i = 0; i < g->operations; i++) {
    const conv_kernel *k = plan->kernel[i];
    const chain_kernel *chain = plan->chain[i];
    const bool split_off = g->operation[i].what.kind == OPERATION_POINTWISE; /* an epilogue by itself */
    if (!split_off) layer++;
    printf("  %-18s %-9s %-64s ", split_off ? "  its epilogue" : n->layer[layer], k ? k->name : chain ? chain->name : "the same", plan->plan[i].words);
    if (g->tensor[g->operation[i].y].use == USE_INSIDE) printf("inside the kernel\n");
    else printf(v->operation[i].right ? "%.0f %% of the error bound\n" : "WRONG\n", 100 * v->operation[i].worst_share);
  }
}

/* The whole network, then its layers: those that a kernel computes together are a row, with the last one's name. */
static void write_rows(FILE *file, const network *n, const network_shape *shape, const conv_graph *g, const graph_plan *plan, const graph_figures *f,
                       const machine *m) {
  char date[32], cuda[16], driver[16], cudnn[32] = "";
  const time_t now = time(NULL);
  strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", gmtime(&now));
  version_text(m->runtime_version, cuda), version_text(m->driver_version, driver);
  if (f->cudnn_us > 0) snprintf(cudnn, sizeof cudnn, "%d.%d.%d", cudnn_version() / 10000, cudnn_version() / 100 % 100, cudnn_version() % 100);
  fputs("gpu,driver,cuda,cudnn,date,network,batch,layer,operations,kernel,us,cudnn_us,cudnn_plan,floor_us,in_order_us,early_share,cudnn_early_share,source\n",
        file);
  for (int i = -1, own = 0; i < f->pieces; i++) {
    const graph_piece all = {0, n->graph.operations, f->us, f->in_order_us, f->cudnn_us, f->early_share, f->cudnn_early_share};
    const graph_piece piece = i < 0 ? all : f->piece[i];
    const int last = piece.first + piece.count - 1;
    csv_text(file, m->device.name);
    fprintf(file, ",%s,%s,%s,%s,%s,%d,%s,%d,", driver, cuda, cudnn, date, shape->name, shape->batch, i < 0 ? "all" : n->layer[last], piece.count);
    double floor_us = f->floor_us;
    const char *kernel = "";
    if (i >= 0) {
      while (!plan->kernel[own] && !plan->chain[own]) own++;
      kernel = plan->kernel[own] ? plan->kernel[own]->name : plan->chain[own]->name;
      own += piece.count;
      while (own < g->operations && g->operation[own].what.kind == OPERATION_POINTWISE) own++;
      floor_us = 0;
      for (int k = piece.first; k <= last; k++) floor_us += 1e6 * machine_floor(m, &n->graph.operation[k].what, g->dtype);
    }
    fprintf(file, "%s,%.3f,%.3f,%s,%.3f,%.3f,%.2f,%.2f,%s\n", kernel, piece.us, piece.cudnn_us, i >= 0 && piece.count == 1 ? f->cudnn_plans[last] : "",
            floor_us, piece.in_order_us, piece.early_share, piece.cudnn_early_share, registered_source(kernel));
  }
}

static int time_it(const network *n, const network_shape *shape, const conv_graph *g, const graph_plan *plan, const graph_timing *how, output *csv,
                   const machine *m) {
  static graph_figures f;
  const cudaError_t status = graph_time(g, plan, &n->graph, how, m, &f);
  if (status) return fprintf(stderr, "timing: %s%s%s\n", cudaGetErrorString(status), *f.note ? ": " : "", f.note), 1;
  const int batch = n->graph.operation[0].what.problem.N;
  printf("%d image%s: %.1f us (min %.1f), %.2f us an image; floors of the operations %.1f us\n", batch, batch == 1 ? "" : "s", f.us, f.min_us, f.us / batch,
         f.floor_us);
  printf("each kernel after the one before it: %.1f us\n", f.in_order_us);
  if (f.cudnn_us > 0) printf("cuDNN: %.1f us, %.2f times as long\n", f.cudnn_us, f.cudnn_us / f.us);
  for (int i = 0; i < n->graph.operations && f.cudnn_us > 0; i++) printf("  %-18s %s\n", n->layer[i], f.cudnn_plans[i]);
  if (*f.note) printf("%s\n", f.note);
  if (csv) write_rows(csv->file, n, shape, g, plan, &f, m);
  return f.differs;
}

int main(int argc, char **argv) {
  enum { NETWORK = 256, BATCH, SIZE, NARROWER, FOLDED, FUSED, UNFUSED, SEED, SECONDS, NO_CUDNN, NO_TIME, CSV, HELP };
  static const struct option table[] = {{"network", required_argument, 0, NETWORK},
                                        {"batch", required_argument, 0, BATCH},
                                        {"size", required_argument, 0, SIZE},
                                        {"narrower", required_argument, 0, NARROWER},
                                        {"folded", no_argument, 0, FOLDED},
                                        {"fused", no_argument, 0, FUSED},
                                        {"unfused", no_argument, 0, UNFUSED},
                                        {"seed", required_argument, 0, SEED},
                                        {"seconds", required_argument, 0, SECONDS},
                                        {"no-cudnn", no_argument, 0, NO_CUDNN},
                                        {"no-time", no_argument, 0, NO_TIME},
                                        {"csv", required_argument, 0, CSV},
                                        {"help", no_argument, 0, HELP},
                                        {0}};
  network_shape shape = {.name = "resnet50"};
  graph_timing how = {.cudnn = true, .in_order = true, .pieces = true};
  bool timing = true, chains = true, fused = false;
  const char *csv_path = NULL;
  output *csv = NULL;
  int option, failed = 0, seed = 1, seconds = 10;
  char error[512], why[GRAPH_ERROR];
  output_start();
  while (!failed && (option = getopt_long(argc, argv, "", table, NULL)) != -1) switch (option) {
      case NETWORK: shape.name = optarg; break;
      case BATCH: failed = argument_integer("--batch", optarg, 1, 4096, &shape.batch); break;
      case SIZE: failed = argument_integer("--size", optarg, 1, 1024, &shape.size); break;
      case NARROWER:
        failed = argument_integer("--narrower", optarg, 1, 8, &shape.narrower);
        if (!failed && (shape.narrower & (shape.narrower - 1))) failed = argument_bad("--narrower", "1, 2, 4 or 8", optarg);
        break;
      case SEED: failed = argument_integer("--seed", optarg, 1, 1 << 30, &seed); break;
      case SECONDS: failed = argument_integer("--seconds", optarg, 1, 1000, &seconds); break;
      case FOLDED: shape.folded = true; break;
      case FUSED: fused = true; break;
      case UNFUSED: chains = false; break;
      case NO_CUDNN: how.cudnn = false; break;
      case NO_TIME: timing = false; break;
      case CSV: csv_path = optarg; break;
      case HELP: fputs(help_text, stdout); return 0;
      default: return 2;
    }
  if (failed) return failed;
  if (optind < argc) return argument_bad("network", "options alone (see --help)", argv[optind]);
  if (fused && !chains) return argument_bad("--fused", "no --unfused beside it", "both");
  if (shape.size && shape.size < 32) return fprintf(stderr, "--size: expected 32 to 1024, got %d\n", shape.size), 2;
  machine m;
  if (machine_open_gpu(&m, error, sizeof error)) return fprintf(stderr, "%s\n", error), 2;
  if (csv_path && !timing) return argument_bad("--csv", "a run that is timed", csv_path);
  if (csv_path && m.device.emulated) return argument_bad("--csv", "a GPU: the emulator times nothing", csv_path);
  how.seconds = seconds;
  if (!shape.batch) shape.batch = m.device.emulated ? 1 : 32;
  if (!shape.size) shape.size = m.device.emulated ? 32 : 224;
  if (!shape.narrower) shape.narrower = m.device.emulated ? 8 : 1;
  if (csv_path && !(csv = output_open("--csv", csv_path))) return 2;
  static network n;
  static graph_plan plan;
  static graph_verdict v;
  if (network_build(&n, &shape, why)) return fprintf(stderr, "%s\n", why), 2;
  static conv_graph g;
  g = n.graph;
  int steps = 0;
  while (all_steps[steps]) steps++;
  const graph_chains wanted = {.wanted = fused || m.device.emulated ? NULL : pays, .data = &m}; /* the emulator times nothing: all that there is is run */
  if (graph_choose(&g, all_steps, steps, chains ? &wanted : NULL, &m.device, &plan, why)) return fprintf(stderr, "network: %s\n", why), 2;
  int status = graph_alloc(&g, why) ? (fprintf(stderr, "network: %s\n", why), 2) : 0;
  printf("%s, %d image%s of %d x %d%s%s\n", shape.name, shape.batch, shape.batch == 1 ? "" : "s", shape.size, shape.size,
         shape.narrower > 1 ? ", narrower" : "", shape.folded ? ", batch norms folded" : "");
  if (!status) {
    fill(&n, &g, (uint64_t)seed);
    const cudaError_t failure = graph_verify(&g, &plan, false, !m.device.emulated, stdout, &v);
    if (failure) status = (fprintf(stderr, "network: %s\n", cudaGetErrorString(failure)), 1);
  }
  if (!status) {
    print_layers(&n, &g, &plan, &v);
    if (v.right) printf("all right; the network in fp64, rounded between operations: off by %.2g of its largest value in the end\n", v.drift);
    else status = (printf("WRONG: %s\n", v.note), 1);
    fflush(stdout); /* timing takes a minute */
  }
  if (!status && timing && !m.device.emulated) status = time_it(&n, &shape, &g, &plan, &how, csv, &m);
  graph_free(&g);
  if (status) output_discard(csv);
  else if (output_close(csv)) status = 1;
  return status;
}
