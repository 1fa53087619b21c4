/* 06v: the gradient of groups' filters: products of 64 channels and 64 filters, of which the diagonal is kept.
 *
 * Terms:    grouped convolution, split-K, deterministic reduction, parity plane.
 * Idea:     06m multiplies dy of 64 filters with x of 64 channels under every tap. With groups only a diagonal of that product is asked for, 16 blocks of 4 x 4, say; it
 *           is computed as it is, the rest of it stays in the registers. What blocks leave for each other is small: a sixteenth of 06m's.
 * Strides:  planes, as in 06u; then taps of a row are not neighbours any more, and each is a product of its own.
 * Roles:    three consumers, three taps each; with three columns of taps and no stride these are one product (06m).
 * Diagonal: which of a thread's sums lie on it, is worked out once, for two filters; then each pair of neighbours is one store under a predicate. Worked out for every sum
 *           it was 1600 instructions in a row, each waiting for the one before: longer than the products of a small layer.
 * Tiles:    small ones, many on their way: a block begins when its first is there, and ends with the products of its last.
 * Change:   against 06m planes, and the diagonal.
 * Expect:   (after a first version had been timed) ResNeXt, 64 images, at 1980 MHz: 56 x 56 and 128 channels 209 steps of 288 clocks a block, 30 us; with 28, 14 and 7 pixels 15, 8 and 5; to each 6 us for launch,
 *           first tile, parts and the second kernel. With a stride DRAM decides, at three quarters of its rate: 38, 19 and 10, and 4.
 * Passes:   wgrad. Layout: NHWC, filters KRSC, fp16 with fp32 sums. C and K: multiples of 8; up to 64 channels and filters a group; up to nine taps; strides of 1
 *           and 2; rows up to 256 with their halo. */
#include <math.h>

#include "06_tensorcore_fp16/cost.h"
#include "06_tensorcore_fp16/planes.h"
#include "06_tensorcore_fp16/tiles.cuh"
#include "06_tensorcore_fp16/whole_parts.cuh"
#include "common/harness/launch.h"

static constexpr int CONSUMERS = 3, BLOCK = (1 + CONSUMERS) * THREADS, MOST_STAGES = 8, TAPS = 3 /* of a consumer */, WIDE = 64;
static constexpr int K16 = 16 /* positions of a product */, SUMS = WIDE / 2;

/* Tiles of `rows` rows of one image, or of `images` whole ones; dy has as many columns as the halo tiles, and with several images as many rows. */
typedef struct group_cut {
  divisor by_p, chunks, by_k;                           /* by the tiles of an image; by the pieces of 64 channels; by the filters of a group */
  int rows, images, pitch, halo, tiles, splits, stages; /* tiles: of pixels, of which a block takes every splits-th */
  int steps, gradients, stage;                          /* products of a tile; bytes of dy and of all */
  int planes, plane, low_h, low_w, groups;              /* bytes of a plane; where the halo begins; groups of a chunk */
  unsigned at[MOST_TAPS];                               /* of a tap: where its pixels begin, in a descriptor's units */
} group_cut;

/* ROW_OF_TAPS: a consumer's three taps are neighbours in x, and one product. */
template <bool ROW_OF_TAPS>
static __device__ __forceinline__ void multiply_taps(float (&sum)[TAPS * SUMS], unsigned long long a, unsigned long long b, const unsigned (&at)[TAPS]) {
  ptx_wgmma_fence();
  if constexpr (ROW_OF_TAPS) ptx_wgmma<1, 1>(sum, a, b + at[0]);
  else
#pragma unroll
    for (int j = 0; j < TAPS; j++) ptx_wgmma<1, 1>((float(&)[SUMS])sum[j * SUMS], a, b + at[j]);
  ptx_wgmma_commit();
}

/* A consumer's part of parts[split][K][tap][channels of a group]. A thread has sums of filters k and k + 8, and of which channels is the same under every tap: this
 * code runs once, so it takes as long as its instructions take to arrive. AT_ONCE: sums of neighbours. `row`: from a filter to the next. */
template <int AT_ONCE>
static __device__ __forceinline__ void put_diagonal(const float (&sum)[TAPS * SUMS], float *to, int taps, int row, int group_c, int groups,
                                                    const divisor &by_k) {
  const int lane = threadIdx.x % 32, k = threadIdx.x / 32 % 4 * 16 + lane / 4;
  const int of_k[2] = {divide(k, by_k), divide(k + 8, by_k)}, first[2] = {lane % 4 * 2 - of_k[0] * group_c, lane % 4 * 2 - of_k[1] * group_c};
  const unsigned channels[2] = {of_k[0] < groups ? (unsigned)group_c : 0, of_k[1] < groups ? (unsigned)group_c : 0};
  float *const at[2] = {to + k * row + first[0], to + (k + 8) * row + first[1]};
#pragma unroll
  for (int tap = 0; tap < TAPS; tap++) {
    if (tap >= taps) return;
#pragma unroll
    for (int i = 0; i < SUMS; i += AT_ONCE) {
      const int half = i / 2 % 2, c = i / 4 * 8 + i % 2;
      float *const here = at[half] + tap * group_c + c;
      if ((unsigned)(first[half] + c) >= channels[half]) continue;
      if (AT_ONCE == 2) *(float2 *)here = make_float2(sum[tap * SUMS + i], sum[tap * SUMS + i + 1]);
      else *here = sum[tap * SUMS + i];
    }
  }
}

template <bool ROW_OF_TAPS>
__global__ void __launch_bounds__(BLOCK, 1) group_wgrad_kernel(conv_problem p, group_cut t, const __grid_constant__ plane_maps halos,
                                                               const __grid_constant__ CUtensorMap gradients, float *__restrict__ parts) {
  extern __shared__ __align__(1024) unsigned char shared[];
  __shared__ unsigned long long barriers[2 * MOST_STAGES];
  const ptx_shared stages = ptx_shared_address(shared);
  const ring r = {ptx_shared_address(barriers), ptx_shared_address(barriers + MOST_STAGES)};
  const int role = uniform(threadIdx.x / THREADS), split = divide(blockIdx.x, t.chunks), chunk = blockIdx.x - split * t.chunks.by;
  const int group_c = p.C / p.groups, group_k = p.K / p.groups, first_c = chunk * t.groups * group_c, first_k = chunk * t.groups * group_k;
  const int halo_bytes = t.pitch * t.halo * t.images * ROW, gradient_bytes = t.pitch * (t.images > 1 ? t.halo : t.rows) * t.images * ROW;
  if (threadIdx.x == 0) {
    ptx_griddepcontrol_launch_dependents(); /* the next kernel may begin */
    for (int i = 0; i < t.planes; i++) ptx_prefetch_tensormap(&halos.of[i]);
    ptx_prefetch_tensormap(&gradients);
    ring_begin(r, t.stages, CONSUMERS * THREADS / 32);
  }

  slot s = {0, 0};
  if (role == 0) { /* the producer */
    __syncwarp();
    ptx_bar_arrive(1, BLOCK); /* barriers are there; who made them need not wait */
    ptx_setmaxnreg_dec<40>();
    if (threadIdx.x != 0) return;
    ptx_griddepcontrol_wait(); /* what the kernel before wrote is there */
    for (int i = split; i < t.tiles; i += t.splits, s = next_slot(s, t.stages)) {
      const int of_p = divide(i, t.by_p), row = (i - of_p * t.by_p.by) * t.rows, n = of_p * t.images;
      const ptx_shared to = stages + s.stage * t.stage, full = r.full + 8 * s.stage;
      ptx_mbarrier_wait(r.empty + 8 * s.stage, s.parity ^ 1);
      ptx_mbarrier_arrive_expect_tx(full, gradient_bytes + t.planes * halo_bytes);
      ptx_tensor_load(to, &gradients, {first_k, 0, row, n}, full);
      for (int plane = 0; plane < t.planes; plane++)
        ptx_tensor_load(to + t.gradients + plane * t.plane, &halos.of[plane], {first_c, t.low_w, row + t.low_h, n}, full);
    }
    return;
  }

  /* What lies behind the boxes: dy's zeros count, and x must not be NaN. */
  for (int stage = 0; stage < t.stages; stage++) {
    unsigned char *const at = shared + stage * t.stage;
    for (int i = gradient_bytes / 16 + threadIdx.x - THREADS; i < t.gradients / 16; i += CONSUMERS * THREADS) *(uint4 *)(at + i * 16) = uint4();
    for (int plane = 0; plane < t.planes; plane++)
      for (int i = halo_bytes / 16 + threadIdx.x - THREADS; i < t.plane / 16; i += CONSUMERS * THREADS)
        *(uint4 *)(at + t.gradients + plane * t.plane + i * 16) = uint4();
  }
  ptx_fence_proxy_async();
  __syncwarp();           /* some lanes went round the loops once more */
  ptx_bar_sync(1, BLOCK); /* barriers and zeros are there */
  ptx_setmaxnreg_inc<152>();
  ptx_griddepcontrol_wait();
  const int me = role - 1, lane = threadIdx.x % 32, taps = p.R * p.S;     /* of the consumers */
  const int first = min(me * TAPS, ROW_OF_TAPS ? taps - TAPS : taps - 1); /* past the last: again */
  const unsigned at[TAPS] = {t.at[first], t.at[min(first + 1, taps - 1)], t.at[min(first + 2, taps - 1)]};
  const unsigned lbo = ROW_OF_TAPS ? p.dil_w * ROW : 0;
  float sum[TAPS * SUMS] = {};
  int before = -1;
  for (int i = split; i < t.tiles; i += t.splits, s = next_slot(s, t.stages)) {
    const ptx_shared stage = stages + s.stage * t.stage;
    ptx_mbarrier_wait(r.full + 8 * s.stage, s.parity);
    unsigned long long of_a = ptx_wgmma_descriptor(stage, ROW, 8 * ROW, PTX_SWIZZLE_128);
    unsigned long long of_b = ptx_wgmma_descriptor(stage + t.gradients, lbo, 8 * ROW, PTX_SWIZZLE_128);
    for (int step = 0; step < t.steps; step++, of_a += K16 * CHUNKS, of_b += K16 * CHUNKS) {
      multiply_taps<ROW_OF_TAPS>(sum, of_a, of_b, at);
      ptx_wgmma_wait<1>(); /* the product before is done, and with a tile's first the tile before */
      if (step == 0 && before >= 0 && lane == 0) ptx_mbarrier_arrive(r.empty + 8 * before);
    }
    before = s.stage;
  }
  ptx_wgmma_wait<0>();

  const int mine = min(taps - me * TAPS, TAPS), groups = min(t.groups, p.groups - chunk * t.groups);
  float *const to = parts + (((int64_t)split * p.K + first_k) * taps + me * TAPS) * group_c;
  if (group_c % 2 == 0) put_diagonal<2>(sum, to, mine, taps * group_c, group_c, groups, t.by_k);
  else put_diagonal<1>(sum, to, mine, taps * group_c, group_c, groups, t.by_k);
}

/* ---------------------------------------------------------------- host */

typedef struct group_plan {
  plane_maps halos;
  CUtensorMap gradients;
  plane_tensor x;
  group_cut cut;
  int blocks, lanes;
  bool row_of_taps;
} group_plan;

static int64_t up_to(int64_t all, int whole) { return ceil_div(all, whole) * whole; }

/* The cut into tiles of `rows` rows, or of images if those are all; false: two of them do not fit into shared memory, or no box is so large. */
static bool try_cut(const conv_problem *p, tap_range h, tap_range w, int rows, int images, int64_t room, group_cut *t) {
  t->rows = rows, t->images = images, t->pitch = halo_of(w, p->Q, (int)ceil_div(p->W, p->stride_w));
  t->halo = rows < p->P ? rows + h.high - h.low : halo_of(h, rows, (int)ceil_div(p->H, p->stride_h));
  if (t->halo > 256 || images > 256) return false;
  const int64_t box = (int64_t)t->pitch * t->halo * images, dy = (int64_t)t->pitch * (images > 1 ? t->halo : rows) * images;
  t->steps = (int)ceil_div(dy, K16), t->gradients = t->steps * K16 * ROW;
  const int64_t read = (int64_t)t->steps * K16 + (h.high - h.low) * t->pitch + w.high - w.low; /* rows that the last product's descriptors reach */
  t->plane = (int)up_to(read > box ? read : box, 8) * ROW, t->stage = t->gradients + t->planes * t->plane;
  t->stages = room / t->stage < MOST_STAGES ? (int)(room / t->stage) : MOST_STAGES;
  t->by_p = divisor_of((int)ceil_div(p->P, rows)), t->tiles = t->by_p.by * (int)ceil_div(p->N, images);
  return t->stages >= 2;
}

/* Clocks of the block that has most: the first tile on its way, when all ask at once, and then of each tile its products or its bytes, or its time in a stage: asked
 * for, brought, multiplied. */
static double clocks_of_cut(const conv_problem *p, const group_cut *t, bool row_of_taps) {
  const double products = t->steps * (double)ceil_div(p->R * p->S, TAPS) * TAPS * (row_of_taps ? 32 : 40) + 100, ask = 230 * (1 + t->planes);
  const double brought = t->stage / 36.0 /* by L2 */, in_stage = (ask + 1200 + t->stage / 16.0 + products) / t->stages;
  return t->stage / 16.0 + ceil_div(t->tiles, t->splits) * fmax(fmax(products, in_stage), fmax(ask, brought));
}

/* The cut with the fewest clocks. */
static bool best_cut(const conv_problem *p, tap_range h, tap_range w, int64_t room, int per_chunk, bool row_of_taps, group_cut *best) {
  const group_cut all = *best;
  double least = INFINITY;
  for (int parts = 1; parts <= p->P; parts++)
    for (int images = 1; images <= (parts == 1 ? p->N : 1); images++) {
      group_cut t = all;
      if (!try_cut(p, h, w, (int)ceil_div(p->P, parts), images, room, &t)) break;
      t.splits = t.tiles < per_chunk ? t.tiles : per_chunk;
      const double clocks = clocks_of_cut(p, &t, row_of_taps);
      if (clocks < least) least = clocks, *best = t;
    }
  return least < INFINITY;
}

static const char *plan_groups_wgrad(const conv_operation *o, const conv_device *device, conv_plan *plan) {
  const conv_problem *p = &o->problem;
  if (device->arch / 10 != 9) return "wgmma: only compute capability 9.0 has it";
  if (p->groups == 1) return "no groups";
  const int group_c = p->C / p->groups, group_k = p->K / p->groups, larger = group_c > group_k ? group_c : group_k;
  if (p->C % CHUNK != 0 || p->K % CHUNK != 0) return "C or K is no multiple of 8";
  if (larger > WIDE) return "more than 64 channels or filters a group";
  if (p->R * (int64_t)p->S > CONSUMERS * TAPS) return "more than nine taps";
  if (p->stride_h > 2 || p->stride_w > 2) return "a stride above 2";
  if (p->H < p->stride_h || p->W < p->stride_w) return "an image smaller than the stride";
  const char *why = plain_unsupported(p, device);
  if (why) return why;
  if (p->Q > 256 || (p->R - 1) * (int64_t)p->dil_h > 200 || (p->S - 1) * (int64_t)p->dil_w > 200) return "rows with their halo have more than 256 pixels";
  group_plan *mine = plan_data<group_plan>(plan);
  group_cut *t = &mine->cut;
  const tap_range h = range_of(p->R, p->stride_h, p->pad_top, p->dil_h, false), w = range_of(p->S, p->stride_w, p->pad_left, p->dil_w, false);
  if (p->Q + (int64_t)w.high - w.low > 256) return "rows with their halo have more than 256 pixels";
  t->groups = WIDE / larger < p->groups ? WIDE / larger : p->groups;
  const int chunks = (int)ceil_div(p->groups, t->groups);
  if (chunks > 1 && (t->groups * group_c % CHUNK != 0 || t->groups * group_k % CHUNK != 0))
    return "groups side by side that begin at no multiple of 8 channels";
  t->chunks = divisor_of(chunks), t->by_k = divisor_of(group_k);
  t->planes = p->stride_h * p->stride_w, t->low_h = h.low, t->low_w = w.low;
  mine->x = {p->C, p->W, p->H, p->N, p->stride_w, p->stride_h}, mine->row_of_taps = p->S == TAPS && p->stride_w == 1;
  const int per_chunk = device->sm_count < chunks ? 1 : device->sm_count / chunks;
  if (!best_cut(p, h, w, (int64_t)device->shared_per_block - 1024, per_chunk, mine->row_of_taps, t)) return "two tiles do not fit in shared memory";
  for (int tap = 0; tap < p->R * p->S; tap++) {
    const tap_place row = tap_of(tap / p->S, p->stride_h, p->pad_top, p->dil_h, false), column = tap_of(tap % p->S, p->stride_w, p->pad_left, p->dil_w, false);
    t->at[tap] = (unsigned)((row.residue * p->stride_w + column.residue) * t->plane + ((row.off - h.low) * t->pitch + column.off - w.low) * ROW) / 16;
  }
  mine->blocks = chunks * t->splits;
  mine->lanes = t->splits < 4 ? 1 : t->splits < 4 * MOST_LANES ? t->splits / 4 : MOST_LANES;
  plan->workspace_bytes = (size_t)t->splits * (size_t)problem_w_count(p) * sizeof(float);
  const cuuint64_t size[4] = {(cuuint64_t)p->K, (cuuint64_t)p->Q, (cuuint64_t)p->P, (cuuint64_t)p->N};
  const cuuint32_t box[4] = {WIDE, (cuuint32_t)t->pitch, (cuuint32_t)(t->images > 1 ? t->halo : t->rows), (cuuint32_t)t->images};
  why = map_planes(plan, &mine->halos, "x", &mine->x, t->pitch, t->halo, t->images);
  if (!why) why = map_tiles(plan, &mine->gradients, "dy", 4, size, box);
  if (why) return why;
  snprintf(plan->words, sizeof plan->words, "%d group%s a product, %d image%s, %d row%s a tile: %d tiles by %d block%s for each of %d pieces, %d stages",
           t->groups, t->groups == 1 ? "" : "s", t->images, t->images == 1 ? "" : "s", t->rows, t->rows == 1 ? "" : "s", t->tiles, t->splits,
           t->splits == 1 ? "" : "s", chunks, t->stages);
  const void *kernel = mine->row_of_taps ? (const void *)group_wgrad_kernel<true> : (const void *)group_wgrad_kernel<false>;
  const cudaError_t status = plan_allow_shared(kernel, (size_t)(t->stages * t->stage));
  return status ? plan_failed(plan, status) : NULL;
}

static cudaError_t launch_groups_wgrad(const conv_plan *plan, const conv_buffers *b, cudaStream_t stream) {
  const group_plan *mine = plan_data<group_plan>(plan);
  const conv_problem &p = plan->operation.problem;
  const group_cut &t = mine->cut;
  plane_maps halos;
  CUtensorMap gradients;
  cudaError_t status = planes_at(&halos, &mine->halos, &mine->x, b->x);
  if (!status) status = map_at(&gradients, &mine->gradients, b->y);
  if (status) return status;
  status = launch_kernel({.grid = dim3(mine->blocks), .block = dim3(BLOCK), .shared = (size_t)(t.stages * t.stage), .stream = stream, .early = true},
                         mine->row_of_taps ? group_wgrad_kernel<true> : group_wgrad_kernel<false>, p, t, halos, gradients, (float *)b->workspace);
  if (status) return status;
  const int count = (int)problem_w_count(&p);
  return launch_kernel({.grid = dim3((count / 4 + THREADS - 1) / THREADS), .block = dim3(THREADS, mine->lanes), .stream = stream, .early = true},
                       add_whole_kernel, count, t.splits, (const float4 *)b->workspace, (__half *)b->w);
}

/* An accumulator takes one product after the other, which adds 16 positions and what it was, at most for all of them; then the splits, in lanes. */
static double growth_groups_wgrad(const conv_problem *p, bool random) {
  const double positions = (double)p->N * (p->P + (p->R - 1) * p->dil_h + 1) * (p->Q + (p->S - 1) * p->dil_w + 1);
  const double steps = ceil(positions / K16) + (double)p->N * p->P;
  return growth_truncated(steps * (K16 + 1) + steps + MOST_LANES, random);
}

NHWC_ROW(groups_wgrad, "06v", "wgrad of groups: the diagonal of products of 64 channels and 64 filters", PASS_WGRAD, 90, plan_groups_wgrad, launch_groups_wgrad,
         growth_groups_wgrad);
