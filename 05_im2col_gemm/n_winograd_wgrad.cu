/* 05n: Winograd's gradient of the filters, nine taps' sums with 36 multiplications a patch instead of 144.
 *
 * Terms:    Winograd, F(3x3, 4x4); transposition; stream-K.
 * Idea:     05m's formula is one sum of triples, pixel x tap x output (docs/05_winograd.md). What stands with an output is y; what stands with a tap is dw.
 *           So the points stay, and so does V = B^T x B. The matrices that led from taps to points and from points to outputs are walked backwards:
 *
 *               D = A dy A^T        M[point] = sum over patches of D[point] V[point]        dw = G^T M G
 *
 *           M may be added up over all patches of all images, and dw be made of it once.
 * Change:   against 05m channels are no reduction any more: patches are. So sums are few and long: on 64 to 64 channels, 56 x 56, 36 tiles of 64 x 64, each
 *           over 3136 patches. Steps of all of them together are dealt out evenly, as 05g does with what is left over. Of tile t block b leaves part number
 *           t + b: no number occurs twice, and a tile's are neighbours. Where tiles are many, each is one block's (winograd_wgrad.h).
 * Expect:   16 images on an H200, in us: 52 for 64 to 64 channels at 56 x 56, 40 for 128 at 28 x 28, 37 for 256 at 14 x 14, 42 for 512 at 7 x 7, where 05k has
 *           104, 96, 101 and 117. Half of it is multiply_kernel's, whose multiply-adds take 13.8, 13.8, 15.2 and 15.2 at the peak. The rest is memory's: D and
 *           V are 58, 29, 16 and 8 MB, sums of tiles and of parts 14, 15, 9 and 38.
 * Taps:     with 512 channels taps_kernel was bound by its own instructions, most of which are the same whatever a thread adds up. So there a thread has two neighbouring channels;
 *           expected 5 us less of 54.
 * Price:    as in 05m sixths are not exact in binary, and powers of 2 grow large: the bound is some six times a plain sum's.
 * Sizes:    3x3, stride 1, no dilation; any padding, groups.
 * Passes:   wgrad. Layout: NCHW, filters KCRS, fp32. */
#include <cuda_pipeline.h>
#include <cuda_runtime.h>

#include "05_im2col_gemm/tile.h"
#include "05_im2col_gemm/winograd_wgrad.h"
#include "common/harness/launch.h"
#include "common/ptx/ptx.cuh"

constexpr int OCTET = 8, THREADS = BK * OCTET, STAGE = BK * EDGE;

/* Six pixels to six points, in 05m's order 0, 1, -1, 2, infinity, -2. A point's row are the coefficients of all other points' factors together: those of
 * z^2 - 4 and of z^2 - 1 are shared. Without -2, for three outputs, five pixels; a point is its distance from -2 times as large. */
static __device__ __forceinline__ void pixels_line(const float (&d)[SIDE], float (&v)[SIDE], bool is_short) {
  const float h1 = d[3] - d[1], h2 = d[4] - d[2];
  if (is_short) {
    const float t1 = d[2] - 2 * d[1], t2 = d[3] - 2 * d[2], h0 = d[2] - d[0];
    v[0] = 2 * h1 - 4 * h0, v[1] = 3 * (t2 + t1), v[2] = t2 - t1, v[3] = 4 * h1, v[4] = h2 - 2 * h1, v[5] = 0;
    return;
  }
  const float f0 = d[2] - 4 * d[0], f1 = d[3] - 4 * d[1], f2 = d[4] - 4 * d[2], f3 = d[5] - 4 * d[3];
  v[0] = f2 - f0, v[1] = f2 + f1, v[2] = f2 - f1, v[3] = h2 + 2 * h1, v[4] = f3 - f1, v[5] = h2 - 2 * h1;
}

/* Four neighbours of dy, or three, to six points: the values of a polynomial that has them as coefficients. 05m's output_line the other way. */
static __device__ __forceinline__ void outputs_line(const float (&a)[SIZE], float (&d)[SIDE], bool is_short) {
  const float a3 = is_short ? 0 : a[3], even = a[0] + a[2], odd = a[1] + a3, even_2 = a[0] + 4 * a[2], odd_2 = 2 * a[1] + 8 * a3;
  d[0] = a[0], d[1] = even + odd, d[2] = even - odd, d[3] = even_2 + odd_2, d[4] = is_short ? a[2] : a3, d[5] = is_short ? 0 : even_2 - odd_2;
}

/* Six points to three taps. 05m's filter_line the other way. */
static __device__ __forceinline__ void taps_line(const float (&m)[SIDE], float (&g)[3]) {
  const float both = (m[1] + m[2]) * (1.0f / 6), both_2 = m[3] + m[5];
  g[0] = 0.25f * m[0] - both + both_2 * (1.0f / 24);
  g[1] = (m[2] - m[1]) * (1.0f / 6) + (m[3] - m[5]) * (1.0f / 12);
  g[2] = both_2 * (1.0f / 6) - both + m[4];
}

/* Of neighbouring channels, read and written as one. */
template <int EACH> struct alignas(4 * EACH) neighbours { float of[EACH]; };

/* Where a patch lies: its image, the first of its outputs, its place in the reduction, and whether it is shorter. */
typedef struct patch_place {
  int n, p, q, place;
  bool short_p, short_q;
} patch_place;

/* Of patch number `index`, counted image by image, row by row. */
static __device__ __forceinline__ patch_place place_of(const gradient_cut &g, int index) {
  if (index >= g.patches) return {g.p.N, 0, 0, index, true, true};
  const int each = g.patches_p * g.patches_q, n = index / each, row = index % each / g.patches_q, col = index % g.patches_q;
  const int full_p = g.patches_p - g.short_p, full_q = g.patches_q - g.short_q, over_p = max(row - full_p, 0), over_q = max(col - full_q, 0);
  const bool short_p = row >= full_p, short_q = col >= full_q;
  const int from = short_p ? (short_q ? g.from[2] : g.from[1]) : short_q ? 0 : g.from[0];
  const int rows = short_p ? g.short_p : full_p, cols = short_q ? g.short_q : full_q, my_row = short_p ? over_p : row, my_col = short_q ? over_q : col;
  return {n, row * SIZE - over_p, col * SIZE - over_q, from + (n * rows + my_row) * cols + my_col, short_p, short_q};
}

/* One channel of one patch of x (PIXELS), or one filter's of dy, to points; a block does an octet of them and BK patches: eight lanes fill a sector of 32
 * bytes. to: [groups][channels of a group / EDGE][steps][point][BK][EDGE], zeros where there is no channel or no patch. */
template <bool PIXELS> static __device__ void transform(const gradient_cut &g, int block, const float *__restrict__ from, float *__restrict__ to) {
  constexpr int LINE = PIXELS ? SIDE : SIZE;
  const int channels = (PIXELS ? g.p.C : g.p.K) / g.p.groups, tiles = PIXELS ? g.tiles_c : g.tiles_k, rows = PIXELS ? g.p.H : g.p.P,
            cols = PIXELS ? g.p.W : g.p.Q;
  const int octet = block / g.steps, group = octet / (tiles * (EDGE / OCTET)), c = octet % (tiles * (EDGE / OCTET)) * OCTET + threadIdx.x % OCTET;
  const patch_place at = place_of(g, block % g.steps * BK + threadIdx.x / OCTET);
  const int first_h = at.p - (PIXELS ? g.p.pad_top : 0), first_w = at.q - (PIXELS ? g.p.pad_left : 0);
  from += ((at.n * g.p.groups + group) * channels + c) * rows * cols + first_h * cols + first_w;
  float patch[LINE][LINE], columns[SIDE][LINE]; /* by columns; transformed, by rows */
#pragma unroll
  for (int i = 0; i < LINE; i++)
#pragma unroll
    for (int j = 0; j < LINE; j++) {
      const bool inside = c < channels && at.n < g.p.N && first_h + i >= 0 && first_h + i < rows && first_w + j >= 0 && first_w + j < cols;
      patch[j][i] = inside ? from[i * cols + j] : 0;
    }
#pragma unroll
  for (int j = 0; j < LINE; j++) {
    float line[SIDE];
    if constexpr (PIXELS) pixels_line(patch[j], line, at.short_p);
    else outputs_line(patch[j], line, at.short_p);
#pragma unroll
    for (int i = 0; i < SIDE; i++) columns[i][j] = line[i];
  }
  const int step = at.place / BK;
  const bool last_row = step < g.first[1] + g.count[1], last_column = step >= g.first[2] && step < g.first[2] + g.count[2]; /* are needed in this step */
  to += ((group * tiles + c / EDGE) * g.steps + step) * (POINTS * STAGE) + at.place % BK * EDGE + c % EDGE;
#pragma unroll
  for (int i = 0; i < SIDE; i++) {
    float line[SIDE];
    if constexpr (PIXELS) pixels_line(columns[i], line, at.short_q);
    else outputs_line(columns[i], line, at.short_q);
#pragma unroll
    for (int j = 0; j < SIDE; j++)
      if ((i < SIDE - 1 || last_row) && (j < SIDE - 1 || last_column)) to[point_of(i, j) * STAGE] = line[j];
  }
}

/* The first pixel_blocks blocks transform x to v, the others dy to d. */
__global__ void __launch_bounds__(THREADS, 1024 / THREADS) transform_kernel(gradient_cut g, int pixel_blocks, const float *__restrict__ x,
                                                                            const float *__restrict__ dy, float *__restrict__ v, float *__restrict__ d) {
  const int block = blockIdx.x;
  if (block < pixel_blocks) transform<true>(g, block, x, v);
  else transform<false>(g, block - pixel_blocks, dy, d);
  ptx_griddepcontrol_launch_dependents();
}

/* What a block does of a tile, `steps` from its step `first` on (0: nothing more), and where what it does after that begins. */
typedef struct share {
  int tile, kind, first, steps, next;
} share;

/* Begins at a step of all tiles' if steps are dealt out, or else in a round. */
static __device__ __forceinline__ share share_at(const gradient_cut &g, int at) {
  const int b = blockIdx.x;
  if (!g.dealt) {
    const int tile = tile_of(g, b, at), kind = kind_of_tile(g, tile);
    return {tile, kind, 0, tile < g.tile[4] ? g.count[kind] : 0, at + 1};
  }
  const int kind = (at >= g.step[1]) + (at >= g.step[2]) + (at >= g.step[3]), mine = at - g.step[kind], all = max(g.count[kind], 1), tile = mine / all;
  const int first = mine - tile * all, steps = min(all - first, begin_of(g, b + 1) - at);
  return {g.tile[kind] + tile, kind, first, steps, at + steps};
}

/* parts[tile + block] or, if all are whole, parts[tile]: [EDGE filters][EDGE channels], the sums of a block's steps of D and V. A stage is a step of both. */
__global__ void __launch_bounds__(EDGE, ROOM) multiply_kernel(gradient_cut g, const float *d, const float *v, float *parts) {
  static_assert(WARP_N == EDGE && 2 * WARP_M == EDGE && STAGE % (4 * EDGE) == 0, "two warps, and all copy 16 bytes at a time");
  __shared__ float4 stages[2 * 2 * STAGE / 4];
  float *buffers = (float *)stages;
  const int my_row = threadIdx.x / 32 * WARP_M + tile_row(threadIdx.x % 32), my_col = tile_col(threadIdx.x % 32);
  const float *d_from, *v_from;
  share next = share_at(g, g.dealt ? begin_of(g, blockIdx.x) : 0); /* of which the next stage is */
  int left_of_next;
  const auto aim = [&]() {
    const int mine = next.tile - g.tile[next.kind], point = first_point(next.kind) + mine / g.places, place = mine % g.places;
    const int row = place / g.tiles_c, column = place % g.tiles_c + row / g.tiles_k * g.tiles_c, first = g.first[next.kind] + next.first; /* of all groups */
    d_from = d + ((row * g.steps + first) * POINTS + point) * STAGE + threadIdx.x * 4;
    v_from = v + ((column * g.steps + first) * POINTS + point) * STAGE + threadIdx.x * 4;
    left_of_next = next.steps;
  };
  float *to = buffers + threadIdx.x * 4;
  const auto copy = [&]() {
    if (left_of_next == 0) { /* the next tile, or once more the last, to no purpose */
      const share after = share_at(g, next.next);
      if (after.steps > 0) next = after;
      aim();
    }
#pragma unroll
    for (int i = 0; i < STAGE; i += 4 * EDGE) __pipeline_memcpy_async(to + i, d_from + i, 16);
#pragma unroll
    for (int i = 0; i < STAGE; i += 4 * EDGE) __pipeline_memcpy_async(to + STAGE + i, v_from + i, 16);
    __pipeline_commit();
    d_from += POINTS * STAGE, v_from += POINTS * STAGE, left_of_next--;
  };

  const float *d_at = buffers + my_row, *v_at = buffers + STAGE + my_col;
  operands o[2]; /* of this patch and of the next */
  ptx_griddepcontrol_launch_dependents();
  aim();
  ptx_griddepcontrol_wait();
  copy();
  to += 2 * STAGE;
  __pipeline_wait_prior(0);
  __syncthreads(); /* the first stage is there */
  read_operands(o[0], d_at, v_at);
  int other = 2 * STAGE; /* from the buffer that is read to that which is written */
  for (share now = next; now.steps > 0; now = share_at(g, now.next)) {
    float sum[TM][TN] = {};
    for (int left = now.steps; left > 0; left--) {
      copy();
#pragma unroll
      for (int l = 0; l < BK; l++) {
        if (l == BK - 1) {
          __pipeline_wait_prior(0);
          __syncthreads(); /* the next stage is there, and nobody reads this one any more */
          d_at += other, v_at += other, to -= other, other = -other;
        }
        read_operands(o[(l + 1) % 2], d_at + (l + 1) % BK * EDGE, v_at + (l + 1) % BK * EDGE);
        add_products(sum, o[l % 2]);
      }
    }
    float *mine = parts + (now.tile + (g.dealt ? (int)blockIdx.x : 0)) * SUMS + my_row * EDGE + my_col;
#pragma unroll
    for (int i = 0; i < TM; i++)
#pragma unroll
      for (int j = 0; j < TN; j += 4) store_quad(mine + quad_row(i) * EDGE + quad_col(j), &sum[i][j]);
  }
}

/* dw of one filter's 32 EACH channels: a warp has a row of points, a thread EACH neighbours. Adds up a tile's parts, block after block; transforms rows, and then columns. */
template <int EACH> __global__ void __launch_bounds__(SIDE * 32) taps_kernel(gradient_cut g, const float *parts, float *__restrict__ dw) {
  constexpr int PART_C = 32 * EACH;
  __shared__ int part[SIDE][SIDE];  /* of a point's tile, the first, */
  __shared__ int count[SIDE][SIDE]; /* and how many */
  __shared__ float rows[SIDE][3][PART_C];
  __shared__ float taps[PART_C * 9];
  const int group_c = g.p.C / g.p.groups, group_k = g.p.K / g.p.groups, parts_c = (group_c + PART_C - 1) / PART_C, thread = threadIdx.x;
  const int k = blockIdx.x / parts_c, first_c = blockIdx.x % parts_c * PART_C, my_k = k % group_k, mine_c = thread % 32 * EACH, i = thread / 32;
  if (thread < POINTS) {
    const int down = thread / SIDE, across = thread % SIDE, kind = kind_of(down, across), steps = g.count[kind];
    const int place = (k / group_k * g.tiles_k + my_k / EDGE) * g.tiles_c + first_c / EDGE,
              mine = (point_of(down, across) - first_point(kind)) * g.places + place;
    const int begin = g.step[kind] + mine * steps, first = g.dealt ? block_of(g, begin) : 0, last = g.dealt ? block_of(g, begin + steps - 1) : 0;
    part[down][across] = g.tile[kind] + mine + first;
    count[down][across] = steps ? last - first + 1 : 0;
  }
  __syncthreads(); /* of all points */
  ptx_griddepcontrol_wait();
  const float *from[SIDE];
  int most = 0, counts[SIDE];
  float point[EACH][SIDE] = {}, row[EACH][3];
#pragma unroll
  for (int j = 0; j < SIDE; j++) {
    from[j] = parts + part[i][j] * SUMS + my_k % EDGE * EDGE + first_c % EDGE + mine_c;
    counts[j] = count[i][j], most = max(most, counts[j]);
  }
#pragma unroll 4
  for (int n = 0; n < most; n++)
#pragma unroll
    for (int j = 0; j < SIDE; j++) {
      if (n >= counts[j]) continue;
      const neighbours<EACH> sums = *(const neighbours<EACH> *)(from[j] + n * SUMS);
#pragma unroll
      for (int e = 0; e < EACH; e++) point[e][j] += sums.of[e];
    }
#pragma unroll
  for (int e = 0; e < EACH; e++) taps_line(point[e], row[e]);
#pragma unroll
  for (int s = 0; s < 3; s++) {
    neighbours<EACH> of_row;
#pragma unroll
    for (int e = 0; e < EACH; e++) of_row.of[e] = row[e][s];
    *(neighbours<EACH> *)&rows[i][s][mine_c] = of_row;
  }
  __syncthreads(); /* all rows are transformed */
  if (i < 3) {
#pragma unroll
    for (int e = 0; e < EACH; e++) {
      float column[SIDE];
#pragma unroll
      for (int j = 0; j < SIDE; j++) column[j] = rows[j][i][mine_c + e];
      taps_line(column, row[e]);
#pragma unroll
      for (int r = 0; r < 3; r++) taps[(mine_c + e) * 9 + r * 3 + i] = row[e][r];
    }
  }
  __syncthreads(); /* all taps are there */
  const int all = min(PART_C, group_c - first_c) * 9;
  for (int t = thread; t < all; t += SIDE * 32) dw[(k * group_c + first_c) * 9 + t] = taps[t];
}

/* ---------------------------------------------------------------- host */

/* Along a line, the squared norms of the sums of pixels are 42, 34, 34, 10, 42, 10; of outputs 1, 4, 4, 85, 1, 85. The last tap takes their products times the
 * squares of 0, 1/6, 1/6, 1/6, 1, 1/6: 2 * 136/36 + 2 * 850/36 + 42 = 96.78, where the formula has 4: 24.2^(1/2), for two directions 24.2. (The other taps:
 * 13.1 and 19.4. Of a patch with three outputs 34.3, for 3.) A sum of a point has as many terms as there are patches; 24 roundings on the way there and back. */
static double growth_wgrad(const conv_problem *p, bool random) {
  const double patches = (double)p->N * ceil_div(p->P, SIZE) * ceil_div(p->Q, SIZE);
  return random ? 24.2 * growth_chain_fp32(patches + 24, true) : INFINITY;
}

typedef struct gradient_plan {
  gradient_cut cut;
  int pixel_blocks, transform_blocks, taps_blocks, each /* channels of a thread of taps_kernel */;
  bool early, waits; /* as many blocks as there is room for: they lie evenly, if they begin early; compiled for a GPU whose kernels wait for each other */
} gradient_plan;

static const char *plan_wgrad(const conv_operation *o, const conv_device *device, conv_plan *plan) {
  gradient_plan *mine = plan_data<gradient_plan>(plan);
  gradient_cut *g = &mine->cut;
  const conv_problem *p = &o->problem;
  const char *why = cut_gradient(p, device, g);
  if (why) return why;
  cudaFuncAttributes about = {};
  const cudaError_t status = cudaFuncGetAttributes(&about, multiply_kernel);
  if (status) return plan_failed(plan, status);
  mine->waits = about.ptxVersion >= 90, mine->early = g->blocks >= ROOM * device->sm_count;
  mine->pixel_blocks = p->groups * g->tiles_c * (EDGE / OCTET) * g->steps;
  mine->transform_blocks = mine->pixel_blocks + p->groups * g->tiles_k * (EDGE / OCTET) * g->steps;
  /* Two, where blocks are many all the same: its instructions bind, and most of them are not the channels'. */
  mine->each = !g->dealt && p->C / p->groups % EDGE == 0 && (int64_t)p->K * (p->C / p->groups / EDGE) >= 4 * device->sm_count ? 2 : 1;
  mine->taps_blocks = p->K * ceil_div(p->C / p->groups, 32 * mine->each);
  plan->workspace_bytes = (size_t)(transformed(g, g->tiles_k) + transformed(g, g->tiles_c) + part_count(g)) * sizeof(float);
  tile_words(plan, EDGE, EDGE, g->dealt ? ceil_div(g->blocks, g->tile[4]) + 1 : 1, g->blocks);
  return NULL;
}

static cudaError_t launch_wgrad(const conv_plan *plan, const conv_buffers *b, cudaStream_t stream) {
  const gradient_plan *mine = plan_data<gradient_plan>(plan);
  const gradient_cut &g = mine->cut;
  float *d = (float *)b->workspace, *v = d + transformed(&g, g.tiles_k), *parts = v + transformed(&g, g.tiles_c);
  cudaError_t status = launch_kernel({.grid = (unsigned)mine->transform_blocks, .block = THREADS, .stream = stream}, transform_kernel, g, mine->pixel_blocks,
                                     (const float *)b->x, (const float *)b->y, v, d);
  if (!status)
    status = launch_kernel({.grid = (unsigned)g.blocks, .block = EDGE, .stream = stream, .early = mine->early && mine->waits}, multiply_kernel, g, d, v, parts);
  if (!status)
    status = launch_kernel({.grid = (unsigned)mine->taps_blocks, .block = SIDE * 32, .stream = stream, .early = mine->waits},
                           mine->each == 2 ? taps_kernel<2> : taps_kernel<1>, g, parts, (float *)b->w);
  return status;
}

WINOGRAD_ROW(winograd_wgrad, "05n", "Winograd: 3 x 3 taps' sums by 36 multiplications a patch", PASS_WGRAD, plan_wgrad, launch_wgrad, growth_wgrad,
             EXACT_NEVER);
