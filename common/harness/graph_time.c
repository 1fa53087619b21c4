/* Times a graph beside cuDNN's plans for its operations. See graph_time.h. */
#include "common/harness/graph_time.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/conv/operation_reference.h"
#include "common/cudnn/cudnn.h"
#include "common/harness/timing.h"

/* Ours: all operations on one set. */
typedef struct ours {
  const conv_graph *g;
  const graph_plan *plan;
  const buffer_sets *sets;
  bool differs;
} ours;

static cudaError_t enqueue_ours(void *context, int set, cudaStream_t stream) {
  const ours *o = context;
  return graph_launch(o->g, o->plan, o->sets, set, stream);
}

static cudaError_t poison_results(const conv_graph *g, const buffer_sets *sets) {
  cudaError_t status = cudaSuccess;
  for (int set = 0; set < sets->count; set++)
    for (int i = 0; i < g->tensors && !status; i++)
      if (g->tensor[i].use != USE_IN) status = buffer_poison(sets, set, i);
  return status;
}
static cudaError_t poison_ours(void *context) { return poison_results(((ours *)context)->g, ((ours *)context)->sets); }

static cudaError_t check_ours(void *context, int first, int count) {
  ours *o = context;
  const int last = o->g->operation[o->g->operations - 1].y;
  conv_tensor seen = o->g->tensor[last].host;
  (void)count;
  if (tensor_alloc(&seen)) return cudaErrorMemoryAllocation;
  const cudaError_t status = buffer_download(o->sets, first, last, seen.data);
  if (!status) o->differs = memcmp(seen.data, o->g->tensor[last].host.data, tensor_bytes(&seen)) != 0;
  tensor_free(&seen);
  return status;
}

/* cuDNN's: its best plan for each operation. */
typedef struct theirs {
  int count;
  cudnn_baseline baseline[GRAPH_OPERATIONS];
  cudnn_runner runner[GRAPH_OPERATIONS];
} theirs;

static cudaError_t enqueue_theirs(void *context, int set, cudaStream_t stream) {
  theirs *t = context;
  cudaError_t status = cudaSuccess;
  for (int i = 0; i < t->count && !status; i++) status = cudnn_enqueue(&t->runner[i], set, stream);
  return status;
}
static cudaError_t nothing(void *context) { return (void)context, cudaSuccess; }
static cudaError_t not_checked(void *context, int first, int count) { return (void)context, (void)first, (void)count, cudaSuccess; }

/* Plans for operation i of the graph as it was asked for, on the buffers of that graph. Returns 0; 1: none, with a note; -1: a CUDA error. */
static int open_plans(theirs *t, const conv_graph *g, int i, const buffer_sets *sets, const machine *m, char note[GRAPH_ERROR]) {
  const graph_operation *o = &g->operation[i];
  if (o->what.kind != OPERATION_CONVOLUTION) return snprintf(note, GRAPH_ERROR, "operation %d is no convolution", i + 1), 1;
  const cudnn_task task = {.problem = &o->what.problem, .pass = PASS_FPROP, .dtype = g->dtype, .layout = g->layout, .epilogue = o->what.epilogue};
  const cudnn_options options = {.gpu = m->device.name,
                                 .fp32_flops = m->peaks.fp32_flops,
                                 .layouts = {[LAYOUT_NCHW] = g->layout == LAYOUT_NCHW, [LAYOUT_NHWC] = g->layout == LAYOUT_NHWC}};
  epilogue_data data = {0};
  conv_reference reference;
  char error[CUDNN_ERROR] = "no host memory";
  if (o->scale >= 0) data.scale = g->tensor[o->scale].host;
  if (o->bias >= 0) data.bias = g->tensor[o->bias].host;
  if (o->residual >= 0) data.residual = g->tensor[o->residual].host;
  conv_tensor x = g->tensor[o->x].host;
  x.role = TENSOR_X; /* it may be an earlier operation's y */
  conv_buffers *views = calloc((size_t)sets->count, sizeof *views);
  for (int set = 0; views && set < sets->count; set++) views[set] = graph_view(g, i, sets, set);
  int status = views ? 0 : 1;
  if (!status && operation_reference(&reference, &o->what, &x, &g->tensor[o->w].host, &data, false, true, error, sizeof error)) status = 1;
  if (!status) {
    const cudnn_truth truth = {&x, &g->tensor[o->w].host, &reference};
    status = cudnn_baseline_open(&t->baseline[i], &task, views, sets->count, &options, &truth, error, sizeof error);
    reference_free(&reference);
  }
  free(views);
  if (status) snprintf(note, GRAPH_ERROR, "operation %d: %.280s", i + 1, error);
  return status;
}

/* The fastest of the plans of operation i, timed in turns. */
static cudaError_t choose_plan(theirs *t, int i, const buffer_sets *sets, const machine *m) {
  contender turn[CUDNN_BEST + 1] = {0};
  cudnn_runner runner[CUDNN_BEST + 1];
  int best = 0;
  cudnn_baseline *b = &t->baseline[i];
  for (int k = 0; k < b->count; k++) {
    runner[k] = (cudnn_runner){b, k};
    turn[k] = (contender){.enqueue = cudnn_enqueue, .poison = nothing, .check = not_checked, .context = &runner[k], .first_seconds = 1e-6 * b->plan[k].us};
  }
  const cudaError_t status = time_in_turns(turn, b->count, ON_GPU, sets->count, m);
  for (int k = 1; k < b->count && !status; k++)
    if (turn[k].median_us < turn[best].median_us) best = k;
  t->runner[i] = (cudnn_runner){b, best};
  return status;
}

/* The tensors of the graph as it was asked for are the first of the split one's, with the same numbers. */
cudaError_t graph_time(const conv_graph *g, const graph_plan *plan, const conv_graph *asked, const machine *m, graph_figures *f) {
  *f = (graph_figures){0};
  conv_graph before = *asked;
  size_t touched = 0;
  buffer_sets sets = graph_buffers(g, plan);
  static theirs t;
  t = (theirs){.count = asked->operations};
  for (int i = 0; i < g->tensors; i++) touched += tensor_bytes(&g->tensor[i].host);
  for (int i = 0; i < asked->tensors; i++) before.tensor[i].host.data = g->tensor[i].host.data;
  for (int i = 0; i < asked->operations; i++) f->floor_us += 1e6 * machine_floor(m, &asked->operation[i].what, g->dtype);
  cudaError_t status = cudaErrorMemoryAllocation;
  for (int count = timing_sets(touched, m->device.l2_bytes); count > 0 && status == cudaErrorMemoryAllocation; count /= 2)
    status = buffer_sets_alloc(&sets, count);
  if (!status) status = graph_upload(g, &sets);
  for (int i = 0; i < g->tensors && !status; i++)
    status = buffer_upload(&sets, i, g->tensor[i].host.data); /* what lies between too, for cuDNN's plans one by one */
  if (!status) status = buffer_replicate(&sets);
  int none = 0;
  for (int i = 0; i < t.count && !status && none <= 0; i++) none = open_plans(&t, &before, i, &sets, m, f->note);
  if (none < 0) status = cudaErrorUnknown;
  for (int i = 0; i < t.count && !status && !none; i++) status = choose_plan(&t, i, &sets, m);
  ours own = {.g = g, .plan = plan, .sets = &sets};
  contender turn[2] = {{.enqueue = enqueue_ours, .poison = poison_ours, .check = check_ours, .context = &own},
                       {.enqueue = enqueue_theirs, .poison = nothing, .check = not_checked, .context = &t}};
  if (!status) status = time_in_turns(turn, none ? 1 : 2, ON_GPU, sets.count, m);
  if (!status && own.differs) snprintf(f->note, sizeof f->note, "the last timed run left other bits than the verified one");
  f->us = turn[0].median_us, f->min_us = turn[0].min_us;
  f->cudnn_us = none ? 0 : turn[1].median_us;
  for (int i = 0; i < t.count; i++) {
    if (!none && !status) snprintf(f->cudnn_plans[i], sizeof f->cudnn_plans[i], "%.63s", t.baseline[i].plan[t.runner[i].plan].tag);
    cudnn_baseline_close(&t.baseline[i]);
  }
  buffer_sets_free(&sets);
  return status;
}
