/* Winograd's convolution by 3x3 filters, for outputs in tiles of SIZE x SIZE: 2 x 2 (05h) and 4 x 4 (05i).
 *
 * A tile of y needs a patch of SIDE x SIDE pixels, SIDE = SIZE + 2. Three steps, each linear, each first along the columns and then along the rows:
 *
 *   filter: U = G w G^T        patch: V = B^T x B        both of SIDE x SIDE "points". M[point] = sum over c of U[point] V[point]        y = A^T M A
 *
 *   transform_kernel  U[point][group][C/groups][K/groups] and V[point][group][C/groups][tiles of y]; G and B are in the .cu files: filter_line, patch_line
 *   multiply_kernel   M[point][K][tiles of y] = U^T V: for every point, and group, a product of matrices
 *   output_kernel     y; A is output_line
 *
 * U, V and M are in the workspace, U and V padded with zeros to whole tiles of multiply_kernel: its copies are 16 bytes each and ask for no limits. So that
 * V and M stay in the L2 cache, only as many images at a time are done as fit.
 *
 * Because A is linear, M need not be one sum: multiply_kernel cuts the reduction of some tiles so that all multiprocessors end together (winograd.h), and
 * leaves the parts in as many M; output_kernel adds them up, first to last.
 *
 * dgrad with stride 1 is fprop of dy with every filter turned round (tap 8 - i for i), C and K exchanged, padded by 2 - pad. */
#pragma once
#include <cuda_pipeline.h>
#include <cuda_runtime.h>

#include "05_im2col_gemm/tile.h"
#include "05_im2col_gemm/winograd.h"

enum { THREADS = 256, FILTERS_K = 32, FILTERS_C = 8 /* of a block */, TAPS = 9 };

/* Along one line: 3 taps to SIDE points, SIDE pixels to SIDE points, SIDE points to SIZE outputs. */
template <int SIZE> static __device__ void filter_line(const float (&tap)[3], float (&point)[SIZE + 2]);
template <int SIZE> static __device__ void patch_line(const float (&pixel)[SIZE + 2], float (&point)[SIZE + 2]);
template <int SIZE> static __device__ void output_line(const float (&point)[SIZE + 2], float (&output)[SIZE]);

/* U of FILTERS_K filters' FILTERS_C channels. TURNED: w is [C][K/groups][9] instead of [K][C/groups][9], its taps last to first. */
template <int SIZE, bool TURNED>
static __device__ void transform_filters(const winograd &g, int block, float *taps, const float *__restrict__ w, float *__restrict__ u) {
  constexpr int SIDE = SIZE + 2, RUN = (TURNED ? FILTERS_K : FILTERS_C) * TAPS; /* neighbours in memory */
  constexpr int PITCH_K = TURNED ? TAPS : RUN + 1, PITCH_C = TURNED ? RUN : TAPS; /* in taps[]; odd from k to k, for the banks */
  const int group_c = g.p.C / g.p.groups, group_k = g.p.K / g.p.groups, blocks_k = g.pitch_k / FILTERS_K, blocks_c = g.depth / FILTERS_C;
  const int first_k = block % blocks_k * FILTERS_K, first_c = block / blocks_k % blocks_c * FILTERS_C, group = block / blocks_k / blocks_c;
  for (int i = threadIdx.x; i < FILTERS_K * FILTERS_C * TAPS; i += THREADS) {
    const int my_k = TURNED ? i % RUN / TAPS : i / RUN, my_c = TURNED ? i / RUN : i % RUN / TAPS, k = first_k + my_k, c = first_c + my_c;
    const int from = TURNED ? (group * group_c + c) * group_k + k : (group * group_k + k) * group_c + c;
    taps[my_k * PITCH_K + my_c * PITCH_C + i % TAPS] = k < group_k && c < group_c ? w[from * TAPS + i % TAPS] : 0;
  }
  __syncthreads();

  const int my_k = threadIdx.x % FILTERS_K, my_c = threadIdx.x / FILTERS_K, k = first_k + my_k, c = first_c + my_c;
  const float *mine = taps + my_k * PITCH_K + my_c * PITCH_C;
  float columns[3][SIDE]; /* of the filter, transformed */
#pragma unroll
  for (int s = 0; s < 3; s++) {
    const float column[3] = {mine[TURNED ? 8 - s : s], mine[TURNED ? 5 - s : 3 + s], mine[TURNED ? 2 - s : 6 + s]};
    filter_line<SIZE>(column, columns[s]);
  }
  u += (group * g.depth + c) * g.pitch_k + k;
#pragma unroll
  for (int i = 0; i < SIDE; i++) {
    const float row[3] = {columns[0][i], columns[1][i], columns[2][i]};
    float point[SIDE];
    filter_line<SIZE>(row, point);
#pragma unroll
    for (int j = 0; j < SIDE; j++) u[(i * SIDE + j) * g.p.groups * g.depth * g.pitch_k] = point[j];
  }
}

/* V of one channel of a tile; zero in the padding. */
template <int SIZE> static __device__ void transform_patch(const winograd &g, int index, const float *__restrict__ x, float *__restrict__ v) {
  constexpr int SIDE = SIZE + 2;
  const int rows = g.p.groups * g.depth, row_c = index / g.pitch, group_c = g.p.C / g.p.groups, my_c = row_c % g.depth, c = row_c / g.depth * group_c + my_c;
  if (row_c >= rows) return;
  const int tile = index % g.pitch, n = tile / (g.tiles_p * g.tiles_q);
  const int first_h = tile / g.tiles_q % g.tiles_p * SIZE - g.p.pad_top, first_w = tile % g.tiles_q * SIZE - g.p.pad_left;
  x += ((n * g.p.C + c) * g.p.H + first_h) * g.p.W + first_w;
  float patch[SIDE][SIDE], columns[SIDE][SIDE]; /* columns of the patch, transformed */
#pragma unroll
  for (int i = 0; i < SIDE; i++)
#pragma unroll
    for (int j = 0; j < SIDE; j++) {
      const bool inside = my_c < group_c && n < g.images && first_h + i >= 0 && first_h + i < g.p.H && first_w + j >= 0 && first_w + j < g.p.W;
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
    for (int j = 0; j < SIDE; j++) v[(i * SIDE + j) * rows * g.pitch + index] = point[j];
  }
}

/* The first filter_blocks blocks transform filters, the others patches, a thread one channel of one tile. */
template <int SIZE, bool TURNED>
__global__ void __launch_bounds__(THREADS)
    transform_kernel(winograd g, int filter_blocks, const float *__restrict__ x, const float *__restrict__ w, float *__restrict__ u, float *__restrict__ v) {
  __shared__ float taps[FILTERS_K * (FILTERS_C * TAPS + 1)];
  const int block = blockIdx.x;
  if (block < filter_blocks)
    transform_filters<SIZE, TURNED>(g, block, taps, w, u);
  else
    transform_patch<SIZE>(g, (block - filter_blocks) * THREADS + threadIdx.x, x, v);
}

/* Where a unit lies: its tile, and from which step on how many. Its sums go to the M of number `slot`. */
typedef struct unit_place {
  int tile, first, steps, slot;
} unit_place;

static __device__ __forceinline__ unit_place place_of(const winograd &g, int unit) {
  const int all = g.depth / BK, cut = max(unit - g.whole, 0), part = unit - cut + cut / g.pieces, piece = cut % g.pieces;
  const int slice = part / g.tiles, first = slice * g.part_steps, steps = min(all - first, g.part_steps), skipped = piece * g.piece_steps;
  if (unit < g.whole) return {part % g.tiles, first, steps, slice};
  return {part % g.tiles, first + skipped, min(steps - skipped, g.piece_steps), slice + piece};
}

/* A block of BM * BN / 64 threads does unit after unit, each as 05c does a tile; with the last elements of one the first of the next are copied. */
template <int BM, int BN>
__global__ void __launch_bounds__(BM *BN / 64, 512 / (BM * BN / 64))
    multiply_kernel(winograd g, const float *__restrict__ u, const float *__restrict__ v, float *__restrict__ m) {
  constexpr int BLOCK = BM * BN / (TM * TN), FLOATS = BK * (BM + BN), LANES = BLOCK / BK; /* threads that copy a row of a stage */
  static_assert(BM % WARP_M == 0 && BN % WARP_N == 0 && BM % (4 * LANES) == 0 && BN % (4 * LANES) == 0, "a thread has TM x TN sums and copies whole quads");
  __shared__ float4 stages[2 * FLOATS / 4]; /* two of: [BK][BM] of U, [BK][BN] of V */
  float *buffers = (float *)stages;
  const int group_k = g.p.K / g.p.groups, thread = threadIdx.x, copy_row = thread / LANES, copy_quad = thread % LANES * 4;

  /* Where the next stage is copied from. matrix: point * groups + group, in this order in U, V and M. */
  const float *a_from, *b_from;
  int copy_unit = blockIdx.x, copy_steps;
  const auto aim = [&]() {
    const unit_place at = place_of(g, copy_unit);
    const int tile_n = at.tile / g.tiles_m, matrix = tile_n / g.tiles_n, row = matrix * g.depth + at.first * BK + copy_row;
    a_from = u + row * g.pitch_k + at.tile % g.tiles_m * BM + copy_quad;
    b_from = v + row * g.pitch + tile_n % g.tiles_n * BN + copy_quad;
    copy_steps = at.steps;
  };
  /* Starts the copies of a stage, and aims at the next. */
  const auto copy = [&](float *to) {
    float *a_to = to + copy_row * BM + copy_quad, *b_to = to + BK * BM + copy_row * BN + copy_quad;
#pragma unroll
    for (int i = 0; i < BM; i += 4 * LANES) __pipeline_memcpy_async(a_to + i, a_from + i, 16);
#pragma unroll
    for (int i = 0; i < BN; i += 4 * LANES) __pipeline_memcpy_async(b_to + i, b_from + i, 16);
    a_from += BK * g.pitch_k, b_from += BK * g.pitch;
    if (--copy_steps == 0 && (copy_unit += gridDim.x) < g.units) aim();
  };

  const int warp = thread / 32, my_row = warp / (BN / WARP_N) * WARP_M + tile_row(thread % 32), my_col = warp % (BN / WARP_N) * WARP_N + tile_col(thread % 32);
  operands o[2]; /* of this element of the reduction and of the next */
  aim();
  copy(buffers);
  __pipeline_commit();
  __pipeline_wait_prior(0);
  __syncthreads(); /* the first stage is there */
  read_operands(o[0], buffers + my_row, buffers + BK * BM + my_col);
  int now = 0; /* the buffer that is read */
  for (int unit = blockIdx.x; unit < g.units; unit += gridDim.x) {
    const unit_place at = place_of(g, unit);
    float sum[TM][TN] = {};
    for (int left = at.steps; left > 0; left--) {
#pragma unroll
      for (int l = 0; l < BK; l++) {
        if (l == 1 && copy_unit < g.units) copy(buffers + (FLOATS - now));
        if (l == BK - 1) {
          __pipeline_commit();
          __pipeline_wait_prior(0);
          __syncthreads(); /* the next stage is there, and nobody reads this one any more */
          now = FLOATS - now;
        }
        const int next = (l + 1) % BK;
        if (next || left > 1 || unit + gridDim.x < g.units) read_operands(o[next % 2], buffers + now + my_row + next * BM, buffers + now + BK * BM + my_col + next * BN);
        add_products(sum, o[l % 2]);
      }
    }
    const int tile_n = at.tile / g.tiles_m, k = at.tile % g.tiles_m * BM + my_row, tile = tile_n % g.tiles_n * BN + my_col, matrix = tile_n / g.tiles_n;
    float *to = m + ((at.slot * g.points * g.p.groups + matrix) * group_k + k) * g.pitch + tile;
#pragma unroll
    for (int i = 0; i < TM; i++)
#pragma unroll
      for (int j = 0; j < TN; j += 4)
        if (k + quad_row(i) < group_k && tile + quad_col(j) < g.columns) store_quad(to + quad_row(i) * g.pitch + quad_col(j), &sum[i][j]);
  }
}

/* A thread: one tile of one image and filter of y. */
template <int SIZE>
__global__ void __launch_bounds__(THREADS) output_kernel(winograd g, const float *__restrict__ m, float *__restrict__ y) {
  constexpr int SIDE = SIZE + 2;
  const int index = blockIdx.x * THREADS + threadIdx.x, k = index / g.pitch, tile = index % g.pitch, n = tile / (g.tiles_p * g.tiles_q);
  if (k >= g.p.K || n >= g.images) return;
  const int group_k = g.p.K / g.p.groups, row = g.p.K * g.pitch; /* of M: a point */
  float point[SIDE][SIDE], rows[SIDE][SIZE];
#pragma unroll
  for (int i = 0; i < SIDE * SIDE; i++) point[i / SIDE][i % SIDE] = m[i * row + index];
  const int part = (g.slices - 1) * g.tiles + (k / group_k * g.tiles_n + tile / g.bn) * g.tiles_m + k % group_k / g.bm; /* the last one of point 0 */
  for (int slot = 1; slot < g.slices + g.pieces - 1; slot++)
#pragma unroll
    for (int i = 0; i < SIDE * SIDE; i++)
      if (slot < g.slices || part + i * (g.tiles / (SIDE * SIDE)) >= g.whole) point[i / SIDE][i % SIDE] += m[(slot * SIDE * SIDE + i) * row + index];
#pragma unroll
  for (int i = 0; i < SIDE; i++) output_line<SIZE>(point[i], rows[i]);

  const int p = tile / g.tiles_q % g.tiles_p * SIZE, q = tile % g.tiles_q * SIZE;
  y += ((n * g.p.K + k) * g.p.P + p) * g.p.Q + q;
  float out[SIZE][SIZE]; /* by column */
#pragma unroll
  for (int j = 0; j < SIZE; j++) {
    float column[SIDE];
#pragma unroll
    for (int i = 0; i < SIDE; i++) column[i] = rows[i][j];
    output_line<SIZE>(column, out[j]);
  }
#pragma unroll
  for (int i = 0; i < SIZE; i++) {
    if (p + i >= g.p.P) break;
    float *to = y + i * g.p.Q;
    if (SIZE == 4 && g.p.Q % 4 == 0) {
      *(float4 *)to = make_float4(out[0][i], out[1][i], out[SIZE - 2][i], out[SIZE - 1][i]);
      continue;
    }
#pragma unroll
    for (int j = 0; j < SIZE; j += 2) /* a tile's first column is even: with an even Q pairs are aligned and whole */
      if (q + j + 1 < g.p.Q && g.p.Q % 2 == 0)
        *(float2 *)(to + j) = make_float2(out[j][i], out[j + 1][i]);
      else if (q + j < g.p.Q) {
        to[j] = out[j][i];
        if (q + j + 1 < g.p.Q) to[j + 1] = out[j + 1][i];
      }
  }
}

/* ---------------------------------------------------------------- host */

template <int SIZE, bool TURNED>
static cudaError_t winograd_launch(const conv_problem *p, const float *x, const float *w, float *y, float *workspace, cudaStream_t stream) {
  const conv_problem f = as_fprop(p, TURNED ? PASS_DGRAD : PASS_FPROP);
  int multiprocessors = 0, device = 0, images = images_of(&f, SIZE), pitch_k = 0;
  cudaError_t status = cudaGetDevice(&device);
  if (!status) status = cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device);
  for (int first = 0; first < f.N && !status; first += images) {
    const winograd g = plan_for(&f, SIZE, f.N - first < images ? f.N - first : images);
    float *u = workspace, *v = u + filter_count(&g), *m = v + patch_count(&g);
    const int filter_blocks = g.pitch_k == pitch_k ? 0 : f.groups * (g.pitch_k / FILTERS_K) * (g.depth / FILTERS_C); /* fewer images may be cut otherwise */
    const int patch_blocks = ceil_div((int64_t)f.groups * g.depth * g.pitch, THREADS);
    pitch_k = g.pitch_k;
    transform_kernel<SIZE, TURNED><<<filter_blocks + patch_blocks, THREADS, 0, stream>>>(g, filter_blocks, x + (int64_t)first * f.C * f.H * f.W, w, u, v);
    const int threads = g.bm * g.bn / (TM * TN), resident = multiprocessors * (512 / threads);
    const auto multiply = g.bn == 64 ? multiply_kernel<128, 64> : g.bm == 64 ? multiply_kernel<64, 128> : multiply_kernel<128, 128>;
    multiply<<<g.units < resident ? g.units : resident, threads, 0, stream>>>(g, u, v, m);
    output_kernel<SIZE><<<ceil_div((int64_t)f.K * g.pitch, THREADS), THREADS, 0, stream>>>(g, m, y + (int64_t)first * f.K * f.P * f.Q);
    status = cudaGetLastError();
  }
  return status;
}
