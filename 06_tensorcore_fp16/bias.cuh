/* A bias on the way out: fp32, one for each channel of the result, added to the sums before they are rounded. */
#pragma once
#include "06_tensorcore_fp16/ring.cuh"

/* Of the 64 channels from `first` on, the two whose sums this thread holds: rows lane / 4 and 8 below of its warp's 16. 0 past the last channel. */
static __device__ __forceinline__ float2 bias_of_rows(const float *bias, int first, int channels) {
  const int row = first + threadIdx.x / 32 % 4 * 16 + threadIdx.x % 32 / 4;
  return make_float2(row < channels ? bias[row] : 0, row + 8 < channels ? bias[row + 8] : 0);
}

/* To sums [64 channels][2 SUMS pixels]. */
template <int SUMS> static __device__ __forceinline__ void add_bias(float (&sum)[SUMS], float2 bias) {
#pragma unroll
  for (int j = 0; j < SUMS; j += 4) sum[j] += bias.x, sum[j + 1] += bias.x, sum[j + 2] += bias.y, sum[j + 3] += bias.y;
}

/* What a sum without products becomes: channels c .. c + 7, rounded; c is a multiple of 8. */
static __device__ __forceinline__ uint4 bias_alone(const float *bias, int c) {
  const float4 low = *(const float4 *)(bias + c), high = *(const float4 *)(bias + c + 4);
  return make_uint4(two_halves(low.x, low.y), two_halves(low.z, low.w), two_halves(high.x, high.y), two_halves(high.z, high.w));
}
