/* 07h: the first layer and the max-pooling behind it: rows stay until all windows that look at them have passed.
 *
 * Terms:    stem, line buffer, sliding window over rows, operator fusion.
 * Idea:     ResNet's first layer writes 112 x 112 pixels of 64 channels, as large a tensor as any of the network, only to have three quarters of it thrown away. A row of pooled
 *           pixels needs three rows of these, and the next one two new ones: so a consumer walks down a strip of the image, keeps a row, and what
 *           leaves is the row of maxima. Of 1824 MB that three kernels move for 256 images 180 are left. A strip begins with a row that the strip above has, too: one in 15, say, is computed twice.
 *
 *               rows of the convolution  ... 2k-1 | 2k | 2k+1 | ...        row k of the result: the largest of three by three
 *                                            kept   new   new -> kept
 *
 * Kept:     in registers, as halves. Sums of one row and of the next lie alike, so a maximum over rows needs no other thread; one over columns a neighbour's value, by a shuffle.
 * Roles:    06s's: a warpgroup makes pairs of x, but one for each consumer. Each of two consumers walks down a strip of its own and takes maxima while the other multiplies.
 * Ring:     a row of x becomes pairs once: they stay in a ring of rows until no window of a later tile looks at them. Where the ring begins anew a filter row's address falls back, so descriptors
 *           are made by filter row, and a product's two pairs are of one row.
 * Change:   against 06s strips, scale and bias; maxima of halves; turns of two rows.
 * Expect:   (before this version ran on a GPU) 256 images: two consumers' 113 rows of 784 clocks each, at 1.65 GHz: 107 us, where the bytes need 42. (The version before kept three rows in shared memory and read nine values for each maximum: 344.)
 * Infinity: as in 06s, zeros times an infinite pixel are NaN; and of NaN and a number the maximum is the number.
 * Chain:    fprop, two operations: a first layer as 06s's, with an even stride, up to 64 filters and 160 columns of results; max-pooling of 3 x 3 with a stride of 2 and padding
 *           of 1 before the image. Activations without exponentials. Layout: NHWC, filters KRSC, fp16 with fp32 sums. */
#include <math.h>

#include "07_fusion/maxima.cuh"
#include "07_fusion/pair_filters.cuh"
#include "common/harness/chain.h"
#include "common/harness/launch.h"

static constexpr int BLOCK = 2 * CONSUMERS * THREADS, STAGES = 3 /* tiles that a consumer's ring of rows has room for */, RAWS = 2 /* a consumer's */;
static constexpr int PAIRS_MADE = 4 /* and 5 */, MY_TURN = 6 /* and 7: barriers of a producer's, and of the consumers' turns */;

/* Strips of `length` pooled rows, `each` to an image; `rows`, `columns`: pooled, of an image. */
typedef struct strip_cut {
  pair_steps steps;
  divisor each;
  int length, strips, rows, columns;
  int fresh, ring; /* rows of x that a tile has and the one above it has not; all that a consumer keeps as pairs */
} strip_cut;

/* Where a consumer's walk is: which of a block's pairs of strips, and which tile of its strip. The first is the one above it, for the row that is kept. */
typedef struct walk {
  int pair, step;
} walk;

static __device__ __forceinline__ bool goes_on(const strip_cut &t, const walk &at) { return at.pair * CONSUMERS < t.strips; }
static __device__ __forceinline__ walk next_of(const strip_cut &t, const walk &at) {
  return at.step < t.length ? walk{at.pair, at.step + 1} : walk{at.pair + (int)gridDim.x, 0};
}

/* Pooled row k of image n; k may lie outside of it. */
typedef struct pooled_row {
  int n, k;
} pooled_row;

static __device__ __forceinline__ pooled_row row_at(const strip_cut &t, const walk &at, int consumer) {
  const int i = min(at.pair * CONSUMERS + consumer, t.strips - 1), n = divide(i, t.each);
  return {n, (i - n * t.each.by) * t.length - 1 + at.step};
}

/* The rows of x that become pairs for a tile of two rows: all, or those that the one above has not. */
typedef struct new_rows {
  raw_rows raw;
  int count;
} new_rows;

static __device__ __forceinline__ new_rows rows_for(const conv_problem &p, const strip_cut &t, const walk &at, int consumer) {
  const pooled_row to = row_at(t, at, consumer);
  const int count = at.step == 0 ? t.steps.in.halo : t.fresh;
  return {raw_between(p, to.n, 2 * to.k * p.stride_h - p.pad_top + t.steps.in.halo - count, count), count};
}

/* Where in the ring the next tile begins. */
static __device__ __forceinline__ int next_place(const strip_cut &t, const walk &next, int place) {
  place += next.step == 0 ? t.steps.in.halo : t.fresh;
  return place < t.ring ? place : place - t.ring;
}

/* N: positions of a product. */
template <int N>
__global__ void __launch_bounds__(BLOCK, 1)
    stem_kernel(conv_problem p, strip_cut t, finish f, const __half *x, const __half *w, const __grid_constant__ CUtensorMap results) {
  constexpr int ROWS = N <= 112 ? 2 : 1; /* that there are registers for */
  extern __shared__ __align__(1024) unsigned char shared[];
  __shared__ unsigned long long barriers[CONSUMERS * (2 * STAGES + RAWS)];
  const pair_cut &in = t.steps.in;
  unsigned char *const filters = shared + CONSUMERS * pooled(N) * ROW, *const rings = filters + t.steps.steps * STEP,
                       *const raws = rings + CONSUMERS * t.ring * in.row;
  const int role = uniform(threadIdx.x / THREADS);
  const bool consumes = role == 1 || role == 2, first_thread = threadIdx.x % THREADS == 0;
  const int me = role % 3 == 0 ? role / 3 : role - 1; /* of the consumers, or whose pairs this warpgroup makes */
  const ptx_shared mine = ptx_shared_address(barriers + me * (2 * STAGES + RAWS)), raw_full = mine + 16 * STAGES;
  const ring r = {mine, mine + 8 * STAGES};
  unsigned char *const pairs = rings + me * t.ring * in.row;
  if (threadIdx.x == 0) ptx_griddepcontrol_launch_dependents(); /* the next kernel may begin */
  if (consumes && first_thread) {
    for (int i = 0; i < RAWS; i++) ptx_mbarrier_init(raw_full + 8 * i, 1);
    ring_begin(r, STAGES, THREADS / 32);
  }
  __syncthreads();           /* barriers are there */
  ptx_griddepcontrol_wait(); /* what the kernel before wrote is there */
  slot s = {0, 0};
  int place = 0; /* of a tile in the ring of rows */

  if (!consumes) { /* x comes two tiles ahead */
    ptx_setmaxnreg_dec<56>();
    unsigned char *const raw = raws + RAWS * me * in.raw;
    walk ahead = {(int)blockIdx.x, 0};
    for (int i = 0; i < RAWS; i++, ahead = next_of(t, ahead))
      if (first_thread && goes_on(t, ahead)) load_rows(rows_for(p, t, ahead, me).raw, x, ptx_shared_address(raw) + i * in.raw, raw_full + 8 * i);
    __syncwarp();
    slot of_x = {0, 0}, before = {0, 1};
    for (walk at = {(int)blockIdx.x, 0}; goes_on(t, at); at = next_of(t, at), place = next_place(t, at, place), ahead = next_of(t, ahead)) {
      const new_rows rows = rows_for(p, t, at, me);
      const int first = place + in.halo - rows.count;
      ptx_mbarrier_wait(raw_full + 8 * of_x.stage, of_x.parity);
      ptx_mbarrier_wait(r.empty + 8 * s.stage, s.parity ^ 1);
      if (at.step == 0) ptx_mbarrier_wait(r.empty + 8 * before.stage, before.parity); /* a strip's first rows lie over all of the strip before */
      expand_rows(p, in, rows.raw, rows.count, -p.pad_left, raw + of_x.stage * in.raw, pairs, first < t.ring ? first : first - t.ring, t.ring);
      ptx_fence_proxy_async(); /* written by threads, read by wgmma */
      ptx_bar_sync(PAIRS_MADE + me, THREADS);
      if (first_thread) {
        ptx_mbarrier_arrive(r.full + 8 * s.stage); /* the pairs are there, and nobody reads x any more */
        if (goes_on(t, ahead)) load_rows(rows_for(p, t, ahead, me).raw, x, ptx_shared_address(raw) + of_x.stage * in.raw, raw_full + 8 * of_x.stage);
      }
      __syncwarp();
      before = s, s = next_slot(s, STAGES), of_x = next_slot(of_x, RAWS);
    }
    return;
  }

  ptx_setmaxnreg_inc<200>();
  put_pair_filters(p, t.steps, w, filters);
  ptx_fence_proxy_async();
  ptx_bar_sync(1, CONSUMERS * THREADS); /* filters are there */
  const channel_pair channels = channels_of(f, 0, p.K), nothing = {{0, 0}, {-INFINITY, -INFINITY}};
  const ptx_shared box = ptx_shared_address(shared) + me * pooled(N) * ROW;
  const unsigned long long of_a = ptx_wgmma_descriptor(ptx_shared_address(filters), WGMMA_M * PAIR, 8 * PAIR, PTX_SWIZZLE_NONE);
  const unsigned long long of_b = ptx_wgmma_descriptor(ptx_shared_address(pairs), 0, 8 * PAIR, PTX_SWIZZLE_NONE);
  bool waits = me == 1;      /* who begins need not wait for its turn */
  unsigned kept[N / 4] = {}; /* the row above; before a strip's first tile none */
  for (walk at = {(int)blockIdx.x, 0}; goes_on(t, at); at = next_of(t, at), place = next_place(t, at, place), s = next_slot(s, STAGES)) {
    const pooled_row to = row_at(t, at, me);
    const bool first = at.step == 0;                                                                   /* of the tile above only the last row counts */
    const int second = place + p.stride_h < t.ring ? place + p.stride_h : place + p.stride_h - t.ring; /* where the second row's window begins */
    float sum[ROWS][N / 2];
    unsigned most[N / 4];
    ptx_mbarrier_wait(r.full + 8 * s.stage, s.parity);
    if (first_thread) ptx_bulk_wait_read<0>(); /* the row before has left its box */
    __syncwarp();
    if (waits) ptx_bar_sync(MY_TURN + me, CONSUMERS * THREADS); /* the other's rows are multiplied, but for their last product */
    waits = true;
    const channel_pair of_middle = 2 * to.k >= 0 && 2 * to.k < p.P ? channels : nothing; /* outside of the image: minus infinity */
    if (ROWS == 1 && !first) {
      multiply_pairs(sum[0], t.steps, of_a, of_b, place, p.dil_h, t.ring);
      ptx_wgmma_wait<0>();
      keep<N>(kept, sum[0], of_middle);
    }
    if (ROWS > 1 && !first) multiply_pairs(sum[0], t.steps, of_a, of_b, place, p.dil_h, t.ring);
    multiply_pairs(sum[ROWS - 1], t.steps, of_a, of_b, second, p.dil_h, t.ring);
    ptx_wgmma_wait<1>();
    if (me == 0 || goes_on(t, next_of(t, at))) ptx_bar_arrive(MY_TURN + (me ^ 1), CONSUMERS * THREADS);
    ptx_wgmma_wait<0>();
    if (threadIdx.x % 32 == 0) ptx_mbarrier_arrive(r.empty + 8 * s.stage);
    __syncwarp();
    if (ROWS > 1 && !first) keep<N>(kept, sum[0], of_middle);
    const channel_pair c = 2 * to.k + 1 >= 0 && 2 * to.k + 1 < p.P ? channels : nothing;
#pragma unroll
    for (int j = 0; j < N / 4; j++) {
      const unsigned below = scaled(make_float2(sum[ROWS - 1][2 * j], sum[ROWS - 1][2 * j + 1]), c.scale[j % 2], c.bias[j % 2]);
      most[j] = largest(kept[j], below), kept[j] = below;
    }
    if (first) continue;
    if (2 * t.columns > p.Q) cut_columns<N>(most, p.Q);
    pool_columns<N>(most, f, box);
    ptx_fence_proxy_async(); /* for the copy engine */
    ptx_bar_sync(2 + me, THREADS);
    if (first_thread && to.k < t.rows && at.pair * CONSUMERS + me < t.strips) {
      ptx_tensor_store(&results, {0, 0, to.k, to.n}, box);
      ptx_bulk_commit();
    }
    __syncwarp();
  }
  if (first_thread) ptx_bulk_wait_read<0>(); /* shared memory may go */
}

/* ---------------------------------------------------------------- host */

typedef void stem_function(conv_problem p, strip_cut t, finish f, const __half *x, const __half *w, CUtensorMap results);
typedef struct instance {
  int n;
  stem_function *kernel;
} instance;
#define ROW_OF(N) \
  { N, stem_kernel<N> }
static const instance instances[] = {ROW_OF(16), ROW_OF(32), ROW_OF(56), ROW_OF(80), ROW_OF(112), ROW_OF(160)};

typedef struct stem_plan {
  CUtensorMap results;
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
  const int columns = 2 * pool->Q > p->Q ? 2 * pool->Q : p->Q; /* the last window may begin with the last column */
  if (columns > instances[sizeof instances / sizeof *instances - 1].n) return "more than 160 columns, or 80 pooled";
  t->steps.of_row = (t->steps.in.pairs + 1) / 2;
  if ((int64_t)p->R * t->steps.of_row > MOST_STEPS) return "filters of more than 128 pairs of pixels";
  mine->row = instances;
  while (mine->row->n < columns) mine->row++;
  t->steps.steps = p->R * t->steps.of_row;
  t->rows = pool->P, t->columns = pool->Q;
  const int n = mine->row->n;
  if (!pair_tiles(p, 2, n + (t->steps.in.pairs - 1) / t->steps.in.planes, &t->steps.in)) return "two tiles do not fit in shared memory";
  const int64_t others = (int64_t)CONSUMERS * pooled(n) * ROW + t->steps.steps * STEP + CONSUMERS * RAWS * t->steps.in.raw;
  t->fresh = 2 * p->stride_h < t->steps.in.halo ? 2 * p->stride_h : t->steps.in.halo;
  t->ring = t->steps.in.halo + (STAGES - 1) * t->fresh;
  const int64_t shared = others + (int64_t)CONSUMERS * t->ring * t->steps.in.row;
  if (shared > (int64_t)device->shared_per_block - 1024) return "two rings of rows do not fit in shared memory";
  put_steps(p, &t->steps);
  choose_strips(p->N, device->sm_count, t);
  mine->problem = *p, mine->epilogue = a->epilogue, mine->shared = (int)shared;
  mine->blocks = (t->strips + CONSUMERS - 1) / CONSUMERS < device->sm_count ? (t->strips + CONSUMERS - 1) / CONSUMERS : device->sm_count;
  const cuuint64_t size[4] = {(cuuint64_t)p->K, (cuuint64_t)t->columns, (cuuint64_t)t->rows, (cuuint64_t)p->N};
  const cuuint32_t row[4] = {WGMMA_M, (cuuint32_t)t->columns, 1, 1};
  why = map_tiles(plan, &mine->results, "y", 4, size, row);
  if (why) return why;
  snprintf(plan->words, sizeof plan->words, "%d strips of %d rows: %d products of %d, rings of %d rows", t->strips, t->length, t->steps.steps, n, t->ring);
  const cudaError_t status = plan_allow_shared((const void *)mine->row->kernel, (size_t)mine->shared);
  return status ? plan_failed(plan, status) : NULL;
}

static cudaError_t launch_stem(const conv_plan *plan, const conv_buffers *each, cudaStream_t stream) {
  const stem_plan *mine = plan_data<stem_plan>(plan);
  const conv_buffers *a = &each[0], *b = &each[1];
  CUtensorMap results;
  const cudaError_t status = map_at(&results, &mine->results, b->y);
  if (status) return status;
  return launch_kernel({.grid = dim3(mine->blocks), .block = dim3(BLOCK), .shared = (size_t)mine->shared, .stream = stream, .early = true}, mine->row->kernel,
                       mine->problem, mine->cut, finish_of(&mine->epilogue, a->scale, a->bias), (const __half *)a->x, (const __half *)a->w, results);
}

/* A strip's first row is the last of the strip above it, but for an image's first. */
static void facts_stem(const conv_chain *chain, const conv_plan *plan, chain_facts *facts) {
  const stem_plan *mine = plan_data<stem_plan>(plan);
  const conv_problem *p = &chain->operation[0].problem;
  const double row = (double)p->Q * p->K * p->C * p->R * p->S;
  const int all = CONSUMERS * mine->blocks, rows = (mine->cut.strips + all - 1) / all * (2 * mine->cut.length + 1); /* of a consumer */
  const double us = 0.7 + rows * (0.68 + p->Q * (0.0013 * p->R - 0.0007));
  *facts = {(const void *)mine->row->kernel, mine->blocks, BLOCK, mine->shared, mine->cut.strips, (mine->cut.strips - p->N) * row, us};
}

/* As 06s's; a maximum rounds nothing. */
static double growth_stem(const conv_chain *chain, int index, bool random) {
  if (index > 0) return growth_chain_fp32(1, random);
  pair_cut t = {};
  const conv_problem *p = &chain->operation[0].problem;
  return growth_truncated((pair_windows(p, &t) ? 0 : p->R * ((t.pairs + 1) / 2)) * (16 + 1), random);
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
