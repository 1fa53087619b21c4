/* 07i: a recurrent layer in one launch: weights stay in registers, a cluster hands its state round.
 *
 * Terms:    persistent RNN, thread block cluster, distributed shared memory, latency-bound.
 * Idea:     a step is a small product, h = U h: 2 MB of weights for 1024 hidden units, read again in every step, for a batch that fills an eighth of a tensor core's tile. But rows
 *           of the batch are independent, and 16 multiprocessors' registers hold all of U: a cluster of 16 blocks takes up to 8 rows of the batch through all steps. Each
 *           block has 64 rows of U, makes 64 values of the next state for its rows of the batch and copies them into the shared memory of all 16. There is no barrier
 *           of the grid: who has all 16 pieces of a state goes on.
 * Stores:   each thread makes one value; eight of them gather 16 bytes by shuffles, and each stores these into two blocks (st.async, which tells the mbarrier there). A
 *           bulk copy of the whole piece took 1.75 us a step: the piece to shared memory, a fence, a barrier, the copy engine's way.
 * Rows:     a block takes in some 30 bytes a nanosecond from others; 16 pieces of 8 rows would be 16 KiB, half a microsecond. So rows are shared among as many clusters as can
 *           live together, seven of 16 on an H200: five rows each. And each block stores to its right neighbours first, since 16 that begin with the same one would wait.
 * Buffers:  two states in turn; a block says to all others when it has read one, and its piece of the next but one is not sent before all have said so. (Who has sent its
 *           piece of state t has read state t - 1: but st.async tells nobody what its sender has done before. The checker insists.)
 * Roles:    four warpgroups with a quarter of the depth each, wgmma's first operand from registers; their sums meet in shared memory, in a fixed order.
 * Expect:   (before anything ran on a GPU) a step: 16 products of 64 x 8 x 16 a warpgroup, 130 clocks; two barriers, sums, a copy to a neighbour and an mbarrier: about a
 *           microsecond and a half. A launch a step costs 2.5 us, and 0.2 for U from L2: 128 steps in 190 us against 350.
 * Layout:   halves, fp32 sums. Hidden units: 64 to 1024, powers of two. */
#include <cuda_fp16.h>

#include "06_tensorcore_fp16/tiles.cuh"
#include "07_fusion/recurrent.h"
#include "common/harness/launch.h"
#include "common/ptx/st_async.cuh"

static constexpr int WARPGROUPS = 4, BLOCK = WARPGROUPS * THREADS, ROWS = 8 /* of the batch, at most, a cluster's */,
                     PIECE = ROWS * ROW /* room for a block's part of a state */;

/* A fragment of U for wgmma: 64 rows from `row` on, 16 columns from k on. */
static __device__ __forceinline__ void load_fragment(unsigned (&a)[4], const __half *__restrict__ u, int hidden, int row, int k) {
  const int lane = threadIdx.x % 32, first = row + threadIdx.x / 32 % 4 * 16 + lane / 4;
#pragma unroll
  for (int i = 0; i < 4; i++) a[i] = *(const unsigned *)(u + (first + i % 2 * 8) * hidden + k + i / 2 * 8 + lane % 4 * 2);
}

/* Eight neighbours' halves, in each of the eight threads. */
static __device__ __forceinline__ uint4 gather(__half mine) {
  const unsigned half = __half_as_ushort(mine), other = __shfl_xor_sync(0xffffffffu, half, 1);
  const unsigned pair = threadIdx.x % 2 ? other | half << 16 : half | other << 16;
  uint4 eight;
  eight.x = __shfl_sync(0xffffffffu, pair, 0, CHUNK), eight.y = __shfl_sync(0xffffffffu, pair, 2, CHUNK);
  eight.z = __shfl_sync(0xffffffffu, pair, 4, CHUNK), eight.w = __shfl_sync(0xffffffffu, pair, 6, CHUNK);
  return eight;
}

/* BLOCKS: of a cluster, 64 hidden units each; and products of a warpgroup in a step. */
template <int BLOCKS>
__global__ void __launch_bounds__(BLOCK, 1) recurrent_kernel(recurrent_layer layer, const __half *__restrict__ u, const __half *__restrict__ first,
                                                             const __half *__restrict__ z, __half *__restrict__ h) {
  constexpr int HIDDEN = BLOCKS * WGMMA_M, STATE = BLOCKS * PIECE;
  extern __shared__ __align__(1024) unsigned char shared[]; /* two states */
  __shared__ float sums[2][WARPGROUPS][ROWS][WGMMA_M + 4];  /* of steps in turn; + 4: for the banks */
  __shared__ unsigned long long barriers[4];                /* a state has come; everyone has read one */
  const ptx_shared states = ptx_shared_address(shared), full = ptx_shared_address(barriers), empty = full + 16;
  const int rank = blockIdx.x % BLOCKS, batch = blockIdx.x / BLOCKS * layer.rows, sent = layer.rows * ROW, group = uniform(threadIdx.x / THREADS),
            lane = threadIdx.x % 32;
  const int n = threadIdx.x / WGMMA_M, unit = rank * WGMMA_M + threadIdx.x % WGMMA_M; /* this thread's value of the next state */
  const bool inside = n < layer.rows && batch + n < layer.batch;
  if (threadIdx.x == 0) {
    for (int i = 0; i < 2; i++) ptx_mbarrier_init(full + 8 * i, 1), ptx_mbarrier_init(empty + 8 * i, BLOCKS);
    ptx_fence_mbarrier_init();
    ptx_mbarrier_arrive_expect_tx(full, BLOCKS * sent), ptx_mbarrier_arrive_expect_tx(full + 8, BLOCKS * sent);
  }
  for (int i = threadIdx.x; i < ROWS * HIDDEN / CHUNK; i += BLOCK) { /* the first state, as copies would bring it; rows that none brings are zero */
    const int row = i / (HIDDEN / CHUNK), chunk = i % (HIDDEN / CHUNK), at = chunk / CHUNKS * PIECE + swizzled(row, chunk % CHUNKS);
    const bool there = row < layer.rows && batch + row < layer.batch;
    *(uint4 *)(shared + at) = there ? *(const uint4 *)(first + (batch + row) * HIDDEN + chunk * CHUNK) : uint4();
    if (row >= layer.rows) *(uint4 *)(shared + STATE + at) = uint4();
  }
  unsigned a[BLOCKS][4];
#pragma unroll
  for (int j = 0; j < BLOCKS; j++) load_fragment(a[j], u, HIDDEN, rank * WGMMA_M, (group * BLOCKS + j) * 16);
  ptx_fence_proxy_async();
  ptx_cluster_arrive();
  ptx_cluster_wait(); /* all blocks' barriers and first states are there */

  for (int t = 0; t < layer.steps; t++) {
    const int at = (t * layer.batch + batch + n) * HIDDEN + unit;
    const __half from_input = inside ? z[at] : __half(0.0f); /* on its way while this waits; asked for a step ahead it was no faster */
    const ptx_shared state = states + t % 2 * STATE;
    if (t > 0) {
      ptx_mbarrier_wait(full + 8 * (t % 2), (t - 1) / 2 & 1);
      ptx_fence_proxy_async(); /* what threads have stored, for wgmma */
      __syncwarp();
    }
    float sum[ROWS / 2];
    const unsigned long long begin = ptx_wgmma_descriptor(state, 16, PIECE, PTX_SWIZZLE_128);
    ptx_wgmma_fence();
#pragma unroll
    for (int j = 0; j < BLOCKS; j++) {
      const int step = group * BLOCKS + j; /* 16 of the state's units: a quarter of a piece */
      const unsigned long long b = begin + (step / 4 * PIECE + step % 4 * 32) / 16;
      if (j == 0) ptx_wgmma_m64n8k16_registers<0, 0>(sum, a[j], b);
      else ptx_wgmma_m64n8k16_registers<0, 1>(sum, a[j], b);
    }
    ptx_wgmma_commit();
    ptx_wgmma_wait<0>();
#pragma unroll
    for (int i = 0; i < ROWS / 2; i++) sums[t % 2][group][lane % 4 * 2 + i % 2][threadIdx.x / 32 % 4 * 16 + lane / 4 + i / 2 * 8] = sum[i];
    __syncthreads(); /* sums are there; and everyone here has read the state */
    if (threadIdx.x == 0 && t > 0 && t + 2 < layer.steps) ptx_mbarrier_arrive_expect_tx(full + 8 * (t % 2), BLOCKS * sent); /* for the one after the next */
    float value = __half2float(from_input);
#pragma unroll
    for (int g = 0; g < WARPGROUPS; g++) value += sums[t % 2][g][n][threadIdx.x % WGMMA_M];
    const __half next = __float2half_rn(layer.relu && value < 0 ? 0 : value);
    if (t + 1 < layer.steps && n < layer.rows) { /* all of a warp, or none */
      const uint4 eight = gather(next);
      const ptx_shared to = (t + 1) % 2 * STATE + rank * PIECE + swizzled(n, threadIdx.x % WGMMA_M / CHUNK);
      if (t > 0) ptx_mbarrier_wait(empty + 8 * ((t + 1) % 2), (t - 1) / 2 & 1); /* the place of state t - 1 is free */
      for (int i = threadIdx.x % CHUNK; i < BLOCKS; i += CHUNK) {
        const int block = (rank + i) % BLOCKS;
        ptx_st_async_16(ptx_mapa(states + to, block), eight, ptx_mapa(full + 8 * ((t + 1) % 2), block));
      }
    }
    /* What nobody waits for comes last. */
    if (threadIdx.x < BLOCKS && t + 2 < layer.steps) ptx_mbarrier_arrive_cluster(ptx_mapa(empty + 8 * (t % 2), threadIdx.x));
    if (inside) h[at] = next;
    __syncwarp();
  }
  ptx_cluster_arrive();
  ptx_cluster_wait(); /* nobody stores into this block any more */
}

/* ---------------------------------------------------------------- host */

typedef void recurrent_function(recurrent_layer layer, const __half *u, const __half *first, const __half *z, __half *h);
static recurrent_function *const kernels[] = {recurrent_kernel<1>, recurrent_kernel<2>, recurrent_kernel<4>, recurrent_kernel<8>, recurrent_kernel<16>};

/* Of the cluster's blocks the logarithm; -1: no such kernel. */
static int kernel_for(int hidden) {
  for (int i = 0; i < 5; i++)
    if (hidden == WGMMA_M << i) return i;
  return -1;
}
static int shared_of(int blocks) { return 2 * blocks * PIECE; }

/* Clusters that live at the same time. */
static cudaError_t clusters_together(int i, int *clusters) {
  cudaLaunchAttribute size = {};
  size.id = cudaLaunchAttributeClusterDimension, size.val.clusterDim.x = 1u << i, size.val.clusterDim.y = size.val.clusterDim.z = 1;
  cudaLaunchConfig_t launch = {};
  launch.gridDim = dim3(1u << i), launch.blockDim = dim3(BLOCK), launch.dynamicSmemBytes = (size_t)shared_of(1 << i), launch.attrs = &size, launch.numAttrs = 1;
  return cudaOccupancyMaxActiveClusters(clusters, (const void *)kernels[i], &launch);
}

static int clusters_of(const recurrent_layer *layer, int rows) { return (layer->batch + rows - 1) / rows; }

extern "C" const char *recurrent_plan(recurrent_layer *layer, int arch, cudaError_t *status) {
  const int i = kernel_for(layer->hidden);
  *status = cudaSuccess;
  if (arch / 10 != 9) return "wgmma: only compute capability 9.0 has it";
  if (i < 0) return "hidden units are not 64, 128, 256, 512 or 1024";
  if (layer->batch < 1 || layer->steps < 1 || (int64_t)layer->steps * layer->batch * layer->hidden > INT_MAX) return "no steps, or 2^31 values and more";
  if (i == 4) *status = cudaFuncSetAttribute((const void *)kernels[i], cudaFuncAttributeNonPortableClusterSizeAllowed, 1);
  if (!*status) *status = cudaFuncSetAttribute((const void *)kernels[i], cudaFuncAttributeMaxDynamicSharedMemorySize, shared_of(1 << i));
  layer->rows = ROWS;
  int together = 0;
  if (!*status) *status = clusters_together(i, &together);
  while (layer->rows > 1 && clusters_of(layer, layer->rows - 1) <= together) layer->rows--;
  return *status ? "cannot be planned" : NULL;
}

extern "C" cudaError_t recurrent_launch(const recurrent_layer *layer, const void *u, const void *first, const void *z, void *h, cudaStream_t stream) {
  const int i = kernel_for(layer->hidden);
  return launch_kernel(
      {.grid = dim3(clusters_of(layer, layer->rows) << i), .block = dim3(BLOCK), .shared = (size_t)shared_of(1 << i), .stream = stream, .cluster = 1u << i},
      kernels[i], *layer, (const __half *)u, (const __half *)first, (const __half *)z, (__half *)h);
}
