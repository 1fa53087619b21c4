/* Clusters of two blocks in small, for a 1x1 convolution: y [pixels][filters] = x [pixels][channels] by w [filters][channels], all fp16, 64 channels a stage.
 *
 *   multicast_kernel   both blocks of a cluster have the same 128 pixels and 64 filters each. Each loads half of a stage's pixels, for both. So a stage is full
 *                      when the bytes of both have come, and empty when the consumers of both have said so: each arrives here and there.
 *   halves_kernel      both have the same 128 pixels and 64 filters, and half of the channels each. At the end each sends its sums of half of the pixels to the
 *                      other, through distributed shared memory, and adds what it gets: block 0's sum + block 1's.
 *
 * A warpgroup multiplies, a warp of its own loads. No block ends before the cluster barrier: until then its shared memory and mbarriers are used by the other.
 * On small integers right to the bit, on the emulator and on a GPU. */
#include <cuda.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "common/ptx/ptx.cuh"
#include "tests/on_device.cuh"
#include "tests/tap.h"
#include "tests/tensor_maps.cuh"

enum {
  PIXELS = 128,  /* of a tile */
  FILTERS = 64,  /* of a block */
  CHANNELS = 64, /* of a stage */
  ROW = 128,     /* bytes of a stage's pixel or filter */
  STAGES = 3,
  PIXEL_BYTES = PIXELS * ROW,
  FILTER_BYTES = FILTERS * ROW,
  STAGE = PIXEL_BYTES + FILTER_BYTES,
  SENT = FILTERS * PIXELS / 2 * 4,                      /* bytes of sums that a block sends */
  SHARED = STAGES * STAGE + 2 * SENT + PIXEL_BYTES / 2, /* of either kernel, what it has behind its stages included */
  CONSUMERS = 128,
  THREADS = CONSUMERS + 32
};

static __device__ __forceinline__ unsigned two_halves(float low, float high) {
  return __half_as_ushort(__float2half_rn(low)) | (unsigned)__half_as_ushort(__float2half_rn(high)) << 16;
}

/* The mbarriers of full and of empty stages. */
static __device__ __forceinline__ void init(ptx_shared full, ptx_shared empty, unsigned arrivals) {
  if (threadIdx.x != 0) return;
  for (int i = 0; i < STAGES; i++) ptx_mbarrier_init(full + 8 * i, 1), ptx_mbarrier_init(empty + 8 * i, arrivals);
  ptx_fence_mbarrier_init();
}

static __device__ __forceinline__ void cluster_sync() {
  ptx_cluster_arrive();
  ptx_cluster_wait();
}

/* d += filters by pixels, of a stage. */
static __device__ __forceinline__ void multiply(float (&d)[PIXELS / 2], ptx_shared stage) {
  ptx_wgmma_fence();
#pragma unroll
  for (int k = 0; k < CHANNELS / 16; k++)
    ptx_wgmma_m64n128k16(d, ptx_wgmma_descriptor(stage + PIXEL_BYTES + k * 32, 16, 1024, PTX_SWIZZLE_128),
                         ptx_wgmma_descriptor(stage + k * 32, 16, 1024, PTX_SWIZZLE_128));
  ptx_wgmma_commit();
  ptx_wgmma_wait<0>();
}

/* Sums of 64 filters x N pixels to [pixel][64 filters] of halves, swizzled, and from there to y. */
template <int N> static __device__ __forceinline__ void store(const CUtensorMap *y, int filter, int pixel, const float (&d)[N / 2], ptx_shared results) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, chunk = 2 * warp + lane / 8 % 2; /* 8 filters are 16 bytes */
  if (threadIdx.x == 0) ptx_bulk_wait_read<0>();
  ptx_bar_sync(1, CONSUMERS); /* the results before these have been read */
#pragma unroll
  for (int j = 0; j < N / 8; j += 2) { /* two times eight pixels, 16 filters */
    unsigned part[4];
#pragma unroll
    for (int i = 0; i < 4; i++) part[i] = two_halves(d[4 * (j + i / 2) + 2 * (i % 2)], d[4 * (j + i / 2) + 2 * (i % 2) + 1]);
    const int row = 8 * (j + lane / 16) + lane % 8;
    ptx_stmatrix_x4_trans(results + row * ROW + (chunk ^ row % 8) * 16, part);
  }
  ptx_fence_proxy_async();
  ptx_bar_sync(1, CONSUMERS); /* the results are there */
  if (threadIdx.x == 0) {
    ptx_tensor_store(y, {filter, pixel}, results);
    ptx_bulk_commit();
  }
}

/* x's boxes are half a tile, 64 pixels; w's 64 filters; y's 64 filters x 128 pixels. */
__global__ void __launch_bounds__(THREADS, 1) multicast_kernel(const __grid_constant__ CUtensorMap x, const __grid_constant__ CUtensorMap w,
                                                               const __grid_constant__ CUtensorMap y, int chunks, int tiles) {
  extern __shared__ __align__(1024) unsigned char shared[];
  __shared__ unsigned long long full_barriers[STAGES];
  __shared__ unsigned long long empty_barriers[STAGES];
  const ptx_shared stages = ptx_shared_address(shared), full = ptx_shared_address(full_barriers), empty = ptx_shared_address(empty_barriers);
  const int rank = ptx_cluster_rank(), clusters = gridDim.x / 2;

  init(full, empty, 2 * CONSUMERS / 32);
  cluster_sync(); /* the mbarriers of both blocks are there */

  if (threadIdx.x >= CONSUMERS) {
    if (ptx_elect(0xffffffff))
      for (int tile = blockIdx.x / 2, i = 0; tile < tiles; tile += clusters)
        for (int chunk = 0; chunk < chunks; chunk++, i++) {
          const int stage = i % STAGES;
          const ptx_shared to = stages + stage * STAGE, there = full + 8 * stage;
          ptx_mbarrier_wait(empty + 8 * stage, (i / STAGES & 1) ^ 1);
          ptx_mbarrier_arrive_expect_tx(there, STAGE); /* the other block's half, too */
          ptx_tensor_load_multicast(to + rank * PIXEL_BYTES / 2, &x, {chunk * CHANNELS, tile * PIXELS + rank * PIXELS / 2}, there, 3);
          ptx_tensor_load(to + PIXEL_BYTES, &w, {chunk * CHANNELS, rank * FILTERS}, there);
        }
  } else {
    const ptx_shared empty_there = ptx_mapa(empty, rank ^ 1);
    for (int tile = blockIdx.x / 2, i = 0; tile < tiles; tile += clusters) {
      float d[PIXELS / 2];
#pragma unroll
      for (int k = 0; k < PIXELS / 2; k++) d[k] = 0;
      for (int chunk = 0; chunk < chunks; chunk++, i++) {
        const int stage = i % STAGES;
        ptx_mbarrier_wait(full + 8 * stage, i / STAGES & 1);
        multiply(d, stages + stage * STAGE);
        if (threadIdx.x % 32 == 0) { /* each warp for its part */
          ptx_mbarrier_arrive(empty + 8 * stage);
          ptx_mbarrier_arrive_cluster(empty_there + 8 * stage);
        }
      }
      store<PIXELS>(&y, rank * FILTERS, tile * PIXELS, d, stages + STAGES * STAGE);
    }
    if (threadIdx.x == 0) ptx_bulk_wait_read<0>();
  }
  cluster_sync(); /* nobody copies to the other or arrives there any more */
}

/* x's boxes are 128 pixels; w's 64 filters; y's 64 filters x 64 pixels. A tile a cluster. */
__global__ void __launch_bounds__(THREADS, 1)
    halves_kernel(const __grid_constant__ CUtensorMap x, const __grid_constant__ CUtensorMap w, const __grid_constant__ CUtensorMap y, int chunks) {
  extern __shared__ __align__(1024) unsigned char shared[];
  __shared__ unsigned long long full_barriers[STAGES];
  __shared__ unsigned long long empty_barriers[STAGES];
  __shared__ unsigned long long sums_barrier;
  const ptx_shared stages = ptx_shared_address(shared), full = ptx_shared_address(full_barriers), empty = ptx_shared_address(empty_barriers);
  const ptx_shared sums_there = ptx_shared_address(&sums_barrier);
  const int rank = ptx_cluster_rank(), pixel = blockIdx.x / 2 * PIXELS;
  const int half = (chunks + 1) / 2, first = rank * half, mine = rank == 0 ? half : chunks - half; /* none, perhaps */

  init(full, empty, CONSUMERS / 32);
  if (threadIdx.x == 0) {
    ptx_mbarrier_init(sums_there, 1);
    ptx_fence_mbarrier_init();
    ptx_mbarrier_arrive_expect_tx(sums_there, SENT);
  }
  cluster_sync(); /* the mbarriers of both blocks are there */

  if (threadIdx.x >= CONSUMERS) {
    if (ptx_elect(0xffffffff))
      for (int i = 0; i < mine; i++) {
        const int stage = i % STAGES;
        const ptx_shared to = stages + stage * STAGE, there = full + 8 * stage;
        ptx_mbarrier_wait(empty + 8 * stage, (i / STAGES & 1) ^ 1);
        ptx_mbarrier_arrive_expect_tx(there, STAGE);
        ptx_tensor_load(to, &x, {(first + i) * CHANNELS, pixel}, there);
        ptx_tensor_load(to + PIXEL_BYTES, &w, {(first + i) * CHANNELS, 0}, there);
      }
  } else {
    float d[PIXELS / 2];
#pragma unroll
    for (int k = 0; k < PIXELS / 2; k++) d[k] = 0;
    for (int i = 0; i < mine; i++) {
      const int stage = i % STAGES;
      ptx_mbarrier_wait(full + 8 * stage, i / STAGES & 1);
      multiply(d, stages + stage * STAGE);
      if (threadIdx.x % 32 == 0) ptx_mbarrier_arrive(empty + 8 * stage);
    }

    /* Block 0 keeps the first 64 pixels. Sums travel as a thread has them, four floats a piece: who has them there is the thread of the same number. What is
     * sent lies behind the stages, and what comes behind that. */
    enum { OUT = STAGES * STAGE, IN = OUT + SENT };
    float kept[PIXELS / 4];
#pragma unroll
    for (int k = 0; k < PIXELS / 4; k += 4) {
      float4 sent;
      sent.x = rank == 0 ? d[PIXELS / 4 + k] : d[k], sent.y = rank == 0 ? d[PIXELS / 4 + k + 1] : d[k + 1];
      sent.z = rank == 0 ? d[PIXELS / 4 + k + 2] : d[k + 2], sent.w = rank == 0 ? d[PIXELS / 4 + k + 3] : d[k + 3];
      *(float4 *)(shared + OUT + (k / 4 * CONSUMERS + threadIdx.x) * 16) = sent;
#pragma unroll
      for (int j = k; j < k + 4; j++) kept[j] = rank == 0 ? d[j] : d[PIXELS / 4 + j];
    }
    ptx_fence_proxy_async();
    ptx_bar_sync(1, CONSUMERS); /* what is sent is there */
    if (threadIdx.x == 0) ptx_bulk_between(ptx_mapa(stages + IN, rank ^ 1), stages + OUT, SENT, ptx_mapa(sums_there, rank ^ 1));
    ptx_mbarrier_wait(sums_there, 0);
#pragma unroll
    for (int k = 0; k < PIXELS / 4; k += 4) {
      const float4 other = *(const float4 *)(shared + IN + (k / 4 * CONSUMERS + threadIdx.x) * 16);
      const float terms[4] = {other.x, other.y, other.z, other.w};
#pragma unroll
      for (int j = 0; j < 4; j++) kept[k + j] = rank == 0 ? kept[k + j] + terms[j] : terms[j] + kept[k + j];
    }
    store<PIXELS / 2>(&y, 0, pixel + rank * PIXELS / 2, kept, stages + IN + SENT);
    if (threadIdx.x == 0) ptx_bulk_wait_read<0>();
  }
  cluster_sync(); /* what was sent has come: its source may go */
}

static float value(int i, int range) { return (float)((int)((unsigned)i * 2654435761u >> 20) % (2 * range + 1) - range); }

/* A launch in clusters of two. */
template <typename... P, typename... A> static cudaError_t launch(void (*kernel)(P...), int blocks, A... arguments) {
  cudaLaunchAttribute cluster = {};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim.x = 2, cluster.val.clusterDim.y = 1, cluster.val.clusterDim.z = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(blocks), config.blockDim = dim3(THREADS), config.dynamicSmemBytes = SHARED, config.attrs = &cluster, config.numAttrs = 1;
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, SHARED);
  const cudaError_t status = cudaLaunchKernelEx(&config, kernel, arguments...);
  return status != cudaSuccess ? status : cudaDeviceSynchronize();
}

/* clusters 0: the kernel that divides the channels. */
static void test(int pixels, int channels, int filters, int clusters) {
  const int tiles = (pixels + PIXELS - 1) / PIXELS, chunks = (channels + CHANNELS - 1) / CHANNELS;
  __half *x = (__half *)malloc(pixels * channels * 2), *w = (__half *)malloc(filters * channels * 2);
  for (int i = 0; i < pixels * channels; i++) x[i] = __float2half(value(i, 2));
  for (int i = 0; i < filters * channels; i++) w[i] = __float2half(value(i + 77, 1));
  __half *dx = on_device(pixels * channels, x), *dw = on_device(filters * channels, w), *dy = on_device<__half>(pixels * filters);
  cudaMemset(dy, 0xFF, pixels * filters * 2);

  const unsigned long long x_size[2] = {(unsigned)channels, (unsigned)pixels}, w_size[2] = {(unsigned)channels, (unsigned)filters};
  const unsigned long long y_size[2] = {(unsigned)filters, (unsigned)pixels};
  const unsigned whole[2] = {CHANNELS, PIXELS}, half[2] = {CHANNELS, PIXELS / 2}, w_box[2] = {CHANNELS, FILTERS};
  const CUtensorMap mx = tiled_map(dx, 2, x_size, clusters > 0 ? half : whole), mw = tiled_map(dw, 2, w_size, w_box);
  const CUtensorMap my = tiled_map(dy, 2, y_size, clusters > 0 ? whole : half);
  const cudaError_t status =
      clusters > 0 ? launch(multicast_kernel, 2 * clusters, mx, mw, my, chunks, tiles) : launch(halves_kernel, 2 * tiles, mx, mw, my, chunks);
  __half *y = on_host(dy, pixels * filters);
  int wrong = 0;
  for (int i = 0; i < pixels * filters; i++) {
    float sum = 0;
    for (int c = 0; c < channels; c++) sum += __half2float(x[i / filters * channels + c]) * __half2float(w[i % filters * channels + c]);
    if (__half_as_ushort(y[i]) != __half_as_ushort(__float2half(sum))) wrong++;
  }
  ok(status == cudaSuccess && wrong == 0, "%d pixels, %d channels, %d filters, %s: %s, %d of %d wrong", pixels, channels, filters,
     clusters > 0 ? "pixels for both blocks" : "channels divided", cudaGetErrorString(status), wrong, pixels * filters);
  free(x), free(w), free(y), cudaFree(dx), cudaFree(dw), cudaFree(dy);
}

int main() {
  plan(0);
  test(128, 64, 128, 1);
  test(300, 200, 96, 1); /* tiles, channels and filters that are cut off; one cluster, all stages again and again */
  test(500, 320, 128, 2);
  test(128, 128, 64, 0);
  test(200, 64, 64, 0); /* the second block has no channels */
  test(140, 456, 40, 0);
  return done_testing();
}
