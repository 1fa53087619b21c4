/* 06j: a tile's sums are rounded and stored under the next tile's products.
 *
 * Terms:    double-buffered accumulators, epilogue overlap.
 * Idea:     06f's consumers round their sums while the tensor cores have nothing to do, and all of a tile's end, with what nothing else overlaps, is 600 clocks and 6
 *           for each pixel. 1x1 with 256 channels has four steps a tile: a third of its time is ends of tiles. Up to 192 pixels a thread has registers for the sums
 *           of two tiles: it asks for the next tile's first step, and leaves with the last tile's sums while that runs.
 * Change:   against 06f the consumers' loop, which goes from tile to tile with two sets of sums in turn; no more than 192 pixels.
 * Expect:   (before anything ran) 1x1, 256 to 1024 channels, 14 x 14, 256 images: 06f has 15 rounds of tiles of 208 pixels, 4 x 832 + 1850 clocks each; here 16 of 192
 *           pixels, 4 x 788: 51,000 clocks in place of 78,000. 06f takes 52 us; 40 here, since memory and power will want their part. With 36 steps a tile there are
 *           6 % to gain, and the power limit will take most of it.
 * Passes:   fprop. Layout: NHWC, filters KRSC, fp16 with fp32 sums. Channels and filters: multiples of 8. No groups. */
#include "06_tensorcore_fp16/cut.cuh"
#include "common/harness/launch.h"

/* N: pixels of a product. */
template <int N>
__global__ void __launch_bounds__(BLOCK, 1) overlap_kernel(conv_problem p, tile_cut t, const __grid_constant__ CUtensorMap windows,
                                                           const __grid_constant__ CUtensorMap filter_tiles, const __grid_constant__ CUtensorMap results) {
  extern __shared__ __align__(1024) unsigned char shared[];
  __shared__ unsigned long long barriers[2 * MOST_STAGES];
  const ptx_shared stages = ptx_shared_address(shared);
  const ring r = {ptx_shared_address(barriers), ptx_shared_address(barriers + MOST_STAGES)};
  const int role = uniform(threadIdx.x / THREADS);
  if (threadIdx.x == 0) {
    ptx_griddepcontrol_launch_dependents(); /* the next kernel may begin */
    ptx_prefetch_tensormap(&windows), ptx_prefetch_tensormap(&filter_tiles);
    ring_begin(r, t.stages, CONSUMERS * THREADS / 32);
  }

  if (role == 0) { /* the producer */
    __syncwarp();
    ptx_bar_arrive(1, BLOCK); /* barriers are there; who made them need not wait */
    ptx_setmaxnreg_dec<56>();
    if (threadIdx.x != 0) return;
    slot s = {0, 0};
    for (int i = blockIdx.x; i < t.tiles; i += gridDim.x) {
      const int of_k = divide(i, t.tiles_k), pixel = of_k * t.pixels, n = divide(pixel, t.image), of_image = pixel - n * t.image.by,
                row = divide(of_image, t.row);
      const tile from = {0, (i - of_k * t.tiles_k.by) * t.filters, (of_image - row * p.Q) * p.stride_w - p.pad_left, row * p.stride_h - p.pad_top, n};
      place at = {0, 0, 0};
      if (i == (int)blockIdx.x) ptx_griddepcontrol_wait(); /* what the kernel before wrote is there */
      for (int step = 0; step < t.steps; step++, at = next_step(p, at, p.C), s = next_slot(s, t.stages)) {
        const ptx_shared filters = stages + s.stage * t.stage;
        ptx_mbarrier_wait(r.empty + 8 * s.stage, s.parity ^ 1);
        load_step(p, from, &windows, &filter_tiles, at, filters + t.filters * ROW, filters, t.stage, r.full + 8 * s.stage);
      }
    }
    return;
  }

  ptx_bar_sync(1, BLOCK);
  ptx_setmaxnreg_inc<224>();
  ptx_griddepcontrol_wait();
  const int me = role - 1; /* of the consumers */
  const ptx_shared a = stages + me * t.filters_apart * ROW, b = stages + (t.filters + me * t.pixels_apart) * ROW,
                   box = stages + t.stages * t.stage + me * N * ROW;
  const bool stores = threadIdx.x % THREADS == 0, first_lane = threadIdx.x % 32 == 0;
  slot s = {0, 0};
  int before = 0;

  /* The first step of a tile, asked for. */
  auto begin = [&](float(&sum)[1][N / 2]) {
    ptx_mbarrier_wait(r.full + 8 * s.stage, s.parity);
    multiply<true>(sum, a + s.stage * t.stage, b + s.stage * t.stage);
    before = s.stage, s = next_slot(s, t.stages);
  };
  /* The other steps, until their sums are there. */
  auto finish = [&](float(&sum)[1][N / 2]) {
    for (int step = 1; step < t.steps; step++, s = next_slot(s, t.stages)) {
      ptx_mbarrier_wait(r.full + 8 * s.stage, s.parity);
      multiply<false>(sum, a + s.stage * t.stage, b + s.stage * t.stage);
      ptx_wgmma_wait<1>(); /* the step before is done */
      if (first_lane) ptx_mbarrier_arrive(r.empty + 8 * before);
      before = s.stage;
    }
    ptx_wgmma_wait<0>();
    if (first_lane) ptx_mbarrier_arrive(r.empty + 8 * before);
  };
  /* A tile's sums, on their way. */
  auto leave = [&](int i, const float(&sum)[1][N / 2]) {
    const int of_k = divide(i, t.tiles_k), k = (i - of_k * t.tiles_k.by) * t.filters + me * t.filters_apart;
    if (stores) ptx_bulk_wait_read<0>(); /* the tile before has left */
    ptx_bar_sync(2 + me, THREADS);
    put_turned<N>(sum[0], box);
    ptx_fence_proxy_async();
    ptx_bar_sync(2 + me, THREADS); /* the box is there */
    if (stores && k < p.K) {
      ptx_tensor_store(&results, {k, of_k * t.pixels + me * t.pixels_apart}, box);
      ptx_bulk_commit();
    }
  };

  float even[1][N / 2], odd[1][N / 2]; /* tiles in turn */
  int i = blockIdx.x;
  begin(even);
  finish(even);
  for (;;) {
    i += gridDim.x;
    if (i >= t.tiles) {
      leave(i - gridDim.x, even);
      break;
    }
    begin(odd);
    leave(i - gridDim.x, even); /* while the tensor cores work */
    finish(odd);
    i += gridDim.x;
    if (i >= t.tiles) {
      leave(i - gridDim.x, odd);
      break;
    }
    begin(even);
    leave(i - gridDim.x, odd);
    finish(even);
  }
  if (stores) ptx_bulk_wait_read<0>(); /* shared memory may go; what is written is there when the grid ends */
}

/* ---------------------------------------------------------------- host */

typedef struct instance {
  int n;
  void (*kernel)(conv_problem p, tile_cut t, CUtensorMap windows, CUtensorMap filter_tiles, CUtensorMap results);
} instance;

#define ROW_OF(N) \
  { N, overlap_kernel<N> }
static const instance instances[] = {ROW_OF(64), ROW_OF(80), ROW_OF(96), ROW_OF(112), ROW_OF(128), ROW_OF(144), ROW_OF(160), ROW_OF(176), ROW_OF(192)};

typedef struct overlap_plan {
  CUtensorMap windows, filter_tiles, results;
  const instance *row;
  tile_cut cut;
  int blocks, shared;
} overlap_plan;

static const char *plan_fprop(const conv_operation *o, const conv_device *device, conv_plan *plan) {
  const conv_problem *p = &o->problem;
  if (device->arch / 10 != 9) return "wgmma: only compute capability 9.0 has it";
  if (p->groups > 1) return "groups";
  if (p->C % CHUNK != 0 || p->K % CHUNK != 0) return "C or K is no multiple of 8";
  const char *why = plain_unsupported(p, device);
  if (why) return why;
  overlap_plan *mine = plan_data<overlap_plan>(plan);
  const int64_t pixels = (int64_t)p->N * p->P * p->Q;
  persistent_tile tile = {};
  best_overlap(p, device->sm_count, &tile);
  mine->row = instances + (tile.n - instances[0].n) / 16;
  mine->cut = cut_into(p, tile, device->shared_per_block);
  const tile_cut *t = &mine->cut;
  mine->blocks = t->tiles < device->sm_count ? t->tiles : device->sm_count;
  mine->shared = t->stages * t->stage + CONSUMERS * mine->row->n * ROW;
  why = map_windows(plan, &mine->windows, p, BK, t->pixels);
  if (!why) why = map_filters(plan, &mine->filter_tiles, p, t->filters);
  const cuuint64_t size[2] = {(cuuint64_t)p->K, (cuuint64_t)pixels};
  const cuuint32_t box[2] = {WGMMA_M, (cuuint32_t)mine->row->n};
  if (!why) why = map_tiles(plan, &mine->results, "y", 2, size, box);
  if (why) return why;
  snprintf(plan->words, sizeof plan->words, "%d filters x %d pixels, %d tile%s, %d blocks, %d stages", t->filters, t->pixels, t->tiles,
           t->tiles == 1 ? "" : "s", mine->blocks, t->stages);
  const cudaError_t status = plan_allow_shared((const void *)mine->row->kernel, (size_t)mine->shared);
  return status ? plan_failed(plan, status) : NULL;
}

static cudaError_t launch_fprop(const conv_plan *plan, const conv_buffers *b, cudaStream_t stream) {
  const overlap_plan *mine = plan_data<overlap_plan>(plan);
  CUtensorMap windows, filter_tiles, results;
  cudaError_t status = map_at(&windows, &mine->windows, b->x);
  if (!status) status = map_at(&filter_tiles, &mine->filter_tiles, b->w);
  if (!status) status = map_at(&results, &mine->results, b->y);
  if (status) return status;
  return launch_kernel({.grid = dim3(mine->blocks), .block = dim3(BLOCK), .shared = (size_t)mine->shared, .stream = stream, .early = true}, mine->row->kernel,
                       plan->operation.problem, mine->cut, windows, filter_tiles, results);
}

NHWC_ROW(overlap_fprop, "06j", "sums of two tiles: one is rounded and stored while the other is multiplied", PASS_FPROP, 90, plan_fprop, launch_fprop,
         growth_steps);
