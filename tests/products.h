/* Every product of a pass, listed per output: an implementation that shares nothing with the definition but the problem's numbers.
 * It walks over all (n,k,p,q,c,r,s) forwards, whatever the pass, and hands each product to the output it belongs to. */
#pragma once
#include <stdlib.h>

#include "common/conv/tensor.h"

typedef struct product_lists {
  int64_t outputs;
  int64_t *start; /* products of output i (memory order) are start[i] .. start[i + 1] - 1 */
  float *a, *b;   /* the two factors */
} product_lists;

/* x, w, y: host tensors of one dtype and layout; the pass's output needs no data. */
static inline product_lists list_products(const conv_problem *p, conv_pass pass, const conv_tensor tensors[3]) {
  const conv_tensor *out = &tensors[pass_output(pass)], *in_a = &tensors[pass_input_a(pass)], *in_b = &tensors[pass_input_b(pass)];
  product_lists lists = {.outputs = out->count, .start = calloc((size_t)out->count + 2, sizeof(int64_t))};
  for (int fill = 0; fill < 2; fill++) { /* first count, then fill */
    for (int n = 0; n < p->N; n++)
      for (int k = 0; k < p->K; k++)
        for (int out_p = 0; out_p < p->P; out_p++)
          for (int out_q = 0; out_q < p->Q; out_q++)
            for (int c = 0; c < p->C / p->groups; c++)
              for (int r = 0; r < p->R; r++)
                for (int s = 0; s < p->S; s++) {
                  const int h = out_p * p->stride_h + r * p->dil_h - p->pad_top, w = out_q * p->stride_w + s * p->dil_w - p->pad_left;
                  if (h < 0 || w < 0 || h >= p->H || w >= p->W) continue;
                  const int group = k / (p->K / p->groups);
                  const int at[3][4] = {{n, group * (p->C / p->groups) + c, h, w}, {k, c, r, s}, {n, k, out_p, out_q}};
                  int64_t offset[3];
                  for (int t = 0; t < 3; t++) {
                    offset[t] = 0;
                    for (int axis = 0; axis < 4; axis++) offset[t] += at[t][axis] * tensors[t].stride[axis];
                  }
                  const int64_t o = offset[pass_output(pass)];
                  if (!fill) {
                    lists.start[o + 2]++;
                  } else {
                    const int64_t slot = lists.start[o + 1]++;
                    lists.a[slot] = tensor_get(in_a, offset[pass_input_a(pass)]);
                    lists.b[slot] = tensor_get(in_b, offset[pass_input_b(pass)]);
                  }
                }
    if (!fill) {
      for (int64_t i = 0; i < out->count; i++) lists.start[i + 2] += lists.start[i + 1];
      lists.a = malloc((size_t)(lists.start[out->count + 1] + 1) * sizeof(float));
      lists.b = malloc((size_t)(lists.start[out->count + 1] + 1) * sizeof(float));
    }
  }
  return lists;
}

static inline void free_products(product_lists *lists) { free(lists->start), free(lists->a), free(lists->b); }

/* Orders of summation, all in fp32. */
enum { ORDER_FORWARD, ORDER_BACKWARD, ORDER_PAIRWISE, ORDER_LANES, ORDER_FUSED, ORDER_COUNT };

static inline float sum_pairwise(const float *a, const float *b, int64_t n) {
  if (n == 0) return 0;
  if (n == 1) return a[0] * b[0];
  return sum_pairwise(a, b, n / 2) + sum_pairwise(a + n / 2, b + n / 2, n - n / 2);
}

static inline float sum_products(const product_lists *lists, int64_t output, int order) {
  const int64_t n = lists->start[output + 1] - lists->start[output];
  const float *a = lists->a + lists->start[output], *b = lists->b + lists->start[output];
  float sum = 0, lane[32] = {0};
  switch (order) {
    case ORDER_BACKWARD:
      for (int64_t i = n - 1; i >= 0; i--) sum += a[i] * b[i];
      return sum;
    case ORDER_PAIRWISE: return sum_pairwise(a, b, n);
    case ORDER_LANES: /* as a warp does: 32 chains, then a tree */
      for (int64_t i = 0; i < n; i++) lane[i % 32] += a[i] * b[i];
      for (int distance = 16; distance > 0; distance /= 2)
        for (int i = 0; i < distance; i++) lane[i] += lane[i + distance];
      return lane[0];
    case ORDER_FUSED:
      for (int64_t i = 0; i < n; i++) sum = __builtin_fmaf(a[i], b[i], sum);
      return sum;
    default:
      for (int64_t i = 0; i < n; i++) sum += a[i] * b[i];
      return sum;
  }
}
