/* Is a graph's result right? Operation by operation, and as a whole. See graph.h. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/conv/operation_reference.h"
#include "common/harness/graph.h"

static const conv_tensor *host_of(const conv_graph *g, int tensor) { return tensor < 0 ? NULL : &g->tensor[tensor].host; }

/* The right answer of one operation, from the tensors that `g` holds. random: x and filters are independent with mean zero, so the first operation of random
 * data alone. */
static int right_answer(const conv_graph *g, int i, bool random, conv_reference *reference, char error[GRAPH_ERROR]) {
  const graph_operation *o = &g->operation[i];
  epilogue_data data = {0};
  if (o->scale >= 0) data.scale = *host_of(g, o->scale);
  if (o->bias >= 0) data.bias = *host_of(g, o->bias);
  if (o->residual >= 0) data.residual = *host_of(g, o->residual);
  return operation_reference(reference, &o->what, host_of(g, o->x), host_of(g, o->w), &data, random, false, error, GRAPH_ERROR);
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
static int drift_of(const conv_graph *g, graph_verdict *v) {
  conv_graph own = *g;
  int status = 0;
  double most = 0, off = 0;
  for (int i = 0; i < own.tensors; i++)
    if (own.tensor[i].use != USE_IN) own.tensor[i].host.data = NULL;
  for (int i = 0; i < own.operations && !status; i++) {
    conv_reference reference;
    conv_tensor *y = &own.tensor[own.operation[i].y].host;
    if (tensor_alloc(y) || right_answer(&own, i, false, &reference, v->note)) {
      status = -1;
      break;
    }
    for (int64_t k = 0; k < y->count; k++) tensor_set(y, k, reference.value[k]);
    reference_free(&reference);
  }
  const int last = own.operation[own.operations - 1].y;
  for (int64_t k = 0; k < own.tensor[last].host.count && !status; k++) {
    const double want = tensor_get(&own.tensor[last].host, k), got = tensor_get(&g->tensor[last].host, k);
    most = fmax(most, fabs(want));
    if (!(fabs(got - want) <= off)) off = fabs(got - want); /* a NaN stays */
  }
  v->drift = most > 0 ? off / most : off;
  for (int i = 0; i < own.tensors; i++)
    if (own.tensor[i].use != USE_IN) tensor_free(&own.tensor[i].host);
  return status;
}

/* Judges operation i. Returns false with a note. */
static bool judge(const conv_graph *g, const graph_plan *plan, int i, bool integers, FILE *log, graph_verdict *v) {
  const graph_operation *o = &g->operation[i];
  const conv_kernel *k = plan->kernel[i];
  const bool random = !integers && o->w >= 0 && g->tensor[o->x].use == USE_IN;
  conv_reference reference;
  if (right_answer(g, i, random, &reference, v->note)) return false;
  const error_rule rule = {.growth = k->growth(&o->what.problem, random) + epilogue_growth(&o->what.epilogue, random), .shared = k->shares_error};
  const int factor = k->exact_factor ? k->exact_factor : 1;
  const char *why = NULL;
  if (integers && (factor < 0 || epilogue_exact_factor(&o->what.epilogue) == 0)) why = "integers do not stay integers";
  if (!why && integers && (double)reference.largest_scale * factor >= 0x1p24) why = "integers grow past 2^24";
  if (!why && !integers && !isfinite(rule.growth)) why = "no bound for its error on data that is not random";
  if (why) {
    snprintf(v->note, GRAPH_ERROR, "operation %d, %s: %s", i + 1, k->name, why);
  } else {
    v->operation[i] = verify_output(host_of(g, o->y), &reference, integers ? COMPARE_EXACT : COMPARE_BOUND, rule, log);
    if (!v->operation[i].right) snprintf(v->note, GRAPH_ERROR, "operation %d, %s: %lld elements wrong", i + 1, k->name, (long long)v->operation[i].mismatches);
  }
  reference_free(&reference);
  return !why && v->operation[i].right;
}

cudaError_t graph_verify(conv_graph *g, const graph_plan *plan, bool integers, FILE *log, graph_verdict *v) {
  *v = (graph_verdict){0};
  const cudaError_t status = run_once(g, plan, v);
  if (status) return status;
  v->right = v->note[0] == 0;
  for (int i = 0; i < g->operations && v->right; i++) v->right = judge(g, plan, i, integers, log, v);
  if (v->right && drift_of(g, v)) v->right = false;
  if (v->right && integers && v->drift != 0) {
    snprintf(v->note, GRAPH_ERROR, "each operation is right, the chain is not: off by %.3g of its largest value", v->drift);
    v->right = false;
  }
  return cudaSuccess;
}
