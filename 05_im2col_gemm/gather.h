/* Windows looked up in a table: how the products of windows and filters (05e, 05f, 05g) know what to copy. From 05d, with gather_skip() and two pixels a thread for tiles of 32 rows.
 *
 * The reduction counts c, r, s. After PERIOD channels, R * S times BK elements, the taps repeat: a table of these PERIOD * R * S elements in shared memory
 * holds how far each lies from its window's first pixel, and its filter row and column as bits. A thread copies for one and the same pixel all the time; it
 * knows which of that window's rows and columns lie outside the image, as bits too. Where pixels are rows of a matrix as they stand (ROWS), there is no
 * table. In a tile of 32 filters (05f) it copies for two pixels, one tap after the other for both. */
#pragma once
#include <cuda_runtime.h>

#include "05_im2col_gemm/tile.h"
#include "common/harness/plain.h"

enum { PERIOD = 16, COPY_ROWS = 4, LAST_PERIOD = 30, ALL = -1 };

/* Two elements of the reduction, each seen from its window: elements of x from the window's first pixel on, and the bits of which none may be
 * `missing`: filter row r is bit r, column s bit R + s, a channel that the last period does not have LAST_PERIOD. */
typedef int4 taps; /* { offset, bits, offset, bits } */

/* What a thread copies of every BK elements, and from where. Of the filters: elements a_l and a_l + COPY_K, of filters a_k, a_k + BM / COPY_ROWS, ... of the
 * tile (past the last: of the last). Of the pixels: elements b_l, b_l + 1, ... of one pixel's window; or of a quad of pixels (ROWS). */
typedef struct gather {
  int a_l, a_k, a_at[COPY_ROWS], a_left;        /* a_left: elements of a filter from here on */
  int b_l, b_column, b_left, position, missing; /* b_left: elements from here (ROWS) or from this period on; position: where in the table we are */
  const float *b_from;                          /* may lie before x: then no copy is made from there */
  int missing_too;                              /* of the pixel half a tile on, if this thread copies that one, too */
  const float *b_too;
} gather;

/* Whether a thread copies for two pixels: a block of 2 BM threads has fewer than the tile has pixels. */
template <int BM, bool ROWS> static constexpr bool copies_two = !ROWS && 2 * BM < BN;

/* table: [PERIOD][R][S] of { offset, bits }. */
template <int THREADS> static __device__ __forceinline__ void fill_table(const conv_problem &p, int *table) {
  const int filter = p.R * p.S, plane = p.H * p.W, group_c = p.C / p.groups;
  for (int i = threadIdx.x; i < PERIOD * filter; i += THREADS) {
    const int c = i / filter, r = i / p.S % p.R, s = i % p.S;
    table[2 * i] = c * plane + r * p.dil_h * p.W + s * p.dil_w;
    table[2 * i + 1] = 1 << r | 1 << (p.R + s) | (c >= group_c % PERIOD ? 1 << LAST_PERIOD : 0);
  }
}

/* What of a window that begins at (in_h, in_w) lies outside the image, as bits. */
template <int UNROLLED> static __device__ __forceinline__ int outside(const conv_problem &p, int in_h, int in_w) {
  int bits = 0;
#pragma unroll UNROLLED
  for (int r = 0; r < p.R; r++)
    if (in_h + r * p.dil_h < 0 || in_h + r * p.dil_h >= p.H) bits |= 1 << r;
#pragma unroll UNROLLED
  for (int s = 0; s < p.S; s++)
    if (in_w + s * p.dil_w < 0 || in_w + s * p.dil_w >= p.W) bits |= 1 << (p.R + s);
  return bits;
}

/* For the tile of a block, whose table this is. */
template <int BM, bool ROWS>
static __device__ __forceinline__ gather gather_begin(const conv_problem &p, const float *x, int *table, int group, int first_k, int first_pixel) {
  constexpr bool TWO = copies_two<BM, ROWS>;
  constexpr int THREADS = 2 * BM, B_LANES = ROWS ? BN / 4 : TWO ? THREADS : BN, B_COPIES = BK * B_LANES / THREADS;
  const int group_c = p.C / p.groups, group_k = p.K / p.groups, filter = p.R * p.S, terms = group_c * filter, image = p.P * p.Q, plane = p.H * p.W,
            thread = threadIdx.x;
  gather g;
  g.a_l = thread % COPY_K, g.a_k = thread / COPY_K, g.a_left = terms - g.a_l;
#pragma unroll
  for (int i = 0; i < COPY_ROWS; i++) g.a_at[i] = (group * group_k + min(first_k + g.a_k + i * (BM / COPY_ROWS), group_k - 1)) * terms + g.a_l;
  g.b_l = thread / B_LANES * B_COPIES, g.b_column = thread % B_LANES * (ROWS ? 4 : 1), g.b_left = terms, g.position = 0;
  const int pixel = first_pixel + g.b_column, n = pixel / image, in_h = pixel / p.Q % p.P * p.stride_h - p.pad_top,
            in_w = pixel % p.Q * p.stride_w - p.pad_left;
  g.b_from = x + (n * p.C + group * group_c) * plane + in_h * p.W + in_w, g.missing = pixel < p.N * image ? 0 : ALL;
  if (ROWS) {
    g.b_from += g.b_l * plane, g.b_left = g.missing ? 0 : terms - g.b_l;
  } else {
    fill_table<THREADS>(p, table);
    g.missing |= outside<4>(p, in_h, in_w);
    if (g.b_left < PERIOD * filter) g.missing |= 1 << LAST_PERIOD;
    if constexpr (TWO) { /* the same, half a tile on */
      const int too = pixel + THREADS, h = too / p.Q % p.P * p.stride_h - p.pad_top, w = too % p.Q * p.stride_w - p.pad_left;
      g.b_too = x + (too / image * p.C + group * group_c) * plane + h * p.W + w;
      g.missing_too = (too < p.N * image ? 0 : ALL) | outside<4>(p, h, w) | (g.missing & 1 << LAST_PERIOD);
    }
    __syncthreads(); /* the table is there */
  }
  return g;
}

/* On to the next BK elements; a_at[] has gone there already. */
template <bool ROWS, bool TWO = false> static __device__ __forceinline__ void gather_next(gather &g, int filter, int plane) {
  g.a_left -= BK;
  if (ROWS) {
    g.b_from += BK * plane, g.b_left -= BK;
  } else {
    g.position += BK;
    if (g.position == PERIOD * filter) {
      g.position = 0, g.b_from += PERIOD * plane, g.b_left -= PERIOD * filter;
      if (g.b_left < PERIOD * filter) g.missing |= g.b_left > 0 ? 1 << LAST_PERIOD : ALL;
      if (TWO) g.b_too += PERIOD * plane;
      if (TWO && g.b_left < PERIOD * filter) g.missing_too |= g.b_left > 0 ? 1 << LAST_PERIOD : ALL;
    }
  }
}

/* Passes over so many elements, a multiple of BK: for blocks that begin later. */
template <bool ROWS, bool TWO = false> static __device__ __forceinline__ void gather_skip(gather &g, int elements, int filter, int plane) {
  const int period = elements / (PERIOD * filter);
#pragma unroll
  for (int i = 0; i < COPY_ROWS; i++) g.a_at[i] += elements;
  g.a_left -= elements;
  if (ROWS) {
    g.b_from += elements * plane, g.b_left -= elements;
  } else {
    g.b_from += period * PERIOD * plane, g.b_left -= period * PERIOD * filter, g.position = elements % (PERIOD * filter);
    if (g.b_left < PERIOD * filter) g.missing |= 1 << LAST_PERIOD;
    if (TWO) g.b_too += period * PERIOD * plane;
    if (TWO && g.b_left < PERIOD * filter) g.missing_too |= 1 << LAST_PERIOD;
  }
}

/* ---------------------------------------------------------------- host */

static inline bool pixels_are_rows(const conv_problem *p) {
  return p->R * p->S == 1 && p->stride_h == 1 && p->stride_w == 1 && p->P == p->H && p->Q == p->W && p->pad_top == 0 && p->pad_left == 0 &&
         p->P * p->Q % 4 == 0;
}

static inline const char *gather_unsupported(const conv_problem *p, const conv_device *device) {
  if (p->R + p->S > LAST_PERIOD) return "R + S exceeds 30";
  const char *why = plain_unsupported(p, device);
  if (why) return why;
  const int64_t before = (int64_t)p->pad_top * p->W + p->pad_left; /* how far before x a window begins */
  return problem_x_count(p) + before > INT_MAX - 1024 ? "x and the padding before it have 2^31 elements or more (offsets are 32-bit)" : NULL;
}

static inline size_t table_bytes(const conv_problem *p) { return (size_t)(PERIOD * p->R * p->S / 2) * sizeof(taps); }
