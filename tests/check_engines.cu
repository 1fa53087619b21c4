/* Small kernels for the checker: shared memory that threads write or read by halves, and copy engine, tensor cores or another block of the cluster; sums that
 * the copy engine makes in global memory. Without an argument they run as they are; with the name of one and of a defect, that one. tests/check_engines.sh says what the checker has to report. */
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <string.h>

#include "common/harness/launch.h"
#include "common/ptx/ptx.cuh"
#include "tests/tap.h"

typedef enum { RIGHT, NO_FENCE, NO_BARRIER, UNWRITTEN, EARLY, OUTSIDE, TWICE, DEFECTS } defect;
static const char *const defects[DEFECTS] = {"right", "no-fence", "no-barrier", "unwritten", "early", "outside", "twice"};

/* Halves of the tile are written one by one. */
template <defect WRONG> static __device__ void fill(__half *tile, int count) {
  for (int i = threadIdx.x; i < count; i += blockDim.x)
    if (WRONG != UNWRITTEN || i != 5) tile[i] = __float2half(1);
}
template <defect WRONG> static __device__ void hand_over() {
  if (WRONG != NO_FENCE) ptx_fence_proxy_async();
  if (WRONG != NO_BARRIER) __syncthreads();
}

/* A product of 64 x 8 x 16. */
template <defect WRONG> __global__ void multiplied(float *y) {
  __shared__ __align__(1024) __half a[64 * 64];
  __shared__ __align__(1024) __half b[8 * 64];
  fill<RIGHT>(a, 64 * 64);
  ptx_fence_proxy_async();
  __syncthreads();
  fill<WRONG>(b, 8 * 64);
  hand_over<WRONG>();
  float d[4] = {0, 0, 0, 0};
  ptx_wgmma_fence();
  ptx_wgmma_m64n8k16(d, ptx_wgmma_descriptor(ptx_shared_address(a), 16, 1024, PTX_SWIZZLE_128),
                     ptx_wgmma_descriptor(ptx_shared_address(b), 16, 1024, PTX_SWIZZLE_128));
  ptx_wgmma_commit();
  if (WRONG == EARLY && threadIdx.x < 16) b[threadIdx.x] = __float2half(2);
  ptx_wgmma_wait<0>();
  y[threadIdx.x] = d[0] + d[1] + d[2] + d[3];
}

/* A bulk store, and the tile again. */
template <defect WRONG> __global__ void stored(float *y) {
  __shared__ __align__(128) __half tile[128];
  fill<WRONG>(tile, 128);
  hand_over<WRONG>();
  if (threadIdx.x == 0) {
    ptx_bulk_store(y, ptx_shared_address(tile), sizeof tile);
    ptx_bulk_commit();
    if (WRONG != EARLY) ptx_bulk_wait_read<0>();
  }
  __syncthreads();
  tile[threadIdx.x] = __float2half(2);
  if (threadIdx.x == 0) ptx_bulk_wait<0>();
}

/* A bulk load over halves that have been read; early: while it is under way a thread writes there, twice: another load goes there. */
template <defect WRONG> __global__ void loaded(float *y) {
  __shared__ __align__(128) __half tile[128];
  __shared__ unsigned long long there;
  const ptx_shared barrier = ptx_shared_address(&there);
  if (threadIdx.x == 0) ptx_mbarrier_init(barrier, 1);
  y[threadIdx.x] = 0;
  fill<RIGHT>(tile, 128);
  ptx_fence_proxy_async();
  __syncthreads();
  const float before = __half2float(tile[threadIdx.x ^ 33]);
  hand_over<WRONG>();
  if (threadIdx.x == 0) {
    ptx_mbarrier_arrive_expect_tx(barrier, sizeof tile * (WRONG == TWICE ? 2 : 1));
    ptx_bulk_load(ptx_shared_address(tile), y, sizeof tile, barrier);
    if (WRONG == TWICE) ptx_bulk_load(ptx_shared_address(tile), y, sizeof tile, barrier); /* the second */
  }
  if (WRONG == EARLY && threadIdx.x == 0) tile[5] = __float2half(3);
  ptx_mbarrier_wait(barrier, 0);
  y[128 + threadIdx.x] = before + __half2float(tile[threadIdx.x]);
}

/* A bulk load over halves that have been read; a third thread tells the one who asks for it, with a fence on the way. Unwritten: over halves just written, with no fence. */
template <defect WRONG> __global__ void released(float *y) {
  __shared__ __align__(128) __half tile[128];
  __shared__ unsigned long long barriers[2];
  const ptx_shared there = ptx_shared_address(barriers), empty = there + 8;
  if (threadIdx.x == 0) ptx_mbarrier_init(there, 1), ptx_mbarrier_init(empty, 1);
  y[threadIdx.x] = 0;
  fill<RIGHT>(tile, 128);
  ptx_fence_proxy_async();
  __syncthreads();
  y[128 + threadIdx.x] = __half2float(tile[threadIdx.x ^ 33]);
  if (WRONG == UNWRITTEN) tile[threadIdx.x ^ 33] = __float2half(2);
  __syncthreads();
  if (threadIdx.x == 40) {
    if (WRONG == RIGHT) ptx_fence_proxy_async();
    ptx_mbarrier_arrive(empty);
    if (WRONG == EARLY) ptx_fence_proxy_async();
  }
  if (threadIdx.x == 0) {
    ptx_mbarrier_wait(empty, 0);
    if (WRONG == TWICE) ptx_fence_proxy_async(); /* as right */
    ptx_mbarrier_arrive_expect_tx(there, sizeof tile);
    ptx_bulk_load(ptx_shared_address(tile), y, sizeof tile, there);
  }
  ptx_mbarrier_wait(there, 0);
}

/* An mbarrier where halves were: who meets after its initialisation may wait there. */
template <defect WRONG> __global__ void reused(float *y) {
  __shared__ __align__(8) __half tile[128];
  fill<RIGHT>(tile, 128);
  __syncthreads();
  if (threadIdx.x == 0) ptx_mbarrier_init(ptx_shared_address(tile), 128);
  if (WRONG != NO_BARRIER) __syncthreads();
  ptx_mbarrier_arrive(ptx_shared_address(tile));
  ptx_mbarrier_wait(ptx_shared_address(tile), 0);
  y[threadIdx.x] = 1;
}

static __device__ void meet() {
  ptx_cluster_arrive();
  ptx_cluster_wait();
}

/* The other block of the cluster reads and writes two halves at once; then the own one writes halves again. */
template <defect WRONG> __global__ void visited(float *y) {
  __shared__ __half tile[256];
  __shared__ __half answers[256];
  const ptx_shared other = ptx_cluster_rank() ^ 1, at = 4 * threadIdx.x;
  fill<WRONG>(tile, 256);
  fill<RIGHT>(answers, 256);
  if (WRONG == NO_BARRIER) __syncthreads();
  else meet();
  const unsigned both = ptx_ld_cluster(ptx_mapa(ptx_shared_address(tile) + at, other));
  ptx_st_cluster(ptx_mapa(ptx_shared_address(answers) + at, other), both);
  if (WRONG != EARLY) meet();
  tile[threadIdx.x] = answers[threadIdx.x + 128];
  meet();
  y[blockIdx.x * 128 + threadIdx.x] = __half2float(tile[threadIdx.x]);
}

/* A block adds a tile to its sums, zeros in the beginning, by the copy engine, and reads them. */
template <defect WRONG> __global__ void added(float *y) {
  __shared__ __align__(16) float tile[128];
  float *sums = y + 128 * blockIdx.x;
  tile[threadIdx.x] = 1;
  if (WRONG == EARLY && blockIdx.x == 1) y[threadIdx.x] = 5; /* the other block's */
  ptx_fence_proxy_async();
  __syncthreads();
  if (threadIdx.x == 0) {
    ptx_bulk_reduce_add_f32(WRONG == OUTSIDE ? y + 4096 - 64 : sums, ptx_shared_address(tile), sizeof tile);
    ptx_bulk_commit();
    ptx_bulk_wait<0>();
  }
  if (WRONG != NO_BARRIER) __syncthreads();
  y[1024 + 128 * blockIdx.x + threadIdx.x] = sums[threadIdx.x];
}

/* Two warps take tiles in turns out of a ring of three stages, so that a stage's rounds are one's and the other's by turns; both wait for all. Early: each for
 * its own alone, though while a round of the other's is under way the parity of two rounds ago lets it pass. Twice: the same with four stages, where all rounds
 * of a stage are one warp's. */
template <defect WRONG> __global__ void turns(float *y) {
  constexpr int STAGES = WRONG == TWICE ? 4 : 3, TILES = 8;
  constexpr bool OWN_ALONE = WRONG == TWICE || WRONG == EARLY;
  __shared__ __align__(128) float tile[STAGES][32];
  __shared__ unsigned long long barriers[2 * STAGES];
  const ptx_shared full = ptx_shared_address(barriers), empty = full + 8 * STAGES;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  for (int i = 0; i < STAGES && threadIdx.x == 0; i++) ptx_mbarrier_init(full + 8 * i, 1), ptx_mbarrier_init(empty + 8 * i, OWN_ALONE ? 1 : 2);
  __syncthreads();
  for (int i = 0; i < TILES && warp < 3; i++) {
    const int at = i % STAGES, round = i / STAGES;
    if (warp == 0) {
      if (lane != 0) continue;
      ptx_mbarrier_wait(empty + 8 * at, (round & 1) ^ 1);
      ptx_mbarrier_arrive_expect_tx(full + 8 * at, sizeof tile[at]);
      ptx_bulk_load(ptx_shared_address(tile[at]), y + 32 * i, sizeof tile[at], full + 8 * at);
    } else if (!OWN_ALONE || i % 2 == warp - 1) {
      ptx_mbarrier_wait(full + 8 * at, round & 1); /* of the round */
      if (i % 2 == warp - 1) y[1024 + 32 * i + lane] = tile[at][lane];
      ptx_fence_proxy_async();
      __syncwarp();
      if (lane == 0) ptx_mbarrier_arrive(empty + 8 * at);
    }
  }
}

/* Two warps fill tiles in turns, two others take all. Who fills a stage knows that its round before is over by a wait at another stage, whose readers had left
 * that round, too. Early: each takes half of the tiles, and waits for no others. */
template <defect WRONG> __global__ void filled(float *y) {
  constexpr int STAGES = 3, TILES = 8;
  __shared__ float tile[STAGES][32];
  __shared__ unsigned long long barriers[2 * STAGES];
  const ptx_shared full = ptx_shared_address(barriers), empty = full + 8 * STAGES;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  for (int i = 0; i < STAGES && threadIdx.x == 0; i++) ptx_mbarrier_init(full + 8 * i, 1), ptx_mbarrier_init(empty + 8 * i, WRONG == EARLY ? 1 : 2);
  __syncthreads();
  for (int i = 0; i < TILES; i++) {
    const int at = i % STAGES, round = i / STAGES;
    if (warp < 2 ? i % 2 != warp : WRONG == EARLY && i % 2 != warp - 2) continue;
    ptx_mbarrier_wait(warp < 2 ? empty + 8 * at : full + 8 * at, (round & 1) ^ (warp < 2)); /* of either */
    if (warp < 2) tile[at][lane] = y[32 * i + lane];
    else y[1024 + 32 * (TILES * (warp - 2) + i) + lane] = tile[at][lane];
    __syncwarp();
    if (lane == 0) ptx_mbarrier_arrive(warp < 2 ? full + 8 * at : empty + 8 * at);
  }
}

typedef void (*kernel)(float *);
static const struct test {
  const char *name;
  kernel with[DEFECTS];
  unsigned cluster;
} tests[] = {
#define TEST(name, cluster) \
  { #name, {name < RIGHT>, name < NO_FENCE>, name < NO_BARRIER>, name < UNWRITTEN>, name < EARLY>, name < OUTSIDE>, name < TWICE> }, cluster }
    TEST(multiplied, 1), TEST(stored, 1), TEST(loaded, 1), TEST(released, 1), TEST(reused, 1),
    TEST(visited, 2),    TEST(added, 2),  TEST(turns, 1),  TEST(filled, 1),
};

static cudaError_t run(const struct test *t, const char *wrong) {
  float *y = nullptr;
  int which = 0;
  for (int i = 0; i < DEFECTS; i++)
    if (strcmp(wrong, defects[i]) == 0) which = i;
  if (cudaMalloc(&y, 4096 * sizeof(float)) != cudaSuccess) return cudaErrorMemoryAllocation;
  if (which != UNWRITTEN && cudaMemset(y, 0, 256 * sizeof(float)) != cudaSuccess) return cudaErrorUnknown;
  const cudaError_t status = launch_kernel({.grid = t->cluster, .block = 128, .cluster = t->cluster}, t->with[which], y);
  return status != cudaSuccess ? status : cudaDeviceSynchronize();
}

int main(int argc, char **argv) {
  for (const struct test &t : tests)
    if (argc < 3 || strcmp(argv[1], t.name) == 0) ok(run(&t, argc < 3 ? "right" : argv[2]) == cudaSuccess, "%s", t.name);
  return done_testing();
}
