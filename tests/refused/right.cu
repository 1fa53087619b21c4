/* What the others get wrong, right: nobody touches the sums before the wait, the launch bounds say how many registers there are, and they suffice. */
#include "common/ptx/ptx.cuh"

__global__ void __launch_bounds__(256, 1) right(float *y, unsigned long long a, unsigned long long b, int rounds) {
  if (threadIdx.x < 128) {
    ptx_setmaxnreg_dec<40>();
    return;
  }
  ptx_setmaxnreg_inc<232>();
  float d[32] = {};
#pragma unroll 1
  for (int i = 0; i < rounds; i++) {
    ptx_wgmma_fence();
    for (int k = 0; k < 4; k++) ptx_wgmma_m64n64k16(d, a + 2 * k, b + 2 * k);
    ptx_wgmma_commit();
    ptx_wgmma_wait<0>();
  }
  for (int i = 0; i < 32; i++) y[i * 128 + threadIdx.x] = d[i];
}
