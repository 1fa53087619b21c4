/* 06j: the gradient of the image: 06f over dy, with filters read as they lie.
 *
 * Terms:    data gradient (dgrad), transposed operand, K-major and MN-major, atom.
 * Idea:     with stride 1, dx is a convolution of dy: C and K exchanged, filters turned by 180 degrees, and dil (R - 1) - pad for padding (03_shared_tiling/turned.h).
 *           Windows of dy come by im2col as x's do, and filters turn by counting their taps backwards. But now the reduction runs over filters, and in
 *           w [K][R][S][C] channels are neighbours: a row of a, all filters of one channel, is spread over memory. Nobody gathers it. A box of 64 channels of
 *           a tap, of 64 filters, is a's transpose, and wgmma takes operands this way round: a bit of the instruction says that a lies M-major.
 *
 *                                        in 06f: a box [filter][channel] is a            here: a box [filter][channel] is a transposed
 *             a row of 128 bytes         a row of a, 64 of the reduction                 64 rows of a, one of the reduction
 *             8 rows, 1024 bytes         8 rows; SBO to the next 8                       an atom: 8 of the reduction; SBO to the next 8
 *             the next 16 to reduce      32 bytes further                                16 rows, 2048 bytes further
 *
 * Roles:    as in 06f, channels of dx for filters. A swizzle ends at 128 bytes, which are 64 channels: each consumer with channels of its own has a box of its own.
 * Bias:     of a transposed convolution, added to the sums before they are rounded; NULL: none.
 * Turns:    three boxes a step where 06f has two, and with few pixels a step is short: one thread asks too slowly (docs/06_training.md). So four warps take turns,
 *           each asks for every fourth step.
 * Change:   against 06f a stage's boxes, the descriptors of a, the order of taps, the four producers.
 * Expect:   (before anything was timed) what 06f takes forward for a layer with C and K exchanged, within 3 %: as many products, as many bytes, one copy more a step where
 *           consumers have channels of their own. If the tensor cores read a transposed operand at a lower rate, it shows where products decide, in large layers.
 * Passes:   dgrad. Layout: NHWC, filters KRSC, fp16 with fp32 sums. Channels and filters: multiples of 8. Stride 1, no groups. */
#include "03_shared_tiling/turned.h"
#include "06_tensorcore_fp16/bias.cuh"
#include "06_tensorcore_fp16/cut.cuh"
#include "common/harness/launch.h"

/* Below, p is the convolution that dgrad is, in fprop's letters: its image is dy, so its channels c are w's filters; its result is dx, so its filters k are w's
 * channels. */

/* N: pixels of a product. */
template <int N>
__global__ void __launch_bounds__(BLOCK, 1)
    persistent_dgrad_kernel(conv_problem p, tile_cut t, const __grid_constant__ CUtensorMap windows, const __grid_constant__ CUtensorMap filter_tiles,
                            const __grid_constant__ CUtensorMap results, const float *bias) {
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

  if (role == 0) { /* the producers, in turns */
    __syncwarp();
    int turn = uniform(threadIdx.x / 32); /* steps until this warp's next */
    producers_begin(turn, BLOCK);
    ptx_setmaxnreg_dec<56>();
    if (threadIdx.x % 32 != 0) return;
    slot s = {0, 0};
    for (int i = blockIdx.x; i < t.tiles; i += gridDim.x) {
      const int of_k = divide(i, t.tiles_k), pixel = of_k * t.pixels, n = divide(pixel, t.image), of_image = pixel - n * t.image.by,
                row = divide(of_image, t.row);
      const tile from = {0, (i - of_k * t.tiles_k.by) * t.filters, of_image - row * p.Q - p.pad_left, row - p.pad_top, n};
      place at = {0, 0, 0};
      if (i == (int)blockIdx.x) ptx_griddepcontrol_wait(); /* what the kernel before wrote is there */
      for (int step = 0; step < t.steps; step++, at = next_step(p, at, p.C), s = next_slot(s, t.stages)) {
        if (!my_turn(&turn)) continue;
        ptx_mbarrier_wait(r.empty + 8 * s.stage, s.parity ^ 1);
        const ptx_shared filters = stages + s.stage * t.stage;
        load_step<true>(p, from, &windows, &filter_tiles, at, filters + t.filters * ROW, filters, t.stage, r.full + 8 * s.stage, t.filters);
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
    float2 of_rows = {};
    if (bias) of_rows = bias_of_rows(bias, (i - divide(i, t.tiles_k) * t.tiles_k.by) * t.filters + me * t.filters_apart, p.K); /* there when it is needed */
    int before = 0;
    for (int step = 0; step < t.steps; step++, s = next_slot(s, t.stages)) {
      ptx_mbarrier_wait(r.full + 8 * s.stage, s.parity);
      if (step == 0) {
        multiply<true, true>(sum, a + s.stage * t.stage, b + s.stage * t.stage);
      } else {
        multiply<false, true>(sum, a + s.stage * t.stage, b + s.stage * t.stage);
        ptx_wgmma_wait<1>(); /* the step before is done */
        if (first_lane) ptx_mbarrier_arrive(r.empty + 8 * before);
      }
      before = s.stage;
    }
    ptx_wgmma_wait<0>();
    if (first_lane) ptx_mbarrier_arrive(r.empty + 8 * before);
    if (bias) add_bias(sum[0], of_rows);

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

typedef void dgrad_kernel(conv_problem p, tile_cut t, CUtensorMap windows, CUtensorMap filter_tiles, CUtensorMap results, const float *bias);
typedef struct instance {
  int n;
  dgrad_kernel *kernel;
} instance;

#define ROW_OF(N) \
  { N, persistent_dgrad_kernel<N> }
static const instance instances[] = {ROW_OF(64),  ROW_OF(80),  ROW_OF(96),  ROW_OF(112), ROW_OF(128),
                                     ROW_OF(144), ROW_OF(160), ROW_OF(176), ROW_OF(192), ROW_OF(208)};

typedef struct dgrad_plan {
  CUtensorMap windows, filter_tiles, results;
  conv_problem turned;
  dgrad_kernel *kernel;
  tile_cut cut;
  int blocks, shared;
} dgrad_plan;

static const char *plan_dgrad(const conv_operation *o, const conv_device *device, conv_plan *plan) {
  const conv_problem *given = &o->problem;
  if (device->arch / 10 != 9) return "wgmma: only compute capability 9.0 has it";
  if (given->groups > 1) return "groups";
  if (given->stride_h != 1 || given->stride_w != 1) return "a stride";
  if (given->C % CHUNK != 0 || given->K % CHUNK != 0) return "C or K is no multiple of 8";
  const char *why = plain_unsupported(given, device);
  if (why) return why;
  dgrad_plan *mine = plan_data<dgrad_plan>(plan);
  const conv_problem *p = &mine->turned;
  mine->turned = turned_dgrad(given).p;
  if (p->pad_top < -127 || p->pad_left < -127) return "windows of dy begin more than 127 pixels inside (tensor maps)";
  persistent_tile tile = {};
  best_persistent(p, device->sm_count, &tile);
  mine->kernel = instances[(tile.n - instances[0].n) / 16].kernel;
  mine->cut = cut_into(p, tile, device->shared_per_block);
  const tile_cut *t = &mine->cut;
  mine->blocks = t->tiles < device->sm_count ? t->tiles : device->sm_count;
  mine->shared = t->stages * t->stage + CONSUMERS * tile.n * ROW;
  why = map_windows(plan, &mine->windows, p, BK, t->pixels);
  if (!why) why = map_filters(plan, &mine->filter_tiles, given, BK);
  const cuuint64_t size[2] = {(cuuint64_t)p->K, (cuuint64_t)p->N * p->P * p->Q};
  const cuuint32_t box[2] = {WGMMA_M, (cuuint32_t)tile.n};
  if (!why) why = map_tiles(plan, &mine->results, "dx", 2, size, box);
  if (why) return why;
  snprintf(plan->words, sizeof plan->words, "%d channels x %d pixels, %d tile%s, %d blocks, %d stages", t->filters, t->pixels, t->tiles,
           t->tiles == 1 ? "" : "s", mine->blocks, t->stages);
  const cudaError_t status = plan_allow_shared((const void *)mine->kernel, (size_t)mine->shared);
  return status ? plan_failed(plan, status) : NULL;
}

static cudaError_t launch_dgrad(const conv_plan *plan, const conv_buffers *b, cudaStream_t stream) {
  const dgrad_plan *mine = plan_data<dgrad_plan>(plan);
  CUtensorMap windows, filter_tiles, results;
  cudaError_t status = map_at(&windows, &mine->windows, b->y);
  if (!status) status = map_at(&filter_tiles, &mine->filter_tiles, b->w);
  if (!status) status = map_at(&results, &mine->results, b->x);
  if (status) return status;
  return launch_kernel({.grid = dim3(mine->blocks), .block = dim3(BLOCK), .shared = (size_t)mine->shared, .stream = stream, .early = true}, mine->kernel,
                       mine->turned, mine->cut, windows, filter_tiles, results, plan->operation.epilogue.bias ? b->bias : NULL);
}

static double growth_dgrad(const conv_problem *p, bool random) {
  const conv_problem turned = turned_dgrad(p).p;
  return growth_steps(&turned, random);
}

NHWC_FUSING_ROW(persistent_dgrad, "06j", "dgrad: 06f over dy, filters read transposed", PASS_DGRAD, 90, plan_dgrad, launch_dgrad, growth_dgrad, FUSES_BIAS);
