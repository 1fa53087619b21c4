/* A first layer in small: 7x7, stride 2, padding 3, 3 channels, 64 filters, fp16 NHWC. Pixels of 3 channels suit no instruction, so rows are expanded to 4 in
 * shared memory: a pixel pair is 16 bytes, a window of stride 2 begins a pair after its neighbour, and a row of pairs is its own matrix of windows:
 *
 *   pairs        0  1  2  3  4  5 ...     three pixels of padding, then the image's
 *   window 0    [0  1  2  3]              7 pixels and one whose filter is zero: 32 halves of the reduction
 *   window 1       [1  2  3  4]
 *
 * No-swizzle K-major, core matrices of 8 windows x 8 halves: window to window and 8 halves to the next 8 are both one pair, LBO = 16; SBO = 128.
 * A filter row is two k16 steps. Filters are a [64][224], windows b, so that an output row is one product. Two warpgroups, an output row each.
 * On small integers right to the bit, on the emulator and on a GPU. */
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "common/ptx/ptx.cuh"
#include "tests/on_device.cuh"
#include "tests/tap.h"

enum {
  CHANNELS = 3,
  FILTERS = 64,
  SIDE = 7,
  PAD = 3,
  PAIR = 16,                      /* bytes */
  PAIRS = 4,                      /* of a window's row */
  GROUPS = 2,                     /* warpgroups, each with an output row of a tile */
  ROWS = 2 * (GROUPS - 1) + SIDE, /* of x for a tile */
  CHUNKS = SIDE * PAIRS,          /* of 8 halves of the reduction */
  CHUNK = FILTERS * 16,           /* bytes */
  PIXEL = FILTERS * 2,            /* bytes */
  THREADS = 128 * GROUPS
};

/* Shared memory, in bytes: filters, expanded rows, results of each warpgroup, raw rows. */
static constexpr __host__ __device__ int row_bytes(int windows) { return (windows + PAIRS - 1) * PAIR; }
static constexpr __host__ __device__ int expanded_at() { return CHUNKS * CHUNK; }
static constexpr __host__ __device__ int results_at(int windows) { return expanded_at() + ROWS * row_bytes(windows); }
static constexpr __host__ __device__ int raw_at(int windows) { return results_at(windows) + GROUPS * windows * PIXEL; }

typedef struct sizes {
  int images, h, w, p, q;
} sizes;

template <int N, int SCALE_D> static __device__ __forceinline__ void product(float (&d)[N / 2], unsigned long long a, unsigned long long b) {
  if constexpr (N == 8) ptx_wgmma_m64n8k16<0, 0, SCALE_D>(d, a, b);
  else if constexpr (N == 16) ptx_wgmma_m64n16k16<0, 0, SCALE_D>(d, a, b);
  else ptx_wgmma_m64n112k16<0, 0, SCALE_D>(d, a, b);
}

static __device__ __forceinline__ unsigned two_halves(float low, float high) {
  return __half_as_ushort(__float2half_rn(low)) | (unsigned)__half_as_ushort(__float2half_rn(high)) << 16;
}

/* w [64][7][7][3] to [28 chunks][64][8]: a chunk is a pixel pair of the window, its fourth channels and the eighth pixel of a row are zero. */
static __device__ void arrange_filters(unsigned char *shared, const __half *w) {
  for (int i = threadIdx.x; i < CHUNKS * FILTERS; i += THREADS) {
    const int chunk = i / FILTERS, k = i % FILTERS, r = chunk / PAIRS;
    __half piece[8];
    for (int e = 0; e < 8; e++) {
      const int s = chunk % PAIRS * 2 + e / 4, c = e % 4;
      piece[e] = s < SIDE && c < CHANNELS ? w[((k * SIDE + r) * SIDE + s) * CHANNELS + c] : __ushort_as_half(0);
    }
    unsigned words[4];
    for (int j = 0; j < 4; j++) words[j] = __half_as_ushort(piece[2 * j]) | (unsigned)__half_as_ushort(piece[2 * j + 1]) << 16;
    *(uint4 *)(shared + chunk * CHUNK + k * 16) = make_uint4(words[0], words[1], words[2], words[3]);
  }
}

/* A pixel's 4 channels as two words; column `at` of a row of `w` pixels, NULL: a row outside of the image. */
static __device__ __forceinline__ uint2 four_channels(const __half *row, int at, int w) {
  if (row == nullptr || at < 0 || at >= w) return make_uint2(0, 0);
  const __half *c = row + at * CHANNELS;
  return make_uint2(__half_as_ushort(c[0]) | (unsigned)__half_as_ushort(c[1]) << 16, __half_as_ushort(c[2]));
}

/* N: windows of a row, to a multiple of 8. BULK: rows of x are multiples of 16 bytes, bulk copies bring them to shared memory, one tile ahead. */
template <int N, bool BULK> __global__ void __launch_bounds__(THREADS, 1) first_layer_kernel(const __half *x, const __half *w, __half *y, const sizes size) {
  constexpr int ROW = row_bytes(N);
  extern __shared__ __align__(128) unsigned char shared[];
  __shared__ unsigned long long raw_there;
  const ptx_shared filters = ptx_shared_address(shared), barrier = ptx_shared_address(&raw_there);
  const int group = threadIdx.x / 128, lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
  const ptx_shared expanded = filters + expanded_at(), results = filters + results_at(N) + group * N * PIXEL;
  const int raw_row = size.w * CHANNELS * 2, tiles_p = (size.p + GROUPS - 1) / GROUPS, tiles = tiles_p * size.images;

  if (threadIdx.x == 0) ptx_mbarrier_init(barrier, 1), ptx_fence_mbarrier_init();
  arrange_filters(shared, w);
  __syncthreads(); /* the mbarrier is there */

  /* One thread: the rows of a tile that lie in the image. */
  const auto load = [&](int tile) {
    const int first = tile % tiles_p * GROUPS * 2 - PAD, low = max(first, 0), high = min(first + ROWS, size.h);
    ptx_mbarrier_arrive_expect_tx(barrier, (high - low) * raw_row);
    for (int h = low; h < high; h++)
      ptx_bulk_load(filters + raw_at(N) + (h - first) * raw_row, x + (size_t)(tile / tiles_p * size.h + h) * size.w * CHANNELS, raw_row, barrier);
  };
  if (BULK && threadIdx.x == 0 && blockIdx.x < tiles) load(blockIdx.x);

  for (int tile = blockIdx.x, i = 0; tile < tiles; tile += gridDim.x, i++) {
    const int n = tile / tiles_p, p0 = tile % tiles_p * GROUPS;
    if (BULK) ptx_mbarrier_wait(barrier, i & 1);
    for (int j = threadIdx.x; j < ROWS * (ROW / PAIR); j += THREADS) {
      const int row = j / (ROW / PAIR), pair = j % (ROW / PAIR), h = p0 * 2 - PAD + row;
      const __half *from = BULK ? (const __half *)(shared + raw_at(N) + row * raw_row) : x + (size_t)(n * size.h + h) * size.w * CHANNELS;
      if (h < 0 || h >= size.h) from = nullptr;
      const uint2 left = four_channels(from, 2 * pair - PAD, size.w), right = four_channels(from, 2 * pair + 1 - PAD, size.w);
      *(uint4 *)(shared + expanded_at() + row * ROW + pair * PAIR) = make_uint4(left.x, left.y, right.x, right.y);
    }
    ptx_fence_proxy_async();
    __syncthreads(); /* the expanded rows are there, and nobody reads the raw ones any more */
    if (BULK && threadIdx.x == 0 && tile + gridDim.x < tiles) load(tile + gridDim.x);

    float d[N / 2];
    ptx_wgmma_fence();
#pragma unroll
    for (int step = 0; step < CHUNKS / 2; step++) {
      const unsigned long long a = ptx_wgmma_descriptor(filters + step * 2 * CHUNK, CHUNK, 128, PTX_SWIZZLE_NONE);
      const unsigned long long b = ptx_wgmma_descriptor(expanded + (group * 2 + step / 2) * ROW + step % 2 * 2 * PAIR, PAIR, 128, PTX_SWIZZLE_NONE);
      if (step == 0) product<N, 0>(d, a, b);
      else product<N, 1>(d, a, b);
    }
    ptx_wgmma_commit();
    ptx_wgmma_wait<0>();

    if (threadIdx.x % 128 == 0) ptx_bulk_wait_read<0>();
    __syncthreads(); /* nobody reads the expanded rows any more; the results before these are on their way */
#pragma unroll
    for (int j = 0; j < N / 8; j++) { /* 8 pixels: [pixel][64 filters], as y has them */
      const unsigned part[2] = {two_halves(d[4 * j], d[4 * j + 1]), two_halves(d[4 * j + 2], d[4 * j + 3])};
      ptx_stmatrix_x2_trans(results + (8 * j + lane % 8) * PIXEL + (2 * warp + lane / 8 % 2) * 16, part);
    }
    ptx_fence_proxy_async();
    ptx_bar_sync(1 + group, 128); /* the results are there */
    if (threadIdx.x % 128 == 0 && p0 + group < size.p) {
      ptx_bulk_store(y + (size_t)(n * size.p + p0 + group) * size.q * FILTERS, results, size.q * PIXEL);
      ptx_bulk_commit();
    }
  }
  if (threadIdx.x % 128 == 0) ptx_bulk_wait_read<0>(); /* shared memory ends with the block */
}

static float value(int i, int range) { return (float)((int)((unsigned)i * 2654435761u >> 20) % (2 * range + 1) - range); }

static float sum_at(const __half *x, const __half *w, const sizes *size, int n, int p, int q, int k) {
  float sum = 0;
  for (int r = 0; r < SIDE; r++)
    for (int s = 0; s < SIDE; s++) {
      const int h = 2 * p + r - PAD, v = 2 * q + s - PAD;
      if (h < 0 || h >= size->h || v < 0 || v >= size->w) continue;
      for (int c = 0; c < CHANNELS; c++)
        sum += __half2float(x[((n * size->h + h) * size->w + v) * CHANNELS + c]) * __half2float(w[((k * SIDE + r) * SIDE + s) * CHANNELS + c]);
    }
  return sum;
}

template <int N, bool BULK> static void test(int images, int h, int w, int blocks) {
  const sizes size = {images, h, w, (h - 1) / 2 + 1, (w - 1) / 2 + 1};
  const int pixels = images * size.p * size.q, in = images * h * w * CHANNELS, filters = FILTERS * SIDE * SIDE * CHANNELS;
  __half *x = (__half *)malloc(in * 2), *f = (__half *)malloc(filters * 2);
  for (int i = 0; i < in; i++) x[i] = __float2half(value(i, 2));
  for (int i = 0; i < filters; i++) f[i] = __float2half(value(i + 77, 1));
  __half *dx = on_device(in, x), *df = on_device(filters, f), *dy = on_device<__half>(pixels * FILTERS);
  cudaMemset(dy, 0xFF, pixels * PIXEL);

  const int bytes = raw_at(N) + (BULK ? ROWS * w * CHANNELS * 2 : 0);
  cudaFuncSetAttribute(first_layer_kernel<N, BULK>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  first_layer_kernel<N, BULK><<<blocks, THREADS, bytes>>>(dx, df, dy, size);
  const cudaError_t status = cudaDeviceSynchronize();
  __half *y = on_host(dy, pixels * FILTERS);
  int wrong = 0;
  for (int i = 0; i < pixels * FILTERS; i++) {
    const int k = i % FILTERS, q = i / FILTERS % size.q, p = i / FILTERS / size.q % size.p, n = i / FILTERS / size.q / size.p;
    if (__half_as_ushort(y[i]) != __half_as_ushort(__float2half(sum_at(x, f, &size, n, p, q, k)))) wrong++;
  }
  ok(status == cudaSuccess && wrong == 0, "%d images of %d x %d pixels, %d blocks%s: %s, %d of %d wrong", images, h, w, blocks, BULK ? ", bulk copies" : "",
     cudaGetErrorString(status), wrong, pixels * FILTERS);
  free(x), free(f), free(y), cudaFree(dx), cudaFree(df), cudaFree(dy);
}

int main() {
  plan(0);
  test<8, true>(2, 9, 16, 2);    /* the last tile of an image is one row; each block has several */
  test<16, false>(1, 11, 30, 1); /* rows of 180 bytes */
  test<16, false>(1, 8, 25, 2);  /* 13 windows, a row that ends within a pair */
  test<112, true>(1, 6, 224, 2);
  return done_testing();
}
