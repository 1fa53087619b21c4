/* The products of Winograd's convolution (05l, 05m): M = U^T V for every point and group (winograd.cuh says how they lie, winograd.h how they are cut). */
#pragma once
#include <cuda_pipeline.h>
#include <cuda_runtime.h>

#include "05_im2col_gemm/tile.h"
#include "05_im2col_gemm/winograd.h"
#include "common/ptx/ptx.cuh"

constexpr int RUN = 64, PAIR = 2 * RUN, STAGE = BK * RUN; /* columns next to each other; of U and V in pairs; floats of BK such rows */

/* Where a unit lies: its tile, and from which step on how many. Its sums go to the M of number `slot`. Pieces are numbered after the parts: every cut part's
 * first, then every one's second, and so on. The last tiles come first. */
typedef struct unit_place {
  int tile, first, steps, slot;
} unit_place;

static __device__ __forceinline__ unit_place place_of(const winograd &g, int unit) {
  int part = unit, piece = 0, slice = 0;
  for (const int rest = g.tiles * g.slices - g.whole; part >= g.whole + rest; part -= rest) piece++;
  const bool cut = part >= g.whole;
  for (; part >= g.tiles; part -= g.tiles) slice++;
  const int first = slice * g.part_steps, steps = min(g.depth / BK - first, g.part_steps), skipped = piece * g.piece_steps;
  return {g.tiles - 1 - part, first + skipped, cut ? min(steps - skipped, g.piece_steps) : steps, slice + piece};
}

/* The unit that a block does next; g.units or more: none. After the last rounds of parts some blocks do one more, and the others the pieces. */
static __device__ __forceinline__ int next_unit(const winograd &g, int unit) {
  if (unit < g.last_round) return unit + gridDim.x;
  return unit < g.whole ? g.units : unit + gridDim.x - (g.whole - g.last_round);
}

/* Blocks of columns that need the same points: their first block and tile, points down and across. 0: the last one down, 1: both, 2: across, 3: neither. */
typedef struct region {
  int block, tile, high, wide;
} region;

template <int SIDE> static __device__ __forceinline__ region region_of(const winograd &g, int number) {
  const int block = number > 1 ? (number > 2 ? g.bound[2] : g.bound[1]) : number ? g.bound[0] : 0;
  const int tile = number > 1 ? (number > 2 ? g.before[2] : g.before[1]) : number ? g.before[0] : 0;
  return {block, tile, number < 2 ? SIDE : SIDE - 1, number % 3 ? SIDE : SIDE - 1};
}

/* Where a tile lies: of which point, row of tiles (of all groups), and block of columns. Points are counted fastest, then rows, then blocks. */
typedef struct tile_place {
  int point, row, block;
} tile_place;

template <int SIDE> static __device__ __forceinline__ tile_place tile_of(const winograd &g, int tile) {
  const int number = (tile >= g.before[0]) + (tile >= g.before[1]) + (tile >= g.before[2]), rows = g.p.groups * g.tiles_m;
  const region in = region_of<SIDE>(g, number);
  const int mine = tile - in.tile, rest = number == 1 ? mine / (SIDE * SIDE) : number == 3 ? mine / ((SIDE - 1) * (SIDE - 1)) : mine / (SIDE * (SIDE - 1));
  const int index = mine - rest * in.high * in.wide, i = number % 3 ? index / SIDE : index / (SIDE - 1), block = rows == 1 ? rest : rest / rows;
  return {i * SIDE + index - i * in.wide, rest - block * rows, in.block + block};
}

/* A block of BM * BN / 64 threads does unit after unit, each as 05e does a tile; with the last elements of one the first of the next are copied. A stage is BK
 * elements of the reduction: of U and of V that are BM / 64 and BN / 64 pieces, each [BK][64] as in memory, and in shared memory. */
template <int BM, int BN, int SIDE>
__global__ void __launch_bounds__(BM *BN / 64, 512 / (BM * BN / 64)) multiply_kernel(winograd g, const float *u, const float *v, float *m) {
  constexpr int WARPS = BM * BN / (TM * TN) / 32, FLOATS = BK * (BM + BN), STEP = SIDE * SIDE * 2 * STAGE; /* floats of a stage; from one to the next in U, V */
  constexpr int A_WARP = BK * BM / WARPS, B_WARP = BK * BN / WARPS;                                        /* that a warp copies */
  static_assert(BM % WARP_M == 0 && BN % WARP_N == 0 && RUN % WARP_M == 0 && RUN == WARP_N, "a warp's part is in one piece");
  static_assert(A_WARP % 128 == 0 && B_WARP % 128 == 0, "a lane copies 16 bytes at a time");
  __shared__ float4 stages[2 * FLOATS / 4];
  float *buffers = (float *)stages;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, rows_k = g.p.groups * g.pitch_k;
  const int my_row = warp / (BN / WARP_N) * WARP_M + tile_row(lane), my_col = warp % (BN / WARP_N) * WARP_N + tile_col(lane);

  /* Where the next stage is copied from, how many are left of its unit, and where that unit's sums go. */
  const float *a_from, *b_from;
  int copy_unit = blockIdx.x, copy_left, copy_to;
  const auto aim = [&]() {
    const unit_place at = place_of(g, copy_unit);
    const tile_place tile = tile_of<SIDE>(g, at.tile);
    const int group = g.p.groups == 1 ? 0 : tile.row / g.tiles_m, row = (tile.row - group * g.tiles_m) * BM, column = tile.block * BN, steps = g.depth / BK;
    const int a_pair = group * ((g.pitch_k + PAIR - 1) / PAIR) + row / PAIR, b_pair = column / PAIR * g.p.groups + group;
    a_from = u + (((a_pair * steps + at.first) * (SIDE * SIDE) + tile.point) * 2 + row / RUN % 2) * STAGE + warp * A_WARP + lane * 4;
    b_from = v + (((b_pair * steps + at.first) * (SIDE * SIDE) + tile.point) * 2 + column / RUN % 2) * STAGE + warp * B_WARP + lane * 4;
    copy_left = at.steps;
    copy_to = (((at.slot * g.pitch + column + my_col) / RUN * rows_k + tile.row * BM + my_row) * (SIDE * SIDE) + tile.point) * RUN + my_col % RUN;
  };
  float *a_to = buffers + warp * A_WARP + lane * 4, *b_to = buffers + BK * BM + warp * B_WARP + lane * 4;
  const auto copy = [&]() {
    if (copy_left == 0) { /* the next unit, or once more the last, to no purpose */
      const int next = next_unit(g, copy_unit);
      if (next < g.units) copy_unit = next;
      aim();
    }
#pragma unroll
    for (int i = 0; i < A_WARP; i += 128) __pipeline_memcpy_async(a_to + i, a_from + i, 16);
#pragma unroll
    for (int i = 0; i < B_WARP; i += 128) __pipeline_memcpy_async(b_to + i, b_from + i, 16);
    __pipeline_commit();
    a_from += STEP, b_from += STEP, copy_left--;
  };

  const float *a_at = buffers + my_row / RUN * STAGE + my_row % RUN, *b_at = buffers + BK * BM + my_col / RUN * STAGE + my_col % RUN;
  operands o[2]; /* of this element of the reduction and of the next */
  ptx_griddepcontrol_launch_dependents();
  aim();
  ptx_griddepcontrol_wait();
  copy();
  a_to += FLOATS, b_to += FLOATS;
  __pipeline_wait_prior(0);
  __syncthreads(); /* the first stage is there */
  read_operands(o[0], a_at, b_at);
  int other = FLOATS; /* from the buffer that is read to that which is written */
  for (int unit = blockIdx.x; unit < g.units; unit = next_unit(g, unit)) {
    const int steps = copy_left + 1, to = copy_to; /* its first stage has been copied, no other */
    float sum[TM][TN] = {};
    for (int left = steps; left > 0; left--) {
      copy();
#pragma unroll
      for (int l = 0; l < BK; l++) {
        if (l == BK - 1) {
          __pipeline_wait_prior(0);
          __syncthreads(); /* the next stage is there, and nobody reads this one any more */
          a_at += other, b_at += other, a_to -= other, b_to -= other, other = -other;
        }
        const int next = (l + 1) % BK;
        read_operands(o[next % 2], a_at + next * RUN, b_at + next * RUN);
        add_products(sum, o[l % 2]);
      }
    }
#pragma unroll
    for (int i = 0; i < TM; i++)
#pragma unroll
      for (int j = 0; j < TN; j += 4) store_quad(m + to + quad_row(i) * (SIDE * SIDE * RUN) + quad_col(j), &sum[i][j]);
  }
}
