/* ldmatrix.x4.trans and mma.m16n8k8 do what the PTX manual says: on the emulator, and, compiled by nvcc, on a GPU. */
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "common/ptx/ptx.cuh"
#include "tests/tap.h"

/* shared[m][row][column] = 64 m + 8 row + column; every matrix's rows in an order of their own. */
__global__ void load(unsigned *fragments) {
  __shared__ uint4 rows[32];
  __half *halves = (__half *)rows;
  for (int i = threadIdx.x; i < 256; i += 32) halves[i] = __ushort_as_half((unsigned short)i);
  __syncthreads();
  unsigned d[4];
  ptx_ldmatrix_x4_trans(d, ptx_shared_address(&rows[threadIdx.x / 8 * 8 + (threadIdx.x + threadIdx.x / 8) % 8]));
  for (int m = 0; m < 4; m++) fragments[threadIdx.x * 4 + m] = d[m];
}

/* a [16][8], b [8][8] row by row; d [16][8] */
__global__ void multiply(const __half *a, const __half *b, float *d) {
  const int g = threadIdx.x / 4, t = threadIdx.x % 4;
  unsigned fragment_a[4] = {}, fragment_b[2] = {};
  for (int i = 0; i < 2; i++)
    for (int j = 0; j < 2; j++) fragment_a[i] |= (unsigned)__half_as_ushort(a[(g + 8 * i) * 8 + 2 * t + j]) << 16 * j;
  for (int j = 0; j < 2; j++) fragment_b[0] |= (unsigned)__half_as_ushort(b[(2 * t + j) * 8 + g]) << 16 * j;
  float sum[4] = {1, 2, 3, 4};
  ptx_mma_m16n8k8(sum, fragment_a, fragment_b);
  for (int i = 0; i < 4; i++) d[(g + i / 2 * 8) * 8 + 2 * t + i % 2] = sum[i];
}

int main(void) {
  plan(2);
  static unsigned fragments[32][4];
  void *device;
  int wrong = cudaMalloc(&device, sizeof fragments) != cudaSuccess;
  load<<<1, 32>>>((unsigned *)device);
  wrong += cudaMemcpy(fragments, device, sizeof fragments, cudaMemcpyDeviceToHost) != cudaSuccess;
  for (unsigned lane = 0; lane < 32; lane++)
    for (unsigned m = 0; m < 4; m++) {
      const unsigned column = lane / 4, low = (2 * (lane % 4) + m) % 8, high = (2 * (lane % 4) + 1 + m) % 8;
      wrong += fragments[lane][m] != ((64 * m + 8 * low + column) | (64 * m + 8 * high + column) << 16);
    }
  ok(wrong == 0, "ldmatrix.x4.trans: each lane has a column's two halves of each matrix");

  static __half a[16][8], b[8][8];
  static float d[16][8];
  for (int i = 0; i < 16; i++)
    for (int k = 0; k < 8; k++) {
      a[i][k] = __float2half_rn((float)((i * 7 + k * 5) % 11 - 5));
      if (i < 8) b[i][k] = __float2half_rn((float)((i * 3 + k * 2) % 9 - 4));
    }
  void *device_a, *device_b, *device_d;
  wrong = cudaMalloc(&device_a, sizeof a) != cudaSuccess || cudaMalloc(&device_b, sizeof b) != cudaSuccess || cudaMalloc(&device_d, sizeof d) != cudaSuccess;
  wrong += cudaMemcpy(device_a, a, sizeof a, cudaMemcpyHostToDevice) != cudaSuccess || cudaMemcpy(device_b, b, sizeof b, cudaMemcpyHostToDevice) != cudaSuccess;
  multiply<<<1, 32>>>((const __half *)device_a, (const __half *)device_b, (float *)device_d);
  wrong += cudaMemcpy(d, device_d, sizeof d, cudaMemcpyDeviceToHost) != cudaSuccess;
  for (int i = 0; i < 16; i++)
    for (int j = 0; j < 8; j++) {
      float sum = (float)(1 + i / 8 * 2 + j % 2);
      for (int k = 0; k < 8; k++) sum += __half2float(a[i][k]) * __half2float(b[k][j]);
      wrong += d[i][j] != sum;
    }
  ok(wrong == 0, "mma.m16n8k8: the product of small integers, exact");
  return done_testing();
}
