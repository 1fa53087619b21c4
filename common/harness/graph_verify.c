/* Is a graph's result right? Operation by operation, and as a whole. See graph.h. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/conv/gpu.h"
#include "common/conv/operation_reference.h"
#include "common/conv/spot_check.h"
#include "common/harness/graph.h"
#include "common/harness/graph_elements.h"

/* What is judged, and where: on the device everything stays in the buffers that the run left. */
typedef struct judging {
  const conv_graph *g;
  const graph_plan *plan;
  bool integers, device, use_gpu;  /* use_gpu: may the GPU work out a right answer for the host? */
  bool *full;                      /* did the device run out of memory? */
  conv_tensor seen[GRAPH_TENSORS]; /* the graph's tensors in that place */
  FILE *log;
  graph_verdict *v;
} judging;

/* `seen` is the graph's, on the device in this set of buffers (NULL: on the host). */
static void look_at(judging *j, const buffer_sets *sets) {
  j->device = sets != NULL;
  for (int i = 0; i < j->g->tensors; i++) {
    j->seen[i] = j->g->tensor[i].host;
    if (sets) j->seen[i].data = buffer_address(sets, 0, i);
  }
}

/* Memory in that place, and what happens to every element there. Both return 0, or -1 with a line. */
static int take(const judging *j, void **memory, size_t bytes) {
  cudaError_t status = cudaSuccess;
  *memory = NULL;
  if (j->device) status = cudaMalloc(memory, bytes);
  else *memory = malloc(bytes);
  if (!status && *memory) return 0;
  if (j->device) cudaGetLastError(), *j->full = true;
  return snprintf(j->v->note, GRAPH_ERROR, "no %s memory for %zu bytes of right answers", j->device ? "device" : "host", bytes), -1;
}

static void give(const judging *j, void *memory) {
  if (j->device) cudaFree(memory);
  else free(memory);
}

static int each(const judging *j, element_work work) {
  if (j->device) {
    const cudaError_t status = gpu_elements(&work);
    return status ? (snprintf(j->v->note, GRAPH_ERROR, "right answers on the device: %s", cudaGetErrorString(status)), -1) : 0;
  }
#pragma omp parallel for if (work.count >= TENSOR_THREADS)
  for (int64_t i = 0; i < work.count; i++) element_do(&work, i);
  return 0;
}

/* Of numbers that are 0 or more. */
static int largest_of(const judging *j, const float *values, int64_t count, double *largest) {
  float most = 0;
  if (j->device) {
    void *room;
    if (take(j, &room, GPU_ROOM)) return -1;
    const cudaError_t status = gpu_largest(values, count, room, &most);
    give(j, room);
    if (status) return snprintf(j->v->note, GRAPH_ERROR, "the largest value: %s", cudaGetErrorString(status)), -1;
  } else {
#pragma omp parallel for reduction(max : most) if (count >= TENSOR_THREADS)
    for (int64_t i = 0; i < count; i++) most = fmaxf(most, values[i]);
  }
  *largest = most;
  return 0;
}

/* The right answer of one operation, from the tensors that are seen. random: x and filters are independent with mean zero, so the first operation of random
 * data alone. */
static int right_answer(const judging *j, int i, bool random, conv_reference *reference) {
  const graph_operation *o = &j->g->operation[i];
  const conv_tensor *x = &j->seen[o->x], *w = o->w < 0 ? NULL : &j->seen[o->w];
  epilogue_data data = {0};
  if (o->scale >= 0) data.scale = j->seen[o->scale];
  if (o->bias >= 0) data.bias = j->seen[o->bias];
  if (o->residual >= 0) data.residual = j->seen[o->residual];
  if (!j->device) return operation_reference(reference, &o->what, x, w, &data, random, j->use_gpu, j->v->note, GRAPH_ERROR);
  const int status = operation_reference_on_device(reference, &o->what, x, w, &data, random, j->v->note, GRAPH_ERROR);
  if (status == REFERENCE_NO_ROOM) *j->full = true;
  return status;
}

/* The device's right answer of a convolution beside the definition's, in a few places: once an operation, that of its own inputs. */
static int spot_checked(const judging *j, int i, const conv_reference *reference) {
  const graph_operation *o = &j->g->operation[i];
  const graph_tensor *t = j->g->tensor;
  if (!j->device || o->what.kind != OPERATION_CONVOLUTION) return 0;
  const conv_source from[2] = {{.given = &t[o->x].host}, {.given = &t[o->w].host}};
  const conv_source fused[3] = {{.given = o->scale < 0 ? NULL : &t[o->scale].host},
                                {.given = o->bias < 0 ? NULL : &t[o->bias].host},
                                {.given = o->residual < 0 ? NULL : &t[o->residual].host}};
  return spot_check(reference, &o->what.problem, PASS_FPROP, j->g->dtype, from, &o->what.epilogue, fused, j->v->note, GRAPH_ERROR);
}

/* On buffers that are there. Results come back to the host. */
static cudaError_t run_once(conv_graph *g, const graph_plan *plan, buffer_sets *sets, graph_verdict *v) {
  cudaError_t status = graph_upload(g, sets);
  if (!status) status = graph_launch(g, plan, sets, 0, 0);
  if (!status) status = cudaDeviceSynchronize();
  for (int i = 0; i < PART_COUNT && !status; i++) {
    bool damaged;
    int64_t where;
    status = buffer_check(sets, 0, i, &damaged, &where);
    if (!status && damaged)
      snprintf(v->note, GRAPH_ERROR, "wrote outside %s %d: byte %lld", i == PART_WORKSPACE ? "the workspace, part" : "tensor", i, (long long)where);
  }
  for (int i = 0; i < g->tensors && !status; i++) {
    conv_tensor *t = &g->tensor[i].host, seen = *t;
    if (g->tensor[i].use == USE_INSIDE) continue; /* judge() puts the right answer there */
    if (g->tensor[i].use != USE_IN) {
      status = buffer_download(sets, 0, i, t->data);
      continue;
    }
    if (tensor_alloc(&seen)) status = cudaErrorMemoryAllocation;
    if (!status) status = buffer_download(sets, 0, i, seen.data);
    if (!status && memcmp(seen.data, t->data, tensor_bytes(t)) != 0) snprintf(v->note, GRAPH_ERROR, "changed its input, tensor %d", i);
    tensor_free(&seen);
  }
  return status;
}

/* The chain in fp64, rounded between operations, on tensors of its own. Its last result against ours. */
static int drift_of(const judging *j) {
  judging own = *j;
  const conv_graph *g = j->g;
  int status = 0;
  for (int i = 0; i < g->tensors; i++)
    if (g->tensor[i].use != USE_IN) own.seen[i].data = NULL;
  for (int i = 0; i < g->operations && !status; i++) {
    conv_reference reference;
    conv_tensor *y = &own.seen[g->operation[i].y];
    if (take(j, &y->data, tensor_bytes(y)) || right_answer(&own, i, false, &reference)) {
      status = -1;
      break;
    }
    status = each(j, (element_work){.action = ELEMENT_ROUNDED, .count = y->count, .tensor = *y, .value = reference.value});
    reference_free(&reference);
  }
  const int last = g->operation[g->operations - 1].y;
  const int64_t count = own.seen[last].count;
  float *apart = NULL;
  double most = 0, off = 0;
  if (!status) status = take(j, (void **)&apart, (size_t)count * sizeof *apart);
  if (!status) status = each(j, (element_work){.action = ELEMENT_LARGEST, .count = count, .tensor = own.seen[last], .out = apart});
  if (!status) status = largest_of(j, apart, count, &most);
  if (!status) status = each(j, (element_work){.action = ELEMENT_APART, .count = count, .tensor = own.seen[last], .other = j->seen[last], .out = apart});
  if (!status) status = largest_of(j, apart, count, &off);
  j->v->drift = isinf(off) ? NAN : most > 0 ? off / most : off;
  give(j, apart);
  for (int i = 0; i < g->tensors; i++)
    if (g->tensor[i].use != USE_IN) give(j, own.seen[i].data);
  return status;
}

/* What of an operation's result depends on what its input may be off by: off [as x], spread [as y]. Returns 0, or -1 with a line. */
static int spread_of(const judging *j, int i, const float *off, float **spread) {
  const graph_operation *o = &j->g->operation[i];
  judging other = *j;
  conv_graph plain = *j->g; /* the operation without its epilogue, of magnitudes */
  plain.operation[i].what.epilogue = (conv_epilogue){0};
  plain.operation[i].scale = plain.operation[i].bias = plain.operation[i].residual = -1;
  other.g = &plain;
  conv_tensor *x = &other.seen[o->x], *w = o->w < 0 ? NULL : &other.seen[o->w];
  x->dtype = DTYPE_FP32, x->data = (void *)off;
  int status = 0;
  if (w) {
    w->dtype = DTYPE_FP32;
    status = take(j, &w->data, tensor_bytes(w));
    if (!status) status = each(j, (element_work){.action = ELEMENT_MAGNITUDE, .count = w->count, .tensor = *w, .other = j->seen[o->w]});
  }
  conv_reference reference;
  if (!status) status = right_answer(&other, i, false, &reference) ? -1 : 0;
  const bool made = !status;
  const int64_t count = made ? reference.shape.count : 0;
  if (made) status = take(j, (void **)spread, (size_t)count * sizeof **spread);
  if (!status) {
    element_work work = {.action = ELEMENT_SPREAD, .count = count, .value = reference.value, .out = *spread, .epilogue = o->what.epilogue};
    if (o->scale >= 0) work.factors = j->seen[o->scale], work.channels = reference.shape.dim[1];
    status = each(j, work);
  }
  if (made) reference_free(&reference);
  if (w) give(j, w->data);
  return status;
}

/* What lies between two operations of one kernel: the right answer, and by how much the kernel's own may differ from it. Returns 0, or -1 with a line. */
static int put_inside(const judging *j, int i, const conv_reference *reference, error_rule rule, float **off) {
  const int tensor = j->g->operation[i].y;
  const conv_tensor *y = &j->seen[tensor], *host = &j->g->tensor[tensor].host;
  element_work work = {.action = ELEMENT_ROUNDED, .count = y->count, .tensor = *y, .value = reference->value, .scale = reference->scale};
  if (take(j, (void **)off, (size_t)y->count * sizeof **off) || each(j, work)) return -1;
  work.action = ELEMENT_OFF, work.out = *off, work.growth = rule.growth, work.terms = reference->terms;
  if (each(j, work)) return -1;
  const cudaError_t status = j->device ? cudaMemcpy(host->data, y->data, tensor_bytes(y), cudaMemcpyDeviceToHost) : cudaSuccess;
  return status ? (snprintf(j->v->note, GRAPH_ERROR, "what lies inside a kernel: %s", cudaGetErrorString(status)), -1) : 0;
}

/* Which operation of a chain operation i is; 0 where it has a kernel of its own, too. */
static int place_in_chain(const graph_plan *plan, int i) {
  int first = i;
  while (!plan->kernel[first] && !plan->chain[first]) first--;
  return i - first;
}

/* Whether a tensor holds an infinity: no sum that is made of it is a number. Returns 0, or -1 with a line. */
static int find_infinity(const judging *j, const conv_tensor *t, bool *found) {
  float *magnitudes = NULL;
  double largest = 0;
  int status = take(j, (void **)&magnitudes, (size_t)t->count * sizeof *magnitudes);
  if (!status) status = each(j, (element_work){.action = ELEMENT_LARGEST, .count = t->count, .tensor = *t, .out = magnitudes});
  if (!status) status = largest_of(j, magnitudes, t->count, &largest);
  give(j, magnitudes);
  *found = isinf(largest);
  return status;
}

/* Judges operation i. off: what its input may be off by, since the kernel before kept it (NULL: nothing); what its result may be, if that is kept, too. Returns
 * false with a note. */
static bool judge(const judging *j, int i, float **off) {
  const graph_operation *o = &j->g->operation[i];
  const conv_kernel *k = j->plan->kernel[i];
  const int place = place_in_chain(j->plan, i);
  const chain_kernel *chain = j->plan->chain[i - place];
  const char *name = k ? k->name : chain->name, *why = NULL;
  const bool random = !j->integers && o->w >= 0 && j->g->tensor[o->x].use == USE_IN;
  graph_verdict *v = j->v;
  conv_reference reference;
  if (right_answer(j, i, random, &reference)) return false;
  const double growth = k ? k->growth(&o->what.problem, random) : chain->growth(&j->plan->what[i - place], place, random);
  const error_rule rule = {.growth = growth + epilogue_growth(&o->what.epilogue, random), .shared = k && k->shares_error};
  const int factor = k && k->exact_factor ? k->exact_factor : 1;
  float *spread = NULL;
  bool failed = spot_checked(j, i, &reference) != 0;
  if (!failed && *off) {
    failed = spread_of(j, i, *off, &spread) != 0;
    const element_work wider = {.action = ELEMENT_WIDER, .count = reference.shape.count, .scale = reference.scale, .in = spread, .growth = rule.growth};
    if (!failed) failed = each(j, wider) != 0;
    give(j, spread);
  }
  give(j, *off), *off = NULL;
  if (j->integers && (factor < 0 || epilogue_exact_factor(&o->what.epilogue) == 0)) why = "integers do not stay integers";
  if (!why && j->integers && (double)reference.largest_scale * factor >= 0x1p24) why = "integers grow past 2^24";
  if (!why && !j->integers && !isfinite(rule.growth)) why = "no bound for its error on data that is not random";
  if (failed) {
  } else if (why) {
    snprintf(v->note, GRAPH_ERROR, "operation %d, %s: %s", i + 1, name, why);
  } else if (j->g->tensor[o->y].use == USE_INSIDE) {
    v->operation[i].right = true; /* nobody sees it: the last one's result tells */
    failed = put_inside(j, i, &reference, rule, off) != 0;
  } else {
    const compare_mode mode = j->integers ? COMPARE_EXACT : COMPARE_BOUND;
    cudaError_t status = cudaSuccess;
    if (j->device) status = verify_on_device(&j->seen[o->y], &reference, mode, rule, j->log, &v->operation[i]);
    else v->operation[i] = verify_output(&j->seen[o->y], &reference, mode, rule, j->log);
    failed = status != cudaSuccess;
    if (failed) snprintf(v->note, GRAPH_ERROR, "operation %d, %s: comparing: %s", i + 1, name, cudaGetErrorString(status));
    else if (!v->operation[i].right)
      snprintf(v->note, GRAPH_ERROR, "operation %d, %s: %lld elements wrong", i + 1, name, (long long)v->operation[i].mismatches);
  }
  bool infinite = false; /* the infinities are right, but what follows is not to be judged by them */
  if (!why && !failed && j->integers && j->g->dtype == DTYPE_FP16 && v->operation[i].right) failed = find_infinity(j, &j->seen[o->y], &infinite) != 0;
  if (infinite) why = "integers grow past fp16's largest number", snprintf(v->note, GRAPH_ERROR, "operation %d, %s: %s", i + 1, name, why);
  reference_free(&reference);
  return !why && !failed && v->operation[i].right;
}

/* All operations, and the chain. */
static void judge_all(const judging *j) {
  graph_verdict *v = j->v;
  v->right = v->note[0] == 0;
  float *off = NULL;
  for (int i = 0; i < j->g->operations && v->right; i++) v->right = judge(j, i, &off);
  give(j, off);
  if (v->right && drift_of(j)) v->right = false;
  if (v->right && j->integers && v->drift != 0) {
    snprintf(v->note, GRAPH_ERROR, "each operation is right, the chain is not: off by %.3g of its largest value", v->drift);
    v->right = false;
  }
}

cudaError_t graph_verify(conv_graph *g, const graph_plan *plan, bool integers, bool on_device, FILE *log, graph_verdict *v) {
  *v = (graph_verdict){0};
  buffer_sets sets = graph_buffers(g, plan);
  bool full = false;
  judging j = {.g = g, .plan = plan, .integers = integers, .use_gpu = on_device, .full = &full, .log = log, .v = v};
  cudaError_t status = buffer_sets_alloc(&sets, 1);
  if (!status) status = run_once(g, plan, &sets, v);
  if (!status) {
    look_at(&j, on_device ? &sets : NULL);
    judge_all(&j);
  }
  buffer_sets_free(&sets);
  if (!status && full) { /* the results have come to the host */
    *v = (graph_verdict){0};
    look_at(&j, NULL);
    judge_all(&j);
  }
  return status;
}
