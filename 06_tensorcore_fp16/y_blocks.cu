/* 06y: a few channels a group: blocks of 16 x 16, by warps, filters in registers.
 *
 * Terms:    mma.sync, block-diagonal matrix, register blocking, warp specialization.
 * Idea:     06u puts groups side by side until they fill the 64 rows of wgmma, and of its products of 64 x 64 channels 4 in 64 count. The older instruction is smaller: 16 x 16.
 *           With 4 channels a group 4 in 16 count, with 16 all. It is slower by the product, but there are four times fewer. And what it multiplies by comes from registers: a
 *           warp has 16 channels of the result, whose nine taps are 36 registers, read once for all its tiles. So there is nothing to lay out in shared
 *           memory, two blocks fit a multiprocessor, and the first product can begin as soon as the first pixels are there.
 *
 *               a tap of 16 filters [16][16 channels]   x   [16 channels][8 pixels of a row], shifted by the tap: ldmatrix, wherever the row begins
 *
 * Rows:     a unit is four rows of eight results. A row of eight pixels, once read, is multiplied for every row of the window that it lies in: 18 reads for 36 products.
 * Strides:  ldmatrix takes an address for each pixel: with a stride of 2 every second one. No planes as in 06u; two rows at a time meet in a bank.
 * Roles:    a warp asks for halo tiles of 64 channels, eight or twelve multiply: each 16 of these channels, of a part of the tile's units.
 * Change:   against 06u the instruction, mma.sync for wgmma; and filters in registers, so no planes and no filters in shared memory.
 * Infinity: an infinite pixel times a zero of another group is NaN.
 * Expect:   (before anything ran) ResNeXt, 64 images, stride 1: 56 x 56 and 128 channels 28 us, near the bytes' 24, where 06u takes 38; 28 x 28: 15 for 23; 14 x 14: 10 for 16. With strides
 *           DRAM decides: 33 for 37. 7 x 7, with twice the products: 8 for 11.
 * Passes:   fprop; dgrad without a stride. Layout: NHWC, filters KRSC, fp16 with fp32 sums. As many filters as channels a group: 1, 2, 4, 8, 16 or 32; channels: multiples of 8;
 *           3 x 3, in fprop 5 x 5, too, with up to 16 channels a group; strides of 1 and 2, no dilation. */
#include <math.h>

#include "03_shared_tiling/turned.h"
#include "04_constant_filter/depthwise.h"
#include "06_tensorcore_fp16/tiles.cuh"
#include "common/harness/launch.h"

static constexpr int MOST_STAGES = 4, SIDE = 16 /* channels of a product */;
static constexpr int UNIT_ROWS[] = {4, 2} /* with 3 x 3, and with 5 x 5: registers */, UNIT_COLUMNS = 8, BOXES = 2 /* of results, one on its way out */;

/* A tile: rows x columns of the result, of so many images; its halo tile has high x wide pixels an image. */
typedef struct block_cut {
  divisor chunks, by_q, by_p;      /* pieces of 64 channels; tiles in a row, and below each other */
  divisor unit_columns, unit_rows; /* units in a row of the tile, and below each other */
  int rows, columns, images, high, wide, tiles, stages, stage, box /* bytes, of x and of results */;
  int channels; /* of a group */
} block_cut;

/* Where a tile begins. */
typedef struct corner {
  int q, p, n;
} corner;

static __device__ __forceinline__ corner corner_at(const block_cut &t, int i) {
  const int of_p = divide(i, t.by_q), n = divide(of_p, t.by_p);
  return {(i - of_p * t.by_q.by) * t.columns, (of_p - n * t.by_p.by) * t.rows, n * t.images};
}

/* Two neighbouring elements of a tap's matrix: of filter `to` and channels `from` and the next; zero where these belong to another group, or there is no filter. w: filters of the block's
 * 64 channels, `to` and `from` count from the first; channels: how many there are. TURNED: it is the gradient that has filters. */
template <int TAPS, bool TURNED>
static __device__ __forceinline__ unsigned pair_of(const block_cut &t, const unsigned short *w, int channels, int tap, int to, int from) {
  const int group = to & -t.channels, c = from - group; /* the group's first channel; of the group */
  if (to >= channels) return 0;
  if (t.channels == 1) return from == (to & ~1) ? (unsigned)w[to * TAPS + (TURNED ? TAPS - 1 - tap : tap)] << to % 2 * 16 : 0;
  if (c < 0 || c >= t.channels) return 0;
  if (!TURNED) return *(const unsigned *)(w + (to * TAPS + tap) * t.channels + c);
  const unsigned short *const low = w + (from * TAPS + TAPS - 1 - tap) * t.channels + to - group;
  return low[0] | (unsigned)low[TAPS * t.channels] << 16;
}

/* Warps of a block that multiply, and blocks of a multiprocessor: as many as registers allow. */
static constexpr int WORKERS_OF[2][2] = {{8, 8}, {12, 8}}, RESIDENT[2][2] = {{2, 1}, {1, 1}}; /* [stride - 1][products - 1]; 5 x 5: as with two products */

/* PRODUCTS: of a tap: two for 32 channels a group. */
template <int SIZE, int STRIDE, int PRODUCTS, bool TURNED>
__global__ void __launch_bounds__((1 + WORKERS_OF[STRIDE - 1][SIZE > 3 ? 1 : PRODUCTS - 1]) * 32, RESIDENT[STRIDE - 1][SIZE > 3 ? 1 : PRODUCTS - 1])
    blocks_kernel(conv_problem p, block_cut t, const __half *w, const __grid_constant__ CUtensorMap halos, const __grid_constant__ CUtensorMap results) {
  constexpr int TAPS = SIZE * SIZE, RESULTS = UNIT_ROWS[SIZE / 2 - 1], ROWS = (RESULTS - 1) * STRIDE + SIZE /* of a unit, and of x under it */;
  constexpr int WORKERS = WORKERS_OF[STRIDE - 1][SIZE > 3 ? 1 : PRODUCTS - 1];
  extern __shared__ __align__(1024) unsigned char shared[]; /* boxes, stages, filters */
  __shared__ unsigned long long barriers[2 * MOST_STAGES + 1];
  const int warp = uniform(threadIdx.x / 32), lane = threadIdx.x % 32, place = divide(blockIdx.x, t.chunks), chunk = blockIdx.x - place * t.chunks.by;
  const int apart = gridDim.x / t.chunks.by;
  const unsigned short *const of_w = (const unsigned short *)(shared + BOXES * t.box + t.stages * t.stage);
  const ptx_shared boxes = ptx_shared_address(shared), stages = boxes + BOXES * t.box, filters_full = ptx_shared_address(barriers + 2 * MOST_STAGES);
  const ring r = {ptx_shared_address(barriers), ptx_shared_address(barriers + MOST_STAGES)};
  const int channels = min(p.C - chunk * BK, BK); /* of the block */
  if (threadIdx.x == 0) {
    ptx_griddepcontrol_launch_dependents(); /* the next kernel may begin */
    ptx_prefetch_tensormap(&halos), ptx_prefetch_tensormap(&results);
    ptx_mbarrier_init(filters_full, 1);
    ring_begin(r, t.stages, WORKERS);
  }
  __syncthreads();           /* barriers are there */
  ptx_griddepcontrol_wait(); /* what the kernel before wrote is there */
  slot s = {0, 0};
  if (warp == 0) { /* the producer */
    if (lane > 0) return;
    const int of_filter = TAPS * t.channels; /* halves */
    ptx_mbarrier_arrive_expect_tx(filters_full, channels * of_filter * 2);
    ptx_bulk_load(ptx_shared_address(of_w), w + chunk * BK * of_filter, channels * of_filter * 2, filters_full);
    for (int i = place; i < t.tiles; i += apart, s = next_slot(s, t.stages)) {
      const corner c = corner_at(t, i);
      ptx_mbarrier_wait(r.empty + 8 * s.stage, s.parity ^ 1);
      ptx_mbarrier_arrive_expect_tx(r.full + 8 * s.stage, t.wide * t.high * t.images * ROW);
      ptx_tensor_load(stages + s.stage * t.stage, &halos, {chunk * BK, c.q * STRIDE - p.pad_left, c.p * STRIDE - p.pad_top, c.n}, r.full + 8 * s.stage);
    }
    return;
  }

  /* Whose channels, and which part of the tile's units. */
  const int me = warp - 1, blocks = (channels + SIDE - 1) / SIDE, parts = WORKERS / blocks, part = me / blocks, block = me - part * blocks;
  const int first_in = PRODUCTS > 1 ? block & ~1 : block, units = t.images * t.unit_rows.by * t.unit_columns.by;
  unsigned filters[TAPS][PRODUCTS][4];
  if (channels < BK) { /* of a last piece: a box leaves whole, though what lies past the last channel goes nowhere */
    for (int i = threadIdx.x - 32; i < BOXES * t.box / 16; i += WORKERS * 32) ((uint4 *)shared)[i] = uint4();
    __syncwarp();
    ptx_bar_sync(1, WORKERS * 32); /* zeros before results */
  }
  ptx_mbarrier_wait(filters_full, 0);
#pragma unroll
  for (int tap = 0; tap < TAPS; tap++)
#pragma unroll
    for (int k = 0; k < PRODUCTS; k++)
#pragma unroll
      for (int i = 0; i < 4; i++) /* row lane / 4 or 8 below, columns 2 (lane % 4) or 8 further */
        filters[tap][k][i] =
            pair_of<TAPS, TURNED>(t, of_w, channels, tap, block * SIDE + lane / 4 + i % 2 * 8, (first_in + k) * SIDE + lane % 4 * 2 + i / 2 * 8);

  int turn = 0;
  for (int i = place; i < t.tiles; i += apart, s = next_slot(s, t.stages), turn ^= 1) {
    const ptx_shared box = boxes + turn * t.box;
    ptx_mbarrier_wait(r.full + 8 * s.stage, s.parity);
    for (int unit = part < parts ? part : units; unit < units; unit += parts) {
      const int of_row = divide(unit, t.unit_columns), image = divide(of_row, t.unit_rows), row = (of_row - image * t.unit_rows.by) * RESULTS;
      const int column = (unit - of_row * t.unit_columns.by) * UNIT_COLUMNS, first = (image * t.high + row * STRIDE) * t.wide + (column + lane % 8) * STRIDE;
      float sum[RESULTS][4] = {};
#pragma unroll
      for (int k = 0; k < PRODUCTS; k++)
#pragma unroll
        for (int h = 0; h < ROWS; h += 2) /* two rows of x at a time */
#pragma unroll
          for (int column = 0; column < SIZE; column++) {
            unsigned pixels[4];
            const int pixel = first + (h + (h + 1 < ROWS ? lane / 16 : 0)) * t.wide + column;
            ptx_ldmatrix_x4(pixels, stages + s.stage * t.stage + swizzled_up(pixel, 2 * (first_in + k) + lane / 8 % 2));
#pragma unroll
            for (int j = 0; j < 2; j++)
#pragma unroll
              for (int o = 0; o < RESULTS; o++) {
                const int of_window = h + j - o * STRIDE;
                if (h + j >= ROWS || of_window < 0 || of_window >= SIZE) continue;
                const unsigned eight[2] = {pixels[2 * j], pixels[2 * j + 1]};
                ptx_mma_m16n8k16(sum[o], filters[of_window * SIZE + column][k], eight);
              }
          }
#pragma unroll
      for (int o = 0; o < RESULTS; o += 2) {
        unsigned part[4];
#pragma unroll
        for (int j = 0; j < 4; j++) part[j] = two_halves(sum[o + j / 2][j % 2 * 2], sum[o + j / 2][j % 2 * 2 + 1]);
        const int pixel = (image * t.rows + row + o + lane / 16) * t.columns + column + lane % 8;
        ptx_stmatrix_x4_trans(box + swizzled_up(pixel, 2 * block + lane / 8 % 2), part);
      }
    }
    ptx_fence_proxy_async(); /* read by threads, written by copies next; the box the other way round */
    __syncwarp();
    if (lane == 0) ptx_mbarrier_arrive(r.empty + 8 * s.stage);
    if (threadIdx.x == 32) ptx_bulk_wait_read<0>(); /* the other box is on its way no more */
    ptx_bar_sync(1, WORKERS * 32);                  /* this one is there */
    if (threadIdx.x == 32) {
      const corner c = corner_at(t, i);
      ptx_tensor_store(&results, {chunk * BK, c.q, c.p, c.n}, box);
      ptx_bulk_commit();
    }
    __syncwarp();
  }
  if (threadIdx.x == 32) ptx_bulk_wait_read<0>(); /* shared memory may go; what is written is there when the grid ends */
}

/* ---------------------------------------------------------------- host */

typedef void (*blocks_t)(conv_problem p, block_cut t, const __half *w, CUtensorMap halos, CUtensorMap results);

/* By products of a tap. */
static const blocks_t fprop[2][2] = {{blocks_kernel<3, 1, 1, false>, blocks_kernel<3, 2, 1, false>},
                                     {blocks_kernel<3, 1, 2, false>, blocks_kernel<3, 2, 2, false>}},
                      dgrad[2] = {blocks_kernel<3, 1, 1, true>, blocks_kernel<3, 1, 2, true>},
                      fprop_5x5[2] = {blocks_kernel<5, 1, 1, false>, blocks_kernel<5, 2, 1, false>};

typedef struct blocks_plan {
  CUtensorMap halos, results;
  conv_problem problem; /* in dgrad turned: x is the gradient of y */
  block_cut cut;
  blocks_t kernel;
  int blocks, threads, shared;
} blocks_plan;

static int ceil_of(int all, int part) { return (all + part - 1) / part; }

/* Tiles of so many units, in so much shared memory; false: not two of them. */
static bool try_cut(const conv_problem *p, int unit_columns, int unit_rows, int images, int64_t room, block_cut *t) {
  t->columns = unit_columns * UNIT_COLUMNS, t->rows = unit_rows * UNIT_ROWS[p->R / 2 - 1], t->images = images;
  t->wide = (t->columns - 1) * p->stride_w + p->S, t->high = (t->rows - 1) * p->stride_h + p->R;
  if (t->wide > 256 || t->high > 256) return false;
  const int64_t stage = ((int64_t)t->wide * t->high * images * ROW + 1023) / 1024 * 1024, box = (int64_t)t->columns * t->rows * images * ROW;
  const int64_t fit = (room - BOXES * box) / stage;
  if (fit < 2) return false;
  t->box = (int)box;
  t->stage = (int)stage, t->stages = fit < MOST_STAGES ? (int)fit : MOST_STAGES;
  t->unit_columns = divisor_of(unit_columns), t->unit_rows = divisor_of(unit_rows);
  t->by_q = divisor_of(ceil_of(p->Q, t->columns)), t->by_p = divisor_of(ceil_of(p->P, t->rows));
  t->tiles = t->by_q.by * t->by_p.by * ceil_of(p->N, images);
  return true;
}

/* Clocks of a multiprocessor with `resident` blocks: the first tile on its way; then of each its products, a warp's way through its units, or the bytes. */
static double clocks_of(const block_cut *t, int products, int workers, int resident, int places) {
  const int units = t->images * t->unit_rows.by * t->unit_columns.by, of_warp = ceil_of(units, workers * SIDE / BK);
  const double multiplied = of_warp * workers * (25.0 + 4 * products), way = of_warp * (200.0 + 8 * products), brought = (t->stage + t->box) / 28.0;
  return t->stage / 16.0 + ceil_of(t->tiles, places) * fmax(resident * fmax(multiplied, brought), way);
}

static bool best_cut(const conv_problem *p, int products, int workers, int resident, int places, int64_t room, block_cut *best) {
  double least = INFINITY;
  for (int columns = 1; columns <= ceil_of(p->Q, UNIT_COLUMNS); columns++)
    for (int rows = 1; rows <= ceil_of(p->P, UNIT_ROWS[p->R / 2 - 1]); rows++)
      for (int images = 1; images <= p->N && (images == 1 || (columns * UNIT_COLUMNS >= p->Q && rows * UNIT_ROWS[p->R / 2 - 1] >= p->P)); images++) {
        block_cut t = *best;
        if (!try_cut(p, columns, rows, images, room, &t)) break;
        const double clocks = clocks_of(&t, products, workers, resident, places);
        if (clocks < least) least = clocks, *best = t;
      }
  return least < INFINITY;
}

static const char *plan_blocks(const conv_operation *o, const conv_device *device, conv_plan *plan) {
  const bool turned = o->pass == PASS_DGRAD;
  if (device->arch / 10 != 9) return "the copy engine's tiles: here for compute capability 9.0 only";
  if (o->problem.groups == 1) return "no groups";
  const int channels = o->problem.C / o->problem.groups;
  if (o->problem.K != o->problem.C) return "groups with more channels than filters, or fewer";
  if (channels > 32 || (channels & (channels - 1)) != 0) return "groups that have not 1, 2, 4, 8, 16 or 32 channels";
  if (o->problem.C % CHUNK != 0) return "C is no multiple of 8";
  const int products = channels > SIDE ? 2 : 1;
  const char *why = plain_unsupported(&o->problem, device);
  if (why) return why;
  const int stride = o->problem.stride_h;
  const bool large = is_square(&o->problem, 5, stride);
  if (stride > 2 || !(large || is_square(&o->problem, 3, stride))) return "not 3x3 or 5x5 with stride 1 or 2 and no dilation";
  if (turned && (large || stride > 1)) return "dgrad with a stride, or of 5x5";
  if (large && channels > SIDE) return "5x5 with more than 16 channels a group";
  blocks_plan *mine = plan_data<blocks_plan>(plan);
  const conv_problem *p = &mine->problem;
  mine->problem = turned ? turned_dgrad(&o->problem).p : o->problem;
  mine->kernel = turned ? dgrad[products - 1] : large ? fprop_5x5[stride - 1] : fprop[products - 1][stride - 1];
  block_cut *t = &mine->cut;
  const int chunks = ceil_of(p->C, BK), kind = large ? 1 : products - 1, workers = WORKERS_OF[stride - 1][kind], resident = RESIDENT[stride - 1][kind];
  const int places = resident * device->sm_count < chunks ? 1 : resident * device->sm_count / chunks;
  const int filters = BK * p->R * p->S * channels * 2;
  t->chunks = divisor_of(chunks), t->channels = channels;
  if (!best_cut(p, p->R * p->S * products, workers, resident, places, ((int64_t)device->shared_per_block + 1024) / resident - 2048 - filters, t))
    return "two tiles do not fit in shared memory";
  mine->threads = (1 + workers) * 32;
  mine->shared = BOXES * t->box + t->stages * t->stage + filters;
  mine->blocks = chunks * (t->tiles < places ? t->tiles : places);
  const cuuint64_t x_size[4] = {(cuuint64_t)p->C, (cuuint64_t)p->W, (cuuint64_t)p->H, (cuuint64_t)p->N},
                   y_size[4] = {(cuuint64_t)p->K, (cuuint64_t)p->Q, (cuuint64_t)p->P, (cuuint64_t)p->N};
  const cuuint32_t x_box[4] = {BK, (cuuint32_t)t->wide, (cuuint32_t)t->high, (cuuint32_t)t->images},
                   y_box[4] = {BK, (cuuint32_t)t->columns, (cuuint32_t)t->rows, (cuuint32_t)t->images};
  why = map_tiles(plan, &mine->halos, turned ? "dy" : "x", 4, x_size, x_box);
  if (!why) why = map_tiles(plan, &mine->results, turned ? "dx" : "y", 4, y_size, y_box);
  if (why) return why;
  snprintf(plan->words, sizeof plan->words, "%d x %d results, %d image%s a tile: %d tiles of %d, %d stages", t->rows, t->columns, t->images,
           t->images == 1 ? "" : "s", chunks, t->tiles, t->stages);
  const cudaError_t status = plan_allow_shared((const void *)mine->kernel, (size_t)mine->shared);
  return status ? plan_failed(plan, status) : NULL;
}

static cudaError_t launch_blocks(const conv_plan *plan, const conv_buffers *b, cudaStream_t stream) {
  const blocks_plan *mine = plan_data<blocks_plan>(plan);
  const bool turned = plan->operation.pass == PASS_DGRAD;
  CUtensorMap halos, results;
  cudaError_t status = map_at(&halos, &mine->halos, turned ? b->y : b->x);
  if (!status) status = map_at(&results, &mine->results, turned ? b->x : b->y);
  if (status) return status;
  return launch_kernel({.grid = dim3(mine->blocks), .block = dim3(mine->threads), .shared = (size_t)mine->shared, .stream = stream, .early = true},
                       mine->kernel, mine->problem, mine->cut, (const __half *)b->w, halos, results);
}

/* An accumulator takes one product after the other, which adds 16 products and what it was; other groups' zeros, too. */
static double growth_blocks(const conv_problem *p, bool random) {
  return growth_truncated((double)p->R * p->S * (p->C / p->groups > SIDE ? 2 : 1) * (SIDE + 1), random);
}

NHWC_ROW(blocks_fprop, "06y", "groups: products of 16 x 16 channels, filters in registers", PASS_FPROP, 90, plan_blocks, launch_blocks, growth_blocks);
NHWC_ROW(blocks_dgrad, "06y", "groups: products of 16 x 16 channels, filters in registers", PASS_DGRAD, 90, plan_blocks, launch_blocks, growth_blocks);
