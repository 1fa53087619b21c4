/* Threads change a sum while products are at work: ptxas waits after each product. */
#include "common/ptx/ptx.cuh"

__global__ void __launch_bounds__(128, 1) serialized(float *y, unsigned long long a, unsigned long long b, int rounds) {
  float d[32] = {};
  ptx_wgmma_fence();
  for (int i = 0; i < rounds; i++) {
    ptx_wgmma_m64n64k16(d, a, b);
    d[3] += 1;
  }
  ptx_wgmma_commit();
  ptx_wgmma_wait<0>();
  for (int i = 0; i < 32; i++) y[i * 128 + threadIdx.x] = d[i];
}
