/* 64 values at a time and 32 registers for them. */
#include <cuda_runtime.h>

__global__ void __launch_bounds__(1024, 2) spills(float *y) {
  float d[64];
  for (int i = 0; i < 64; i++) d[i] = y[i * 1024 + threadIdx.x];
  __syncthreads();
  for (int i = 0; i < 64; i++) y[i * 1024 + threadIdx.x] = d[i] * d[(i + 7) % 64];
}
