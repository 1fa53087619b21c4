/* 06g: the window slides, the data stay: a tap is the same tile under a moved descriptor.
 *
 * Terms:    halo tile, implicit im2col in shared memory, descriptor arithmetic, weight-stationary.
 * Idea:     06d to 06f fetch every pixel once for each tap. But in shared memory, pixels as rows of 64 channels, the pixels of tap (r, s) are those of tap (0, 0)
 *           r * pitch + s rows further on: the same matrix from another row. A swizzle is a matter of addresses, not of where a matrix begins, so a descriptor may
 *           begin at any row. One tiled load brings a tile with its halo, padding as zeros, and all taps are multiplied from there; all filters stay in shared
 *           memory for good. Columns that lie between the rows of the tile are computed, too, and dropped by the store, whose box reaches past the image there.
 * Roles:    as in 06f filters are a, [64][64] a tap, and pixels b: with 64 filters as b the tensor cores would wait for shared memory. A barrier for each tap's
 *           filters: the first tile begins when the first tap's are there.
 * Change:   against 06f the window; two consumers have a tile each, and results go out from the very stage that they were computed from. Up to 48 channels have fewer
 *           products a tap (FEW).
 * Expect:   each pixel crosses L2 1.5 times instead of 9; 36 products of 64 x 232 x 16 for 4 rows of 56 pixels, of which 3.4 % are dropped: 730 TFLOP/s on 64
 *           channels and 64 filters.
 * Passes:   fprop; dgrad as 06j (TURNED). Layout: NHWC, filters KRSC, fp16 with fp32 sums. C and K: multiples of 8 up to 64. Stride 1, no groups; rows of the
 *           result up to 256 with their halo. */
#include <math.h>

#include "03_shared_tiling/turned.h"
#include "06_tensorcore_fp16/tiles.cuh"
#include "common/harness/launch.h"

static constexpr int CONSUMERS = 2, BLOCK = (1 + CONSUMERS) * THREADS, TAP = WGMMA_M * ROW /* bytes of a tap's filters */, MOST_STAGES = 4, MOST_N = 256;
static constexpr int MOST_TAPS = 32;

/* A tile of y: `rows` rows of one image, or `images` whole ones; its halo tile has `pitch` columns and `halo` rows an image. */
typedef struct window_cut {
  divisor by_p;                                        /* by the tiles of an image */
  int rows, images, pitch, halo, tiles, stages, stage; /* stage: bytes */
} window_cut;

/* As multiply(), of so many channels as there are, and no more. FEW: up to 48. */
template <bool FIRST, bool TURNED, bool FEW, int SUMS>
static __device__ __forceinline__ void multiply_tap(float (&sum)[1][SUMS], ptx_shared filters, ptx_shared pixels, int channels) {
  if (!FEW) multiply<FIRST, TURNED, 64>(sum, filters, pixels);
  else if (channels > 32) multiply<FIRST, TURNED, 48>(sum, filters, pixels);
  else if (channels > 16) multiply<FIRST, TURNED, 32>(sum, filters, pixels);
  else multiply<FIRST, TURNED, 16>(sum, filters, pixels);
}

/* All taps of a tile. waits: filters may be on their way. */
template <bool TURNED, bool FEW, int SUMS>
static __device__ __forceinline__ void multiply_taps(float (&sum)[1][SUMS], const conv_problem &p, int pitch, ptx_shared filters, ptx_shared pixels,
                                                     ptx_shared filters_there, bool waits) {
  multiply_tap<true, TURNED, FEW>(sum, filters, pixels, p.C);
  int column = 1, at = 0; /* of the tap: its column, and where its pixels begin */
  for (int tap = 1; tap < p.R * p.S; tap++, column++) {
    at += p.dil_w;
    if (column == p.S) column = 0, at += p.dil_h * pitch - p.S * p.dil_w;
    if (waits) ptx_mbarrier_wait(filters_there + 8 * tap, 0);
    multiply_tap<false, TURNED, FEW>(sum, filters + tap * TAP, pixels + at * ROW, p.C);
  }
}

/* N: pixels of a product, those between the rows included. */
template <int N, bool TURNED>
__global__ void __launch_bounds__(BLOCK, 1) window_kernel(conv_problem p, window_cut t, const __grid_constant__ CUtensorMap halos,
                                                          const __grid_constant__ CUtensorMap filter_tiles, const __grid_constant__ CUtensorMap results) {
  extern __shared__ __align__(1024) unsigned char shared[];
  __shared__ unsigned long long barriers[2 * MOST_STAGES + MOST_TAPS];
  const int taps = p.R * p.S, box = t.pitch * t.halo * t.images * ROW, role = uniform(threadIdx.x / THREADS);
  const ptx_shared filters = ptx_shared_address(shared), stages = filters + taps * TAP, filters_there = ptx_shared_address(barriers + 2 * MOST_STAGES);
  const ring r = {ptx_shared_address(barriers), ptx_shared_address(barriers + MOST_STAGES)};
  if (threadIdx.x == 0) {
    ptx_griddepcontrol_launch_dependents(); /* the next kernel may begin */
    ptx_prefetch_tensormap(&halos), ptx_prefetch_tensormap(&filter_tiles);
    for (int tap = 0; tap < taps; tap++) ptx_mbarrier_init(filters_there + 8 * tap, 1);
    ring_begin(r, t.stages, 1 + THREADS / 32); /* who multiplied it, and each warp of the other consumer */
  }

  if (role == 0) { /* the producer */
    __syncwarp();
    ptx_bar_arrive(1, BLOCK); /* barriers are there; who made them need not wait */
    ptx_setmaxnreg_dec<56>();
    if (threadIdx.x != 0) return;
    slot s = {0, 0};
    for (int i = blockIdx.x; i < t.tiles; i += gridDim.x, s = next_slot(s, t.stages)) {
      const int of_p = divide(i, t.by_p);
      if (i == (int)blockIdx.x) ptx_griddepcontrol_wait(); /* what the kernel before wrote is there */
      ptx_mbarrier_wait(r.empty + 8 * s.stage, s.parity ^ 1);
      ptx_mbarrier_arrive_expect_tx(r.full + 8 * s.stage, box);
      ptx_tensor_load(stages + s.stage * t.stage, &halos, {0, -p.pad_left, (i - of_p * t.by_p.by) * t.rows - p.pad_top, of_p * t.images}, r.full + 8 * s.stage);
      if (i == (int)blockIdx.x)
        for (int tap = 0; tap < taps; tap++) {
          ptx_mbarrier_arrive_expect_tx(filters_there + 8 * tap, TAP);
          ptx_tensor_load(filters + tap * TAP, &filter_tiles, {0, TURNED ? taps - 1 - tap : tap, 0}, filters_there + 8 * tap);
        }
    }
    return;
  }

  const int behind = (t.stage - box) / 16; /* what lies behind a box is read for columns that are dropped: any value would do, but none is no value */
  for (int stage = 0; stage < t.stages; stage++)
    for (int i = threadIdx.x - THREADS; i < behind; i += CONSUMERS * THREADS)
      *(uint4 *)(shared + taps * TAP + stage * t.stage + box + i * 16) = make_uint4(0, 0, 0, 0);
  ptx_fence_proxy_async();
  __syncwarp();           /* some lanes went round the loop once more */
  ptx_bar_sync(1, BLOCK); /* barriers and zeros are there */
  ptx_setmaxnreg_inc<224>();
  ptx_griddepcontrol_wait();
  const int me = role - 1; /* of the consumers */
  slot s = {0, 0};
  int turn = 0;
  for (int i = blockIdx.x; i < t.tiles; i += gridDim.x, turn++, s = next_slot(s, t.stages)) {
    const ptx_shared pixels = stages + s.stage * t.stage;
    ptx_mbarrier_wait(r.full + 8 * s.stage, s.parity); /* the other's tiles, too: who asks for a round's parity must know that the round before is over */
    if (turn % CONSUMERS != me) {
      __syncwarp(); /* all lanes do */
      if (threadIdx.x % 32 == 0) ptx_mbarrier_arrive(r.empty + 8 * s.stage);
      continue;
    }
    ptx_mbarrier_wait(filters_there, 0);
    float sum[1][N / 2];
    if (p.C > 48) multiply_taps<TURNED, false>(sum, p, t.pitch, filters, pixels, filters_there, turn < CONSUMERS);
    else multiply_taps<TURNED, true>(sum, p, t.pitch, filters, pixels, filters_there, turn < CONSUMERS);
    ptx_wgmma_wait<0>();
    ptx_bar_sync(2 + me, THREADS); /* nobody reads the pixels any more */
    put_turned<N>(sum[0], pixels);
    ptx_fence_proxy_async();
    ptx_bar_sync(2 + me, THREADS); /* the sums are there */
    if (threadIdx.x % THREADS == 0) {
      const int of_p = divide(i, t.by_p);
      ptx_tensor_store(&results, {0, 0, (i - of_p * t.by_p.by) * t.rows, of_p * t.images}, pixels);
      ptx_bulk_commit();
      ptx_bulk_wait_read<0>();
      ptx_mbarrier_arrive(r.empty + 8 * s.stage);
    }
  }
  if (threadIdx.x % THREADS == 0) ptx_bulk_wait_read<0>(); /* shared memory may go; what is written is there when the grid ends */
}

/* ---------------------------------------------------------------- host */

typedef struct instance {
  int n;
  void (*kernel[2])(conv_problem p, window_cut t, CUtensorMap halos, CUtensorMap filter_tiles, CUtensorMap results); /* as they lie, turned */
} instance;

/* The first that is enough. */
#define ROW_OF(N)                                          \
  {                                                        \
    N, { window_kernel<N, false>, window_kernel<N, true> } \
  }
static const instance instances[] = {ROW_OF(64),  ROW_OF(96),  ROW_OF(120), ROW_OF(128), ROW_OF(176),
                                     ROW_OF(192), ROW_OF(208), ROW_OF(232), ROW_OF(240), ROW_OF(256)};

static const instance *instance_for(int positions) {
  const instance *row = instances;
  while (row->n < positions) row++; /* there is one */
  return row;
}

typedef struct window_plan {
  CUtensorMap halos, filter_tiles, results;
  conv_problem problem; /* the convolution that the pass is */
  const instance *row;
  window_cut cut;
  int blocks, shared;
} window_plan;

/* Positions of a tile's outputs, from the first to the last, those between rows and images included. */
static int positions(const conv_problem *p, const window_cut *t) { return ((t->images - 1) * t->halo + t->rows - 1) * t->pitch + p->Q; }

/* The cut into tiles of `rows` rows, or of images if those are all; false: it fits into no product, or not twice into what shared memory is left. */
static bool try_cut(const conv_problem *p, int rows, int images, int64_t room, window_cut *t) {
  t->rows = rows, t->images = images, t->pitch = p->Q + (p->S - 1) * p->dil_w, t->halo = rows + (p->R - 1) * p->dil_h;
  if (t->halo > 256 || positions(p, t) > MOST_N) return false;
  /* A stage has room for the box, and for what the last tap reads from there. */
  const int box = t->pitch * t->halo * images, read = instance_for(positions(p, t))->n + (p->R - 1) * p->dil_h * t->pitch + (p->S - 1) * p->dil_w;
  t->stage = ((read > box ? read : box) + 7) / 8 * 8 * ROW;
  t->stages = room / t->stage < MOST_STAGES ? (int)(room / t->stage) : MOST_STAGES;
  t->by_p = divisor_of((p->P + rows - 1) / rows), t->tiles = t->by_p.by * ((p->N + images - 1) / images);
  return t->stages >= CONSUMERS;
}

/* The cut whose fullest multiprocessor has the least to do: products, and a little for each tile's beginning. */
static bool best_cut(const conv_problem *p, int64_t room, int sm_count, window_cut *best) {
  int64_t least = INT64_MAX;
  for (int parts = 1; parts <= p->P; parts++)
    for (int images = 1; images <= (parts == 1 ? p->N : 1); images++) {
      window_cut t;
      if (!try_cut(p, (p->P + parts - 1) / parts, images, room, &t)) break;
      const int64_t cost = (int64_t)((t.tiles + sm_count - 1) / sm_count) * (p->R * p->S * 2 * instance_for(positions(p, &t))->n + 300);
      if (cost < least) least = cost, *best = t;
    }
  return least < INT64_MAX;
}

static const char *plan_window(const conv_operation *o, const conv_device *device, conv_plan *plan) {
  const conv_problem *given = &o->problem;
  const bool turned = o->pass == PASS_DGRAD;
  if (device->arch / 10 != 9) return "wgmma: only compute capability 9.0 has it";
  if (given->groups > 1) return "groups";
  if (given->C % CHUNK != 0 || given->K % CHUNK != 0 || given->C > BK || given->K > WGMMA_M) return "C and K are no multiples of 8 up to 64";
  if (given->stride_h > 1 || given->stride_w > 1) return "a stride";
  const char *why = plain_unsupported(given, device);
  if (why) return why;
  window_plan *mine = plan_data<window_plan>(plan);
  const conv_problem *p = &mine->problem;
  mine->problem = turned_pass(o).p;
  if (p->Q > MOST_N || p->Q + (p->S - 1) * (int64_t)p->dil_w > 256 || (p->R - 1) * (int64_t)p->dil_h > 200)
    return "rows with their halo have more than 256 pixels";
  window_cut *t = &mine->cut;
  const int filters = p->R * p->S * TAP;
  if (p->R * p->S > MOST_TAPS || !best_cut(p, (int64_t)device->shared_per_block - 1024 - filters, device->sm_count, t))
    return "filters and two tiles do not fit in shared memory";
  mine->row = instance_for(positions(p, t));
  mine->shared = filters + t->stages * t->stage;
  mine->blocks = t->tiles < device->sm_count ? t->tiles : device->sm_count;
  const cuuint64_t x_size[4] = {(cuuint64_t)p->C, (cuuint64_t)p->W, (cuuint64_t)p->H, (cuuint64_t)p->N},
                   y_size[4] = {(cuuint64_t)p->K, (cuuint64_t)p->Q, (cuuint64_t)p->P, (cuuint64_t)p->N};
  const cuuint32_t x_box[4] = {BK, (cuuint32_t)t->pitch, (cuuint32_t)t->halo, (cuuint32_t)t->images},
                   y_box[4] = {WGMMA_M, (cuuint32_t)t->pitch, (cuuint32_t)(t->images > 1 ? t->halo : t->rows), (cuuint32_t)t->images};
  why = map_tiles(plan, &mine->halos, turned ? "dy" : "x", 4, x_size, x_box);
  if (!why) why = map_filters(plan, &mine->filter_tiles, given, WGMMA_M);
  if (!why) why = map_tiles(plan, &mine->results, turned ? "dx" : "y", 4, y_size, y_box);
  if (why) return why;
  snprintf(plan->words, sizeof plan->words, "%d image%s, %d row%s a tile: products of %d, %d stages, %d tiles", t->images, t->images == 1 ? "" : "s", t->rows,
           t->rows == 1 ? "" : "s", mine->row->n, t->stages, t->tiles);
  const cudaError_t status = plan_allow_shared((const void *)mine->row->kernel[turned], (size_t)mine->shared);
  return status ? plan_failed(plan, status) : NULL;
}

static cudaError_t launch_window(const conv_plan *plan, const conv_buffers *b, cudaStream_t stream) {
  const window_plan *mine = plan_data<window_plan>(plan);
  CUtensorMap halos, filter_tiles, results;
  const bool turned = plan->operation.pass == PASS_DGRAD;
  cudaError_t status = map_at(&halos, &mine->halos, turned ? b->y : b->x);
  if (!status) status = map_at(&filter_tiles, &mine->filter_tiles, b->w);
  if (!status) status = map_at(&results, &mine->results, turned ? b->x : b->y);
  if (status) return status;
  return launch_kernel({.grid = dim3(mine->blocks), .block = dim3(BLOCK), .shared = (size_t)mine->shared, .stream = stream, .early = true},
                       mine->row->kernel[turned], mine->problem, mine->cut, halos, filter_tiles, results);
}

static double growth_window_dgrad(const conv_problem *p, bool random) {
  const conv_problem turned = turned_dgrad(p).p;
  return growth_steps(&turned, random);
}

NHWC_ROW(resident_fprop, "06g", "a halo tile once, taps by moved descriptors, filters resident", PASS_FPROP, 90, plan_window, launch_window, growth_steps);
NHWC_ROW(resident_dgrad, "06g", "a halo tile once, taps by moved descriptors, filters resident", PASS_DGRAD, 90, plan_window, launch_window,
         growth_window_dgrad);
