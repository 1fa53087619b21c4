/* 06s: first layers: three channels, made into pairs of pixels that windows share.
 *
 * Terms:    stem, space-to-depth, overlapping core matrices, Toeplitz fold.
 * Idea:     a product's depth is 16, and a pixel of three channels is no 16 bytes, so no box of the copy engine fits. Threads make four channels of three: then two
 *           pixels are 16 bytes, eight halves of depth. With stride 2 the window of the next result begins a pair further on. And in wgmma's layout without a
 *           swizzle a matrix is eight rows of 16 bytes one after the other, and where its next eight of depth begin is a field of the descriptor: set to 16 bytes,
 *           a row of pairs is its own im2col matrix. Nothing is gathered, a window is not copied:
 *
 *               pairs of a row of x    [0 1][2 3][4 5][6 7][8 9] ...
 *               result 0, depth 0..31  [0 1][2 3][4 5][6 7]           a filter row of 7, and a zero
 *               result 1                    [2 3][4 5][6 7][8 9]
 *
 * Fold:     with stride 1 the next window begins half a pair further on. So two results are one position, with twice as many filters: the second half are the same,
 *           shifted by a pixel. Of 3 taps, 4 are needed: no more than two pairs. In memory it changes nothing: [Q][K] is [Q / 2][2 K].
 * Planes:   with stride 4 windows are two pairs apart: even pairs lie in one row, odd ones in another.
 * Roles:    one warpgroup makes pairs out of x, which comes as bytes, ahead of it; two multiply, a row of the result each in turn, filters as a (06g), laid out by them
 *           at the start. Results leave by the copy engine, from two boxes in turn.
 * Turns:    a row's way out is as long as its products. As in 06u a consumer asks for its products when the other's are nearly done, and stores under them.
 * Change:   against 06u what comes to shared memory, bytes of x and not boxes, and pairs made of them; products by descriptors that overlap.
 * Infinity: an infinite pixel meets zeros of the filters, too: results whose windows end a pixel or two before it become NaN.
 * Expect:   (before anything ran on a GPU) 7x7: 14 products of 64 x 112 x 16 for 112 results, 784 clocks of which the filters need 2/3: 100 us for 256 images at
 *           1.7 GHz, and 114 for the bytes: 130. A tile's rows become pairs in a quarter of the time of its products. 3x3: 6 products for 224 results: only bytes count.
 * Passes:   fprop. Layout: NHWC, filters KRSC, fp16 with fp32 sums. Up to four channels; filters: multiples of 8; any stride. */
#include <math.h>

#include "06_tensorcore_fp16/pairs.cuh"
#include "common/harness/launch.h"

static constexpr int CONSUMERS = 2, BLOCK = (1 + CONSUMERS) * THREADS, MOST_STAGES = 3, BOXES = 2 /* of a consumer, on their way out */;
static constexpr int MY_TURN = 5 /* and 6: barriers of the consumers' turns */;
static constexpr int MOST_STEPS = 64, STEP = WGMMA_M * 2 * PAIR /* bytes of 64 filters */;

/* Products of a position's window, and of a tile: `across` pieces of a row, `pieces` times 64 filters. All filters are `parts` times as many: other blocks'. */
typedef struct first_cut {
  pair_cut in;
  divisor by_k, parts, across, pieces;
  int steps, stages;
  unsigned at[MOST_STEPS];                                 /* of a step's pairs: what its descriptor differs by from the first's */
  unsigned char row[2 * MOST_STEPS], pair[2 * MOST_STEPS]; /* of the filter, and of its row; row R: none */
} first_cut;

/* By the consumers: filters [64 of them][step][2 pairs][64][16 bytes]. */
static __device__ __forceinline__ void put_filters(const conv_problem &p, const first_cut &t, int first, const __half *w, unsigned char *filters) {
  const int units = t.pieces.by * t.steps * 2 * WGMMA_M;
#pragma unroll 2
  for (int i = threadIdx.x - THREADS; i < units; i += CONSUMERS * THREADS) {
    const int of_pairs = i / WGMMA_M, piece = of_pairs / (2 * t.steps), pair = of_pairs - piece * 2 * t.steps, row = first + piece * WGMMA_M + i % WGMMA_M;
    const int shift = divide(row, t.by_k), k = row - shift * p.K, r = t.row[pair], first = 2 * t.pair[pair] - shift * p.stride_w;
    unsigned short part[2 * PIXEL] = {};
    if (shift < t.in.fold && r < p.R)
#pragma unroll
      for (int j = 0; j < 2 * PIXEL; j++) {
        const int s = first + j / PIXEL, c = j % PIXEL;
        if (s >= 0 && s < p.S && c < p.C) part[j] = __half_as_ushort(w[((k * p.R + r) * p.S + s) * p.C + c]);
      }
    *(uint4 *)(filters + i * PAIR) = make_uint4(part[0] | part[1] << 16, part[2] | part[3] << 16, part[4] | part[5] << 16, part[6] | part[7] << 16);
  }
  __syncwarp();
}

/* N: positions of a product. */
template <int N>
__global__ void __launch_bounds__(BLOCK, 1)
    first_kernel(conv_problem p, first_cut t, const __half *x, const __half *w, const __grid_constant__ CUtensorMap results) {
  extern __shared__ __align__(1024) unsigned char shared[];
  __shared__ unsigned long long barriers[2 * MOST_STAGES + RAW_STAGES];
  unsigned char *const boxes = shared, *const filters = boxes + CONSUMERS * BOXES * N * ROW, *const stages = filters + t.pieces.by * t.steps * STEP;
  unsigned char *const raw = stages + t.stages * t.in.stage;
  const ring r = {ptx_shared_address(barriers), ptx_shared_address(barriers + MOST_STAGES)};
  const ptx_shared raw_full = ptx_shared_address(barriers + 2 * MOST_STAGES);
  const int role = uniform(threadIdx.x / THREADS), place = divide(blockIdx.x, t.parts), apart = gridDim.x / t.parts.by;
  const int first_filter = (blockIdx.x - place * t.parts.by) * t.pieces.by * WGMMA_M;
  if (threadIdx.x == 0) {
    ptx_griddepcontrol_launch_dependents(); /* the next kernel may begin */
    ptx_prefetch_tensormap(&results);
    for (int i = 0; i < RAW_STAGES; i++) ptx_mbarrier_init(raw_full + 8 * i, 1);
    ring_begin(r, t.stages, CONSUMERS * THREADS / 32);
  }
  __syncthreads();           /* barriers are there */
  ptx_griddepcontrol_wait(); /* what the kernel before wrote is there */
  if (role == 0) {
    if (threadIdx.x == 0)
      for (int i = 0; i < RAW_STAGES && place + i * apart < t.in.tiles; i++)
        load_raw(p, t.in, x, place + i * apart, ptx_shared_address(raw) + i * t.in.raw, raw_full + 8 * i);
    __syncwarp();
    slot s = {0, 0}, of_raw = {0, 0};
    for (int i = place; i < t.in.tiles; i += apart, s = next_slot(s, t.stages), of_raw = next_slot(of_raw, RAW_STAGES)) {
      ptx_mbarrier_wait(raw_full + 8 * of_raw.stage, of_raw.parity);
      ptx_mbarrier_wait(r.empty + 8 * s.stage, s.parity ^ 1);
      expand(p, t.in, i, -p.pad_left, raw + of_raw.stage * t.in.raw, stages + s.stage * t.in.stage);
      ptx_fence_proxy_async(); /* written by threads, read by wgmma */
      ptx_bar_sync(4, THREADS);
      if (threadIdx.x > 0) continue;
      ptx_mbarrier_arrive(r.full + 8 * s.stage); /* the pairs are there, and nobody reads x any more */
      const int next = i + RAW_STAGES * apart;
      if (next < t.in.tiles) load_raw(p, t.in, x, next, ptx_shared_address(raw) + of_raw.stage * t.in.raw, raw_full + 8 * of_raw.stage);
    }
    return;
  }

  put_filters(p, t, first_filter, w, filters);
  ptx_fence_proxy_async();
  ptx_bar_sync(1, CONSUMERS * THREADS); /* filters are there */
  const int me = role - 1;              /* of the consumers */
  const ptx_shared out = ptx_shared_address(boxes) + me * BOXES * N * ROW;
  const unsigned long long of_a = ptx_wgmma_descriptor(ptx_shared_address(filters), WGMMA_M * PAIR, 8 * PAIR, PTX_SWIZZLE_NONE);
  slot s = {0, 0};
  int turn = 0, box = 0; /* products of both consumers so far, mod 2 */
  for (int i = place; i < t.in.tiles; i += apart, s = next_slot(s, t.stages)) {
    const int n = divide(i, t.in.by_p), first = (i - n * t.in.by_p.by) * t.in.rows, items = min(t.in.rows, p.P - first) * t.across.by * t.pieces.by;
    const ptx_shared stage = ptx_shared_address(stages) + s.stage * t.in.stage;
    ptx_mbarrier_wait(r.full + 8 * s.stage, s.parity);
    for (int item = me ^ turn; item < items; item += CONSUMERS, box ^= 1) {
      const int of_piece = divide(item, t.pieces), piece = item - of_piece * t.pieces.by, row = divide(of_piece, t.across);
      const int column = (of_piece - row * t.across.by) * N;
      const unsigned long long of_b = ptx_wgmma_descriptor(stage + row * p.stride_h * t.in.row + column * PAIR, 0, 8 * PAIR, PTX_SWIZZLE_NONE);
      float sum[N / 2];
      if (i > place || item > 0) ptx_bar_sync(MY_TURN + me, CONSUMERS * THREADS); /* the row before is multiplied, but for its last product */
      ptx_wgmma_fence();
      ptx_wgmma<0, 0, 0>(sum, of_a + piece * t.steps * (STEP / 16), of_b + t.at[0]);
      ptx_wgmma_commit();
      for (int step = 1; step < t.steps; step++) {
        ptx_wgmma_fence();
        ptx_wgmma(sum, of_a + (piece * t.steps + step) * (STEP / 16), of_b + t.at[step]);
        ptx_wgmma_commit();
      }
      ptx_wgmma_wait<1>();
      if (i + apart < t.in.tiles || item + 1 < items) ptx_bar_arrive(MY_TURN + (me ^ 1), CONSUMERS * THREADS);
      if (threadIdx.x % THREADS == 0) ptx_bulk_wait_read<BOXES - 1>(); /* the box is on its way no more */
      __syncwarp();
      ptx_wgmma_wait<0>();
      ptx_bar_sync(2 + me, THREADS);
      put_turned<N>(sum, out + box * N * ROW);
      ptx_fence_proxy_async();
      ptx_bar_sync(2 + me, THREADS); /* the box is there */
      if (threadIdx.x % THREADS == 0) {
        ptx_tensor_store(&results, {first_filter + piece * WGMMA_M, column, first + row, n}, out + box * N * ROW);
        ptx_bulk_commit();
      }
      __syncwarp();
    }
    turn ^= items & 1;
    if (threadIdx.x % 32 == 0) ptx_mbarrier_arrive(r.empty + 8 * s.stage);
    __syncwarp();
  }
  if (threadIdx.x % THREADS == 0) ptx_bulk_wait_read<0>(); /* shared memory may go; what is written is there when the grid ends */
}

/* ---------------------------------------------------------------- host */

typedef struct instance {
  int n;
  void (*kernel)(conv_problem p, first_cut t, const __half *x, const __half *w, CUtensorMap results);
} instance;

#define ROW_OF(N) \
  { N, first_kernel<N> }
static const instance instances[] = {ROW_OF(16), ROW_OF(32), ROW_OF(56), ROW_OF(80), ROW_OF(112), ROW_OF(160)};

typedef struct first_plan {
  CUtensorMap results;
  first_cut cut;
  const instance *row;
  int blocks, shared;
} first_plan;

/* Which pairs a step multiplies: of each filter row its planes' one after the other, so that a step's second lies behind its first. */
static void put_steps(const conv_problem *p, first_cut *t) {
  unsigned at[2 * MOST_STEPS];
  int count = 0;
  for (int r = 0; r < p->R; r++)
    for (int plane = 0; plane < t->in.planes; plane++)
      for (int pair = plane; pair < t->in.pairs; pair += t->in.planes, count++) {
        at[count] = (unsigned)(r * p->dil_h * t->in.row + (plane * t->in.slots + pair / t->in.planes) * PAIR);
        t->row[count] = (unsigned char)r, t->pair[count] = (unsigned char)pair;
      }
  if (count % 2 == 1) at[count] = at[count - 1], t->row[count++] = (unsigned char)p->R; /* the last pair again, times zero */
  for (int step = 0; step < t->steps; step++) t->at[step] = at[2 * step] >> 4 | (at[2 * step + 1] - at[2 * step]) >> 4 << 16;
}

/* Clocks of the multiprocessor with most tiles: products, and the way out of each; or the pairs. And of nobody's products, the first pairs. */
static double clocks_of(const first_cut *t, int n, int sm_count) {
  const double product = fmax(n / 2, (WGMMA_M + n) * 2 * PAIR / 128.0), items = (double)t->in.rows * t->across.by * t->pieces.by;
  const double multiplied = items * fmax(t->steps * product + 60, (t->steps * product + 60 + n * 4) / 2) + 150;
  const double expanded = t->in.halo * (t->in.row / (32.0 * PAIR) * 15 + 20) + 200;
  return ceil((double)t->in.tiles * t->parts.by / sm_count) * fmax(multiplied, expanded) + expanded;
}

/* The products and tiles that take least, all filters in a block or 64; false: nothing fits. */
static bool best_cut(const conv_problem *p, const conv_device *device, int pieces, first_plan *mine) {
  const int positions = p->Q / mine->cut.in.fold;
  double least = INFINITY;
  for (int parts = 1; parts <= pieces; parts += pieces > 1 ? pieces - 1 : 1)
    for (const instance *i = instances; i < instances + sizeof instances / sizeof *instances; i++)
      for (int rows = 1; rows <= p->P && rows <= 16; rows++) {
        first_cut t = mine->cut;
        t.parts = divisor_of(parts), t.pieces = divisor_of(pieces / parts), t.across = divisor_of((positions + i->n - 1) / i->n);
        if (!pair_tiles(p, rows, (int64_t)t.across.by * i->n + (t.in.pairs - 1) / t.in.planes, &t.in)) break;
        const int64_t others = (int64_t)t.pieces.by * t.steps * STEP + CONSUMERS * BOXES * i->n * ROW + RAW_STAGES * t.in.raw;
        const int64_t fit = ((int64_t)device->shared_per_block - 1024 - others) / t.in.stage;
        if (fit < 2) break;
        t.stages = fit > MOST_STAGES ? MOST_STAGES : (int)fit;
        const double clocks = clocks_of(&t, i->n, device->sm_count);
        if (clocks >= least) continue;
        least = clocks, mine->cut = t, mine->row = i, mine->shared = (int)others + t.stages * t.in.stage;
      }
  return least < INFINITY;
}

static const char *plan_first(const conv_operation *o, const conv_device *device, conv_plan *plan) {
  const conv_problem *p = &o->problem;
  if (device->arch / 10 != 9) return "wgmma: only compute capability 9.0 has it";
  first_plan *mine = plan_data<first_plan>(plan);
  first_cut *t = &mine->cut;
  const char *why = pair_windows(p, &t->in);
  if (!why) why = plain_unsupported(p, device);
  if (why) return why;
  if ((int64_t)p->R * t->in.pairs > 2 * MOST_STEPS) return "filters of more than 128 pairs of pixels";
  t->steps = (p->R * t->in.pairs + 1) / 2, t->by_k = divisor_of(p->K);
  const int64_t pieces = ((int64_t)t->in.fold * p->K + WGMMA_M - 1) / WGMMA_M;
  if (pieces > 64 || !best_cut(p, device, (int)pieces, mine)) return "64 filters and two tiles do not fit in shared memory, or there are more than 4096";
  put_steps(p, t);
  const int places = device->sm_count < t->parts.by ? 1 : device->sm_count / t->parts.by;
  mine->blocks = t->parts.by * (t->in.tiles < places ? t->in.tiles : places);
  const cuuint64_t size[4] = {(cuuint64_t)(t->in.fold * p->K), (cuuint64_t)(p->Q / t->in.fold), (cuuint64_t)p->P, (cuuint64_t)p->N};
  const cuuint32_t box[4] = {WGMMA_M, (cuuint32_t)mine->row->n, 1, 1};
  why = map_tiles(plan, &mine->results, "y", 4, size, box);
  if (why) return why;
  snprintf(plan->words, sizeof plan->words, "%d row%s a tile: %d products of %d for %d results, %d tiles", t->in.rows, t->in.rows == 1 ? "" : "s", t->steps,
           mine->row->n, mine->row->n * t->in.fold, t->in.tiles);
  const cudaError_t status = plan_allow_shared((const void *)mine->row->kernel, (size_t)mine->shared);
  return status ? plan_failed(plan, status) : NULL;
}

static cudaError_t launch_first(const conv_plan *plan, const conv_buffers *b, cudaStream_t stream) {
  const first_plan *mine = plan_data<first_plan>(plan);
  CUtensorMap results;
  const cudaError_t status = map_at(&results, &mine->results, b->y);
  if (status) return status;
  return launch_kernel({.grid = dim3(mine->blocks), .block = dim3(BLOCK), .shared = (size_t)mine->shared, .stream = stream, .early = true}, mine->row->kernel,
                       plan->operation.problem, mine->cut, (const __half *)b->x, (const __half *)b->w, results);
}

/* An accumulator takes one product after the other, which adds 16 products and what it was; zeros beside the channels and the taps, too. */
static double growth_first(const conv_problem *p, bool random) {
  pair_cut t = {};
  const double steps = pair_windows(p, &t) ? 0 : ceil(p->R * t.pairs / 2.0);
  return growth_truncated(steps * (16 + 1), random);
}

NHWC_ROW(first_fprop, "06s", "up to four channels: pairs of pixels, windows that overlap", PASS_FPROP, 90, plan_first, launch_first, growth_first);
