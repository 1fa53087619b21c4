/* Sums of filters' gradients on their way: parts added by lanes of threads, and results to dw. From 06l, for 06m, too. */
#pragma once
#include "06_tensorcore_fp16/ring.cuh"

static constexpr int MOST_LANES = 8;

/* A box of x whose rows are so many channels: their bytes, and how 16-byte pieces are permuted in them. */
template <int CHANNELS> struct box_row {
  static constexpr int BYTES = 2 * CHANNELS;
  static constexpr ptx_swizzle SWIZZLE = CHANNELS == 64 ? PTX_SWIZZLE_128 : CHANNELS == 32 ? PTX_SWIZZLE_64 : PTX_SWIZZLE_32;
};

/* Two neighbouring channels of filters k and k + 8, rounded, to dw. */
static __device__ __forceinline__ void put_dw(const conv_problem &p, int tap, int c, int k, float4 sum, __half *dw) {
  __half *const to = dw + ((int64_t)k * p.R * p.S + tap) * p.C + c;
  if (c >= p.C) return;
  if (k < p.K) *(__half2 *)to = __floats2half2_rn(sum.x, sum.y);
  if (k + 8 < p.K) *(__half2 *)(to + (int64_t)8 * p.R * p.S * p.C) = __floats2half2_rn(sum.z, sum.w);
}

/* By all threads of a block: of those with threadIdx.y 0 the sum becomes that of all lanes, in their order; false for the others. */
static __device__ __forceinline__ bool sum_of_lanes(float4 (&lanes)[MOST_LANES][THREADS], float4 *sum) {
  lanes[threadIdx.y][threadIdx.x] = *sum;
  __syncthreads(); /* all lanes are there */
  if (threadIdx.y > 0) return false;
  for (int lane = 1; lane < blockDim.y; lane++) {
    const float4 part = lanes[lane][threadIdx.x];
    sum->x += part.x, sum->y += part.y, sum->z += part.z, sum->w += part.w;
  }
  return true;
}
