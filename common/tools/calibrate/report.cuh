/* What a warp has read, in one word: the exclusive or of it all. Written to memory, so that no read can be left out, and checked afterwards. */
#pragma once
#include <cuda_runtime.h>

static __device__ __forceinline__ void report_xor(unsigned *report, unsigned sum) {
  for (int lanes = 16; lanes > 0; lanes /= 2) sum ^= __shfl_xor_sync(0xffffffffu, sum, lanes);
  if (threadIdx.x % 32 == 0) report[(blockIdx.x * (size_t)blockDim.x + threadIdx.x) / 32] = sum;
}
