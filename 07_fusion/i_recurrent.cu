/* 07i: a recurrent layer in one launch: weights stay in registers, a cluster hands its state round.
 *
 * Terms:    persistent RNN, thread block cluster, distributed shared memory, latency-bound.
 * Idea:     a step is a small product, h = U h: 2 MB of weights for 1024 hidden units, read again in every step, for a batch that fills an eighth of a tensor core's tile. But rows
 *           of the batch are independent, and 16 multiprocessors' registers hold all of U: a cluster of 16 blocks takes up to 8 rows of the batch through all steps. Each
 *           block has 64 rows of U, makes 64 values of the next state for its rows of the batch and stores them into the shared memory of all 16. There is no barrier
 *           of the grid: who has all 16 pieces of a state goes on.
 * Product:  16 warps, each with 32 of the 64 rows and an eighth of the depth; mma.sync. With wgmma a step took 1.6 us: a product of 64 x 8 x 16 takes as long as its first operand
 *           takes to be read, 18 clocks, and 64 of them 1150. Sums of eight warps meet in shared memory, in a fixed order.
 * Stores:   each thread makes two values; four of them gather 16 bytes by shuffles, and each stores these into four blocks (st.async, which tells an mbarrier there). A
 *           bulk copy of the whole piece took longer: the piece to shared memory, a fence, a barrier, the copy engine's way.
 * Rounds:   a block takes in some 15 bytes a clock from others, so that 16 pieces of five rows come over 700 clocks. Each block stores to itself and its next three right neighbours
 *           first, then to the four behind these, and so on: pieces come in four rounds. A barrier each: who has a round's four pieces multiplies while others are on their way.
 * Rows:     fewer of the batch are fewer bytes. They are shared among as many clusters as can live together, seven of 16 on an H200: five rows each.
 * Buffers:  two states in turn; a block says to all others when it has read one, and its piece of the next but one is not sent before all have said so. (Who has sent its
 *           piece of state t has read state t - 1: but st.async tells nobody what its sender has done before. The checker insists.)
 * Expect:   a step by wgmma 2900 clocks, 1150 of them products and 160 a fence between proxies. Here products take half, three quarters of them while pieces come:
 *           0.85 us.
 * Layout:   halves, fp32 sums. Hidden units: 64 to 1024, powers of two. */
#include <cuda_fp16.h>
#include <string.h>

#include "06_tensorcore_fp16/tiles.cuh"
#include "07_fusion/recurrent.h"
#include "common/harness/launch.h"
#include "common/ptx/matrix.cuh"
#include "common/ptx/mma.cuh"
#include "common/ptx/st_async.cuh"

static constexpr int WARPS = 16, BLOCK = WARPS * 32, UNITS = 64 /* hidden units of a block */, ROWS = 8 /* of the batch, at most, a cluster's */,
                     PIECE = ROWS * ROW /* room for a block's part of a state */;

template <int BLOCKS> struct shape {                                               /* BLOCKS: of a cluster */
  static constexpr int PIECES = BLOCKS < 4 ? BLOCKS : 4, ROUNDS = BLOCKS / PIECES; /* pieces of a round */
  static constexpr int SLICES = 2 * PIECES;                                        /* warps that share a product's depth: half a piece of each round */
  static constexpr int HIDDEN = BLOCKS * UNITS, STATE = BLOCKS * PIECE;            /* bytes */
};

/* A fragment of U for mma: 16 rows from `row` on, 16 columns from k on. */
static __device__ __forceinline__ void load_fragment(unsigned (&a)[4], const __half *__restrict__ u, int hidden, int row, int k) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int i = 0; i < 4; i++) a[i] = *(const unsigned *)(u + (row + lane / 4 + i % 2 * 8) * hidden + k + i / 2 * 8 + lane % 4 * 2);
}

/* Four neighbours' pairs, in each of the four threads. */
static __device__ __forceinline__ uint4 gather(__half2 mine) {
  unsigned pair;
  memcpy(&pair, &mine, sizeof pair);
  uint4 eight;
  eight.x = __shfl_sync(0xffffffffu, pair, 0, 4), eight.y = __shfl_sync(0xffffffffu, pair, 1, 4);
  eight.z = __shfl_sync(0xffffffffu, pair, 2, 4), eight.w = __shfl_sync(0xffffffffu, pair, 3, 4);
  return eight;
}

template <int BLOCKS>
__global__ void __launch_bounds__(BLOCK, 1) recurrent_kernel(recurrent_layer layer, const __half *__restrict__ u, const __half *__restrict__ first,
                                                             const __half *__restrict__ z, __half *__restrict__ h) {
  using S = shape<BLOCKS>;
  extern __shared__ __align__(1024) unsigned char shared[];  /* two states */
  __shared__ float sums[2][S::SLICES][ROWS][UNITS + 4];      /* of steps in turn; + 4: for the banks */
  __shared__ unsigned long long barriers[2 * S::ROUNDS + 2]; /* a round's pieces of a state have come; everyone has read one */
  const ptx_shared states = ptx_shared_address(shared), full = ptx_shared_address(barriers), empty = full + 16 * S::ROUNDS;
  const int rank = blockIdx.x % BLOCKS, batch = blockIdx.x / BLOCKS * layer.rows, sent = S::PIECES * layer.rows * ROW;
  const int warp = uniform(threadIdx.x / 32), lane = threadIdx.x % 32, half = warp % 2 * UNITS / 2, slice = warp / 2;
  const int n = warp, unit = rank * UNITS + lane * 2; /* this thread's two values of the next state, if it is a warp of a row */
  const bool inside = n < layer.rows && batch + n < layer.batch;
  if (threadIdx.x == 0) {
    for (int i = 0; i < 2 * S::ROUNDS; i++) ptx_mbarrier_init(full + 8 * i, 1);
    ptx_mbarrier_init(empty, BLOCKS), ptx_mbarrier_init(empty + 8, BLOCKS);
    ptx_fence_mbarrier_init();
    for (int i = 0; i < S::ROUNDS; i++) ptx_mbarrier_arrive(full + 8 * i), ptx_mbarrier_arrive_expect_tx(full + 8 * (S::ROUNDS + i), sent);
  }
  for (int i = threadIdx.x; i < ROWS * S::HIDDEN / CHUNK; i += BLOCK) { /* the first state, as stores would bring it; rows that none brings are zero */
    const int row = i / (S::HIDDEN / CHUNK), chunk = i % (S::HIDDEN / CHUNK), at = chunk / CHUNKS * PIECE + swizzled(row, chunk % CHUNKS);
    const bool there = row < layer.rows && batch + row < layer.batch;
    *(uint4 *)(shared + at) = there ? *(const uint4 *)(first + (batch + row) * S::HIDDEN + chunk * CHUNK) : uint4();
    if (row >= layer.rows) *(uint4 *)(shared + S::STATE + at) = uint4();
  }
  unsigned a[S::ROUNDS][4][4]; /* 32 columns of 32 rows for each round */
  ptx_shared from[S::ROUNDS];  /* of the state these columns, 8 rows of the batch, as ldmatrix takes them */
#pragma unroll
  for (int round = 0; round < S::ROUNDS; round++) {
    const int piece = (rank - round * S::PIECES - slice / 2) & (BLOCKS - 1); /* of this block, of its left neighbour, ... */
    from[round] = states + piece * PIECE + swizzled(lane % 8, slice % 2 * 4 + lane / 8);
#pragma unroll
    for (int j = 0; j < 4; j++) load_fragment(a[round][j], u, S::HIDDEN, rank * UNITS + half + j % 2 * 16, piece * UNITS + slice % 2 * 32 + j / 2 * 16);
  }
  ptx_cluster_arrive();
  ptx_cluster_wait(); /* all blocks' barriers and first states are there */

  for (int t = 0; t < layer.steps; t++) {
    const int now = t % 2, next = 1 - now, at = (t * layer.batch + batch + n) * S::HIDDEN + unit;
    const __half2 from_input = inside ? *(const __half2 *)(z + at) : __half2(); /* on its way while this waits; asked for a step ahead it was no faster */
    float sum[2][4] = {};
#pragma unroll
    for (int round = 0; round < S::ROUNDS; round++) {
      ptx_mbarrier_wait(full + 8 * (now * S::ROUNDS + round), t / 2 & 1);
      __syncwarp();
      if (slice >= S::SLICES) continue; /* few units, few warps */
      unsigned part[4];
      ptx_ldmatrix_x4(part, from[round] + now * S::STATE);
#pragma unroll
      for (int j = 0; j < 4; j++) ptx_mma_m16n8k16(sum[j % 2], a[round][j], {part[j / 2 * 2], part[j / 2 * 2 + 1]});
    }
    if (slice < S::SLICES) {
#pragma unroll
      for (int i = 0; i < 8; i++) sums[now][slice][lane % 4 * 2 + i % 2][half + i / 4 * 16 + i / 2 % 2 * 8 + lane / 4] = sum[i / 4][i % 4];
    }
    __syncthreads(); /* sums are there; and everyone here has read the state */
    if (n < layer.rows) {
      float2 value = __half22float2(from_input);
#pragma unroll
      for (int s = 0; s < S::SLICES; s++) {
        const float2 other = *(const float2 *)&sums[now][s][n][lane * 2];
        value.x += other.x, value.y += other.y;
      }
      if (layer.relu) value.x = value.x < 0 ? 0 : value.x, value.y = value.y < 0 ? 0 : value.y;
      const __half2 rounded = __floats2half2_rn(value.x, value.y);
      if (t + 1 < layer.steps) {
        const uint4 eight = gather(rounded);
        const ptx_shared to = states + next * S::STATE + rank * PIECE + swizzled(n, lane / 4);
        ptx_mbarrier_wait(empty + 8 * next, ((t + 1) / 2 & 1) ^ 1); /* the place of state t - 1 is free */
#pragma unroll
        for (int round = 0; round < S::ROUNDS; round++) {
          const int block = (rank + round * S::PIECES + lane % 4) % BLOCKS;
          if (lane % 4 < S::PIECES) ptx_st_async_16(ptx_mapa(to, block), eight, ptx_mapa(full + 8 * (next * S::ROUNDS + round), block));
        }
      }
      if (inside) *(__half2 *)(h + at) = rounded; /* what nobody waits for comes last */
    }
    if (warp == WARPS - 1 && t + 2 < layer.steps) {                                                   /* a warp that has no row */
      if (lane < S::ROUNDS) ptx_mbarrier_arrive_expect_tx(full + 8 * (now * S::ROUNDS + lane), sent); /* for the state after the next */
      if (lane < BLOCKS) ptx_mbarrier_arrive_cluster(ptx_mapa(empty + 8 * now, lane));
    }
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
    if (hidden == UNITS << i) return i;
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
  if (arch < 90) return "clusters: only compute capability 9.0 and up has them";
  if (i < 0) return "hidden units are not 64, 128, 256, 512 or 1024";
  if (layer->batch < 1 || layer->steps < 1 || (int64_t)layer->steps * layer->batch * layer->hidden > INT_MAX) return "no steps, or 2^31 values and more";
  if (i == 4) *status = cudaFuncSetAttribute((const void *)kernels[i], cudaFuncAttributeNonPortableClusterSizeAllowed, 1);
  if (!*status) *status = cudaFuncSetAttribute((const void *)kernels[i], cudaFuncAttributeMaxDynamicSharedMemorySize, shared_of(1 << i));
  layer->rows = ROWS;
  int together = 0;
  if (!*status) *status = clusters_together(i, &together);
  if (!*status && together < 1) return "no cluster of so many blocks (hidden units / 64) fits this device";
  while (layer->rows > 1 && clusters_of(layer, layer->rows - 1) <= together) layer->rows--;
  return *status ? "cannot be planned" : NULL;
}

extern "C" cudaError_t recurrent_launch(const recurrent_layer *layer, const void *u, const void *first, const void *z, void *h, cudaStream_t stream) {
  const int i = kernel_for(layer->hidden);
  return launch_kernel(
      {.grid = dim3(clusters_of(layer, layer->rows) << i), .block = dim3(BLOCK), .shared = (size_t)shared_of(1 << i), .stream = stream, .cluster = 1u << i},
      kernels[i], *layer, (const __half *)u, (const __half *)first, (const __half *)z, (__half *)h);
}
