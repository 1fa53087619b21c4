/* 05o and 05q: what a thread of a block has to do, and the copies of a tile to shared memory. */
#pragma once
#include <cuda_pipeline.h>
#include <cuda_runtime.h>

#include "05_im2col_gemm/direct.h"
#include "common/ptx/ptx.cuh"

/* A block's first filter, image and place; and a thread's share of them: fours of filters, images, strips, pairs of columns from there. */
typedef struct share {
  int group, first_k, first_n, first_p, first_q, part, n, strip, pair;
  bool stores; /* past the last lane: some work of others, whose results nobody stores */
} share;

static __device__ __forceinline__ share share_of(const direct &d, int tp) {
  share s;
  const int thread = threadIdx.x, block = quotient(blockIdx.x, d.by_tiles), tile = blockIdx.x - block * d.by_tiles.by;
  const int groups = quotient(block, d.by_tiles_k), tile_h = quotient(tile, d.by_tiles_w);
  s.first_k = (block - groups * d.tiles_k) * d.parts * TK, s.group = rest_of(groups, d.by_groups), s.first_n = quotient(groups, d.by_groups) * d.images;
  s.first_p = tile_h * d.strips * tp, s.first_q = (tile - tile_h * d.tiles_w) * d.pairs * TQ;
  const int fours = quotient(thread, d.by_pairs), strips = quotient(fours, d.by_parts);
  s.pair = thread - fours * d.pairs, s.part = fours - strips * d.parts, s.strip = rest_of(strips, d.by_strips);
  s.n = min(quotient(strips, d.by_strips), d.images - 1);
  s.stores = thread < d.pairs * d.parts * d.strips * d.images && s.first_n + s.n < d.N;
  return s;
}

/* Where this thread's copies come from and go to. It copies VEC columns of every copy_rows rows. */
typedef struct copies {
  const float *from_x, *from_w;
  ptx_shared to_w, end;
  int *table;                                          /* where each row of the tile lies in x; below 0: outside */
  int first_row, copy_rows, to_pixels, left_k, left_c; /* filters and channels that are left */
  bool outside;
} copies;

/* Shared memory: STAGES of { filters [STAGE_C][9][filter_pitch], pixels [STAGE_C][images][rows][pitch] }, then the table, which is written here.
 * Stride 2: a row has its even columns first, then the odd ones from odd_columns on, and neighbouring lanes read neighbouring words. */
template <int STRIDE, int VEC>
static __device__ __forceinline__ copies begin_copies(const direct &d, const share &s, float4 *shared, int stages, int odd_columns, const float *x,
                                                      const float *w) {
  copies t;
  const int thread = threadIdx.x, threads = blockDim.x, plane = d.H * d.W;
  t.table = (int *)((float *)shared + stages * d.stage);
#pragma unroll 1
  for (int i = thread; i < d.all_rows; i += threads) {
    const int n = quotient(i, d.by_rows), h = s.first_p * STRIDE - d.pad_top + i - n * d.rows;
    t.table[i] = s.first_n + n < d.N && h >= 0 && h < d.H ? n * d.groups * d.channels * plane + h * d.W : -1;
  }
  const int copy_row = quotient(thread, d.by_units), col = rest_of(thread, d.by_units) * VEC, at_col = s.first_q * STRIDE - d.pad_left - d.shift + col;
  t.copy_rows = quotient(threads, d.by_units), t.first_row = copy_row < t.copy_rows ? copy_row : d.all_rows;
  t.outside = at_col < 0 || at_col >= d.W, t.left_k = d.filters - s.first_k, t.left_c = d.channels;
  t.to_pixels = STAGE_C * 9 * d.filter_pitch + t.first_row * d.pitch + (STRIDE == 1 ? col : col / 2 + col % 2 * odd_columns);
  t.from_x = x + (s.first_n * d.groups + s.group) * d.channels * plane + (t.outside ? 0 : at_col);
  t.from_w = w + s.group * d.channels * d.filters * 9 + s.first_k * d.next_filter;
  t.to_w = ptx_shared_address(shared), t.end = t.to_w + 4 * STAGES * d.stage;
  __syncthreads(); /* the table is there */
  return t;
}

/* Starts the copies of the next STAGE_C channels to the next stage. Past the last channel zeros. */
template <int VEC> static __device__ __forceinline__ void copy_channels(const direct &d, copies &t) {
  const int plane = d.H * d.W;
  ptx_shared to_x = t.to_w + 4 * t.to_pixels;
#pragma unroll 2
  for (int row = t.first_row; row < d.all_rows; row += t.copy_rows, to_x += 4 * t.copy_rows * d.pitch) {
    const int at = t.table[row];
#pragma unroll
    for (int j = 0; j < STAGE_C; j++) ptx_cp_async<4 * VEC>(to_x + 4 * j * d.tile, t.from_x + (at + j * plane), t.outside || at < 0 || j >= t.left_c);
  }
#pragma unroll 1
  for (int i = threadIdx.x; i < 9 * TK * d.parts; i += blockDim.x) {
    const int tap = i % 9, k = i / 9;
    const float *from = t.from_w + (k * d.next_filter + (d.turned ? 8 - tap : tap));
#pragma unroll
    for (int j = 0; j < STAGE_C; j++)
      ptx_cp_async<4>(t.to_w + 4 * ((j * 9 + tap) * d.filter_pitch + k), from + j * d.next_channel, k >= t.left_k || j >= t.left_c);
  }
  t.from_x += STAGE_C * plane, t.from_w += STAGE_C * d.next_channel, t.to_w += 4 * d.stage, t.left_c -= STAGE_C;
  if (t.to_w == t.end) t.to_w -= 4 * STAGES * d.stage;
}

/* All channels: multiply(filters, window) for each, of this thread's filters and of its window, in shared memory. */
template <int TP, int STRIDE, int VEC, class F>
static __device__ __forceinline__ void each_channel(const direct &d, const share &s, const float *x, const float *w, const F &multiply) {
  extern __shared__ float4 shared[];
  const int stages = min((d.channels + STAGE_C - 1) / STAGE_C, (int)STAGES);
  copies t = begin_copies<STRIDE, VEC>(d, s, shared, stages, d.pairs * TQ + 2, x, w);
  for (int i = 0; i < STAGES - 1; i++) {
    if (i < stages) copy_channels<VEC>(d, t);
    __pipeline_commit();
  }
  const float *filters = (float *)shared + s.part * TK;
  const int to_window = STAGE_C * 9 * d.filter_pitch + (s.n * d.rows + s.strip * TP * STRIDE) * d.pitch + d.shift + s.pair * TQ - s.part * TK;
  int now = 0; /* the stage that is read */
  for (int c = 0; c < d.channels; c += STAGE_C) {
    __pipeline_wait_prior(STAGES - 2);
    __syncthreads(); /* this stage is there, and nobody reads the one before any more */
    if (c + (STAGES - 1) * STAGE_C < d.channels) copy_channels<VEC>(d, t);
    __pipeline_commit();
#pragma unroll
    for (int i = 0; i < STAGE_C; i++) multiply(filters + i * 9 * d.filter_pitch, filters + to_window + i * d.tile);
    now = now == STAGES - 1 ? 0 : now + 1, filters += now == 0 ? -(STAGES - 1) * d.stage : d.stage;
  }
}
