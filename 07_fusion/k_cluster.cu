/* 07k: a window and the 1 x 1 behind it, where tiles are few: a cluster has all filters between them.
 *
 * Terms:    back-to-back convolutions, split-K, thread block cluster, distributed shared memory (DSMEM), st.async, latency.
 * Idea:     with one image a layer takes 3 us, of which two are a launch, the first load, the last store: so two layers in one launch. But 256 filters of the next layer
 *           want all 256 channels of the one before, whose filters fill five multiprocessors. A cluster has both: its blocks have the same few pixels, and of the first layer
 *           128 filters and a quarter of the reduction. They add their sums, as in 07c, and each hands what it has finished to all. Then each has all channels of those
 *           pixels, and takes its share of the second layer's filters.
 *
 *               a part of the steps -> sums -> to their owners -> add, finish -> to all blocks: `between` -> x my filters -> finish -> box -> y
 *
 * Handing on: a unit is 8 pixels of 64 filters. Sums go from registers straight to the block that owns the unit, halves of a finished one to all, 16 bytes a
 *           store; both tell the mbarrier of the block that gets them how many bytes have come (st.async). No barrier of the cluster stands between.
 * Cut:      all 256 filters and an eighth of the reduction are more sums to send, 64 and half of it more small steps: either was slower (docs/07_one_image.md).
 * Change:   against 07c sums leave as whole units for a block that need not be the one that stores; the second product.
 * Expect:   (before anything ran on a GPU) ResNet-50, one image, 28 x 28, 128 channels to 128 to 512: 07c takes 3.5 us and 2.3, and 0.9 between them. Here a block takes in 130 KB,
 *           1.3 us; a launch, the first load, two ways to a neighbour and the last store, 3: 4.3 us for 6.7. At 14 x 14 with 256 channels 230 KB: 5 us for 7.4.
 * Chain:    fprop, two operations: any window with up to 256 filters, as many tiles as there are clusters; 1 x 1 without a stride. Activations without exponentials.
 *           Layout: NHWC, filters KRSC, fp16 with fp32 sums; C and K: multiples of 8. */
#include <math.h>

#include "06_tensorcore_fp16/cost.h"
#include "07_fusion/finish.cuh"
#include "07_fusion/then_1x1.h"
#include "common/harness/chain.h"
#include "common/harness/launch.h"
#include "common/ptx/st_async.cuh"

static constexpr int TAP = WGMMA_M * ROW /* 64 filters, 64 channels */, UNIT = 8 * ROW, PART = THREADS * 16 /* sums of a unit */;
static constexpr int MOST_STAGES = 12, LEAST_STAGES = 2, ROOM = 226 << 10;

/* Of the first layer's filters a block has 64 for each of its CONSUMERS, the cluster SLICES times as many; and of its reduction one of PARTS. N: pixels of a tile. */
template <int CONSUMERS, int SLICES, int PARTS, int N> struct shape {
  static constexpr int BLOCK = (1 + CONSUMERS) * THREADS, BLOCKS = SLICES * PARTS, GROUPS = CONSUMERS * SLICES /* of 64 filters */, FILTERS = CONSUMERS * TAP;
  static constexpr int BOX = N * ROW, STAGE = FILTERS + BOX, EIGHTS = N / 8, MINE = CONSUMERS * EIGHTS / PARTS /* units that a block owns */;
  static constexpr int FIXED = GROUPS * BOX + MINE * (UNIT + PARTS * PART);
  static_assert(CONSUMERS * EIGHTS % PARTS == 0 && BLOCKS % 2 == 0);
};

typedef struct cluster_cut {
  divisor row, image, parts_c, columns; /* by Q; by P Q; by the 64 channels at a time; by S */
  int steps, stages, second_k, pieces;  /* pieces: 64 filters of the second layer each, a block's */
} cluster_cut;

/* Shared memory; filters, boxes: of the second layer. */
typedef struct places {
  ptx_shared stages, filters, between, boxes, finished, sums;
  ring r;
  ptx_shared sums_there, between_there, filters_there;
} places;

/* What a block does: its steps, its pixels, its filters of either layer. */
typedef struct share {
  int rank, first_step, steps, pixel, first_k, second_k, pieces;
} share;

/* By a warp: the first layer's steps; then the second layer's filters, and residuals. */
template <int CONSUMERS, int SLICES, int PARTS, int N>
static __device__ __forceinline__ void bring(const conv_problem &p, const cluster_cut &t, const places &at, const share &my, bool residual,
                                             const CUtensorMap *windows, const CUtensorMap *first_filters, const CUtensorMap *second_filters,
                                             const CUtensorMap *residuals) {
  using S = shape<CONSUMERS, SLICES, PARTS, N>;
  const int n = divide(my.pixel, t.image), of_image = my.pixel - n * t.image.by, row = divide(of_image, t.row);
  const tile from = {0, my.first_k, (of_image - row * p.Q) * p.stride_w - p.pad_left, row * p.stride_h - p.pad_top, n};
  const int tap = divide(my.first_step, t.parts_c), tap_row = divide(tap, t.columns);
  place step_at = {tap_row, tap - tap_row * p.S, (my.first_step - tap * t.parts_c.by) * BK};
  slot s = {0, 0};
  for (int step = 0; step < my.steps; step++, step_at = next_step(p, step_at, p.C), s = next_slot(s, t.stages)) {
    const ptx_shared filters = at.stages + s.stage * S::STAGE;
    ptx_mbarrier_wait(at.r.empty + 8 * s.stage, s.parity ^ 1);
    __syncwarp();
    if (threadIdx.x == 0) load_step(p, from, windows, first_filters, step_at, filters + S::FILTERS, filters, S::STAGE, at.r.full + 8 * s.stage);
  }
  if (threadIdx.x > 0 || my.pieces <= 0) return;
  ptx_mbarrier_arrive_expect_tx(at.filters_there, my.pieces * (S::GROUPS * TAP + (residual ? S::BOX : 0)));
  for (int i = 0; i < my.pieces; i++) {
    const int filter = my.second_k + i * WGMMA_M;
    for (int g = 0; g < S::GROUPS; g++) ptx_tensor_load(at.filters + (i * S::GROUPS + g) * TAP, second_filters, {g * BK, 0, filter}, at.filters_there);
    if (residual) ptx_tensor_load(at.boxes + i * S::BOX, residuals, {filter, my.pixel}, at.filters_there);
  }
}

/* Sums of each unit to the block that owns it, straight from registers. */
template <int CONSUMERS, int SLICES, int PARTS, int N>
static __device__ __forceinline__ void send_sums(const places &at, const float (&sum)[N / 2], int me, int rank) {
  using S = shape<CONSUMERS, SLICES, PARTS, N>;
#pragma unroll
  for (int j = 0; j < S::EIGHTS; j++) {
    const int unit = me * S::EIGHTS + j, owner = unit / S::MINE * SLICES + rank % SLICES, place = unit % S::MINE * PARTS + rank / SLICES;
    const float *four = sum + 4 * j;
    ptx_st_async_16(ptx_mapa(at.sums + place * PART + threadIdx.x % THREADS * 16, owner),
                    make_uint4(__float_as_uint(four[0]), __float_as_uint(four[1]), __float_as_uint(four[2]), __float_as_uint(four[3])),
                    ptx_mapa(at.sums_there, owner));
  }
}

/* The units that this block owns: all parts' sums, in the order of the parts; finished; to all blocks. */
template <int CONSUMERS, int SLICES, int PARTS, int N>
static __device__ __forceinline__ void hand_on(const places &at, const unsigned char *sums, const unsigned char *finished_at, const finish &f, int k, int me,
                                               int rank) {
  using S = shape<CONSUMERS, SLICES, PARTS, N>;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4, in_unit = swizzled(lane % 8, 2 * warp + lane / 8 % 2);
  for (int i = me; i < S::MINE; i += CONSUMERS) {
    const int unit = rank / SLICES * S::MINE + i, group = rank % SLICES * CONSUMERS + unit / S::EIGHTS;
    const channel_pair c = channels_of(f, group * WGMMA_M, k);
    ptx_mbarrier_wait(at.sums_there, 0);
    float all[4] = {};
#pragma unroll
    for (int q = 0; q < PARTS; q++) {
      const uint4 part = *(const uint4 *)(sums + (i * PARTS + q) * PART + threadIdx.x % THREADS * 16);
      all[0] += __uint_as_float(part.x), all[1] += __uint_as_float(part.y), all[2] += __uint_as_float(part.z), all[3] += __uint_as_float(part.w);
    }
    unsigned pair[2];
#pragma unroll
    for (int j = 0; j < 2; j++) pair[j] = finished<false, false>(make_float2(all[2 * j], all[2 * j + 1]), c.scale[j], c.bias[j], 0, f);
    __syncwarp();
    ptx_stmatrix_x2_trans(at.finished + i * UNIT + in_unit, pair); /* a warp's 16 filters, two chunks of 8 pixels: they turn ... */
    __syncwarp();
    const uint4 eight = *(const uint4 *)(finished_at + i * UNIT + in_unit); /* ... for lanes of the same warp */
    const int to = group * S::BOX + unit % S::EIGHTS * UNIT + in_unit;
#pragma unroll
    for (int b = 0; b < S::BLOCKS; b += 2) { /* half of a warp has every second block, from its own on, the other half from the right neighbour on */
      const int block = (rank + b + lane / 16) % S::BLOCKS;
      ptx_st_async_16(ptx_mapa(at.between + to, block), eight, ptx_mapa(at.between_there, block));
    }
  }
}

template <int CONSUMERS, int SLICES, int PARTS, int N>
__global__ void __launch_bounds__(shape<CONSUMERS, SLICES, PARTS, N>::BLOCK, 1)
    cluster_kernel(conv_problem p, cluster_cut t, finish first, finish second, const __grid_constant__ CUtensorMap windows,
                   const __grid_constant__ CUtensorMap first_filters, const __grid_constant__ CUtensorMap second_filters,
                   const __grid_constant__ CUtensorMap residuals, const __grid_constant__ CUtensorMap results) {
  using S = shape<CONSUMERS, SLICES, PARTS, N>;
  extern __shared__ __align__(1024) unsigned char shared[];
  __shared__ unsigned long long barriers[2 * MOST_STAGES + 3];
  const ptx_shared stages = ptx_shared_address(shared), there = ptx_shared_address(barriers);
  const int of_filters = t.stages * S::STAGE, of_between = of_filters + t.pieces * S::GROUPS * TAP, of_boxes = of_between + S::GROUPS * S::BOX,
            of_finished = of_boxes + t.pieces * S::BOX, of_sums = of_finished + S::MINE * UNIT;
  const places at = {stages,
                     stages + of_filters,
                     stages + of_between,
                     stages + of_boxes,
                     stages + of_finished,
                     stages + of_sums,
                     {there, there + 8 * MOST_STAGES},
                     there + 16 * MOST_STAGES,
                     there + 16 * MOST_STAGES + 8,
                     there + 16 * MOST_STAGES + 16};
  const int role = uniform(threadIdx.x / THREADS), rank = blockIdx.x % S::BLOCKS, part = rank / SLICES, first_step = t.steps * part / PARTS,
            second_k = rank * t.pieces * WGMMA_M;
  const share my = {rank,
                    first_step,
                    t.steps * (part + 1) / PARTS - first_step,
                    (int)blockIdx.x / S::BLOCKS * N,
                    rank % SLICES * CONSUMERS * WGMMA_M,
                    second_k,
                    min(t.pieces, (t.second_k - second_k + WGMMA_M - 1) / WGMMA_M)};
  if (threadIdx.x == 0) {
    ptx_griddepcontrol_launch_dependents(); /* the next kernel may begin */
    ptx_prefetch_tensormap(&windows), ptx_prefetch_tensormap(&first_filters), ptx_prefetch_tensormap(&second_filters);
    ptx_mbarrier_init(at.sums_there, 1), ptx_mbarrier_init(at.between_there, 1), ptx_mbarrier_init(at.filters_there, 1);
    ring_begin(at.r, t.stages, CONSUMERS * THREADS / 32);
    ptx_mbarrier_arrive_expect_tx(at.sums_there, S::MINE * PARTS * PART), ptx_mbarrier_arrive_expect_tx(at.between_there, S::GROUPS * S::BOX);
  }
  ptx_cluster_arrive_relaxed(); /* this block's barriers are there */

  if (role == 0) { /* the producer */
    __syncwarp();
    ptx_bar_arrive(1, S::BLOCK);
    if (uniform(threadIdx.x / 32) == 0) {
      ptx_griddepcontrol_wait(); /* what the kernel before wrote is there */
      bring<CONSUMERS, SLICES, PARTS, N>(p, t, at, my, second.residual, &windows, &first_filters, &second_filters, &residuals);
    }
    __syncwarp();
    ptx_cluster_wait();
    return;
  }

  ptx_bar_sync(1, S::BLOCK);
  ptx_griddepcontrol_wait();
  const int me = role - 1;
  const ptx_shared a = stages + me * TAP, b = stages + S::FILTERS;
  const bool stores = threadIdx.x % THREADS == 0, first_lane = threadIdx.x % 32 == 0;
  float sum[1][N / 2];
  slot s = {0, 0};
  ptx_mbarrier_wait(at.r.full, 0);
  multiply<true>(sum, a, b);
  for (int step = 1, before = 0; step < my.steps; step++) {
    s = next_slot(s, t.stages);
    ptx_mbarrier_wait(at.r.full + 8 * s.stage, s.parity);
    multiply<false>(sum, a + s.stage * S::STAGE, b + s.stage * S::STAGE);
    ptx_wgmma_wait<1>(); /* the step before is done */
    if (first_lane) ptx_mbarrier_arrive(at.r.empty + 8 * before);
    before = s.stage;
  }
  ptx_wgmma_wait<0>();

  ptx_cluster_wait(); /* all blocks' barriers are there */
  send_sums<CONSUMERS, SLICES, PARTS, N>(at, sum[0], me, rank);
  hand_on<CONSUMERS, SLICES, PARTS, N>(at, shared + of_sums, shared + of_finished, first, p.K, me, rank);
  ptx_mbarrier_wait(at.between_there, 0); /* all channels of these pixels; and nobody has anything for this block any more */
  if (my.pieces > 0) ptx_mbarrier_wait(at.filters_there, 0);
  ptx_fence_proxy_async(); /* what threads have stored, for wgmma */
  __syncwarp();
  for (int piece = me; piece < my.pieces; piece += CONSUMERS) {
    const int filter = my.second_k + piece * WGMMA_M;
    const ptx_shared filters = at.filters + piece * S::GROUPS * TAP, box = at.boxes + piece * S::BOX;
    const channel_pair c = channels_of(second, filter, t.second_k);
    multiply<true>(sum, filters, at.between);
#pragma unroll
    for (int g = 1; g < S::GROUPS; g++) multiply<false>(sum, filters + g * TAP, at.between + g * S::BOX);
    ptx_wgmma_wait<0>();
    put_finished<N, false>(sum[0], c, second, box);
    ptx_fence_proxy_async();
    ptx_bar_sync(2 + me, THREADS); /* the box is there */
    if (stores) {
      ptx_tensor_store(&results, {filter, my.pixel}, box);
      ptx_bulk_commit();
    }
    __syncwarp();
  }
  if (stores) ptx_bulk_wait_read<0>(); /* shared memory may go; what is written is there when the grid ends */
}

/* ---------------------------------------------------------------- host */

typedef void chain_function(conv_problem p, cluster_cut t, finish first, finish second, CUtensorMap windows, CUtensorMap first_filters,
                            CUtensorMap second_filters, CUtensorMap residuals, CUtensorMap results);
typedef struct instance {
  int consumers, slices, parts, n, stage, box, fixed; /* the last three: bytes */
  chain_function *kernel;
} instance;
#define ROW_OF(...) \
  { __VA_ARGS__, shape<__VA_ARGS__>::STAGE, shape<__VA_ARGS__>::BOX, shape<__VA_ARGS__>::FIXED, cluster_kernel<__VA_ARGS__> }
/* Of as many groups those with fewer pixels first. */
static const instance shapes[] = {ROW_OF(2, 1, 4, 16), ROW_OF(2, 1, 4, 32), ROW_OF(2, 2, 4, 16)};

typedef struct chain_plan {
  CUtensorMap windows, first_filters, second_filters, results;
  conv_problem problem; /* the first */
  conv_epilogue first, second;
  const instance *row;
  cluster_cut cut;
  int clusters, shared;
} chain_plan;

/* The first instance with enough filters that has a cluster for each tile at once, and room; NULL: none. */
static const instance *instance_for(const conv_problem *p, int second_k, int sm_count, cluster_cut *t, int *clusters) {
  for (const instance *i = shapes; i < shapes + sizeof shapes / sizeof *shapes; i++) {
    const int groups = i->consumers * i->slices, blocks = i->slices * i->parts, most = (int)ceil_div(t->steps, i->parts); /* steps of a block */
    const int together = blocks <= 2 ? sm_count / blocks : sm_count * 10 / 11 / blocks; /* of 132 multiprocessors clusters of 4 and of 8 reach 120 */
    const int64_t tiles = ceil_div((int64_t)p->N * p->P * p->Q, i->n);
    if (p->K > 64 * groups || t->steps < i->parts || tiles > (together > 1 ? together : 1)) continue;
    t->pieces = (int)ceil_div(ceil_div(second_k, WGMMA_M), blocks);
    const int64_t room = ROOM - i->fixed - (int64_t)t->pieces * (groups * TAP + i->box);
    t->stages = (int)fmin(fmin((double)(room / i->stage), MOST_STAGES), most > LEAST_STAGES ? most : LEAST_STAGES);
    if (room < LEAST_STAGES * i->stage) continue;
    *clusters = (int)tiles;
    return i;
  }
  return NULL;
}

static const char *plan_chain(const conv_chain *chain, const conv_device *device, conv_plan *plan) {
  const conv_operation *a = &chain->operation[0], *b = &chain->operation[1];
  const conv_problem *p = &a->problem, *q = &b->problem;
  if (device->arch / 10 != 9) return "wgmma: only compute capability 9.0 has it";
  const char *why = then_1x1_unsupported(a, b, device);
  if (why) return why;
  chain_plan *mine = plan_data<chain_plan>(plan);
  cluster_cut *t = &mine->cut;
  const int parts_c = (int)ceil_div(p->C, BK);
  *t = {divisor_of(p->Q), divisor_of(p->P * p->Q), divisor_of(parts_c), divisor_of(p->S), p->R * p->S * parts_c, 0, q->K, 0};
  const instance *row = mine->row = instance_for(p, q->K, device->sm_count, t, &mine->clusters);
  if (!row) return "no clusters for all tiles at once, or no room for their filters";
  mine->problem = *p, mine->first = a->epilogue, mine->second = b->epilogue;
  mine->shared = t->stages * row->stage + row->fixed + t->pieces * (row->consumers * row->slices * TAP + row->box);
  why = map_windows(plan, &mine->windows, p, BK, row->n);
  if (!why) why = map_filters(plan, &mine->first_filters, p, row->consumers * WGMMA_M);
  if (!why) why = map_filters(plan, &mine->second_filters, q, WGMMA_M);
  const cuuint64_t size[2] = {(cuuint64_t)q->K, (cuuint64_t)q->N * q->P * q->Q};
  const cuuint32_t box[2] = {WGMMA_M, (cuuint32_t)row->n};
  if (!why) why = map_tiles(plan, &mine->results, "y", 2, size, box);
  if (why) return why;
  snprintf(plan->words, sizeof plan->words, "%d tile%s of %d pixels, by %d blocks each: %d stages, %d times 64 filters of the second", mine->clusters,
           mine->clusters == 1 ? "" : "s", row->n, row->slices * row->parts, t->stages, t->pieces);
  const cudaError_t status = plan_allow_shared((const void *)row->kernel, (size_t)mine->shared);
  return status ? plan_failed(plan, status) : NULL;
}

static cudaError_t launch_chain(const conv_plan *plan, const conv_buffers *each, cudaStream_t stream) {
  const chain_plan *mine = plan_data<chain_plan>(plan);
  const conv_buffers *a = &each[0], *b = &each[1];
  CUtensorMap windows, first_filters, second_filters, residuals, results;
  cudaError_t status = map_at(&windows, &mine->windows, a->x);
  if (!status) status = map_at(&first_filters, &mine->first_filters, a->w);
  if (!status) status = map_at(&second_filters, &mine->second_filters, b->w);
  if (!status) status = map_at(&residuals, &mine->results, mine->second.residual ? (void *)b->residual : b->y);
  if (!status) status = map_at(&results, &mine->results, b->y);
  if (status) return status;
  return launch_kernel({.grid = dim3(mine->clusters * mine->row->slices * mine->row->parts),
                        .block = dim3((1 + mine->row->consumers) * THREADS),
                        .shared = (size_t)mine->shared,
                        .stream = stream,
                        .cluster = (unsigned)(mine->row->slices * mine->row->parts),
                        .early = true},
                       mine->row->kernel, mine->problem, mine->cut, finish_of(&mine->first, a->scale, a->bias), finish_of(&mine->second, b->scale, b->bias),
                       windows, first_filters, second_filters, residuals, results);
}

/* Clocks: what a block takes in, 70 bytes each; what it sends to its neighbours, 9; and the larger a cluster, the longer one waits for the last. */
static void facts_chain(const conv_chain *chain, const conv_plan *plan, chain_facts *facts) {
  (void)chain;
  const chain_plan *mine = plan_data<chain_plan>(plan);
  const instance *row = mine->row;
  const int blocks = row->slices * row->parts, units = row->consumers * row->n / 8;
  const double taken = (double)ceil_div(mine->cut.steps, row->parts) * row->stage + (double)mine->cut.pieces * row->consumers * row->slices * TAP;
  const int sent = units * (row->parts - 1) / row->parts * PART + units / row->parts * (blocks - 1) * UNIT;
  *facts = {(const void *)row->kernel,
            mine->clusters * blocks,
            (1 + row->consumers) * THREADS,
            mine->shared,
            mine->clusters * blocks,
            0,
            (taken / 70.0 + sent / 9.0 + 50 * blocks) / 1900};
}

static double growth_chain(const conv_chain *chain, int index, bool random) {
  const conv_problem *p = &chain->operation[index].problem;
  return index > 0 ? growth_steps(p, random) : growth_truncated((double)(p->R * p->S * ((p->C + BK - 1) / BK) * (BK / 16) * (16 + 1) + 8), random); /* 07c's */
}

extern "C" const chain_kernel cluster_chain;
const chain_kernel cluster_chain = {.name = "07k",
                                    .idea = "few images: a window, and the 1x1 behind it in the same cluster",
                                    .count = 2,
                                    .dtype = DTYPE_FP16,
                                    .layout = LAYOUT_NHWC,
                                    .min_arch = 90,
                                    .plan = plan_chain,
                                    .launch = launch_chain,
                                    .facts = facts_chain,
                                    .growth = growth_chain};
