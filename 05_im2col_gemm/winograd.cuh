/* Winograd's convolution by 3x3 filters, for outputs in tiles of SIZE x SIZE: 2 x 2 (05h) and 4 x 4 (05i).
 *
 * A tile needs a patch of SIDE x SIDE pixels, SIDE = SIZE + 2. Three steps, each linear, each first along the columns and then along the rows:
 *
 *   filter_kernel's U = G w G^T, patch V = B^T x B: both SIDE x SIDE "points";    M[point] = sum over c of U[point] V[point];    tile of y = A^T M A
 *
 *   transform_kernel  U[point][group][C/groups][K/groups], V[point][C][tiles]            what G and B are, the .cu files say: filter_line, patch_line
 *   multiply_kernel   M[point][K][tiles] = U^T V, for every point a product of matrices
 *   output_kernel     y                                                                  and A: output_line
 *
 * U, V and M are in the workspace; their rows are padded to whole 16 bytes, so that multiply_kernel copies nothing smaller. So that V and M stay in the
 * L2 cache, as many images at a time are done as fit.
 *
 * Because A is linear, M need not be one sum: multiply_kernel cuts the reduction of some tiles so that all multiprocessors end together, and leaves the
 * parts in as many M; output_kernel adds them up, first to last.
 *
 * dgrad with stride 1 is fprop of dy with every filter turned round (tap 8 - i for i), C and K exchanged, padded by 2 - pad. */
#pragma once
#include <cuda_pipeline.h>
#include <cuda_runtime.h>

#include "05_im2col_gemm/tile.h"
#include "common/plain.h"

enum { THREADS = 256, FILTERS_K = 32, FILTERS_C = 8 /* of a block */, TAPS = 9 };

/* Along one line: 3 taps to SIDE points, SIDE pixels to SIDE points, SIDE points to SIZE outputs. */
template <int SIZE> static __device__ void filter_line(const float (&tap)[3], float (&point)[SIZE + 2]);
template <int SIZE> static __device__ void patch_line(const float (&pixel)[SIZE + 2], float (&point)[SIZE + 2]);
template <int SIZE> static __device__ void output_line(const float (&point)[SIZE + 2], float (&output)[SIZE]);

/* How a problem is done. p: as fprop, of all images. A part is a tile of BM filters x BN tiles of one matrix product, and `steps` * BK of its reduction. */
typedef struct winograd {
  conv_problem p;
  int tiles_p, tiles_q;         /* tiles of an image, down and across */
  int images, pitch;            /* that are done at a time; their tiles, rounded up to 4 */
  int pitch_k;                  /* filters of a group, rounded up to 4 */
  int bm, bn, tiles_m, tiles_n; /* of multiply_kernel, per point and group */
  int slices, steps;            /* every tile's reduction is cut into so many parts, of so many steps */
  int whole, pieces, piece_steps; /* parts 0 .. whole - 1 are done as they are; the others, all in the last slice, are cut once more */
  int units;                    /* parts and pieces */
} winograd;

/* U of FILTERS_K filters' FILTERS_C channels. TURNED: w is [C][K/groups][9] instead of [K][C/groups][9], its taps last to first. */
template <int SIZE, bool TURNED> static __device__ void transform_filters(const winograd &g, int block, float *taps, const float *__restrict__ w, float *__restrict__ u) {
  constexpr int SIDE = SIZE + 2, RUN = (TURNED ? FILTERS_K : FILTERS_C) * TAPS; /* neighbours in memory */
  constexpr int PITCH_K = TURNED ? TAPS : RUN + 1, PITCH_C = TURNED ? RUN : TAPS; /* in taps[]; odd from k to k, for the banks */
  const int group_c = g.p.C / g.p.groups, group_k = g.p.K / g.p.groups, blocks_k = (group_k + FILTERS_K - 1) / FILTERS_K, blocks_c = (group_c + FILTERS_C - 1) / FILTERS_C;
  const int first_k = block % blocks_k * FILTERS_K, first_c = block / blocks_k % blocks_c * FILTERS_C, group = block / blocks_k / blocks_c;
  for (int i = threadIdx.x; i < FILTERS_K * FILTERS_C * TAPS; i += THREADS) {
    const int my_k = TURNED ? i % RUN / TAPS : i / RUN, my_c = TURNED ? i / RUN : i % RUN / TAPS, k = first_k + my_k, c = first_c + my_c;
    const int from = TURNED ? (group * group_c + c) * group_k + k : (group * group_k + k) * group_c + c;
    taps[my_k * PITCH_K + my_c * PITCH_C + i % TAPS] = k < group_k && c < group_c ? w[from * TAPS + i % TAPS] : 0;
  }
  __syncthreads();

  const int my_k = threadIdx.x % FILTERS_K, my_c = threadIdx.x / FILTERS_K, k = first_k + my_k, c = first_c + my_c;
  if (k >= g.pitch_k || c >= group_c) return;
  const float *mine = taps + my_k * PITCH_K + my_c * PITCH_C;
  float columns[3][SIDE]; /* of the filter, transformed */
#pragma unroll
  for (int s = 0; s < 3; s++) {
    const float column[3] = {mine[TURNED ? 8 - s : s], mine[TURNED ? 5 - s : 3 + s], mine[TURNED ? 2 - s : 6 + s]};
    filter_line<SIZE>(column, columns[s]);
  }
  u += (group * group_c + c) * g.pitch_k + k;
#pragma unroll
  for (int i = 0; i < SIDE; i++) {
    const float row[3] = {columns[0][i], columns[1][i], columns[2][i]};
    float point[SIDE];
    filter_line<SIZE>(row, point);
#pragma unroll
    for (int j = 0; j < SIDE; j++) u[(i * SIDE + j) * g.p.C * g.pitch_k] = point[j];
  }
}

/* V of one channel of a tile. The tiles that fill up a row of V are zero. */
template <int SIZE> static __device__ void transform_patch(const winograd &g, int index, const float *__restrict__ x, float *__restrict__ v) {
  constexpr int SIDE = SIZE + 2;
  if (index >= g.p.C * g.pitch) return;
  const int c = index / g.pitch, tile = index % g.pitch, n = tile / (g.tiles_p * g.tiles_q);
  const int first_h = tile / g.tiles_q % g.tiles_p * SIZE - g.p.pad_top, first_w = tile % g.tiles_q * SIZE - g.p.pad_left;
  x += ((n * g.p.C + c) * g.p.H + first_h) * g.p.W + first_w;
  float patch[SIDE][SIDE], columns[SIDE][SIDE]; /* columns of the patch, transformed */
#pragma unroll
  for (int i = 0; i < SIDE; i++)
#pragma unroll
    for (int j = 0; j < SIDE; j++) {
      const bool inside = n < g.images && first_h + i >= 0 && first_h + i < g.p.H && first_w + j >= 0 && first_w + j < g.p.W;
      patch[j][i] = inside ? x[i * g.p.W + j] : 0;
    }
#pragma unroll
  for (int j = 0; j < SIDE; j++) patch_line<SIZE>(patch[j], columns[j]);
#pragma unroll
  for (int i = 0; i < SIDE; i++) {
    float row[SIDE], point[SIDE];
#pragma unroll
    for (int j = 0; j < SIDE; j++) row[j] = columns[j][i];
    patch_line<SIZE>(row, point);
#pragma unroll
    for (int j = 0; j < SIDE; j++) v[(i * SIDE + j) * g.p.C * g.pitch + index] = point[j];
  }
}

/* The first filter_blocks blocks transform filters, the others patches, a thread one channel of one tile. */
template <int SIZE, bool TURNED>
__global__ void __launch_bounds__(THREADS) transform_kernel(winograd g, int filter_blocks, const float *__restrict__ x, const float *__restrict__ w, float *__restrict__ u, float *__restrict__ v) {
  __shared__ float taps[FILTERS_K * (FILTERS_C * TAPS + 1)];
  const int block = blockIdx.x;
  if (block < filter_blocks)
    transform_filters<SIZE, TURNED>(g, block, taps, w, u);
  else
    transform_patch<SIZE>(g, (block - filter_blocks) * THREADS + threadIdx.x, x, v);
}

/* A block of BM * BN / 64 threads multiplies unit after unit, as 05c does; while the last elements of one are multiplied, the first of the next are copied. */
template <int BM, int BN>
__global__ void __launch_bounds__(BM *BN / 64, 512 / (BM * BN / 64)) multiply_kernel(winograd g, int slot_floats, const float *__restrict__ u, const float *__restrict__ v, float *__restrict__ m) {
  constexpr int BLOCK = BM * BN / (TM * TN), FLOATS = BK * (BM + BN);
  constexpr int A_QUADS = BM / 4, B_QUADS = BN / 4, A_ROWS = BLOCK / A_QUADS, B_ROWS = BLOCK / B_QUADS; /* of a stage's row; rows that are copied at a time */
  static_assert(BM % WARP_M == 0 && BN % WARP_N == 0 && BK % A_ROWS == 0 && BK % B_ROWS == 0, "a thread has TM x TN sums and copies whole quads");
  __shared__ float4 stages[2 * FLOATS / 4]; /* two of: [BK][BM] of U, [BK][BN] of V */
  float *buffers = (float *)stages;
  const int group_c = g.p.C / g.p.groups, group_k = g.p.K / g.p.groups, steps = (group_c + BK - 1) / BK, tiles = g.whole + (g.units - g.whole) / g.pieces - g.tiles_all * (g.slices - 1);
  const int thread = threadIdx.x, lane = thread % 32, warp = thread / 32;
  (void)tiles; (void)steps; (void)lane; (void)warp; (void)buffers;
}
