/* 07b: an epilogue on the window that slides.
 *
 * Terms:    epilogue fusion, residual connection.
 * Idea:     07a's, in 06g: 64 channels and 3 x 3 is where most of ResNet's time at 56 x 56 goes. Results leave from the very stage that they were computed from; a
 *           residual needs a box of its own, and is replaced there.
 * Change:   against 06g put_any_finished for put_turned; with a residual a box for each consumer, and a stage less, or two. No shorter products for few channels.
 * Expect:   (before anything ran on a GPU) as 06g; with a residual its bytes more, where memory binds: 56 x 56 with 64 channels has 74 us of products for 256 images, 48 of bytes, and
 *           72 with a residual: nothing.
 * Passes:   fprop. Layout: NHWC, filters KRSC, fp16 with fp32 sums. C and K: multiples of 8 up to 64. Stride 1, no groups; rows up to 256 with their halo. */
#include <math.h>

#include "07_fusion/finish.cuh"
#include "07_fusion/window.cuh"
#include "common/harness/launch.h"

/* N: pixels of a product, those between the rows included. */
template <int N, bool SMOOTH>
__global__ void __launch_bounds__(BLOCK, 1) window_epilogue_kernel(conv_problem p, window_cut t, finish f, int box_bytes,
                                                                   const __grid_constant__ CUtensorMap halos, const __grid_constant__ CUtensorMap filter_tiles,
                                                                   const __grid_constant__ CUtensorMap residuals, const __grid_constant__ CUtensorMap results) {
  extern __shared__ __align__(1024) unsigned char shared[];
  __shared__ unsigned long long barriers[2 * MOST_STAGES + MOST_TAPS + 2 * CONSUMERS];
  const int taps = p.R * p.S, box = t.pitch * t.halo * t.images * ROW, role = uniform(threadIdx.x / THREADS);
  const int residual_bytes = t.pitch * (t.images > 1 ? t.halo : t.rows) * t.images * ROW;
  const ptx_shared filters = ptx_shared_address(shared), stages = filters + taps * TAP, filters_there = ptx_shared_address(barriers + 2 * MOST_STAGES);
  const ring r = {ptx_shared_address(barriers), ptx_shared_address(barriers + MOST_STAGES)};
  const ring boxes = {filters_there + 8 * MOST_TAPS, filters_there + 8 * (MOST_TAPS + CONSUMERS)}; /* of residuals: a consumer's each */
  if (threadIdx.x == 0) {
    ptx_griddepcontrol_launch_dependents(); /* the next kernel may begin */
    ptx_prefetch_tensormap(&halos), ptx_prefetch_tensormap(&filter_tiles);
    for (int tap = 0; tap < taps; tap++) ptx_mbarrier_init(filters_there + 8 * tap, 1);
    ring_begin(boxes, CONSUMERS, 1);
    ring_begin(r, t.stages, 1 + THREADS / 32); /* who multiplied it, and each warp of the other consumer */
  }

  if (role == 0) { /* the producers: of tiles and filters; of each consumer's residuals */
    const int warp = uniform(threadIdx.x / 32);
    __syncwarp();
    producers_begin(warp, BLOCK);
    ptx_setmaxnreg_dec<56>();
    if (threadIdx.x % 32 != 0 || warp > (f.residual ? CONSUMERS : 0)) return;
    ptx_griddepcontrol_wait(); /* what the kernel before wrote is there */
    slot s = {0, 0};
    int turn = 0;
    for (int i = blockIdx.x; i < t.tiles; i += gridDim.x, s = next_slot(s, t.stages), turn++) {
      const int of_p = divide(i, t.by_p), row = (i - of_p * t.by_p.by) * t.rows;
      if (warp > 0) {
        const int of_box = warp - 1;
        if (turn % CONSUMERS != of_box) continue;
        ptx_mbarrier_wait(boxes.empty + 8 * of_box, (turn / CONSUMERS & 1) ^ 1);
        ptx_mbarrier_arrive_expect_tx(boxes.full + 8 * of_box, residual_bytes);
        ptx_tensor_load(stages + t.stages * t.stage + of_box * box_bytes, &residuals, {0, 0, row, of_p * t.images}, boxes.full + 8 * of_box);
        continue;
      }
      ptx_mbarrier_wait(r.empty + 8 * s.stage, s.parity ^ 1);
      ptx_mbarrier_arrive_expect_tx(r.full + 8 * s.stage, box);
      ptx_tensor_load(stages + s.stage * t.stage, &halos, {0, -p.pad_left, row - p.pad_top, of_p * t.images}, r.full + 8 * s.stage);
      if (i == (int)blockIdx.x)
        for (int tap = 0; tap < taps; tap++) {
          ptx_mbarrier_arrive_expect_tx(filters_there + 8 * tap, TAP);
          ptx_tensor_load(filters + tap * TAP, &filter_tiles, {0, tap, 0}, filters_there + 8 * tap);
        }
    }
    return;
  }

  const int behind = (t.stage - box) / 16; /* what lies behind a box is read for columns that are dropped: any value would do, but none is no value */
  for (int stage = 0; stage < t.stages; stage++)
    for (int i = threadIdx.x - THREADS; i < behind; i += CONSUMERS * THREADS)
      *(uint4 *)(shared + taps * TAP + stage * t.stage + box + i * 16) = make_uint4(0, 0, 0, 0);
  for (int i = threadIdx.x - THREADS; f.residual && i < CONSUMERS * (box_bytes - residual_bytes) / 16; i += CONSUMERS * THREADS) {
    const int each = (box_bytes - residual_bytes) / 16, of_box = i / each;
    *(uint4 *)(shared + taps * TAP + t.stages * t.stage + of_box * box_bytes + residual_bytes + (i - of_box * each) * 16) = make_uint4(0, 0, 0, 0);
  }
  ptx_fence_proxy_async();
  __syncwarp();           /* some lanes went round the loop once more */
  ptx_bar_sync(1, BLOCK); /* barriers and zeros are there */
  ptx_setmaxnreg_inc<224>();
  ptx_griddepcontrol_wait();
  const int me = role - 1; /* of the consumers */
  const channel_pair c = channels_of(f, 0, p.K);
  slot s = {0, 0};
  int turn = 0;
  for (int i = blockIdx.x; i < t.tiles; i += gridDim.x, turn++, s = next_slot(s, t.stages)) {
    const ptx_shared pixels = stages + s.stage * t.stage, out = f.residual ? stages + t.stages * t.stage + me * box_bytes : pixels;
    ptx_mbarrier_wait(r.full + 8 * s.stage, s.parity); /* the other's tiles, too: who asks for a round's parity must know that the round before is over */
    if (turn % CONSUMERS != me) {
      __syncwarp(); /* all lanes do */
      if (threadIdx.x % 32 == 0) ptx_mbarrier_arrive(r.empty + 8 * s.stage);
      continue;
    }
    ptx_mbarrier_wait(filters_there, 0);
    float sum[1][N / 2];
    multiply<true>(sum, filters, pixels);
    int column = 1, at = 0; /* of the tap: its column, and where its pixels begin */
    for (int tap = 1; tap < taps; tap++, column++) {
      at += p.dil_w;
      if (column == p.S) column = 0, at += p.dil_h * t.pitch - p.S * p.dil_w;
      if (turn < CONSUMERS) ptx_mbarrier_wait(filters_there + 8 * tap, 0);
      multiply<false>(sum, filters + tap * TAP, pixels + at * ROW);
    }
    ptx_wgmma_wait<0>();
    if (f.residual) ptx_mbarrier_wait(boxes.full + 8 * me, turn / CONSUMERS & 1);
    ptx_bar_sync(2 + me, THREADS); /* nobody reads the pixels any more */
    put_any_finished<N, SMOOTH>(sum[0], c, f, out);
    ptx_fence_proxy_async();
    ptx_bar_sync(2 + me, THREADS); /* the sums are there */
    if (threadIdx.x % THREADS == 0) {
      const int of_p = divide(i, t.by_p);
      if (f.residual) ptx_mbarrier_arrive(r.empty + 8 * s.stage); /* the pixels may go while the results do */
      ptx_tensor_store(&results, {0, 0, (i - of_p * t.by_p.by) * t.rows, of_p * t.images}, out);
      ptx_bulk_commit();
      ptx_bulk_wait_read<0>();
      ptx_mbarrier_arrive(f.residual ? boxes.empty + 8 * me : r.empty + 8 * s.stage);
    }
  }
  if (threadIdx.x % THREADS == 0) ptx_bulk_wait_read<0>(); /* shared memory may go; what is written is there when the grid ends */
}

/* ---------------------------------------------------------------- host */

typedef void window_function(conv_problem p, window_cut t, finish f, int box_bytes, CUtensorMap halos, CUtensorMap filter_tiles, CUtensorMap residuals,
                             CUtensorMap results);
/* Limits, smooth. */
#define ROW_OF(I) \
  { window_epilogue_kernel<products[I], false>, I == HALF || I == WHOLE ? window_epilogue_kernel<products[I == HALF ? HALF : WHOLE], true> : NULL }
static window_function *const instances[][2] = {ROW_OF(0), ROW_OF(1), ROW_OF(2), ROW_OF(3), ROW_OF(4), ROW_OF(5)};

typedef struct window_plan {
  CUtensorMap halos, filter_tiles, results;
  window_function *kernel;
  window_cut cut;
  int blocks, shared, box_bytes;
} window_plan;

static const char *plan_window(const conv_operation *o, const conv_device *device, conv_plan *plan) {
  const conv_problem *p = &o->problem;
  if (device->arch / 10 != 9) return "wgmma: only compute capability 9.0 has it";
  if (p->groups > 1) return "groups";
  if (p->C % CHUNK != 0 || p->K % CHUNK != 0 || p->C > BK || p->K > WGMMA_M) return "C and K are no multiples of 8 up to 64";
  if (p->stride_h > 1 || p->stride_w > 1) return "a stride";
  const char *why = plain_unsupported(p, device);
  if (why) return why;
  window_plan *mine = plan_data<window_plan>(plan);
  if (p->Q > MOST_N || p->Q + (p->S - 1) * (int64_t)p->dil_w > 256 || (p->R - 1) * (int64_t)p->dil_h > 200)
    return "rows with their halo have more than 256 pixels";
  window_cut *t = &mine->cut;
  const int filters = p->R * p->S * TAP, boxes = o->epilogue.residual ? CONSUMERS : 0;
  const bool smooth = is_smooth(o->epilogue.activation);
  if (p->R * p->S > MOST_TAPS || !best_cut(p, (int64_t)device->shared_per_block - 1024 - filters, boxes, smooth, device->sm_count, t))
    return "filters and two tiles do not fit in shared memory";
  mine->kernel = instances[product_number(positions(p, t), smooth)][smooth];
  mine->box_bytes = box_pixels(p, t, smooth) * ROW;
  mine->shared = filters + t->stages * t->stage + boxes * mine->box_bytes;
  mine->blocks = t->tiles < device->sm_count ? t->tiles : device->sm_count;
  const cuuint64_t x_size[4] = {(cuuint64_t)p->C, (cuuint64_t)p->W, (cuuint64_t)p->H, (cuuint64_t)p->N},
                   y_size[4] = {(cuuint64_t)p->K, (cuuint64_t)p->Q, (cuuint64_t)p->P, (cuuint64_t)p->N};
  const cuuint32_t x_box[4] = {BK, (cuuint32_t)t->pitch, (cuuint32_t)t->halo, (cuuint32_t)t->images},
                   y_box[4] = {WGMMA_M, (cuuint32_t)t->pitch, (cuuint32_t)(t->images > 1 ? t->halo : t->rows), (cuuint32_t)t->images};
  why = map_tiles(plan, &mine->halos, "x", 4, x_size, x_box);
  if (!why) why = map_filters(plan, &mine->filter_tiles, p, WGMMA_M);
  if (!why) why = map_tiles(plan, &mine->results, "y", 4, y_size, y_box);
  if (why) return why;
  snprintf(plan->words, sizeof plan->words, "%d image%s, %d row%s a tile: products of %d, %d stages, %d tiles", t->images, t->images == 1 ? "" : "s", t->rows,
           t->rows == 1 ? "" : "s", product_for(positions(p, t), smooth), t->stages, t->tiles);
  const cudaError_t status = plan_allow_shared((const void *)mine->kernel, (size_t)mine->shared);
  return status ? plan_failed(plan, status) : NULL;
}

static cudaError_t launch_window(const conv_plan *plan, const conv_buffers *b, cudaStream_t stream) {
  const window_plan *mine = plan_data<window_plan>(plan);
  const conv_epilogue *e = &plan->operation.epilogue;
  CUtensorMap halos, filter_tiles, residuals, results;
  cudaError_t status = map_at(&halos, &mine->halos, b->x);
  if (!status) status = map_at(&filter_tiles, &mine->filter_tiles, b->w);
  if (!status) status = map_at(&residuals, &mine->results, e->residual ? (void *)b->residual : b->y);
  if (!status) status = map_at(&results, &mine->results, b->y);
  if (status) return status;
  return launch_kernel({.grid = dim3(mine->blocks), .block = dim3(BLOCK), .shared = (size_t)mine->shared, .stream = stream, .early = true}, mine->kernel,
                       plan->operation.problem, mine->cut, finish_of(e, b->scale, b->bias), mine->box_bytes, halos, filter_tiles, residuals, results);
}

FINISHING_ROW(window_epilogue_fprop, "07b", "06g, and the epilogue before results leave", plan_window, launch_window, growth_steps);
