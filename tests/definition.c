/* Is the definition right? By hand, against a list of all products, and by the identities that tie the three passes together. */
#include "00_cpu_reference/definition.h"

#include <math.h>
#include <stdlib.h>

#include "common/conv/reference.h"
#include "tests/products.h"
#include "tests/tap.h"

/* A 3x3 image, a 2x2 filter, padding 1: sums anyone can redo on paper. */
static void by_hand(void) {
  conv_problem p;
  char error[256];
  ok(problem_parse(&p, "mb1ic1ih3oc1kh2ph1", error, sizeof error) == 0 && p.P == 4 && p.Q == 4, "3x3 image, 2x2 filter, padding 1: 4x4 outputs");
  const float x[9] = {1, 2, 3, 4, 5, 6, 7, 8, 9}, w[4] = {1, 10, 100, 1000}, dy[16] = {[5] = 1};
  const double y[16] = {1000, 2100, 3200, 300, 4010, 5421, 6532, 603, 7040, 8754, 9865, 906, 70, 87, 98, 9};
  const conv_inputs in = {
      .a_shape = tensor_describe(&p, TENSOR_X, DTYPE_FP32, LAYOUT_NCHW), .b_shape = tensor_describe(&p, TENSOR_W, DTYPE_FP32, LAYOUT_NCHW), .a = x, .b = w};
  int right = 0;
  for (int i = 0; i < 16; i++) right += definition_element(&p, PASS_FPROP, &in, (int[]){0, 0, i / 4, i % 4}).value == y[i];
  ok(right == 16, "fprop: all 16 sums as on paper");
  const conv_sums sums = definition_element(&p, PASS_FPROP, &in, (int[]){0, 0, 1, 1});
  ok(sums.absolute == 5421 && sums.square == 1 + 400 + 160000 + 25000000, "the sums for the error bound: 5421 and 25160401");
  /* dy is 1 at (1,1), whose window is the pixels (0,0) (0,1) (1,0) (1,1): dx is the filter laid there, dw those pixels. */
  const conv_inputs dgrad = {.a_shape = tensor_describe(&p, TENSOR_Y, DTYPE_FP32, LAYOUT_NCHW), .b_shape = in.b_shape, .a = dy, .b = w};
  const double dx[9] = {1, 10, 0, 100, 1000, 0, 0, 0, 0};
  right = 0;
  for (int i = 0; i < 9; i++) right += definition_element(&p, PASS_DGRAD, &dgrad, (int[]){0, 0, i / 3, i % 3}).value == dx[i];
  ok(right == 9, "dgrad of a single 1: the filter, laid over its window");
  const conv_inputs wgrad = {.a_shape = in.a_shape, .b_shape = dgrad.a_shape, .a = x, .b = dy};
  const double dw[4] = {1, 2, 4, 5};
  right = 0;
  for (int i = 0; i < 4; i++) right += definition_element(&p, PASS_WGRAD, &wgrad, (int[]){0, 0, i / 2, i % 2}).value == dw[i];
  ok(right == 4, "wgrad of a single 1: the pixels of its window");
}

/* Fills all three tensors with small integers, computes one pass, and returns <result, the tensor of its role>. */
static double inner_product(const conv_problem *p, conv_pass pass, const conv_tensor tensors[3]) {
  conv_reference reference;
  char error[256];
  const conv_tensor *own = &tensors[pass_output(pass)];
  if (reference_compute(&reference, p, pass, &tensors[pass_input_a(pass)], &tensors[pass_input_b(pass)], true, false, error, sizeof error)) return NAN;
  double sum = 0;
  for (int64_t i = 0; i < own->count; i++) sum += reference.value[i] * tensor_get(own, i);
  reference_free(&reference);
  return sum;
}

static void random_problems(void) {
  enum { PROBLEMS = 300 };
  int same_as_products = 0, adjoint = 0, layouts = 0;
  for (uint64_t seed = 0; seed < PROBLEMS; seed++) {
    const conv_problem p = problem_random(seed + 1000);
    double identity[LAYOUT_COUNT][PASS_COUNT];
    bool same = true;
    for (int layout = 0; layout < LAYOUT_COUNT; layout++) {
      conv_tensor tensors[3];
      for (int role = 0; role < 3; role++) {
        tensors[role] = tensor_describe(&p, (tensor_role)role, DTYPE_FP32, (conv_layout)layout);
        if (tensor_alloc(&tensors[role])) return;
        tensor_fill_integers(&tensors[role], seed * 3 + (uint64_t)role, 8);
      }
      for (int pass = 0; pass < PASS_COUNT; pass++) {
        identity[layout][pass] = inner_product(&p, (conv_pass)pass, tensors);
        product_lists lists = list_products(&p, (conv_pass)pass, tensors);
        conv_reference reference;
        char error[256];
        same &= reference_compute(&reference, &p, (conv_pass)pass, &tensors[pass_input_a((conv_pass)pass)], &tensors[pass_input_b((conv_pass)pass)], true,
                                  false, error, sizeof error) == 0;
        for (int64_t i = 0; same && i < lists.outputs; i++) same = (double)sum_products(&lists, i, ORDER_FORWARD) == reference.value[i];
        free_products(&lists);
        reference_free(&reference);
      }
      for (int role = 0; role < 3; role++) tensor_free(&tensors[role]);
    }
    same_as_products += same;
    adjoint += identity[0][0] == identity[0][1] && identity[0][0] == identity[0][2];
    layouts += identity[0][0] == identity[1][0] && identity[0][1] == identity[1][1] && identity[0][2] == identity[1][2];
  }
  ok(same_as_products == PROBLEMS, "%d random problems: every element equals the sum of its listed products, all passes and layouts", PROBLEMS);
  ok(adjoint == PROBLEMS, "%d random problems: <dy, conv(x, w)> = <dgrad(dy, w), x> = <wgrad(x, dy), w>, exactly", PROBLEMS);
  ok(layouts == PROBLEMS, "%d random problems: NCHW and NHWC hold the same tensors", PROBLEMS);
}

/* Whether every element of the reference is the definition's: its value to the last bit. */
static bool is_defined(const conv_reference *ref, const conv_problem *p, conv_pass pass, const conv_tensor *a, const conv_tensor *b) {
  float *const floats_a = tensor_to_float(a), *const floats_b = tensor_to_float(b);
  const conv_inputs in = {.a_shape = *a, .b_shape = *b, .a = floats_a, .b = floats_b};
  bool same = floats_a && floats_b;
  for (int64_t i = 0; same && i < ref->shape.count; i++) {
    int at[4];
    tensor_coordinates(&ref->shape, i, at);
    const conv_sums sums = definition_element(p, pass, &in, at);
    const double scale = ref->random ? sqrt(sums.square) : sums.absolute;
    same = sums.value == ref->value[i] && fabs((double)ref->scale[i] - scale) <= 1e-6 * scale;
  }
  free(floats_a), free(floats_b);
  return same;
}

/* What stands in for the definition: rows on the CPU, and on large problems the fp64 kernel. Here that runs wherever kernels run. */
static void references_agree(void) {
  enum { PROBLEMS = 240 };
  int same = 0, by_gpu = 0, defined = 0;
  for (uint64_t seed = 0; seed < PROBLEMS; seed++) {
    const conv_problem p = problem_random(seed + 5000);
    const conv_pass pass = (conv_pass)(seed % PASS_COUNT);
    const conv_dtype dtype = seed / 3 % 2 ? DTYPE_FP16 : DTYPE_FP32;
    const conv_layout layout = seed / 6 % 2 ? LAYOUT_NHWC : LAYOUT_NCHW;
    conv_tensor a = tensor_describe(&p, pass_input_a(pass), dtype, layout), b = tensor_describe(&p, pass_input_b(pass), dtype, layout);
    conv_reference cpu, gpu;
    char error[256] = "";
    if (tensor_alloc(&a) || tensor_alloc(&b)) return;
    tensor_fill_normal(&a, seed), tensor_fill_normal(&b, seed + 1);
    bool equal = reference_compute(&cpu, &p, pass, &a, &b, seed % 2, false, error, sizeof error) == 0 &&
                 reference_compute(&gpu, &p, pass, &a, &b, seed % 2, true, error, sizeof error) == 0;
    by_gpu += equal && gpu.by_gpu;
    defined += equal && !cpu.by_gpu && is_defined(&cpu, &p, pass, &a, &b);
    for (int64_t i = 0; equal && i < cpu.shape.count; i++)
      equal =
          fabs(cpu.value[i] - gpu.value[i]) <= 1e-12 * (double)cpu.scale[i] && fabs((double)cpu.scale[i] - (double)gpu.scale[i]) <= 1e-6 * (double)cpu.scale[i];
    same += equal;
    reference_free(&cpu), reference_free(&gpu);
    tensor_free(&a), tensor_free(&b);
  }
  ok(defined == PROBLEMS, "%d random problems: rows have the definition's sums, to the last bit", PROBLEMS);
  ok(same == PROBLEMS && by_gpu == PROBLEMS, "%d random problems: the fp64 kernel agrees with the definition (%d, %d ran as kernels)", PROBLEMS, same, by_gpu);
}

int main(void) {
  plan(0);
  by_hand();
  random_problems();
  references_agree();
  return done_testing();
}
