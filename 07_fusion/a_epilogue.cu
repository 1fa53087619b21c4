/* 07a: an epilogue: scale, bias, residual and activation before the result leaves.
 *
 * Terms:    epilogue fusion, batch-norm folding, residual connection.
 * Idea:     by itself an epilogue is a kernel that reads everything the convolution has just written, and writes it again: of a layer that memory binds it takes as long as
 *           the layer. In the convolution the sums are still in registers. Scale and bias are one number for a channel, and a thread has two channels: four
 *           registers. What has to be read is the residual alone, and it is read ahead, by the copy engine, while products are made.
 * Boxes:    the residual comes to the place that the result will leave from. A consumer has three such boxes: one is worked on and two fill; it leaves while the
 *           next tile is multiplied. Where a tile has a step or two and is mostly results, that is too short: a box may take a tile longer to leave, and only one fills.
 * Order:    06f takes all channels of a tap, then the next tap. Here all taps of 64 channels, then 64 channels more: two taps' windows overlap, so nearly all of a step's pixels have
 *           just been in L2. Then L2 need not fetch 256 bytes of a pixel for the 128 that a step reads.
 * Roles:    06f's, and a thread of a second warp of the producer's group that asks for residuals.
 * Change:   against 06f put_any_finished for put_turned; the boxes' ring; the steps' order.
 * Expect:   (before anything ran on a GPU) without residual nothing but some 100 clocks a tile, which the other consumer's products cover. With it the bytes: res2_expand of
 *           ResNet-50, 256 images: 103 MB of x, 411 of residual, 411 of y: 215 us; as two kernels 120 and 287.
 * Passes:   fprop. Layout: NHWC, filters KRSC, fp16 with fp32 sums. Channels and filters: multiples of 8. No groups. */
#include "06_tensorcore_fp16/cut.cuh"
#include "07_fusion/finish.cuh"
#include "common/harness/launch.h"

static constexpr int MOST_BOXES = 3;

/* The next step of the reduction: the next tap of these 64 channels; after the last one 64 channels more. */
static __device__ __forceinline__ place next_tap(const conv_problem &p, place at) {
  if (++at.s < p.S) return at;
  at.s = 0;
  if (++at.r < p.R) return at;
  at.r = 0, at.c += BK;
  return at;
}

/* The boxes of both consumers, one ring: [box][consumer]. */
typedef struct box_ring {
  int count; /* 1: no residuals */
  ptx_shared at, full, empty;
} box_ring;

/* The residuals' producer: for each tile what both consumers will add. */
template <int N> static __device__ __forceinline__ void load_residuals(const tile_cut &t, const CUtensorMap *residuals, const box_ring &boxes) {
  slot s = {0, 0};
  for (int i = blockIdx.x; i < t.tiles; i += gridDim.x, s = next_slot(s, boxes.count)) {
    const int of_k = divide(i, t.tiles_k), k = (i - of_k * t.tiles_k.by) * t.filters, pixel = of_k * t.pixels;
    for (int me = 0; me < CONSUMERS; me++) {
      const int box = s.stage * CONSUMERS + me;
      ptx_mbarrier_wait(boxes.empty + 8 * box, s.parity ^ 1);
      ptx_mbarrier_arrive_expect_tx(boxes.full + 8 * box, N * ROW);
      ptx_tensor_load(boxes.at + box * N * ROW, residuals, {k + me * t.filters_apart, pixel + me * t.pixels_apart}, boxes.full + 8 * box);
    }
  }
}

/* N: pixels of a product; LEAVING: boxes that may be on their way out while one is worked on, 0 or 1. */
template <int N, bool SMOOTH, int LEAVING>
__global__ void __launch_bounds__(BLOCK, 1) epilogue_kernel(conv_problem p, tile_cut t, finish f, int box_count, const __grid_constant__ CUtensorMap windows,
                                                            const __grid_constant__ CUtensorMap filter_tiles, const __grid_constant__ CUtensorMap residuals,
                                                            const __grid_constant__ CUtensorMap results) {
  extern __shared__ __align__(1024) unsigned char shared[];
  __shared__ unsigned long long barriers[2 * MOST_STAGES];
  __shared__ unsigned long long box_barriers[2 * MOST_BOXES * CONSUMERS];
  const ptx_shared stages = ptx_shared_address(shared);
  const ring r = {ptx_shared_address(barriers), ptx_shared_address(barriers + MOST_STAGES)};
  const box_ring boxes = {box_count, stages + t.stages * t.stage, ptx_shared_address(box_barriers), ptx_shared_address(box_barriers + MOST_BOXES * CONSUMERS)};
  const int role = uniform(threadIdx.x / THREADS);
  if (threadIdx.x == 0) {
    ptx_griddepcontrol_launch_dependents(); /* the next kernel may begin */
    ptx_prefetch_tensormap(&windows), ptx_prefetch_tensormap(&filter_tiles);
    ring_begin({boxes.full, boxes.empty}, MOST_BOXES * CONSUMERS, 1);
    ring_begin(r, t.stages, CONSUMERS * THREADS / 32);
  }

  if (role == 0) { /* the producers: of the steps, of the residuals */
    const int warp = uniform(threadIdx.x / 32);
    __syncwarp();
    producers_begin(warp, BLOCK);
    ptx_setmaxnreg_dec<56>();
    if (threadIdx.x % 32 != 0 || warp > 1) return;
    if (warp == 1) {
      ptx_griddepcontrol_wait();
      if (f.residual) load_residuals<N>(t, &residuals, boxes);
      return;
    }
    slot s = {0, 0};
    for (int i = blockIdx.x; i < t.tiles; i += gridDim.x) {
      const int of_k = divide(i, t.tiles_k), pixel = of_k * t.pixels, n = divide(pixel, t.image), of_image = pixel - n * t.image.by,
                row = divide(of_image, t.row);
      const tile from = {0, (i - of_k * t.tiles_k.by) * t.filters, (of_image - row * p.Q) * p.stride_w - p.pad_left, row * p.stride_h - p.pad_top, n};
      place at = {0, 0, 0};
      if (i == (int)blockIdx.x) ptx_griddepcontrol_wait(); /* what the kernel before wrote is there */
      for (int step = 0; step < t.steps; step++, at = next_tap(p, at), s = next_slot(s, t.stages)) {
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
  const ptx_shared a = stages + me * t.filters_apart * ROW, b = stages + (t.filters + me * t.pixels_apart) * ROW;
  const bool stores = threadIdx.x % THREADS == 0, first_lane = threadIdx.x % 32 == 0;
  slot s = {0, 0}, of_box = {0, 0};
  for (int i = blockIdx.x, box_before = -1, box_left = -1; i < t.tiles; i += gridDim.x, of_box = next_slot(of_box, boxes.count)) {
    const int of_k = divide(i, t.tiles_k), k = (i - of_k * t.tiles_k.by) * t.filters + me * t.filters_apart, of_mine = of_box.stage * CONSUMERS + me;
    const channel_pair c = channels_of(f, k, p.K); /* there when they are needed */
    const ptx_shared box = boxes.at + of_mine * N * ROW;
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

    if (stores) ptx_bulk_wait_read<LEAVING>(); /* the tile before has left, or the one before that */
    if (f.residual) {
      if (stores && box_left >= 0) ptx_mbarrier_arrive(boxes.empty + 8 * box_left);
      ptx_mbarrier_wait(boxes.full + 8 * of_mine, of_box.parity);
      box_left = LEAVING == 0 ? of_mine : box_before, box_before = of_mine;
    }
    ptx_bar_sync(2 + me, THREADS);
    put_any_finished<N, SMOOTH>(sum[0], c, f, box);
    ptx_fence_proxy_async();
    ptx_bar_sync(2 + me, THREADS); /* the box is there */
    if (stores) {
      if (k < p.K) ptx_tensor_store(&results, {k, of_k * t.pixels + me * t.pixels_apart}, box);
      ptx_bulk_commit();
    }
  }
  if (stores) ptx_bulk_wait_read<0>(); /* shared memory may go; what is written is there when the grid ends */
}

/* ---------------------------------------------------------------- host */

typedef struct instance {
  int n;
  void (*kernel[3])(conv_problem p, tile_cut t, finish f, int box_count, CUtensorMap windows, CUtensorMap filter_tiles, CUtensorMap residuals,
                    CUtensorMap results); /* limits; smooth; limits, a box on its way out */
} instance;

#define SOME(N, ALLOWED, ...) (ALLOWED) ? epilogue_kernel<(ALLOWED) ? N : 64, __VA_ARGS__> : NULL
#define ROW_OF(N)                                                                                   \
  {                                                                                                 \
    N, { epilogue_kernel<N, false, 0>, SOME(N, N % 64 == 0, true, 0), SOME(N, N <= 128, false, 1) } \
  }
static const instance instances[] = {ROW_OF(64),  ROW_OF(80),  ROW_OF(96),  ROW_OF(112), ROW_OF(128),
                                     ROW_OF(144), ROW_OF(160), ROW_OF(176), ROW_OF(192), ROW_OF(208)};

typedef struct epilogue_plan {
  CUtensorMap windows, filter_tiles, results;
  const instance *row;
  tile_cut cut;
  int blocks, shared, boxes, kernel;
} epilogue_plan;

/* The cheapest of 06f's tiles that leaves room for boxes of residuals beside two stages. With an exponential behind them, which is long code, there are fewer. */
static void choose_tile(const conv_problem *p, bool residual, bool smooth, const conv_device *device, epilogue_plan *mine) {
  persistent_tile tile = {};
  double least = INFINITY;
  for (int beside = 0; beside < 2; beside++)
    for (int n = 64; n <= (beside || residual ? 128 : 208); n += smooth ? 64 : 16) {
      const persistent_tile t = {n, beside == 1};
      const double clocks = clocks_of_persistent(p, device->sm_count, t, false);
      if (clocks < least) least = clocks, tile = t;
    }
  mine->row = instances + (tile.n - instances[0].n) / 16;
  mine->boxes = residual ? MOST_BOXES : 1;
  const int more = (mine->boxes - 1) * CONSUMERS * tile.n * ROW;
  mine->cut = cut_into(p, tile, device->shared_per_block - more);
  mine->shared = mine->cut.stages * mine->cut.stage + CONSUMERS * tile.n * ROW + more;
}

static const char *plan_epilogue(const conv_operation *o, const conv_device *device, conv_plan *plan) {
  const conv_problem *p = &o->problem;
  if (device->arch / 10 != 9) return "wgmma: only compute capability 9.0 has it";
  if (p->groups > 1) return "groups";
  if (p->C % CHUNK != 0 || p->K % CHUNK != 0) return "C or K is no multiple of 8";
  const char *why = plain_unsupported(p, device);
  if (why) return why;
  epilogue_plan *mine = plan_data<epilogue_plan>(plan);
  choose_tile(p, o->epilogue.residual, is_smooth(o->epilogue.activation), device, mine);
  const tile_cut *t = &mine->cut;
  mine->blocks = t->tiles < device->sm_count ? t->tiles : device->sm_count;
  mine->kernel = is_smooth(o->epilogue.activation) ? 1 : o->epilogue.residual && p->K > p->C && t->steps <= 2 && t->tiles >= 8 * mine->blocks ? 2 : 0;
  const bool taps = p->R * p->S > 1;
  why = map_windows(plan, &mine->windows, p, BK, t->pixels, taps ? CU_TENSOR_MAP_L2_PROMOTION_L2_128B : CU_TENSOR_MAP_L2_PROMOTION_L2_256B);
  if (!why) why = map_filters(plan, &mine->filter_tiles, p, t->filters);
  const cuuint64_t size[2] = {(cuuint64_t)p->K, (cuuint64_t)((int64_t)p->N * p->P * p->Q)};
  const cuuint32_t box[2] = {WGMMA_M, (cuuint32_t)mine->row->n};
  if (!why) why = map_tiles(plan, &mine->results, "y", 2, size, box);
  if (why) return why;
  snprintf(plan->words, sizeof plan->words, "%d filters x %d pixels, %d tile%s, %d blocks, %d stages", t->filters, t->pixels, t->tiles,
           t->tiles == 1 ? "" : "s", mine->blocks, t->stages);
  const cudaError_t status = plan_allow_shared((const void *)mine->row->kernel[mine->kernel], (size_t)mine->shared);
  return status ? plan_failed(plan, status) : NULL;
}

static cudaError_t launch_epilogue(const conv_plan *plan, const conv_buffers *b, cudaStream_t stream) {
  const epilogue_plan *mine = plan_data<epilogue_plan>(plan);
  const conv_epilogue *e = &plan->operation.epilogue;
  CUtensorMap windows, filter_tiles, residuals, results;
  cudaError_t status = map_at(&windows, &mine->windows, b->x);
  if (!status) status = map_at(&filter_tiles, &mine->filter_tiles, b->w);
  if (!status) status = map_at(&residuals, &mine->results, e->residual ? (void *)b->residual : b->y);
  if (!status) status = map_at(&results, &mine->results, b->y);
  if (status) return status;
  return launch_kernel({.grid = dim3(mine->blocks), .block = dim3(BLOCK), .shared = (size_t)mine->shared, .stream = stream, .early = true},
                       mine->row->kernel[mine->kernel], plan->operation.problem, mine->cut, finish_of(e, b->scale, b->bias), mine->boxes, windows, filter_tiles,
                       residuals, results);
}

FINISHING_ROW(epilogue_fprop, "07a", "06f, and the epilogue before results leave", plan_epilogue, launch_epilogue, growth_steps);
