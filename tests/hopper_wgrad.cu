/* A Hopper wgrad in small: 3x3, stride 1, padding 1, 64 channels, 64 filters, fp16 NHWC; dw [64][3][3][64] in fp32 is a sum over pixels. Both operands lie with
 * the pixel, the reduction, outside: MN-major, as tiled tensor copies bring them. dy is a [64 filters][pixels]; x is b, a halo tile, and the three taps of a
 * filter row are its columns together: three atoms of 64 channels, the same rows of shared memory one pixel apart, LBO = 128.
 *
 * A producer warp, three warpgroups with a filter row each. A pixel row of a tile is PITCH > W wide: dy is zero there, whatever x is. Blocks share the tiles;
 * each leaves its sums in a workspace, and the last to come adds them, in the blocks' order: the same bits every time.
 * On small integers right to the bit, on the emulator and on a GPU. */
#include <cuda.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "common/ptx/ptx.cuh"
#include "tests/on_device.cuh"
#include "tests/tap.h"
#include "tests/tensor_maps.cuh"

enum { CHANNELS = 64, FILTERS = 64, TAPS = 9, STAGES = 2, PIXEL = 128 /* bytes */, GROUPS = 3, CONSUMERS = 128 * GROUPS, THREADS = CONSUMERS + 32 };
enum { SUMS = FILTERS * TAPS * CHANNELS };

/* Bytes of a stage: dy's pixels, x's, and behind those what descriptors read, to whole swizzles. */
static constexpr __host__ __device__ int dy_bytes(int pitch, int rows) { return rows * pitch * PIXEL; }
static constexpr __host__ __device__ int x_bytes(int pitch, int rows) { return (rows + 2) * pitch * PIXEL; }
static constexpr __host__ __device__ int stage_bytes(int pitch, int rows) { return dy_bytes(pitch, rows) + ((rows + 2) * pitch + 2 + 7) / 8 * 8 * PIXEL; }

template <int PITCH, int ROWS>
__global__ void __launch_bounds__(THREADS, 1) wgrad_kernel(const __grid_constant__ CUtensorMap x, const __grid_constant__ CUtensorMap dy, float *dw,
                                                           float *workspace, unsigned *arrived, int tiles_p, int tiles) {
  static_assert(PITCH * ROWS % 16 == 0, "a tile is whole steps of 16 pixels");
  constexpr int DY = dy_bytes(PITCH, ROWS), X = x_bytes(PITCH, ROWS), STAGE = stage_bytes(PITCH, ROWS), TAIL = (STAGE - DY - X) / 16;
  extern __shared__ __align__(1024) unsigned char shared[];
  __shared__ unsigned long long full[STAGES];
  __shared__ unsigned long long empty[STAGES];
  __shared__ bool last;
  const ptx_shared stages = ptx_shared_address(shared), full_at = ptx_shared_address(full), empty_at = ptx_shared_address(empty);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, group = warp / 4;

  if (threadIdx.x == 0) {
    for (int i = 0; i < STAGES; i++) ptx_mbarrier_init(full_at + 8 * i, 1), ptx_mbarrier_init(empty_at + 8 * i, CONSUMERS / 32);
    ptx_fence_mbarrier_init();
  }
  for (int i = threadIdx.x; i < STAGES * TAIL; i += THREADS) /* behind x: times a zero of dy, but no NaN */
    *(uint4 *)(shared + i / TAIL * STAGE + DY + X + i % TAIL * 16) = make_uint4(0, 0, 0, 0);
  ptx_fence_proxy_async();
  __syncthreads(); /* barriers and zeros are there */

  if (group == GROUPS) { /* the producer: one thread */
    if (ptx_elect(0xffffffff))
      for (int tile = blockIdx.x, i = 0; tile < tiles; tile += gridDim.x, i++) {
        const int stage = i % STAGES, p = tile % tiles_p * ROWS, n = tile / tiles_p;
        ptx_mbarrier_wait(empty_at + 8 * stage, (i / STAGES & 1) ^ 1);
        ptx_mbarrier_arrive_expect_tx(full_at + 8 * stage, DY + X);
        ptx_tensor_load(stages + stage * STAGE, &dy, {0, 0, p, n}, full_at + 8 * stage);
        ptx_tensor_load(stages + stage * STAGE + DY, &x, {0, -1, p - 1, n}, full_at + 8 * stage);
      }
    return;
  }

  float d[96]; /* [filter][3 taps][channel] of filter row `group` */
#pragma unroll
  for (int i = 0; i < 96; i++) d[i] = 0;
  for (int tile = blockIdx.x, i = 0; tile < tiles; tile += gridDim.x, i++) {
    const int stage = i % STAGES;
    const ptx_shared gradients = stages + stage * STAGE, pixels = gradients + DY + group * PITCH * PIXEL;
    ptx_mbarrier_wait(full_at + 8 * stage, i / STAGES & 1);
    ptx_wgmma_fence();
#pragma unroll
    for (int k = 0; k < PITCH * ROWS; k += 16)
      ptx_wgmma_m64n192k16<1, 1>(d, ptx_wgmma_descriptor(gradients + k * PIXEL, 16, 1024, PTX_SWIZZLE_128),
                                 ptx_wgmma_descriptor(pixels + k * PIXEL, PIXEL, 1024, PTX_SWIZZLE_128));
    ptx_wgmma_commit();
    ptx_wgmma_wait<0>();
    if (lane == 0) ptx_mbarrier_arrive(empty_at + 8 * stage); /* each warp for its part */
  }

  float *part = workspace + (size_t)blockIdx.x * SUMS;
#pragma unroll
  for (int i = 0; i < 96; i += 2) {
    const int k = 16 * (warp % 4) + lane / 4 + 8 * (i / 2 % 2), column = 8 * (i / 4) + 2 * (lane % 4);
    *(float2 *)(part + k * TAPS * CHANNELS + group * 3 * CHANNELS + column) = make_float2(d[i], d[i + 1]);
  }
  __threadfence();
  ptx_bar_sync(1, CONSUMERS); /* the block's sums are published */
  if (threadIdx.x == 0) last = atomicAdd(arrived, 1) == gridDim.x - 1;
  ptx_bar_sync(1, CONSUMERS); /* whether it is the last is known */
  if (!last) return;
  __threadfence();
  for (int i = threadIdx.x; i < SUMS / 4; i += CONSUMERS) {
    float4 sum = make_float4(0, 0, 0, 0);
    for (int block = 0; block < gridDim.x; block++) {
      const float4 term = *(const float4 *)(workspace + (size_t)block * SUMS + 4 * i);
      sum.x += term.x, sum.y += term.y, sum.z += term.z, sum.w += term.w;
    }
    *(float4 *)(dw + 4 * i) = sum;
  }
  if (threadIdx.x == 0) *arrived = 0; /* for the next launch */
}

static float value(int i, int range) { return (float)((int)((unsigned)i * 2654435761u >> 20) % (2 * range + 1) - range); }

/* What dw should be: a sum over pixels, pixel by pixel. */
static void reference(float *dw, const float *x, const float *dy, int images, int height, int width) {
  memset(dw, 0, SUMS * sizeof *dw);
  for (int pixel = 0; pixel < images * height * width; pixel++)
    for (int tap = 0; tap < TAPS; tap++) {
      const int h = pixel / width % height + tap / 3 - 1, w = pixel % width + tap % 3 - 1;
      if (h < 0 || h >= height || w < 0 || w >= width) continue;
      const float *from = x + (pixel + (tap / 3 - 1) * width + tap % 3 - 1) * CHANNELS;
      for (int k = 0; k < FILTERS; k++) {
        const float gradient = dy[pixel * FILTERS + k];
        float *sums = dw + (k * TAPS + tap) * CHANNELS;
        for (int c = 0; c < CHANNELS; c++) sums[c] += gradient * from[c];
      }
    }
}

template <int PITCH, int ROWS> static void test(int images, int height, int width, int blocks) {
  const int n = images * height * width * CHANNELS, tiles_p = (height + ROWS - 1) / ROWS, bytes = STAGES * stage_bytes(PITCH, ROWS);
  __half *x = (__half *)malloc(n * 2), *dy = (__half *)malloc(n * 2);
  float *fx = (float *)malloc(n * 4), *fdy = (float *)malloc(n * 4), *wanted = (float *)malloc(SUMS * 4);
  for (int i = 0; i < n; i++) fx[i] = value(i, 2), fdy[i] = value(i + 77, 1), x[i] = __float2half(fx[i]), dy[i] = __float2half(fdy[i]);
  __half *at_x = on_device(n, x), *at_dy = on_device(n, dy);
  float *dw = on_device<float>(SUMS), *workspace = on_device<float>(blocks * SUMS);
  unsigned *arrived = on_device<unsigned>(1);
  cudaMemset(arrived, 0, sizeof *arrived);

  const unsigned long long size[4] = {CHANNELS, (unsigned)width, (unsigned)height, (unsigned)images};
  const unsigned x_box[4] = {CHANNELS, PITCH, ROWS + 2, 1}, dy_box[4] = {FILTERS, PITCH, ROWS, 1};
  const CUtensorMap map_x = tiled_map(at_x, 4, size, x_box), map_dy = tiled_map(at_dy, 4, size, dy_box);
  cudaFuncSetAttribute(wgrad_kernel<PITCH, ROWS>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  reference(wanted, fx, fdy, images, height, width);
  for (int launch = 0; launch < 2; launch++) { /* the second finds the counter as the first left it */
    cudaMemset(dw, 0xFF, SUMS * 4);
    wgrad_kernel<PITCH, ROWS><<<blocks, THREADS, bytes>>>(map_x, map_dy, dw, workspace, arrived, tiles_p, tiles_p * images);
    const cudaError_t status = cudaDeviceSynchronize();
    float *got = on_host(dw, SUMS);
    int wrong = 0;
    for (int i = 0; i < SUMS; i++) wrong += got[i] != wanted[i];
    ok(status == cudaSuccess && wrong == 0, "%d images of %d x %d pixels, %d blocks, launch %d: %s, %d of %d wrong", images, height, width, blocks, launch,
       cudaGetErrorString(status), wrong, SUMS);
    free(got);
  }
  free(x), free(dy), free(fx), free(fdy), free(wanted), cudaFree(at_x), cudaFree(at_dy), cudaFree(dw), cudaFree(workspace), cudaFree(arrived);
}

int main() {
  plan(0);
  test<8, 2>(2, 5, 7, 2);   /* the last tile of an image is cut off; each block has three */
  test<20, 4>(1, 9, 14, 1); /* one block */
  test<60, 4>(1, 7, 56, 3); /* one block without a tile */
  return done_testing();
}
