/* The filters' gradient out of parts that lie as it does. From 06t, for 06v, too. */
#pragma once
#include "06_tensorcore_fp16/parts.cuh"

/* dw out of parts that lie as it does, in their order: `count` elements each, a multiple of 4. A block: 4 times 128 of them; its threads add as many lanes of the
 * sum as blockDim.y says, and then these. parts without __restrict__: they are written after this kernel has begun. */
static __global__ void __launch_bounds__(MOST_LANES *THREADS) add_whole_kernel(int count, int part_count, const float4 *parts, __half *__restrict__ dw) {
  __shared__ float4 lanes[MOST_LANES][THREADS];
  if (threadIdx.x == 0 && threadIdx.y == 0) ptx_griddepcontrol_launch_dependents(); /* the next kernel may begin */
  const int i = blockIdx.x * THREADS + threadIdx.x;
  float4 sum = make_float4(0, 0, 0, 0);
  ptx_griddepcontrol_wait(); /* the parts are there */
  if (i < count / 4)
#pragma unroll 8
    for (int j = threadIdx.y; j < part_count; j += blockDim.y) {
      const float4 part = parts[(int64_t)j * (count / 4) + i];
      sum.x += part.x, sum.y += part.y, sum.z += part.z, sum.w += part.w;
    }
  if (sum_of_lanes(lanes, &sum) && i < count / 4) ((uint2 *)dw)[i] = make_uint2(two_halves(sum.x, sum.y), two_halves(sum.z, sum.w));
}
