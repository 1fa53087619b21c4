/* Which element of d, and of an a in registers, each thread of a warpgroup holds in which register: wgmma. */
#include <cuda_fp16.h>

#include "common/ptx/ptx.cuh"
#include "tests/golden/golden.h"
#include "tests/on_device.cuh"

enum { THREADS = 128, MATRIX_K = 16, LBO = 128, SBO = 256 }; /* core matrices of 128 bytes: k 0..7, 8..15, then the next 8 rows */

static __device__ int core_index(int row, int k) { return row / 8 * (SBO / 2) + k / 8 * (LBO / 2) + row % 8 * 8 + k % 8; }

template <int N> static __device__ __forceinline__ void product(float (&d)[N / 2], unsigned long long a, unsigned long long b) {
  if constexpr (N == 8) ptx_wgmma_m64n8k16(d, a, b);
  else if constexpr (N == 64) ptx_wgmma_m64n64k16(d, a, b);
  else ptx_wgmma_m64n256k16(d, a, b);
}

/* d = 256 row + column: a (row, 0) = row, a (., 1) = 1, b (0, .) = 256, b (1, column) = column. out: [N / 2][128 threads]. */
template <int N> __global__ void __launch_bounds__(THREADS) locate_d(float *out) {
  __shared__ __align__(128) __half a[64 * MATRIX_K];
  __shared__ __align__(128) __half b[N * MATRIX_K];
  for (int i = threadIdx.x; i < 64 * MATRIX_K; i += THREADS) {
    const int row = i / MATRIX_K, k = i % MATRIX_K;
    a[core_index(row, k)] = __int2half_rn(k == 0 ? row : k == 1);
  }
  for (int i = threadIdx.x; i < N * MATRIX_K; i += THREADS) {
    const int column = i / MATRIX_K, k = i % MATRIX_K;
    b[core_index(column, k)] = __int2half_rn(k == 0 ? 256 : k == 1 ? column : 0);
  }
  ptx_fence_proxy_async();
  __syncthreads();
  float d[N / 2];
#pragma unroll
  for (int i = 0; i < N / 2; i++) d[i] = 0;
  ptx_wgmma_fence();
  product<N>(d, ptx_wgmma_descriptor(ptx_shared_address(a), LBO, SBO, PTX_SWIZZLE_NONE),
             ptx_wgmma_descriptor(ptx_shared_address(b), LBO, SBO, PTX_SWIZZLE_NONE));
  ptx_wgmma_commit();
  ptx_wgmma_wait<0>();
#pragma unroll
  for (int i = 0; i < N / 2; i++) out[i * THREADS + threadIdx.x] = d[i];
}

/* b is ones in its diagonal: d (row, k) = a (row, k). Half i of a thread holds 8 thread + i + 1. out: [64][16]. */
__global__ void __launch_bounds__(THREADS) locate_a(float *out) {
  __shared__ __align__(128) __half b[MATRIX_K * MATRIX_K];
  for (int i = threadIdx.x; i < MATRIX_K * MATRIX_K; i += THREADS) b[core_index(i / MATRIX_K, i % MATRIX_K)] = __int2half_rn(i / MATRIX_K == i % MATRIX_K);
  ptx_fence_proxy_async();
  __syncthreads();
  unsigned a[4];
  const int id = 8 * threadIdx.x + 1;
#pragma unroll
  for (int i = 0; i < 4; i++) a[i] = __half_as_ushort(__int2half_rn(id + 2 * i)) | (unsigned)__half_as_ushort(__int2half_rn(id + 2 * i + 1)) << 16;
  float d[8];
#pragma unroll
  for (int i = 0; i < 8; i++) d[i] = 0;
  ptx_wgmma_fence();
  ptx_wgmma_registers(d, a, ptx_wgmma_descriptor(ptx_shared_address(b), LBO, SBO, PTX_SWIZZLE_NONE));
  ptx_wgmma_commit();
  ptx_wgmma_wait<0>();
  const int row = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4;
#pragma unroll
  for (int i = 0; i < 8; i++) out[(row + 8 * (i / 2 % 2)) * MATRIX_K + 8 * (i / 4) + 2 * (threadIdx.x % 4) + i % 2] = d[i];
}

static void print_places(const float *d, int first, int step, int count) {
  for (int i = 0; i < count; i++) golden_print(" %d.%d", (int)d[first + i * step] / 256, (int)d[first + i * step] % 256);
  golden_print("\n");
}

template <int N> static void places_of_d(void) {
  if (!golden_case("wgmma m64n%dk16 d", N)) return;
  float *out = on_device<float>(N / 2 * THREADS);
  locate_d<N><<<1, THREADS>>>(out);
  golden_launched();
  float *d = on_host(out, N / 2 * THREADS);
  for (int i = 0; i < N / 2; i++) {
    if (N < 256) {
      golden_print("%s register %d, row.column of each thread:", golden_name(), i);
      print_places(d, i * THREADS, 1, THREADS);
    } else {
      unsigned all[THREADS];
      for (int t = 0; t < THREADS; t++) all[t] = (unsigned)d[i * THREADS + t];
      golden_print("%s register %d, 256 row + column of each thread: crc32 %08x\n", golden_name(), i, golden_crc(all, THREADS));
    }
  }
  if (N == 256) {
    golden_print("%s thread 77, row.column of each register:", golden_name());
    print_places(d, 77, THREADS, N / 2);
  }
  free(d), cudaFree(out);
}

static void places_of_a(void) {
  if (!golden_case("wgmma m64n16k16 a in registers")) return;
  float *out = on_device<float>(64 * MATRIX_K);
  locate_a<<<1, THREADS>>>(out);
  golden_launched();
  float *d = on_host(out, 64 * MATRIX_K);
  for (int row = 0; row < 64; row++) {
    golden_print("%s row %d, thread.register.half of each k:", golden_name(), row);
    for (int k = 0; k < MATRIX_K; k++) {
      const int id = (int)d[row * MATRIX_K + k] - 1;
      if (id < 0) golden_print(" -");
      else golden_print(" %d.%d.%d", id / 8, id / 2 % 4, id % 2);
    }
    golden_print("\n");
  }
  free(d), cudaFree(out);
}

void golden_products(void) {
  places_of_d<8>();
  places_of_d<64>();
  places_of_d<256>();
  places_of_a();
}
