/* Winograd's convolution by 3x3 filters, for outputs in tiles of SIZE x SIZE: 2 x 2 (05l) and 4 x 4 (05m).
 *
 * A tile of y needs a patch of SIDE x SIDE pixels, SIDE = SIZE + 2. Three steps, each linear, each first along the columns and then along the rows:
 *
 *   filter: U = G w G^T        patch: V = B^T x B        both of SIDE x SIDE "points". M[point] = sum over c of U[point] V[point]        y = A^T M A
 *
 *   transform_kernel  U and V; G and B are in the .cu files: filter_line, patch_line
 *   multiply_kernel   M = U^T V: for every point, and group, a product of matrices (winograd_multiply.cuh)
 *   output_kernel     y; A is output_line
 *
 * 14 outputs are no multiple of 4, and a tile that hangs over the edge computes for nothing. So an image's last tiles, down and across, are shorter by one:
 * 4 + 4 + 3 + 3. SIZE - 1 outputs need one point less; the last one is left out, with the same U at the others. V and M have a column for every tile, sorted
 * by kinds so that those that need a point are neighbours, and multiply_kernel leaves the others out: at 14 x 14, 484 products instead of 576.
 *
 *   kinds of tiles          | shorter across |   neither   | shorter down | both |
 *   the last point down     | ============================ |              |      |
 *   the last point across   |                | ========================== |      |
 *
 * In memory (the workspace) neighbours are 64 columns, filters or tiles of y. U and V have 16 channels (BK) of them together, what a block copies at a time:
 *
 *   U [group][K/groups / 128][C/groups / 16][point][2][16][64]      V [tiles / 128][group][C/groups / 16][point][2][16][64]      M [tiles / 64][K][point][64]
 *
 * All are padded to whole tiles of multiply_kernel, U and V with zeros: no copy asks for limits. If V and M are larger than the L2 cache, what was written
 * last is still in it: multiply_kernel begins with the last columns of V, output_kernel with the first images, most of whose M were done last.
 *
 * Because A is linear, M need not be one sum: multiply_kernel cuts the reduction of some tiles so that all multiprocessors end together (winograd.h), and
 * leaves the parts in as many M; output_kernel adds them up, first to last.
 *
 * A kernel's first blocks may wait on the multiprocessors that the kernel before it leaves ("early": programmatic dependent launch, 9.0 and up): that hides
 * most of what lies between two kernels. Early blocks do not lie evenly. So none are if some begin with pieces and others not; and if there are not as many
 * as fit, each asks for so much shared memory that no multiprocessor takes more than its share (shared_for). multiply_kernel's may begin as soon as the last
 * of transform_kernel's have begun, unless each does several tiles: then a tenth slower was seen (perhaps where shared memory was still divided for
 * transform_kernel), and they wait.
 *
 * dgrad with stride 1 is fprop of dy with every filter turned round (tap 8 - i for i), C and K exchanged, padded by 2 - pad. */
#pragma once
#include <cuda_runtime.h>
#include <string.h>

#include "05_im2col_gemm/winograd.h"
#include "05_im2col_gemm/winograd_multiply.cuh"
#include "common/harness/launch.h"
#include "common/ptx/ptx.cuh"

enum { THREADS = 128, FILTERS_K = 32, FILTERS_C = 8 /* of a block */, TAPS = 9 };

/* Along one line: 3 taps to SIDE points, SIDE pixels to SIDE points, SIDE points to SIZE outputs. short_: SIDE - 1 pixels, and 0 for the last point. */
template <int SIZE> static __device__ void filter_line(const float (&tap)[3], float (&point)[SIZE + 2]);
template <int SIZE> static __device__ void patch_line(const float (&pixel)[SIZE + 2], float (&point)[SIZE + 2]);
template <int SIZE> static __device__ void short_patch_line(const float (&pixel)[SIZE + 2], float (&point)[SIZE + 2]);
template <int SIZE> static __device__ void output_line(const float (&point)[SIZE + 2], float (&output)[SIZE]);

/* U of FILTERS_K filters' FILTERS_C channels. TURNED: w is [C][K/groups][9] instead of [K][C/groups][9], its taps last to first. */
template <int SIZE, bool TURNED>
static __device__ void transform_filters(const winograd &g, int block, float *taps, const float *__restrict__ w, float *__restrict__ u) {
  constexpr int SIDE = SIZE + 2, NEAR = (TURNED ? FILTERS_K : FILTERS_C) * TAPS;    /* neighbours in memory */
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

#pragma unroll 1
  for (int filter = threadIdx.x; filter < FILTERS_K * FILTERS_C; filter += THREADS) {
    const int my_k = filter % FILTERS_K, my_c = filter / FILTERS_K, k = first_k + my_k, c = first_c + my_c;
    const float *mine = taps + my_k * PITCH_K + my_c * PITCH_C;
    float columns[3][SIDE]; /* of the filter, transformed */
#pragma unroll
    for (int s = 0; s < 3; s++) {
      const float column[3] = {mine[TURNED ? 8 - s : s], mine[TURNED ? 5 - s : 3 + s], mine[TURNED ? 2 - s : 6 + s]};
      filter_line<SIZE>(column, columns[s]);
    }
    float *to = u + (((group * ((g.pitch_k + PAIR - 1) / PAIR) + k / PAIR) * (g.depth / BK) + c / BK) * (SIDE * SIDE * 2) + k / RUN % 2) * STAGE +
                c % BK * RUN + k % RUN;
#pragma unroll
    for (int i = 0; i < SIDE; i++) {
      const float row[3] = {columns[0][i], columns[1][i], columns[2][i]};
      float point[SIDE];
      filter_line<SIZE>(row, point);
#pragma unroll
      for (int j = 0; j < SIDE; j++) to[(i * SIDE + j) * (2 * STAGE)] = point[j];
    }
  }
}

/* Where a tile of y lies: in which image, where it begins, its column of V and M, and whether it is shorter, down and across. */
typedef struct patch_place {
  int n, p, q, column;
  bool short_p, short_q;
} patch_place;

/* Of tile number `index`. They are counted image by image, row by row; where kinds lie apart in V and M, `near` images at a time: what a warp reads and
 * writes is near in x and y, then, and in runs of so many in V and M. */
template <int SIZE> static __device__ __forceinline__ patch_place place_of_patch(const winograd &g, int index) {
  if (index >= g.columns) return {g.images, 0, 0, index, true, true};
  const int each = g.tiles_p * g.tiles_q, group = index / g.near / each, tile = index / g.near - group * each, my_n = index % g.near;
  const int row = tile / g.tiles_q, col = tile - row * g.tiles_q, full_p = g.tiles_p - g.short_p, full_q = g.tiles_q - g.short_q;
  const bool short_p = row >= full_p, short_q = col >= full_q;
  const int before_p = short_p ? full_p : 0, before_q = short_q ? full_q : 0, rows = short_p ? g.short_p : full_p, columns = short_q ? g.short_q : full_q;
  const int from = short_p ? (short_q ? g.from[2] : g.from[1]) : short_q ? 0 : g.from[0], column = (group * rows + row - before_p) * columns + col - before_q;
  const int p = row * SIZE - (short_p ? row - before_p : 0), q = col * SIZE - (short_q ? col - before_q : 0);
  return {group * g.near + my_n, p, q, from + column * g.near + my_n, short_p, short_q};
}

/* V of one channel of a tile; zero in the padding, and at points that a shorter tile does not have. */
template <int SIZE> static __device__ void transform_patch(const winograd &g, int index, const float *__restrict__ x, float *__restrict__ v) {
  constexpr int SIDE = SIZE + 2;
  const int lines = index / RUN, rows = g.p.groups * g.depth, tile = lines / rows * RUN + index % RUN;
  const int group = lines % rows / g.depth, my_c = lines % rows % g.depth, group_c = g.p.C / g.p.groups;
  if (tile >= g.pitch) return;
  const patch_place at = place_of_patch<SIZE>(g, tile);
  const int first_h = at.p - g.p.pad_top, first_w = at.q - g.p.pad_left;
  x += ((at.n * g.p.C + group * group_c + my_c) * g.p.H + first_h) * g.p.W + first_w;
  v += (((at.column / PAIR * g.p.groups + group) * (g.depth / BK) + my_c / BK) * (SIDE * SIDE * 2) + at.column / RUN % 2) * STAGE;
  v += my_c % BK * RUN + at.column % RUN;
  float patch[SIDE][SIDE], columns[SIDE][SIDE], points[SIDE][SIDE]; /* columns of the patch, transformed to rows */
#pragma unroll
  for (int i = 0; i < SIDE; i++)
#pragma unroll
    for (int j = 0; j < SIDE; j++) {
      const bool inside = my_c < group_c && at.n < g.images && first_h + i >= 0 && first_h + i < g.p.H && first_w + j >= 0 && first_w + j < g.p.W;
      patch[j][i] = inside ? x[i * g.p.W + j] : 0;
    }
#pragma unroll
  for (int j = 0; j < SIDE; j++) {
    float line[SIDE];
    if (at.short_p) short_patch_line<SIZE>(patch[j], line);
    else patch_line<SIZE>(patch[j], line);
#pragma unroll
    for (int i = 0; i < SIDE; i++) columns[i][j] = line[i];
  }
#pragma unroll
  for (int i = 0; i < SIDE; i++) {
    if (at.short_q) short_patch_line<SIZE>(columns[i], points[i]);
    else patch_line<SIZE>(columns[i], points[i]);
  }
  const int block = at.column / g.bn;
  const bool last_row = block < g.bound[1], last_column = block >= g.bound[0] && block < g.bound[2]; /* are needed, be it for others of the block */
#pragma unroll
  for (int i = 0; i < SIDE; i++)
#pragma unroll
    for (int j = 0; j < SIDE; j++)
      if ((i < SIDE - 1 || last_row) && (j < SIDE - 1 || last_column)) v[(i * SIDE + j) * (2 * STAGE)] = points[i][j];
}

/* The first filter_blocks blocks transform filters, the others patches, a thread one channel of one tile. */
template <int SIZE, bool TURNED>
__global__ void __launch_bounds__(THREADS, 1024 / THREADS)
    transform_kernel(winograd g, int filter_blocks, const float *__restrict__ x, const float *__restrict__ w, float *__restrict__ u, float *__restrict__ v) {
  __shared__ float taps[FILTERS_K * (FILTERS_C * TAPS + 1)];
  const int block = blockIdx.x;
  if (!g.last_round) ptx_griddepcontrol_launch_dependents();
  if (block < filter_blocks) transform_filters<SIZE, TURNED>(g, block, taps, w, u);
  else transform_patch<SIZE>(g, (block - filter_blocks) * THREADS + threadIdx.x, x, v);
  ptx_griddepcontrol_launch_dependents();
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
template <int SIZE> __global__ void __launch_bounds__(THREADS, 1024 / THREADS) output_kernel(winograd g, const float *m, float *__restrict__ y) {
  constexpr int SIDE = SIZE + 2, HALF = SIDE / 2, PART = SIZE / 2;
  const int thread = blockIdx.x * THREADS + threadIdx.x, index = thread / 32 * 16 + thread % 16, half = thread / 16 % 2, first = half * HALF * SIDE;
  const int line = index / RUN, k = line % g.p.K, tile = line / g.p.K * RUN + index % RUN, group_k = g.p.K / g.p.groups, group = k / group_k,
            my_k = k % group_k;
  if (tile >= g.pitch) return;                                              /* a whole warp */
  const patch_place at = place_of_patch<SIZE>(g, min(tile, g.columns - 1)); /* those past the last do the last, and do not store it */
  const int rows_k = g.p.groups * g.pitch_k;
  float point[HALF][SIDE], rows[HALF][SIZE], columns[PART][SIDE], out[PART][SIZE];
  const auto has = [&](int i, int j) { return (i < HALF - 1 || !half || !at.short_p) && (j < SIDE - 1 || !at.short_q); };
  ptx_griddepcontrol_wait();
  m += ((at.column / RUN * rows_k + group * g.pitch_k + my_k) * (SIDE * SIDE) + first) * RUN + at.column % RUN;
#pragma unroll
  for (int i = 0; i < HALF * SIDE; i++) point[i / SIDE][i % SIDE] = has(i / SIDE, i % SIDE) ? m[i * RUN] : 0;
  const int slot_floats = rows_k * g.pitch * (SIDE * SIDE);
  for (int slot = 1; slot < g.slices; slot++) {
    m += slot_floats;
#pragma unroll
    for (int i = 0; i < HALF * SIDE; i++) point[i / SIDE][i % SIDE] += has(i / SIDE, i % SIDE) ? m[i * RUN] : 0;
  }
  if (g.pieces > 1) {
    const int block = at.column / g.bn, number = (block >= g.bound[0]) + (block >= g.bound[1]) + (block >= g.bound[2]);
    const region in = region_of<SIDE>(g, number);
    const int row = (block - in.block) * g.p.groups * g.tiles_m + group * g.tiles_m + my_k / g.bm, my_tile = in.tile + (row * in.high + half * HALF) * in.wide;
    const int cut = g.tiles * g.slices - g.whole - my_tile; /* the first tiles are cut into pieces, in the last slice */
    for (int piece = 1; piece < g.pieces && cut > 0; piece++) {
      m += slot_floats;
#pragma unroll
      for (int i = 0; i < HALF * SIDE; i++) point[i / SIDE][i % SIDE] += has(i / SIDE, i % SIDE) && i / SIDE * in.wide + i % SIDE < cut ? m[i * RUN] : 0;
    }
  }
  __syncwarp();
  /* A shorter line has no last output, and infinity (the point before the last) belongs to the last but one. */
#pragma unroll
  for (int i = 0; i < HALF; i++) {
    output_line<SIZE>(point[i], rows[i]);
    if (at.short_q) rows[i][SIZE - 2] += point[i][SIDE - 2];
  }
  exchange<HALF, PART>(rows, columns, half);
#pragma unroll
  for (int j = 0; j < PART; j++) {
    output_line<SIZE>(columns[j], out[j]);
    if (at.short_p) out[j][SIZE - 2] += columns[j][SIDE - 2];
  }

  const int q = at.q + half * PART, size_p = min(SIZE - at.short_p, g.p.P - at.p), size_q = min(SIZE - at.short_q, g.p.Q - at.q) - half * PART;
  if (tile >= g.columns || size_q <= 0) return;
  y += ((at.n * g.p.K + k) * g.p.P + at.p) * g.p.Q + q;
#pragma unroll
  for (int i = 0; i < SIZE; i++) {
    if (i >= size_p) break;
    float *to = y + i * g.p.Q;
    if (PART == 2 && g.p.Q % 2 == 0 && !at.short_q) { /* pairs are aligned and whole */
      *(float2 *)to = make_float2(out[0][i], out[PART - 1][i]);
      continue;
    }
    to[0] = out[0][i];
    if (PART == 2 && size_q > 1) to[1] = out[PART - 1][i];
  }
}

/* ---------------------------------------------------------------- host */

typedef void (*multiply)(winograd g, const float *u, const float *v, float *m);

template <int SIDE> static multiply multiply_for(int bm, int bn) {
  static const multiply instances[2][2] = {{multiply_kernel<64, 64, SIDE>, multiply_kernel<64, 128, SIDE>},
                                           {multiply_kernel<128, 64, SIDE>, multiply_kernel<128, 128, SIDE>}};
  return instances[bm / 64 - 1][bn / 64 - 1];
}

/* A launch of all three kernels. */
typedef struct winograd_part {
  winograd cut;
  multiply kernel;
  int filter_blocks, patch_blocks, threads, output_blocks; /* of transform_kernel; of a block of multiply_kernel; of output_kernel */
  size_t shared;                                           /* bytes for a block of multiply_kernel */
} winograd_part;

typedef struct winograd_plan {
  int images;            /* of a launch, but perhaps the last one, */
  winograd_part part[2]; /* which is the second of these */
  bool again;            /* the last one's filters are cut otherwise: they are transformed once more */
  bool waits;            /* compiled for a GPU whose kernels wait for each other */
} winograd_plan;

/* Dynamic shared memory that a block must ask for so that no more than `resident` of `threads` are on a multiprocessor at a time; of 128 registers a thread. */
static cudaError_t shared_for(multiply kernel, int resident, int threads, size_t *shared) {
  int device = 0, bytes = 0, reserved = 0;
  cudaFuncAttributes about;
  *shared = 0;
  if (resident * threads >= 512) return cudaSuccess; /* registers do */
  cudaError_t status = cudaGetDevice(&device);
  if (!status) status = cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerMultiprocessor, device);
  if (!status) status = cudaDeviceGetAttribute(&reserved, cudaDevAttrReservedSharedMemoryPerBlock, device);
  if (!status) status = cudaFuncGetAttributes(&about, kernel);
  if (status) return status;
  const int used = reserved + (int)about.sharedSizeBytes, least = bytes / (resident + 1) + 128, most = bytes - reserved; /* of a block; one more does not fit */
  const int all = least < most ? least : most;
  *shared = all > used ? all - used : 0;
  return plan_allow_shared((const void *)kernel, *shared);
}

template <int SIZE> static const char *winograd_plan_for(const conv_operation *o, const conv_device *device, conv_plan *plan) {
  winograd cuts[2];
  const char *why = winograd_cuts(&o->problem, o->pass, SIZE, device, cuts);
  if (why) return why;
  winograd_plan *mine = plan_data<winograd_plan>(plan);
  mine->images = cuts[0].images, mine->again = cuts[1].pitch_k != cuts[0].pitch_k;
  cudaError_t status = cudaSuccess;
  for (int i = 0; i < 2 && !status; i++) {
    const winograd *g = &cuts[i];
    winograd_part *part = &mine->part[i];
    part->cut = *g, part->kernel = multiply_for<SIZE + 2>(g->bm, g->bn), part->threads = g->bm * g->bn / (TM * TN);
    part->filter_blocks = g->p.groups * (g->pitch_k / FILTERS_K) * (g->depth / FILTERS_C),
    part->patch_blocks = ceil_div((int64_t)g->p.groups * g->depth * g->pitch, THREADS);
    part->output_blocks = ceil_div((int64_t)g->p.K * g->pitch * 2, THREADS);
    status = shared_for(part->kernel, g->resident, part->threads, &part->shared);
    if (winograd_bytes(g) > plan->workspace_bytes) plan->workspace_bytes = winograd_bytes(g);
  }
  cudaFuncAttributes about = {};
  if (!status) status = cudaFuncGetAttributes(&about, mine->part[0].kernel);
  if (status) return plan_failed(plan, status);
  mine->waits = about.ptxVersion >= 90;
  tile_words(plan, cuts[0].bm, cuts[0].bn, cuts[0].slices, cuts[0].blocks);
  const size_t used = strlen(plan->words);
  if (cuts[0].images < cuts[0].p.N) snprintf(plan->words + used, sizeof plan->words - used, ", %d images at a time", cuts[0].images);
  return NULL;
}

template <int SIZE, bool TURNED>
static cudaError_t winograd_launch(const winograd_plan *plan, const float *x, const float *w, float *y, float *workspace, cudaStream_t stream) {
  const conv_problem &f = plan->part[0].cut.p;
  cudaError_t status = cudaSuccess;
  for (int first = 0; first < f.N && !status; first += plan->images) {
    const bool last = f.N - first < plan->images;
    const winograd_part *part = &plan->part[last];
    const winograd &g = part->cut;
    float *u = workspace, *v = u + filter_count(&g), *m = v + patch_count(&g);
    const int filter_blocks = first == 0 || (last && plan->again) ? part->filter_blocks : 0;
    status = launch_kernel({.grid = filter_blocks + part->patch_blocks, .block = THREADS, .stream = stream}, transform_kernel<SIZE, TURNED>, g, filter_blocks,
                           x + (int64_t)first * f.C * f.H * f.W, w, u, v);
    if (!status)
      status = launch_kernel({.grid = g.blocks, .block = part->threads, .shared = part->shared, .stream = stream, .early = g.early && plan->waits},
                             part->kernel, g, u, v, m);
    if (!status)
      status = launch_kernel({.grid = part->output_blocks, .block = THREADS, .stream = stream, .early = plan->waits}, output_kernel<SIZE>, g, m,
                             y + (int64_t)first * f.K * f.P * f.Q);
  }
  return status;
}
