/* 07j: 3 x 3 and the 1 x 1 behind it, down strips: 07e without its first layer.
 *
 * Terms:    operator fusion, line buffer, warp specialization, register-resident filters.
 * Idea:     07d's two layers, 07e's way. In 07d the filters of the 3 x 3 take 72 KiB of shared memory, so a warpgroup that widens has one box: it cannot finish the next results before the last
 *           have left. And of every halo tile of four rows two are read twice. Here filters lie in registers, each row of a strip comes once, and with what that frees each of the two that widen has three boxes.
 *
 *               x, two rows, padding and all -> 3 x 3 with the two rows before -> two rows of 64 -> two warpgroups in turns: expand -> (+ residual) -> y
 *
 * Padding:  the copy engine's: its boxes begin a pixel left of the image, and what lies outside comes as zeros.
 * Change:   against 07e no first layer: the rows come from memory; a second warpgroup that widens in its place.
 * Expect:   (before anything ran on a GPU) 56 x 56, 64 channels to 64 to 256. A step of two rows is 72 * 28 = 2016 clocks of products for one warpgroup and some 700 to hand on, and two pieces, 1600
 *           each, for those that widen: 3200. With 256 images 56 steps a multiprocessor, 105 us, less than 514 MB take in practice, 150. With 32 images 8 steps, 15 us, and 3 to begin and end.
 * Chain:    fprop, two operations: 3 x 3 with stride 1 and padding 1, up to 64 channels and filters, rows of 33 to 56 pixels, so many that each multiprocessor has two; 1 x 1 with no stride, whose filters fit.
 *           Activations without exponentials. Layout: NHWC, filters KRSC, fp16 with fp32 sums; channels: multiples of 8. */
#include <math.h>

#include "07_fusion/walk.cuh"
#include "common/harness/chain.h"
#include "common/harness/launch.h"

static constexpr int WIDENERS = 2, BLOCK = (2 + WIDENERS) * THREADS, PLACES = 5 /* of x */, BOXES = 3 /* of each that widens */;
static constexpr int N = 56 /* pixels of a row, at most */, LEAST = 33;

__global__ void __launch_bounds__(BLOCK, 1)
    strips_kernel(strips t, finish first, finish second, const __grid_constant__ CUtensorMap x, const __grid_constant__ CUtensorMap windows,
                  const __grid_constant__ CUtensorMap expand, const __grid_constant__ CUtensorMap residuals, const __grid_constant__ CUtensorMap results) {
  extern __shared__ __align__(1024) unsigned char shared[];
  __shared__ unsigned long long barriers[2 * (PLACES + BETWEEN + WIDENERS * BOXES) + 3];
  const int role = uniform(threadIdx.x / THREADS), warp = uniform(threadIdx.x / 32);
  const ptx_shared filters = ptx_shared_address(shared), kept = filters + t.pieces * TAP, between = kept + PLACES * pair_bytes(N);
  const ptx_shared of_rows = ptx_shared_address(barriers), of_pixels = of_rows + 16 * PLACES, of_box = of_pixels + 16 * BETWEEN,
                   others = of_box + 16 * WIDENERS * BOXES;
  const walk at = {kept,
                   between,
                   filters,
                   between + BETWEEN * ROWS * N * ROW,
                   others,
                   others + 8,
                   others + 16,
                   {of_rows, of_rows + 8 * PLACES},
                   {of_pixels, of_pixels + 8 * BETWEEN},
                   {of_box, of_box + 8 * WIDENERS * BOXES}};
  if (threadIdx.x == 0) {
    ptx_griddepcontrol_launch_dependents(); /* the next kernel may begin */
    ptx_prefetch_tensormap(&x), ptx_prefetch_tensormap(&expand);
    ptx_mbarrier_init(at.filters_there, 1), ptx_mbarrier_init(at.room_full, 1), ptx_mbarrier_init(at.room_empty, 1);
    ring_begin(at.rows, PLACES, THREADS / 32), ring_begin(at.pixels, BETWEEN, WIDENERS * THREADS / 32), ring_begin(at.box, WIDENERS * BOXES, 1);
  }
  __syncthreads();           /* barriers are there */
  ptx_griddepcontrol_wait(); /* what the kernel before wrote is there */

  if (role == 0) { /* the copy engine's work: x by one thread, filters by another, residuals by two */
    ptx_setmaxnreg_dec<40>();
    if (threadIdx.x % 32 != 0) return;
    if (warp == 0) {
      slot s = {0, 0};
      for (int i = blockIdx.x; i < t.count; i += gridDim.x) {
        const strip of = strip_at(t, i);
        for (int step = of.first - 1; step < of.end; step++, s = next_slot(s, PLACES)) { /* what a step lacks: rows 2 step + 1 and 2 step + 2 */
          ptx_mbarrier_wait(at.rows.empty + 8 * s.stage, s.parity ^ 1);
          ptx_mbarrier_arrive_expect_tx(at.rows.full + 8 * s.stage, ROWS * pitch(N) * ROW);
          ptx_tensor_load(kept + s.stage * pair_bytes(N), &x, {0, -1, step * ROWS + 1, of.n}, at.rows.full + 8 * s.stage);
        }
      }
    } else if (warp == 1) {
      ptx_mbarrier_arrive_expect_tx(at.filters_there, t.pieces * TAP);
      for (int i = 0; i < t.pieces; i++) ptx_tensor_load(filters + i * TAP, &expand, {0, 0, i * WGMMA_M}, at.filters_there);
      if (second.residual) ask_residuals<N, WIDENERS, BOXES>(t, at, 0, &residuals);
    } else if (warp == 2 && second.residual) {
      ask_residuals<N, WIDENERS, BOXES>(t, at, 1, &residuals);
    }
  } else if (role == 1) {
    ptx_setmaxnreg_inc<240>();
    if (is_relu(first)) convolve_rows<N, PLACES, taps_taken(N, WIDENERS * BOXES), RELU>(t, at, first, &windows);
    else convolve_rows<N, PLACES, taps_taken(N, WIDENERS * BOXES), LIMITS>(t, at, first, &windows);
  } else {
    ptx_setmaxnreg_dec<112>();
    if (is_relu(second)) expand_rows<N, WIDENERS, BOXES, RELU>(t, at, second, role - 2, &results);
    else expand_rows<N, WIDENERS, BOXES, LIMITS>(t, at, second, role - 2, &results);
  }
}

/* ---------------------------------------------------------------- host */

typedef struct strips_plan {
  CUtensorMap x, windows, expand, results;
  conv_epilogue first, second;
  strips cut;
  int blocks, shared;
} strips_plan;

/* Why the two are no 3 x 3 and 1 x 1 that fit. */
static const char *refuse(const conv_chain *chain, const conv_device *device) {
  for (int i = 0; i < 2; i++) {
    const char *why = rows_unsupported(&chain->operation[i], i == 0 ? 3 : 1, device);
    if (why) return why;
  }
  const conv_problem *p = &chain->operation[0].problem;
  if (p->C > BK || p->K > WGMMA_M) return "more than 64 channels before or between";
  if (p->W < LEAST || p->W > N) return "rows of less than 33 pixels, or more than 56";
  if ((int64_t)p->N * ((p->H + ROWS - 1) / ROWS) < device->sm_count) return "fewer steps than multiprocessors: 07d begins sooner";
  return NULL;
}

static const char *plan_strips(const conv_chain *chain, const conv_device *device, conv_plan *plan) {
  if (device->arch / 10 != 9) return "wgmma: only compute capability 9.0 has it";
  const char *why = refuse(chain, device);
  if (why) return why;
  const conv_problem *p = &chain->operation[0].problem, *q = &chain->operation[1].problem;
  strips_plan *mine = plan_data<strips_plan>(plan);
  strips *t = &mine->cut;
  t->second_k = p->K, t->third_k = q->K, t->rows = p->H, t->columns = p->W, t->pieces = (q->K + WGMMA_M - 1) / WGMMA_M;
  const int64_t shared = (int64_t)t->pieces * TAP + PLACES * pair_bytes(N) + (BETWEEN + WIDENERS * BOXES) * ROWS * N * ROW;
  if (shared > (int64_t)device->shared_per_block - 1024) return "filters and rows do not fit in shared memory";
  choose_strips(p->N, device->sm_count, t);
  mine->first = chain->operation[0].epilogue, mine->second = chain->operation[1].epilogue;
  mine->shared = (int)shared, mine->blocks = t->count < device->sm_count ? t->count : device->sm_count;
  const cuuint64_t x_size[4] = {(cuuint64_t)p->C, (cuuint64_t)p->W, (cuuint64_t)p->H, (cuuint64_t)p->N},
                   y_size[4] = {(cuuint64_t)q->K, (cuuint64_t)q->W, (cuuint64_t)q->H, (cuuint64_t)q->N};
  const cuuint32_t x_box[4] = {BK, (cuuint32_t)pitch(N), ROWS, 1}, y_box[4] = {WGMMA_M, N, ROWS, 1};
  why = map_tiles(plan, &mine->x, "x", 4, x_size, x_box);
  if (!why) why = map_filters(plan, &mine->windows, p, WGMMA_M);
  if (!why) why = map_filters(plan, &mine->expand, q, WGMMA_M);
  if (!why) why = map_tiles(plan, &mine->results, "y", 4, y_size, y_box);
  if (why) return why;
  snprintf(plan->words, sizeof plan->words, "%d strips of %d rows: products of %d", t->count, ROWS * t->length, N);
  const cudaError_t status = plan_allow_shared((const void *)strips_kernel, (size_t)mine->shared);
  return status ? plan_failed(plan, status) : NULL;
}

static cudaError_t launch_strips(const conv_plan *plan, const conv_buffers *each, cudaStream_t stream) {
  const strips_plan *mine = plan_data<strips_plan>(plan);
  const conv_buffers *a = &each[0], *b = &each[1];
  CUtensorMap x, windows, expand, residuals, results;
  cudaError_t status = map_at(&x, &mine->x, a->x);
  if (!status) status = map_at(&windows, &mine->windows, a->w);
  if (!status) status = map_at(&expand, &mine->expand, b->w);
  if (!status) status = map_at(&residuals, &mine->results, mine->second.residual ? (void *)b->residual : b->y);
  if (!status) status = map_at(&results, &mine->results, b->y);
  if (status) return status;
  return launch_kernel({.grid = dim3(mine->blocks), .block = dim3(BLOCK), .shared = (size_t)mine->shared, .stream = stream, .early = true}, strips_kernel,
                       mine->cut, finish_of(&mine->first, a->scale, a->bias), finish_of(&mine->second, b->scale, b->bias), x, windows, expand, residuals,
                       results);
}

static void facts_strips(const conv_chain *chain, const conv_plan *plan, chain_facts *facts) {
  (void)chain;
  const strips_plan *mine = plan_data<strips_plan>(plan);
  *facts = {
      (const void *)strips_kernel, mine->blocks, BLOCK, mine->shared, mine->cut.count, 0, steps_of(&mine->cut, mine->blocks) * (1.3 + 0.23 * mine->cut.pieces)};
}

static double growth_strips(const conv_chain *chain, int index, bool random) { return growth_steps(&chain->operation[index].problem, random); }

extern "C" const chain_kernel strips_chain;
const chain_kernel strips_chain = {.name = "07j",
                                   .idea = "07d down strips: a strip's rows read once, filters in registers",
                                   .count = 2,
                                   .dtype = DTYPE_FP16,
                                   .layout = LAYOUT_NHWC,
                                   .min_arch = 90,
                                   .plan = plan_strips,
                                   .launch = launch_strips,
                                   .facts = facts_strips,
                                   .growth = growth_strips};
