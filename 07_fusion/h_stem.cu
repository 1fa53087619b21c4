/* 07h: the first layer and the max-pooling behind it: rows stay until all windows that look at them have passed.
 *
 * Terms:    stem, line buffer, sliding window over rows, operator fusion.
 * Idea:     ResNet's first layer writes 112 x 112 pixels of 64 channels, the largest tensor of the network, only to have three quarters of it thrown away. A row of pooled
 *           pixels needs three rows of these, and the next one two new ones: so a consumer walks down a strip of the image, keeps three rows in shared memory, and what
 *           leaves is the row of maxima. Of 1002 MB that two kernels move for 256 images 180 are left. A strip begins with a row that the strip above has, too: one in 15, say, is computed twice.
 *
 *               rows of the convolution  ... 2k-1 | 2k | 2k+1 | ...        row k of the result: the largest of three by three
 *                                            kept   new   new -> kept
 *
 * Roles:    06s's: a warpgroup makes pairs of x; each of two consumers walks down a strip of its own, so that one takes maxima while the other multiplies.
 * Change:   against 06s strips; the epilogue (07a); the rows that stay, and maxima of halves.
 * Expect:   (before anything ran on a GPU) 256 images: shared memory decides: a row of maxima costs two rows' products (1230 clocks of operands), 224 for their results, 500 for
 *           the nine values of a maximum: 140 us, where the bytes need 42.
 * Chain:    fprop, two operations: a first layer as 06s's, with an even stride, up to 64 filters and 160 columns of results; max-pooling of 3 x 3 with a stride of 2 and padding
 *           of 1 before the image. Activations without exponentials. Layout: NHWC, filters KRSC, fp16 with fp32 sums. */
#include <math.h>

#include "06_tensorcore_fp16/pair_filters.cuh"
#include "07_fusion/finish.cuh"
#include "common/harness/chain.h"
#include "common/harness/launch.h"

static constexpr int KEPT = 3 /* rows */, MOST_STAGES = 4;

/* Strips of `length` pooled rows, `each` to an image; `rows`, `columns`: pooled, of an image. */
typedef struct strip_cut {
  pair_steps steps;
  divisor each;
  int length, strips, rows, columns, stages;
} strip_cut;

/* Where a consumer's walk is: pooled row k of image n. The first tile of a strip is the one above it, for the row that is kept. */
typedef struct strip {
  int n, first;
} strip;

static __device__ __forceinline__ strip strip_at(const strip_cut &t, int i) {
  const int n = divide(i, t.each);
  return {n, (i - n * t.each.by) * t.length};
}

/* The tile of two rows of the convolution that pooled row k needs; some tile, where there is none. */
static __device__ __forceinline__ int tile_of_row(const strip_cut &t, const strip &s, int k) {
  return s.n * t.steps.in.by_p.by + min(max(k, 0), t.steps.in.by_p.by - 1);
}

/* By a consumer: pooled row k, eight channels of a pixel at a time, out of the rows that are there. */
template <int N>
static __device__ __forceinline__ void pool_row(const conv_problem &p, const strip_cut &t, const unsigned char *rows, int n, int k, __half *y) {
  const __half2 lowest = __half2half2(__ushort_as_half(0xfc00)); /* minus infinity */
  for (int i = threadIdx.x % THREADS; i < t.columns * CHUNKS; i += THREADS) {
    const int q = i / CHUNKS, chunk = i % CHUNKS;
    if (chunk * CHUNK >= p.K) continue;
    __half2 most[CHUNK / 2] = {lowest, lowest, lowest, lowest};
    for (int row = max(2 * k - 1, 0); row <= min(2 * k + 1, p.P - 1); row++)
      for (int column = max(2 * q - 1, 0); column <= min(2 * q + 1, p.Q - 1); column++) {
        const uint4 eight = *(const uint4 *)(rows + row % KEPT * N * ROW + swizzled(column, chunk));
        const unsigned words[4] = {eight.x, eight.y, eight.z, eight.w};
#pragma unroll
        for (int j = 0; j < CHUNK / 2; j++)
          most[j] = __hmax2(most[j], __halves2half2(__ushort_as_half((unsigned short)words[j]), __ushort_as_half((unsigned short)(words[j] >> 16))));
      }
    unsigned words[4];
#pragma unroll
    for (int j = 0; j < CHUNK / 2; j++) words[j] = __half_as_ushort(__low2half(most[j])) | (unsigned)__half_as_ushort(__high2half(most[j])) << 16;
    *(uint4 *)(y + (((int64_t)n * t.rows + k) * t.columns + q) * p.K + chunk * CHUNK) = make_uint4(words[0], words[1], words[2], words[3]);
  }
  __syncwarp();
}

/* N: positions of a product. */
template <int N>
__global__ void __launch_bounds__((1 + CONSUMERS) * THREADS, 1)
    stem_kernel(conv_problem p, strip_cut t, finish f, const __half *__restrict__ x, const __half *__restrict__ w, __half *__restrict__ y) {
  extern __shared__ __align__(1024) unsigned char shared[];
  __shared__ unsigned long long barriers[2 * MOST_STAGES + RAW_STAGES];
  const pair_cut &in = t.steps.in;
  unsigned char *const filters = shared + CONSUMERS * KEPT * N * ROW, *const stages = filters + t.steps.steps * STEP, *const raw = stages + t.stages * in.stage;
  const ring r = {ptx_shared_address(barriers), ptx_shared_address(barriers + MOST_STAGES)};
  const ptx_shared raw_full = ptx_shared_address(barriers + 2 * MOST_STAGES);
  const int role = uniform(threadIdx.x / THREADS);
  if (threadIdx.x == 0) {
    ptx_griddepcontrol_launch_dependents(); /* the next kernel may begin */
    for (int i = 0; i < RAW_STAGES; i++) ptx_mbarrier_init(raw_full + 8 * i, 1);
    ring_begin(r, t.stages, 1);
  }
  __syncthreads();           /* barriers are there */
  ptx_griddepcontrol_wait(); /* what the kernel before wrote is there */

  slot s = {0, 0};
  if (role == 0) { /* pairs, of both consumers' tiles in turn; x comes one tile ahead for each */
    unsigned parity = 0;
    if (threadIdx.x == 0 && blockIdx.x * CONSUMERS < t.strips)
      for (int c = 0; c < CONSUMERS; c++) {
        const strip of = strip_at(t, min(blockIdx.x * CONSUMERS + c, t.strips - 1));
        load_raw(p, in, x, tile_of_row(t, of, of.first - 1), ptx_shared_address(raw) + c * in.raw, raw_full + 8 * c);
      }
    __syncwarp();
    for (int pair = blockIdx.x; pair * CONSUMERS < t.strips; pair += gridDim.x)
      for (int step = 0; step <= t.length; step++, parity ^= 1)
        for (int c = 0; c < CONSUMERS; c++, s = next_slot(s, t.stages)) {
          const strip of = strip_at(t, min(pair * CONSUMERS + c, t.strips - 1));
          ptx_mbarrier_wait(raw_full + 8 * c, parity);
          ptx_mbarrier_wait(r.empty + 8 * s.stage, s.parity ^ 1);
          expand(p, in, tile_of_row(t, of, of.first - 1 + step), -p.pad_left, raw + c * in.raw, stages + s.stage * in.stage);
          ptx_fence_proxy_async(); /* written by threads, read by wgmma */
          ptx_bar_sync(4, THREADS);
          if (threadIdx.x > 0) continue;
          ptx_mbarrier_arrive(r.full + 8 * s.stage); /* the pairs are there, and nobody reads x any more */
          const bool last = step == t.length;
          const int next_pair = last ? pair + gridDim.x : pair;
          if (next_pair * CONSUMERS >= t.strips) continue;
          const strip next = strip_at(t, min(next_pair * CONSUMERS + c, t.strips - 1));
          load_raw(p, in, x, tile_of_row(t, next, next.first + (last ? -1 : step)), ptx_shared_address(raw) + c * in.raw, raw_full + 8 * c);
        }
    return;
  }

  put_pair_filters(p, t.steps, 0, 1, w, filters);
  ptx_fence_proxy_async();
  ptx_bar_sync(1, CONSUMERS * THREADS); /* filters are there */
  const int me = role - 1;              /* of the consumers */
  const channel_pair channels = channels_of(f, 0, p.K);
  unsigned char *const rows = shared + me * KEPT * N * ROW;
  const unsigned long long of_a = ptx_wgmma_descriptor(ptx_shared_address(filters), WGMMA_M * PAIR, 8 * PAIR, PTX_SWIZZLE_NONE);
  for (int pair = blockIdx.x; pair * CONSUMERS < t.strips; pair += gridDim.x) {
    const strip of = strip_at(t, min(pair * CONSUMERS + me, t.strips - 1));
    for (int step = 0; step <= t.length; step++) {
      const int k = of.first - 1 + step;
      const slot mine = me == 0 ? s : next_slot(s, t.stages);
      s = next_slot(next_slot(s, t.stages), t.stages);
      ptx_mbarrier_wait(r.full + 8 * mine.stage, mine.parity);
      for (int row = step == 0 ? 1 : 0; row < 2; row++) {
        if (2 * k + row < 0 || 2 * k + row >= p.P) continue;
        const unsigned long long of_b =
            ptx_wgmma_descriptor(ptx_shared_address(stages) + mine.stage * in.stage + row * p.stride_h * in.row, 0, 8 * PAIR, PTX_SWIZZLE_NONE);
        float sum[N / 2];
        multiply_pairs(sum, t.steps, of_a, of_b);
        ptx_wgmma_wait<0>();
        ptx_bar_sync(2 + me, THREADS); /* the pooled rows that need the row in its place are done */
        put_results<N, false, false>(sum, channels, f, ptx_shared_address(rows) + (2 * k + row) % KEPT * N * ROW);
      }
      ptx_bar_sync(2 + me, THREADS); /* rows are there, and nobody reads the pairs any more */
      if (threadIdx.x % THREADS == 0) ptx_mbarrier_arrive(r.empty + 8 * mine.stage);
      __syncwarp();
      if (step > 0 && k < t.rows && pair * CONSUMERS + me < t.strips) pool_row<N>(p, t, rows, of.n, k, y);
    }
  }
}

/* ---------------------------------------------------------------- host */

typedef void stem_function(conv_problem p, strip_cut t, finish f, const __half *x, const __half *w, __half *y);
typedef struct instance {
  int n;
  stem_function *kernel;
} instance;
#define ROW_OF(N) \
  { N, stem_kernel<N> }
static const instance instances[] = {ROW_OF(16), ROW_OF(32), ROW_OF(56), ROW_OF(80), ROW_OF(112), ROW_OF(160)};

typedef struct stem_plan {
  conv_problem problem;
  conv_epilogue epilogue;
  strip_cut cut;
  const instance *row;
  int blocks, shared;
} stem_plan;

/* Strips for as many consumers as there are, or twice as many ..., such that the one with most rows has the fewest. */
static void choose_strips(int images, int sm_count, strip_cut *t) {
  int64_t least = INT64_MAX;
  for (int each = 1; each <= t->rows; each++) {
    const int length = (t->rows + each - 1) / each, used = (t->rows + length - 1) / length;
    const int64_t strips = (int64_t)images * used, rounds = (strips + CONSUMERS * sm_count - 1) / (CONSUMERS * sm_count), cost = rounds * (2 * length + 1);
    if (cost < least) least = cost, t->length = length, t->strips = (int)strips, t->each = divisor_of(used);
  }
}

static const char *plan_stem(const conv_chain *chain, const conv_device *device, conv_plan *plan) {
  const conv_operation *a = &chain->operation[0], *b = &chain->operation[1];
  const conv_problem *p = &a->problem, *pool = &b->problem;
  if (device->arch / 10 != 9) return "wgmma: only compute capability 9.0 has it";
  if (a->kind != OPERATION_CONVOLUTION || b->kind != OPERATION_MAX_POOL || a->epilogue.fp32 || !epilogue_empty(&b->epilogue))
    return "no first layer and pooling";
  if (is_smooth(a->epilogue.activation)) return "an activation with an exponential";
  if (pool->R != 3 || pool->S != 3 || pool->stride_h != 2 || pool->stride_w != 2 || pool->pad_top != 1 || pool->pad_left != 1 || pool->dil_h > 1 ||
      pool->dil_w > 1)
    return "pooling is not 3x3 with a stride of 2 and padding of 1";
  if (2 * (pool->P - 1) > p->P || 2 * (pool->Q - 1) > p->Q) return "pooling sees nothing but padding";
  stem_plan *mine = plan_data<stem_plan>(plan);
  strip_cut *t = &mine->cut;
  const char *why = pair_windows(p, &t->steps.in);
  if (!why) why = plain_unsupported(p, device);
  if (why) return why;
  if (t->steps.in.fold > 1) return "an odd stride";
  if (p->K > WGMMA_M) return "more than 64 filters";
  if (p->Q > instances[sizeof instances / sizeof *instances - 1].n) return "more than 160 columns";
  if ((int64_t)p->R * t->steps.in.pairs > 2 * MOST_STEPS) return "filters of more than 128 pairs of pixels";
  mine->row = instances;
  while (mine->row->n < p->Q) mine->row++;
  t->steps.steps = (p->R * t->steps.in.pairs + 1) / 2, t->steps.by_k = divisor_of(p->K);
  t->rows = pool->P, t->columns = pool->Q;
  const int n = mine->row->n;
  if (!pair_tiles(p, 2, n + (t->steps.in.pairs - 1) / t->steps.in.planes, &t->steps.in)) return "two tiles do not fit in shared memory";
  const int64_t others = (int64_t)CONSUMERS * KEPT * n * ROW + t->steps.steps * STEP + RAW_STAGES * t->steps.in.raw;
  const int64_t fit = ((int64_t)device->shared_per_block - 1024 - others) / t->steps.in.stage;
  if (fit < CONSUMERS) return "two tiles do not fit in shared memory";
  t->stages = fit > MOST_STAGES ? MOST_STAGES : (int)fit;
  put_steps(p, &t->steps);
  choose_strips(p->N, device->sm_count, t);
  mine->problem = *p, mine->epilogue = a->epilogue, mine->shared = (int)others + t->stages * t->steps.in.stage;
  mine->blocks = (t->strips + CONSUMERS - 1) / CONSUMERS < device->sm_count ? (t->strips + CONSUMERS - 1) / CONSUMERS : device->sm_count;
  snprintf(plan->words, sizeof plan->words, "%d strips of %d rows: %d products of %d, %d stages", t->strips, t->length, t->steps.steps, n, t->stages);
  const cudaError_t status = plan_allow_shared((const void *)mine->row->kernel, (size_t)mine->shared);
  return status ? plan_failed(plan, status) : NULL;
}

static cudaError_t launch_stem(const conv_plan *plan, const conv_buffers *each, cudaStream_t stream) {
  const stem_plan *mine = plan_data<stem_plan>(plan);
  const conv_buffers *a = &each[0], *b = &each[1];
  return launch_kernel({.grid = dim3(mine->blocks), .block = dim3((1 + CONSUMERS) * THREADS), .shared = (size_t)mine->shared, .stream = stream, .early = true},
                       mine->row->kernel, mine->problem, mine->cut, finish_of(&mine->epilogue, a->scale, a->bias), (const __half *)a->x, (const __half *)a->w,
                       (__half *)b->y);
}

/* A strip's first row is the last of the strip above it, but for an image's first. */
static void facts_stem(const conv_chain *chain, const conv_plan *plan, chain_facts *facts) {
  const stem_plan *mine = plan_data<stem_plan>(plan);
  const conv_problem *p = &chain->operation[0].problem;
  const double row = (double)p->Q * p->K * p->C * p->R * p->S;
  const int all = CONSUMERS * mine->blocks, rows = (mine->cut.strips + all - 1) / all * (2 * mine->cut.length + 1); /* of a consumer */
  const double us = rows * (0.5 + p->Q * (0.015 + 0.0018 * p->R));
  *facts = {(const void *)mine->row->kernel, mine->blocks, (1 + CONSUMERS) * THREADS, mine->shared, mine->cut.strips, (mine->cut.strips - p->N) * row, us};
}

/* As 06s's; a maximum rounds nothing. */
static double growth_stem(const conv_chain *chain, int index, bool random) {
  if (index > 0) return growth_chain_fp32(1, random);
  pair_cut t = {};
  const conv_problem *p = &chain->operation[0].problem;
  return growth_truncated((pair_windows(p, &t) ? 0 : ceil(p->R * t.pairs / 2.0)) * (16 + 1), random);
}

extern "C" const chain_kernel stem_chain;
const chain_kernel stem_chain = {.name = "07h",
                                 .idea = "a first layer and max-pooling: rows stay until three windows have passed",
                                 .count = 2,
                                 .dtype = DTYPE_FP16,
                                 .layout = LAYOUT_NHWC,
                                 .min_arch = 90,
                                 .plan = plan_stem,
                                 .launch = launch_stem,
                                 .facts = facts_stem,
                                 .growth = growth_stem};
