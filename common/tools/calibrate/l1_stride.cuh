/* A load of global memory that lies in L1, lane i at word stride x i. Timed by l1.cu, counted by tests/count_kernels.cu. */
#pragma once
#include <cuda_runtime.h>

enum { L1_LOADS = 16, L1_MOST_STRIDE = 33, L1_PLACES = 4, L1_WORDS = 31 * L1_MOST_STRIDE + 32 * (L1_LOADS + L1_PLACES) };

/* Every load is 32 words further than the one before, which are the same banks; every round begins elsewhere, so that none can be left out. */
__global__ void __launch_bounds__(1024) l1_stride_kernel(const unsigned *from, unsigned *report, int stride, int rounds) {
  unsigned sum = 0;
#pragma unroll 1
  for (int round = 0; round < rounds; round++) {
    const unsigned *mine = from + threadIdx.x % 32 * stride + round % L1_PLACES * 32;
#pragma unroll
    for (int i = 0; i < L1_LOADS; i++) sum ^= mine[32 * i];
  }
  report[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
