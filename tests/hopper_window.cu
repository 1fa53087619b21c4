/* A Hopper convolution in small: 3x3, 64 channels, 64 filters, fp16 NHWC, padding 1. A halo tile comes once, by a tiled tensor copy whose negative coordinates
 * are the padding; a filter tap is the same tile under a moved descriptor. Filters are a [64][64], pixels b, so that a tile is one product of 64 x PITCH * ROWS.
 * A producer warp, two consumer warpgroups with a tile each in turn, results by stmatrix into the stage just read and out by a tensor store.
 * On small integers right to the bit, on the emulator and on a GPU. */
#include <cuda.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "common/ptx/ptx.cuh"
#include "tests/on_device.cuh"
#include "tests/tap.h"
#include "tests/tensor_maps.cuh"

enum { CHANNELS = 64, TAPS = 9, STAGES = 2, ROW = 128, TAP = CHANNELS * ROW, THREADS = 384, CONSUMERS = 2 }; /* ROW, TAP: bytes */

/* Bytes of a stage: the rows of pixels of the box, and what descriptors read behind them, to whole swizzles. */
static constexpr __host__ __device__ int stage_bytes(int pitch, int rows) { return ((rows + 2) * pitch + 2 + 7) / 8 * 8 * ROW; }

template <int N> static __device__ __forceinline__ void product(float (&d)[N / 2], unsigned long long a, unsigned long long b) {
  if constexpr (N == 32) ptx_wgmma_m64n32k16(d, a, b);
  else if constexpr (N == 64) ptx_wgmma_m64n64k16(d, a, b);
  else ptx_wgmma_m64n232k16(d, a, b);
}

static __device__ __forceinline__ unsigned two_halves(float low, float high) {
  return __half_as_ushort(__float2half_rn(low)) | (unsigned)__half_as_ushort(__float2half_rn(high)) << 16;
}

/* Sums of 64 filters x N pixels to a stage, [pixel][64 filters] of halves, swizzled. */
template <int N> static __device__ __forceinline__ void store_sums(const float (&d)[N / 2], ptx_shared stage) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4, chunk = 2 * warp + lane / 8 % 2; /* 8 filters are 16 bytes */
#pragma unroll
  for (int j = 0; j + 1 < N / 8; j += 2) { /* two times eight pixels, 16 filters */
    unsigned part[4];
#pragma unroll
    for (int i = 0; i < 4; i++) part[i] = two_halves(d[4 * (j + i / 2) + 2 * (i % 2)], d[4 * (j + i / 2) + 2 * (i % 2) + 1]);
    const int pixel = 8 * (j + lane / 16) + lane % 8;
    ptx_stmatrix_x4_trans(stage + pixel * ROW + (chunk ^ pixel % 8) * 16, part);
  }
  if (N / 8 % 2 == 1) {
    constexpr int j = N / 8 - 1;
    unsigned part[2];
#pragma unroll
    for (int i = 0; i < 2; i++) part[i] = two_halves(d[4 * j + 2 * i], d[4 * j + 2 * i + 1]);
    const int pixel = 8 * j + lane % 8;
    ptx_stmatrix_x2_trans(stage + pixel * ROW + (chunk ^ pixel % 8) * 16, part);
  }
}

/* ROWS rows of y, whole, are a tile: PITCH = W + 2 pixels each, of which two are of no use. */
template <int PITCH, int ROWS>
__global__ void __launch_bounds__(THREADS, 1)
    window_kernel(const __grid_constant__ CUtensorMap x, const __grid_constant__ CUtensorMap w, const __grid_constant__ CUtensorMap y, int tiles_p, int tiles) {
  constexpr int N = PITCH * ROWS, STAGE = stage_bytes(PITCH, ROWS), BOX = (ROWS + 2) * PITCH * ROW;
  extern __shared__ __align__(1024) unsigned char shared[];
  __shared__ unsigned long long full[STAGES];
  __shared__ unsigned long long empty[STAGES];
  __shared__ unsigned long long filter_there;
  const ptx_shared filter = ptx_shared_address(shared), stages = filter + TAPS * TAP;
  const ptx_shared full_at = ptx_shared_address(full), empty_at = ptx_shared_address(empty), filter_at = ptx_shared_address(&filter_there);
  const int warp = threadIdx.x / 32, group = warp / 4;

  if (threadIdx.x == 0) {
    for (int i = 0; i < STAGES; i++) ptx_mbarrier_init(full_at + 8 * i, 1), ptx_mbarrier_init(empty_at + 8 * i, 1);
    ptx_mbarrier_init(filter_at, 1);
    ptx_fence_mbarrier_init();
  }
  for (int i = threadIdx.x; i < STAGES * (STAGE - BOX) / 16; i += THREADS) { /* what lies behind the boxes: read, and of no use, but no NaN */
    const int stage = i / ((STAGE - BOX) / 16), at = i % ((STAGE - BOX) / 16);
    *(uint4 *)(shared + TAPS * TAP + stage * STAGE + BOX + at * 16) = make_uint4(0, 0, 0, 0);
  }
  ptx_fence_proxy_async();
  __syncthreads(); /* barriers and zeros are there */

  if (group == CONSUMERS) { /* the producer: one thread of one warp */
    ptx_setmaxnreg_dec<40>();
    if (warp % 4 == 0 && ptx_elect(0xffffffff)) {
      ptx_mbarrier_arrive_expect_tx(filter_at, TAPS * TAP);
      for (int tap = 0; tap < TAPS; tap++) ptx_tensor_load(filter + tap * TAP, &w, {0, tap, 0}, filter_at);
      for (int tile = blockIdx.x, i = 0; tile < tiles; tile += gridDim.x, i++) {
        const int stage = i % STAGES;
        ptx_mbarrier_wait(empty_at + 8 * stage, (i / STAGES & 1) ^ 1);
        ptx_mbarrier_arrive_expect_tx(full_at + 8 * stage, BOX);
        ptx_tensor_load(stages + stage * STAGE, &x, {0, -1, tile % tiles_p * ROWS - 1, tile / tiles_p}, full_at + 8 * stage);
      }
    }
    return;
  }

  ptx_setmaxnreg_inc<232>();
  ptx_mbarrier_wait(filter_at, 0);
  for (int tile = blockIdx.x, i = 0; tile < tiles; tile += gridDim.x, i++) {
    if (i % CONSUMERS != group) continue;
    const int stage = i % STAGES;
    const ptx_shared pixels = stages + stage * STAGE;
    ptx_mbarrier_wait(full_at + 8 * stage, i / STAGES & 1);
    float d[N / 2];
#pragma unroll
    for (int k = 0; k < N / 2; k++) d[k] = 0;
    ptx_wgmma_fence();
#pragma unroll
    for (int tap = 0; tap < TAPS; tap++)
#pragma unroll
      for (int k = 0; k < CHANNELS / 16; k++)
        product<N>(d, ptx_wgmma_descriptor(filter + tap * TAP + k * 32, 16, 1024, PTX_SWIZZLE_128),
                   ptx_wgmma_descriptor(pixels + (tap / 3 * PITCH + tap % 3) * ROW + k * 32, 16, 1024, PTX_SWIZZLE_128));
    ptx_wgmma_commit();
    ptx_wgmma_wait<0>();
    ptx_bar_sync(1 + group, 128); /* nobody reads the pixels any more */
    store_sums<N>(d, pixels);
    ptx_fence_proxy_async();
    ptx_bar_sync(1 + group, 128); /* the sums are there */
    if (threadIdx.x % 128 == 0) {
      ptx_tensor_store(&y, {0, 0, tile % tiles_p * ROWS, tile / tiles_p}, pixels);
      ptx_bulk_commit();
      ptx_bulk_wait_read<0>();
      ptx_mbarrier_arrive(empty_at + 8 * stage);
    }
  }
}

static float value(int i, int range) { return (float)((int)((unsigned)i * 2654435761u >> 20) % (2 * range + 1) - range); }

template <int PITCH, int ROWS> static void test(int images, int height, int blocks) {
  constexpr int W = PITCH - 2;
  const int pixels = images * height * W, filters = CHANNELS * TAPS * CHANNELS;
  __half *x = (__half *)malloc(pixels * ROW), *w = (__half *)malloc(filters * 2);
  for (int i = 0; i < pixels * CHANNELS; i++) x[i] = __float2half(value(i, 2));
  for (int i = 0; i < filters; i++) w[i] = __float2half(value(i + 77, 1));
  __half *dx = on_device(pixels * CHANNELS, x), *dw = on_device(filters, w), *dy = on_device<__half>(pixels * CHANNELS);
  cudaMemset(dy, 0xFF, pixels * ROW);

  const unsigned long long image[4] = {CHANNELS, W, (unsigned)height, (unsigned)images}, filter[3] = {CHANNELS, TAPS, CHANNELS};
  const unsigned in_box[4] = {CHANNELS, PITCH, ROWS + 2, 1}, filter_box[3] = {CHANNELS, 1, CHANNELS}, out_box[4] = {CHANNELS, PITCH, ROWS, 1};
  const CUtensorMap mx = tiled_map(dx, 4, image, in_box), mw = tiled_map(dw, 3, filter, filter_box), my = tiled_map(dy, 4, image, out_box);
  const int tiles_p = (height + ROWS - 1) / ROWS, bytes = TAPS * TAP + STAGES * stage_bytes(PITCH, ROWS);
  cudaFuncSetAttribute(window_kernel<PITCH, ROWS>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  window_kernel<PITCH, ROWS><<<blocks, THREADS, bytes>>>(mx, mw, my, tiles_p, tiles_p * images);
  const cudaError_t status = cudaDeviceSynchronize();
  __half *y = on_host(dy, pixels * CHANNELS);
  int wrong = 0;
  for (int n = 0; n < images; n++)
    for (int p = 0; p < height; p++)
      for (int q = 0; q < W; q++)
        for (int k = 0; k < CHANNELS; k++) {
          float sum = 0;
          for (int r = 0; r < 3; r++)
            for (int s = 0; s < 3; s++) {
              const int h = p + r - 1, v = q + s - 1;
              if (h < 0 || h >= height || v < 0 || v >= W) continue;
              for (int c = 0; c < CHANNELS; c++)
                sum += __half2float(x[((n * height + h) * W + v) * CHANNELS + c]) * __half2float(w[(k * TAPS + 3 * r + s) * CHANNELS + c]);
            }
          if (__half_as_ushort(y[((n * height + p) * W + q) * CHANNELS + k]) != __half_as_ushort(__float2half(sum))) wrong++;
        }
  ok(status == cudaSuccess && wrong == 0, "%d images of %d x %d pixels, %d blocks: %s, %d of %d wrong", images, height, W, blocks, cudaGetErrorString(status),
     wrong, pixels * CHANNELS);
  free(x), free(w), free(y), cudaFree(dx), cudaFree(dw), cudaFree(dy);
}

int main() {
  plan(0);
  test<8, 4>(2, 7, 2);   /* the last tile of an image is cut off; each block has two */
  test<16, 4>(1, 14, 1); /* one block, four tiles: both stages twice */
  test<58, 4>(1, 6, 2);
  return done_testing();
}
