/* 06t: the gradient of a first layer's filters: pairs are columns, positions are the reduction.
 *
 * Terms:    split-K, deterministic reduction, overlapping core matrices.
 * Idea:     06s's rows of pairs, read the other way round. Turned (MN-major), a matrix without a swizzle has its columns next to each other, eight of them 16 bytes: a
 *           pair is eight columns of b, two taps of four channels, and the next row of b, which is the next position, begins 16 bytes further on:
 *
 *               dw [64 filters][r][4 pairs] += dy [16 positions][64 filters], turned, x [16 positions][4 pairs that begin at each]
 *
 *           With a fold (06s) the filters' second half is the same gradients for a window shifted by a pixel: both are added at the end.
 * Roles:    as in 06s; the two consumers divide the filter's rows, and both read the same dy, which comes by boxes, zeros past the last position of a row.
 * Pieces:   blocks share the tiles of the image and leave their sums in the workspace, as dw lies; a second kernel adds them in the blocks' order.
 * Change:   against 06s the turned operands, and what stays: the sums, not the filters. Consumers take registers from who makes pairs.
 * Expect:   (before anything ran on a GPU) 7x7: 8 products of 64 x 32 x 16 for 16 positions (a consumer has four rows, one of the eight nobody needs), 24 clocks each, since
 *           64 x 16 of a from shared memory take longer than the product: 172 us for 256 images. 3x3: 4 products of 64 x 16 x 16 for 16 positions and 64 of 128 filters, about
 *           80 us for 64 images, and the bytes need 100.
 * Passes:   wgrad. Layout: NHWC, filters KRSC, fp16 with fp32 sums. Up to four channels; filters: multiples of 8; up to 12 rows, strides of 1, 2 and 4. */
#include <math.h>

#include "06_tensorcore_fp16/pairs.cuh"
#include "06_tensorcore_fp16/whole_parts.cuh"
#include "common/harness/launch.h"

static constexpr int CONSUMERS = 2, BLOCK = (1 + CONSUMERS) * THREADS, MOST_STAGES = 4, K16 = 16 /* positions of a product */;

/* A tile is rows of one image, and `positions` of each of them, `across` to a row. dy lies before the pairs. */
typedef struct gradient_cut {
  pair_cut in;
  divisor by_blocks, across, by_k;         /* by the pieces of 64 filters */
  int positions, gradients, stage, stages; /* bytes of dy, of all */
  int tiles, splits;
} gradient_cut;

/* ROWS: of the filter, a consumer's. N: columns of a row of taps that one plane has. */
template <int ROWS, int N, int PLANES>
__global__ void __launch_bounds__(BLOCK, 1)
    first_wgrad_kernel(conv_problem p, gradient_cut t, const __half *x, const __grid_constant__ CUtensorMap gradients, float *__restrict__ parts) {
  extern __shared__ __align__(1024) unsigned char shared[];
  __shared__ unsigned long long barriers[2 * MOST_STAGES + RAW_STAGES];
  unsigned char *const raw = shared + t.stages * t.stage;
  const ptx_shared stages = ptx_shared_address(shared), raw_full = ptx_shared_address(barriers + 2 * MOST_STAGES);
  const ring r = {ptx_shared_address(barriers), ptx_shared_address(barriers + MOST_STAGES)};
  const int role = uniform(threadIdx.x / THREADS), split = divide(blockIdx.x, t.by_blocks), block = blockIdx.x - split * t.by_blocks.by;
  if (threadIdx.x == 0) {
    ptx_griddepcontrol_launch_dependents(); /* the next kernel may begin */
    ptx_prefetch_tensormap(&gradients);
    for (int i = 0; i < RAW_STAGES; i++) ptx_mbarrier_init(raw_full + 8 * i, 1);
    for (int i = 0; i < t.stages; i++) ptx_mbarrier_init(r.full + 8 * i, 2), ptx_mbarrier_init(r.empty + 8 * i, CONSUMERS * THREADS / 32);
    ptx_fence_mbarrier_init();
  }
  __syncthreads();           /* barriers are there */
  ptx_griddepcontrol_wait(); /* what the kernel before wrote is there */

  slot s = {0, 0};
  if (role == 0) {
    ptx_setmaxnreg_dec<56>();
    if (threadIdx.x == 0)
      for (int i = 0; i < RAW_STAGES && split + i * t.splits < t.tiles; i++)
        load_raw(p, t.in, x, divide(split + i * t.splits, t.across), ptx_shared_address(raw) + i * t.in.raw, raw_full + 8 * i);
    __syncwarp();
    slot of_raw = {0, 0};
    for (int i = split; i < t.tiles; i += t.splits, s = next_slot(s, t.stages), of_raw = next_slot(of_raw, RAW_STAGES)) {
      const int tile = divide(i, t.across), first = (i - tile * t.across.by) * t.positions, n = divide(tile, t.in.by_p);
      ptx_mbarrier_wait(r.empty + 8 * s.stage, s.parity ^ 1);
      if (threadIdx.x == 0) {
        ptx_mbarrier_arrive_expect_tx(r.full + 8 * s.stage, t.gradients);
        ptx_tensor_load(stages + s.stage * t.stage, &gradients, {block * WGMMA_M, first, (tile - n * t.in.by_p.by) * t.in.rows, n}, r.full + 8 * s.stage);
      }
      __syncwarp();
      ptx_mbarrier_wait(raw_full + 8 * of_raw.stage, of_raw.parity);
      expand(p, t.in, tile, 2 * first * t.in.planes - p.pad_left, raw + of_raw.stage * t.in.raw, shared + s.stage * t.stage + t.gradients);
      ptx_fence_proxy_async(); /* written by threads, read by wgmma */
      ptx_bar_sync(4, THREADS);
      if (threadIdx.x > 0) continue;
      ptx_mbarrier_arrive(r.full + 8 * s.stage); /* the pairs are there, and nobody reads x any more */
      const int next = i + RAW_STAGES * t.splits;
      if (next < t.tiles) load_raw(p, t.in, x, divide(next, t.across), ptx_shared_address(raw) + of_raw.stage * t.in.raw, raw_full + 8 * of_raw.stage);
    }
    return;
  }

  ptx_setmaxnreg_inc<224>();
  const int me = role - 1, lane = threadIdx.x % 32, first_row = me * ROWS; /* of the consumers; of the filter's rows */
  float sum[ROWS * PLANES][N / 2] = {};
  for (int i = split; i < t.tiles; i += t.splits, s = next_slot(s, t.stages)) {
    const int tile = divide(i, t.across), rows = min(t.in.rows, p.P - (tile - divide(tile, t.in.by_p) * t.in.by_p.by) * t.in.rows);
    const ptx_shared stage = stages + s.stage * t.stage;
    ptx_mbarrier_wait(r.full + 8 * s.stage, s.parity);
    unsigned long long of_a = ptx_wgmma_descriptor(stage, 0, 8 * ROW, PTX_SWIZZLE_128);
    for (int row = 0; row < rows; row++) {
      unsigned long long of_b = ptx_wgmma_descriptor(stage + t.gradients + row * p.stride_h * t.in.row, 8 * PAIR, PAIR, PTX_SWIZZLE_NONE);
      for (int q = 0; q < t.positions; q += K16, of_a += K16 * CHUNKS, of_b += K16) {
        ptx_wgmma_fence();
#pragma unroll
        for (int j = 0; j < ROWS; j++)
#pragma unroll
          for (int plane = 0; plane < PLANES; plane++) /* past the filter's last row, that one again: nobody will ask for it */
            ptx_wgmma<1, 1>(sum[j * PLANES + plane], of_a, of_b + (min(first_row + j, p.R - 1) * p.dil_h * t.in.row / PAIR + plane * t.in.slots));
        ptx_wgmma_commit();
      }
    }
    ptx_wgmma_wait<0>();
    if (lane == 0) ptx_mbarrier_arrive(r.empty + 8 * s.stage);
    __syncwarp();
  }

  /* parts[split][fold][K][R][S][C] */
  const int taps = p.S * p.C, first_filter = block * WGMMA_M + threadIdx.x / 32 % 4 * 16 + lane / 4;
#pragma unroll
  for (int j = 0; j < ROWS; j++)
#pragma unroll
    for (int plane = 0; plane < PLANES; plane++)
#pragma unroll
      for (int i = 0; i < N / 2; i++) {
        const int filter = first_filter + i / 2 % 2 * 8, fold = divide(filter, t.by_k), element = lane % 4 * 2 + i % 2, c = element % PIXEL;
        const int tap = 2 * (i / 4 * PLANES + plane) + element / PIXEL - fold * p.stride_w;
        if (fold < t.in.fold && first_row + j < p.R && tap >= 0 && tap < p.S && c < p.C)
          parts[(((int64_t)split * t.in.fold + fold) * p.K + filter - fold * p.K) * p.R * taps + (first_row + j) * taps + tap * p.C + c] =
              sum[j * PLANES + plane][i];
      }
}

/* ---------------------------------------------------------------- host */

typedef struct instance {
  int rows, n, planes;
  void (*kernel)(conv_problem p, gradient_cut t, const __half *x, CUtensorMap gradients, float *parts);
} instance;

/* The first that is enough. */
#define ROW_OF(ROWS, N, PLANES) \
  { ROWS, N, PLANES, first_wgrad_kernel<ROWS, N, PLANES> }
static const instance instances[] = {ROW_OF(2, 16, 1), ROW_OF(3, 24, 1), ROW_OF(4, 32, 1), ROW_OF(6, 48, 1), ROW_OF(2, 8, 2), ROW_OF(6, 24, 2)};

typedef struct gradient_plan {
  CUtensorMap gradients;
  gradient_cut cut;
  const instance *row;
  int blocks, shared, lanes;
} gradient_plan;

/* Clocks of the block with most tiles: products, or pairs. */
static double clocks_of(const gradient_cut *t, const instance *row) {
  const double product = fmax(row->n / 2, (WGMMA_M + row->n) * 2 * K16 / 128.0);
  const double multiplied = (double)t->in.rows * t->positions / K16 * CONSUMERS * row->rows * row->planes * product;
  const double expanded = t->in.halo * (t->in.row / (32.0 * PAIR) * 15 + 20);
  return ceil((double)t->tiles / t->splits) * (fmax(multiplied, expanded) + 100) + expanded;
}

/* The tiles that take least; false: nothing fits. */
static bool best_cut(const conv_problem *p, const conv_device *device, gradient_plan *mine) {
  const int positions = p->Q / mine->cut.in.fold, pieces = (int)((positions + 255) / 256);
  const int64_t room = (int64_t)device->shared_per_block - 1024;
  double least = INFINITY;
  for (int across = pieces; across <= pieces + 3; across++)
    for (int rows = 1; rows <= p->P && rows <= 16; rows++) {
      gradient_cut t = mine->cut;
      t.positions = ((positions + across - 1) / across + K16 - 1) / K16 * K16;
      t.across = divisor_of((positions + t.positions - 1) / t.positions);
      if (!pair_tiles(p, rows, t.positions + mine->row->n / 8 - 1, &t.in)) break;
      t.gradients = rows * t.positions * ROW, t.stage = t.gradients + (t.in.stage + 1023) / 1024 * 1024;
      const int64_t left = room - RAW_STAGES * t.in.raw;
      t.stages = left < t.stage ? 0 : left / t.stage > MOST_STAGES ? MOST_STAGES : (int)(left / t.stage);
      if (t.stages < 2) break;
      t.tiles = t.in.tiles * t.across.by;
      t.splits = t.by_blocks.by < device->sm_count ? device->sm_count / t.by_blocks.by : 1;
      if (t.splits > t.tiles) t.splits = t.tiles;
      const double clocks = clocks_of(&t, mine->row);
      if (clocks >= least) continue;
      least = clocks, mine->cut = t, mine->shared = t.stages * t.stage + RAW_STAGES * t.in.raw;
    }
  return least < INFINITY;
}

static const char *plan_first_wgrad(const conv_operation *o, const conv_device *device, conv_plan *plan) {
  const conv_problem *p = &o->problem;
  if (device->arch / 10 != 9) return "wgmma: only compute capability 9.0 has it";
  gradient_plan *mine = plan_data<gradient_plan>(plan);
  gradient_cut *t = &mine->cut;
  const char *why = pair_windows(p, &t->in);
  if (!why) why = plain_unsupported(p, device);
  if (why) return why;
  for (const instance *i = instances; i < instances + sizeof instances / sizeof *instances && !mine->row; i++)
    if (i->planes == t->in.planes && CONSUMERS * i->rows >= p->R && i->n / 8 * i->planes >= t->in.pairs) mine->row = i;
  if (!mine->row) return "a filter of more than 12 rows or pairs, or a stride that is not 1, 2 or 4";
  const int blocks = (t->in.fold * p->K + WGMMA_M - 1) / WGMMA_M;
  t->by_blocks = divisor_of(blocks), t->by_k = divisor_of(p->K);
  if (!best_cut(p, device, mine)) return "two tiles do not fit in shared memory";
  mine->blocks = blocks * t->splits;
  const int parts = t->splits * t->in.fold;
  mine->lanes = parts < 4 ? 1 : parts < 4 * MOST_LANES ? parts / 4 : MOST_LANES;
  plan->workspace_bytes = (size_t)parts * (size_t)problem_w_count(p) * sizeof(float);
  const cuuint64_t size[4] = {(cuuint64_t)(t->in.fold * p->K), (cuuint64_t)(p->Q / t->in.fold), (cuuint64_t)p->P, (cuuint64_t)p->N};
  const cuuint32_t box[4] = {WGMMA_M, (cuuint32_t)t->positions, (cuuint32_t)t->in.rows, 1};
  why = map_tiles(plan, &mine->gradients, "dy", 4, size, box);
  if (why) return why;
  snprintf(plan->words, sizeof plan->words, "%d row%s of %d a tile: %d tiles by %d block%s for each 64 filters, %d stages", t->in.rows,
           t->in.rows == 1 ? "" : "s", t->positions, t->tiles, t->splits, t->splits == 1 ? "" : "s", t->stages);
  const cudaError_t status = plan_allow_shared((const void *)mine->row->kernel, (size_t)mine->shared);
  return status ? plan_failed(plan, status) : NULL;
}

static cudaError_t launch_first_wgrad(const conv_plan *plan, const conv_buffers *b, cudaStream_t stream) {
  const gradient_plan *mine = plan_data<gradient_plan>(plan);
  const conv_problem &p = plan->operation.problem;
  CUtensorMap gradients;
  cudaError_t status = map_at(&gradients, &mine->gradients, b->y);
  if (status) return status;
  status = launch_kernel({.grid = dim3(mine->blocks), .block = dim3(BLOCK), .shared = (size_t)mine->shared, .stream = stream, .early = true}, mine->row->kernel,
                         p, mine->cut, (const __half *)b->x, gradients, (float *)b->workspace);
  if (status) return status;
  const int count = (int)problem_w_count(&p);
  return launch_kernel({.grid = dim3((count / 4 + THREADS - 1) / THREADS), .block = dim3(THREADS, mine->lanes), .stream = stream, .early = true},
                       add_whole_kernel, count, mine->cut.splits * mine->cut.in.fold, (const float4 *)b->workspace, (__half *)b->w);
}

/* An accumulator takes one product after the other, which adds 16 positions and what it was, at most for all of them; then the parts, in lanes. */
static double growth_first_wgrad(const conv_problem *p, bool random) {
  const double steps = (double)p->N * p->P * (p->Q / 2.0 / K16 * 2 + 5);
  return growth_truncated(steps * (K16 + 1) + steps + MOST_LANES, random);
}

NHWC_ROW(first_wgrad, "06t", "wgrad of up to four channels: pairs of pixels as columns", PASS_WGRAD, 90, plan_first_wgrad, launch_first_wgrad,
         growth_first_wgrad);
