/* The definition's sums (00_cpu_reference/a_definition.c), a row of results at a time. The products of an element are added in the same order, so the
 * sums are the same to the last bit; but where a row's taps leave the image is worked out once for all rows, and its elements do not wait
 * for each other's additions. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "00_cpu_reference/definition.h"
#include "common/conv/bound.h"
#include "common/conv/reference.h"

/* Outputs first .. end - 1 of a row have a tap inside the image: output q at column q * stride_w - shift. */
typedef struct inside {
  int first, end, shift;
} inside;

/* What all rows have in common; in->a is x or dy, in->b w or dy. */
typedef struct task {
  const conv_problem *p;
  const conv_inputs *in;
  const inside *taps; /* of each s */
  bool random;        /* scales are made of squares, else of magnitudes */
} task;

/* A row of results: (at[0], at[1], at[2], ...). */
typedef struct row {
  int at[3];
  double *value, *scale;
} row;

static inside inside_of(const conv_problem *p, int s) {
  const int shift = p->pad_left - s * p->dil_w, last = p->W - 1 + shift;
  const int first = shift > 0 ? (shift - 1) / p->stride_w + 1 : 0, end = last < 0 ? 0 : last / p->stride_w + 1;
  return (inside){first, end < p->Q ? end : p->Q, shift};
}

static int64_t row_at(const conv_tensor *t, int i, int j, int k) { return i * t->stride[0] + j * t->stride[1] + k * t->stride[2]; }

/* Adds from[i * step] * factor to element i * to of the row, n times. */
static inline __attribute__((always_inline)) void add_products(double *restrict value, double *restrict scale, int64_t to, const float *restrict from,
                                                               int64_t step, double factor, int n, bool random) {
  for (int i = 0; i < n; i++) {
    const double product = from[i * step] * factor; /* two floats: exact in fp64 */
    value[i * to] += product;
    scale[i * to] += random ? product * product : fabs(product);
  }
}

static void add_row(const row *out, int first, int to, const float *from, int64_t step, double factor, int n, bool random) {
  double *const value = out->value + first, *const scale = out->scale + first;
  if (to == 1 && step == 1 && random) add_products(value, scale, 1, from, 1, factor, n, true);
  else if (to == 1 && step == 1) add_products(value, scale, 1, from, 1, factor, n, false);
  else add_products(value, scale, to, from, step, factor, n, random);
}

static void fprop_row(const task *t, const row *out) {
  const conv_problem *p = t->p;
  const conv_tensor *x = &t->in->a_shape, *w = &t->in->b_shape;
  const int n = out->at[0], k = out->at[1], group_c = p->C / p->groups, first_c = k / (p->K / p->groups) * group_c;
  for (int c = 0; c < group_c; c++)
    for (int r = 0; r < p->R; r++) {
      const int h = out->at[2] * p->stride_h - p->pad_top + r * p->dil_h;
      if (h < 0 || h >= p->H) continue;
      const float *x_row = t->in->a + row_at(x, n, first_c + c, h), *w_row = t->in->b + row_at(w, k, c, r);
      for (int s = 0; s < p->S; s++) {
        const inside in = t->taps[s];
        if (in.first >= in.end) continue;
        add_row(out, in.first, 1, x_row + (in.first * p->stride_w - in.shift) * x->stride[3], p->stride_w * x->stride[3], w_row[s * w->stride[3]],
                in.end - in.first, t->random);
      }
    }
}

static void dgrad_row(const task *t, const row *out) {
  const conv_problem *p = t->p;
  const conv_tensor *y = &t->in->a_shape, *w = &t->in->b_shape;
  const int n = out->at[0], c = out->at[1], group_c = p->C / p->groups, group_k = p->K / p->groups, first_k = c / group_c * group_k;
  for (int k = first_k; k < first_k + group_k; k++)
    for (int r = 0; r < p->R; r++) {
      const int down = out->at[2] + p->pad_top - r * p->dil_h; /* = p * stride_h */
      if (down < 0 || down % p->stride_h || down / p->stride_h >= p->P) continue;
      const float *y_row = t->in->a + row_at(y, n, k, down / p->stride_h), *w_row = t->in->b + row_at(w, k, c % group_c, r);
      for (int s = 0; s < p->S; s++) {
        const inside in = t->taps[s];
        if (in.first >= in.end) continue;
        add_row(out, in.first * p->stride_w - in.shift, p->stride_w, y_row + in.first * y->stride[3], y->stride[3], w_row[s * w->stride[3]], in.end - in.first,
                t->random);
      }
    }
}

static void wgrad_row(const task *t, const row *out) {
  const conv_problem *p = t->p;
  const conv_tensor *x = &t->in->a_shape, *y = &t->in->b_shape;
  const int k = out->at[0], r = out->at[2], x_c = k / (p->K / p->groups) * (p->C / p->groups) + out->at[1];
  for (int n = 0; n < p->N; n++)
    for (int out_p = 0; out_p < p->P; out_p++) {
      const int h = out_p * p->stride_h - p->pad_top + r * p->dil_h;
      if (h < 0 || h >= p->H) continue;
      const float *x_row = t->in->a + row_at(x, n, x_c, h), *y_row = t->in->b + row_at(y, n, k, out_p);
      for (int s = 0; s < p->S; s++) {
        const inside in = t->taps[s];
        double value = out->value[s], scale = out->scale[s];
        for (int q = in.first; q < in.end; q++) {
          const double product = (double)x_row[(q * p->stride_w - in.shift) * x->stride[3]] * y_row[q * y->stride[3]];
          value += product;
          scale += t->random ? product * product : fabs(product);
        }
        out->value[s] = value, out->scale[s] = scale;
      }
    }
}

/* Rows, one after the other, until other threads and this one have done all. `sums`: two doubles for every column of a row. */
static void all_rows(conv_reference *ref, const task *t, void (*sum)(const task *, const row *), double *sums, int64_t *next) {
  const conv_tensor *out = &ref->shape;
  const int columns = out->dim[3];
  row to = {.value = sums, .scale = sums + columns};
  for (int64_t i; (i = __atomic_fetch_add(next, 1, __ATOMIC_RELAXED)) < out->count / columns;) {
    to.at[0] = (int)(i / out->dim[2] / out->dim[1]), to.at[1] = (int)(i / out->dim[2] % out->dim[1]), to.at[2] = (int)(i % out->dim[2]);
    memset(sums, 0, 2 * (size_t)columns * sizeof *sums);
    sum(t, &to);
    for (int j = 0; j < columns; j++) {
      const int64_t at = row_at(out, to.at[0], to.at[1], to.at[2]) + j * out->stride[3];
      ref->value[at] = to.value[j];
      ref->scale[at] = round_scale(t->random ? sqrt(to.scale[j]) : to.scale[j]);
    }
  }
}

int reference_by_rows(conv_reference *ref, const conv_problem *p, conv_pass pass, const conv_inputs *in) {
  static void (*const sum[PASS_COUNT])(const task *, const row *) = {[PASS_FPROP] = fprop_row, [PASS_DGRAD] = dgrad_row, [PASS_WGRAD] = wgrad_row};
  inside *const taps = malloc((size_t)p->S * sizeof *taps);
  int without_memory = taps == NULL;
  int64_t next = 0;
  for (int s = 0; taps != NULL && s < p->S; s++) taps[s] = inside_of(p, s);
  const task t = {p, in, taps, ref->random};
#pragma omp parallel if (ref->shape.count * ref->terms >= 32 * TENSOR_THREADS) reduction(+ : without_memory)
  {
    double *const sums = malloc(2 * (size_t)ref->shape.dim[3] * sizeof *sums);
    without_memory += sums == NULL;
    if (sums != NULL && taps != NULL) all_rows(ref, &t, sum[pass], sums, &next);
    free(sums);
  }
  free(taps);
  return without_memory ? -1 : 0;
}
