/* The classes of 05i: pixels of dx by h modulo the vertical stride and w modulo the horizontal one, and which taps of the filter meet which of them. */
#pragma once
#include <cuda_runtime.h>

#include "05_im2col_gemm/gather.h"

/* The taps of a class along one axis: first, first + step, ..., which lie at from, from - apart, ... in dy, as pixel 0 of the class sees it. */
typedef struct progression {
  int first, step, count, from, apart;
} progression;

/* Those r of `size` for which stride divides at - r * dil. */
static __host__ __device__ inline progression taps_of(int at, int stride, int dil, int size) {
  progression t = {0, 1, 0, 0, 0};
  int remainder = at % stride;
  for (int r = 0; r < size; r++) {
    if (remainder == 0) {
      if (t.count == 0) t.first = r;
      if (t.count == 1) t.step = r - t.first;
      t.count++;
    }
    remainder -= dil % stride;
    if (remainder < 0) remainder += stride;
  }
  t.from = (at - t.first * dil) / stride, t.apart = t.step * dil / stride;
  return t;
}

/* Classes along an axis: residues that occur. */
static __host__ __device__ inline int classes_of(int stride, int size) { return stride < size ? stride : size; }

/* A class: pixels (stride_h * i + h, stride_w * j + w), rows x cols of them an image; its taps; the steps and slices of its sums, and the steps of a
 * slice; how many columns of dx are its own for each pixel: its pixel, and those without taps to the right. 0: its left neighbour has it. */
typedef struct pixel_class {
  int rows, cols, steps, slices, slice_steps, wide;
  progression r, s;
} pixel_class;

static __device__ __forceinline__ pixel_class class_of(const conv_problem &p, int h, int w, int slice_steps) {
  pixel_class c;
  c.rows = ((unsigned)p.H - 1 - h + p.stride_h) / p.stride_h, c.cols = ((unsigned)p.W - 1 - w + p.stride_w) / p.stride_w;
  c.r = taps_of(h + p.pad_top, p.stride_h, p.dil_h, p.R), c.s = taps_of(w + p.pad_left, p.stride_w, p.dil_w, p.S);
  c.steps = (p.K / p.groups * c.r.count * c.s.count + BK - 1) / BK;
  c.slices = max(1, (c.steps + slice_steps - 1) / slice_steps), c.slice_steps = (c.steps + c.slices - 1) / c.slices; /* no slice is empty */
  c.wide = c.steps || w == 0;
  if (c.wide)
    for (int next = w + 1; next < classes_of(p.stride_w, p.W); next++, c.wide++)
      if (c.r.count && taps_of(next + p.pad_left, p.stride_w, p.dil_w, p.S).count) break;
  return c;
}

/* Where slices go: parts[slices][classes][C][row], a row is all pixels of the largest class, rounded up to 4. */
static __host__ __device__ inline int row_of(const conv_problem &p) { return (p.N * ((p.H - 1) / p.stride_h + 1) * ((p.W - 1) / p.stride_w + 1) + 3) / 4 * 4; }

/* ---------------------------------------------------------------- host */

static inline int64_t classes(const conv_problem *p) { return (int64_t)classes_of(p->stride_h, p->H) * classes_of(p->stride_w, p->W); }

/* The classes along an axis: how many have 0, 1, 2, ... taps; the most taps, and a class that has them. */
typedef struct axis {
  int with[LAST_PERIOD], most, heaviest;
} axis;

static inline axis count_classes(int size, int stride, int pad, int dil, int taps) {
  axis a = {};
  for (int i = 0; i < classes_of(stride, size); i++) {
    const int count = taps_of(i + pad, stride, dil, taps).count;
    a.with[count]++;
    if (count > a.most) a.most = count, a.heaviest = i;
  }
  return a;
}
static inline axis count_rows(const conv_problem *p) { return count_classes(p->H, p->stride_h, p->pad_top, p->dil_h, p->R); }
static inline axis count_cols(const conv_problem *p) { return count_classes(p->W, p->stride_w, p->pad_left, p->dil_w, p->S); }
