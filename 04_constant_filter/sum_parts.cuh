/* The end of 04k and 04l: blocks have found parts of every element of dw, and a warp adds up those of one, in an order that depends on nothing. */
#pragma once
#include <cuda_runtime.h>

/* dw[element] = the sum of parts[element][0 ... part_count - 1]. */
static __global__ void __launch_bounds__(128) sum_parts_kernel(int elements, int part_count, const float *parts, float *dw) {
  const int element = blockIdx.x * 4 + threadIdx.x / 32;
  if (element >= elements) return;
  float sum = 0;
  for (int part = threadIdx.x % 32; part < part_count; part += 32) sum += parts[element * part_count + part];
#pragma unroll
  for (int lanes = 16; lanes > 0; lanes /= 2) sum += __shfl_xor_sync(0xffffffff, sum, lanes);
  if (threadIdx.x % 32 == 0) dw[element] = sum;
}

static inline cudaError_t sum_parts(int elements, int part_count, const float *parts, float *dw, cudaStream_t stream) {
  sum_parts_kernel<<<(elements + 3) / 4, 128, 0, stream>>>(elements, part_count, parts, dw);
  return cudaGetLastError();
}
