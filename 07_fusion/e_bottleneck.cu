/* 07e: a bottleneck, 1 x 1, 3 x 3 and 1 x 1 with its shortcut: a warpgroup for each layer, rows handed on.
 *
 * Terms:    operator fusion, line buffer, warp specialization, software pipeline, register-resident filters.
 * Idea:     ResNet's block narrows 256 channels to 64, convolves these, and widens them to 256 again. Two rows of 64 channels are small, so a block walks down a strip of
 *           an image, as 07h does: its first warpgroup narrows two rows of x, the second convolves them with the two before, which were kept, the third widens what that gives.
 *           Nothing is computed twice but a step at a strip's begin, and of 1645 MB that three kernels move for 256 images 822 are left, x and y.
 *
 *               x, two rows -> reduce -> four rows of 64 channels, in turns -> 3 x 3 -> two rows of 64 -> expand -> + x -> y
 *
 * Filters:  of all three layers 136 KiB, too much beside the rows. Those of the 3 x 3 lie in registers, 144 of each thread of their warpgroup: as 07i's weights. They come by way of the boxes.
 * Residual: x again, three to four steps later: from L2, if it is still there (docs/07_chains.md).
 * Stages:   of wide rows two, though three fit: the sooner x is read, the farther behind is its second read, as a residual, and the less of it is in L2 still. Narrow rows are few bytes: six.
 * Change:   against 07d a layer more, ahead; rows that are kept for halo tiles.
 * Expect:   (before anything ran on a GPU) 56 x 56, 256 images. Bytes: 822 MB, 191 us. A step is 16 * 56 + 72 * 28 + 16 * 56 = 3800 clocks of products, which two rows' bytes outlast (6000).
 *           Blocks walk down 256 images, 29 steps each, in two rounds, 58 steps of 54.3: 205 us. Three kernels: 120 + 80 + 215; with 07d 120 + 215.
 * Chain:    fprop, three operations: 1 x 1; 3 x 3 with stride 1 and padding 1; 1 x 1. At most 64 channels between, rows of 14 to 56 pixels, filters of the 1 x 1 that fit.
 *           Activations without exponentials. Layout: NHWC, filters KRSC, fp16 with fp32 sums; channels: multiples of 8. */
#include <math.h>

#include "07_fusion/walk.cuh"
#include "common/harness/chain.h"
#include "common/harness/launch.h"

static constexpr int LAYERS = 3, BLOCK = (1 + LAYERS) * THREADS, BOXES = 4, MOST_STAGES = 6, WIDE = 56;

/* Shared memory, and who hands on what. */
typedef struct places {
  walk w;
  ptx_shared reduce, stages;
  ring x; /* 64 channels of two rows */
} places;

/* The copy engine's work: filters and x by one thread, residuals by another, a step behind. */
template <int N>
static __device__ __forceinline__ void ask(const strips &t, const places &at, int warp, bool residual, const CUtensorMap *x, const CUtensorMap *reduce,
                                           const CUtensorMap *expand, const CUtensorMap *residuals) {
  constexpr int BOX = ROWS * N * ROW;
  slot s = {0, 0};
  if (warp == 1 && residual) ask_residuals<N, 1, BOXES>(t, at.w, 0, residuals);
  if (warp == 1) return;
  ptx_mbarrier_arrive_expect_tx(at.w.filters_there, (t.chunks + t.pieces) * TAP);
  for (int i = 0; i < t.chunks; i++) ptx_tensor_load(at.reduce + i * TAP, reduce, {i * BK, 0, 0}, at.w.filters_there);
  for (int i = 0; i < t.pieces; i++) ptx_tensor_load(at.w.expand + i * TAP, expand, {0, 0, i * WGMMA_M}, at.w.filters_there);
  for (int i = blockIdx.x; i < t.count; i += gridDim.x) {
    const strip of = strip_at(t, i);
    for (int step = of.first - 1; step < of.end; step++)
      for (int c = 0; c < t.chunks; c++, s = next_slot(s, t.stages)) {
        ptx_mbarrier_wait(at.x.empty + 8 * s.stage, s.parity ^ 1);
        ptx_mbarrier_arrive_expect_tx(at.x.full + 8 * s.stage, BOX);
        ptx_tensor_load(at.stages + s.stage * BOX, x, {c * BK, 0, step * ROWS + 1, of.n}, at.x.full + 8 * s.stage);
      }
  }
}

/* The first layer: two rows of x, 64 channels at a time, to two narrow rows. Step s makes rows 2 s + 1 and 2 s + 2, which the second layer's step s lacks. */
template <int N> static __device__ __forceinline__ void reduce_rows(const strips &t, const places &at, const finish &f) {
  const channel_pair c = channels_of(f, 0, t.first_k);
  const bool tells = threadIdx.x % THREADS == 0, first_lane = threadIdx.x % 32 == 0;
  slot s = {0, 0}, to = {0, 0};
  ptx_mbarrier_wait(at.w.filters_there, 0);
  for (int i = blockIdx.x; i < t.count; i += gridDim.x) {
    const strip of = strip_at(t, i);
    for (int step = of.first - 1; step < of.end; step++, to = next_slot(to, KEPT)) {
      float sum[1][N];
      ptx_mbarrier_wait(at.x.full + 8 * s.stage, s.parity);
      multiply<true>(sum, at.reduce, at.stages + s.stage * ROWS * N * ROW);
      for (int chunk = 1; chunk < t.chunks; chunk++) {
        const int before = s.stage;
        s = next_slot(s, t.stages);
        ptx_mbarrier_wait(at.x.full + 8 * s.stage, s.parity);
        multiply<false>(sum, at.reduce + chunk * TAP, at.stages + s.stage * ROWS * N * ROW);
        ptx_wgmma_wait<1>();
        if (first_lane) ptx_mbarrier_arrive(at.x.empty + 8 * before);
      }
      ptx_wgmma_wait<0>();
      if (first_lane) ptx_mbarrier_arrive(at.x.empty + 8 * s.stage);
      __syncwarp();
      s = next_slot(s, t.stages);
      ptx_mbarrier_wait(at.w.rows.empty + 8 * to.stage, to.parity ^ 1);
      put_rows<N>(*(const float(*)[ROWS][N / 2]) & sum[0], c, f, at.w.kept + to.stage * pair_bytes(N), step * ROWS + 1, t);
      ptx_fence_proxy_async();
      ptx_bar_sync(2, THREADS);
      if (tells) ptx_mbarrier_arrive(at.w.rows.full + 8 * to.stage); /* the rows are there */
    }
  }
}

/* N: pixels of a row. */
template <int N>
__global__ void __launch_bounds__(BLOCK, 1)
    bottleneck_kernel(strips t, finish first, finish second, finish third, const __grid_constant__ CUtensorMap x, const __grid_constant__ CUtensorMap reduce,
                      const __grid_constant__ CUtensorMap windows, const __grid_constant__ CUtensorMap expand, const __grid_constant__ CUtensorMap residuals,
                      const __grid_constant__ CUtensorMap results) {
  extern __shared__ __align__(1024) unsigned char shared[];
  __shared__ unsigned long long barriers[2 * (MOST_STAGES + KEPT + BETWEEN + BOXES) + 3];
  const int role = uniform(threadIdx.x / THREADS), warp = uniform(threadIdx.x / 32);
  const ptx_shared of_x = ptx_shared_address(barriers), of_rows = of_x + 16 * MOST_STAGES, of_pixels = of_rows + 16 * KEPT, of_box = of_pixels + 16 * BETWEEN,
                   others = of_box + 16 * BOXES;
  const ptx_shared filters = ptx_shared_address(shared), kept = filters + (t.chunks + t.pieces) * TAP, between = kept + KEPT * pair_bytes(N);
  const walk w_at = {kept,       between,     filters + t.chunks * TAP,      between + BETWEEN * ROWS * N * ROW,   others,
                     others + 8, others + 16, {of_rows, of_rows + 8 * KEPT}, {of_pixels, of_pixels + 8 * BETWEEN}, {of_box, of_box + 8 * BOXES}};
  const places at = {w_at, filters, between + (BETWEEN + BOXES) * ROWS * N * ROW, {of_x, of_x + 8 * MOST_STAGES}};
  if (threadIdx.x == 0) {
    ptx_griddepcontrol_launch_dependents(); /* the next kernel may begin */
    ptx_prefetch_tensormap(&x), ptx_prefetch_tensormap(&reduce), ptx_prefetch_tensormap(&expand);
    ptx_mbarrier_init(at.w.filters_there, 1), ptx_mbarrier_init(at.w.room_full, 1), ptx_mbarrier_init(at.w.room_empty, 1);
    ring_begin(at.w.rows, KEPT, THREADS / 32), ring_begin(at.w.pixels, BETWEEN, THREADS / 32), ring_begin(at.w.box, BOXES, 1);
    ring_begin(at.x, t.stages, THREADS / 32);
  }
  for (int i = threadIdx.x; i < KEPT * pair_bytes(N) / 16; i += BLOCK) /* beside the rows is padding, and stays so */
    *(uint4 *)(shared + (t.chunks + t.pieces) * TAP + i * 16) = uint4();
  ptx_fence_proxy_async();
  __syncthreads();           /* barriers and zeros are there */
  ptx_griddepcontrol_wait(); /* what the kernel before wrote is there */

  if (role == 0) {
    ptx_setmaxnreg_dec<56>();
    if (threadIdx.x % 32 == 0 && warp < 2) ask<N>(t, at, warp, third.residual, &x, &reduce, &expand, &residuals);
  } else if (role == 1) {
    ptx_setmaxnreg_dec<104>();
    reduce_rows<N>(t, at, first);
  } else if (role == 2) {
    ptx_setmaxnreg_inc<240>();
    if (is_relu(second)) convolve_rows<N, KEPT, taps_taken(N, BOXES), RELU>(t, at.w, second, &windows);
    else convolve_rows<N, KEPT, taps_taken(N, BOXES), LIMITS>(t, at.w, second, &windows);
  } else {
    ptx_setmaxnreg_dec<112>();
    if (is_relu(third)) expand_rows<N, 1, BOXES, RELU>(t, at.w, third, 0, &results);
    else expand_rows<N, 1, BOXES, LIMITS>(t, at.w, third, 0, &results);
  }
}

/* ---------------------------------------------------------------- host */

typedef void bottleneck_function(strips t, finish first, finish second, finish third, CUtensorMap x, CUtensorMap reduce, CUtensorMap windows,
                                 CUtensorMap expand, CUtensorMap residuals, CUtensorMap results);
typedef struct instance {
  int n;
  bottleneck_function *kernel;
} instance;
#define ROW_OF(N) \
  { N, bottleneck_kernel<N> }
static const instance instances[] = {ROW_OF(16), ROW_OF(32), ROW_OF(WIDE)};

typedef struct bottleneck_plan {
  CUtensorMap x, reduce, windows, expand, results;
  conv_epilogue epilogue[LAYERS];
  strips cut;
  const instance *row;
  int blocks, shared;
} bottleneck_plan;

/* Why the three are no bottleneck that fits. */
static const char *refuse(const conv_chain *chain, const conv_device *device) {
  for (int i = 0; i < LAYERS; i++) {
    const char *why = rows_unsupported(&chain->operation[i], i == 1 ? 3 : 1, device);
    if (why) return why;
  }
  const conv_problem *p = &chain->operation[1].problem;
  if (p->C > BK || p->K > WGMMA_M) return "more than 64 channels between";
  if (p->W < 14) return "rows of less than 14 pixels: narrow products take as long as wide ones";
  return p->W > instances[sizeof instances / sizeof *instances - 1].n ? "rows of more than 56 pixels" : NULL;
}

static const char *plan_bottleneck(const conv_chain *chain, const conv_device *device, conv_plan *plan) {
  if (device->arch / 10 != 9) return "wgmma: only compute capability 9.0 has it";
  const char *why = refuse(chain, device);
  if (why) return why;
  const conv_problem *a = &chain->operation[0].problem, *b = &chain->operation[1].problem, *c = &chain->operation[2].problem;
  bottleneck_plan *mine = plan_data<bottleneck_plan>(plan);
  mine->row = instances;
  while (mine->row->n < a->W) mine->row++;
  strips *t = &mine->cut;
  const int n = mine->row->n, box = ROWS * n * ROW;
  t->first_k = a->K, t->second_k = b->K, t->third_k = c->K, t->rows = a->H, t->columns = a->W;
  t->chunks = (a->C + BK - 1) / BK, t->pieces = (c->K + WGMMA_M - 1) / WGMMA_M;
  const int64_t others = (int64_t)(t->chunks + t->pieces) * TAP + KEPT * pair_bytes(n) + (BETWEEN + BOXES) * box;
  const int64_t fit = ((int64_t)device->shared_per_block - 1024 - others) / box;
  if (fit < 2) return "filters and two stages do not fit in shared memory";
  const int most = n == WIDE ? 2 : MOST_STAGES;
  t->stages = fit > most ? most : (int)fit;
  choose_strips(a->N, device->sm_count, t);
  for (int i = 0; i < LAYERS; i++) mine->epilogue[i] = chain->operation[i].epilogue;
  mine->shared = (int)others + t->stages * box, mine->blocks = t->count < device->sm_count ? t->count : device->sm_count;
  const cuuint64_t x_size[4] = {(cuuint64_t)a->C, (cuuint64_t)a->W, (cuuint64_t)a->H, (cuuint64_t)a->N},
                   y_size[4] = {(cuuint64_t)c->K, (cuuint64_t)c->W, (cuuint64_t)c->H, (cuuint64_t)c->N};
  const cuuint32_t rows[4] = {BK, (cuuint32_t)n, ROWS, 1};
  why = map_tiles(plan, &mine->x, "x", 4, x_size, rows);
  if (!why) why = map_filters(plan, &mine->reduce, a, WGMMA_M);
  if (!why) why = map_filters(plan, &mine->windows, b, WGMMA_M);
  if (!why) why = map_filters(plan, &mine->expand, c, WGMMA_M);
  if (!why) why = map_tiles(plan, &mine->results, "y", 4, y_size, rows);
  if (why) return why;
  snprintf(plan->words, sizeof plan->words, "%d strips of %d rows: products of %d, %d stages", t->count, ROWS * t->length, ROWS * n, t->stages);
  const cudaError_t status = plan_allow_shared((const void *)mine->row->kernel, (size_t)mine->shared);
  return status ? plan_failed(plan, status) : NULL;
}

static cudaError_t launch_bottleneck(const conv_plan *plan, const conv_buffers *each, cudaStream_t stream) {
  const bottleneck_plan *mine = plan_data<bottleneck_plan>(plan);
  const conv_epilogue *e = mine->epilogue;
  const conv_buffers *a = &each[0], *b = &each[1], *c = &each[2];
  CUtensorMap x, reduce, windows, expand, residuals, results;
  cudaError_t status = map_at(&x, &mine->x, a->x);
  if (!status) status = map_at(&reduce, &mine->reduce, a->w);
  if (!status) status = map_at(&windows, &mine->windows, b->w);
  if (!status) status = map_at(&expand, &mine->expand, c->w);
  if (!status) status = map_at(&residuals, &mine->results, e[2].residual ? (void *)c->residual : c->y);
  if (!status) status = map_at(&results, &mine->results, c->y);
  if (status) return status;
  return launch_kernel({.grid = dim3(mine->blocks), .block = dim3(BLOCK), .shared = (size_t)mine->shared, .stream = stream, .early = true}, mine->row->kernel,
                       mine->cut, finish_of(&e[0], a->scale, a->bias), finish_of(&e[1], b->scale, b->bias), finish_of(&e[2], c->scale, c->bias), x, reduce,
                       windows, expand, residuals, results);
}

/* A strip's first two narrow rows are the last of the strip above it, but for an image's first. */
static void facts_bottleneck(const conv_chain *chain, const conv_plan *plan, chain_facts *facts) {
  const bottleneck_plan *mine = plan_data<bottleneck_plan>(plan);
  const conv_problem *p = &chain->operation[0].problem;
  const double again = (double)(mine->cut.count - p->N) * ROWS * p->W * p->K * p->C;
  *facts = {(const void *)mine->row->kernel,
            mine->blocks,
            BLOCK,
            mine->shared,
            mine->cut.count,
            again,
            steps_of(&mine->cut, mine->blocks) * (0.3 + 0.0775 * mine->row->n)};
}

static double growth_bottleneck(const conv_chain *chain, int index, bool random) { return growth_steps(&chain->operation[index].problem, random); }

extern "C" const chain_kernel bottleneck_chain;
const chain_kernel bottleneck_chain = {.name = "07e",
                                       .idea = "1x1, 3x3, 1x1 and a residual: a warpgroup for each layer, rows handed on",
                                       .count = LAYERS,
                                       .dtype = DTYPE_FP16,
                                       .layout = LAYOUT_NHWC,
                                       .min_arch = 90,
                                       .plan = plan_bottleneck,
                                       .launch = launch_bottleneck,
                                       .facts = facts_bottleneck,
                                       .growth = growth_bottleneck};
