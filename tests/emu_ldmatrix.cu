/* ldmatrix and mma.m16n8k8 do what the PTX manual says: on the emulator, and, compiled by nvcc, on a GPU. */
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "common/ptx/ptx.cuh"
#include "tests/tap.h"

/* shared[m][row][column] = 64 m + 8 row + column; every matrix's rows in an order of their own. fragments: [form][lane][4]; forms: x1, x2, x4, with .trans the
 * same. Lanes above the last matrix point past all memory, which nobody may read. */
enum { FORMS = 6 };
__global__ void load(unsigned *fragments) {
  __shared__ uint4 rows[32];
  __half *halves = (__half *)rows;
  for (int i = threadIdx.x; i < 256; i += 32) halves[i] = __ushort_as_half((unsigned short)i);
  __syncthreads();
  const ptx_shared row = ptx_shared_address(&rows[threadIdx.x / 8 * 8 + (threadIdx.x + threadIdx.x / 8) % 8]);
  const ptx_shared first = threadIdx.x < 8 ? row : 1u << 30, first_two = threadIdx.x < 16 ? row : 1u << 30;
  unsigned one[2][1], two[2][2], four[2][4];
  ptx_ldmatrix_x1(one[0], first);
  ptx_ldmatrix_x2(two[0], first_two);
  ptx_ldmatrix_x4(four[0], row);
  ptx_ldmatrix_x1_trans(one[1], first);
  ptx_ldmatrix_x2_trans(two[1], first_two);
  ptx_ldmatrix_x4_trans(four[1], row);
  for (int trans = 0; trans < 2; trans++) {
    unsigned *d = fragments + (3 * trans * 32 + threadIdx.x) * 4;
    d[0] = one[trans][0];
    for (int m = 0; m < 2; m++) d[32 * 4 + m] = two[trans][m];
    for (int m = 0; m < 4; m++) d[2 * 32 * 4 + m] = four[trans][m];
  }
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
  plan(FORMS + 1);
  static unsigned fragments[FORMS][32][4];
  void *device;
  int wrong = cudaMalloc(&device, sizeof fragments) != cudaSuccess;
  load<<<1, 32>>>((unsigned *)device);
  wrong += cudaMemcpy(fragments, device, sizeof fragments, cudaMemcpyDeviceToHost) != cudaSuccess;
  for (unsigned form = 0; form < FORMS; form++) {
    const unsigned count = 1 << form % 3, trans = form / 3;
    for (unsigned lane = 0; lane < 32; lane++)
      for (unsigned m = 0; m < count; m++) {
        const unsigned g = lane / 4, pair = 2 * (lane % 4), low = (pair + m) % 8, high = (pair + 1 + m) % 8, straight = 64 * m + 8 * ((g + m) % 8) + pair;
        const unsigned turned = (64 * m + 8 * low + g) | (64 * m + 8 * high + g) << 16;
        wrong += fragments[form][lane][m] != (trans ? turned : straight | (straight + 1) << 16);
      }
    ok(wrong == 0, "ldmatrix.x%u%s: each lane has two halves of a %s of each matrix", count, trans ? ".trans" : "", trans ? "column" : "row");
  }

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
