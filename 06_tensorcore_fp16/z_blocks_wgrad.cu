/* 06z: the gradient of groups' filters: products of 16 x 16 channels, the diagonal kept.
 *
 * Terms:    grouped convolution, mma.sync, ldmatrix with transposition, split-K, deterministic reduction.
 * Idea:     as 06y against 06u: of 06v's products of 64 channels and 64 filters a few in 64 count, of a warp's 16 x 16 more. A warp keeps all nine taps of its 16 channels, 72 sums a lane,
 *           from its first tile to its last. Pixels are the reduction: both operands lie the other way round, [pixel][channel], and ldmatrix turns them.
 *
 *               dw [16 filters][16 channels] of a tap += dy [16 pixels][16 filters], turned, x [16 pixels, shifted by the tap][16 channels]
 *
 * Steps:    16 pixels are two rows of eight results; whichever pixels of x lie under them, a lane points at them. So strides need no planes.
 * Roles:    a warp asks for tiles of dy and their halo tiles of x; twelve multiply, four of 16 channels each, three of a third of the tile. In the end these three are added through shared
 *           memory, and what a block has is a part of dw (06v's second kernel adds these).
 * Change:   against 06v the instruction; and a warp's sums are of 16 x 16 channels, all taps.
 * Infinity: an infinite pixel under a result past the image's last row or column is multiplied by zero.
 * Expect:   (before anything ran) ResNeXt, 64 images: 56 x 56 and 128 channels 33 us, the bytes' 23 and what begins and ends, where 06v takes 45; 28 x 28: 19 for 26; with strides 37 for 41, 21 for 24.
 * Passes:   wgrad. Layout: NHWC, filters KRSC, fp16 with fp32 sums. As many filters as channels a group: 1, 2, 4, 8 or 16; channels: multiples of 8; 3 x 3, strides of 1 and 2, no
 *           dilation. */
#include <math.h>

#include "04_constant_filter/depthwise.h"
#include "06_tensorcore_fp16/tiles.cuh"
#include "06_tensorcore_fp16/whole_parts.cuh"
#include "common/harness/launch.h"

static constexpr int SIZE = 3, TAPS = SIZE * SIZE, WORKERS = 12 /* warps */, BLOCK = (1 + WORKERS) * 32, MOST_STAGES = 6, SIDE = 16 /* channels of a product */;
static constexpr int STEP_ROWS = 2, STEP_COLUMNS = 8, STEP = STEP_ROWS * STEP_COLUMNS /* pixels of a product */, SUMS = TAPS * 8 /* of a lane */;

/* A tile: rows x columns of dy, of so many images; its halo tile has high x wide pixels of x an image. */
typedef struct block_cut {
  divisor chunks, by_q, by_p;      /* pieces of 64 channels; tiles in a row, and below each other */
  divisor step_columns, step_rows; /* steps in a row of the tile, and below each other */
  int rows, columns, images, high, wide, tiles, splits, stages, gradients, stage /* bytes of dy, and of all */;
  int channels; /* of a group */
} block_cut;

/* By a warp: a step's products. dy, x: the tile; of_dy, of_x: the step's first pixels. */
template <int STRIDE>
static __device__ __forceinline__ void multiply_step(const block_cut &t, float (&sum)[TAPS][2][4], ptx_shared dy, ptx_shared x, int of_dy, int of_x,
                                                     int block) {
  const int lane = threadIdx.x % 32, second = lane / 8 % 2; /* of the two rows; of dy, whose registers have another order, lane / 16 */
  unsigned a[4];
  ptx_ldmatrix_x4_trans(a, dy + swizzled_up(of_dy + lane / 16 * t.columns + lane % 8, 2 * block + second));
#pragma unroll
  for (int tap = 0; tap < TAPS; tap++) {
    unsigned pixels[4];
    ptx_ldmatrix_x4_trans(pixels, x + swizzled_up(of_x + (second * STRIDE + tap / SIZE) * t.wide + lane % 8 * STRIDE + tap % SIZE, 2 * block + lane / 16));
#pragma unroll
    for (int half = 0; half < 2; half++) {
      const unsigned b[2] = {pixels[2 * half], pixels[2 * half + 1]};
      ptx_mma_m16n8k16(sum[tap][half], a, b);
    }
  }
}

/* By a warp: its sums to parts [split][K][tap][channels of a group]; `to`: of its first filter. A lane has filters lane / 4 and 8 below, of each eight channels two neighbours. */
static __device__ __forceinline__ void put_diagonal(const block_cut &t, const float (&sum)[TAPS][2][4], float *to, int filters) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int half = 0; half < 2; half++)
#pragma unroll
    for (int below = 0; below < 2; below++) {
      const int k = lane / 4 + 8 * below, c = half * 8 + lane % 4 * 2, group = k & -t.channels;
      if (k >= filters || c + 1 < group || c >= group + t.channels) continue;
      float *const at = to + k * TAPS * t.channels + c - group;
#pragma unroll
      for (int tap = 0; tap < TAPS; tap++) {
        const float first = sum[tap][half][2 * below], second = sum[tap][half][2 * below + 1];
        if (t.channels == 1) to[k * TAPS + tap] = c == k ? first : second;
        else *(float2 *)(at + tap * t.channels) = make_float2(first, second);
      }
    }
}

template <int STRIDE>
__global__ void __launch_bounds__(BLOCK, 1) blocks_wgrad_kernel(conv_problem p, block_cut t, const __grid_constant__ CUtensorMap halos,
                                                                const __grid_constant__ CUtensorMap gradients, float *__restrict__ parts) {
  extern __shared__ __align__(1024) unsigned char shared[];
  __shared__ unsigned long long barriers[2 * MOST_STAGES];
  const int warp = uniform(threadIdx.x / 32), lane = threadIdx.x % 32, split = divide(blockIdx.x, t.chunks), chunk = blockIdx.x - split * t.chunks.by;
  const ptx_shared stages = ptx_shared_address(shared);
  const ring r = {ptx_shared_address(barriers), ptx_shared_address(barriers + MOST_STAGES)};
  if (threadIdx.x == 0) {
    ptx_griddepcontrol_launch_dependents(); /* the next kernel may begin */
    ptx_prefetch_tensormap(&halos), ptx_prefetch_tensormap(&gradients);
    ring_begin(r, t.stages, WORKERS);
  }
  __syncthreads();           /* barriers are there */
  ptx_griddepcontrol_wait(); /* what the kernel before wrote is there */
  slot s = {0, 0};
  if (warp == 0) { /* the producer */
    if (lane > 0) return;
    for (int i = split; i < t.tiles; i += t.splits, s = next_slot(s, t.stages)) {
      const int of_p = divide(i, t.by_q), of_n = divide(of_p, t.by_p), q = (i - of_p * t.by_q.by) * t.columns, row = (of_p - of_n * t.by_p.by) * t.rows,
                n = of_n * t.images;
      const ptx_shared to = stages + s.stage * t.stage, full = r.full + 8 * s.stage;
      ptx_mbarrier_wait(r.empty + 8 * s.stage, s.parity ^ 1);
      ptx_mbarrier_arrive_expect_tx(full, (t.rows * t.columns + t.wide * t.high) * t.images * ROW);
      ptx_tensor_load(to, &gradients, {chunk * BK, q, row, n}, full);
      ptx_tensor_load(to + t.gradients, &halos, {chunk * BK, q * STRIDE - p.pad_left, row * STRIDE - p.pad_top, n}, full);
    }
    return;
  }

  const int me = warp - 1, channels = min(p.C - chunk * BK, BK), blocks = (channels + SIDE - 1) / SIDE, shares = WORKERS / blocks, share = me / blocks,
            block = me - share * blocks;
  const int steps = t.images * t.step_rows.by * t.step_columns.by;
  float sum[TAPS][2][4] = {};
  for (int i = split; i < t.tiles; i += t.splits, s = next_slot(s, t.stages)) {
    const ptx_shared dy = stages + s.stage * t.stage, x = dy + t.gradients;
    ptx_mbarrier_wait(r.full + 8 * s.stage, s.parity);
    for (int step = share; step < steps; step += shares) {
      const int of_row = divide(step, t.step_columns), image = divide(of_row, t.step_rows), row = (of_row - image * t.step_rows.by) * STEP_ROWS;
      const int column = (step - of_row * t.step_columns.by) * STEP_COLUMNS;
      multiply_step<STRIDE>(t, sum, dy, x, (image * t.rows + row) * t.columns + column, (image * t.high + row * STRIDE) * t.wide + column * STRIDE, block);
    }
    ptx_fence_proxy_async(); /* read by threads, written by copies next */
    __syncwarp();
    if (lane == 0) ptx_mbarrier_arrive(r.empty + 8 * s.stage);
    __syncwarp();
  }

  /* The shares' sums, [share - 1][block][sum][lane], where tiles were. */
  ptx_bar_sync(1, WORKERS * 32); /* nobody reads a tile any more */
  float *const mine = (float *)shared + block * SUMS * 32 + lane;
  const int of_share = blocks * SUMS * 32;
#pragma unroll
  for (int i = 0; i < SUMS; i++)
    if (share > 0) mine[(share - 1) * of_share + i * 32] = sum[i / 8][i / 4 % 2][i % 4];
  ptx_bar_sync(1, WORKERS * 32); /* they are there */
  if (share > 0) return;
  for (int other = 0; other < shares - 1; other++)
#pragma unroll
    for (int i = 0; i < SUMS; i++) sum[i / 8][i / 4 % 2][i % 4] += mine[other * of_share + i * 32];
  const int first = chunk * BK + block * SIDE;
  put_diagonal(t, sum, parts + ((int64_t)split * p.K + first) * TAPS * t.channels, channels - block * SIDE);
}

/* ---------------------------------------------------------------- host */

typedef struct blocks_plan {
  CUtensorMap halos, gradients;
  block_cut cut;
  void (*kernel)(conv_problem p, block_cut t, CUtensorMap halos, CUtensorMap gradients, float *parts);
  int blocks, shared, lanes;
} blocks_plan;

static int ceil_of(int all, int part) { return (all + part - 1) / part; }

/* Tiles of so many steps, in so much shared memory; false: not two of them. */
static bool try_cut(const conv_problem *p, int step_columns, int step_rows, int images, int64_t room, block_cut *t) {
  t->columns = step_columns * STEP_COLUMNS, t->rows = step_rows * STEP_ROWS, t->images = images;
  t->wide = (t->columns - 1) * p->stride_w + p->S, t->high = (t->rows - 1) * p->stride_h + p->R;
  if (t->wide > 256 || t->high > 256) return false;
  const int64_t dy = (int64_t)t->columns * t->rows * images * ROW, x = (int64_t)t->wide * t->high * images * ROW;
  const int64_t gradients = (dy + 1023) / 1024 * 1024, stage = gradients + (x + 1023) / 1024 * 1024, fit = room / stage;
  if (fit < 2) return false;
  t->gradients = (int)gradients, t->stage = (int)stage, t->stages = fit < MOST_STAGES ? (int)fit : MOST_STAGES;
  t->step_columns = divisor_of(step_columns), t->step_rows = divisor_of(step_rows);
  t->by_q = divisor_of(ceil_of(p->Q, t->columns)), t->by_p = divisor_of(ceil_of(p->P, t->rows));
  t->tiles = t->by_q.by * t->by_p.by * ceil_of(p->N, images);
  return true;
}

/* Clocks of the block that has most: the first tile on its way; then of each a warp's way through its steps, all warps' products, or the bytes. */
static double clocks_of(const block_cut *t) {
  const int steps = t->images * t->step_rows.by * t->step_columns.by, of_warp = ceil_of(steps, WORKERS * SIDE / BK);
  return t->stage / 16.0 + ceil_of(t->tiles, t->splits) * fmax(fmax(of_warp * 350.0, of_warp * WORKERS * 55.0) + 100, t->stage / 28.0);
}

static bool best_cut(const conv_problem *p, int per_chunk, int64_t room, block_cut *best) {
  double least = INFINITY;
  for (int columns = 1; columns <= ceil_of(p->Q, STEP_COLUMNS); columns++)
    for (int rows = 1; rows <= ceil_of(p->P, STEP_ROWS); rows++)
      for (int images = 1; images <= p->N && (images == 1 || (columns * STEP_COLUMNS >= p->Q && rows * STEP_ROWS >= p->P)); images++) {
        block_cut t = *best;
        if (!try_cut(p, columns, rows, images, room, &t)) break;
        t.splits = t.tiles < per_chunk ? t.tiles : per_chunk;
        const double clocks = clocks_of(&t);
        if (clocks < least) least = clocks, *best = t;
      }
  return least < INFINITY;
}

static const char *plan_blocks_wgrad(const conv_operation *o, const conv_device *device, conv_plan *plan) {
  const conv_problem *p = &o->problem;
  if (device->arch / 10 != 9) return "the copy engine's tiles: here for compute capability 9.0 only";
  if (p->groups == 1) return "no groups";
  const int channels = p->C / p->groups;
  if (p->K != p->C) return "groups with more channels than filters, or fewer";
  if (channels > SIDE || (channels & (channels - 1)) != 0) return "groups that have not 1, 2, 4, 8 or 16 channels";
  if (p->C % CHUNK != 0) return "C is no multiple of 8";
  if (p->stride_h > 2 || !is_square(p, SIZE, p->stride_h)) return "not 3x3 with stride 1 or 2 and no dilation";
  const char *why = plain_unsupported(p, device);
  if (why) return why;
  blocks_plan *mine = plan_data<blocks_plan>(plan);
  block_cut *t = &mine->cut;
  const int chunks = ceil_of(p->C, BK), per_chunk = device->sm_count < chunks ? 1 : device->sm_count / chunks, sums = WORKERS * SUMS * 32 * (int)sizeof(float);
  t->chunks = divisor_of(chunks), t->channels = channels;
  if (!best_cut(p, per_chunk, (int64_t)device->shared_per_block - 1024, t)) return "two tiles do not fit in shared memory";
  mine->shared = t->stages * t->stage > sums ? t->stages * t->stage : sums;
  mine->blocks = chunks * t->splits;
  mine->lanes = t->splits < 4 ? 1 : t->splits < 4 * MOST_LANES ? t->splits / 4 : MOST_LANES;
  mine->kernel = p->stride_h == 1 ? blocks_wgrad_kernel<1> : blocks_wgrad_kernel<2>;
  plan->workspace_bytes = (size_t)t->splits * (size_t)problem_w_count(p) * sizeof(float);
  const cuuint64_t x_size[4] = {(cuuint64_t)p->C, (cuuint64_t)p->W, (cuuint64_t)p->H, (cuuint64_t)p->N},
                   y_size[4] = {(cuuint64_t)p->K, (cuuint64_t)p->Q, (cuuint64_t)p->P, (cuuint64_t)p->N};
  const cuuint32_t x_box[4] = {BK, (cuuint32_t)t->wide, (cuuint32_t)t->high, (cuuint32_t)t->images},
                   y_box[4] = {BK, (cuuint32_t)t->columns, (cuuint32_t)t->rows, (cuuint32_t)t->images};
  why = map_tiles(plan, &mine->halos, "x", 4, x_size, x_box);
  if (!why) why = map_tiles(plan, &mine->gradients, "dy", 4, y_size, y_box);
  if (why) return why;
  snprintf(plan->words, sizeof plan->words, "%d x %d results, %d image%s a tile: %d tiles by %d block%s for each of %d pieces, %d stages", t->rows, t->columns,
           t->images, t->images == 1 ? "" : "s", t->tiles, t->splits, t->splits == 1 ? "" : "s", chunks, t->stages);
  const cudaError_t status = plan_allow_shared((const void *)mine->kernel, (size_t)mine->shared);
  return status ? plan_failed(plan, status) : NULL;
}

static cudaError_t launch_blocks_wgrad(const conv_plan *plan, const conv_buffers *b, cudaStream_t stream) {
  const blocks_plan *mine = plan_data<blocks_plan>(plan);
  const conv_problem &p = plan->operation.problem;
  CUtensorMap halos, gradients;
  cudaError_t status = map_at(&halos, &mine->halos, b->x);
  if (!status) status = map_at(&gradients, &mine->gradients, b->y);
  if (status) return status;
  status = launch_kernel({.grid = dim3(mine->blocks), .block = dim3(BLOCK), .shared = (size_t)mine->shared, .stream = stream, .early = true}, mine->kernel, p,
                         mine->cut, halos, gradients, (float *)b->workspace);
  if (status) return status;
  const int count = (int)problem_w_count(&p);
  return launch_kernel({.grid = dim3((count / 4 + THREADS - 1) / THREADS), .block = dim3(THREADS, mine->lanes), .stream = stream, .early = true},
                       add_whole_kernel, count, mine->cut.splits, (const float4 *)b->workspace, (__half *)b->w);
}

/* An accumulator takes one step after the other, which adds 16 pixels' products and what it was, at most all of them (steps past the image add zeros); then the shares and the splits. */
static double growth_blocks_wgrad(const conv_problem *p, bool random) {
  const double steps = (double)p->N * ceil_of(p->P, STEP_ROWS) * ceil_of(p->Q, STEP_COLUMNS);
  return growth_truncated(steps * (STEP + 1) + steps + WORKERS + MOST_LANES, random);
}

NHWC_ROW(blocks_wgrad, "06z", "wgrad of groups: the diagonal of products of 16 x 16 channels", PASS_WGRAD, 90, plan_blocks_wgrad, launch_blocks_wgrad,
         growth_blocks_wgrad);
