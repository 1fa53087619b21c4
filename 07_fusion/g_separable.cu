/* 07g: a depthwise 3 x 3 and the 1 x 1 behind it: warps make the operand that wgmma takes.
 *
 * Terms:    depthwise separable convolution, operator fusion, warp specialization, diagonal matrix.
 * Idea:     a depthwise layer has 9 products a result, and a product of matrices wants these results as [pixel][64 channels], swizzled. So warps put them there, 64 channels of 64 pixels at
 *           a time, and a warpgroup multiplies them while the next come. What lies between is never written: of 183 MB that two kernels move for 64 images of 56 x 56, 144 channels to 24,
 *           67 are left.
 *
 *               halo tile, 64 channels -> 9 products a channel, finish -> [64 pixels][64 channels] -> x filters -> sums, over all channels -> finish -> box -> y
 *
 * Diagonal: eight channels of 16 pixels times a tap's filters, on the diagonal of a matrix of 8 x 8: of one mma.sync an eighth counts, which is still less than FMAs, conversions and the
 *           bytes' way to each thread.
 * Places:   a swizzle repeats after eight pixels: of where a lane reads, eight places are worked out once, and the rest are constants, as a tile's columns are known to the compiler.
 * Roles:    a warpgroup for the copy engine: x; filters; residuals. One multiplies, up to 192 filters; with up to 64 channels and filters two, a tile each in turn. Twelve warps make operands: a task is 16 channels of 64 pixels, four are a chunk,
 *           and tasks go round. So a chain of many channels is as fast as twelve warps are, not as one warp is.
 * Change:   against 07d the first layer: depthwise, by warps with mma.sync and not by a warpgroup with wgmma.
 * Expect:   (before this version ran) a task 1500 clocks, a chunk of 64 channels and pixels 500: 56 x 56, 144 channels to 24, 64 images: 30 us, where the bytes need 16; 7 x 7, 960 to 160: 12.
 * Infinity: an infinite pixel meets the diagonal's zeros: the seven channels beside its own become NaN, too.
 * Chain:    fprop, two operations: depthwise 3 x 3 with stride 1 or 2; 1 x 1 with up to 384 filters. For every 192 filters (fewer, where tiles are few) the first is computed once more.
 *           Activations without exponentials. Layout: NHWC, filters KRSC, fp16 with fp32 sums; channels: multiples of 8. */
#include <math.h>

#include "07_fusion/diagonals.cuh"
#include "common/harness/chain.h"
#include "common/harness/launch.h"

static constexpr int WORKERS = 12 /* warps that make operands */, TAP = WGMMA_M * ROW;
static constexpr int TASKS = BK / SIDE /* of a chunk */, AHEAD = WORKERS / TASKS /* steps from a worker's task to its next */;
static constexpr int OPERAND = PIXELS * ROW, MOST_STAGES = 2 * AHEAD, MOST_OF_FILTERS = 16, MOST_FILTERS = 384;

/* Threads, with so many warpgroups that multiply. */
static __host__ __device__ constexpr int threads(int multipliers) { return (1 + multipliers) * THREADS + WORKERS * 32; }

/* Of a block, for so many warpgroups that multiply. */
static __host__ __device__ constexpr int operands_of(int multipliers) { return multipliers == 2 ? 2 * AHEAD : 4; }

static_assert(AHEAD * TASKS == WORKERS && AHEAD < operands_of(1), "");
/* A worker asks a barrier for the parity of a round, so it must know that the round before is over. A stage of x was its own in that round, if there are AHEAD stages or twice as many (copies may
 * come in another order than they were asked for). An operand's round before is: it waited for the operand AHEAD steps earlier, and operands are given back in order. By two multipliers they
 * are not; but of 2 AHEAD operands it waited for the same one in that round. */

/* A tile: rows x columns pixels of an image and a part of the filters; its halo tile has wide x high pixels. */
typedef struct tile_cut {
  divisor parts, by_q, by_p, chunks, stages;
  int rows, columns, wide, high, tiles, stage /* bytes of x */, of_filters /* stages */;
  bool resident; /* of filters: all chunks' stay */
} tile_cut;

/* Where a tile begins. */
typedef struct corner {
  int k, q, p, n;
} corner;

template <int M> static __device__ __forceinline__ corner corner_at(const tile_cut &t, int i) {
  const int of_k = divide(i, t.parts), of_q = divide(of_k, t.by_q), n = divide(of_q, t.by_p);
  return {(i - of_k * t.parts.by) * M * WGMMA_M, (of_k - of_q * t.by_q.by) * t.columns, (of_q - n * t.by_p.by) * t.rows, n};
}

/* A tile's results, finished, to a multiplier's boxes. */
template <int M>
static __device__ __forceinline__ void put_boxes(const float (&sum)[M][PIXELS / 2], const channel_pair (&c)[M], const finish &f, bool unlimited,
                                                 ptx_shared box) {
#pragma unroll
  for (int m = 0; m < M; m++)
    if (unlimited) put_finished<PIXELS, false, NO_LIMITS>(sum[m], c[m], f, box + m * OPERAND);
    else put_finished<PIXELS, false>(sum[m], c[m], f, box + m * OPERAND);
}

/* M: times 64 filters of a tile. TURNS: warpgroups that multiply, a tile each in turn; two, where tiles have one chunk. COLUMNS: of a tile. */
template <int M, int STRIDE, int TURNS, int COLUMNS, int OPERANDS = operands_of(TURNS)>
__global__ void __launch_bounds__(threads(TURNS), 1)
    separable_kernel(conv_problem p, int filters, tile_cut t, finish first, finish second, const __half *w, const __grid_constant__ CUtensorMap halos,
                     const __grid_constant__ CUtensorMap filter_tiles, const __grid_constant__ CUtensorMap residuals,
                     const __grid_constant__ CUtensorMap results) {
  extern __shared__ __align__(1024) unsigned char shared[]; /* operands, a box for each 64 filters of each multiplier, filters, x, the table */
  __shared__ unsigned long long barriers[2 * (MOST_STAGES + MOST_OF_FILTERS + OPERANDS + TURNS) + 1];
  const int role = uniform(threadIdx.x / THREADS), of_boxes = OPERANDS * OPERAND, of_w = of_boxes + TURNS * M * OPERAND, of_x = of_w + t.of_filters * M * TAP;
  unsigned char *const table = shared + of_x + t.stages.by * t.stage;
  const ptx_shared at = ptx_shared_address(shared), b = ptx_shared_address(barriers);
  const ring x = {b, b + 8 * MOST_STAGES}, operands = {b + 16 * MOST_STAGES, b + 16 * MOST_STAGES + 8 * OPERANDS};
  const ring of_box = {operands.empty + 8 * OPERANDS, operands.empty + 8 * (OPERANDS + TURNS)},
             weights = {of_box.empty + 8 * TURNS, of_box.empty + 8 * (TURNS + MOST_OF_FILTERS)};
  const ptx_shared table_full = weights.empty + 8 * MOST_OF_FILTERS;
  if (threadIdx.x == 0) {
    ptx_griddepcontrol_launch_dependents(); /* the next kernel may begin */
    ptx_prefetch_tensormap(&halos), ptx_prefetch_tensormap(&filter_tiles);
    ptx_mbarrier_init(table_full, 1);
    for (int i = 0; i < OPERANDS; i++) ptx_mbarrier_init(operands.full + 8 * i, TASKS), ptx_mbarrier_init(operands.empty + 8 * i, THREADS / 32);
    ring_begin(of_box, TURNS, 1), ring_begin(weights, t.of_filters, THREADS / 32), ring_begin(x, t.stages.by, TASKS);
  }
  __syncthreads();           /* barriers are there */
  ptx_griddepcontrol_wait(); /* what the kernel before wrote is there */

  if (role == 0) { /* the producers: of x, filters and residuals */
    ptx_setmaxnreg_dec<32>();
    const int warp = uniform(threadIdx.x / 32);
    if (threadIdx.x % 32 != 0 || warp > (second.residual ? 2 : 1)) return;
    if (warp == 0) load_table(first, w, p.C, ptx_shared_address(table), table_full);
    slot s = {0, 0};
    for (int i = blockIdx.x; i < t.tiles; i += gridDim.x) {
      const corner c = corner_at<M>(t, i);
      if (warp == 2) {
        const ptx_shared full = of_box.full + 8 * s.stage;
        ptx_mbarrier_wait(of_box.empty + 8 * s.stage, s.parity ^ 1);
        ptx_mbarrier_arrive_expect_tx(full, M * OPERAND);
        for (int m = 0; m < M; m++) ptx_tensor_load(at + of_boxes + (s.stage * M + m) * OPERAND, &residuals, {c.k + m * WGMMA_M, c.q, c.p, c.n}, full);
        s = next_slot(s, TURNS);
        continue;
      }
      if (warp == 1 && t.resident && i > (int)blockIdx.x) return;
      for (int chunk = 0; chunk < t.chunks.by; chunk++, s = next_slot(s, warp == 0 ? t.stages.by : t.of_filters)) {
        const ring r = warp == 0 ? x : weights;
        ptx_mbarrier_wait(r.empty + 8 * s.stage, s.parity ^ 1);
        ptx_mbarrier_arrive_expect_tx(r.full + 8 * s.stage, warp == 0 ? t.wide * t.high * ROW : M * TAP);
        if (warp == 0)
          ptx_tensor_load(at + of_x + s.stage * t.stage, &halos, {chunk * BK, c.q * STRIDE - p.pad_left, c.p * STRIDE - p.pad_top, c.n}, r.full + 8 * s.stage);
        else
          for (int m = 0; m < M; m++)
            ptx_tensor_load(at + of_w + (s.stage * M + m) * TAP, &filter_tiles, {chunk * BK, 0, c.k + m * WGMMA_M}, r.full + 8 * s.stage);
      }
    }
    return;
  }

  if (role > TURNS) { /* the workers; a step is a chunk of a tile */
    const int lane = threadIdx.x % 32, steps = (t.tiles - (int)blockIdx.x + (int)gridDim.x - 1) / (int)gridDim.x * t.chunks.by;
    ptx_mbarrier_wait(table_full, 0);
    diagonals d;
    const int begin = uniform(threadIdx.x / 32) - (1 + TURNS) * THREADS / 32, group = begin % TASKS; /* always the same */
    const lane_places places = places_of<STRIDE, COLUMNS>(group);
    const bool floored = is_floored(first);
    for (int task = begin, had = -1 /* whose diagonals d are */; task < steps * TASKS; task += WORKERS) {
      const int step = task / TASKS, round = divide(step, t.stages), stage = step - round * t.stages.by, operand = step % OPERANDS;
      const int channel = (step - divide(step, t.chunks) * t.chunks.by) * BK + group * SIDE;
      if (channel != had) d = load_diagonals(first, table, channel, p.C), had = channel;
      ptx_mbarrier_wait(x.full + 8 * stage, round & 1);
      ptx_mbarrier_wait(operands.empty + 8 * operand, step / OPERANDS % 2 ^ 1);
      const ptx_shared from = at + of_x + stage * t.stage, to = at + operand * OPERAND;
      if (channel < p.C && floored) both_units<STRIDE, COLUMNS, FLOOR>(first, d, places, from, to);
      else if (channel < p.C) both_units<STRIDE, COLUMNS, LIMITS>(first, d, places, from, to);
      else if (step < OPERANDS || t.chunks.by > 1 /* of one chunk they stay */) put_zeros(group, shared + operand * OPERAND);
      ptx_fence_proxy_async(); /* written by threads, read by wgmma */
      __syncwarp();
      if (lane == 0) ptx_mbarrier_arrive(x.empty + 8 * stage), ptx_mbarrier_arrive(operands.full + 8 * operand);
      __syncwarp(); /* ldmatrix takes a row's address from each lane: all must be here */
    }
    return;
  }
  ptx_setmaxnreg_inc<TURNS == 1 ? 144 : 104>(); /* who multiplies: every tile, or with one chunk every second */
  const int me = role - 1, begin = blockIdx.x + me * gridDim.x, box = at + of_boxes + me * M * OPERAND;
  const bool stores = threadIdx.x % THREADS == 0, first_lane = threadIdx.x % 32 == 0, unlimited = is_unlimited(second);
  slot o = {me, 0}, s = {0, 0};
  channel_pair channels[M]; /* the same for all tiles of the block */
#pragma unroll
  for (int m = 0; m < M; m++) channels[m] = channels_of(second, corner_at<M>(t, blockIdx.x).k + m * WGMMA_M, filters);
  for (int i = begin, parity = 0; i < t.tiles; i += TURNS * gridDim.x, parity ^= 1, o = TURNS == 2 ? next_slot(o, OPERANDS) : o) {
    const corner c = corner_at<M>(t, i);
    float sum[M][PIXELS / 2] = {};
    slot o_before = o, s_before = s;
    for (int chunk = 0; chunk < t.chunks.by; chunk++) {
      ptx_mbarrier_wait(operands.full + 8 * o.stage, o.parity);
      ptx_mbarrier_wait(weights.full + 8 * s.stage, t.resident ? 0 : s.parity);
      multiply<false>(sum, at + of_w + s.stage * M * TAP, at + o.stage * OPERAND);
      if (chunk > 0) {
        ptx_wgmma_wait<1>(); /* the products of the chunk before are done */
        if (first_lane) ptx_mbarrier_arrive(operands.empty + 8 * o_before.stage);
        if (first_lane && !t.resident) ptx_mbarrier_arrive(weights.empty + 8 * s_before.stage);
      } else {
        if (stores) ptx_bulk_wait_read<0>(); /* the tile before has left */
        if (stores && second.residual && i > begin) ptx_mbarrier_arrive(of_box.empty + 8 * me);
        __syncwarp();
      }
      o_before = o, s_before = s, o = next_slot(o, OPERANDS), s = next_slot(s, t.of_filters);
    }
    ptx_wgmma_wait<0>();
    if (first_lane) ptx_mbarrier_arrive(operands.empty + 8 * o_before.stage);
    if (first_lane && !t.resident) ptx_mbarrier_arrive(weights.empty + 8 * s_before.stage);
    if (second.residual) ptx_mbarrier_wait(of_box.full + 8 * me, parity);
    ptx_bar_sync(2 + me, THREADS); /* the boxes are free */
    put_boxes<M>(sum, channels, second, unlimited, box);
    ptx_fence_proxy_async();
    ptx_bar_sync(2 + me, THREADS); /* they are there */
    if (stores) {
      for (int m = 0; m < M; m++) ptx_tensor_store(&results, {c.k + m * WGMMA_M, c.q, c.p, c.n}, box + m * OPERAND);
      ptx_bulk_commit();
    }
    __syncwarp();
  }
  if (stores) ptx_bulk_wait_read<0>(); /* shared memory may go; what is written is there when the grid ends */
}

/* ---------------------------------------------------------------- host */

typedef void separable_function(conv_problem p, int filters, tile_cut t, finish first, finish second, const __half *w, CUtensorMap halos,
                                CUtensorMap filter_tiles, CUtensorMap residuals, CUtensorMap results);
enum { MOST_M = 3 };
#define ROW_OF(M, TURNS)                                                                                                                           \
  {                                                                                                                                                \
    {separable_kernel<M, 1, TURNS, 8>, separable_kernel<M, 1, TURNS, 16>}, { separable_kernel<M, 2, TURNS, 8>, separable_kernel<M, 2, TURNS, 16> } \
  }
static separable_function *const instances[1 + MOST_M][2][2] = {ROW_OF(1, 2) /* two multipliers */, ROW_OF(1, 1), ROW_OF(2, 1), ROW_OF(3, 1)};

typedef struct separable_plan {
  CUtensorMap halos, filter_tiles, results;
  conv_problem problem; /* the first */
  conv_epilogue first, second;
  separable_function *kernel;
  tile_cut cut;
  int filters, multipliers, blocks, shared;
  double us; /* estimated */
} separable_plan;

static int ceil_of(int all, int part) { return (all + part - 1) / part; }

/* Where a tile has one chunk, its end takes longer than its operand; with 64 filters a multiplier has few registers. */
static int multipliers_of(const tile_cut *t, int m) { return m == 1 && t->chunks.by == 1 && t->parts.by == 1 ? 2 : 1; }

/* The cut into tiles of so many columns and times 64 filters. Returns bytes of shared memory, or 0: three stages do not fit. */
static int64_t try_tiles(const conv_problem *p, int filters, int columns, int m, int64_t room, tile_cut *t) {
  t->columns = columns, t->rows = PIXELS / columns;
  t->wide = (columns - 1) * p->stride_w + 3, t->high = (t->rows - 1) * p->stride_h + 3;
  t->stage = (t->wide * t->high * ROW + 1023) / 1024 * 1024;
  const int chunks = ceil_of(p->C, BK), parts = ceil_of(filters, m * WGMMA_M);
  t->parts = divisor_of(parts), t->chunks = divisor_of(chunks);
  const int64_t others = (operands_of(multipliers_of(t, m)) + multipliers_of(t, m) * m) * OPERAND + (int64_t)TABLE * p->C;
  room -= others;
  t->resident = chunks <= MOST_OF_FILTERS && chunks * m * TAP + 3 * t->stage <= room; /* and there is room for x */
  t->of_filters = t->resident ? chunks : 2;
  const int64_t fit = (room - t->of_filters * m * TAP) / t->stage;
  if (fit < AHEAD) return 0;
  t->stages = divisor_of(fit < MOST_STAGES ? AHEAD : MOST_STAGES);
  t->by_q = divisor_of(ceil_of(p->Q, columns)), t->by_p = divisor_of(ceil_of(p->P, t->rows));
  const int64_t tiles = (int64_t)parts * t->by_q.by * t->by_p.by * p->N;
  t->tiles = (int)tiles;
  return tiles > INT_MAX / 16 ? 0 : others + t->of_filters * m * TAP + t->stages.by * t->stage;
}

/* How many blocks: as many as multiprocessors, but each with one part of the filters. */
static int blocks_of(const tile_cut *t, const conv_device *device) {
  const int most = device->sm_count < t->parts.by ? t->parts.by : device->sm_count / t->parts.by * t->parts.by;
  return t->tiles < most ? t->tiles : most;
}

/* Clocks of the busiest multiprocessor: tasks of the workers, each AHEAD steps after its last, or what multiplies and stores. Fitted to MobileNetV2's pairs, 64 images. */
static double clocks_of(const conv_problem *p, const tile_cut *t, int m, int blocks) {
  const double made = t->chunks.by * (p->stride_h > 1 ? 5200.0 : 3400.0) / AHEAD,
               multiplied = (t->chunks.by * (150.0 + 130 * m) + 850 + 300 * m) / multipliers_of(t, m);
  return ceil_of(t->tiles, blocks) * fmax(made, multiplied) + 200 * t->chunks.by + 1000;
}

/* The cut with the fewest clocks. Returns shared memory, or 0. */
static int64_t best_tiles(const conv_problem *p, int filters, const conv_device *device, tile_cut *best, int *best_m) {
  double least = INFINITY;
  int64_t shared = 0;
  for (int m = 1; m <= MOST_M; m++)
    for (int columns = 8; columns <= 16; columns *= 2) {
      tile_cut t;
      const int64_t bytes = try_tiles(p, filters, columns, m, (int64_t)device->shared_per_block - 1024, &t);
      if (!bytes) continue;
      const double clocks = clocks_of(p, &t, m, blocks_of(&t, device));
      if (clocks < least) least = clocks, shared = bytes, *best = t, *best_m = m;
    }
  return shared;
}

static const char *plan_separable(const conv_chain *chain, const conv_device *device, conv_plan *plan) {
  const conv_operation *a = &chain->operation[0], *b = &chain->operation[1];
  const conv_problem *p = &a->problem, *q = &b->problem;
  if (device->arch / 10 != 9) return "wgmma: only compute capability 9.0 has it";
  if (a->kind != OPERATION_CONVOLUTION || b->kind != OPERATION_CONVOLUTION || a->epilogue.fp32 || b->epilogue.fp32) return "no two convolutions in fp16";
  if (is_smooth(a->epilogue.activation) || is_smooth(b->epilogue.activation)) return "an activation with an exponential";
  if (p->groups != p->C || p->K != p->C || q->groups > 1) return "the first is not depthwise, or the second has groups";
  if (p->C % CHUNK != 0 || q->K % CHUNK != 0) return "C or K is no multiple of 8";
  if (p->R != 3 || p->S != 3 || p->dil_h > 1 || p->dil_w > 1 || p->stride_h != p->stride_w || p->stride_h > 2) return "the first is not 3x3 with stride 1 or 2";
  if (q->R * q->S > 1 || q->stride_h > 1 || q->stride_w > 1 || q->P != p->P || q->Q != p->Q) return "the second is no plain 1x1";
  if (q->K > MOST_FILTERS) return "more than 384 filters: the first would be computed too often";
  const char *why = plain_unsupported(p, device);
  if (!why) why = plain_unsupported(q, device);
  if (why) return why;
  separable_plan *mine = plan_data<separable_plan>(plan);
  tile_cut *t = &mine->cut;
  int m = 0;
  mine->shared = (int)best_tiles(p, q->K, device, t, &m);
  if (!mine->shared) return "three stages do not fit in shared memory";
  mine->problem = *p, mine->filters = q->K, mine->first = a->epilogue, mine->second = b->epilogue;
  mine->multipliers = multipliers_of(t, m), mine->kernel = instances[mine->multipliers > 1 ? 0 : m][p->stride_h - 1][t->columns > 8];
  mine->blocks = blocks_of(t, device);
  const cuuint64_t x_size[4] = {(cuuint64_t)p->C, (cuuint64_t)p->W, (cuuint64_t)p->H, (cuuint64_t)p->N},
                   y_size[4] = {(cuuint64_t)q->K, (cuuint64_t)q->Q, (cuuint64_t)q->P, (cuuint64_t)q->N};
  const cuuint32_t x_box[4] = {BK, (cuuint32_t)t->wide, (cuuint32_t)t->high, 1}, y_box[4] = {WGMMA_M, (cuuint32_t)t->columns, (cuuint32_t)t->rows, 1};
  why = map_tiles(plan, &mine->halos, "x", 4, x_size, x_box);
  if (!why) why = map_filters(plan, &mine->filter_tiles, q, WGMMA_M);
  if (!why) why = map_tiles(plan, &mine->results, "y", 4, y_size, y_box);
  if (why) return why;
  mine->us = clocks_of(p, t, m, mine->blocks) / 1700;
  snprintf(plan->words, sizeof plan->words, "%d x %d pixels, %d filters a tile%s: %d stages, %d tiles", t->rows, t->columns, m * WGMMA_M,
           t->resident ? ", which stay" : "", t->stages.by, t->tiles);
  const cudaError_t status = plan_allow_shared((const void *)mine->kernel, (size_t)mine->shared);
  return status ? plan_failed(plan, status) : NULL;
}

static cudaError_t launch_separable(const conv_plan *plan, const conv_buffers *each, cudaStream_t stream) {
  const separable_plan *mine = plan_data<separable_plan>(plan);
  const conv_buffers *a = &each[0], *b = &each[1];
  CUtensorMap halos, filter_tiles, residuals, results;
  cudaError_t status = map_at(&halos, &mine->halos, a->x);
  if (!status) status = map_at(&filter_tiles, &mine->filter_tiles, b->w);
  if (!status) status = map_at(&residuals, &mine->results, mine->second.residual ? (void *)b->residual : b->y);
  if (!status) status = map_at(&results, &mine->results, b->y);
  if (status) return status;
  return launch_kernel({.grid = dim3(mine->blocks), .block = dim3(threads(mine->multipliers)), .shared = (size_t)mine->shared, .stream = stream, .early = true},
                       mine->kernel, mine->problem, mine->filters, mine->cut, finish_of(&mine->first, a->scale, a->bias),
                       finish_of(&mine->second, b->scale, b->bias), (const __half *)a->w, halos, filter_tiles, residuals, results);
}

/* Every part of the filters computes the depthwise layer. */
static void facts_separable(const conv_chain *chain, const conv_plan *plan, chain_facts *facts) {
  const separable_plan *mine = plan_data<separable_plan>(plan);
  const double again = (mine->cut.parts.by - 1) * (double)problem_macs(&chain->operation[0].problem);
  *facts = {(const void *)mine->kernel, mine->blocks, threads(mine->multipliers), mine->shared, mine->cut.tiles, again, mine->us};
}

static double growth_separable(const conv_chain *chain, int index, bool random) {
  return index == 0 ? growth_truncated(TAPS * (8 + 1), random) : growth_steps(&chain->operation[1].problem, random);
}

extern "C" const chain_kernel separable_chain;
const chain_kernel separable_chain = {.name = "07g",
                                      .idea = "depthwise 3x3, then 1x1: threads make the operand of the products",
                                      .count = 2,
                                      .dtype = DTYPE_FP16,
                                      .layout = LAYOUT_NHWC,
                                      .min_arch = 90,
                                      .plan = plan_separable,
                                      .launch = launch_separable,
                                      .facts = facts_separable,
                                      .growth = growth_separable};
