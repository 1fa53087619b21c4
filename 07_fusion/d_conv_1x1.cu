/* 07d: 3 x 3 and the 1 x 1 behind it: what lies between is the next product's operand.
 *
 * Terms:    back-to-back convolutions, operator fusion, producer-consumer locality.
 * Idea:     a tile's results leave 07b from shared memory, as [pixel][64 channels], swizzled: the very form in which a product wants its pixels. So they need not leave:
 *           a 1 x 1 convolution's window is its pixel, and the tile, finished and rounded, is multiplied with the next filters, 64 at a time, as often as there are 64. What is saved is a write and a read of 64 channels, and a launch; nothing is computed twice.
 *
 *               halo tile x 9 taps -> sums -> finish -> [pixel][64], `between` -> x 64 filters -> sums -> finish -> box -> y
 *                                                             \____________________ for each 64 of the second filters
 *
 * Roles:    07b's. Each consumer has two places of its own: for what lies between, and a box for results (and the residual that they will be added to). What lies between
 *           could stay in the stage, as 07b's results do; but then the stage is taken until the last of the second products, and the next halo tile comes late.
 * Pairs:    two pieces of 64 filters at a time: the second's products are made while the first's results are finished, in registers of their own, so a product has 120 pixels
 *           at most. And the last results go to where the operand lay, and need not wait for the box. Residuals are fetched to the L2 cache when their tile begins.
 * Change:   against 07b the second product and its filters, which stay in shared memory, too.
 * Expect:   (before anything ran on a GPU) ResNet-50, 56 x 56, 256 images, 64 channels to 64 to 256: 514 MB, 120 us, where two kernels need 80 and 120; with the residual 216 and 80.
 * Chain:    fprop, two operations: R x S with stride 1, up to 64 channels and filters; 1 x 1 with no stride, whose filters fit. Activations without exponentials.
 *           Layout: NHWC, filters KRSC, fp16 with fp32 sums; C and K: multiples of 8. */
#include <math.h>

#include "07_fusion/finish.cuh"
#include "07_fusion/window.cuh"
#include "common/harness/chain.h"
#include "common/harness/launch.h"
#include "common/ptx/prefetch.cuh"

static constexpr int PLACES = 2 * CONSUMERS;            /* a box for results, and what lies between: each consumer's */
static constexpr int MOST_PRODUCT = 120, INSTANCES = 2; /* two of a thread's sums at a time */

/* Where the results of `piece` go: into the box (0). The last one's, if it is the second of a pair, to where the operand lay (1): by then no product reads that any more. */
static __device__ __forceinline__ int place_of(int piece, int pieces) { return piece % 2 == 1 && piece == pieces - 1; }

/* A consumer's residuals, to where their results will lie; to the L2 cache as soon as their tile begins. */
static __device__ __forceinline__ void bring_residuals(const window_cut &t, int pieces, int me, ring of_place, ptx_shared boxes, int box_bytes,
                                                       int result_bytes, const CUtensorMap *residuals) {
  int turn = 0, count = 0; /* of its tiles; of residuals in the box */
  for (int i = blockIdx.x + me * gridDim.x; i < t.tiles; i += CONSUMERS * gridDim.x, turn++) {
    const int of_p = divide(i, t.by_p), row = (i - of_p * t.by_p.by) * t.rows;
    for (int piece = 1; piece < pieces; piece++) ptx_tensor_prefetch(residuals, {piece * WGMMA_M, 0, row, of_p * t.images});
    for (int piece = 0; piece < pieces; piece++) {
      const int place = place_of(piece, pieces), mine = place * CONSUMERS + me;
      ptx_mbarrier_wait(of_place.empty + 8 * mine, place ? turn & 1 : (count++ & 1) ^ 1); /* there is room in the box from the beginning */
      ptx_mbarrier_arrive_expect_tx(of_place.full + 8 * mine, result_bytes);
      ptx_tensor_load(boxes + mine * box_bytes, residuals, {piece * WGMMA_M, 0, row, of_p * t.images}, of_place.full + 8 * mine);
    }
  }
}

/* What lies behind boxes is read, and of no use; but it must not be NaN. By the consumers. */
static __device__ __forceinline__ void put_zeros(unsigned char *at, int from, int end) {
  for (int i = from + (threadIdx.x - THREADS) * 16; i < end; i += CONSUMERS * THREADS * 16) *(uint4 *)(at + i) = uint4();
}

/* N: pixels of a product, those between the rows included. */
template <int N>
__global__ void __launch_bounds__(BLOCK, 1)
    conv_1x1_kernel(conv_problem p, int second_k, window_cut t, finish first, finish second, int box_bytes, const __grid_constant__ CUtensorMap halos,
                    const __grid_constant__ CUtensorMap first_filters, const __grid_constant__ CUtensorMap second_filters,
                    const __grid_constant__ CUtensorMap residuals, const __grid_constant__ CUtensorMap results) {
  extern __shared__ __align__(1024) unsigned char shared[];
  __shared__ unsigned long long barriers[2 * MOST_STAGES + MOST_TAPS + 1 + 2 * PLACES];
  const int taps = p.R * p.S, pieces = (second_k + WGMMA_M - 1) / WGMMA_M, role = uniform(threadIdx.x / THREADS);
  const int halo_bytes = t.pitch * t.halo * t.images * ROW, result_bytes = t.pitch * (t.images > 1 ? t.halo : t.rows) * t.images * ROW;
  const int of_stages = (taps + pieces) * TAP, of_boxes = of_stages + t.stages * t.stage; /* and then of what lies between */
  const ptx_shared filters = ptx_shared_address(shared), next_filters = filters + taps * TAP, stages = filters + of_stages, boxes = filters + of_boxes;
  const ring r = {ptx_shared_address(barriers), ptx_shared_address(barriers + MOST_STAGES)};
  const ptx_shared filters_there = ptx_shared_address(barriers + 2 * MOST_STAGES), next_there = filters_there + 8 * MOST_TAPS;
  const ring of_place = {next_there + 8, next_there + 8 + 8 * PLACES}; /* [place][consumer]: a residual is there; there is room for one */
  if (threadIdx.x == 0) {
    ptx_griddepcontrol_launch_dependents(); /* the next kernel may begin */
    ptx_prefetch_tensormap(&halos), ptx_prefetch_tensormap(&first_filters), ptx_prefetch_tensormap(&second_filters);
    for (int tap = 0; tap < taps; tap++) ptx_mbarrier_init(filters_there + 8 * tap, 1);
    ptx_mbarrier_init(next_there, 1);
    ring_begin(of_place, PLACES, 1);
    ring_begin(r, t.stages, 1);
  }

  if (role == 0) { /* the producers: of tiles and filters; of each consumer's residuals */
    const int warp = uniform(threadIdx.x / 32);
    __syncwarp();
    producers_begin(warp, BLOCK);
    ptx_setmaxnreg_dec<56>();
    if (threadIdx.x % 32 != 0 || warp > (second.residual ? CONSUMERS : 0)) return;
    ptx_griddepcontrol_wait(); /* what the kernel before wrote is there */
    if (warp > 0) {
      bring_residuals(t, pieces, warp - 1, of_place, boxes, box_bytes, result_bytes, &residuals);
      return;
    }
    slot s = {0, 0};
    for (int i = blockIdx.x; i < t.tiles; i += gridDim.x, s = next_slot(s, t.stages)) {
      const int of_p = divide(i, t.by_p), row = (i - of_p * t.by_p.by) * t.rows;
      ptx_mbarrier_wait(r.empty + 8 * s.stage, s.parity ^ 1);
      ptx_mbarrier_arrive_expect_tx(r.full + 8 * s.stage, halo_bytes);
      ptx_tensor_load(stages + s.stage * t.stage, &halos, {0, -p.pad_left, row - p.pad_top, of_p * t.images}, r.full + 8 * s.stage);
      if (i > (int)blockIdx.x) continue;
      for (int tap = 0; tap < taps; tap++) {
        ptx_mbarrier_arrive_expect_tx(filters_there + 8 * tap, TAP);
        ptx_tensor_load(filters + tap * TAP, &first_filters, {0, tap, 0}, filters_there + 8 * tap);
      }
      ptx_mbarrier_arrive_expect_tx(next_there, pieces * TAP);
      for (int piece = 0; piece < pieces; piece++) ptx_tensor_load(next_filters + piece * TAP, &second_filters, {0, 0, piece * WGMMA_M}, next_there);
    }
    return;
  }

  for (int stage = 0; stage < t.stages; stage++) put_zeros(shared + of_stages + stage * t.stage, halo_bytes, t.stage);
  for (int box = 0; box < CONSUMERS && second.residual; box++) put_zeros(shared + of_boxes + box * box_bytes, result_bytes, box_bytes);
  ptx_fence_proxy_async();
  __syncwarp();           /* some lanes went round the loops once more */
  ptx_bar_sync(1, BLOCK); /* barriers and zeros are there */
  ptx_setmaxnreg_inc<224>();
  ptx_griddepcontrol_wait();
  const int me = role - 1; /* of the consumers */
  const bool stores = threadIdx.x % THREADS == 0;
  const ptx_shared between = boxes + (CONSUMERS + me) * box_bytes;
  const channel_pair narrow = channels_of(first, 0, p.K);
  slot s = {0, 0};
  int turn = 0, count = 0; /* of tiles; of residuals in the box */
  const auto put_piece = [&](float(&sum)[N / 2], int i, int piece) {
    const int place = place_of(piece, pieces), of_p = divide(i, t.by_p), row = (i - of_p * t.by_p.by) * t.rows;
    const bool frees = second.residual && place_of(piece + 1, pieces); /* the last residual may come to where the operand lies */
    const int mine = place * CONSUMERS + me;
    const ptx_shared to = boxes + mine * box_bytes;
    const channel_pair c = channels_of(second, piece * WGMMA_M, second_k);
    if (frees) ptx_wgmma_wait<0>();
    if (stores && place == 0) ptx_bulk_wait_read<0>(); /* the box is on its way no more */
    if (second.residual) ptx_mbarrier_wait(of_place.full + 8 * mine, place ? turn / CONSUMERS & 1 : count++ & 1);
    ptx_bar_sync(2 + me, THREADS);
    if (stores && frees) ptx_mbarrier_arrive(of_place.empty + 8 * (CONSUMERS + me));
    put_finished<N, false>(sum, c, second, to);
    ptx_fence_proxy_async();
    ptx_bar_sync(2 + me, THREADS); /* the results are there */
    if (!stores) return;
    ptx_tensor_store(&results, {piece * WGMMA_M, 0, row, of_p * t.images}, to);
    ptx_bulk_commit();
    if (!second.residual || frees) return;
    if (place) ptx_bulk_wait_read<1>(); /* the box, of the piece before */
    else ptx_bulk_wait_read<0>();
    ptx_mbarrier_arrive(of_place.empty + 8 * me);
  };
  for (int i = blockIdx.x; i < t.tiles; i += gridDim.x, turn++, s = next_slot(s, t.stages)) {
    if (turn % CONSUMERS != me) continue;
    const ptx_shared pixels = stages + s.stage * t.stage;
    ptx_mbarrier_wait(r.full + 8 * s.stage, s.parity);
    ptx_mbarrier_wait(filters_there, 0);
    float sum[2][1][N / 2]; /* of a pair of pieces */
    multiply<true>(sum[0], filters, pixels);
    int column = 1, at = 0; /* of the tap: its column, and where its pixels begin */
    for (int tap = 1; tap < taps; tap++, column++) {
      at += p.dil_w;
      if (column == p.S) column = 0, at += p.dil_h * t.pitch - p.S * p.dil_w;
      if (turn < CONSUMERS) ptx_mbarrier_wait(filters_there + 8 * tap, 0);
      multiply<false>(sum[0], filters + tap * TAP, pixels + at * ROW);
    }
    ptx_wgmma_wait<0>();
    if (stores) ptx_bulk_wait_read<0>(); /* the results before are on their way no more */
    ptx_bar_sync(2 + me, THREADS);
    if (stores) ptx_mbarrier_arrive(r.empty + 8 * s.stage); /* nobody reads the halo tile any more */
    put_results<N, false, false>(sum[0][0], narrow, first, between);
    ptx_fence_proxy_async();
    ptx_bar_sync(2 + me, THREADS); /* what lies between is there */
    ptx_mbarrier_wait(next_there, 0);
    for (int piece = 0; piece < pieces; piece += 2) { /* a pair: the second's products while the first's results are finished */
      const bool two = piece + 1 < pieces;
      multiply<true>(sum[0], next_filters + piece * TAP, between);
      multiply<true>(sum[1], next_filters + (piece + two) * TAP, between);
      ptx_wgmma_wait<1>();
      put_piece(sum[0][0], i, piece);
      ptx_wgmma_wait<0>();
      if (two) put_piece(sum[1][0], i, piece + 1);
    }
  }
  if (stores) ptx_bulk_wait_read<0>(); /* shared memory may go; what is written is there when the grid ends */
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
  if (a->kind != OPERATION_CONVOLUTION || b->kind != OPERATION_CONVOLUTION || a->epilogue.fp32 || b->epilogue.fp32) return "no two convolutions in fp16";
  if (is_smooth(a->epilogue.activation) || is_smooth(b->epilogue.activation)) return "an activation with an exponential";
  if (p->groups > 1 || q->groups > 1) return "groups";
  if (p->C % CHUNK != 0 || p->K % CHUNK != 0 || q->K % CHUNK != 0) return "C or K is no multiple of 8";
  if (p->C > BK || p->K > WGMMA_M) return "the first has more than 64 channels or filters";
  if (p->stride_h > 1 || p->stride_w > 1) return "a stride";
  if (q->R * q->S > 1 || q->stride_h > 1 || q->stride_w > 1 || q->P != p->P || q->Q != p->Q) return "the second is no plain 1x1";
  const char *why = plain_unsupported(p, device);
  if (!why) why = plain_unsupported(q, device);
  if (why) return why;
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
  return launch_kernel({.grid = dim3(mine->blocks), .block = dim3(BLOCK), .shared = (size_t)mine->shared, .stream = stream, .early = true}, mine->kernel,
                       mine->problem, mine->second_k, mine->cut, finish_of(&mine->first, a->scale, a->bias), finish_of(&mine->second, b->scale, b->bias),
                       mine->box_bytes, halos, first_filters, second_filters, residuals, results);
}

static void facts_chain(const conv_chain *chain, const conv_plan *plan, chain_facts *facts) {
  (void)chain;
  const chain_plan *mine = plan_data<chain_plan>(plan);
  *facts = {(const void *)mine->kernel, mine->blocks, BLOCK, mine->shared, mine->cut.tiles, 0};
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
