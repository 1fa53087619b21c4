/* Winograd's convolution by 3x3 filters, for outputs in tiles of SIZE x SIZE: 2 x 2 (05h) and 4 x 4 (05i).
 *
 * A tile of y needs a patch of SIDE x SIDE pixels, SIDE = SIZE + 2. Three steps, each linear, each first along the columns and then along the rows:
 *
 *   filter: U = G w G^T        patch: V = B^T x B        both of SIDE x SIDE "points". M[point] = sum over c of U[point] V[point]        y = A^T M A
 *
 *   transform_kernel  U and V; G and B are in the .cu files: filter_line, patch_line
 *   multiply_kernel   M = U^T V: for every point, and group, a product of matrices
 *   output_kernel     y; A is output_line
 *
 * In memory (the workspace) neighbours are 64 columns, filters or tiles of y; then come the points, so that a thread has all of them at fixed distances:
 *
 *   U [group][K/groups / 64][C/groups][point][64 filters]        V [tiles of y / 64][C][point][64 tiles]        M [tiles of y / 64][K][point][64 tiles]
 *
 * U and V are padded with zeros to whole tiles of multiply_kernel: its copies are 16 bytes each and ask for no limits. If V and M are larger than the L2
 * cache, what was written last is still in it: multiply_kernel begins with the last columns of V, output_kernel with the first of M, the last that were done.
 *
 * Because A is linear, M need not be one sum: multiply_kernel cuts the reduction of some tiles so that all multiprocessors end together (winograd.h), and
 * leaves the parts in as many M; output_kernel adds them up, first to last.
 *
 * A kernel's first blocks may wait on the multiprocessors that the kernel before it leaves ("early": programmatic dependent launch, 9.0 and up): that hides
 * most of what lies between two kernels. Not where units are cut finer: to end together they must lie evenly, which early blocks do not.
 *
 * dgrad with stride 1 is fprop of dy with every filter turned round (tap 8 - i for i), C and K exchanged, padded by 2 - pad. */
#pragma once
#include <cuda_pipeline.h>
#include <cuda_runtime.h>

#include "05_im2col_gemm/tile.h"
#include "05_im2col_gemm/winograd.h"
#include "common/ptx.cuh"

enum { THREADS = 256, FILTERS_K = 32, FILTERS_C = 8 /* of a block */, TAPS = 9, RUN = WARP_N /* columns next to each other */ };

/* Along one line: 3 taps to SIDE points, SIDE pixels to SIDE points, SIDE points to SIZE outputs. */
template <int SIZE> static __device__ void filter_line(const float (&tap)[3], float (&point)[SIZE + 2]);
template <int SIZE> static __device__ void patch_line(const float (&pixel)[SIZE + 2], float (&point)[SIZE + 2]);
template <int SIZE> static __device__ void output_line(const float (&point)[SIZE + 2], float (&output)[SIZE]);

/* U of FILTERS_K filters' FILTERS_C channels. TURNED: w is [C][K/groups][9] instead of [K][C/groups][9], its taps last to first. */
template <int SIZE, bool TURNED>
static __device__ void transform_filters(const winograd &g, int block, float *taps, const float *__restrict__ w, float *__restrict__ u) {
  constexpr int SIDE = SIZE + 2, NEAR = (TURNED ? FILTERS_K : FILTERS_C) * TAPS; /* neighbours in memory */
  constexpr int PITCH_K = TURNED ? TAPS : NEAR + 1, PITCH_C = TURNED ? NEAR : TAPS; /* in taps[]; odd from k to k, for the banks */
  const int group_c = g.p.C / g.p.groups, group_k = g.p.K / g.p.groups, blocks_k = g.pitch_k / FILTERS_K, blocks_c = g.depth / FILTERS_C;
  const int first_k = block % blocks_k * FILTERS_K, first_c = block / blocks_k % blocks_c * FILTERS_C, group = block / blocks_k / blocks_c;
#pragma unroll
  for (int step = 0; step < FILTERS_K * FILTERS_C * TAPS; step += THREADS) {
    const int i = step + threadIdx.x;
    const int my_k = TURNED ? i % NEAR / TAPS : i / NEAR, my_c = TURNED ? i / NEAR : i % NEAR / TAPS, k = first_k + my_k, c = first_c + my_c;
    const int from = TURNED ? (group * group_c + c) * group_k + k : (group * group_k + k) * group_c + c;
    taps[my_k * PITCH_K + my_c * PITCH_C + i % TAPS] = k < group_k && c < group_c ? w[from * TAPS + i % TAPS] : 0;
  }
  __syncthreads();

  static_assert(FILTERS_K * FILTERS_C == THREADS, "a thread transforms a filter");
  const int my_k = threadIdx.x % FILTERS_K, my_c = threadIdx.x / FILTERS_K, k = first_k + my_k, c = first_c + my_c;
  const float *mine = taps + my_k * PITCH_K + my_c * PITCH_C;
  float columns[3][SIDE]; /* of the filter, transformed */
#pragma unroll
  for (int s = 0; s < 3; s++) {
    const float column[3] = {mine[TURNED ? 8 - s : s], mine[TURNED ? 5 - s : 3 + s], mine[TURNED ? 2 - s : 6 + s]};
    filter_line<SIZE>(column, columns[s]);
  }
  u += ((group * g.pitch_k / RUN + k / RUN) * g.depth + c) * (SIDE * SIDE * RUN) + k % RUN;
#pragma unroll
  for (int i = 0; i < SIDE; i++) {
    const float row[3] = {columns[0][i], columns[1][i], columns[2][i]};
    float point[SIDE];
    filter_line<SIZE>(row, point);
#pragma unroll
    for (int j = 0; j < SIDE; j++) u[(i * SIDE + j) * RUN] = point[j];
  }
}

/* V of one channel of a tile; zero in the padding. line: of V, a channel's 64 tiles. */
template <int SIZE> static __device__ void transform_patch(const winograd &g, int index, const float *__restrict__ x, float *__restrict__ v) {
  constexpr int SIDE = SIZE + 2;
  const int line = index / RUN, rows = g.p.groups * g.depth, row_c = line % rows, group_c = g.p.C / g.p.groups, my_c = row_c % g.depth;
  const int tile = line / rows * RUN + index % RUN, n = tile / (g.tiles_p * g.tiles_q), c = row_c / g.depth * group_c + my_c;
  if (tile >= g.pitch) return;
  const int first_h = tile / g.tiles_q % g.tiles_p * SIZE - g.p.pad_top, first_w = tile % g.tiles_q * SIZE - g.p.pad_left;
  x += ((n * g.p.C + c) * g.p.H + first_h) * g.p.W + first_w;
  v += line * (SIDE * SIDE * RUN) + index % RUN;
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
    for (int j = 0; j < SIDE; j++) v[(i * SIDE + j) * RUN] = point[j];
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
  ptx_griddepcontrol_launch_dependents();
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

/* Where a tile lies: of which point and group, and which one down (m) and across (n); the last ones across come first. */
typedef struct tile_place {
  int point, group, m, n;
} tile_place;

template <int POINTS> static __device__ __forceinline__ tile_place tile_of(const winograd &g, int tile) {
  const int rest = tile / POINTS, across = rest / g.tiles_m, column = across / g.p.groups;
  return {tile % POINTS, across % g.p.groups, rest % g.tiles_m, g.tiles_n - 1 - column};
}

/* A block of BM * BN / 64 threads does unit after unit, each as 05c does a tile; with the last elements of one the first of the next are copied. */
template <int BM, int BN, int POINTS>
__global__ void __launch_bounds__(BM *BN / 64, 512 / (BM * BN / 64))
    multiply_kernel(winograd g, const float *u, const float *v, float *m) {
  constexpr int BLOCK = BM * BN / (TM * TN), FLOATS = BK * (BM + BN), LANES = BLOCK / BK; /* threads that copy a row of a stage */
  static_assert(BM % WARP_M == 0 && BN % WARP_N == 0 && BM % (4 * LANES) == 0 && BN % (4 * LANES) == 0, "a thread has TM x TN sums and copies whole quads");
  static_assert(RUN % (4 * LANES) == 0, "a row of threads copies neighbours");
  __shared__ float4 stages[2 * FLOATS / 4]; /* two of: [BK][BM] of U, [BK][BN] of V */
  float *buffers = (float *)stages;
  const int group_k = g.p.K / g.p.groups, rows = g.p.groups * g.depth, thread = threadIdx.x, copy_row = thread / LANES, copy_quad = thread % LANES * 4;

  /* Where the next stage is copied from. */
  const float *a_from, *b_from;
  int copy_unit = blockIdx.x, copy_steps;
  const auto aim = [&]() {
    const unit_place at = place_of(g, copy_unit);
    const tile_place tile = tile_of<POINTS>(g, at.tile);
    const int row = at.first * BK + copy_row;
    a_from = u + (((tile.group * g.pitch_k + tile.m * BM) / RUN * g.depth + row) * POINTS + tile.point) * RUN + copy_quad;
    b_from = v + ((tile.n * BN / RUN * rows + tile.group * g.depth + row) * POINTS + tile.point) * RUN + copy_quad;
    copy_steps = at.steps;
  };
  /* Starts the copies of a stage, and aims at the next. (With POINTS for g.points the assembler gives many an FMA a sum and an operand of one bank.) */
  const auto copy = [&](float *to) {
    float *a_to = to + copy_row * BM + copy_quad, *b_to = to + BK * BM + copy_row * BN + copy_quad;
#pragma unroll
    for (int i = 0; i < BM; i += 4 * LANES) __pipeline_memcpy_async(a_to + i, a_from + i / RUN * g.depth * (g.points * RUN) + i % RUN, 16);
#pragma unroll
    for (int i = 0; i < BN; i += 4 * LANES) __pipeline_memcpy_async(b_to + i, b_from + i / RUN * rows * (g.points * RUN) + i % RUN, 16);
    a_from += BK * g.points * RUN, b_from += BK * g.points * RUN;
    if (--copy_steps == 0 && (copy_unit += gridDim.x) < g.units) aim();
  };

  const int warp = thread / 32, my_row = warp / (BN / WARP_N) * WARP_M + tile_row(thread % 32), my_col = warp % (BN / WARP_N) * WARP_N + tile_col(thread % 32);
  operands o[2]; /* of this element of the reduction and of the next */
  ptx_griddepcontrol_launch_dependents();
  aim();
  ptx_griddepcontrol_wait();
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
    const tile_place tile = tile_of<POINTS>(g, at.tile);
    const int k = tile.m * BM + my_row, column = tile.n * BN + my_col;
    float *to = m + (((at.slot * g.pitch + column) / RUN * g.p.K + tile.group * group_k + k) * POINTS + tile.point) * RUN + column % RUN;
#pragma unroll
    for (int i = 0; i < TM; i++)
#pragma unroll
      for (int j = 0; j < TN; j += 4)
        if (k + quad_row(i) < group_k && column + quad_col(j) < g.columns) store_quad(to + quad_row(i) * (POINTS * RUN) + quad_col(j), &sum[i][j]);
  }
}

/* Two lanes 16 apart hold LINES lines each, of 2 * PART points. Afterwards each holds PART points, of all lines. */
template <int LINES, int PART>
static __device__ __forceinline__ void exchange(const float (&lines)[LINES][2 * PART], float (&points)[PART][2 * LINES], bool second) {
#pragma unroll
  for (int i = 0; i < PART; i++)
#pragma unroll
    for (int j = 0; j < LINES; j++) {
      const float low = lines[j][i], high = lines[j][PART + i];
      const float kept = second ? high : low, got = __shfl_xor_sync(0xffffffff, second ? low : high, 16);
      points[i][j] = second ? got : kept, points[i][LINES + j] = second ? kept : got;
    }
}

/* One tile of one image and filter of y, by two lanes 16 apart: half of its rows, and then of its columns. */
template <int SIZE>
__global__ void __launch_bounds__(THREADS, 1024 / THREADS) output_kernel(winograd g, const float *m, float *__restrict__ y) {
  constexpr int SIDE = SIZE + 2, HALF = SIDE / 2, PART = SIZE / 2;
  const int thread = blockIdx.x * THREADS + threadIdx.x, index = thread / 32 * 16 + thread % 16, half = thread / 16 % 2, first = half * HALF * SIDE;
  const int line = index / RUN, k = line % g.p.K, tile = line / g.p.K * RUN + index % RUN, n = tile / (g.tiles_p * g.tiles_q), group_k = g.p.K / g.p.groups;
  const int done_m = k % group_k / g.bm, done_n = g.tiles_n - 1 - tile / g.bn; /* as in tile_of */
  const int part = (g.slices - 1) * g.tiles + ((done_n * g.p.groups + k / group_k) * g.tiles_m + done_m) * (SIDE * SIDE) + first; /* of point `first` */
  float point[HALF][SIDE], rows[HALF][SIZE], columns[PART][SIDE], out[PART][SIZE];
  if (tile >= g.pitch) return; /* a whole warp */
  ptx_griddepcontrol_wait();
  m += (line * (SIDE * SIDE) + first) * RUN + index % RUN;
#pragma unroll
  for (int i = 0; i < HALF * SIDE; i++) point[i / SIDE][i % SIDE] = n < g.images ? m[i * RUN] : 0;
  for (int slot = 1; slot < g.slices + g.pieces - 1; slot++) {
    m += g.p.K * g.pitch * (SIDE * SIDE);
    if (n >= g.images || (slot >= g.slices && part + HALF * SIDE <= g.whole)) break; /* not cut into pieces */
#pragma unroll
    for (int i = 0; i < HALF * SIDE; i++)
      if (slot < g.slices || part + i >= g.whole) point[i / SIDE][i % SIDE] += m[i * RUN];
  }
  __syncwarp();
#pragma unroll
  for (int i = 0; i < HALF; i++) output_line<SIZE>(point[i], rows[i]);
  exchange<HALF, PART>(rows, columns, half);
#pragma unroll
  for (int j = 0; j < PART; j++) output_line<SIZE>(columns[j], out[j]);

  const int p = tile / g.tiles_q % g.tiles_p * SIZE, q = tile % g.tiles_q * SIZE + half * PART;
  if (n >= g.images || q >= g.p.Q) return;
  y += ((n * g.p.K + k) * g.p.P + p) * g.p.Q + q;
#pragma unroll
  for (int i = 0; i < SIZE; i++) {
    if (p + i >= g.p.P) break;
    float *to = y + i * g.p.Q;
    if (PART == 2 && g.p.Q % 2 == 0) { /* pairs are aligned and whole */
      *(float2 *)to = make_float2(out[0][i], out[PART - 1][i]);
      continue;
    }
    to[0] = out[0][i];
    if (PART == 2 && q + 1 < g.p.Q) to[1] = out[PART - 1][i];
  }
}

/* ---------------------------------------------------------------- host */

/* Launches a kernel; early: its blocks may begin while the kernel before it ends, for it calls ptx_griddepcontrol_wait before it touches what that wrote. */
template <class... P, class... A>
static cudaError_t launch(void (*kernel)(P...), bool early, int blocks, int threads, cudaStream_t stream, A... arguments) {
#ifndef CUDA_EMULATOR
  cudaFuncAttributes about;
  const cudaError_t status = cudaFuncGetAttributes(&about, kernel);
  if (status) return status;
  if (early && about.ptxVersion >= 90) { /* compiled with the wait */
    cudaLaunchAttribute attribute = {};
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization, attribute.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = blocks, config.blockDim = threads, config.stream = stream, config.attrs = &attribute, config.numAttrs = 1;
    return cudaLaunchKernelEx(&config, kernel, P(arguments)...);
  }
#endif
  (void)early;
  kernel<<<blocks, threads, 0, stream>>>(P(arguments)...);
  return cudaGetLastError();
}

template <int SIZE, bool TURNED>
static cudaError_t winograd_launch(const conv_problem *p, const float *x, const float *w, float *y, float *workspace, cudaStream_t stream) {
  constexpr int POINTS = (SIZE + 2) * (SIZE + 2);
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
    const float *x_from = x + (int64_t)first * f.C * f.H * f.W;
    float *y_to = y + (int64_t)first * f.K * f.P * f.Q;
    status = launch(transform_kernel<SIZE, TURNED>, false, filter_blocks + patch_blocks, THREADS, stream, g, filter_blocks, x_from, w, u, v);
    const int threads = g.bm * g.bn / (TM * TN), resident = multiprocessors * (512 / threads), output_blocks = ceil_div((int64_t)f.K * g.pitch * 2, THREADS);
    const auto multiply = g.bn == 64 ? multiply_kernel<128, 64, POINTS> : g.bm == 64 ? multiply_kernel<64, 128, POINTS> : multiply_kernel<128, 128, POINTS>;
    if (!status) status = launch(multiply, g.pieces == 1, g.units < resident ? g.units : resident, threads, stream, g, u, v, m);
    if (!status) status = launch(output_kernel<SIZE>, true, output_blocks, THREADS, stream, g, m, y_to);
  }
  return status;
}
