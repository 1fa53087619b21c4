/* 07c: an epilogue where tiles are few.
 *
 * Terms:    epilogue fusion, latency, st.async, release and relaxed barriers.
 * Idea:     07a's, in 06i. Where a layer takes 3 us, a kernel for its epilogue takes as long again: it costs a launch, a load and a store. Here the residual is asked for
 *           before the first step, and each block of a cluster finishes the pixels that it owns.
 * Sums:     06i's blocks meet at barriers of the cluster, before they send sums and after. Here each store tells the mbarrier of the block that gets it (st.async), and who has all
 *           sums goes on. The barrier before is relaxed: only mbarriers must be there. The full one waits until all memory that a thread wrote is there for everybody.
 * Change:   against 06i put_finished's lines for the last ones; a box of residuals; how sums are handed over.
 * Expect:   (before anything ran on a GPU) batch 1: 0.1 us more than 06i; the second kernel it replaces, 2. Sums by st.async: 0.2 less.
 * Passes:   fprop. Layout: NHWC, filters KRSC, fp16 with fp32 sums. Channels and filters: multiples of 8. No groups. */
#include "06_tensorcore_fp16/cost.h"
#include "07_fusion/finish.cuh"
#include "common/harness/launch.h"
#include "common/ptx/st_async.cuh"

static constexpr int MOST_STAGES = 8;

/* CONSUMERS: 64 filters each; N: pixels of a product; BLOCKS: of a cluster. */
template <int CONSUMERS, int N, int BLOCKS> struct shape {
  static constexpr int BLOCK = (1 + CONSUMERS) * THREADS, FILTERS = CONSUMERS * WGMMA_M, STAGE = (FILTERS + N) * ROW;
  static constexpr int GROUPS = N / 8, MINE = GROUPS / BLOCKS /* groups of eight pixels that a block owns */,
                       PART = MINE * THREADS * 16 /* bytes of their sums */;
  static constexpr int BOX = MINE * 8 * ROW, OUT = CONSUMERS * (BOX + (BLOCKS - 1) * PART), FIT = ((226 << 10) - OUT) / STAGE;
  static constexpr int STAGES = FIT < MOST_STAGES ? FIT : MOST_STAGES, SHARED = STAGES * STAGE + OUT;
};

typedef struct split_cut {
  divisor tiles_k, row, image, parts_c, columns; /* by the tiles of filters; by Q; by P Q; by the 64 channels at a time; by S */
  int steps;
} split_cut;

template <int CONSUMERS, int N, int BLOCKS, bool SMOOTH>
__global__ void __launch_bounds__(shape<CONSUMERS, N, BLOCKS>::BLOCK, 1)
    split_epilogue_kernel(conv_problem p, split_cut t, finish f, const __grid_constant__ CUtensorMap windows, const __grid_constant__ CUtensorMap filter_tiles,
                          const __grid_constant__ CUtensorMap residuals, const __grid_constant__ CUtensorMap results) {
  using S = shape<CONSUMERS, N, BLOCKS>;
  extern __shared__ __align__(1024) unsigned char shared[];
  __shared__ unsigned long long barriers[2 * S::STAGES + 2];
  const ptx_shared stages = ptx_shared_address(shared), residual_there = ptx_shared_address(barriers + 2 * S::STAGES), sums_there = residual_there + 8;
  const ring r = {ptx_shared_address(barriers), ptx_shared_address(barriers + S::STAGES)};
  const int role = uniform(threadIdx.x / THREADS), rank = blockIdx.x % BLOCKS, first = t.steps * rank / BLOCKS, count = t.steps * (rank + 1) / BLOCKS - first;
  const int of_k = divide(blockIdx.x / BLOCKS, t.tiles_k), first_k = (blockIdx.x / BLOCKS - of_k * t.tiles_k.by) * S::FILTERS;
  if (threadIdx.x == 0) {
    ptx_griddepcontrol_launch_dependents(); /* the next kernel may begin */
    ptx_prefetch_tensormap(&windows), ptx_prefetch_tensormap(&filter_tiles);
    ptx_mbarrier_init(residual_there, 1), ptx_mbarrier_init(sums_there, 1);
    ring_begin(r, S::STAGES, CONSUMERS * THREADS / 32);
    if (BLOCKS > 1) ptx_mbarrier_arrive_expect_tx(sums_there, CONSUMERS * (BLOCKS - 1) * S::PART);
  }
  if (BLOCKS > 1) ptx_cluster_arrive_relaxed(); /* this block's barriers are there */

  if (role == 0) { /* the producer */
    __syncwarp();
    ptx_bar_arrive(1, S::BLOCK);          /* barriers are there; who made them need not wait */
    if (uniform(threadIdx.x / 32) == 0) { /* a whole warp goes round: one lane alone would be an end of uniform registers, for the consumers, too */
      const int pixel = of_k * N, n = divide(pixel, t.image), of_image = pixel - n * t.image.by, row = divide(of_image, t.row);
      const tile from = {0, first_k, (of_image - row * p.Q) * p.stride_w - p.pad_left, row * p.stride_h - p.pad_top, n};
      const int tap = divide(first, t.parts_c), tap_row = divide(tap, t.columns);
      place at = {tap_row, tap - tap_row * p.S, (first - tap * t.parts_c.by) * BK};
      slot s = {0, 0};
      ptx_griddepcontrol_wait(); /* what the kernel before wrote is there */
      if (f.residual && threadIdx.x == 0) {
        ptx_mbarrier_arrive_expect_tx(residual_there, CONSUMERS * S::BOX);
        for (int me = 0; me < CONSUMERS; me++)
          ptx_tensor_load(stages + S::STAGES * S::STAGE + me * S::BOX, &residuals, {first_k + me * WGMMA_M, of_k * N + rank * S::MINE * 8}, residual_there);
      }
      __syncwarp();
      for (int step = 0; step < count; step++, at = next_step(p, at, p.C), s = next_slot(s, S::STAGES)) {
        const ptx_shared filters = stages + s.stage * S::STAGE;
        ptx_mbarrier_wait(r.empty + 8 * s.stage, s.parity ^ 1);
        __syncwarp(); /* a lane that is a round behind would wait for a parity that has come and gone */
        if (threadIdx.x == 0) load_step(p, from, &windows, &filter_tiles, at, filters + S::FILTERS * ROW, filters, S::STAGE, r.full + 8 * s.stage);
      }
    }
    if (BLOCKS > 1) {
      __syncwarp();
      ptx_cluster_wait();
    }
    return;
  }

  ptx_bar_sync(1, S::BLOCK);
  ptx_griddepcontrol_wait();
  const int me = role - 1, lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4; /* of the consumers */
  const ptx_shared a = stages + me * WGMMA_M * ROW, b = stages + S::FILTERS * ROW, box = stages + S::STAGES * S::STAGE + me * S::BOX;
  uint4 *const received = (uint4 *)(shared + S::STAGES * S::STAGE + CONSUMERS * S::BOX + me * (BLOCKS - 1) * S::PART) + threadIdx.x % THREADS;
  const bool stores = threadIdx.x % THREADS == 0, first_lane = threadIdx.x % 32 == 0;
  const channel_pair c = channels_of(f, first_k + me * WGMMA_M, p.K);
  float sum[1][N / 2];
  slot s = {0, 0};
  ptx_mbarrier_wait(r.full, 0);
  multiply<true>(sum, a, b);
  for (int step = 1, before = 0; step < count; step++) {
    s = next_slot(s, S::STAGES);
    ptx_mbarrier_wait(r.full + 8 * s.stage, s.parity);
    multiply<false>(sum, a + s.stage * S::STAGE, b + s.stage * S::STAGE);
    ptx_wgmma_wait<1>(); /* the step before is done */
    if (first_lane) ptx_mbarrier_arrive(r.empty + 8 * before);
    before = s.stage;
  }
  ptx_wgmma_wait<0>();

  if (BLOCKS > 1) ptx_cluster_wait(); /* all blocks' barriers are there */
#pragma unroll
  for (int owner = 0; owner < BLOCKS; owner++) {
    if (owner == rank) continue;
    const ptx_shared to = ptx_mapa(ptx_shared_address(received), owner) + (rank < owner ? rank : rank - 1) * S::PART;
#pragma unroll
    for (int j = 0; j < S::MINE; j++) {
      const float *four = sum[0] + 4 * (owner * S::MINE + j);
      ptx_st_async_16(to + j * THREADS * 16, make_uint4(__float_as_uint(four[0]), __float_as_uint(four[1]), __float_as_uint(four[2]), __float_as_uint(four[3])),
                      ptx_mapa(sums_there, owner));
    }
  }
  if (BLOCKS > 1) ptx_mbarrier_wait(sums_there, 0); /* all others' sums are there; and nobody has anything for this block any more */
  if (f.residual) ptx_mbarrier_wait(residual_there, 0);
  __syncwarp();
#pragma unroll
  for (int owner = 0; owner < BLOCKS; owner++) {
    if (owner != rank) continue;
#pragma unroll
    for (int j = 0; j < S::MINE; j++) {
      const float *four = sum[0] + 4 * (owner * S::MINE + j);
      float all[4] = {};
#pragma unroll
      for (int q = 0; q < BLOCKS; q++) {
        const uint4 other = q == owner ? make_uint4(__float_as_uint(four[0]), __float_as_uint(four[1]), __float_as_uint(four[2]), __float_as_uint(four[3]))
                                       : received[((q < owner ? q : q - 1) * S::MINE + j) * THREADS];
        all[0] += __uint_as_float(other.x), all[1] += __uint_as_float(other.y), all[2] += __uint_as_float(other.z), all[3] += __uint_as_float(other.w);
      }
      const ptx_shared at = box + swizzled(8 * j + lane % 8, 2 * warp + lane / 8 % 2);
      unsigned part[2] = {};
      if (f.residual) ptx_ldmatrix_x2_trans(part, at);
#pragma unroll
      for (int i = 0; i < 2; i++) part[i] = finished<SMOOTH, true>(make_float2(all[2 * i], all[2 * i + 1]), c.scale[i], c.bias[i], part[i], f); /* or zeros */
      ptx_stmatrix_x2_trans(at, part);
    }
  }
  ptx_fence_proxy_async();
  ptx_bar_sync(2 + me, THREADS); /* the box is there */
  if (stores && first_k + me * WGMMA_M < p.K) {
    ptx_tensor_store(&results, {first_k + me * WGMMA_M, of_k * N + rank * S::MINE * 8}, box);
    ptx_bulk_commit();
    ptx_bulk_wait_read<0>(); /* shared memory may go; what is written is there when the grid ends */
  }
}

/* ---------------------------------------------------------------- host */

typedef struct instance {
  int shared;
  void (*kernel[2])(conv_problem p, split_cut t, finish f, CUtensorMap windows, CUtensorMap filter_tiles, CUtensorMap residuals,
                    CUtensorMap results); /* limits, smooth */
} instance;

/* In the order of split_tiles (cost.h). */
#define ROW_OF(CONSUMERS, N, BLOCKS)                                                                                                               \
  {                                                                                                                                                \
    shape<CONSUMERS, N, BLOCKS>::SHARED, { split_epilogue_kernel<CONSUMERS, N, BLOCKS, false>, split_epilogue_kernel<CONSUMERS, N, BLOCKS, true> } \
  }
static const instance instances[] = {ROW_OF(1, 32, 1), ROW_OF(1, 64, 1), ROW_OF(1, 32, 2), ROW_OF(1, 32, 4),  ROW_OF(1, 64, 2), ROW_OF(1, 64, 4),
                                     ROW_OF(1, 64, 8), ROW_OF(2, 64, 2), ROW_OF(2, 96, 2), ROW_OF(2, 112, 2), ROW_OF(2, 128, 2)};

typedef struct split_plan {
  CUtensorMap windows, filter_tiles, results;
  const instance *row;
  split_cut cut;
  int blocks, cluster, threads;
} split_plan;

static const char *plan_few(const conv_operation *o, const conv_device *device, conv_plan *plan) {
  const conv_problem *p = &o->problem;
  if (device->arch / 10 != 9) return "wgmma: only compute capability 9.0 has it";
  if (p->groups > 1) return "groups";
  if (p->C % CHUNK != 0 || p->K % CHUNK != 0) return "C or K is no multiple of 8";
  const char *why = plain_unsupported(p, device);
  if (why) return why;
  split_plan *mine = plan_data<split_plan>(plan);
  int choice = 0;
  best_split(p, device->sm_count, &choice);
  const split_tile t = split_tiles[choice];
  mine->row = &instances[choice], mine->cluster = t.blocks, mine->threads = (1 + t.consumers) * THREADS;
  const int parts_c = (int)ceil_div(p->C, BK), tiles_k = (int)ceil_div(p->K, t.consumers * WGMMA_M);
  const int64_t tiles = ceil_div((int64_t)p->N * p->P * p->Q, t.n) * tiles_k;
  mine->cut = {divisor_of(tiles_k), divisor_of(p->Q), divisor_of(p->P * p->Q), divisor_of(parts_c), divisor_of(p->S), p->R * p->S * parts_c};
  mine->blocks = (int)tiles * t.blocks;
  why = map_windows(plan, &mine->windows, p, BK, t.n);
  if (!why) why = map_filters(plan, &mine->filter_tiles, p, t.consumers * WGMMA_M);
  const cuuint64_t size[2] = {(cuuint64_t)p->K, (cuuint64_t)p->N * p->P * p->Q};
  const cuuint32_t box[2] = {WGMMA_M, (cuuint32_t)(t.n / t.blocks)};
  if (!why) why = map_tiles(plan, &mine->results, "y", 2, size, box);
  if (why) return why;
  snprintf(plan->words, sizeof plan->words, "%d filters x %d pixels, %lld tile%s by %d block%s each", t.consumers * WGMMA_M, t.n, (long long)tiles,
           tiles == 1 ? "" : "s", t.blocks, t.blocks == 1 ? "" : "s");
  const cudaError_t status = plan_allow_shared((const void *)mine->row->kernel[is_smooth(o->epilogue.activation)], (size_t)mine->row->shared);
  return status ? plan_failed(plan, status) : NULL;
}

static cudaError_t launch_few(const conv_plan *plan, const conv_buffers *b, cudaStream_t stream) {
  const split_plan *mine = plan_data<split_plan>(plan);
  const conv_epilogue *e = &plan->operation.epilogue;
  CUtensorMap windows, filter_tiles, residuals, results;
  cudaError_t status = map_at(&windows, &mine->windows, b->x);
  if (!status) status = map_at(&filter_tiles, &mine->filter_tiles, b->w);
  if (!status) status = map_at(&residuals, &mine->results, e->residual ? (void *)b->residual : b->y);
  if (!status) status = map_at(&results, &mine->results, b->y);
  if (status) return status;
  return launch_kernel({.grid = dim3(mine->blocks),
                        .block = dim3(mine->threads),
                        .shared = (size_t)mine->row->shared,
                        .stream = stream,
                        .cluster = mine->cluster > 1 ? (unsigned)mine->cluster : 0,
                        .early = true},
                       mine->row->kernel[is_smooth(e->activation)], plan->operation.problem, mine->cut, finish_of(e, b->scale, b->bias), windows, filter_tiles,
                       residuals, results);
}

/* As 06f's, and the partial sums of up to 8 blocks. */
static double growth_few(const conv_problem *p, bool random) {
  const int steps = p->R * p->S * ((p->C + BK - 1) / BK);
  return growth_truncated((double)(steps * (BK / 16) * (16 + 1) + 8), random);
}

FINISHING_ROW(few_epilogue_fprop, "07c", "06i, and the epilogue before results leave", plan_few, launch_few, growth_few);
