/* 06o: a few channels: neighbouring pixels are channels, too.
 *
 * Terms:    space-to-depth, banded (Toeplitz) filters, halo tile, descriptor arithmetic.
 * Idea:     four pixels of 16 channels, side by side in memory, are 64 numbers: a row of 128 bytes of 06g's halo tile, without a byte moved (06w renames patches so). And
 *           four results of 16 filters are the 64 rows of a product. A result's window is three of six pixels, so a filter row becomes a band, zeros beside it:
 *
 *               numbers of pixels    -1  0  1  2  3  4
 *               result 0, filters     a  b  c  .  .  .        64 x 96 for each of three filter rows: six products of depth 16 for four results.
 *               result 1              .  a  b  c  .  .        06g: nine taps of depth 16 for one, and 48 of 64 rows of a are of no filter
 *               result 2              .  .  a  b  c  .
 *               result 3              .  .  .  a  b  c
 *
 * Spans:    with 24 channels it is 8 pixels, three rows of 64 numbers, each row in a tile of its own. The results of a span are pieces of up to 64 rows, two results of
 *           24 filters, and all pieces have the same bands: the next piece's window begins three times 16 numbers on. With more than 64 filters a piece is 64 of one result.
 * Strides:  two pixels further on is two pixels further on in the same row. Rows of x with a stride are planes, as in 06u; in dgrad it is the result that has them.
 * Change:   against 06g filters become bands, laid out by the consumers (06u); each piece of a tile has products of its own and leaves by a box of its own.
 * Expect:   (before anything ran on a GPU) mb16ic16ih160oc16oh160kh3ph1: four tiles a multiprocessor of 18 products of 128 clocks, 4.7 us, and 4 us for launch, bands, first
 *           load and last store: 9 us, where 06g takes 31. mb16ic24ih192oc96oh96kh3sh2ph1: memory, 13 us, and 3: 16 us, where 06f takes 100 and 06b 66.
 * Infinity: an infinite pixel times a zero beside the band is NaN.
 * Passes:   fprop, dgrad (TURNED). Layout: NHWC, filters KRSC, fp16 with fp32 sums. C and K: multiples of 8, up to 256 of the tensor that is read; its rows whole pieces of
 *           64 numbers. Strides up to 4, no groups. */
#include "06_tensorcore_fp16/neighbours_cut.h"
#include "common/harness/launch.h"

static constexpr int BLOCK = (1 + CONSUMERS) * THREADS, AT_ONCE = 9 /* loads of a thread on their way */;

/* Where the i-th thread finds its 8 halves of w: one after the other; or 2^beside neighbours have the same halves of as many filters, and so of one tap: they go the same way in
 * spread() (faster in dgrad with a stride, else slower: docs/results/06_neighbours.md). */
typedef struct of_filter {
  int k, at;
} of_filter;
static __device__ __forceinline__ of_filter of_filter_at(const band_cut &t, int i) {
  const int filters = divide(i >> t.beside, t.by_filter);
  return {(filters << t.beside) + (i & ((1 << t.beside) - 1)), (i >> t.beside) - filters * t.by_filter.by};
}

/* 8 halves of w to all their places in the bands. Of a matrix [half of the depth][64 rows] they are a row's (or TURNED, [half][octet of rows][8 of the depth], of eight rows). */
template <bool TURNED> static __device__ __forceinline__ void spread(const conv_problem &p, const band_cut &t, of_filter of, const uint4 &part, uint4 *bands) {
  const int tap = divide(of.at, t.by_c), r = divide(tap, t.by_s), s = tap - r * t.by_s.by, c = (of.at - tap * t.by_c.by) * CHUNK;
  const int from = TURNED ? of.k : c, to = TURNED ? c : of.k, channels = TURNED ? p.K : p.C, results = TURNED ? p.C : p.K;
  for (int j = 0; j < t.sets; j++) {
    const band_matrices &m = t.set[j];
    const int row = m.row[r], in_block = to - m.block * WGMMA_M;
    if (row == NOBODY || in_block < 0 || in_block >= WGMMA_M) continue;
    for (int g = 0; g < t.together; g++) {
      const int far = MOST_PLANES * 64 /* divide() takes no numbers below 0 */,
                at = TURNED ? m.out + g + p.pad_left - s * p.dil_w : (m.out + g) * p.stride_w - p.pad_left + s * p.dil_w;
      const int pixel = TURNED ? divide(at + far * p.stride_w, t.by_stride) - far : at;
      const unsigned number = pixel * channels + from - m.begin; /* of those that the matrices are for */
      if (TURNED && pixel * p.stride_w != at) continue;
      uint4 *const matrix = bands + (m.first + row * m.count + number / DEPTH) * THREADS + number % DEPTH / 8 * WGMMA_M;
      if (TURNED) matrix[g * results + in_block + number % 8] = part; /* results are a multiple of 8 */
      else matrix[g * results + in_block] = part;
    }
  }
}

/* By the consumers: all bands. The zeros are written while filters are on their way. */
template <bool TURNED> static __device__ __forceinline__ void put_bands(const conv_problem &p, const band_cut &t, const uint4 *w, uint4 *bands) {
  const int me = threadIdx.x - THREADS, all = p.K * t.by_filter.by;
  for (int first = me; first - me < all; first += AT_ONCE * CONSUMERS * THREADS) {
    uint4 part[AT_ONCE];
    of_filter of[AT_ONCE];
#pragma unroll
    for (int j = 0; j < AT_ONCE; j++) {
      of[j] = of_filter_at(t, first + j * CONSUMERS * THREADS);
      if (of[j].k < p.K) part[j] = w[of[j].k * t.by_filter.by + of[j].at];
    }
    if (first == me) {
      for (int i = me; i < t.matrices * THREADS; i += CONSUMERS * THREADS) bands[i] = uint4();
      ptx_bar_sync(4, CONSUMERS * THREADS); /* zeros before filters */
    }
#pragma unroll
    for (int j = 0; j < AT_ONCE; j++)
      if (of[j].k < p.K) spread<TURNED>(p, t, of[j], part[j], bands);
  }
  __syncwarp();
}

/* Some products of a piece, as the words say: where b begins, and a, in 16 bytes. Several at a time: each waits for its word, and so the waits overlap. */
template <bool FIRST, bool TURNED, int SUMS>
static __device__ __forceinline__ void multiply_steps(float (&sum)[SUMS], unsigned long long a, unsigned long long b, const unsigned *words) {
  ptx_wgmma_fence();
#pragma unroll
  for (int i = 0; i < AT_A_TIME; i++) {
    if (FIRST && i == 0) ptx_wgmma<TURNED, 0, 0>(sum, a + (words[i] >> 16), b + (words[i] & 0xffff));
    else ptx_wgmma<TURNED>(sum, a + (words[i] >> 16), b + (words[i] & 0xffff));
  }
  ptx_wgmma_commit();
}

/* N: spans of a product, those between the rows included. */
template <int N, bool TURNED>
__global__ void __launch_bounds__(BLOCK, 1) neighbours_kernel(const __grid_constant__ conv_problem p, const __grid_constant__ band_cut t, const __half *w,
                                                              const __grid_constant__ plane_maps halos, const __grid_constant__ plane_maps results) {
  extern __shared__ __align__(1024) unsigned char shared[];
  __shared__ unsigned long long barriers[2 * MOST_STAGES];
  const int bands = t.matrices * MATRIX, box = t.pitch * t.halo * t.images * ROW, role = uniform(threadIdx.x / THREADS);
  const ptx_shared stages = ptx_shared_address(shared), filters = stages + t.stages * t.stage, outputs = filters + bands;
  const ring r = {ptx_shared_address(barriers), ptx_shared_address(barriers + MOST_STAGES)};
  if (threadIdx.x == 0) {
    ptx_griddepcontrol_launch_dependents(); /* the next kernel may begin */
    for (int i = 0; i < t.planes; i++) ptx_prefetch_tensormap(&halos.of[i]);
    ring_begin(r, t.stages, t.both ? CONSUMERS : 1 + THREADS / 32); /* who multiplied it, and each warp of the other consumer */
  }

  if (role == 0) { /* the producer */
    __syncwarp();
    ptx_bar_arrive(1, BLOCK); /* barriers are there; who made them need not wait */
    ptx_setmaxnreg_dec<56>();
    if (threadIdx.x != 0) return;
    slot s = {0, 0};
    ptx_griddepcontrol_wait(); /* what the kernel before wrote is there */
    for (int i = blockIdx.x; i < t.tiles; i += gridDim.x, s = next_slot(s, t.stages)) {
      const band_tile from = tile_at(t, i);
      ptx_shared to = stages + s.stage * t.stage;
      ptx_mbarrier_wait(r.empty + 8 * s.stage, s.parity ^ 1);
      ptx_mbarrier_arrive_expect_tx(r.full + 8 * s.stage, box * t.planes * t.chunks);
      for (int plane = 0; plane < t.planes; plane++)
        for (int chunk = 0; chunk < t.chunks; chunk++, to += t.plane)
          ptx_tensor_load(to, &halos.of[plane], {chunk * BK, from.span + t.low_w, from.row + t.low_h, from.n}, r.full + 8 * s.stage);
    }
    return;
  }

  for (int stage = 0; stage < t.stages; stage++) { /* what lies behind the last box is read for columns that are dropped; and between boxes */
    unsigned char *const at = shared + stage * t.stage;
    for (int plane = 0; plane < t.planes * t.chunks; plane++) {
      const int end = plane < t.planes * t.chunks - 1 ? (plane + 1) * t.plane : t.stage;
      for (int i = plane * t.plane + box + (threadIdx.x - THREADS) * 16; i < end; i += CONSUMERS * THREADS * 16) *(uint4 *)(at + i) = uint4();
    }
  }
  __syncwarp();
  ptx_griddepcontrol_wait();
  put_bands<TURNED>(p, t, (const uint4 *)w, (uint4 *)(shared + t.stages * t.stage));
  ptx_fence_proxy_async();
  ptx_bar_sync(1, BLOCK); /* barriers, zeros and filters are there */
  ptx_setmaxnreg_inc<224>();
  const int me = role - 1, next_piece = t.both ? CONSUMERS : 1; /* of the consumers */
  const ptx_shared mine = outputs + me * N * ROW;
  const unsigned long long of_a = ptx_wgmma_descriptor(filters, MATRIX / 2, 8 * 16, PTX_SWIZZLE_NONE);
  const bool stores = threadIdx.x % THREADS == 0;
  slot s = {0, 0};
  int turn = 0;
  for (int i = blockIdx.x; i < t.tiles; i += gridDim.x, turn++, s = next_slot(s, t.stages)) {
    const band_tile at = tile_at(t, i);
    const unsigned long long of_b = ptx_wgmma_descriptor(stages + s.stage * t.stage, 16, 8 * ROW, PTX_SWIZZLE_128);
    ptx_mbarrier_wait(r.full + 8 * s.stage, s.parity); /* the other's tiles, too: who asks for a round's parity must know that the round before is over */
    if (!t.both && turn % CONSUMERS != me) {
      __syncwarp(); /* all lanes do */
      if (threadIdx.x % 32 == 0) ptx_mbarrier_arrive(r.empty + 8 * s.stage);
      continue;
    }
    for (int c = t.both ? me : 0; c < t.pieces; c += next_piece) {
      float sum[N / 2];
      int step = t.first[c];
      multiply_steps<true, TURNED>(sum, of_a, of_b, t.step + step);
      for (step += AT_A_TIME; step < t.first[c + 1]; step += AT_A_TIME) multiply_steps<false, TURNED>(sum, of_a, of_b, t.step + step);
      if (stores) ptx_bulk_wait_read<0>(); /* the piece before has left */
      __syncwarp();
      ptx_wgmma_wait<0>();
      ptx_bar_sync(2 + me, THREADS); /* nobody reads the pixels any more, if it was the last piece */
      if (stores && c + next_piece >= t.pieces) ptx_mbarrier_arrive(r.empty + 8 * s.stage);
      __syncwarp();
      put_turned<N>(sum, mine);
      ptx_fence_proxy_async();
      ptx_bar_sync(2 + me, THREADS); /* the sums are there */
      if (stores) {
        ptx_tensor_store(&results.of[t.row_class[c]], {t.block[c] * WGMMA_M, t.place[c], at.span, at.row, at.n}, mine);
        ptx_bulk_commit();
      }
      __syncwarp();
    }
  }
  if (stores) ptx_bulk_wait_read<0>(); /* shared memory may go; what is written is there when the grid ends */
}

/* ---------------------------------------------------------------- host */

typedef struct instance {
  int n;
  void (*kernel[2])(conv_problem p, band_cut t, const __half *w, plane_maps halos, plane_maps results); /* as they lie, turned */
} instance;

/* The first that is enough. */
#define ROW_OF(N)                                                  \
  {                                                                \
    N, { neighbours_kernel<N, false>, neighbours_kernel<N, true> } \
  }
static const instance instances[] = {ROW_OF(32),  ROW_OF(64),  ROW_OF(80),  ROW_OF(96),  ROW_OF(112), ROW_OF(128), ROW_OF(144),
                                     ROW_OF(160), ROW_OF(176), ROW_OF(192), ROW_OF(208), ROW_OF(224), ROW_OF(240), ROW_OF(256)};

static const instance *instance_for(int positions) {
  const instance *row = instances;
  while (row->n < positions) row++; /* there is one */
  return row;
}

typedef struct neighbours_plan {
  plane_maps halos, results;
  plane_tensor image, result; /* spans as pixels */
  band_cut cut;
  const instance *row;
  int blocks, shared;
} neighbours_plan;

/* Maps of the result's planes: {a piece's rows, pieces of a span, spans, rows of the class, images}. */
static const char *map_results(conv_plan *plan, plane_maps *maps, const char *what, const plane_tensor *t, const band *b, const band_cut *cut) {
  const cuuint64_t unit = (cuuint64_t)(b->together * b->to), span = (cuuint64_t)t->channels, row = span * t->width;
  const cuuint64_t stride[4] = {2 * unit, 2 * span, 2 * row * t->stride_h, 2 * row * t->height}; /* bytes */
  const cuuint32_t box[5] = {WGMMA_M, 1, (cuuint32_t)(cut->by_q.by > 1 ? cut->columns : cut->pitch), (cuuint32_t)(cut->images > 1 ? cut->halo : cut->rows),
                             (cuuint32_t)cut->images};
  for (int a = 0; a < t->stride_h; a++) {
    const cuuint64_t size[5] = {unit, span / unit, (cuuint64_t)t->width, (cuuint64_t)((t->height - a + t->stride_h - 1) / t->stride_h), (cuuint64_t)t->images};
    const char *why = map_apart(plan, &maps->of[a], what, 5, size, stride, box);
    if (why) return why;
  }
  return NULL;
}

static const char *plan_neighbours(const conv_operation *o, const conv_device *device, conv_plan *plan) {
  const conv_problem *p = &o->problem;
  const bool dgrad = o->pass == PASS_DGRAD;
  if (device->arch / 10 != 9) return "wgmma: only compute capability 9.0 has it";
  neighbours_plan *mine = plan_data<neighbours_plan>(plan);
  band b;
  const char *why = cut_of(p, dgrad, device, &b, &mine->image, &mine->result, &mine->cut);
  if (why) return why;
  const band_cut *t = &mine->cut;
  mine->row = instance_for(positions(t));
  mine->shared = t->matrices * MATRIX + t->stages * t->stage + CONSUMERS * mine->row->n * ROW;
  mine->blocks = t->tiles < device->sm_count ? t->tiles : device->sm_count;
  why = map_planes(plan, &mine->halos, dgrad ? "dy" : "x", &mine->image, t->pitch, t->halo, t->images);
  if (!why) why = map_results(plan, &mine->results, dgrad ? "dx" : "y", &mine->result, &b, t);
  if (why) return why;
  snprintf(plan->words, sizeof plan->words, "spans of %d, %d products of %d%s; %d x %d x %d a tile, %d tiles, %d stages", b.span_out, b.first[b.pieces],
           mine->row->n, t->both ? " by both" : "", t->images, t->rows, t->columns, t->tiles, t->stages);
  const cudaError_t status = plan_allow_shared((const void *)mine->row->kernel[dgrad], (size_t)mine->shared);
  return status ? plan_failed(plan, status) : NULL;
}

static cudaError_t launch_neighbours(const conv_plan *plan, const conv_buffers *b, cudaStream_t stream) {
  const neighbours_plan *mine = plan_data<neighbours_plan>(plan);
  const bool dgrad = plan->operation.pass == PASS_DGRAD;
  plane_maps halos, results;
  cudaError_t status = planes_at(&halos, &mine->halos, &mine->image, dgrad ? b->y : b->x);
  if (!status) status = planes_at(&results, &mine->results, &mine->result, dgrad ? b->x : b->y);
  if (status) return status;
  return launch_kernel({.grid = dim3(mine->blocks), .block = dim3(BLOCK), .shared = (size_t)mine->shared, .stream = stream, .early = true},
                       mine->row->kernel[dgrad], plan->operation.problem, mine->cut, (const __half *)b->w, halos, results);
}

/* An accumulator takes a piece's products one after the other, each of which adds 16 and what it was; zeros beside the band, too. */
static double growth_of(const conv_problem *p, bool dgrad, bool random) {
  band b;
  if (band_of(p, dgrad, &b)) return 0;
  int most = 0;
  for (int i = 0; i < b.pieces; i++)
    if (b.first[i + 1] - b.first[i] > most) most = b.first[i + 1] - b.first[i];
  return growth_truncated(most * (double)(DEPTH + 1), random);
}
static double growth_fprop(const conv_problem *p, bool random) { return growth_of(p, false, random); }
static double growth_dgrad(const conv_problem *p, bool random) { return growth_of(p, true, random); }

#define IDEA "few channels: pixels side by side are channels, filters become bands"
NHWC_ROW(neighbours_fprop, "06o", IDEA, PASS_FPROP, 90, plan_neighbours, launch_neighbours, growth_fprop);
NHWC_ROW(neighbours_dgrad, "06o", IDEA, PASS_DGRAD, 90, plan_neighbours, launch_neighbours, growth_dgrad);
