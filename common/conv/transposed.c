/* Transposed convolution. See transposed.h. */
#include "common/conv/transposed.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "00_cpu_reference/definition.h"
#include "common/conv/bound.h"
#include "common/conv/spot_check.h"

/* ---------------------------------------------------------------- padding */

static transposed_padding padding_of(int size, int filter, int in, int stride, int dil, int before) {
  const int64_t rest = (int64_t)(in - 1) * stride + (int64_t)(filter - 1) * dil + 1 - before - size; /* what is cut off behind; negative: added */
  const int64_t output = before - rest;
  if (output >= 0 && output < stride) return (transposed_padding){before, before, (int)output};
  return rest > 0 ? (transposed_padding){before, (int)rest, 0} : (transposed_padding){before, 0, (int)-rest};
}

transposed_padding transposed_padding_h(const conv_problem *p) { return padding_of(p->H, p->R, p->P, p->stride_h, p->dil_h, p->pad_top); }
transposed_padding transposed_padding_w(const conv_problem *p) { return padding_of(p->W, p->S, p->Q, p->stride_w, p->dil_w, p->pad_left); }

void transposed_print(const conv_problem *p, char *text, size_t size) {
  const transposed_padding axes[2] = {transposed_padding_h(p), transposed_padding_w(p)};
  char sides[2][32], columns[48] = "", output[16] = "";
  for (int i = 0; i < 2; i++) snprintf(sides[i], sizeof sides[i], axes[i].before == axes[i].after ? "%d" : "%d+%d", axes[i].before, axes[i].after);
  if (strcmp(sides[0], sides[1]) != 0) snprintf(columns, sizeof columns, " x %s", sides[1]);
  if (axes[0].output != axes[1].output) snprintf(output, sizeof output, " x %d", axes[1].output);
  snprintf(text, size, "x %d x %d x %d x %d, y %d x %d x %d x %d, padding %s%s, output padding %d%s", p->N, p->K, p->P, p->Q, p->N, p->C, p->H, p->W, sides[0],
           columns, axes[0].output, output);
}

/* ---------------------------------------------------------------- the right answer */

typedef struct sums {
  double value, scale;
} sums;

static int64_t at4(const conv_tensor *t, int i, int j, int k, int l) { return i * t->stride[0] + j * t->stride[1] + k * t->stride[2] + l * t->stride[3]; }

/* Adds what channel k of image n of x adds to channel c of y: plane[H][W]. */
static void scatter(const conv_problem *p, const conv_inputs *in, int n, int k, int c, bool random, sums *plane) {
  for (int in_h = 0; in_h < p->P; in_h++)
    for (int in_w = 0; in_w < p->Q; in_w++) {
      const double pixel = in->a[at4(&in->a_shape, n, k, in_h, in_w)];
      for (int r = 0; r < p->R; r++)
        for (int s = 0; s < p->S; s++) {
          const int h = in_h * p->stride_h - p->pad_top + r * p->dil_h, w = in_w * p->stride_w - p->pad_left + s * p->dil_w;
          if (h < 0 || h >= p->H || w < 0 || w >= p->W) continue; /* cut off */
          const double product = pixel * in->b[at4(&in->b_shape, k, c % (p->C / p->groups), r, s)];
          sums *const to = &plane[(int64_t)h * p->W + w];
          to->value += product;
          to->scale += random ? product * product : fabs(product);
        }
    }
}

/* Channels of y, one after the other, until other threads and this one have done all. */
static void all_planes(conv_reference *ref, const conv_problem *p, const conv_inputs *in, sums *plane, int64_t *next) {
  const int group_k = p->K / p->groups;
  for (int64_t i; (i = __atomic_fetch_add(next, 1, __ATOMIC_RELAXED)) < (int64_t)p->N * p->C;) {
    const int n = (int)(i / p->C), c = (int)(i % p->C), first_k = c / (p->C / p->groups) * group_k;
    memset(plane, 0, (size_t)p->H * (size_t)p->W * sizeof *plane);
    for (int k = first_k; k < first_k + group_k; k++) scatter(p, in, n, k, c, ref->random, plane);
    for (int h = 0; h < p->H; h++)
      for (int w = 0; w < p->W; w++) {
        const sums from = plane[(int64_t)h * p->W + w];
        ref->value[at4(&ref->shape, n, c, h, w)] = from.value;
        ref->scale[at4(&ref->shape, n, c, h, w)] = round_scale(ref->random ? sqrt(from.scale) : from.scale);
      }
  }
}

int reference_transposed(conv_reference *ref, const conv_problem *p, const conv_tensor *x, const conv_tensor *w, bool random, char *error, size_t error_size) {
  *ref = (conv_reference){.shape = tensor_describe(p, TENSOR_X, x->dtype, x->layout), .random = random, .terms = problem_terms(p, PASS_DGRAD)};
  const size_t count = (size_t)ref->shape.count;
  float *const floats_x = tensor_to_float(x), *const floats_w = tensor_to_float(w);
  const conv_inputs in = {.a_shape = *x, .b_shape = *w, .a = floats_x, .b = floats_w};
  int64_t next = 0;
  ref->value = malloc(count * sizeof *ref->value);
  ref->scale = malloc(count * sizeof *ref->scale);
  int without_memory = !ref->value || !ref->scale || !floats_x || !floats_w;
#pragma omp parallel if (ref->shape.count * ref->terms >= 32 * TENSOR_THREADS) reduction(+ : without_memory)
  {
    sums *const plane = malloc((size_t)p->H * (size_t)p->W * sizeof *plane);
    without_memory += !plane;
    if (plane && ref->value && ref->scale && floats_x && floats_w) all_planes(ref, p, &in, plane, &next);
    free(plane);
  }
  free(floats_x);
  free(floats_w);
  for (size_t i = 0; i < count && !without_memory; i++) ref->largest_scale = fmaxf(ref->largest_scale, ref->scale[i]);
  const conv_source from[2] = {{.given = x}, {.given = w}};
  const int status = without_memory ? REFERENCE_NO_ROOM : spot_check(ref, p, PASS_DGRAD, x->dtype, from, NULL, NULL, error, error_size);
  if (without_memory) snprintf(error, error_size, "no memory for the reference of %zu elements", count);
  if (status) reference_free(ref);
  return status;
}
