/* stmatrix in all its forms does what the PTX manual says: on the emulator, and, compiled by nvcc, on a GPU. */
#include <cuda_runtime.h>
#include <string.h>

#include "common/ptx/ptx.cuh"
#include "tests/tap.h"

/* Every matrix's rows lie in an order of their own: row r of matrix m is rows[8 m + (r + m) % 8]. */
static __host__ __device__ int row_place(int m, int r) { return 8 * m + (r + m) % 8; }

/* written: all rows, after those of COUNT matrices were stored. */
template <int COUNT, bool TRANS> __global__ void store(const unsigned *fragments, uint4 *written) {
  __shared__ uint4 rows[32];
  rows[threadIdx.x] = make_uint4(0, 0, 0, 0);
  __syncthreads();
  const ptx_shared row = ptx_shared_address(&rows[row_place(threadIdx.x / 8, threadIdx.x % 8)]);
  unsigned s[COUNT];
  for (int m = 0; m < COUNT; m++) s[m] = fragments[threadIdx.x * 4 + m];
  if constexpr (COUNT == 1 && !TRANS) ptx_stmatrix_x1(row, s);
  if constexpr (COUNT == 2 && !TRANS) ptx_stmatrix_x2(row, s);
  if constexpr (COUNT == 4 && !TRANS) ptx_stmatrix_x4(row, s);
  if constexpr (COUNT == 1 && TRANS) ptx_stmatrix_x1_trans(row, s);
  if constexpr (COUNT == 2 && TRANS) ptx_stmatrix_x2_trans(row, s);
  if constexpr (COUNT == 4 && TRANS) ptx_stmatrix_x4_trans(row, s);
  __syncthreads();
  written[threadIdx.x] = rows[threadIdx.x];
}

/* Element [row][column] of matrix m. */
static unsigned element(int m, int row, int column) { return 1 + 64 * m + 8 * row + column; }

template <int COUNT, bool TRANS> static void test() {
  static unsigned fragments[32][4];
  static unsigned short written[32][8];
  for (int lane = 0; lane < 32; lane++)
    for (int m = 0; m < COUNT; m++) {
      const int g = lane / 4, t = lane % 4;
      fragments[lane][m] = TRANS ? element(m, 2 * t, g) | element(m, 2 * t + 1, g) << 16 : element(m, g, 2 * t) | element(m, g, 2 * t + 1) << 16;
    }
  void *device = NULL, *device_rows = NULL;
  int wrong = cudaMalloc(&device, sizeof fragments) != cudaSuccess || cudaMalloc(&device_rows, sizeof written) != cudaSuccess;
  wrong += cudaMemcpy(device, fragments, sizeof fragments, cudaMemcpyHostToDevice) != cudaSuccess;
  store<COUNT, TRANS><<<1, 32>>>((const unsigned *)device, (uint4 *)device_rows);
  wrong += cudaMemcpy(written, device_rows, sizeof written, cudaMemcpyDeviceToHost) != cudaSuccess;
  for (int m = 0; m < 4; m++)
    for (int row = 0; row < 8; row++)
      for (int column = 0; column < 8; column++) wrong += written[row_place(m, row)][column] != (m < COUNT ? element(m, row, column) : 0);
  ok(wrong == 0, "stmatrix.x%d%s: the rows of its matrices, and no others", COUNT, TRANS ? ".trans" : "");
  cudaFree(device), cudaFree(device_rows);
}

int main(void) {
  int major = 0;
  cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0);
  if (major < 9) {
    printf("1..0 # SKIP stmatrix needs compute capability 9.0\n");
    return 0;
  }
  test<1, false>(), test<2, false>(), test<4, false>();
  test<1, true>(), test<2, true>(), test<4, true>();
  return done_testing();
}
