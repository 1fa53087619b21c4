/* Depthwise convolution: one filter and one channel per group, R x S products for a pixel and nothing to share with other channels. As a
 * matrix product it would copy each pixel R x S times to use each copy once; so here the image itself is read, a vector of neighbouring
 * pixels at a time: 18 FLOPs for 8 bytes with a 3x3 filter, which leaves memory as the limit. */
#pragma once
#include "00_cpu_reference/b_view.h"

enum {
  BAND = 32,   /* rows of a task: with a 3x3 filter 34 rows are read for 32, 6 % twice */
  ABREAST = 4, /* vectors summed at a time: one chain of R x S dependent FMAs would wait 4 cycles for each */
};

/* Columns [begin, end) at which every tap reads a column that exists. */
static inline void inner_columns(const axis *w, int64_t *begin, int64_t *end) {
  const int64_t first = w->source_first, last = w->source_first + (w->taps - 1) * w->source_tap;
  *begin = max64(columns_begin(w, first), columns_begin(w, last));
  *end = min64(columns_end(w, first), columns_end(w, last));
}

/* Worth it where a row has a vector to fill and its pixels are neighbours. */
static inline bool is_wide_depthwise(const view *v) {
  int64_t begin, end;
  if (v->rows != 1 || v->channels != 1 || v->w.source_step != 1 || view_taps(v) == 0) return false;
  inner_columns(&v->w, &begin, &end);
  return end - begin >= LANES;
}

/* Rows [first, first + BAND) of one plane. filter: [taps], source and result: the plane in one image. */
static NOINLINE void depthwise_band(const view *v, const float *filter, const float *source, float *result, int64_t first) {
  const axis h = v->h, w = v->w;
  const int64_t row_step = h.source_tap * w.source_size;
  int64_t begin, end;
  inner_columns(&w, &begin, &end);
  for (int64_t i = first; i < min64(first + BAND, h.pixels); i++) {
    /* Taps [top, bottom) read rows that exist. */
    const int64_t row = h.source_first + i * h.source_step;
    int64_t top = 0, bottom = h.taps;
    while (top < bottom && (row + top * h.source_tap < 0 || row + top * h.source_tap >= h.source_size)) top++;
    while (top < bottom && (row + (bottom - 1) * h.source_tap < 0 || row + (bottom - 1) * h.source_tap >= h.source_size)) bottom--;
    const float *from = source + (row + top * h.source_tap) * w.source_size + w.source_first;
    float *to = result + (h.result_first + i * h.result_step) * w.result_size + w.result_first;

    for (int64_t j = begin; j < end; j += ABREAST * LANES) {
      int64_t at[ABREAST]; /* near the end vectors overlap: no loop over the rest */
      vec sum[ABREAST];
      UNROLLED for (int k = 0; k < ABREAST; k++) at[k] = min64(j + k * LANES, end - LANES), sum[k] = (vec){0};
      const float *pixels = from, *factor = filter + top * w.taps;
      for (int64_t r = top; r < bottom; r++, pixels += row_step) {
        const float *tap = pixels;
        for (int64_t s = 0; s < w.taps; s++, tap += w.source_tap, factor++) {
          UNROLLED for (int k = 0; k < ABREAST; k++) sum[k] += *factor * *(const vec_anywhere *)(tap + at[k]);
        }
      }
      UNROLLED for (int k = 0; k < ABREAST; k++) {
        if (w.result_step == 1) *(vec_anywhere *)(to + at[k]) = sum[k];
        else
          for (int lane = 0; lane < LANES; lane++) to[(at[k] + lane) * w.result_step] = sum[k][lane];
      }
    }
    for (int64_t k = 0; k < w.pixels - (end - begin); k++) { /* the few columns left and right of those */
      const int64_t j = k < begin ? k : k + end - begin;
      const float *pixels = from + j, *factor = filter + top * w.taps;
      float sum = 0;
      for (int64_t r = top; r < bottom; r++, pixels += row_step) {
        for (int64_t s = 0; s < w.taps; s++, factor++) {
          const int64_t column = w.source_first + j + s * w.source_tap;
          if (column >= 0 && column < w.source_size) sum += *factor * pixels[s * w.source_tap];
        }
      }
      to[j * w.result_step] = sum;
    }
  }
}
