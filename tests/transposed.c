/* Transposed convolution as an operation of its own: its definition beside dgrad's and beside fprop (the adjoint identity), its output padding, and whether the
 * harness accepts a right kernel under this name and refuses planted defects. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/conv/transposed.h"
#include "common/harness/buffers.h"
#include "common/harness/plan.h"
#include "common/harness/trial.h"
#include "tests/products.h"
#include "tests/tap.h"

enum { PROBLEMS = 150 };

/* ---------------------------------------------------------------- padding */

static void padding(void) {
  static const struct {
    const char *shape, *wanted;
  } rows[] = {
      {"mb1ic8ih8oc16oh4kh4sh2ph1", "x 1 x 16 x 4 x 4, y 1 x 8 x 8 x 8, padding 1, output padding 0"},
      {"mb1ic8ih8oc16oh4kh2sh2", "x 1 x 16 x 4 x 4, y 1 x 8 x 8 x 8, padding 0, output padding 0"},
      {"mb1ic8ih7oc16oh4kh3sh2ph1", "x 1 x 16 x 4 x 4, y 1 x 8 x 7 x 7, padding 1, output padding 0"},
      {"mb1ic8ih8oc16oh4kh3sh2ph1", "x 1 x 16 x 4 x 4, y 1 x 8 x 8 x 8, padding 1, output padding 1"},
      {"mb1ic8ih8oc16oh4kh5sh2ph2", "x 1 x 16 x 4 x 4, y 1 x 8 x 8 x 8, padding 2, output padding 1"},
      {"mb1ic8ih12oc16oh4kh3sh3ph1", "x 1 x 16 x 4 x 4, y 1 x 8 x 12 x 12, padding 1, output padding 2"},
      {"mb1ic8ih8oc16oh8kh4ph1", "x 1 x 16 x 8 x 8, y 1 x 8 x 8 x 8, padding 1+2, output padding 0"},       /* less than the least: more is cut off behind */
      {"mb1ic8ih10oc16oh4kh5sh2ph2", "x 1 x 16 x 4 x 4, y 1 x 8 x 10 x 10, padding 2+0, output padding 1"}, /* more than output padding may be */
      {"mb1ic8ih8iw7oc16oh4ow4kh3kw3sh2sw2ph1pw1", "x 1 x 16 x 4 x 4, y 1 x 8 x 8 x 7, padding 1, output padding 1 x 0"},
      {"mb1ic8ih8iw8oc16oh4ow8kh4kw3sh2ph1pw1", "x 1 x 16 x 4 x 8, y 1 x 8 x 8 x 8, padding 1, output padding 0"},
      {"mb1ic8ih8iw9oc16oh4ow8kh4kw2sh2ph1", "x 1 x 16 x 4 x 8, y 1 x 8 x 8 x 9, padding 1 x 0, output padding 0"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    conv_problem p;
    char text[256] = "";
    if (problem_parse(&p, rows[i].shape, text, sizeof text) == 0) transposed_print(&p, text, sizeof text);
    if (!ok(strcmp(text, rows[i].wanted) == 0, "%s: %s", rows[i].shape, text)) diag("expected %s", rows[i].wanted);
  }
  int right = 0;
  for (uint64_t seed = 0; seed < PROBLEMS; seed++) {
    const conv_problem p = problem_random(seed);
    const transposed_padding h = transposed_padding_h(&p), w = transposed_padding_w(&p);
    const bool same = (p.P - 1) * p.stride_h + (p.R - 1) * p.dil_h + 1 - h.before - h.after + h.output == p.H &&
                      (p.Q - 1) * p.stride_w + (p.S - 1) * p.dil_w + 1 - w.before - w.after + w.output == p.W;
    right += same && h.before == p.pad_top && w.before == p.pad_left && h.output >= 0 && h.output < p.stride_h && w.output >= 0 && w.output < p.stride_w;
  }
  ok(right == PROBLEMS, "%d random problems: padding and output padding give y's size, and that is below the stride", right);
}

/* ---------------------------------------------------------------- the definition */

static conv_tensor made(const conv_problem *p, tensor_role role, conv_dtype dtype, conv_layout layout, uint64_t seed, int magnitude) {
  conv_tensor t = tensor_describe(p, role, dtype, layout);
  if (tensor_alloc(&t)) abort();
  tensor_fill(&t, (conv_source){.seed = seed, .magnitude = magnitude});
  return t;
}

/* Is the scatter dgrad's sum? On integers value for value. */
static bool same_as_dgrad(const conv_problem *p, conv_dtype dtype, conv_layout layout, uint64_t seed, int magnitude) {
  char error[256];
  conv_tensor x = made(p, TENSOR_Y, dtype, layout, seed, magnitude), w = made(p, TENSOR_W, dtype, layout, seed + 1, magnitude);
  conv_reference scattered, gathered;
  if (reference_transposed(&scattered, p, &x, &w, !magnitude, error, sizeof error) ||
      reference_compute(&gathered, p, PASS_DGRAD, &x, &w, !magnitude, false, error, sizeof error))
    abort();
  bool same = scattered.largest_scale == gathered.largest_scale && scattered.terms == gathered.terms && scattered.shape.count == gathered.shape.count;
  for (int64_t i = 0; i < gathered.shape.count; i++) {
    const double most = magnitude ? 0 : 1e-13 * (double)scattered.terms * (double)gathered.scale[i];
    same &= fabs(scattered.value[i] - gathered.value[i]) <= most && fabsf(scattered.scale[i] - gathered.scale[i]) <= 1e-6f * gathered.scale[i];
  }
  reference_free(&scattered), reference_free(&gathered);
  tensor_free(&x), tensor_free(&w);
  return same;
}

/* <y, transposed(x, w)> = <fprop(y, w), x> on integers, where y, of the transposed result's shape, is what the convolution reads. */
static bool adjoint(const conv_problem *p, uint64_t seed) {
  char error[256];
  conv_tensor x = made(p, TENSOR_Y, DTYPE_FP32, LAYOUT_NHWC, seed, 3), w = made(p, TENSOR_W, DTYPE_FP32, LAYOUT_NHWC, seed + 1, 3),
              y = made(p, TENSOR_X, DTYPE_FP32, LAYOUT_NHWC, seed + 2, 3);
  conv_reference transposed, forward;
  if (reference_transposed(&transposed, p, &x, &w, false, error, sizeof error) ||
      reference_compute(&forward, p, PASS_FPROP, &y, &w, false, false, error, sizeof error))
    abort();
  double left = 0, right = 0;
  for (int64_t i = 0; i < y.count; i++) left += (double)tensor_get(&y, i) * transposed.value[i];
  for (int64_t i = 0; i < x.count; i++) right += (double)tensor_get(&x, i) * forward.value[i];
  reference_free(&transposed), reference_free(&forward);
  tensor_free(&x), tensor_free(&w), tensor_free(&y);
  return left == right;
}

static void definition(void) {
  int kept = 0, exact[LAYOUT_COUNT] = {0}, close[DTYPE_COUNT] = {0};
  for (uint64_t seed = 0; seed < PROBLEMS; seed++) {
    const conv_problem p = problem_random(seed);
    kept += adjoint(&p, 3 * seed);
    for (int layout = 0; layout < LAYOUT_COUNT; layout++) exact[layout] += same_as_dgrad(&p, DTYPE_FP32, (conv_layout)layout, 2 * seed, 5);
    for (int dtype = 0; dtype < DTYPE_COUNT; dtype++) close[dtype] += same_as_dgrad(&p, (conv_dtype)dtype, LAYOUT_NHWC, 2 * seed, 0);
  }
  for (int i = 0; i < LAYOUT_COUNT; i++) ok(exact[i] == PROBLEMS, "%d random problems, integers, %s: dgrad's sums", exact[i], layout_name((conv_layout)i));
  for (int i = 0; i < DTYPE_COUNT; i++) ok(close[i] == PROBLEMS, "%d random problems, random data, %s: dgrad's sums", close[i], dtype_name((conv_dtype)i));
  ok(kept == PROBLEMS, "%d random problems: adjoint to the convolution", kept);
  const conv_problem large = {.N = 4,
                              .C = 16,
                              .H = 32,
                              .W = 32,
                              .K = 32,
                              .R = 4,
                              .S = 4,
                              .P = 16,
                              .Q = 16,
                              .stride_h = 2,
                              .stride_w = 2,
                              .dil_h = 1,
                              .dil_w = 1,
                              .pad_top = 1,
                              .pad_left = 1,
                              .pad_bottom = 1,
                              .pad_right = 1,
                              .groups = 1,
                              .repeat = 1};
  ok(same_as_dgrad(&large, DTYPE_FP32, LAYOUT_NCHW, 1, 5), "and a problem that is shared among threads");
}

/* ---------------------------------------------------------------- in the harness */

typedef enum { NONE, NO_OUTPUT_PADDING, PADDING_IN_FRONT, CHANGED_INPUT, WRITE_PAST, NO_BIAS, DEFECTS } defect;
static defect planted;

static const char *make_plan(const conv_operation *o, const conv_device *device, conv_plan *plan) { return (void)o, (void)device, (void)plan, NULL; }
static double growth(const conv_problem *p, bool random) { return growth_chain_fp32((double)problem_terms(p, PASS_DGRAD), random); }

static cudaError_t launch(const conv_plan *plan, const conv_buffers *b, cudaStream_t stream) {
  (void)stream;
  conv_problem p = plan->operation.problem;
  conv_tensor tensors[3];
  void *const data[3] = {b->x, b->w, b->y};
  for (int role = 0; role < 3; role++) {
    tensors[role] = tensor_describe(&p, (tensor_role)role, DTYPE_FP32, LAYOUT_NCHW);
    tensors[role].data = data[role];
  }
  const conv_tensor *out = &tensors[TENSOR_X];
  if (planted == PADDING_IN_FRONT) p.pad_top--;
  product_lists lists = list_products(&p, PASS_DGRAD, tensors);
  for (int64_t i = 0; i < out->count; i++) {
    int at[4];
    tensor_coordinates(out, i, at);
    double sum = sum_products(&lists, i, ORDER_FORWARD);
    if (planted == NO_OUTPUT_PADDING && at[2] == p.H - 1) sum = 0; /* the last row is not a copy of zeros */
    if (plan->operation.epilogue.bias && planted != NO_BIAS) sum += (double)b->bias[at[1]];
    tensor_set(out, i, sum);
  }
  if (planted == CHANGED_INPUT) ((float *)b->y)[1] = 0.5f;
  if (planted == WRITE_PAST) ((float *)b->x)[out->count] = 1;
  free_products(&lists);
  return cudaSuccess;
}

static void harness(void) {
  static const struct {
    defect planted;
    const char *name, *says;
  } rows[DEFECTS] = {{NONE, "no defect", "test right: exact on integers"},
                     {NO_OUTPUT_PADDING, "output padding filled with zeros", "WRONG test: integer data"},
                     {PADDING_IN_FRONT, "output padding in front", "WRONG test: integer data"},
                     {CHANGED_INPUT, "an input that changes", "WRONG test: changed its input x"},
                     {WRITE_PAST, "a write past the end", "WRONG test: wrote outside y: byte 1 after its end"},
                     {NO_BIAS, "no bias", "WRONG test: integer data"}};
  const conv_kernel kernel = {
      .name = "test", .idea = "", .place = ON_CPU, .pass = PASS_DGRAD, .plan = make_plan, .launch = launch, .growth = growth, .fuses = FUSES_BIAS};
  conv_problem p;
  char error[256];
  machine m;
  machine_open_cpu(&m);
  if (problem_parse(&p, "mb2ic2ih8oc5oh4kh5sh2ph2", error, sizeof error)) abort();
  step_options options = {.seed = 1, .one_shape = true, .transposed = true};
  for (int i = 0; i < DEFECTS; i++) {
    char *text = NULL;
    size_t size;
    planted = rows[i].planted;
    report r = {.machine = &m, .text = open_memstream(&text, &size)};
    const trial t = {.problem = &p,
                     .pass = PASS_DGRAD,
                     .epilogue = {.bias = true},
                     .place = ON_CPU,
                     .kernels = {&kernel},
                     .kernel_count = 1,
                     .options = &options,
                     .machine = &m};
    trial_run(&t, &r);
    fclose(r.text);
    const bool named = strstr(text, "transposed+bias fp32 NCHW") && strstr(text, "x 2 x 5 x 4 x 4, y 2 x 2 x 8 x 8, padding 2, output padding 1");
    if (!ok(named && strstr(text, rows[i].says), "%s: %s", rows[i].name, rows[i].says)) diag("%s", text);
    free(text);
  }
}

/* ---------------------------------------------------------------- the epilogue alone */

extern const conv_kernel pointwise_fp16;

/* In place, over an image of integers: does every element become what the epilogue makes of it? */
static bool passes_over(const conv_problem *p, const conv_epilogue *e) {
  const conv_operation whole = {.problem = *p, .pass = PASS_DGRAD, .epilogue = *e, .transposed = true}, alone = epilogue_alone(&whole);
  conv_tensor y = made(p, TENSOR_X, DTYPE_FP16, LAYOUT_NHWC, 1, 20), got = y;
  epilogue_data data = epilogue_describe(e, &y);
  if (epilogue_fill(&data, 2, 3) || tensor_alloc(&got)) abort();
  conv_device device = {.arch = 90};
  conv_plan plan;
  const size_t bytes[PART_COUNT] = {
      [0] = tensor_bytes(&y), [PART_RESIDUAL] = tensor_bytes(&data.residual), [PART_SCALE] = tensor_bytes(&data.scale), [PART_BIAS] = tensor_bytes(&data.bias)};
  buffer_sets sets = buffer_sets_plan_parts(ON_GPU, bytes);
  bool right = !kernel_plan(&pointwise_fp16, &alone, &device, &plan) && !buffer_sets_alloc(&sets, 1) && !buffer_upload(&sets, 0, y.data) &&
               !buffer_upload_fused(&sets, &data);
  conv_buffers view = buffer_view(&sets, 0);
  view.y = view.x;
  right = right && !pointwise_fp16.launch(&plan, &view, 0) && !cudaDeviceSynchronize() && !buffer_download(&sets, 0, 0, got.data);
  for (int64_t i = 0; i < y.count; i++) {
    int at[4];
    tensor_coordinates(&y, i, at);
    const double scale = e->scale ? tensor_get(&data.scale, at[1]) : 1, bias = e->bias ? tensor_get(&data.bias, at[1]) : 0,
                 residual = e->residual ? tensor_get(&data.residual, i) : 0;
    right &= (double)tensor_get(&got, i) == epilogue_value(e, tensor_get(&y, i), scale, bias, residual);
  }
  buffer_sets_free(&sets);
  epilogue_free(&data);
  tensor_free(&y), tensor_free(&got);
  return right;
}

static void alone(void) {
  static const char *const shapes[] = {"mb2ic24ih11oc8oh6kh3sh2ph1", "mb2ic10ih11oc8oh6kh3sh2ph1"};
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
    conv_problem p;
    char error[256];
    int right = 0, tried = 0;
    if (problem_parse(&p, shapes[i], error, sizeof error)) abort();
    for (int k = 1; k < 8 * ACTIVATION_GELU; k++, tried++) {
      const conv_epilogue e = {.scale = k & 1, .bias = k & 2, .residual = k & 4, .activation = (conv_activation)(k / 8)};
      right += passes_over(&p, &e);
    }
    ok(right == tried, "%d channels: %d of %d epilogues over a result that is there", p.C, right, tried);
  }
}

int main(void) {
  plan(0);
  padding();
  definition();
  harness();
  alone();
  return done_testing();
}
