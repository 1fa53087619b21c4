/* The pipeline of 05e for products that follow: its copies, and its main loop, over the stages. From 05e; the loop has its callers say what is
 * copied when, rows are copied earlier, and with tiles of 32 rows a thread has two pixels. */
#pragma once
#include <cuda_pipeline.h>
#include <cuda_runtime.h>

#include "05_im2col_gemm/gather.h"
#include "05_im2col_gemm/tile.h"
#include "common/ptx/ptx.cuh"

enum { PARTS = COPY_ROWS };

/* Starts one of PARTS of the copies of the next BK elements, to the buffer at stage + `to` floats, [BK][BM + 4] filters and [BK][BN] pixels; past the last
 * element zeros. */
template <int BM, bool ROWS>
static __device__ __forceinline__ void copy_part(gather &g, const float *w, const int *table, ptx_shared stage, int filter, int plane, int to, int part) {
  constexpr bool TWO = copies_two<BM, ROWS>;
  constexpr int PITCH = BM + 4, B_COPIES = BK * (ROWS ? BN / 4 : BN) / (2 * BM) / (TWO ? 2 : 1), B_PART = B_COPIES / PARTS;
  const ptx_shared a_to = stage + 4 * (to + g.a_l * PITCH + g.a_k + part * (BM / PARTS)), b_to = stage + 4 * (to + BK * PITCH + g.b_l * BN + g.b_column);
  taps two[ROWS ? 1 : B_PART / 2];
  if constexpr (ROWS) {
#pragma unroll
    for (int i = part; i < B_COPIES; i += PARTS) ptx_cp_async<16>(b_to + 4 * i * BN, g.b_from + i * plane, g.b_left <= i);
  } else {
#pragma unroll
    for (int i = 0; i < B_PART / 2; i++) two[i] = *(const taps *)(table + 2 * (g.position + g.b_l + part * B_PART + 2 * i));
  }
  ptx_cp_async<4>(a_to, w + g.a_at[part], g.a_left <= 0);
  ptx_cp_async<4>(a_to + 4 * COPY_K * PITCH, w + g.a_at[part] + COPY_K, g.a_left <= COPY_K);
  g.a_at[part] += BK;
  if constexpr (!ROWS) {
#pragma unroll
    for (int i = 0; i < B_PART / 2; i++) {
      ptx_cp_async<4>(b_to + 4 * (part * B_PART + 2 * i) * BN, g.b_from + two[i].x, two[i].y & g.missing);
      ptx_cp_async<4>(b_to + 4 * (part * B_PART + 2 * i + 1) * BN, g.b_from + two[i].z, two[i].w & g.missing);
    }
#pragma unroll
    for (int i = 0; i < B_PART / 2 && TWO; i++) {
      ptx_cp_async<4>(b_to + 4 * ((part * B_PART + 2 * i) * BN + 2 * BM), g.b_too + two[i].x, two[i].y & g.missing_too);
      ptx_cp_async<4>(b_to + 4 * ((part * B_PART + 2 * i + 1) * BN + 2 * BM), g.b_too + two[i].z, two[i].w & g.missing_too);
    }
  }
  if (part == PARTS - 1) gather_next<ROWS, TWO>(g, filter, plane);
}

/* Which part is copied beside element l of a stage, if it is 0 to PARTS - 1. Looked up, at 3, 5, 7 and 9: the look-up's instructions are spread, too. Rows, of
 * which there is little to work out, at 2, 3, 4 and 5: early, so that they are there in time. */
template <bool ROWS> static __device__ constexpr int part_beside(int l) { return ROWS ? l - 2 : l % 2 ? (l - 3) / 2 : ALL; }

/* What was copied is there, for the whole block, and nobody reads any more what lies elsewhere. */
static __device__ __forceinline__ void meet() {
  __pipeline_commit();
  __pipeline_wait_prior(0);
  __syncthreads();
}

/* sum += the products of so many stages, the first of which is in the buffer `now`: o[0] has its first operands. Afterwards that is so for the stage after
 * the last, if it was copied (BEYOND). copy(l, now, left): what is to be copied to the other buffer beside element l of a stage, the last but left - 1. */
template <int A_PITCH, int B_PITCH, bool BEYOND = true, class COPY>
static __device__ __forceinline__ void multiply_stages(float (&sum)[TM][TN], operands (&o)[2], const float *buffers, int my_row, int my_col, int &now,
                                                       int stages, const COPY &copy) {
  constexpr int FLOATS = BK * (A_PITCH + B_PITCH);
  for (int left = stages; left > 0; left--) {
#pragma unroll
    for (int l = 0; l < BK; l++) {
      copy(l, now, left);
      if (l == BK - 1) {
        meet();
        now = FLOATS - now;
      }
      const int next = (l + 1) % BK;
      if (BEYOND || next || left > 1)
        read_operands(o[next % 2], buffers + now + my_row + next * A_PITCH, buffers + now + BK * A_PITCH + my_col + next * B_PITCH);
      add_products(sum, o[l % 2]);
    }
  }
}
