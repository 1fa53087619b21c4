/* cuDNN's plans for the operations of a graph. See graph_theirs.h. */
#include "common/harness/graph_theirs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/conv/operation_reference.h"
#include "common/harness/timing.h"

extern const conv_kernel pointwise_fp32, pointwise_fp16, max_pool_fp32, max_pool_fp16; /* unfused.cu */

/* Sets for one operation: the graph's, and of its own as many as keep the cache cold while it runs alone. */
typedef struct cold_sets {
  buffer_sets own;
  conv_buffers *view; /* of all */
  int count;
} cold_sets;

/* One operation as it might be computed. */
typedef struct candidate {
  const their_graph *t;
  const cold_sets *sets;
  int index; /* of the operation */
  cudnn_runner runner;
  bool then; /* the kernel behind it, or alone */
} candidate;

/* The view of the set. */
static cudaError_t enqueue_one(const their_operation *o, const cudnn_runner *runner, bool then, int set, conv_buffers view, cudaStream_t stream) {
  cudaError_t status = runner->baseline ? cudnn_enqueue((void *)runner, set, stream) : cudaSuccess;
  if (status || !then) return status;
  if (runner->baseline) view.x = view.y; /* over what the plan has written */
  return o->after->launch(&o->after_plan, &view, stream);
}

static cudaError_t enqueue_candidate(void *context, int set, cudaStream_t stream) {
  const candidate *c = context;
  return enqueue_one(&c->t->operation[c->index], &c->runner, c->then, set, c->sets->view[set], stream);
}
static cudaError_t nothing(void *context) { return (void)context, cudaSuccess; }
static cudaError_t not_checked(void *context, int first, int count) { return (void)context, (void)first, (void)count, cudaSuccess; }

/* The harness's kernel for an operation that is no convolution. */
static const conv_kernel *own_kernel(const conv_graph *g, const conv_operation *o, const conv_device *device, conv_plan *plan) {
  static const conv_kernel *const rows[] = {&pointwise_fp32, &pointwise_fp16, &max_pool_fp32, &max_pool_fp16};
  for (int i = 0; i < 4; i++)
    if (rows[i]->dtype == g->dtype && rows[i]->layout == g->layout && !kernel_plan(rows[i], o, device, plan)) return rows[i];
  return NULL;
}

/* A tensor of the graph, in the device's memory or, if that has no room for right answers, the host's. */
static conv_tensor tensor_at(const their_graph *t, int tensor, bool device) {
  conv_tensor at = tensor < 0 ? (conv_tensor){0} : t->g->tensor[tensor].host;
  if (device && tensor >= 0) at.data = buffer_address(t->sets, 0, tensor);
  return at;
}

static void sets_free(cold_sets *s) { buffer_sets_free(&s->own), free(s->view), *s = (cold_sets){0}; }

/* alone: with sets of its own, if there is room. Returns an error, or success. */
static cudaError_t sets_for(const their_graph *t, int i, bool alone, const machine *m, cold_sets *s) {
  const graph_operation *o = &t->g->operation[i];
  const int tensor[] = {[TENSOR_X] = o->x, [TENSOR_W] = o->w, [TENSOR_Y] = o->y, [PART_RESIDUAL] = o->residual, [PART_SCALE] = o->scale, [PART_BIAS] = o->bias};
  enum { PARTS = sizeof tensor / sizeof *tensor };
  size_t bytes[PART_COUNT] = {0}, touched = 0;
  for (int part = 0; part < PARTS; part++) touched += bytes[part] = tensor[part] < 0 ? 0 : tensor_bytes(&t->g->tensor[tensor[part]].host);
  const int more = alone ? timing_sets(touched, m->device.l2_bytes) - t->sets->count : 0;
  *s = (cold_sets){.own = buffer_sets_plan_parts(ON_GPU, bytes), .count = t->sets->count};
  cudaError_t status = more > 0 ? buffer_sets_alloc(&s->own, more) : cudaErrorMemoryAllocation;
  const bool room = status == cudaSuccess;
  for (int part = 0; part < PARTS && !status; part++)
    if (bytes[part]) status = cudaMemcpy(buffer_address(&s->own, 0, part), buffer_address(t->sets, 0, tensor[part]), bytes[part], cudaMemcpyDeviceToDevice);
  if (!status) status = buffer_replicate(&s->own);
  if (status && room) return status;
  if (room) s->count += more;
  s->view = calloc((size_t)s->count, sizeof *s->view);
  if (!s->view) return cudaErrorMemoryAllocation;
  for (int set = 0; set < s->count; set++) {
    const int of_own = set - t->sets->count;
    s->view[set] = of_own < 0 ? graph_view(t->g, i, t->sets, set)
                              : (conv_buffers){.x = buffer_address(&s->own, of_own, TENSOR_X),
                                               .w = buffer_address(&s->own, of_own, TENSOR_W),
                                               .y = buffer_address(&s->own, of_own, TENSOR_Y),
                                               .residual = buffer_address(&s->own, of_own, PART_RESIDUAL),
                                               .scale = buffer_address(&s->own, of_own, PART_SCALE),
                                               .bias = buffer_address(&s->own, of_own, PART_BIAS)};
  }
  return cudaSuccess;
}

/* Plans for operation i, with its epilogue or (bare) without: a search's, or the one that is known. As their_graph_open(). */
static int open_plans(const their_graph *t, int i, const cold_sets *sets, bool bare, const cudnn_runner *known, double seconds, const machine *m,
                      cudnn_baseline *b, char note[GRAPH_ERROR]) {
  const conv_graph *g = t->g;
  const graph_operation *o = &g->operation[i];
  char committed[PATH_MAX], error[CUDNN_ERROR] = "no host memory";
  cudnn_task task = {.problem = &o->what.problem, .pass = PASS_FPROP, .dtype = g->dtype, .layout = g->layout, .epilogue = o->what.epilogue};
  cudnn_options options = {.gpu = m->device.name,
                           .fp32_flops = m->peaks.fp32_flops,
                           .most_seconds = seconds,
                           .winners_only = true,
                           .layouts = {[LAYOUT_NCHW] = g->layout == LAYOUT_NCHW, [LAYOUT_NHWC] = g->layout == LAYOUT_NHWC}};
  cudnn_winners_files(m->device.name, committed, &options);
  if (bare) task.epilogue = (conv_epilogue){0};
  conv_operation what = o->what;
  what.epilogue = task.epilogue;
  conv_reference reference;
  conv_tensor x, w;
  int status = REFERENCE_NO_ROOM;
  for (int device = 1; device >= 0 && status == REFERENCE_NO_ROOM; device--) {
    const epilogue_data data = {.scale = tensor_at(t, bare ? -1 : o->scale, device),
                                .bias = tensor_at(t, bare ? -1 : o->bias, device),
                                .residual = tensor_at(t, bare ? -1 : o->residual, device)};
    x = tensor_at(t, o->x, device), w = tensor_at(t, o->w, device);
    x.role = TENSOR_X; /* it may be an earlier operation's y */
    if (device) status = operation_reference_on_device(&reference, &what, &x, &w, &data, false, error, sizeof error);
    else status = operation_reference(&reference, &what, &x, &w, &data, false, true, error, sizeof error);
  }
  if (status) {
    status = 1;
  } else {
    const cudnn_truth truth = {&x, &w, &reference};
    status = known ? cudnn_plan_again(b, &task, known, sets->view, sets->count, &options, &truth, error, sizeof error)
                   : cudnn_baseline_open(b, &task, sets->view, sets->count, &options, &truth, error, sizeof error);
    reference_free(&reference);
  }
  if (status) snprintf(note, GRAPH_ERROR, "operation %d: %.280s", i + 1, error);
  return status;
}

static int add_candidates(const their_graph *t, int i, const cold_sets *sets, const cudnn_baseline *b, bool then, candidate *c, contender *turn) {
  for (int k = 0; k < b->count; k++) {
    c[k] = (candidate){.t = t, .sets = sets, .index = i, .runner = {b, k}, .then = then};
    turn[k] = (contender){.enqueue = enqueue_candidate, .poison = nothing, .check = not_checked, .context = &c[k], .first_seconds = 1e-6 * b->plan[k].us};
  }
  return b->count;
}

/* The same operation earlier in the graph; -1: none. */
static int same_before(const conv_graph *g, int i) {
  const conv_operation *what = &g->operation[i].what;
  char shape[256], other[256], epilogue[EPILOGUE_NAME], other_epilogue[EPILOGUE_NAME];
  problem_print(&what->problem, shape, sizeof shape), epilogue_print(&what->epilogue, epilogue);
  for (int k = 0; k < i; k++) {
    const conv_operation *before = &g->operation[k].what;
    problem_print(&before->problem, other, sizeof other), epilogue_print(&before->epilogue, other_epilogue);
    if (what->kind == before->kind && strcmp(shape, other) == 0 && strcmp(epilogue, other_epilogue) == 0) return k;
  }
  return -1;
}

/* What was chosen for operation `same`, for operation i. */
static int choose_again(their_graph *t, int i, int same, const machine *m, char note[GRAPH_ERROR]) {
  const their_operation *chosen = &t->operation[same];
  their_operation *o = &t->operation[i];
  const bool bare = chosen->runner.baseline == &chosen->bare;
  cudnn_baseline *b = bare ? &o->bare : &o->fused;
  cold_sets sets;
  const cudaError_t failed = sets_for(t, i, false, m, &sets);
  const int status = failed ? -1 : open_plans(t, i, &sets, bare, &chosen->runner, 0, m, b, note);
  sets_free(&sets);
  if (status) return status;
  o->runner = (cudnn_runner){b, 0};
  o->after = chosen->after, o->after_plan = chosen->after_plan;
  memcpy(o->tag, chosen->tag, sizeof o->tag);
  return 0;
}

/* Operation i, a convolution: the fastest in turns of what there is on these sets. */
static int choose_on(their_graph *t, int i, const cold_sets *sets, double seconds, const machine *m, char note[GRAPH_ERROR]) {
  their_operation *o = &t->operation[i];
  const conv_operation *what = &t->g->operation[i].what;
  candidate c[2 * (CUDNN_BEST + 1)];
  contender turn[2 * (CUDNN_BEST + 1)] = {0};
  char why[GRAPH_ERROR];
  const int fused = open_plans(t, i, sets, false, NULL, seconds, m, &o->fused, why);
  if (fused < 0) return snprintf(note, GRAPH_ERROR, "%s", why), -1;
  int count = fused ? 0 : add_candidates(t, i, sets, &o->fused, false, c, turn);
  const conv_operation alone = epilogue_alone(what);
  if (!epilogue_empty(&what->epilogue)) o->after = own_kernel(t->g, &alone, &m->device, &o->after_plan);
  if (o->after) {
    const int bare = open_plans(t, i, sets, true, NULL, seconds, m, &o->bare, why);
    if (bare < 0) return snprintf(note, GRAPH_ERROR, "%s", why), -1;
    if (!bare) count += add_candidates(t, i, sets, &o->bare, true, c + count, turn + count);
  }
  if (count == 0) return snprintf(note, GRAPH_ERROR, "%s", why), 1;
  if (time_in_turns(turn, count, ON_GPU, sets->count, m)) return -1;
  int best = 0;
  for (int k = 1; k < count; k++)
    if (turn[k].median_us < turn[best].median_us) best = k;
  o->runner = c[best].runner;
  if (!c[best].then) o->after = NULL;
  snprintf(o->tag, sizeof o->tag, "%s%s", o->runner.baseline->plan[o->runner.plan].tag, o->after ? "+pointwise" : "");
  return 0;
}

static int choose(their_graph *t, int i, double seconds, const machine *m, char note[GRAPH_ERROR]) {
  their_operation *o = &t->operation[i];
  const conv_operation *what = &t->g->operation[i].what;
  if (what->kind != OPERATION_CONVOLUTION) {
    o->after = own_kernel(t->g, what, &m->device, &o->after_plan);
    snprintf(o->tag, sizeof o->tag, "own kernel");
    if (!o->after) snprintf(note, GRAPH_ERROR, "operation %d has no kernel", i + 1);
    return o->after ? 0 : 1;
  }
  const int same = same_before(t->g, i);
  if (same >= 0) return choose_again(t, i, same, m, note);
  cold_sets sets;
  const cudaError_t failed = sets_for(t, i, true, m, &sets);
  const int status = failed ? -1 : choose_on(t, i, &sets, seconds, m, note);
  sets_free(&sets);
  return status;
}

int their_graph_open(their_graph *t, const conv_graph *g, const buffer_sets *sets, double seconds, const machine *m, char note[GRAPH_ERROR]) {
  memset(t, 0, sizeof *t);
  t->g = g, t->sets = sets;
  for (int i = 0; i < g->operations; i++) t->operation[i].fused.heuristic = t->operation[i].bare.heuristic = -1;
  for (int i = 0; i < g->operations; i++) {
    const int status = choose(t, i, seconds, m, note);
    if (status) return status;
  }
  return 0;
}

void their_graph_close(their_graph *t) {
  for (int i = 0; t->g && i < t->g->operations; i++) cudnn_baseline_close(&t->operation[i].fused), cudnn_baseline_close(&t->operation[i].bare);
  t->g = NULL;
}

cudaError_t their_graph_enqueue_some(const their_graph *t, int set, int first, int end, cudaStream_t stream) {
  cudaError_t status = cudaSuccess;
  for (int i = first; i < end && !status; i++)
    status = enqueue_one(&t->operation[i], &t->operation[i].runner, t->operation[i].after != NULL, set, graph_view(t->g, i, t->sets, set), stream);
  return status;
}

cudaError_t their_graph_enqueue(void *context, int set, cudaStream_t stream) {
  const their_graph *t = context;
  return their_graph_enqueue_some(t, set, 0, t->g->operations, stream);
}
