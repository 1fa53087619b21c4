/* The products of a stage whose a lies transposed: for 06k and what follows it. */
#pragma once
#include "06_tensorcore_fp16/ring.cuh"

/* Asks for the products of a step: 64 channels of dx, a [64 filters][64 channels], by 2 SUMS pixels. The first ones of a tile do not add to what was there. */
template <bool FIRST, int SUMS> static __device__ __forceinline__ void multiply_turned(float (&sum)[SUMS], ptx_shared a, ptx_shared b) {
  ptx_wgmma_fence();
  const unsigned long long of_a = ptx_wgmma_descriptor(a, WGMMA_M * ROW, CHUNK * ROW, PTX_SWIZZLE_128);
  const unsigned long long of_b = ptx_wgmma_descriptor(b, 16, 8 * ROW, PTX_SWIZZLE_128);
#pragma unroll
  for (int l = 0; l < CHUNKS; l += 2) { /* 16 filters: rows of a, two chunks of b's */
    if (FIRST && l == 0) ptx_wgmma<1, 0, 0>(sum, of_a, of_b);
    else ptx_wgmma<1>(sum, of_a + l * CHUNK * CHUNKS, of_b + l);
  }
  ptx_wgmma_commit();
}
