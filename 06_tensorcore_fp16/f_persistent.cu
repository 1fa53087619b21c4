/* 06f: blocks that stay, results that leave under the next tile, and filters that come once for two blocks.
 *
 * Terms:    persistent kernel, tile scheduler, epilogue overlap, thread block cluster, multicast.
 * Idea:     three. One block a multiprocessor takes tile after tile, so that its producer loads the next tile's first stages while this one's last are multiplied,
 *           and barriers and maps are set up once. Results go to shared memory of their own by stmatrix and from there by the copy engine, which the next tile
 *           does not wait for. And two blocks of a cluster have neighbouring pixels and the same filters: each loads half of these and sends it to both.
 * Order:    filters first, then pixels: blocks at work at the same time read the same windows.
 * Change:   against 06e the loop over tiles, the cluster's loads and releases, the way out.
 * Expect:   of a step's 48 KiB 32 cross L2 for each block: 6.3 TB/s at 800 TFLOP/s, no limit. A tile's end costs its last products, and two barriers: 700 TFLOP/s,
 *           where the power allows.
 * 1x1:      is the matrix product it looks like; its windows are pixels, and im2col brings them as fast as tiles (docs/gpu_hopper.md).
 * Passes:   fprop. Layout: NHWC, filters KRSC, fp16 with fp32 sums. Channels and filters: multiples of 8, with groups of 64 a group. */
#include "06_tensorcore_fp16/ring.cuh"
#include "common/harness/launch.h"

static constexpr int CONSUMERS = 2, BLOCK = (1 + CONSUMERS) * THREADS, BLOCKS = 2 /* of a cluster */, BOX = 64 /* filters of a store */;

/* A warpgroup's sums as halves to shared memory, [SUMS / 32][64 M pixels][BOX], swizzled: what a store's box is. */
template <int M, int SUMS> static __device__ __forceinline__ void put_boxes(ptx_shared boxes, const float (&sum)[M][SUMS]) {
  const int warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32;
#pragma unroll
  for (int i = 0; i < M; i++) {
    const int row = i * WGMMA_M + 16 * warp + lane % 16;
#pragma unroll
    for (int j = 0; j < SUMS; j += 8) { /* 16 filters: rows 0 to 7 and 8 to 15 of the first 8, then of the others */
      unsigned part[4];
#pragma unroll
      for (int e = 0; e < 4; e++) part[e] = two_halves(sum[i][j + 2 * e], sum[i][j + 2 * e + 1]);
      ptx_stmatrix_x4(boxes + j / 32 * (M * WGMMA_M * ROW) + swizzled(row, j / 4 % CHUNKS + lane / 16), part);
    }
  }
}

/* A block of a cluster: 128 M pixels x BN filters at a time. */
template <int BN, int M, int STAGES>
__global__ void __launch_bounds__(BLOCK, 1)
    persistent_kernel(conv_problem p, const __grid_constant__ CUtensorMap windows, const __grid_constant__ CUtensorMap filter_tiles,
                      const __grid_constant__ CUtensorMap results, int tiles) {
  constexpr int PIXELS = WGMMA_M * M, BM = CONSUMERS * PIXELS, STAGE = (BM + BN) * ROW, HALF = BN / BLOCKS;
  extern __shared__ __align__(1024) unsigned char shared[];
  __shared__ unsigned long long barriers[2 * STAGES];
  const ptx_shared stages = ptx_shared_address(shared);
  const ring r = {ptx_shared_address(barriers), ptx_shared_address(barriers + STAGES)};
  const int group_c = p.C / p.groups, group_k = p.K / p.groups, tiles_k = (group_k + BN - 1) / BN;
  const int parts_c = (group_c + BK - 1) / BK, steps = p.R * p.S * parts_c, role = threadIdx.x / THREADS;
  const unsigned rank = ptx_cluster_rank();
  const int first_tile = blockIdx.x / BLOCKS, clusters = gridDim.x / BLOCKS;
  if (threadIdx.x == 0) ring_begin(r, STAGES, BLOCKS * CONSUMERS * THREADS / 32);
  ptx_cluster_arrive();
  ptx_cluster_wait(); /* both blocks' barriers are there */

  if (role == 0) { /* the producer */
    ptx_setmaxnreg_dec<56>();
    if (threadIdx.x == 0)
      for (int i = first_tile, count = 0; i < tiles; i += clusters) {
        const int group = i / tiles_k % p.groups, first_k = i % tiles_k * BN, first_pixel = (i / tiles_k / p.groups * BLOCKS + rank) * BM;
        const tile t = tile_of(p, group, first_k, first_pixel);
        for (int step = 0; step < steps; step++, count++) {
          const int stage = count % STAGES, tap = step / parts_c, c = step % parts_c * BK;
          const ptx_shared a = stages + stage * STAGE, full = r.full + 8 * stage;
          if (count >= STAGES) ptx_mbarrier_wait(r.empty + 8 * stage, (count / STAGES - 1) & 1);
          ptx_mbarrier_arrive_expect_tx(full, STAGE);
          ptx_tensor_load_im2col(a, &windows, {t.c + c, t.in_w, t.in_h, t.n}, {(unsigned short)(tap % p.S * p.dil_w), (unsigned short)(tap / p.S * p.dil_h)},
                                 full);
          ptx_tensor_load_multicast(a + (BM + rank * HALF) * ROW, &filter_tiles, {c, tap, t.k + (int)rank * HALF}, full, (1 << BLOCKS) - 1);
        }
      }
  } else {
    ptx_setmaxnreg_inc<224>();
    const int me = role - 1; /* of the consumers */
    const ptx_shared boxes = stages + STAGES * STAGE + me * PIXELS * BN * 2;
    const auto release = [&](int stage) { /* both blocks' copies go there */
                                          if (threadIdx.x % 32 == 0) {
                                            ptx_mbarrier_arrive(r.empty + 8 * stage);
                                            ptx_mbarrier_arrive_cluster(ptx_mapa(r.empty + 8 * stage, rank ^ 1));
                                          }
    };
    for (int i = first_tile, count = 0; i < tiles; i += clusters) {
      float sum[M][BN / 2];
      for (int step = 0; step < steps; step++, count++) {
        const int stage = count % STAGES;
        const ptx_shared a = stages + stage * STAGE;
        ptx_mbarrier_wait(r.full + 8 * stage, count / STAGES & 1);
        if (step == 0) {
          multiply<true>(sum, a + me * PIXELS * ROW, a + BM * ROW);
        } else {
          multiply<false>(sum, a + me * PIXELS * ROW, a + BM * ROW);
          ptx_wgmma_wait<1>(); /* the step before is done */
          release((count - 1) % STAGES);
        }
      }
      ptx_wgmma_wait<0>();
      release((count - 1) % STAGES);

      const int group = i / tiles_k % p.groups, first_k = i % tiles_k * BN, first_pixel = (i / tiles_k / p.groups * BLOCKS + rank) * BM + me * PIXELS;
      const bool stores = threadIdx.x % THREADS == 0;
      if (stores) ptx_bulk_wait_read<0>(); /* the tile before has left */
      ptx_bar_sync(1 + me, THREADS);
      put_boxes(boxes, sum);
      ptx_fence_proxy_async();
      ptx_bar_sync(1 + me, THREADS); /* the boxes are there */
      if (stores) {
        for (int k = 0; k < BN && first_k + k < group_k; k += BOX)
          ptx_tensor_store(&results, {group * group_k + first_k + k, first_pixel}, boxes + k / BOX * PIXELS * ROW);
        ptx_bulk_commit();
      }
    }
    if (threadIdx.x % THREADS == 0) ptx_bulk_wait<0>();
  }
  ptx_cluster_arrive(); /* nobody ends while the other may still reach its memory */
  ptx_cluster_wait();
}

/* ---------------------------------------------------------------- host */

typedef struct instance {
  int bn, bm, stages;
  void (*kernel)(conv_problem p, CUtensorMap windows, CUtensorMap filter_tiles, CUtensorMap results, int tiles);
} instance;

/* The first whose filters are enough. */
static const instance instances[] = {
    {64, 256, 4, persistent_kernel<64, 2, 4>}, {128, 256, 3, persistent_kernel<128, 2, 3>}, {256, 128, 3, persistent_kernel<256, 1, 3>}};

typedef struct persistent_plan {
  CUtensorMap windows, filter_tiles, results;
  const instance *row;
  int tiles, blocks, shared;
} persistent_plan;

static const char *plan_fprop(const conv_operation *o, const conv_device *device, conv_plan *plan) {
  const conv_problem *p = &o->problem;
  const int group_c = p->C / p->groups, group_k = p->K / p->groups;
  if (device->arch / 10 != 9) return "wgmma: only compute capability 9.0 has it";
  if (p->groups > 1 && (group_c % BK != 0 || group_k % BOX != 0)) return "channels or filters of a group are no multiple of 64";
  if (p->C % CHUNK != 0 || p->K % CHUNK != 0) return "C or K is no multiple of 8";
  const char *why = plain_unsupported(p, device);
  if (why) return why;
  const int pixels = p->N * p->P * p->Q;
  persistent_plan *mine = plan_data<persistent_plan>(plan);
  mine->row = instances;
  while (mine->row->bn < group_k && mine->row->bn < 256) mine->row++;
  const int bn = mine->row->bn, bm = mine->row->bm;
  const int64_t tiles = (int64_t)((pixels + BLOCKS * bm - 1) / (BLOCKS * bm)) * p->groups * ((group_k + bn - 1) / bn); /* of a cluster */
  if (tiles > INT_MAX / 2) return "2^30 tiles or more";
  mine->tiles = (int)tiles, mine->shared = (mine->row->stages * (bm + bn) + bm * bn / BOX) * ROW;
  const int clusters = device->sm_count > BLOCKS ? device->sm_count / BLOCKS : 1;
  mine->blocks = BLOCKS * (tiles < clusters ? (int)tiles : clusters);
  why = map_windows(plan, &mine->windows, p, BK, bm);
  if (!why) why = map_filters(plan, &mine->filter_tiles, p, bn / BLOCKS);
  const cuuint64_t size[2] = {(cuuint64_t)p->K, (cuuint64_t)pixels};
  const cuuint32_t box[2] = {BOX, (cuuint32_t)(bm / CONSUMERS)};
  if (!why) why = map_tiles(plan, &mine->results, "y", 2, size, box);
  if (why) return why;
  snprintf(plan->words, sizeof plan->words, "%d pixels x %d filters, %lld tiles, %d blocks", BLOCKS * bm, bn, (long long)tiles, mine->blocks);
  const cudaError_t status = plan_allow_shared((const void *)mine->row->kernel, (size_t)mine->shared);
  return status ? plan_failed(plan, status) : NULL;
}

static cudaError_t launch_fprop(const conv_plan *plan, const conv_buffers *b, cudaStream_t stream) {
  const persistent_plan *mine = plan_data<persistent_plan>(plan);
  CUtensorMap windows, filter_tiles, results;
  cudaError_t status = map_at(&windows, &mine->windows, b->x);
  if (!status) status = map_at(&filter_tiles, &mine->filter_tiles, b->w);
  if (!status) status = map_at(&results, &mine->results, b->y);
  if (status) return status;
  return launch_kernel({.grid = dim3(mine->blocks), .block = dim3(BLOCK), .shared = (size_t)mine->shared, .stream = stream, .cluster = BLOCKS},
                       mine->row->kernel, plan->operation.problem, windows, filter_tiles, results, mine->tiles);
}

NHWC_ROW(persistent_fprop, "06f", "blocks that stay, stores under the next tile, clusters of two", PASS_FPROP, 90, plan_fprop, launch_fprop, growth_steps);
