/* Graphs: shapes, kernels, memory, launches. See graph.h; graph_verify.c judges. */
#include "common/harness/graph.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/harness/plain.h"

static int add_tensor(conv_graph *g, tensor_use use, conv_tensor shape) {
  shape.data = NULL;
  g->tensor[g->tensors] = (graph_tensor){.use = use, .host = shape};
  return g->tensors++;
}

static bool same_shape(const conv_tensor *a, const conv_tensor *b) {
  return memcmp(a->dim, b->dim, sizeof a->dim) == 0 && a->dtype == b->dtype && a->layout == b->layout;
}

static void print_shape(const conv_tensor *t, char text[64]) { snprintf(text, 64, "%d x %d x %d x %d", t->dim[0], t->dim[1], t->dim[2], t->dim[3]); }

/* The tensor an operation is to read, or a new one. */
static int input_of(conv_graph *g, int tensor, const conv_tensor *wanted, const char *what, char error[GRAPH_ERROR]) {
  if (tensor < 0) return add_tensor(g, USE_IN, *wanted);
  char want[64], got[64];
  print_shape(wanted, want), print_shape(&g->tensor[tensor].host, got);
  if (!same_shape(&g->tensor[tensor].host, wanted)) {
    snprintf(error, GRAPH_ERROR, "operation %d: expected %s of %s, got %s", g->operations + 1, what, want, got);
    return -1;
  }
  if (g->tensor[tensor].use == USE_OUT) g->tensor[tensor].use = USE_BETWEEN;
  return tensor;
}

int graph_append(conv_graph *g, const conv_operation *o, int x, int residual, char error[GRAPH_ERROR]) {
  const conv_tensor in = tensor_describe(&o->problem, TENSOR_X, g->dtype, g->layout), filter = tensor_describe(&o->problem, TENSOR_W, g->dtype, g->layout);
  const conv_tensor out = tensor_describe(&o->problem, TENSOR_Y, g->dtype, g->layout);
  const epilogue_data reads = epilogue_describe(&o->epilogue, &out);
  if (g->operations == GRAPH_OPERATIONS || g->tensors + 6 > GRAPH_TENSORS) {
    snprintf(error, GRAPH_ERROR, "expected at most %d operations and %d tensors", GRAPH_OPERATIONS, GRAPH_TENSORS);
    return -1;
  }
  graph_operation a = {.what = *o, .w = -1, .scale = -1, .bias = -1, .residual = -1};
  if ((a.x = input_of(g, x, &in, "x", error)) < 0) return -1;
  if (o->epilogue.residual && (a.residual = input_of(g, residual, &reads.residual, "a residual", error)) < 0) return -1;
  if (o->kind == OPERATION_CONVOLUTION) a.w = add_tensor(g, USE_IN, filter);
  if (o->epilogue.scale) a.scale = add_tensor(g, USE_IN, reads.scale);
  if (o->epilogue.bias) a.bias = add_tensor(g, USE_IN, reads.bias);
  a.y = add_tensor(g, USE_OUT, out);
  g->operation[g->operations++] = a;
  return a.y;
}

/* ---------------------------------------------------------------- kernels */

extern const conv_kernel pointwise_fp32, pointwise_fp16, max_pool_fp32, max_pool_fp16; /* unfused.cu */

/* The first row that can do an operation; NULL: none, and *why is the last one's reason. */
static const conv_kernel *first_that_can(const conv_graph *g, const conv_operation *o, const conv_kernel *const rows[], int count, const conv_device *device,
                                         conv_plan *plan, const char **why) {
  for (int i = 0; i < count; i++) {
    if (rows[i]->pass != o->pass || rows[i]->dtype != g->dtype || rows[i]->layout != g->layout || rows[i]->does != o->kind) continue;
    *why = kernel_plan(rows[i], o, device, plan);
    if (!*why) return rows[i];
  }
  return NULL;
}

static const conv_kernel *kernel_for(const conv_graph *g, int i, const conv_step *const steps[], int count, const conv_device *device, conv_plan *plan,
                                     const char **why) {
  static const conv_kernel *const unfused[] = {&pointwise_fp32, &pointwise_fp16, &max_pool_fp32, &max_pool_fp16};
  const graph_operation *o = &g->operation[i];
  const bool random = g->tensor[o->x].use == USE_IN; /* behind a ReLU nothing has mean zero */
  *why = "no kernel of this type, layout and kind";
  for (int s = 0; s < count && o->what.kind == OPERATION_CONVOLUTION; s++) {
    const conv_choice *c = step_choose(steps[s], &o->what, g->dtype, device, random, plan);
    if (c && c->kernel->layout == g->layout) return c->kernel;
  }
  for (int s = 0; s < count; s++) {
    const conv_kernel *k = first_that_can(g, &o->what, steps[s]->kernels, steps[s]->kernel_count, device, plan, why);
    if (k) return k;
  }
  const conv_kernel *const k = first_that_can(g, &o->what, unfused, 4, device, plan, why);
  const char *const too_large = plain_unsupported(&o->what.problem, device);
  if (!k && too_large) *why = too_large; /* rather than what the last kernel says */
  return k;
}

int graph_split(conv_graph *g, int i) {
  if (g->operations == GRAPH_OPERATIONS || g->tensors == GRAPH_TENSORS) return -1;
  memmove(&g->operation[i + 1], &g->operation[i], (size_t)(g->operations - i) * sizeof g->operation[0]);
  g->operations++;
  graph_operation *first = &g->operation[i], *second = &g->operation[i + 1];
  second->what = epilogue_alone(&first->what);
  first->what.epilogue = (conv_epilogue){0};
  first->scale = first->bias = first->residual = -1;
  first->y = second->x = add_tensor(g, USE_BETWEEN, g->tensor[second->y].host);
  second->w = -1;
  return 0;
}

/* Operations that read a tensor. */
static int readers(const conv_graph *g, int tensor) {
  int count = 0;
  for (int i = 0; i < g->operations; i++) count += (g->operation[i].x == tensor) + (g->operation[i].residual == tensor);
  return count;
}

/* The `count` operations from i on as a chain: each reads what the one before it wrote, and nobody else does. false: they are none. */
static bool chain_of(const conv_graph *g, int i, int count, conv_chain *chain) {
  if (i + count > g->operations) return false;
  *chain = (conv_chain){.count = count};
  for (int k = 0; k < count; k++) {
    const graph_operation *o = &g->operation[i + k];
    if (k > 0 && (o->x != o[-1].y || readers(g, o->x) != 1)) return false;
    if (k < count - 1 && o->residual >= 0) return false;
    chain->operation[k] = o->what;
  }
  chain->residual_is_x = g->operation[i + count - 1].residual >= 0 && g->operation[i + count - 1].residual == g->operation[i].x;
  return true;
}

/* The longest chain from operation i on that a step has a kernel for, which is wanted; NULL: none. */
static const chain_kernel *chain_for(const conv_graph *g, int i, const conv_step *const steps[], int count, const graph_chains *chains,
                                     const conv_device *device, conv_chain *chain, conv_plan *plan) {
  for (int length = CHAIN_OPERATIONS; length > 1; length--)
    for (int s = 0; s < count; s++)
      for (int c = 0; c < steps[s]->chain_count; c++) {
        const chain_kernel *k = steps[s]->chains[c];
        if (k->count != length || k->dtype != g->dtype || k->layout != g->layout || k->min_arch > device->arch || !chain_of(g, i, length, chain)) continue;
        memset(plan, 0, sizeof *plan);
        if (!k->plan(chain, device, plan) && (!chains->wanted || chains->wanted(chain, k, plan, chains->data))) return k;
      }
  return NULL;
}

int graph_choose(conv_graph *g, const conv_step *const steps[], int count, const graph_chains *chains, const conv_device *device, graph_plan *plan,
                 char error[GRAPH_ERROR]) {
  plan->workspace_bytes = 0;
  for (int i = 0; i < GRAPH_OPERATIONS; i++) plan->kernel[i] = NULL, plan->chain[i] = NULL;
  int split = 0; /* operations of two kernels before this one */
  for (int i = 0; i < g->operations; i++) {
    const conv_operation *o = &g->operation[i].what;
    const char *why;
    plan->chain[i] = chains ? chain_for(g, i, steps, count, chains, device, &plan->what[i], &plan->plan[i]) : NULL;
    if (plan->chain[i]) {
      if (plan->plan[i].workspace_bytes > plan->workspace_bytes) plan->workspace_bytes = plan->plan[i].workspace_bytes;
      for (int left = plan->chain[i]->count; left > 1; left--, i++) g->tensor[g->operation[i].y].use = USE_INSIDE;
      continue;
    }
    plan->kernel[i] = kernel_for(g, i, steps, count, device, &plan->plan[i], &why);
    const bool splits = !plan->kernel[i] && o->kind == OPERATION_CONVOLUTION && !epilogue_empty(&o->epilogue);
    if (splits && graph_split(g, i)) {
      snprintf(error, GRAPH_ERROR, "operation %d: expected at most %d operations, with epilogues that no kernel takes as operations of their own",
               i + 1 - split, GRAPH_OPERATIONS);
      return -1;
    }
    if (splits) plan->kernel[i] = kernel_for(g, i, steps, count, device, &plan->plan[i], &why);
    if (!plan->kernel[i]) {
      char shape[256];
      problem_print(&o->problem, shape, sizeof shape);
      snprintf(error, GRAPH_ERROR, "operation %d, %.160s %s %s: %.100s", i + 1 - split, shape, dtype_name(g->dtype), layout_name(g->layout), why);
      return -1;
    }
    split += splits;
    if (plan->plan[i].workspace_bytes > plan->workspace_bytes) plan->workspace_bytes = plan->plan[i].workspace_bytes;
  }
  return 0;
}

/* ---------------------------------------------------------------- memory */

int graph_alloc(conv_graph *g, char error[GRAPH_ERROR]) {
  for (int i = 0; i < g->tensors; i++)
    if (tensor_alloc(&g->tensor[i].host)) {
      snprintf(error, GRAPH_ERROR, "no host memory for tensor %d of the graph, %zu bytes", i, tensor_bytes(&g->tensor[i].host));
      return -1;
    }
  return 0;
}

void graph_free(conv_graph *g) {
  for (int i = 0; i < g->tensors; i++) tensor_free(&g->tensor[i].host);
}

void graph_fill(conv_graph *g, uint64_t seed, bool integers) {
  int magnitude[GRAPH_TENSORS] = {0}, halvings[GRAPH_TENSORS] = {0};
  for (int i = 0; i < g->operations; i++) {
    const graph_operation *o = &g->operation[i];
    if (o->scale >= 0) magnitude[o->scale] = 2;
    if (o->bias >= 0) magnitude[o->bias] = 8;
    if (o->w >= 0) halvings[o->w] = (int)lround(0.5 * log2((double)problem_terms(&o->what.problem, PASS_FPROP)));
  }
  for (int i = 0; i < g->tensors; i++) {
    conv_tensor *t = &g->tensor[i].host;
    if (g->tensor[i].use != USE_IN) continue;
    if (integers) tensor_fill_integers(t, seed * GRAPH_TENSORS + (uint64_t)i, magnitude[i] ? magnitude[i] : 1);
    else
      tensor_fill(t, (conv_source){.seed = seed * GRAPH_TENSORS + (uint64_t)i, .half = magnitude[i] == 8 && g->dtype == DTYPE_FP16}); /* as epilogue_source() */
    for (int64_t k = 0; !integers && halvings[i] && k < t->count; k++) tensor_set(t, k, ldexp((double)tensor_get(t, k), -halvings[i]));
  }
}

buffer_sets graph_buffers(const conv_graph *g, const graph_plan *plan) {
  size_t bytes[PART_COUNT] = {0};
  for (int i = 0; i < g->tensors; i++) bytes[i] = tensor_bytes(&g->tensor[i].host);
  bytes[PART_WORKSPACE] = plan->workspace_bytes;
  return buffer_sets_plan_parts(ON_GPU, bytes);
}

cudaError_t graph_upload(const conv_graph *g, const buffer_sets *sets) {
  cudaError_t status = cudaSuccess;
  for (int i = 0; i < g->tensors && !status; i++)
    if (g->tensor[i].use == USE_IN) status = buffer_upload(sets, i, g->tensor[i].host.data);
  return status;
}

conv_buffers graph_view(const conv_graph *g, int operation, const buffer_sets *sets, int set) {
  const graph_operation *o = &g->operation[operation];
  return (conv_buffers){.x = buffer_address(sets, set, o->x),
                        .w = o->w < 0 ? NULL : buffer_address(sets, set, o->w),
                        .y = buffer_address(sets, set, o->y),
                        .workspace = buffer_address(sets, set, PART_WORKSPACE),
                        .scale = o->scale < 0 ? NULL : buffer_address(sets, set, o->scale),
                        .bias = o->bias < 0 ? NULL : buffer_address(sets, set, o->bias),
                        .residual = o->residual < 0 ? NULL : buffer_address(sets, set, o->residual)};
}

cudaError_t graph_launch_some(const conv_graph *g, const graph_plan *plan, const buffer_sets *sets, int set, int first, int end, cudaStream_t stream) {
  cudaError_t status = cudaSuccess;
  for (int i = first; i < end && !status; i++) {
    conv_buffers view[CHAIN_OPERATIONS] = {graph_view(g, i, sets, set)};
    if (plan->kernel[i]) {
      status = plan->kernel[i]->launch(&plan->plan[i], view, stream);
      continue;
    }
    const int begin = i;
    for (int k = 1; k < plan->chain[begin]->count; k++) view[k] = graph_view(g, ++i, sets, set);
    status = plan->chain[begin]->launch(&plan->plan[begin], view, stream);
  }
  return status;
}

cudaError_t graph_launch(const conv_graph *g, const graph_plan *plan, const buffer_sets *sets, int set, cudaStream_t stream) {
  return graph_launch_some(g, plan, sets, set, 0, g->operations, stream);
}
