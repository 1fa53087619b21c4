/* 00a: the definition, one output element at a time, in fp64.
 *
 * Idea:   nothing but the formula, so that a reader can check it by eye. Everything else in this repository is checked against it.
 * Layout: any; offsets are computed from strides. */
#include <math.h>
#include <stdlib.h>

#include "00_cpu_reference/definition.h"
#include "common/conv/bound.h"
#include "common/harness/kernel.h"

static int64_t at4(const conv_tensor *t, int i, int j, int k, int l) { return i * t->stride[0] + j * t->stride[1] + k * t->stride[2] + l * t->stride[3]; }

static void add_product(conv_sums *sums, double a, double b) {
  const double product = a * b; /* two floats: exact in fp64 */
  sums->value += product;
  sums->absolute += fabs(product);
  sums->square += product * product;
}

static conv_sums fprop_element(const conv_problem *p, const conv_inputs *in, int n, int k, int out_p, int out_q) {
  const int group_c = p->C / p->groups, group_k = p->K / p->groups;
  const int first_c = k / group_k * group_c;
  conv_sums sums = {0};
  for (int c = 0; c < group_c; c++)
    for (int r = 0; r < p->R; r++)
      for (int s = 0; s < p->S; s++) {
        const int h = out_p * p->stride_h - p->pad_top + r * p->dil_h;
        const int w = out_q * p->stride_w - p->pad_left + s * p->dil_w;
        if (h < 0 || h >= p->H || w < 0 || w >= p->W) continue; /* padding: zeros */
        add_product(&sums, in->a[at4(&in->a_shape, n, first_c + c, h, w)], in->b[at4(&in->b_shape, k, c, r, s)]);
      }
  return sums;
}

static conv_sums dgrad_element(const conv_problem *p, const conv_inputs *in, int n, int c, int h, int w) {
  const int group_c = p->C / p->groups, group_k = p->K / p->groups;
  const int first_k = c / group_c * group_k;
  conv_sums sums = {0};
  for (int k = 0; k < group_k; k++)
    for (int r = 0; r < p->R; r++)
      for (int s = 0; s < p->S; s++) {
        const int down = h + p->pad_top - r * p->dil_h, right = w + p->pad_left - s * p->dil_w; /* = p * stride_h, q * stride_w */
        if (down < 0 || right < 0 || down % p->stride_h || right % p->stride_w) continue;       /* no window has this pixel under this tap */
        const int out_p = down / p->stride_h, out_q = right / p->stride_w;
        if (out_p >= p->P || out_q >= p->Q) continue;
        add_product(&sums, in->a[at4(&in->a_shape, n, first_k + k, out_p, out_q)], in->b[at4(&in->b_shape, first_k + k, c % group_c, r, s)]);
      }
  return sums;
}

static conv_sums wgrad_element(const conv_problem *p, const conv_inputs *in, int k, int c, int r, int s) {
  const int group_c = p->C / p->groups, group_k = p->K / p->groups;
  const int x_c = k / group_k * group_c + c;
  conv_sums sums = {0};
  for (int n = 0; n < p->N; n++)
    for (int out_p = 0; out_p < p->P; out_p++)
      for (int out_q = 0; out_q < p->Q; out_q++) {
        const int h = out_p * p->stride_h - p->pad_top + r * p->dil_h;
        const int w = out_q * p->stride_w - p->pad_left + s * p->dil_w;
        if (h < 0 || h >= p->H || w < 0 || w >= p->W) continue;
        add_product(&sums, in->a[at4(&in->a_shape, n, x_c, h, w)], in->b[at4(&in->b_shape, n, k, out_p, out_q)]);
      }
  return sums;
}

conv_sums definition_element(const conv_problem *p, conv_pass pass, const conv_inputs *in, const int at[4]) {
  if (pass == PASS_FPROP) return fprop_element(p, in, at[0], at[1], at[2], at[3]);
  if (pass == PASS_DGRAD) return dgrad_element(p, in, at[0], at[1], at[2], at[3]);
  return wgrad_element(p, in, at[0], at[1], at[2], at[3]);
}

/* ---------------------------------------------------------------- as a kernel: the same sums, rounded to fp32 */

/* It computes everything, in one way. */
static const char *plan_nothing(const conv_operation *o, const conv_device *device, conv_plan *plan) { return (void)o, (void)device, (void)plan, NULL; }

static cudaError_t launch(const conv_plan *plan, const conv_buffers *b, cudaStream_t stream) {
  (void)stream;
  const conv_problem *p = &plan->operation.problem;
  const conv_pass pass = plan->operation.pass;
  void *const data[3] = {[TENSOR_X] = b->x, [TENSOR_W] = b->w, [TENSOR_Y] = b->y};
  conv_tensor out = tensor_describe(p, pass_output(pass), DTYPE_FP32, LAYOUT_NCHW);
  out.data = data[pass_output(pass)];
  const conv_inputs in = {
      .a_shape = tensor_describe(p, pass_input_a(pass), DTYPE_FP32, LAYOUT_NCHW),
      .b_shape = tensor_describe(p, pass_input_b(pass), DTYPE_FP32, LAYOUT_NCHW),
      .a = data[pass_input_a(pass)],
      .b = data[pass_input_b(pass)],
  };
#pragma omp parallel for schedule(dynamic, 64)
  for (int64_t i = 0; i < out.count; i++) {
    int at[4];
    tensor_coordinates(&out, i, at);
    tensor_set(&out, i, definition_element(p, pass, &in, at).value);
  }
  return cudaSuccess;
}

static double growth(const conv_problem *p, bool random) { return (void)p, growth_chain_fp32(1, random); } /* one rounding, at the end */

#define DEFINITION_ROW(PASS_NAME, PASS_ID)                                         \
  const conv_kernel definition_##PASS_NAME = {.name = "00a",                       \
                                              .idea = "the definition, fp64 sums", \
                                              .place = ON_CPU,                     \
                                              .pass = PASS_ID,                     \
                                              .dtype = DTYPE_FP32,                 \
                                              .layout = LAYOUT_NCHW,               \
                                              .plan = plan_nothing,                \
                                              .launch = launch,                    \
                                              .growth = growth}
DEFINITION_ROW(fprop, PASS_FPROP);
DEFINITION_ROW(dgrad, PASS_DGRAD);
DEFINITION_ROW(wgrad, PASS_WGRAD);
