/* How a block's tile of sums is divided among its threads, in the matrix products from 05c on but 05h's and 05j's. From 05c, unchanged.
 *
 * A block computes BM filters x BN pixels, a warp 32 x 64 of them, a thread TM x TN = 8 x 8: four quads of 4 x 4, so that it reads its values
 * 16 bytes at a time and neighbouring lanes read neighbouring 16 bytes.
 *
 *            pixels   0..3  4..7  ...  28..31 | 32..35 ...       Lanes in a warp: 4 down, 8 across. A request of 16 bytes a lane takes four
 *   filters 0..3     lane0  lane1 lane4 ...   | lane0            passes of shared memory, but two if lane pairs that differ in bit 0, or
 *           4..7     lane2  lane3 ...         | lane2            all that differ in bit 1, want the same bytes. So bit 0 of the lane goes
 *           8..15    lane16 ...               |                  across (it does not matter for filters), bit 1 down (nor that for pixels).
 *          16..31    the same once more       |                                                                                           */
#pragma once
#include <cuda_runtime.h>

enum { TM = 8, TN = 8, BN = 128, BK = 16, COPY_K = 8, WARP_M = 32, WARP_N = 64 };

/* Where a thread's quads begin: filters row and row + 16, pixels col and col + 32 of the block's tile. */
static __device__ __forceinline__ int tile_row(int thread) {
  const int lane = thread % 32, warp = thread / 32;
  return warp / (BN / WARP_N) * WARP_M + ((lane >> 1 & 1) | (lane >> 3 & 2)) * 4;
}
static __device__ __forceinline__ int tile_col(int thread) {
  const int lane = thread % 32, warp = thread / 32;
  return warp % (BN / WARP_N) * WARP_N + ((lane & 1) | (lane >> 1 & 6)) * 4;
}
/* Filter i and pixel j of the thread's 8 x 8, counted from tile_row and tile_col. */
static __device__ __forceinline__ constexpr int quad_row(int i) { return i % 4 + i / 4 * 16; }
static __device__ __forceinline__ constexpr int quad_col(int j) { return j % 4 + j / 4 * 32; }

/* What a thread needs for one element of the reduction: a column of filters and a row of pixels. */
typedef struct operands {
  __align__(16) float filter[TM], pixel[TN];
} operands;

/* a: the element's filters from tile_row on; b: its pixels from tile_col on. */
static __device__ __forceinline__ void read_operands(operands &o, const float *a, const float *b) {
#pragma unroll
  for (int i = 0; i < TM; i += 4) *(float4 *)&o.filter[i] = *(const float4 *)(a + quad_row(i));
#pragma unroll
  for (int j = 0; j < TN; j += 4) *(float4 *)&o.pixel[j] = *(const float4 *)(b + quad_col(j));
}

/* sum += filter x pixel. There and back: from one FMA to the next either the pixel's or the filter's register stays, and the hardware keeps a register
 * that the next instruction reads again in the same place. Of the others as many must come from the even bank of registers as from the odd one, over
 * any two FMAs, or they wait (docs/gpu_speed.md). The assembler chooses the registers, and mixes the FMAs a little; by columns it chose better than by rows. */
static __device__ __forceinline__ void add_products(float (&sum)[TM][TN], const operands &o) {
#pragma unroll
  for (int t = 0; t < TM * TN; t++) {
    const int j = t / TM, i = j % 2 ? TM - 1 - t % TM : t % TM;
    sum[i][j] += o.filter[i] * o.pixel[j];
  }
}

/* Four sums to four neighbours of 16-byte alignment. A store of 16 bytes takes four registers from a multiple of four on, and then the assembler keeps
 * the sums there all the time: not free any more. So what is stored is copies of them; the addition of zero is an instruction that makes them. */
static __device__ __forceinline__ void store_quad(float *to, const float *sum) { *(float4 *)to = make_float4(sum[0] + 0, sum[1] + 0, sum[2] + 0, sum[3] + 0); }

/* Sums of filters k, ... below end_k and pixels pixel, ... to out[n][K][image]. quads: image is a multiple of 4; a quad of pixels is aligned, and in one
 * image. */
static __device__ __forceinline__ void store_tile(const float (&sum)[TM][TN], float *out, int K, int image, int pixels, int k, int end_k, int pixel,
                                                  bool quads) {
#pragma unroll
  for (int j = 0; j < TN; j++) {
    const int at = pixel + quad_col(j);
    if (at >= pixels || (j % 4 && quads)) continue;
    float *to = out + at / image * K * image + at % image;
#pragma unroll
    for (int i = 0; i < TM; i++) {
      if (k + quad_row(i) >= end_k) continue;
      if (j % 4 == 0 && quads) store_quad(to + (k + quad_row(i)) * image, &sum[i][j]);
      else to[(k + quad_row(i)) * image] = sum[i][j];
    }
  }
}
