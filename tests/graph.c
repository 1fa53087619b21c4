/* Several operations as one graph: conv + bias + ReLU, then conv, and more; fp32 by the kernels of step 05, fp16 by depthwise kernels, each with a pointwise
 * kernel between. */
#include <math.h>
#include <string.h>

#include "common/harness/graph.h"
#include "common/harness/registry.h"
#include "tests/tap.h"

extern const conv_step step_04, step_05, step_06; /* three steps in one program */
extern const conv_kernel pointwise_fp32;

static machine gpu;

static conv_operation operation(const char *shape, const char *epilogue) {
  conv_operation o = {.pass = PASS_FPROP};
  char error[256], wrong[EPILOGUE_NAME];
  if (problem_parse(&o.problem, shape, error, sizeof error) || (*epilogue && epilogue_parse(&o.epilogue, epilogue, wrong)))
    ok(0, "%s %s: %s", shape, epilogue, error);
  return o;
}

static int runs, same_runs;

/* Do the host and the device judge alike? Their right answers are sums in fp64 in another order. */
static bool alike(const graph_verdict *a, const graph_verdict *b, int operations) {
  bool same = a->right == b->right && strcmp(a->note, b->note) == 0 && (a->drift == b->drift || fabs(a->drift - b->drift) < 1e-9);
  for (int i = 0; i < operations; i++)
    same &= a->operation[i].mismatches == b->operation[i].mismatches && fabs(a->operation[i].worst_share - b->operation[i].worst_share) < 1e-6;
  return same;
}

typedef struct outcome {
  int status; /* of graph_choose or graph_alloc */
  int operations;
  char error[GRAPH_ERROR];
  graph_verdict verdict;
} outcome;

static outcome run(const conv_graph *graph, const conv_step *step, bool integers) {
  conv_graph g = *graph;
  static graph_plan plan;
  outcome o = {0};
  o.status = graph_choose(&g, &step, 1, &(graph_chains){0}, &gpu.device, &plan, o.error);
  if (!o.status) o.status = graph_alloc(&g, o.error);
  o.operations = g.operations;
  if (!o.status) {
    graph_fill(&g, 3, integers);
    const cudaError_t status = graph_verify(&g, &plan, integers, false, NULL, &o.verdict);
    if (status) o.status = -1, snprintf(o.error, sizeof o.error, "%s", cudaGetErrorString(status));
    graph_verdict there;
    runs++;
    if (!graph_verify(&g, &plan, integers, true, NULL, &there)) same_runs += alike(&o.verdict, &there, g.operations);
  }
  graph_free(&g);
  return o;
}

/* conv + bias + ReLU, then conv. */
static conv_graph two(conv_dtype dtype, conv_layout layout, const char *first, const char *epilogue, const char *second) {
  conv_graph g = {.dtype = dtype, .layout = layout};
  char error[GRAPH_ERROR] = "";
  const conv_operation a = operation(first, epilogue), b = operation(second, "");
  const int y = graph_append(&g, &a, -1, -1, error);
  if (y < 0 || graph_append(&g, &b, y, -1, error) < 0) ok(0, "%s", error);
  return g;
}

/* Every forward kernel of a step in turn does both convolutions. */
static void by_every_kernel(const conv_step *step, const conv_graph *g, const char *what) {
  for (int i = 0; i < step->kernel_count; i++) {
    const conv_kernel *k = step->kernels[i];
    if (k->pass != PASS_FPROP || k->dtype != g->dtype || k->layout != g->layout) continue;
    const conv_step alone = {.number = step->number, .kernels = &k, .kernel_count = 1};
    const outcome exact = run(g, &alone, true), bound = run(g, &alone, false);
    if (exact.status) {
      ok(1, "%s, %s # SKIP %s", k->name, what, exact.error);
      continue;
    }
    if (k->exact_factor == EXACT_NEVER) ok(strstr(exact.verdict.note, "integers do not stay") != NULL, "%s, %s: integers are not asked for", k->name, what);
    else
      ok(exact.verdict.right && exact.operations == 3, "%s, %s: %d operations, integers bit for bit %s", k->name, what, exact.operations, exact.verdict.note);
    const bool no_bound = strstr(bound.verdict.note, "no bound") != NULL;
    ok(bound.verdict.right || (no_bound && k->shares_error), "%s, %s: random, %.0f, %.0f and %.0f %% of the bounds, off by %.2g in the end %s", k->name, what,
       100 * bound.verdict.operation[0].worst_share, 100 * bound.verdict.operation[1].worst_share, 100 * bound.verdict.operation[2].worst_share,
       bound.verdict.drift, bound.verdict.note);
  }
}

/* A basic block with its stem: conv + scale + bias + ReLU, max-pool, conv + bias + ReLU, conv + bias + residual + ReLU. */
static conv_graph block(conv_dtype dtype, conv_layout layout, const char *activation) {
  conv_graph g = {.dtype = dtype, .layout = layout};
  char error[GRAPH_ERROR] = "", first[64], second[64], third[64];
  snprintf(first, sizeof first, "scale,bias,%s", activation), snprintf(second, sizeof second, "bias,%s", activation),
      snprintf(third, sizeof third, "bias,residual,%s", activation);
  const bool deep = dtype == DTYPE_FP16; /* depthwise */
  const conv_operation stem = operation(deep ? "g8mb2ic8ih12oc8oh12kh5ph2" : "mb2ic3ih12oc8oh12kh5ph2", first);
  conv_operation pool = operation("g8mb2ic8ih12oc8oh6kh3sh2ph1", "");
  pool.kind = OPERATION_MAX_POOL;
  const conv_operation a = operation(deep ? "g8mb2ic8ih6oc8kh3ph1" : "mb2ic8ih6oc8kh3ph1", second),
                       b = operation(deep ? "g8mb2ic8ih6oc8kh3ph1" : "mb2ic8ih6oc8kh3ph1", third);
  const int y = graph_append(&g, &stem, -1, -1, error), x = graph_append(&g, &pool, y, -1, error), mid = graph_append(&g, &a, x, -1, error);
  ok(graph_append(&g, &b, mid, x, error) >= 0, "%s: stem, max-pool and a block with a residual %s", dtype_name(dtype), error);
  return g;
}

static void blocks(const conv_step *step, conv_dtype dtype, conv_layout layout) {
  static const char *const activations[] = {"relu", "relu6", "gelu", "silu"};
  for (int i = 0; i < 4; i++) {
    const conv_graph g = block(dtype, layout, activations[i]);
    const outcome exact = run(&g, step, true), bound = run(&g, step, false);
    ok(exact.operations == 7 && (i < 2 ? exact.verdict.right : strstr(exact.verdict.note, "integers do not stay") != NULL), "%s, %s: integers %s",
       dtype_name(dtype), activations[i], exact.verdict.right ? "bit for bit" : exact.verdict.note);
    ok(bound.verdict.right, "%s, %s: random, off by %.2g in the end %s %s", dtype_name(dtype), activations[i], bound.verdict.drift, bound.error,
       bound.verdict.note);
  }
}

/* ---------------------------------------------------------------- planted */

/* A row in whose place another's launch does wrong. */
static cudaError_t skip_bias(const conv_plan *plan, const conv_buffers *b, cudaStream_t stream) {
  conv_plan other = *plan;
  other.operation.epilogue.bias = false;
  return pointwise_fp32.launch(&other, b, stream);
}
static cudaError_t nothing(const conv_plan *plan, const conv_buffers *b, cudaStream_t stream) { return (void)plan, (void)b, (void)stream, cudaSuccess; }
static cudaError_t over_its_input(const conv_plan *plan, const conv_buffers *b, cudaStream_t stream) {
  const cudaError_t status = pointwise_fp32.launch(plan, b, stream);
  return status ? status : cudaMemsetAsync((void *)(uintptr_t)b->bias, 0, sizeof(float), stream);
}
static cudaError_t past_its_end(const conv_plan *plan, const conv_buffers *b, cudaStream_t stream) {
  const cudaError_t status = pointwise_fp32.launch(plan, b, stream);
  return status ? status : cudaMemsetAsync((char *)b->y + problem_y_count(&plan->operation.problem) * 4, 0, sizeof(float), stream);
}

static void planted(void) {
  static const struct {
    cudaError_t (*launch)(const conv_plan *plan, const conv_buffers *b, cudaStream_t stream);
    const char *what, *says;
  } rows[] = {{skip_bias, "a bias forgotten", "operation 2, pointwise: "},
              {nothing, "an operation that writes nothing", "operation 2, pointwise: "},
              {over_its_input, "an input changed", "changed its input, tensor 2"},
              {past_its_end, "a write past the end", "wrote outside tensor "}};
  const conv_graph g = two(DTYPE_FP32, LAYOUT_NCHW, "mb2ic3ih6oc5kh3ph1", "bias,relu", "mb2ic5ih6oc4kh3ph1");
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    conv_kernel bad = pointwise_fp32;
    bad.launch = rows[i].launch;
    const conv_kernel *const kernels[] = {step_05.kernels[0], &bad};
    const conv_step step = {.number = "05", .kernels = kernels, .kernel_count = 2};
    for (int integers = 0; integers < 2; integers++) {
      const outcome o = run(&g, &step, integers);
      ok(!o.status && !o.verdict.right && strncmp(o.verdict.note, rows[i].says, strlen(rows[i].says)) == 0, "%s is found: %s%s", rows[i].what, o.verdict.note,
         o.error);
    }
  }
}

static void refused(void) {
  conv_graph g = {.dtype = DTYPE_FP32, .layout = LAYOUT_NCHW};
  char error[GRAPH_ERROR] = "";
  const conv_operation a = operation("mb2ic3ih6oc5kh3ph1", ""), other = operation("mb2ic4ih6oc4kh3ph1", ""),
                       strided = operation("mb2ic5ih6oc5oh3kh3sh2ph1", "residual");
  const int y = graph_append(&g, &a, -1, -1, error);
  ok(graph_append(&g, &other, y, -1, error) < 0, "%s", error);
  ok(graph_append(&g, &strided, y, y, error) < 0, "%s", error);
  for (int i = 0, x = y; i < GRAPH_OPERATIONS && x >= 0; i++) {
    const conv_operation same = operation("mb2ic5ih6oc5kh3ph1", "");
    x = graph_append(&g, &same, x, -1, error);
  }
  ok(g.operations == GRAPH_OPERATIONS, "%s", error);
  const conv_graph none = two(DTYPE_FP32, LAYOUT_NHWC, "mb2ic3ih6oc5kh3ph1", "", "mb2ic5ih6oc4kh3ph1");
  const outcome o = run(&none, &step_05, true);
  ok(o.status && strstr(o.error, "operation 1"), "%s", o.error);
}

int main(void) {
  char error[512];
  if (machine_open_gpu(&gpu, error, sizeof error)) {
    printf("Bail out! %s\n", error);
    return 1;
  }
  plan(0);
  const conv_graph small = two(DTYPE_FP32, LAYOUT_NCHW, "mb2ic5ih9oc7kh3ph1", "bias,relu", "mb2ic7ih9oc6kh3ph1");
  const conv_graph strided = two(DTYPE_FP32, LAYOUT_NCHW, "mb1ic8ih11oc16oh6kh3sh2ph1", "scale,bias,relu6", "mb1ic16ih6oc24kh1");
  by_every_kernel(&step_05, &small, "3x3 + bias + ReLU, 3x3");
  by_every_kernel(&step_05, &strided, "3x3 of stride 2 + scale + bias + ReLU6, 1x1");
  const conv_graph deep = two(DTYPE_FP16, LAYOUT_NHWC, "g16mb2ic16ih10oc16kh3ph1", "bias,relu", "g16mb2ic16ih10oc16oh5kh5sh2ph2");
  by_every_kernel(&step_04, &deep, "depthwise 3x3 + bias + ReLU, 5x5 of stride 2");
  by_every_kernel(&step_06, &deep, "depthwise 3x3 + bias + ReLU, 5x5 of stride 2");
  blocks(&step_05, DTYPE_FP32, LAYOUT_NCHW);
  blocks(&step_04, DTYPE_FP16, LAYOUT_NHWC);
  planted();
  refused();
  ok(runs > 50 && same_runs == runs, "the device judges as the host does: %d of %d runs", same_runs, runs);
  return done_testing();
}
