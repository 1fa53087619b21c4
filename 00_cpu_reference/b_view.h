/* Convolution seen as a matrix product, and the copies that make it one.
 *
 *   result[m][pixel] = sum over (channel, tap) of  filter[m][channel, tap] * source[channel, tap][pixel]
 *
 * The matrix `source` never exists as a whole (it would be R x S times the image): gather() writes the block of it that is needed next
 * into cache. A view says which pixel of the image stands at which place of that matrix; fprop, dgrad and wgrad differ in their views only. */
#pragma once
#include "00_cpu_reference/gemm_tile.h"
#include "common/conv/problem.h"

INLINE int64_t min64(int64_t a, int64_t b) { return a < b ? a : b; }
INLINE int64_t max64(int64_t a, int64_t b) { return a > b ? a : b; }
INLINE int64_t div_up(int64_t a, int64_t b) { return (a + b - 1) / b; }
INLINE int64_t round_up(int64_t a, int64_t b) { return div_up(a, b) * b; }

/* One direction of the image. Pixel i of the matrix is row result_first + i * result_step of the result. Its tap t multiplies filter row
 * tap_first + t * tap_step with source row source_first + i * source_step + t * source_tap; rows outside the source are zeros. */
typedef struct axis {
  int64_t pixels, result_first, result_step, result_size;
  int64_t taps, tap_first, tap_step;
  int64_t source_first, source_step, source_tap, source_size;
} axis;

typedef struct view {
  axis h, w;
  int64_t images, groups;
  int64_t rows, channels;                           /* filters and source channels of one group: the matrix has channels x taps rows */
  int64_t filter_row, filter_channel, filter_width; /* distances in the filter tensor; filter_width is its S */
  int64_t filter_group;
} view;

static inline int64_t view_taps(const view *v) { return v->h.taps * v->w.taps; }
static inline int64_t view_depth(const view *v) { return v->channels * view_taps(v); }
static inline int64_t view_pixels(const view *v) { return v->images * v->h.pixels * v->w.pixels; }
static inline int64_t view_source_plane(const view *v) { return v->h.source_size * v->w.source_size; }
static inline int64_t view_result_plane(const view *v) { return v->h.result_size * v->w.result_size; }

/* fprop: output row i reads input row i * stride + r * dil - pad. */
static inline axis forward_axis(int in, int out, int filter, int stride, int dil, int pad) {
  return (axis){.pixels = out,
                .result_step = 1,
                .result_size = out,
                .taps = filter,
                .tap_step = 1,
                .source_first = -(int64_t)pad,
                .source_step = stride,
                .source_tap = dil,
                .source_size = in};
}

/* dgrad, for the input rows first, first + stride, ... Input row h took part in output row (h + pad - r * dil) / stride where that division
 * leaves no rest. All rows of such a residue class have the same filter rows r, and their output rows lie side by side: a convolution
 * of stride 1, with no product spent on the zeros that a stride would put between the pixels of dy. */
static inline axis backward_axis(int in, int out, int filter, int stride, int dil, int pad, int first) {
  int64_t divisor = stride, rest = dil;
  while (rest) {
    const int64_t next = divisor % rest;
    divisor = rest;
    rest = next;
  }
  const int64_t tap_step = stride / divisor; /* the r that fit are this far apart */
  int64_t r = 0;
  while (r < min64(filter, tap_step) && (first + pad - r * dil) % stride != 0) r++;
  const bool any = r < min64(filter, tap_step);
  return (axis){.pixels = div_up(in - first, stride),
                .result_first = first,
                .result_step = stride,
                .result_size = in,
                .taps = any ? div_up(filter - r, tap_step) : 0,
                .tap_first = r,
                .tap_step = tap_step,
                .source_first = any ? (first + pad - r * dil) / stride : 0,
                .source_step = 1,
                .source_tap = -(dil / divisor),
                .source_size = out};
}

static inline bool axis_is_identity(const axis *a) {
  return a->taps == 1 && a->source_first == 0 && a->source_step == 1 && a->result_step == 1 && a->pixels == a->source_size;
}

/* A 1x1 filter that reads every pixel sees no rows: one long row copies faster than many short ones. */
static inline view merge_rows(view v) {
  if (axis_is_identity(&v.h) && axis_is_identity(&v.w)) {
    v.w.pixels = v.w.source_size = v.w.result_size = v.h.pixels * v.w.pixels;
    v.h.pixels = v.h.source_size = v.h.result_size = 1;
  }
  return v;
}

static inline view forward_view(const conv_problem *p) {
  const int channels = p->C / p->groups;
  const int64_t taps = (int64_t)p->R * p->S;
  return merge_rows((view){.h = forward_axis(p->H, p->P, p->R, p->stride_h, p->dil_h, p->pad_top),
                           .w = forward_axis(p->W, p->Q, p->S, p->stride_w, p->dil_w, p->pad_left),
                           .images = p->N,
                           .groups = p->groups,
                           .rows = p->K / p->groups,
                           .channels = channels,
                           .filter_row = channels * taps,
                           .filter_channel = taps,
                           .filter_width = p->S,
                           .filter_group = problem_w_count(p) / p->groups});
}

/* The residue class of pixel (h, w), h < stride_h, w < stride_w. Filters and channels change places. */
static inline view backward_view(const conv_problem *p, int h, int w) {
  const int rows = p->C / p->groups;
  const int64_t taps = (int64_t)p->R * p->S;
  return merge_rows((view){.h = backward_axis(p->H, p->P, p->R, p->stride_h, p->dil_h, p->pad_top, h),
                           .w = backward_axis(p->W, p->Q, p->S, p->stride_w, p->dil_w, p->pad_left, w),
                           .images = p->N,
                           .groups = p->groups,
                           .rows = rows,
                           .channels = p->K / p->groups,
                           .filter_row = taps,
                           .filter_channel = rows * taps,
                           .filter_width = p->S,
                           .filter_group = problem_w_count(p) / p->groups});
}

/* Pixels [column, column + count) of row `row` of image `image`, at [at, at + count) of a block. */
typedef struct run {
  int64_t image, row, column;
  int at, count;
} run;

enum { MAX_RUNS = DOT_DEPTH }; /* no block has more pixels than this (PIXELS is less), so none has more runs */

/* Cuts pixels [first, first + count) of a view (numbered image by image, row by row) at the ends of rows. Returns the number of runs. */
static inline int cut_runs(const view *v, int64_t first, int count, run *runs) {
  int64_t column = first % v->w.pixels, row = first / v->w.pixels % v->h.pixels, image = first / v->w.pixels / v->h.pixels;
  int n = 0;
  for (int at = 0; at < count;) {
    runs[n] = (run){image, row, column, at, (int)min64(v->w.pixels - column, count - at)};
    at += runs[n++].count;
    column = 0;
    if (++row == v->h.pixels) row = 0, image++;
  }
  return n;
}

/* Runs and the zeros beside them are short, a row of an image or less: a call of memcpy or memset would show. */
typedef float quad __attribute__((vector_size(16), aligned(4), may_alias));

INLINE void fill_zero(float *to, int64_t count) {
  if (count >= 4) {
    for (int64_t i = 0; i < count - 4; i += 4) *(quad *)(to + i) = (quad){0};
    *(quad *)(to + count - 4) = (quad){0}; /* the last one overlaps: no loop over the rest */
  } else if (count > 0) {
    to[0] = to[count / 2] = to[count - 1] = 0;
  }
}

/* to[i] = from[i * step] */
INLINE void copy_run(float *restrict to, const float *restrict from, int64_t count, int64_t step) {
  if (step == 1 && count >= LANES) {
    for (int64_t i = 0; i < count - LANES; i += LANES) *(vec_anywhere *)(to + i) = *(const vec_anywhere *)(from + i);
    *(vec_anywhere *)(to + count - LANES) = *(const vec_anywhere *)(from + count - LANES);
  } else if (step == 1 && count >= 4) {
    for (int64_t i = 0; i < count - 4; i += 4) *(quad *)(to + i) = *(const quad *)(from + i);
    *(quad *)(to + count - 4) = *(const quad *)(from + count - 4);
  } else if (step == 2) {
    for (int64_t i = 0; i < count; i++) to[i] = from[2 * i]; /* a constant step compiles to shuffles */
  } else {
    for (int64_t i = 0; i < count; i++) to[i] = from[i * step];
  }
}

/* Pixels [begin, end) of a row whose source column exists, when pixel j reads column `first` + j * source_step. */
static inline int64_t columns_begin(const axis *w, int64_t first) { return first < 0 ? min64(div_up(-first, w->source_step), w->pixels) : 0; }
static inline int64_t columns_end(const axis *w, int64_t first) {
  return first < w->source_size ? min64((w->source_size - 1 - first) / w->source_step + 1, w->pixels) : 0;
}

/* What one run reads at one tap: zeros, then `count` floats from `from` on (counted from the channel's plane in image 0), then zeros. */
typedef struct piece {
  int64_t from;
  int at, before, count, after;
} piece;

static inline void clip_runs(const view *v, int64_t tap, const run *runs, int run_count, piece *pieces) {
  const int64_t image = v->groups * v->channels * view_source_plane(v);
  const int64_t first_row = v->h.source_first + tap / v->w.taps * v->h.source_tap;
  const int64_t first_column = v->w.source_first + tap % v->w.taps * v->w.source_tap;
  const int64_t begin = columns_begin(&v->w, first_column), end = columns_end(&v->w, first_column);
  for (int i = 0; i < run_count; i++) {
    const run *r = &runs[i];
    const int64_t row = first_row + r->row * v->h.source_step;
    const bool exists = row >= 0 && row < v->h.source_size;
    const int before = exists ? (int)min64(max64(begin - r->column, 0), r->count) : r->count;
    const int after = (int)min64(max64(r->column + r->count - end, 0), r->count - before);
    pieces[i] = (piece){r->image * image + row * v->w.source_size + first_column + (r->column + before) * v->w.source_step, r->at, before,
                        r->count - before - after, after};
  }
}

/* Where pixels lie in the source as in the result, without gaps, the rows of an image that a tap reads are one piece: only the pixels at whose column
 * it reads the row before or after are not its own. Joins such pieces, writes where those pixels are, and how many, and returns the number of pieces. */
static inline int join_pieces(const view *v, const run *runs, int run_count, piece *pieces, int *strays, int *stray_count) {
  int joined = 0;
  *stray_count = 0;
  if (v->w.source_step != 1 || v->h.source_step != 1 || v->w.pixels != v->w.source_size) return run_count;
  for (int i = 0; i < run_count; i++) {
    const piece next = pieces[i];
    piece *last = &pieces[joined - 1];
    if (joined == 0 || runs[i].image != runs[i - 1].image || last->count == 0 || next.count == 0) pieces[joined++] = next;
    else {
      for (int k = 0; k < last->after; k++) strays[(*stray_count)++] = last->at + last->before + last->count + k;
      for (int k = 0; k < next.before; k++) strays[(*stray_count)++] = next.at + k;
      last->count += last->after + next.before + next.count;
      last->after = next.after;
    }
  }
  return joined;
}

/* Rows [first, first + rows) of a group's matrix, at the pixels of `runs`: block[rows][stride], zeros from the last pixel up to `width`.
 * source: channel 0 of the group in image 0. Where runs are cut at the image's edge depends on the tap alone: clipped once for all channels. */
static inline void gather(const view *v, const float *source, int64_t first, int64_t rows, const run *runs, int run_count, int width, float *block,
                          int stride) {
  piece pieces[MAX_RUNS];
  int strays[MAX_RUNS], stray_count;
  const int64_t taps = view_taps(v), step = v->w.source_step;
  const int end = runs[run_count - 1].at + runs[run_count - 1].count;
  for (int64_t t = 0; t < min64(taps, rows); t++) {
    clip_runs(v, (first + t) % taps, runs, run_count, pieces);
    const int count = join_pieces(v, runs, run_count, pieces, strays, &stray_count);
    for (int64_t d = t; d < rows; d += taps) {
      const float *plane = source + (first + d) / taps * view_source_plane(v);
      float *row = block + d * stride;
      for (const piece *p = pieces; p < pieces + count; p++) {
        float *to = row + p->at;
        fill_zero(to, p->before);
        if (p->count) copy_run(to + p->before, plane + p->from, p->count, step);
        fill_zero(to + p->before + p->count, p->after);
      }
      for (int k = 0; k < stray_count; k++) row[strays[k]] = 0;
      fill_zero(row + end, width - end);
    }
  }
}

/* Where a run starts in a plane of the result. */
static inline int64_t result_offset(const view *v, const run *r) {
  return (v->h.result_first + r->row * v->h.result_step) * v->w.result_size + v->w.result_first + r->column * v->w.result_step;
}

/* block[rows][stride] to the result, or (fetch) back. result: the group's first row in image 0. */
static inline void store_rows(const view *v, float *result, int64_t rows, const run *runs, int run_count, const float *block, int stride) {
  const int64_t plane = view_result_plane(v), image = v->groups * v->rows * plane, step = v->w.result_step;
  for (int64_t m = 0; m < rows; m++) {
    for (const run *r = runs; r < runs + run_count; r++) {
      float *to = result + r->image * image + m * plane + result_offset(v, r);
      const float *from = block + m * stride + r->at;
      if (step == 1) copy_run(to, from, r->count, 1);
      else
        for (int i = 0; i < r->count; i++) to[i * step] = from[i];
    }
  }
}

static inline void fetch_rows(const view *v, const float *result, int64_t rows, const run *runs, int run_count, int width, float *block, int stride) {
  const int64_t plane = view_result_plane(v), image = v->groups * v->rows * plane;
  const int end = runs[run_count - 1].at + runs[run_count - 1].count;
  for (int64_t m = 0; m < rows; m++, block += stride) {
    for (const run *r = runs; r < runs + run_count; r++)
      copy_run(block + r->at, result + r->image * image + m * plane + result_offset(v, r), r->count, v->w.result_step);
    fill_zero(block + end, width - end);
  }
}
