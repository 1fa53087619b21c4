/* 07d: 3 x 3 and the 1 x 1 behind it: what lies between is the next product's operand.
 *
 * Terms:    back-to-back convolutions, operator fusion, producer-consumer locality, warp specialization.
 * Idea:     a tile's results leave 07b from shared memory, as [pixel][64 channels], swizzled: the very form in which a product wants its pixels. So they need not leave:
 *           a 1 x 1 convolution's window is its pixel, and the tile, finished and rounded, is multiplied with the next filters, 64 at a time, as often as there are 64. What is saved is a write and a read of 64 channels, and a launch; nothing is computed twice.
 *
 *               halo tile x 9 taps -> sums -> finish -> [pixel][64], `between` -> x 64 filters -> sums -> finish -> box -> y
 *               \____ two warpgroups in turns: window ____/                      \__ two warpgroups: widen ______________/
 *
 * Roles:    two warpgroups for the 3 x 3, a tile each in turns, and two for the 1 x 1, every second 64 filters each. Each hands on and begins the next: tensor cores have products while
 *           results are finished, rounded and stored. Where one warpgroup did all of a tile, five ends of products followed one another, and a tile took twice its products' time.
 * Places:   two tiles between, and a box of each widener for results, and the residual that they will be added to; residuals are fetched to the L2 cache when their tile begins.
 * Change:   against 07b the second product and its filters, which stay in shared memory, too; roles by operation.
 * Expect:   (before this version ran) ResNet-50, 56 x 56, 64 channels to 64 to 256. A tile of two rows is 3120 clocks of products, 36 of 120 pixels and 16. With 256 images 54 tiles a
 *           multiprocessor, 99 us, but 514 MB, 120 us: 140 with what both lose. With 32 images 7 tiles, 11 us, and 5 to begin and end. With the residual 216 and 30 us of bytes.
 * Chain:    fprop, two operations: R x S with stride 1, up to 64 channels and filters; 1 x 1 with no stride, whose filters fit. Activations without exponentials.
 *           Layout: NHWC, filters KRSC, fp16 with fp32 sums; C and K: multiples of 8. */
#include <math.h>

#include "07_fusion/finish.cuh"
#include "07_fusion/then_1x1.h"
#include "07_fusion/window.cuh"
#include "common/harness/chain.h"
#include "common/harness/launch.h"
#include "common/ptx/prefetch.cuh"

static constexpr int WINDOWS = 2, WIDENERS = 2, ALL = (1 + WINDOWS + WIDENERS) * THREADS, BETWEEN = 2, PLACES = BETWEEN + WIDENERS, WARPS = THREADS / 32;
static constexpr int MOST_PRODUCT = 120, INSTANCES = 2; /* a thread's sums and their end in 112 registers */

/* Shared memory, and who hands on what. */
typedef struct places {
  ptx_shared filters, next_filters, stages, between, boxes, filters_there, next_there;
  ring halo, pixels, box; /* halo tiles; what lies between; of each widener: residuals, and room for results */
} places;

/* Of a tile: its image, or first one, and its first row. */
typedef struct tile_at {
  int n, row;
} tile_at;
static __device__ __forceinline__ tile_at tile_number(const window_cut &t, int i) {
  const int of_p = divide(i, t.by_p);
  return {of_p * t.images, (i - of_p * t.by_p.by) * t.rows};
}

/* The wideners take pieces of 64 filters in turns: of the block's tile number `turn` this one begins with ... */
static __device__ __forceinline__ int first_piece(int me, int turn, int pieces) { return (me + turn * pieces) % WIDENERS; }

/* Filters and halo tiles, by one thread. */
static __device__ __forceinline__ void bring_tiles(const conv_problem &p, const window_cut &t, const places &at, int pieces, int halo_bytes,
                                                   const CUtensorMap *halos, const CUtensorMap *first, const CUtensorMap *second) {
  slot s = {0, 0};
  for (int i = blockIdx.x; i < t.tiles; i += gridDim.x, s = next_slot(s, t.stages)) {
    const tile_at from = tile_number(t, i);
    ptx_mbarrier_wait(at.halo.empty + 8 * s.stage, s.parity ^ 1);
    ptx_mbarrier_arrive_expect_tx(at.halo.full + 8 * s.stage, halo_bytes);
    ptx_tensor_load(at.stages + s.stage * t.stage, halos, {0, -p.pad_left, from.row - p.pad_top, from.n}, at.halo.full + 8 * s.stage);
    if (i > (int)blockIdx.x) continue;
    for (int tap = 0; tap < p.R * p.S; tap++) {
      ptx_mbarrier_arrive_expect_tx(at.filters_there + 8 * tap, TAP);
      ptx_tensor_load(at.filters + tap * TAP, first, {0, tap, 0}, at.filters_there + 8 * tap);
    }
    ptx_mbarrier_arrive_expect_tx(at.next_there, pieces * TAP);
    for (int piece = 0; piece < pieces; piece++) ptx_tensor_load(at.next_filters + piece * TAP, second, {0, 0, piece * WGMMA_M}, at.next_there);
  }
}

/* A widener's residuals, to where their results will lie; to the L2 cache as soon as their tile begins. */
static __device__ __forceinline__ void bring_residuals(const window_cut &t, const places &at, int pieces, int me, int box_bytes, int result_bytes,
                                                       const CUtensorMap *residuals) {
  unsigned parity = 1; /* there is room in the box from the beginning */
  int turn = 0;
  for (int i = blockIdx.x; i < t.tiles; i += gridDim.x, turn++) {
    const tile_at from = tile_number(t, i);
    const int first = first_piece(me, turn, pieces);
    for (int piece = first + WIDENERS; piece < pieces; piece += WIDENERS) ptx_tensor_prefetch(residuals, {piece * WGMMA_M, 0, from.row, from.n});
    for (int piece = first; piece < pieces; piece += WIDENERS, parity ^= 1) {
      ptx_mbarrier_wait(at.box.empty + 8 * me, parity);
      ptx_mbarrier_arrive_expect_tx(at.box.full + 8 * me, result_bytes);
      ptx_tensor_load(at.boxes + me * box_bytes, residuals, {piece * WGMMA_M, 0, from.row, from.n}, at.box.full + 8 * me);
    }
  }
}

/* The first operation: a halo tile, finished, to `between`. */
template <int N>
static __device__ __forceinline__ void window_tiles(const conv_problem &p, const window_cut &t, const places &at, const finish &f, int me, int box_bytes) {
  const int taps = p.R * p.S;
  const bool tells = threadIdx.x % THREADS == 0, first_lane = threadIdx.x % 32 == 0;
  const channel_pair c = channels_of(f, 0, p.K);
  slot s = {0, 0}, to = {0, 0};
  int turn = 0;
  for (int i = blockIdx.x; i < t.tiles; i += gridDim.x, turn++, s = next_slot(s, t.stages), to = next_slot(to, BETWEEN)) {
    const ptx_shared pixels = at.stages + s.stage * t.stage;
    float sum[1][N / 2];
    ptx_mbarrier_wait(at.halo.full + 8 * s.stage, s.parity); /* the other's tiles, too: who asks for a round's parity must know that the round before is over */
    if (turn % WINDOWS != me) {
      __syncwarp(); /* all lanes do */
      if (first_lane) ptx_mbarrier_arrive(at.halo.empty + 8 * s.stage);
      continue;
    }
    ptx_mbarrier_wait(at.filters_there, 0);
    multiply<true>(sum, at.filters, pixels);
    int column = 1, tap_at = 0; /* of the tap: its column, and where its pixels begin */
    for (int tap = 1; tap < taps; tap++, column++) {
      tap_at += p.dil_w;
      if (column == p.S) column = 0, tap_at += p.dil_h * t.pitch - p.S * p.dil_w;
      if (turn < WINDOWS) ptx_mbarrier_wait(at.filters_there + 8 * tap, 0);
      multiply<false>(sum, at.filters + tap * TAP, pixels + tap_at * ROW);
    }
    ptx_mbarrier_wait(at.pixels.empty + 8 * to.stage, to.parity ^ 1);
    ptx_wgmma_wait<0>();
    if (first_lane) ptx_mbarrier_arrive(at.halo.empty + 8 * s.stage); /* this warp reads the halo tile no more */
    __syncwarp();
    put_any_finished<N, false>(sum[0], c, f, at.between + to.stage * box_bytes);
    ptx_fence_proxy_async();
    ptx_bar_sync(1 + me, THREADS);
    if (tells) ptx_mbarrier_arrive(at.pixels.full + 8 * to.stage); /* what lies between is there */
  }
}

/* The second: what lies between times 64 filters, as often as there are 64; every second of these. */
template <int N>
static __device__ __forceinline__ void widen_tiles(const window_cut &t, const places &at, const finish &f, int second_k, int me, int box_bytes,
                                                   const CUtensorMap *results) {
  const int pieces = (second_k + WGMMA_M - 1) / WGMMA_M;
  const bool stores = threadIdx.x % THREADS == 0, first_lane = threadIdx.x % 32 == 0;
  const ptx_shared box = at.boxes + me * box_bytes;
  slot s = {0, 0};
  unsigned parity = 0;
  int turn = 0;
  ptx_mbarrier_wait(at.next_there, 0);
  for (int i = blockIdx.x; i < t.tiles; i += gridDim.x, turn++, s = next_slot(s, BETWEEN)) {
    const tile_at to = tile_number(t, i);
    int piece = first_piece(me, turn, pieces);
    ptx_mbarrier_wait(at.pixels.full + 8 * s.stage, s.parity);
    if (piece >= pieces && first_lane) ptx_mbarrier_arrive(at.pixels.empty + 8 * s.stage); /* all of this tile is the other's */
    for (; piece < pieces; piece += WIDENERS, parity ^= 1) {
      const channel_pair c = channels_of(f, piece * WGMMA_M, second_k);
      float sum[1][N / 2];
      multiply<true>(sum, at.next_filters + piece * TAP, at.between + s.stage * box_bytes);
      if (stores) ptx_bulk_wait_read<0>(); /* the box is on its way no more */
      ptx_wgmma_wait<0>();
      if (first_lane && piece + WIDENERS >= pieces) ptx_mbarrier_arrive(at.pixels.empty + 8 * s.stage); /* this warp reads what lies between no more */
      if (f.residual) ptx_mbarrier_wait(at.box.full + 8 * me, parity);
      ptx_bar_sync(1 + WINDOWS + me, THREADS);
      put_any_finished<N, false>(sum[0], c, f, box);
      ptx_fence_proxy_async();
      ptx_bar_sync(1 + WINDOWS + me, THREADS); /* the box is there */
      if (stores) {
        ptx_tensor_store(results, {piece * WGMMA_M, 0, to.row, to.n}, box);
        ptx_bulk_commit();
        if (f.residual) ptx_bulk_wait_read<0>(), ptx_mbarrier_arrive(at.box.empty + 8 * me);
      }
      __syncwarp();
    }
  }
  if (stores) ptx_bulk_wait_read<0>(); /* shared memory may go; what is written is there when the grid ends */
}

/* What lies behind boxes is read for columns that are dropped: any value would do, but none is no value. */
static __device__ __forceinline__ void put_zeros(unsigned char *at, int from, int end) {
  for (int i = from + threadIdx.x * 16; i < end; i += ALL * 16) *(uint4 *)(at + i) = uint4();
}

/* N: pixels of a product, those between the rows included. */
template <int N>
__global__ void __launch_bounds__(ALL, 1)
    conv_1x1_kernel(conv_problem p, int second_k, window_cut t, finish first, finish second, int box_bytes, const __grid_constant__ CUtensorMap halos,
                    const __grid_constant__ CUtensorMap first_filters, const __grid_constant__ CUtensorMap second_filters,
                    const __grid_constant__ CUtensorMap residuals, const __grid_constant__ CUtensorMap results) {
  extern __shared__ __align__(1024) unsigned char shared[];
  __shared__ unsigned long long barriers[MOST_TAPS + 1 + 2 * (MOST_STAGES + BETWEEN + WIDENERS)];
  const int taps = p.R * p.S, pieces = (second_k + WGMMA_M - 1) / WGMMA_M, role = uniform(threadIdx.x / THREADS), warp = uniform(threadIdx.x / 32);
  const int halo_bytes = t.pitch * t.halo * t.images * ROW, result_bytes = t.pitch * (t.images > 1 ? t.halo : t.rows) * t.images * ROW;
  const int of_stages = (taps + pieces) * TAP, of_boxes = of_stages + t.stages * t.stage + BETWEEN * box_bytes;
  const ptx_shared filters = ptx_shared_address(shared), there = ptx_shared_address(barriers), of_halo = there + 8 * (MOST_TAPS + 1),
                   of_pixels = of_halo + 16 * MOST_STAGES, of_box = of_pixels + 16 * BETWEEN;
  const places at = {filters,
                     filters + taps * TAP,
                     filters + of_stages,
                     filters + of_boxes - BETWEEN * box_bytes,
                     filters + of_boxes,
                     there,
                     there + 8 * MOST_TAPS,
                     {of_halo, of_halo + 8 * MOST_STAGES},
                     {of_pixels, of_pixels + 8 * BETWEEN},
                     {of_box, of_box + 8 * WIDENERS}};
  if (threadIdx.x == 0) {
    ptx_griddepcontrol_launch_dependents(); /* the next kernel may begin */
    ptx_prefetch_tensormap(&halos), ptx_prefetch_tensormap(&first_filters), ptx_prefetch_tensormap(&second_filters);
    for (int tap = 0; tap < taps; tap++) ptx_mbarrier_init(at.filters_there + 8 * tap, 1);
    ptx_mbarrier_init(at.next_there, 1);
    ring_begin(at.pixels, BETWEEN, WIDENERS * WARPS), ring_begin(at.box, WIDENERS, 1), ring_begin(at.halo, t.stages, WINDOWS * WARPS);
  }
  for (int stage = 0; stage < t.stages; stage++) put_zeros(shared + of_stages + stage * t.stage, halo_bytes, t.stage);
  for (int box = 0; box < WIDENERS && second.residual; box++) put_zeros(shared + of_boxes + box * box_bytes, result_bytes, box_bytes);
  ptx_fence_proxy_async();
  __syncthreads();           /* barriers and zeros are there */
  ptx_griddepcontrol_wait(); /* what the kernel before wrote is there */

  if (role == 0) {
    ptx_setmaxnreg_dec<24>();
    if (threadIdx.x % 32 != 0) return;
    if (warp == 0) bring_tiles(p, t, at, pieces, halo_bytes, &halos, &first_filters, &second_filters);
    else if (warp <= WIDENERS && second.residual) bring_residuals(t, at, pieces, warp - 1, box_bytes, result_bytes, &residuals);
  } else if (role <= WINDOWS) {
    ptx_setmaxnreg_inc<112>();
    window_tiles<N>(p, t, at, first, role - 1, box_bytes);
  } else {
    ptx_setmaxnreg_inc<112>();
    widen_tiles<N>(t, at, second, second_k, role - 1 - WINDOWS, box_bytes, &results);
  }
}

/* ---------------------------------------------------------------- host */

typedef void chain_function(conv_problem p, int second_k, window_cut t, finish first, finish second, int box_bytes, CUtensorMap halos,
                            CUtensorMap first_filters, CUtensorMap second_filters, CUtensorMap residuals, CUtensorMap results);
static chain_function *const instances[INSTANCES] = {conv_1x1_kernel<products[0]>, conv_1x1_kernel<products[1]>};
static_assert(products[INSTANCES - 1] == MOST_PRODUCT);

typedef struct chain_plan {
  CUtensorMap halos, first_filters, second_filters, results;
  conv_problem problem; /* the first */
  conv_epilogue first, second;
  chain_function *kernel;
  window_cut cut;
  int second_k, blocks, shared, box_bytes;
} chain_plan;

static const char *plan_chain(const conv_chain *chain, const conv_device *device, conv_plan *plan) {
  const conv_operation *a = &chain->operation[0], *b = &chain->operation[1];
  const conv_problem *p = &a->problem, *q = &b->problem;
  if (device->arch / 10 != 9) return "wgmma: only compute capability 9.0 has it";
  const char *why = then_1x1_unsupported(a, b, device);
  if (why) return why;
  if (p->C > BK || p->K > WGMMA_M) return "the first has more than 64 channels or filters";
  if (p->stride_h > 1 || p->stride_w > 1) return "a stride";
  if (p->Q > MOST_PRODUCT || p->Q + (p->S - 1) * (int64_t)p->dil_w > 256 || (p->R - 1) * (int64_t)p->dil_h > 200)
    return "rows have more than 120 pixels, or 256 with their halo";
  chain_plan *mine = plan_data<chain_plan>(plan);
  window_cut *t = &mine->cut;
  const int64_t filters = ((int64_t)p->R * p->S + (q->K + WGMMA_M - 1) / WGMMA_M) * TAP;
  if (p->R * p->S > MOST_TAPS || !best_cut(p, (int64_t)device->shared_per_block - 1024 - filters, PLACES, false, device->sm_count, t, MOST_PRODUCT))
    return "filters and two tiles do not fit in shared memory";
  mine->problem = *p, mine->second_k = q->K, mine->first = a->epilogue, mine->second = b->epilogue;
  const int i = product_number(positions(p, t), false);
  mine->kernel = instances[i];
  mine->box_bytes = box_pixels(p, t, false) * ROW;
  mine->shared = (int)filters + t->stages * t->stage + PLACES * mine->box_bytes;
  mine->blocks = t->tiles < device->sm_count ? t->tiles : device->sm_count;
  const cuuint64_t x_size[4] = {(cuuint64_t)p->C, (cuuint64_t)p->W, (cuuint64_t)p->H, (cuuint64_t)p->N},
                   y_size[4] = {(cuuint64_t)q->K, (cuuint64_t)q->Q, (cuuint64_t)q->P, (cuuint64_t)q->N};
  const cuuint32_t x_box[4] = {BK, (cuuint32_t)t->pitch, (cuuint32_t)t->halo, (cuuint32_t)t->images},
                   y_box[4] = {WGMMA_M, (cuuint32_t)t->pitch, (cuuint32_t)(t->images > 1 ? t->halo : t->rows), (cuuint32_t)t->images};
  why = map_tiles(plan, &mine->halos, "x", 4, x_size, x_box);
  if (!why) why = map_filters(plan, &mine->first_filters, p, WGMMA_M);
  if (!why) why = map_filters(plan, &mine->second_filters, q, WGMMA_M);
  if (!why) why = map_tiles(plan, &mine->results, "y", 4, y_size, y_box);
  if (why) return why;
  snprintf(plan->words, sizeof plan->words, "%d image%s, %d row%s a tile: products of %d, %d stages, %d tiles", t->images, t->images == 1 ? "" : "s", t->rows,
           t->rows == 1 ? "" : "s", products[i], t->stages, t->tiles);
  const cudaError_t status = plan_allow_shared((const void *)mine->kernel, (size_t)mine->shared);
  return status ? plan_failed(plan, status) : NULL;
}

static cudaError_t launch_chain(const conv_plan *plan, const conv_buffers *each, cudaStream_t stream) {
  const chain_plan *mine = plan_data<chain_plan>(plan);
  const conv_buffers *a = &each[0], *b = &each[1];
  CUtensorMap halos, first_filters, second_filters, residuals, results;
  cudaError_t status = map_at(&halos, &mine->halos, a->x);
  if (!status) status = map_at(&first_filters, &mine->first_filters, a->w);
  if (!status) status = map_at(&second_filters, &mine->second_filters, b->w);
  if (!status) status = map_at(&residuals, &mine->results, mine->second.residual ? (void *)b->residual : b->y);
  if (!status) status = map_at(&results, &mine->results, b->y);
  if (status) return status;
  return launch_kernel({.grid = dim3(mine->blocks), .block = dim3(ALL), .shared = (size_t)mine->shared, .stream = stream, .early = true}, mine->kernel,
                       mine->problem, mine->second_k, mine->cut, finish_of(&mine->first, a->scale, a->bias), finish_of(&mine->second, b->scale, b->bias),
                       mine->box_bytes, halos, first_filters, second_filters, residuals, results);
}

static void facts_chain(const conv_chain *chain, const conv_plan *plan, chain_facts *facts) {
  const chain_plan *mine = plan_data<chain_plan>(plan);
  const conv_problem *p = &chain->operation[0].problem;
  const int pieces = (mine->second_k + WGMMA_M - 1) / WGMMA_M, rounds = (mine->cut.tiles + mine->blocks - 1) / mine->blocks;
  const int products = (p->R * p->S + pieces) * BK / 16 * product_for(positions(p, &mine->cut), false) / 2; /* clocks */
  *facts = {(const void *)mine->kernel, mine->blocks, ALL, mine->shared, mine->cut.tiles, 0, rounds * (products + 400 + 300 * pieces) / 1900.0};
}

static double growth_chain(const conv_chain *chain, int index, bool random) { return growth_steps(&chain->operation[index].problem, random); }

extern "C" const chain_kernel conv_1x1_chain;
const chain_kernel conv_1x1_chain = {.name = "07d",
                                     .idea = "3x3, then 1x1 in the same kernel: what lies between is the next operand",
                                     .count = 2,
                                     .dtype = DTYPE_FP16,
                                     .layout = LAYOUT_NHWC,
                                     .min_arch = 90,
                                     .plan = plan_chain,
                                     .launch = launch_chain,
                                     .facts = facts_chain,
                                     .growth = growth_chain};
