/* 07f: 3 x 3 and 3 x 3, and a shortcut: what is bound by products gains nothing.
 *
 * Terms:    operator fusion, halo recomputation, line buffer, register-resident filters.
 * Idea:     ResNet-18's block at 56 x 56, 64 channels. A tile of four rows needs six of what lies between: half of the first layer would be computed twice, 185 us of products
 *           for 148. With 07e's walk down a strip a step at the strip's begin is all that is computed twice. But 07e hides products behind bytes; here products are all there is.
 *
 *               x, two rows of 58 -> with the two before: 3 x 3 -> two rows, kept -> with the two before: 3 x 3 -> + x -> y
 *
 * Change:   against 07e a window first and no 1 x 1; x comes with its padding. Both layers' filters lie in registers, so shared memory holds pixels alone.
 * Expect:   (before anything ran on a GPU) 256 images: products take two kernels 148 us at best, and 06g's way some 160. Blocks walk down 256 images in two rounds, 58 steps where 54.3
 *           would do: 158 us. A draw: what is saved, 206 MB, the two kernels hide behind products.
 * Chain:    fprop, two operations: 3 x 3 with stride 1 and padding 1, up to 64 channels each, rows of 29 to 56 pixels. Activations without exponentials. Layout: NHWC, filters
 *           KRSC, fp16 with fp32 sums; channels: multiples of 8. */
#include <math.h>

#include "07_fusion/rows.cuh"
#include "common/harness/chain.h"
#include "common/harness/launch.h"

static constexpr int LAYERS = 2, BLOCK = (1 + LAYERS) * THREADS, BOXES = 3, STAGES = 6;
static constexpr int N = 56 /* pixels of a row */, BOX = ROWS * N * ROW, ROOM = TAPS * TAP /* for a layer's filters, where boxes will be */;
static_assert(BOXES * BOX <= ROOM);

/* Shared memory, and who hands on what: barriers of a ring each. */
typedef struct places {
  ptx_shared stages, kept, boxes;
  ptx_shared room_full[LAYERS], room_empty[LAYERS]; /* of each layer's filters, in turn */
  ring x, rows, box;                                /* x: two rows with padding; rows: what lies between; box: residuals, and room for results */
} places;

/* The copy engine's work: x by one thread, residuals by another. Step s of the first layer makes rows 2 s + 1 and 2 s + 2 from x's rows 2 s to 2 s + 3. */
static __device__ __forceinline__ void ask(const strips &t, const places &at, int warp, bool residual, const CUtensorMap *x, const CUtensorMap *residuals) {
  slot s = {0, 0};
  if (warp == 1 && residual) ptx_mbarrier_wait(at.room_empty[1], 0);
  for (int i = blockIdx.x; i < t.count; i += gridDim.x) {
    const strip of = strip_at(t, i);
    for (int step = of.first - 1; step <= of.end && warp == 0; step++, s = next_slot(s, STAGES)) {
      ptx_mbarrier_wait(at.x.empty + 8 * s.stage, s.parity ^ 1);
      ptx_mbarrier_arrive_expect_tx(at.x.full + 8 * s.stage, ROWS * pitch(N) * ROW);
      ptx_tensor_load(at.stages + s.stage * pair_bytes(N), x, {0, -1, step * ROWS, of.n}, at.x.full + 8 * s.stage);
    }
    for (int step = of.first; step < of.end && warp == 1 && residual; step++, s = next_slot(s, BOXES)) {
      ptx_mbarrier_wait(at.box.empty + 8 * s.stage, s.parity ^ 1);
      ptx_mbarrier_arrive_expect_tx(at.box.full + 8 * s.stage, BOX);
      ptx_tensor_load(at.boxes + s.stage * BOX, residuals, {0, 0, step * ROWS, of.n}, at.box.full + 8 * s.stage);
    }
  }
}

/* The first layer. */
template <limits_kind KIND> static __device__ __forceinline__ void first_rows(const strips &t, const places &at, const finish &f, const CUtensorMap *filters) {
  unsigned a[TAPS * STEPS][4];
  take_filters<TAPS>(a, at.boxes, at.room_full[0], 2, filters);
  if (threadIdx.x % THREADS == 0) ptx_mbarrier_arrive(at.room_empty[0]);
  const channel_pair c = channels_of(f, 0, t.second_k);
  const bool first_lane = threadIdx.x % 32 == 0;
  slot s = {0, 0}, to = {0, 0};
  for (int i = blockIdx.x; i < t.count; i += gridDim.x) {
    const strip of = strip_at(t, i);
    ptx_mbarrier_wait(at.x.full + 8 * s.stage, s.parity);
    for (int step = of.first - 1; step < of.end; step++, to = next_slot(to, KEPT)) {
      const int before = s.stage;
      s = next_slot(s, STAGES);
      ptx_mbarrier_wait(at.x.full + 8 * s.stage, s.parity);
      float sum[ROWS][N / 2];
      multiply_windows<N>(sum, a, at.stages + before * pair_bytes(N), at.stages + s.stage * pair_bytes(N));
      ptx_wgmma_wait<0>();
      if (first_lane) ptx_mbarrier_arrive(at.x.empty + 8 * before);
      __syncwarp();
      ptx_mbarrier_wait(at.rows.empty + 8 * to.stage, to.parity ^ 1);
      put_rows<N, KIND>(sum, c, f, at.kept + to.stage * pair_bytes(N), step * ROWS + 1, t);
      ptx_fence_proxy_async();
      ptx_bar_sync(2, THREADS);
      if (threadIdx.x % THREADS == 0) ptx_mbarrier_arrive(at.rows.full + 8 * to.stage); /* the rows are there */
    }
    if (first_lane) ptx_mbarrier_arrive(at.x.empty + 8 * s.stage);
    s = next_slot(s, STAGES);
  }
}

/* The second layer, and results. */
template <limits_kind KIND>
static __device__ __forceinline__ void second_rows(const strips &t, const places &at, const finish &f, const CUtensorMap *filters, const CUtensorMap *results) {
  unsigned a[TAPS * STEPS][4];
  ptx_mbarrier_wait(at.room_empty[0], 0); /* the first layer has its own */
  take_filters<TAPS>(a, at.boxes, at.room_full[1], 3, filters);
  if (threadIdx.x % THREADS == 0) ptx_mbarrier_arrive(at.room_empty[1]);
  const channel_pair c = channels_of(f, 0, t.third_k);
  const bool stores = threadIdx.x % THREADS == 0, first_lane = threadIdx.x % 32 == 0;
  slot s = {0, 0}, out = {0, 0};
  int count = 0; /* of boxes */
  for (int i = blockIdx.x; i < t.count; i += gridDim.x) {
    const strip of = strip_at(t, i);
    ptx_mbarrier_wait(at.rows.full + 8 * s.stage, s.parity);
    for (int step = of.first; step < of.end; step++, count++, out = next_slot(out, BOXES)) {
      const int before = s.stage;
      const ptx_shared box = at.boxes + out.stage * BOX;
      s = next_slot(s, KEPT);
      ptx_mbarrier_wait(at.rows.full + 8 * s.stage, s.parity);
      float sum[ROWS][N / 2];
      multiply_windows<N>(sum, a, at.kept + before * pair_bytes(N), at.kept + s.stage * pair_bytes(N));
      if (stores) ptx_bulk_wait_read<BOXES - 1>(); /* the box is on its way no more */
      if (f.residual) ptx_mbarrier_wait(at.box.full + 8 * out.stage, out.parity);
      ptx_bar_sync(3, THREADS);
      ptx_wgmma_wait<1>();
      put_finished<N, false, KIND>(sum[0], c, f, box);
      ptx_wgmma_wait<0>();
      if (first_lane) ptx_mbarrier_arrive(at.rows.empty + 8 * before); /* no window needs these rows any more */
      __syncwarp();
      put_finished<N, false, KIND>(sum[1], c, f, box + N * ROW);
      ptx_fence_proxy_async();
      ptx_bar_sync(3, THREADS); /* the box is there */
      if (stores) {
        ptx_tensor_store(results, {0, 0, step * ROWS, of.n}, box);
        ptx_bulk_commit();
        if (f.residual && count > 0) {
          ptx_bulk_wait_read<1>(); /* the box before has left */
          ptx_mbarrier_arrive(at.box.empty + 8 * (out.stage > 0 ? out.stage - 1 : BOXES - 1));
        }
      }
      __syncwarp();
    }
    if (first_lane) ptx_mbarrier_arrive(at.rows.empty + 8 * s.stage);
    s = next_slot(s, KEPT);
  }
  if (stores) ptx_bulk_wait_read<0>(); /* shared memory may go; what is written is there when the grid ends */
}

__global__ void __launch_bounds__(BLOCK, 1)
    two_windows_kernel(strips t, finish first, finish second, const __grid_constant__ CUtensorMap windows, const __grid_constant__ CUtensorMap next_windows,
                       const __grid_constant__ CUtensorMap x, const __grid_constant__ CUtensorMap residuals, const __grid_constant__ CUtensorMap results) {
  extern __shared__ __align__(1024) unsigned char shared[];
  __shared__ unsigned long long barriers[2 * (STAGES + KEPT + BOXES + LAYERS)];
  const int role = uniform(threadIdx.x / THREADS), warp = uniform(threadIdx.x / 32);
  const ptx_shared kept = ptx_shared_address(shared), stages = kept + KEPT * pair_bytes(N), boxes = stages + STAGES * pair_bytes(N);
  const ptx_shared of_x = ptx_shared_address(barriers), of_rows = of_x + 16 * STAGES, of_box = of_rows + 16 * KEPT, of_room = of_box + 16 * BOXES;
  const places at = {stages,
                     kept,
                     boxes,
                     {of_room, of_room + 8},
                     {of_room + 16, of_room + 24},
                     {of_x, of_x + 8 * STAGES},
                     {of_rows, of_rows + 8 * KEPT},
                     {of_box, of_box + 8 * BOXES}};
  if (threadIdx.x == 0) {
    ptx_griddepcontrol_launch_dependents(); /* the next kernel may begin */
    ptx_prefetch_tensormap(&x), ptx_prefetch_tensormap(&results);
    for (int i = 0; i < LAYERS; i++) ptx_mbarrier_init(at.room_full[i], 1), ptx_mbarrier_init(at.room_empty[i], 1);
    ring_begin(at.x, STAGES, THREADS / 32), ring_begin(at.rows, KEPT, THREADS / 32), ring_begin(at.box, BOXES, 1);
  }
  for (int i = threadIdx.x; i < KEPT * pair_bytes(N) / 16; i += BLOCK) *(uint4 *)(shared + i * 16) = uint4(); /* beside the rows is padding, and stays so */
  ptx_fence_proxy_async();
  __syncthreads();           /* barriers and zeros are there */
  ptx_griddepcontrol_wait(); /* what the kernel before wrote is there */

  if (role == 0) {
    ptx_setmaxnreg_dec<24>();
    if (threadIdx.x % 32 == 0 && warp < 2) ask(t, at, warp, second.residual, &x, &residuals);
  } else {
    ptx_setmaxnreg_inc<240>();
    if (role == 1 && is_relu(first)) first_rows<RELU>(t, at, first, &windows);
    else if (role == 1) first_rows<LIMITS>(t, at, first, &windows);
    else if (is_relu(second)) second_rows<RELU>(t, at, second, &next_windows, &results);
    else second_rows<LIMITS>(t, at, second, &next_windows, &results);
  }
}

/* ---------------------------------------------------------------- host */

typedef struct two_windows_plan {
  CUtensorMap x, windows[LAYERS], results;
  conv_epilogue epilogue[LAYERS];
  strips cut;
  int blocks, shared;
} two_windows_plan;

static const char *plan_two_windows(const conv_chain *chain, const conv_device *device, conv_plan *plan) {
  if (device->arch / 10 != 9) return "wgmma: only compute capability 9.0 has it";
  for (int i = 0; i < LAYERS; i++) {
    const conv_operation *o = &chain->operation[i];
    const char *why = rows_unsupported(o, 3, device);
    if (why) return why;
    if (o->problem.C > BK || o->problem.K > WGMMA_M) return "more than 64 channels";
  }
  const conv_problem *a = &chain->operation[0].problem, *b = &chain->operation[1].problem;
  if (a->W > N) return "rows of more than 56 pixels";
  if (a->W <= N / 2) return "rows of less than 29 pixels: half of the products would be in vain";
  two_windows_plan *mine = plan_data<two_windows_plan>(plan);
  strips *t = &mine->cut;
  t->second_k = a->K, t->third_k = b->K, t->rows = a->H, t->columns = a->W;
  choose_strips(a->N, device->sm_count, t);
  for (int i = 0; i < LAYERS; i++) mine->epilogue[i] = chain->operation[i].epilogue;
  mine->shared = (KEPT + STAGES) * pair_bytes(N) + ROOM, mine->blocks = t->count < device->sm_count ? t->count : device->sm_count;
  const cuuint64_t x_size[4] = {(cuuint64_t)a->C, (cuuint64_t)a->W, (cuuint64_t)a->H, (cuuint64_t)a->N},
                   y_size[4] = {(cuuint64_t)b->K, (cuuint64_t)b->W, (cuuint64_t)b->H, (cuuint64_t)b->N};
  const cuuint32_t padded[4] = {BK, pitch(N), ROWS, 1}, rows[4] = {WGMMA_M, N, ROWS, 1};
  const char *why = map_tiles(plan, &mine->x, "x", 4, x_size, padded);
  for (int i = 0; i < LAYERS && !why; i++) why = map_filters(plan, &mine->windows[i], i == 0 ? a : b, WGMMA_M);
  if (!why) why = map_tiles(plan, &mine->results, "y", 4, y_size, rows);
  if (why) return why;
  snprintf(plan->words, sizeof plan->words, "%d strips of %d rows: products of %d", t->count, ROWS * t->length, N);
  const cudaError_t status = plan_allow_shared((const void *)two_windows_kernel, (size_t)mine->shared);
  return status ? plan_failed(plan, status) : NULL;
}

static cudaError_t launch_two_windows(const conv_plan *plan, const conv_buffers *each, cudaStream_t stream) {
  const two_windows_plan *mine = plan_data<two_windows_plan>(plan);
  const conv_epilogue *e = mine->epilogue;
  const conv_buffers *a = &each[0], *b = &each[1];
  CUtensorMap x, windows[LAYERS], residuals, results;
  cudaError_t status = map_at(&x, &mine->x, a->x);
  for (int i = 0; i < LAYERS && !status; i++) status = map_at(&windows[i], &mine->windows[i], each[i].w);
  if (!status) status = map_at(&residuals, &mine->results, e[1].residual ? (void *)b->residual : b->y);
  if (!status) status = map_at(&results, &mine->results, b->y);
  if (status) return status;
  return launch_kernel({.grid = dim3(mine->blocks), .block = dim3(BLOCK), .shared = (size_t)mine->shared, .stream = stream, .early = true}, two_windows_kernel,
                       mine->cut, finish_of(&e[0], a->scale, a->bias), finish_of(&e[1], b->scale, b->bias), windows[0], windows[1], x, residuals, results);
}

/* As 07e's: two rows of a strip are the strip's above it, too. */
static void facts_two_windows(const conv_chain *chain, const conv_plan *plan, chain_facts *facts) {
  const two_windows_plan *mine = plan_data<two_windows_plan>(plan);
  const conv_problem *p = &chain->operation[0].problem;
  const double again = (double)(mine->cut.count - p->N) * ROWS * p->W * p->K * p->C * TAPS;
  *facts = {(const void *)two_windows_kernel, mine->blocks, BLOCK, mine->shared, mine->cut.count, again, 3.1 * steps_of(&mine->cut, mine->blocks)};
}

static double growth_two_windows(const conv_chain *chain, int index, bool random) { return growth_steps(&chain->operation[index].problem, random); }

extern "C" const chain_kernel two_windows_chain;
const chain_kernel two_windows_chain = {.name = "07f",
                                        .idea = "3x3, then 3x3, and a residual: two rows at a time, nothing computed twice",
                                        .count = LAYERS,
                                        .dtype = DTYPE_FP16,
                                        .layout = LAYOUT_NHWC,
                                        .min_arch = 90,
                                        .plan = plan_two_windows,
                                        .launch = launch_two_windows,
                                        .facts = facts_two_windows,
                                        .growth = growth_two_windows};
