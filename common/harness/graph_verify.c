/* Is a graph's result right? Operation by operation, and as a whole. See graph.h. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/conv/operation_reference.h"
#include "common/harness/graph.h"

static const conv_tensor *host_of(const conv_graph *g, int tensor) { return tensor < 0 ? NULL : &g->tensor[tensor].host; }

/* The right answer of one operation, from the tensors that `g` holds. random: x and filters are independent with mean zero, so the first operation of random
 * data alone. */
static int right_answer(const conv_graph *g, int i, bool random, bool use_gpu, conv_reference *reference, char error[GRAPH_ERROR]) {
  const graph_operation *o = &g->operation[i];
  epilogue_data data = {0};
  if (o->scale >= 0) data.scale = *host_of(g, o->scale);
  if (o->bias >= 0) data.bias = *host_of(g, o->bias);
  if (o->residual >= 0) data.residual = *host_of(g, o->residual);
  return operation_reference(reference, &o->what, host_of(g, o->x), host_of(g, o->w), &data, random, use_gpu, error, GRAPH_ERROR);
}

static cudaError_t run_once(conv_graph *g, const graph_plan *plan, graph_verdict *v) {
  buffer_sets sets = graph_buffers(g, plan);
  cudaError_t status = buffer_sets_alloc(&sets, 1);
  if (!status) status = graph_upload(g, &sets);
  if (!status) status = graph_launch(g, plan, &sets, 0, 0);
  if (!status) status = cudaDeviceSynchronize();
  for (int i = 0; i < PART_COUNT && !status; i++) {
    bool damaged;
    int64_t where;
    status = buffer_check(&sets, 0, i, &damaged, &where);
    if (!status && damaged)
      snprintf(v->note, GRAPH_ERROR, "wrote outside %s %d: byte %lld", i == PART_WORKSPACE ? "the workspace, part" : "tensor", i, (long long)where);
  }
  for (int i = 0; i < g->tensors && !status; i++) {
    conv_tensor *t = &g->tensor[i].host, seen = *t;
    if (g->tensor[i].use == USE_INSIDE) continue; /* judge() puts the right answer there */
    if (g->tensor[i].use != USE_IN) {
      status = buffer_download(&sets, 0, i, t->data);
      continue;
    }
    if (tensor_alloc(&seen)) status = cudaErrorMemoryAllocation;
    if (!status) status = buffer_download(&sets, 0, i, seen.data);
    if (!status && memcmp(seen.data, t->data, tensor_bytes(t)) != 0) snprintf(v->note, GRAPH_ERROR, "changed its input, tensor %d", i);
    tensor_free(&seen);
  }
  buffer_sets_free(&sets);
  return status;
}

/* The chain in fp64, rounded between operations, on tensors of its own. Its last result against ours. */
static int drift_of(const conv_graph *g, bool use_gpu, graph_verdict *v) {
  conv_graph own = *g;
  int status = 0;
  double most = 0, off = 0;
  for (int i = 0; i < own.tensors; i++)
    if (own.tensor[i].use != USE_IN) own.tensor[i].host.data = NULL;
  for (int i = 0; i < own.operations && !status; i++) {
    conv_reference reference;
    conv_tensor *y = &own.tensor[own.operation[i].y].host;
    if (tensor_alloc(y) || right_answer(&own, i, false, use_gpu, &reference, v->note)) {
      status = -1;
      break;
    }
#pragma omp parallel for if (y->count >= TENSOR_THREADS)
    for (int64_t k = 0; k < y->count; k++) tensor_set(y, k, reference.value[k]);
    reference_free(&reference);
  }
  const int last = own.operation[own.operations - 1].y;
  const int64_t count = status ? 0 : own.tensor[last].host.count;
  int64_t not_numbers = 0;
#pragma omp parallel for reduction(max : most, off) reduction(+ : not_numbers) if (count >= TENSOR_THREADS)
  for (int64_t k = 0; k < count; k++) {
    const double want = tensor_get(&own.tensor[last].host, k), got = tensor_get(&g->tensor[last].host, k);
    most = fmax(most, fabs(want)), off = fmax(off, fabs(got - want));
    not_numbers += isnan(got - want);
  }
  v->drift = not_numbers ? NAN : most > 0 ? off / most : off;
  for (int i = 0; i < own.tensors; i++)
    if (own.tensor[i].use != USE_IN) tensor_free(&own.tensor[i].host);
  return status;
}

/* What of an operation's result depends on what its input may be off by: off [as x], spread [as y]. Returns 0, or -1 with a line. */
static int spread_of(const conv_graph *g, int i, const float *off, bool use_gpu, float **spread, char error[GRAPH_ERROR]) {
  const graph_operation *o = &g->operation[i];
  conv_operation plain = o->what;
  plain.epilogue = (conv_epilogue){0};
  conv_tensor x = *host_of(g, o->x), w = {0};
  x.dtype = w.dtype = DTYPE_FP32, x.data = (void *)off;
  if (o->w >= 0) {
    const conv_tensor *filters = host_of(g, o->w);
    w = *filters, w.dtype = DTYPE_FP32;
    if (tensor_alloc(&w)) return snprintf(error, GRAPH_ERROR, "no host memory for the bound of operation %d", i + 1), -1;
#pragma omp parallel for if (w.count >= TENSOR_THREADS)
    for (int64_t k = 0; k < w.count; k++) tensor_set(&w, k, fabs((double)tensor_get(filters, k)));
  }
  const epilogue_data none = {0};
  conv_reference reference;
  int status = operation_reference(&reference, &plain, &x, o->w >= 0 ? &w : NULL, &none, false, use_gpu, error, GRAPH_ERROR);
  if (o->w >= 0) tensor_free(&w);
  if (status) return -1;
  *spread = malloc((size_t)reference.shape.count * sizeof **spread);
  if (*spread == NULL) status = (snprintf(error, GRAPH_ERROR, "no host memory for the bound of operation %d", i + 1), -1);
  const int64_t count = status ? 0 : reference.shape.count;
#pragma omp parallel for if (count >= TENSOR_THREADS)
  for (int64_t k = 0; k < count; k++) {
    const double scale = o->scale >= 0 ? tensor_get(host_of(g, o->scale), k % reference.shape.dim[1]) : 1; /* NHWC: channels are last */
    (*spread)[k] = epilogue_scale(&o->what.epilogue, reference.value[k], scale, 0, 0);
  }
  reference_free(&reference);
  return status;
}

/* What lies between two operations of one kernel: the right answer, and by how much the kernel's own may differ from it. Returns 0, or -1 with a line. */
static int put_inside(const conv_graph *g, int i, const conv_reference *reference, error_rule rule, float **off, char error[GRAPH_ERROR]) {
  conv_tensor *y = (conv_tensor *)host_of(g, g->operation[i].y);
  *off = malloc((size_t)y->count * sizeof **off);
  if (*off == NULL) return snprintf(error, GRAPH_ERROR, "no host memory for the bound of operation %d", i + 1), -1;
#pragma omp parallel for if (y->count >= TENSOR_THREADS)
  for (int64_t k = 0; k < y->count; k++) {
    tensor_set(y, k, reference->value[k]);
    (*off)[k] =
        (float)(error_bound(reference->value[k], reference->scale[k], rule.growth, reference->terms, y->dtype) + fabs(tensor_get(y, k) - reference->value[k]));
  }
  return 0;
}

/* Which operation of a chain operation i is; 0 where it has a kernel of its own, too. */
static int place_in_chain(const graph_plan *plan, int i) {
  int first = i;
  while (!plan->kernel[first] && !plan->chain[first]) first--;
  return i - first;
}

/* Judges operation i. off: what its input may be off by, since the kernel before kept it (NULL: nothing); what its result may be, if that is kept, too. Returns
 * false with a note. */
static bool judge(const conv_graph *g, const graph_plan *plan, int i, bool integers, bool use_gpu, float **off, FILE *log, graph_verdict *v) {
  const graph_operation *o = &g->operation[i];
  const conv_kernel *k = plan->kernel[i];
  const int place = place_in_chain(plan, i);
  const chain_kernel *chain = plan->chain[i - place];
  const bool random = !integers && o->w >= 0 && g->tensor[o->x].use == USE_IN;
  conv_reference reference;
  if (right_answer(g, i, random, use_gpu, &reference, v->note)) return false;
  const double growth = k ? k->growth(&o->what.problem, random) : chain->growth(&plan->what[i - place], place, random);
  const error_rule rule = {.growth = growth + epilogue_growth(&o->what.epilogue, random), .shared = k && k->shares_error};
  const int factor = k && k->exact_factor ? k->exact_factor : 1;
  const char *why = NULL;
  float *spread = NULL;
  bool failed = *off && spread_of(g, i, *off, use_gpu, &spread, v->note);
  free(*off), *off = NULL;
  const int64_t count = spread && !failed ? reference.shape.count : 0;
#pragma omp parallel for if (count >= TENSOR_THREADS)
  for (int64_t e = 0; e < count; e++) reference.scale[e] += round_scale(spread[e] / rule.growth);
  free(spread);
  if (integers && (factor < 0 || epilogue_exact_factor(&o->what.epilogue) == 0)) why = "integers do not stay integers";
  if (!why && integers && (double)reference.largest_scale * factor >= 0x1p24) why = "integers grow past 2^24";
  if (!why && !integers && !isfinite(rule.growth)) why = "no bound for its error on data that is not random";
  if (failed) {
  } else if (why) {
    snprintf(v->note, GRAPH_ERROR, "operation %d, %s: %s", i + 1, k ? k->name : chain->name, why);
  } else if (g->tensor[o->y].use == USE_INSIDE) {
    v->operation[i].right = true; /* nobody sees it: the last one's result tells */
    failed = put_inside(g, i, &reference, rule, off, v->note) != 0;
  } else {
    v->operation[i] = verify_output(host_of(g, o->y), &reference, integers ? COMPARE_EXACT : COMPARE_BOUND, rule, log);
    if (!v->operation[i].right)
      snprintf(v->note, GRAPH_ERROR, "operation %d, %s: %lld elements wrong", i + 1, k ? k->name : chain->name, (long long)v->operation[i].mismatches);
  }
  reference_free(&reference);
  return !why && !failed && v->operation[i].right;
}

cudaError_t graph_verify(conv_graph *g, const graph_plan *plan, bool integers, bool use_gpu, FILE *log, graph_verdict *v) {
  *v = (graph_verdict){0};
  const cudaError_t status = run_once(g, plan, v);
  if (status) return status;
  v->right = v->note[0] == 0;
  float *off = NULL;
  for (int i = 0; i < g->operations && v->right; i++) v->right = judge(g, plan, i, integers, use_gpu, &off, log, v);
  free(off);
  if (v->right && drift_of(g, use_gpu, v)) v->right = false;
  if (v->right && integers && v->drift != 0) {
    snprintf(v->note, GRAPH_ERROR, "each operation is right, the chain is not: off by %.3g of its largest value", v->drift);
    v->right = false;
  }
  return cudaSuccess;
}
