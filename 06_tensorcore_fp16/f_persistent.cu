/* 06f: blocks that stay, results that leave under the next tile, and pixels where the size is free.
 *
 * Terms:    persistent kernel, tile scheduler, epilogue overlap, wave quantization, operand swap, programmatic dependent launch.
 * Idea:     three. One block a multiprocessor takes tile after tile, so that its producer loads the next tile's first stages while this one's last are multiplied,
 *           and barriers and maps are set up once. Results go to shared memory of their own by stmatrix and from there by the copy engine, which the next tile
 *           does not wait for. And filters are now a, pixels b: a has 64 rows, b any multiple of 8 up to 256. Filters are 64, 128, 256, ...; pixels are what the
 *           images make them, and the tile that gives every multiprocessor the same number of them is where the time is.
 * Launch:   and the kernel after this one may begin while it ends (programmatic dependent launch): its blocks take multiprocessors as they fall free, set up barriers
 *           and work out their first tile; before the first load they wait until all that was launched before has ended and can be read. cuDNN's plans are
 *           launched so, too.
 * Order:    filters first, then pixels: blocks at work at the same time read the same windows.
 * Roles:    a consumer has 64 filters and all of the tile's pixels; where there are only 64 filters, both have these, and different pixels.
 * Change:   against 06e the loop over tiles, the swap of operands, the way out, the launch; and nothing divides any more: what one thread does before the first load all others
 *           wait for.
 * Expect:   (before anything ran, with clusters of two and pixels as a) of a step's 48 KiB 32 cross L2 for each block: 6.3 TB/s at 800 TFLOP/s, no limit. A tile's
 *           end costs its last products, and two barriers: 700 TFLOP/s, where the power allows.
 * Clusters: a cluster of two whose blocks send each other half of the filters (multicast) did not pay: docs/06_launch.md.
 * 1x1:      is the matrix product it looks like; its windows are pixels, and im2col brings them as fast as tiles (docs/gpu_hopper.md).
 * Passes:   fprop. Layout: NHWC, filters KRSC, fp16 with fp32 sums. Channels and filters: multiples of 8. No groups. */
#include "06_tensorcore_fp16/cost.h"
#include "06_tensorcore_fp16/divide.cuh"
#include "06_tensorcore_fp16/ring.cuh"
#include "common/harness/launch.h"

static constexpr int CONSUMERS = 2, BLOCK = (1 + CONSUMERS) * THREADS, MOST_STAGES = 8;

/* A place in the ring, and the parity of its round. */
typedef struct slot {
  int stage;
  unsigned parity;
} slot;

static __device__ __forceinline__ slot next_slot(slot s, int stages) { return s.stage + 1 < stages ? slot{s.stage + 1, s.parity} : slot{0, s.parity ^ 1}; }

/* How the pixels and filters are cut into tiles. */
typedef struct tile_cut {
  divisor tiles_k, row, image;                      /* by the tiles of filters; by Q; by P Q */
  int filters, filters_apart, pixels, pixels_apart; /* of a tile; from one consumer to the next */
  int tiles, steps, stages, stage /* bytes of a stage */;
} tile_cut;

/* Sums [64 filters][N pixels] as halves to shared memory, [pixel][64 filters], swizzled: what a store's box is. */
template <int N> static __device__ __forceinline__ void put_turned(const float (&sum)[N / 2], ptx_shared box) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4, chunk = 2 * warp + lane / 8 % 2; /* 8 filters are 16 bytes */
#pragma unroll
  for (int j = 0; j + 1 < N / 8; j += 2) { /* two times eight pixels, 16 filters */
    unsigned part[4];
#pragma unroll
    for (int i = 0; i < 4; i++) part[i] = two_halves(sum[4 * (j + i / 2) + 2 * (i % 2)], sum[4 * (j + i / 2) + 2 * (i % 2) + 1]);
    ptx_stmatrix_x4_trans(box + swizzled(8 * (j + lane / 16) + lane % 8, chunk), part);
  }
  if (N / 8 % 2 == 1) {
    constexpr int j = N / 8 - 1;
    unsigned part[2];
#pragma unroll
    for (int i = 0; i < 2; i++) part[i] = two_halves(sum[4 * j + 2 * i], sum[4 * j + 2 * i + 1]);
    ptx_stmatrix_x2_trans(box + swizzled(8 * j + lane % 8, chunk), part);
  }
}

/* N: pixels of a product. */
template <int N>
__global__ void __launch_bounds__(BLOCK, 1) persistent_kernel(conv_problem p, tile_cut t, const __grid_constant__ CUtensorMap windows,
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
  for (int i = blockIdx.x; i < t.tiles; i += gridDim.x) {
    float sum[1][N / 2];
    int before = 0;
    for (int step = 0; step < t.steps; step++, s = next_slot(s, t.stages)) {
      ptx_mbarrier_wait(r.full + 8 * s.stage, s.parity);
      if (step == 0) {
        multiply<true>(sum, a + s.stage * t.stage, b + s.stage * t.stage);
      } else {
        multiply<false>(sum, a + s.stage * t.stage, b + s.stage * t.stage);
        ptx_wgmma_wait<1>(); /* the step before is done */
        if (first_lane) ptx_mbarrier_arrive(r.empty + 8 * before);
      }
      before = s.stage;
    }
    ptx_wgmma_wait<0>();
    if (first_lane) ptx_mbarrier_arrive(r.empty + 8 * before);

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
  }
  if (stores) ptx_bulk_wait_read<0>(); /* shared memory may go; what is written is there when the grid ends */
}

/* ---------------------------------------------------------------- host */

typedef struct instance {
  int n;
  void (*kernel)(conv_problem p, tile_cut t, CUtensorMap windows, CUtensorMap filter_tiles, CUtensorMap results);
} instance;

#define ROW_OF(N) \
  { N, persistent_kernel<N> }
static const instance instances[] = {ROW_OF(64),  ROW_OF(80),  ROW_OF(96),  ROW_OF(112), ROW_OF(128),
                                     ROW_OF(144), ROW_OF(160), ROW_OF(176), ROW_OF(192), ROW_OF(208)};

typedef struct persistent_plan {
  CUtensorMap windows, filter_tiles, results;
  const instance *row;
  tile_cut cut;
  int blocks, shared;
} persistent_plan;

/* The problem cut into such tiles. */
static tile_cut cut_into(const conv_problem *p, persistent_tile tile, size_t most_shared) {
  tile_cut t = {};
  if (tile.beside) t.filters = WGMMA_M, t.pixels = CONSUMERS * tile.n, t.pixels_apart = tile.n;
  else t.filters = CONSUMERS * WGMMA_M, t.filters_apart = WGMMA_M, t.pixels = tile.n;
  const int tiles_k = (int)ceil_div(p->K, t.filters);
  t.tiles = (int)ceil_div(p->N * p->P * p->Q, t.pixels) * tiles_k;
  t.tiles_k = divisor_of(tiles_k), t.row = divisor_of(p->Q), t.image = divisor_of(p->P * p->Q);
  t.steps = p->R * p->S * (int)ceil_div(p->C, BK), t.stage = (t.filters + t.pixels) * ROW;
  t.stages = ((int)most_shared - 1024 - CONSUMERS * tile.n * ROW) / t.stage;
  if (t.stages > MOST_STAGES) t.stages = MOST_STAGES;
  return t;
}

static const char *plan_fprop(const conv_operation *o, const conv_device *device, conv_plan *plan) {
  const conv_problem *p = &o->problem;
  if (device->arch / 10 != 9) return "wgmma: only compute capability 9.0 has it";
  if (p->groups > 1) return "groups";
  if (p->C % CHUNK != 0 || p->K % CHUNK != 0) return "C or K is no multiple of 8";
  const char *why = plain_unsupported(p, device);
  if (why) return why;
  persistent_plan *mine = plan_data<persistent_plan>(plan);
  const int64_t pixels = (int64_t)p->N * p->P * p->Q;
  persistent_tile tile = {};
  best_persistent(p, device->sm_count, &tile);
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
  const persistent_plan *mine = plan_data<persistent_plan>(plan);
  CUtensorMap windows, filter_tiles, results;
  cudaError_t status = map_at(&windows, &mine->windows, b->x);
  if (!status) status = map_at(&filter_tiles, &mine->filter_tiles, b->w);
  if (!status) status = map_at(&results, &mine->results, b->y);
  if (status) return status;
  return launch_kernel({.grid = dim3(mine->blocks), .block = dim3(BLOCK), .shared = (size_t)mine->shared, .stream = stream, .early = true}, mine->row->kernel,
                       plan->operation.problem, mine->cut, windows, filter_tiles, results);
}

NHWC_ROW(persistent_fprop, "06f", "blocks that stay, stores under the next tile, tiles that fill the rounds", PASS_FPROP, 90, plan_fprop, launch_fprop,
         growth_steps);
