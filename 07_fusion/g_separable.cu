/* 07g: a depthwise 3 x 3 and the 1 x 1 behind it: threads make the operand that tensor cores take.
 *
 * Terms:    depthwise separable convolution, operator fusion, heterogeneous units (CUDA cores beside tensor cores).
 * Idea:     a depthwise layer's results are few sums, 9 products each, which threads do as fast as bytes come; a product wants them as [pixel][64 channels], swizzled. So threads
 *           put them there, 64 channels of 64 pixels at a time, and while tensor cores multiply these, make the next 64 channels. What lies between is never written: of 183 MB
 *           that two kernels move for 64 images of 56 x 56, 144 channels to 24, 67 are left.
 *
 *               halo tile, 64 channels -> 9 products a channel, finish -> [pixel][64] -> x filters -> sums, over all channels -> finish -> box -> y
 *
 * Roles:    a warpgroup for the copy engine: x and filters of 64 channels a stage; residuals. Two consumers with 64 pixels of the tile each: its upper and its lower half, or one of two images.
 * Thread:   8 channels, which are 16 bytes, of 4 pixels below each other: six rows of three pixels, each read and converted once, for 36 products.
 * Expect:   (before anything ran on a GPU) the layer above: threads decide. 4 pixels of 8 channels are 288 products, 144 conversions and some 170 others: 37000 clocks, 21 us; bytes 16. Two
 *           kernels: 27 + 16.
 * Chain:    fprop, two operations: depthwise 3 x 3 with stride 1 or 2; 1 x 1 with up to 384 filters. For every 128 filters (64, where a stride makes tiles large) the first is
 *           computed once more. Activations without exponentials. Layout: NHWC, filters KRSC, fp16 with fp32 sums; channels: multiples of 8. */
#include <math.h>

#include "07_fusion/finish.cuh"
#include "common/harness/chain.h"
#include "common/harness/launch.h"

static constexpr int CONSUMERS = 2, BLOCK = (1 + CONSUMERS) * THREADS, TAP = WGMMA_M * ROW, PIXELS = 64 /* of a consumer */, EACH = 4 /* rows of a thread */;
static constexpr int OPERAND = PIXELS * ROW, MOST_STAGES = 4, TAPS = 9, TABLE = 2 * TAPS + 8 /* bytes of a channel: filters, scale, bias */, MOST_FILTERS = 384;

/* A tile: two times `rows` x `columns` pixels, below each other or of two images; a part of the filters; its halo tile has wide x high pixels an image. */
typedef struct tile_cut {
  divisor parts, by_q, by_p;
  int rows, columns, images, wide, high, chunks, tiles, stages, stage, pixels /* bytes of a stage's x */;
} tile_cut;

/* Where a tile begins, and a consumer's half of it. */
typedef struct corner {
  int k, q, p, n;
} corner;

template <int M> static __device__ __forceinline__ corner corner_at(const tile_cut &t, int i, int half) {
  const int of_k = divide(i, t.parts), of_q = divide(of_k, t.by_q), n = divide(of_q, t.by_p);
  return {(i - of_k * t.parts.by) * M * WGMMA_M, (of_k - of_q * t.by_q.by) * t.columns,
          (of_q - n * t.by_p.by) * t.rows * (CONSUMERS / t.images) + (t.images > 1 ? 0 : half * t.rows), n * t.images + (t.images > 1 ? half : 0)};
}

/* The depthwise layer's filters, scales and biases, as they lie in memory, one after the other. By one thread; full: the barrier that they complete. */
static __device__ __forceinline__ void load_table(const finish &f, const __half *w, int channels, ptx_shared table, ptx_shared full) {
  const int of_w = channels * TAPS * 2, of_floats = channels * 4; /* bytes: multiples of 16, as C is one of 8 */
  ptx_mbarrier_arrive_expect_tx(full, of_w + (f.scale ? of_floats : 0) + (f.bias ? of_floats : 0));
  ptx_bulk_load(table, w, of_w, full);
  if (f.scale) ptx_bulk_load(table + of_w, f.scale, of_floats, full);
  if (f.bias) ptx_bulk_load(table + of_w + of_floats, f.bias, of_floats, full);
}

/* A warp's diagonals, of 16 channels and 9 taps: of each matrix [16 channels][16 channels] a lane has at most two elements that are not zero. And its channels' scales and biases. */
typedef struct diagonals {
  unsigned upper[TAPS], lower[TAPS];
  channel_pair channels;
} diagonals;

static __device__ __forceinline__ diagonals load_diagonals(const finish &f, const unsigned char *table, int first, int channels) {
  const int lane = threadIdx.x % 32, row = lane / 4;
  const bool diagonal = row / 2 == lane % 4; /* the lane that has column `row` of row `row` */
  const unsigned short *const w = (const unsigned short *)table;
  const float *const floats = (const float *)(table + channels * TAPS * 2);
  diagonals d;
#pragma unroll
  for (int half = 0; half < 2; half++) {
    const int c = first + row + 8 * half;
    const bool inside = c < channels;
#pragma unroll
    for (int tap = 0; tap < TAPS; tap++) (half ? d.lower : d.upper)[tap] = diagonal && inside ? (unsigned)w[c * TAPS + tap] << row % 2 * 16 : 0;
    d.channels.scale[half] = f.scale && inside ? floats[c] : 1, d.channels.bias[half] = f.bias && inside ? floats[channels + c] : 0;
  }
  return d;
}

/* By a consumer's warp: UNITS times 4 rows of 8 results, of 16 channels, finished, to the operand. A unit is a half of the consumer's 64 pixels: its left or its upper one. group: which 16 of
 * the 64 channels. Pixels past the halo tile give results that nobody wants: any will do. */
template <int STRIDE, int UNITS>
static __device__ __forceinline__ void depthwise(const tile_cut &t, const finish &f, const diagonals &d, int group, int first_unit, ptx_shared x, int half, ptx_shared to) {
  constexpr int ROWS = (EACH - 1) * STRIDE + 3; /* of x */
  const int lane = threadIdx.x % 32, chunk = 2 * group + lane / 8 % 2, image = t.images > 1 ? half * t.high : 0, above = t.images > 1 ? 0 : half * t.rows;
  float sum[UNITS][EACH][4] = {};
  int first_row[UNITS], first_column[UNITS];
#pragma unroll
  for (int u = 0; u < UNITS; u++) {
    const bool second = first_unit + u > 0;
    first_row[u] = second && t.columns == 8 ? EACH : 0, first_column[u] = second && t.columns > 8 ? 8 : 0;
  }
#pragma unroll
  for (int i = 0; i < ROWS; i += 2) /* two rows of x at a time */
#pragma unroll
    for (int s = 0; s < 3; s++) {
      unsigned pixels[UNITS][4];
#pragma unroll
      for (int u = 0; u < UNITS; u++) {
        const int row = image + min((above + first_row[u]) * STRIDE + i + lane / 16, t.high - 1), column = min((first_column[u] + lane % 8) * STRIDE + s, t.wide - 1);
        ptx_ldmatrix_x4(pixels[u], x + swizzled(row * t.wide + column, chunk));
      }
#pragma unroll
      for (int o = 0; o < EACH; o++)
#pragma unroll
        for (int j = 0; j < 2; j++) {
          const int r = i + j - o * STRIDE; /* of the window of result o */
          if (i + j >= ROWS || r < 0 || r > 2) continue;
          const unsigned diagonal[4] = {d.upper[r * 3 + s], 0, 0, d.lower[r * 3 + s]};
#pragma unroll
          for (int u = 0; u < UNITS; u++) {
            const unsigned eight[2] = {pixels[u][2 * j], pixels[u][2 * j + 1]};
            ptx_mma_m16n8k16(sum[u][o], diagonal, eight);
          }
        }
    }
#pragma unroll
  for (int u = 0; u < UNITS; u++)
#pragma unroll
    for (int o = 0; o < EACH; o += 2) { /* two rows of results */
      unsigned part[4];
#pragma unroll
      for (int j = 0; j < 4; j++)
        part[j] = finished<false, false>(make_float2(sum[u][o + j / 2][j % 2 * 2], sum[u][o + j / 2][j % 2 * 2 + 1]), d.channels.scale[j % 2], d.channels.bias[j % 2], 0, f);
      ptx_stmatrix_x4_trans(to + swizzled((first_row[u] + o + lane / 16) * t.columns + first_column[u] + lane % 8, chunk), part);
    }
}

/* By a consumer: 64 channels of its pixels, from `first` on, 16 to a warp; where there are at most 32, two warps share 16. Zeros for channels that are none. */
template <int STRIDE>
static __device__ __forceinline__ void make_operand(const tile_cut &t, const finish &f, const unsigned char *table, int first, int channels, ptx_shared x, int half,
                                                    unsigned char *to) {
  const int groups = min((channels - first + 15) / 16, BK / 16), warp = uniform(threadIdx.x / 32 % 4);
  const ptx_shared at = ptx_shared_address(to);
  const int group = groups > 2 ? warp : groups == 2 ? warp / 2 : 0;
  if (groups > 2 ? warp < groups : warp < 2 * groups) {
    const diagonals d = load_diagonals(f, table, first + group * 16, channels);
    if (groups <= 2) depthwise<STRIDE, 1>(t, f, d, group, warp % 2, x, half, at);
    else if (STRIDE == 1) depthwise<STRIDE, 2>(t, f, d, group, 0, x, half, at);
    else /* one unit after the other: registers */
#pragma unroll 1
      for (int unit = 0; unit < 2; unit++) depthwise<STRIDE, 1>(t, f, d, group, unit, x, half, at);
  }
  for (int i = threadIdx.x % THREADS; i < PIXELS * (CHUNKS - 2 * groups); i += THREADS) *(uint4 *)(to + swizzled(i % PIXELS, 2 * groups + i / PIXELS)) = uint4();
  __syncwarp();
}

/* M: times 64 filters of a tile. */
template <int M, int STRIDE>
__global__ void __launch_bounds__(BLOCK, 1) separable_kernel(conv_problem p, int filters, tile_cut t, finish first, finish second, const __half *__restrict__ w,
                                                             const __grid_constant__ CUtensorMap halos, const __grid_constant__ CUtensorMap filter_tiles,
                                                             const __grid_constant__ CUtensorMap residuals, const __grid_constant__ CUtensorMap results) {
  extern __shared__ __align__(1024) unsigned char shared[]; /* operands [consumer][2], boxes [consumer][M], stages, the table */
  __shared__ unsigned long long barriers[2 * MOST_STAGES + 2 * CONSUMERS + 1];
  const int role = uniform(threadIdx.x / THREADS), of_boxes = CONSUMERS * 2 * OPERAND, of_stages = of_boxes + CONSUMERS * M * OPERAND;
  unsigned char *const table = shared + of_stages + t.stages * t.stage;
  const ring r = {ptx_shared_address(barriers), ptx_shared_address(barriers + MOST_STAGES)};
  const ring of_box = {ptx_shared_address(barriers + 2 * MOST_STAGES), ptx_shared_address(barriers + 2 * MOST_STAGES + CONSUMERS)};
  const ptx_shared at = ptx_shared_address(shared), table_full = ptx_shared_address(barriers + 2 * MOST_STAGES + 2 * CONSUMERS);
  if (threadIdx.x == 0) {
    ptx_griddepcontrol_launch_dependents(); /* the next kernel may begin */
    ptx_prefetch_tensormap(&halos), ptx_prefetch_tensormap(&filter_tiles);
    ptx_mbarrier_init(table_full, 1);
    ring_begin(of_box, CONSUMERS, 1);
    ring_begin(r, t.stages, CONSUMERS * THREADS / 32);
  }
  __syncthreads();           /* barriers are there */
  ptx_griddepcontrol_wait(); /* what the kernel before wrote is there */

  slot s = {0, 0};
  if (role == 0) { /* the producers: of x and filters; of each consumer's residuals */
    ptx_setmaxnreg_dec<56>();
    const int warp = uniform(threadIdx.x / 32);
    if (threadIdx.x % 32 != 0 || warp > (second.residual ? CONSUMERS : 0)) return;
    if (warp == 0) load_table(first, w, p.C, ptx_shared_address(table), table_full);
    unsigned parity = 1;
    for (int i = blockIdx.x; i < t.tiles; i += gridDim.x, parity ^= 1) {
      const corner c = corner_at<M>(t, i, max(warp - 1, 0));
      if (warp > 0) {
        ptx_mbarrier_wait(of_box.empty + 8 * (warp - 1), parity);
        ptx_mbarrier_arrive_expect_tx(of_box.full + 8 * (warp - 1), M * OPERAND);
        for (int m = 0; m < M; m++)
          ptx_tensor_load(at + of_boxes + ((warp - 1) * M + m) * OPERAND, &residuals, {c.k + m * WGMMA_M, c.q, c.p, c.n}, of_box.full + 8 * (warp - 1));
        continue;
      }
      for (int chunk = 0; chunk < t.chunks; chunk++, s = next_slot(s, t.stages)) {
        const ptx_shared stage = at + of_stages + s.stage * t.stage, full = r.full + 8 * s.stage;
        ptx_mbarrier_wait(r.empty + 8 * s.stage, s.parity ^ 1);
        ptx_mbarrier_arrive_expect_tx(full, t.wide * t.high * t.images * ROW + M * TAP);
        ptx_tensor_load(stage, &halos, {chunk * BK, c.q * STRIDE - p.pad_left, c.p * STRIDE - p.pad_top, c.n}, full);
        for (int m = 0; m < M; m++) ptx_tensor_load(stage + t.pixels + m * TAP, &filter_tiles, {chunk * BK, 0, c.k + m * WGMMA_M}, full);
      }
    }
    return;
  }

  ptx_setmaxnreg_inc<224>();
  const int me = role - 1; /* of the consumers */
  const bool stores = threadIdx.x % THREADS == 0, first_lane = threadIdx.x % 32 == 0;
  const ptx_shared boxes = at + of_boxes + me * M * OPERAND;
  unsigned parity = 0;
  ptx_mbarrier_wait(table_full, 0);
  for (int i = blockIdx.x; i < t.tiles; i += gridDim.x, parity ^= 1) {
    const corner c = corner_at<M>(t, i, me);
    float sum[M][PIXELS / 2] = {};
    int before = 0;
    for (int chunk = 0; chunk < t.chunks; chunk++, before = s.stage, s = next_slot(s, t.stages)) {
      const int stage = of_stages + s.stage * t.stage, operand = (2 * me + chunk % 2) * OPERAND;
      ptx_mbarrier_wait(r.full + 8 * s.stage, s.parity);
      make_operand<STRIDE>(t, first, table, chunk * BK, p.C, at + stage, me, shared + operand);
      ptx_fence_proxy_async(); /* written by threads, read by wgmma */
      ptx_wgmma_wait<0>();
      if (first_lane && chunk > 0) ptx_mbarrier_arrive(r.empty + 8 * before); /* its products are done */
      if (stores && chunk == 0) {
        ptx_bulk_wait_read<0>(); /* the tile before has left */
        if (second.residual && i > (int)blockIdx.x) ptx_mbarrier_arrive(of_box.empty + 8 * me);
      }
      ptx_bar_sync(2 + me, THREADS); /* the operand is there, and nobody reads the one before any more */
      multiply<false>(sum, at + stage + t.pixels, at + operand);
    }
    ptx_wgmma_wait<0>();
    if (first_lane) ptx_mbarrier_arrive(r.empty + 8 * before);
    if (second.residual) ptx_mbarrier_wait(of_box.full + 8 * me, parity);
    ptx_bar_sync(2 + me, THREADS);
#pragma unroll
    for (int m = 0; m < M; m++) put_finished<PIXELS, false>(sum[m], channels_of(second, c.k + m * WGMMA_M, filters), second, boxes + m * OPERAND);
    ptx_fence_proxy_async();
    ptx_bar_sync(2 + me, THREADS); /* the boxes are there */
    if (stores) {
      for (int m = 0; m < M; m++) ptx_tensor_store(&results, {c.k + m * WGMMA_M, c.q, c.p, c.n}, boxes + m * OPERAND);
      ptx_bulk_commit();
    }
  }
  if (stores) ptx_bulk_wait_read<0>(); /* shared memory may go; what is written is there when the grid ends */
}

/* ---------------------------------------------------------------- host */

typedef void separable_function(conv_problem p, int filters, tile_cut t, finish first, finish second, const __half *w, CUtensorMap halos,
                                CUtensorMap filter_tiles, CUtensorMap residuals, CUtensorMap results);
enum { MOST_M = 2 };
static separable_function *const instances[MOST_M][2] = {{separable_kernel<1, 1>, separable_kernel<1, 2>}, {separable_kernel<2, 1>, separable_kernel<2, 2>}};

typedef struct separable_plan {
  CUtensorMap halos, filter_tiles, results;
  conv_problem problem; /* the first */
  conv_epilogue first, second;
  separable_function *kernel;
  tile_cut cut;
  int filters, blocks, shared;
} separable_plan;

/* The cut into tiles of so many columns, images and times 64 filters. Returns bytes of shared memory, or 0: two stages do not fit. */
static int64_t try_tiles(const conv_problem *p, int filters, int columns, int images, int m, int64_t room, tile_cut *t) {
  t->columns = columns, t->rows = PIXELS / columns, t->images = images;
  const int high = t->rows * (CONSUMERS / images), shown = p->P < high ? p->P : high;
  t->wide = ((p->Q < columns ? p->Q : columns) - 1) * p->stride_w + 3, t->high = (shown - 1) * p->stride_h + 3;
  t->pixels = (t->wide * t->high * images * ROW + 1023) / 1024 * 1024, t->stage = t->pixels + m * TAP;
  t->chunks = (p->C + BK - 1) / BK;
  const int64_t others = CONSUMERS * (2 + m) * OPERAND + (int64_t)TABLE * p->C, fit = (room - others) / t->stage;
  const int parts = (filters + m * WGMMA_M - 1) / (m * WGMMA_M);
  t->stages = fit < MOST_STAGES ? (int)fit : MOST_STAGES;
  t->parts = divisor_of(parts), t->by_q = divisor_of((p->Q + columns - 1) / columns), t->by_p = divisor_of((p->P + high - 1) / high);
  const int64_t tiles = (int64_t)parts * t->by_q.by * t->by_p.by * ((p->N + images - 1) / images);
  t->tiles = (int)tiles;
  return fit < 2 || tiles > INT_MAX ? 0 : others + t->stages * t->stage;
}

/* The cut whose busiest multiprocessor has the least to do: by tiles and 64 channels, results of threads and products. Returns shared memory, or 0. */
static int64_t best_tiles(const conv_problem *p, int filters, const conv_device *device, tile_cut *best, int *best_m) {
  int64_t least = INT64_MAX, shared = 0;
  for (int m = 1; m <= MOST_M; m++)
    for (int columns = 8; columns <= 16; columns *= 2)
      for (int images = 1; images <= (p->P <= PIXELS / columns ? 2 : 1); images++) {
        tile_cut t;
        const int64_t bytes = try_tiles(p, filters, columns, images, m, (int64_t)device->shared_per_block - 1024, &t);
        const int64_t cost = ((t.tiles + device->sm_count - 1) / device->sm_count) * ((int64_t)p->C * (p->stride_h > 1 ? 1500 : 1000) / BK + (t.chunks * 130 + 300) * m);
        if (bytes > 0 && cost < least) least = cost, shared = bytes, *best = t, *best_m = m;
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
  if (!mine->shared) return "two stages do not fit in shared memory";
  mine->problem = *p, mine->filters = q->K, mine->first = a->epilogue, mine->second = b->epilogue;
  mine->kernel = instances[m - 1][p->stride_h - 1];
  mine->blocks = t->tiles < device->sm_count ? t->tiles : device->sm_count;
  const cuuint64_t x_size[4] = {(cuuint64_t)p->C, (cuuint64_t)p->W, (cuuint64_t)p->H, (cuuint64_t)p->N},
                   y_size[4] = {(cuuint64_t)q->K, (cuuint64_t)q->Q, (cuuint64_t)q->P, (cuuint64_t)q->N};
  const cuuint32_t x_box[4] = {BK, (cuuint32_t)t->wide, (cuuint32_t)t->high, (cuuint32_t)t->images},
                   y_box[4] = {WGMMA_M, (cuuint32_t)t->columns, (cuuint32_t)t->rows, 1};
  why = map_tiles(plan, &mine->halos, "x", 4, x_size, x_box);
  if (!why) why = map_filters(plan, &mine->filter_tiles, q, WGMMA_M);
  if (!why) why = map_tiles(plan, &mine->results, "y", 4, y_size, y_box);
  if (why) return why;
  snprintf(plan->words, sizeof plan->words, "%d x %d pixels%s, %d filters a tile: %d stages, %d tiles", t->rows * CONSUMERS / t->images, t->columns,
           t->images > 1 ? " of two images" : "", m * WGMMA_M, t->stages, t->tiles);
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
  return launch_kernel({.grid = dim3(mine->blocks), .block = dim3(BLOCK), .shared = (size_t)mine->shared, .stream = stream, .early = true}, mine->kernel,
                       mine->problem, mine->filters, mine->cut, finish_of(&mine->first, a->scale, a->bias), finish_of(&mine->second, b->scale, b->bias),
                       (const __half *)a->w, halos, filter_tiles, residuals, results);
}

/* Every part of the filters computes the depthwise layer. */
static void facts_separable(const conv_chain *chain, const conv_plan *plan, chain_facts *facts) {
  const separable_plan *mine = plan_data<separable_plan>(plan);
  const double again = (mine->cut.parts.by - 1) * (double)problem_macs(&chain->operation[0].problem);
  const int rounds = (mine->cut.tiles + mine->blocks - 1) / mine->blocks;
  const double us = rounds * mine->cut.chunks * (mine->problem.stride_h > 1 ? 3.2 : 2.3);
  *facts = {(const void *)mine->kernel, mine->blocks, BLOCK, mine->shared, mine->cut.tiles, again, us};
}

static double growth_separable(const conv_chain *chain, int index, bool random) {
  return index == 0 ? growth_truncated(TAPS * (16 + 1), random) : growth_steps(&chain->operation[1].problem, random);
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
