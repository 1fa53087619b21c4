/* Maxima of 3 x 3 windows with a stride of 2, in the registers that products leave their sums in. For 07h.
 *
 * A consumer's sums are [64 channels][N pixels of a row]: word 2 j + i of a thread has, as halves, pixels 8 j + 2 (lane % 4) and the next, of the thread's channel i (rows lane / 4 and 8 below
 * of its warp's 16). So rows lie alike, and a maximum over rows is one over words. */
#pragma once
#include <math.h>

#include "07_fusion/finish.cuh"

static constexpr unsigned LOWEST = 0xfc00fc00; /* twice minus infinity */

/* Positions of pooled pixels that a consumer makes of N of the convolution: whole boxes of eight. */
static __host__ __device__ constexpr int pooled(int n) { return (n / 8 + 1) / 2 * 8; }

static __device__ __forceinline__ __half2 halves_of(unsigned word) {
  __half2 halves;
  memcpy((void *)&halves, &word, sizeof word);
  return halves;
}
static __device__ __forceinline__ unsigned word_of(__half2 halves) {
  unsigned word;
  memcpy(&word, &halves, sizeof word);
  return word;
}
static __device__ __forceinline__ unsigned largest(unsigned a, unsigned b) { return word_of(__hmax2(halves_of(a), halves_of(b))); }
static __device__ __forceinline__ unsigned limited(unsigned v, const finish &f) { return word_of(__hmin2_nan(__hmax2_nan(halves_of(v), f.low), f.high)); }

/* Two neighbouring pixels of a channel, but for the limits: the largest of limited values is the limited largest. */
static __device__ __forceinline__ unsigned scaled(float2 sum, float scale, float bias) {
  return two_halves(fmaf(sum.x, scale, bias), fmaf(sum.y, scale, bias));
}

/* Of what was kept and a row's sums the largest. */
template <int N> static __device__ __forceinline__ void keep(unsigned (&kept)[N / 4], const float (&sum)[N / 2], const channel_pair &c) {
#pragma unroll
  for (int j = 0; j < N / 4; j++) kept[j] = largest(kept[j], scaled(make_float2(sum[2 * j], sum[2 * j + 1]), c.scale[j % 2], c.bias[j % 2]));
}

/* Minus infinity where a window reaches past the last column. */
template <int N> static __device__ __forceinline__ void cut_columns(unsigned (&rows)[N / 4], int columns) {
#pragma unroll
  for (int j = 0; j < N / 4; j++) {
    const int column = j / 2 * 8 + threadIdx.x % 4 * 2;
    if (column >= columns) rows[j] = LOWEST;
    else if (column + 1 == columns) rows[j] = __byte_perm(rows[j], LOWEST, 0x5410);
  }
}

/* Of three neighbouring columns the largest, to shared memory: [pooled pixel][64 channels], swizzled. A thread has the pair of pixels in the middle and on the right; the one on the
 * left is the right one of the thread before it, or of the fourth thread's pair before. */
template <int N> static __device__ __forceinline__ void pool_columns(const unsigned (&rows)[N / 4], const finish &f, ptx_shared box) {
  const int lane = threadIdx.x % 32, t = lane % 4, before = (lane & ~3) + (t + 3) % 4;
  unsigned most[pooled(N) / 4], last = LOWEST; /* word j: pooled pixel 4 j + t, both channels */
#pragma unroll
  for (int j = 0; j < N / 8; j++) {
    const unsigned middle = __byte_perm(rows[2 * j], rows[2 * j + 1], 0x5410), right = __byte_perm(rows[2 * j], rows[2 * j + 1], 0x7632);
    const unsigned left = __shfl_sync(0xffffffffu, t == 3 ? last : right, before);
    most[j] = limited(largest(largest(middle, right), left), f);
    last = right;
  }
  if (N / 8 % 2 == 1) most[N / 8] = LOWEST;
  /* A matrix of 8 x 8 takes pixels t and t + 4 of a thread as neighbours: so its rows lie in this order. */
  const int pixel = lane % 8 / 2 + lane % 2 * 4, chunk = 2 * (threadIdx.x / 32 % 4) + lane / 8 % 2;
#pragma unroll
  for (int j = 0; j < pooled(N) / 4; j += 4) {
    unsigned part[4];
#pragma unroll
    for (int i = 0; i < 4; i++)
      if (j + i / 2 * 2 < pooled(N) / 4) part[i] = __byte_perm(most[j + i / 2 * 2], most[j + i / 2 * 2 + 1], i % 2 ? 0x7632 : 0x5410);
    if (j + 2 < pooled(N) / 4) ptx_stmatrix_x4_trans(box + swizzled(4 * j + lane / 16 * 8 + pixel, chunk), part);
    else ptx_stmatrix_x2_trans(box + swizzled(4 * j + pixel, chunk), *(unsigned(*)[2])part);
  }
}
