/* Stages of the reduction in shared memory, swizzled, filled by copies that run ahead; and results on their way out. From 06b, unchanged but that what a thread
 * knows of its copies is a struct, and channels come in whole chunks. */
#pragma once
#include <cuda_fp16.h>
#include <cuda_pipeline.h>
#include <cuda_runtime.h>
#include <stdio.h>

#include "common/harness/plain.h"
#include "common/ptx/ptx.cuh"

enum { CHUNK = 8 /* halves of 16 bytes */, CHUNKS = 8 /* of a row */, ROW = 16 * CHUNKS, BK = CHUNK * CHUNKS, THREADS = 128 };
enum { LANES = THREADS / CHUNKS, OUTSIDE = -1 }; /* a thread copies the same chunk of every LANES-th row */

/* Where the chunk of a row lies, in bytes. */
static __device__ __forceinline__ unsigned swizzled(int row, int chunk) { return row * ROW + (chunk ^ row % CHUNKS) * 16; }

/* Of one pixel: where its window begins in x, and which rows (bit r) and columns (bit R + s) of it lie outside the image. */
typedef struct window {
  int at;
  unsigned outside;
} window;

static __device__ __forceinline__ window window_of(const conv_problem &p, int pixel) {
  const int image = p.P * p.Q, n = pixel / image, in_h = pixel / p.Q % p.P * p.stride_h - p.pad_top, in_w = pixel % p.Q * p.stride_w - p.pad_left;
  if (n >= p.N) return {0, (unsigned)OUTSIDE};
  window v = {((n * p.H + in_h) * p.W + in_w) * p.C, 0};
  for (int r = 0; r < p.R; r++)
    if (in_h + r * p.dil_h < 0 || in_h + r * p.dil_h >= p.H) v.outside |= 1u << r;
  for (int s = 0; s < p.S; s++)
    if (in_w + s * p.dil_w < 0 || in_w + s * p.dil_w >= p.W) v.outside |= 1u << (p.R + s);
  return v;
}

/* A thread's chunk in the reduction: its tap and its first channel. */
typedef struct place {
  int r, s, c;
} place;

static __device__ __forceinline__ place next_stage(const conv_problem &p, place l, int padded_c) {
  for (l.c += BK; l.c >= padded_c && l.r < p.R; l.c -= padded_c) {
    l.s++;
    if (l.s == p.S) l.s = 0, l.r++;
  }
  return l;
}

/* What a thread copies: of the tile's pixels row, row + LANES, ..., and of its filters as many, one chunk. */
template <int BM> struct copies {
  window pixels[BM / LANES];
  place at;
  int chunk, row;
};

/* From the first pixel of the tile on; x and w of the functions below: of the group's first channel, and the tile's first filter. */
template <int BM> static __device__ __forceinline__ copies<BM> copies_begin(const conv_problem &p, int first_pixel) {
  copies<BM> c;
  c.chunk = threadIdx.x % CHUNKS, c.row = threadIdx.x / CHUNKS;
#pragma unroll
  for (int i = 0; i < BM / LANES; i++) c.pixels[i] = window_of(p, first_pixel + c.row + i * LANES);
  c.at = next_stage(p, {0, 0, c.chunk * CHUNK - BK}, p.C / p.groups);
  return c;
}

/* The next stage of the reduction, to `stage`: [BM] rows of pixels, then [BN] rows of filters, of which `filters` are there. */
template <int BM, int BN>
static __device__ __forceinline__ void copy_stage(const conv_problem &p, copies<BM> &c, const __half *x, const __half *w, int filters, ptx_shared stage) {
  const int group_c = p.C / p.groups, tap = c.at.r * p.S + c.at.s;
  const int step = (c.at.r * p.dil_h * p.W + c.at.s * p.dil_w) * p.C + c.at.c;
  const bool left = c.at.r < p.R;
#pragma unroll
  for (int i = 0; i < BM / LANES; i++) {
    const bool inside = left && ((c.pixels[i].outside >> c.at.r | c.pixels[i].outside >> (p.R + c.at.s)) & 1) == 0;
    ptx_cp_async<16>(stage + swizzled(c.row + i * LANES, c.chunk), inside ? x + c.pixels[i].at + step : x, !inside);
  }
#pragma unroll
  for (int i = 0; i < BN / LANES; i++) {
    const int k = c.row + i * LANES;
    const bool inside = left && k < filters;
    ptx_cp_async<16>(stage + BM * ROW + swizzled(k, c.chunk), inside ? w + (k * p.R * p.S + tap) * group_c + c.at.c : w, !inside);
  }
  c.at = next_stage(p, c.at, group_c);
}

/* Two neighbouring filters' results of a pixel of the tile, in shared memory: [pixel][BN], chunks swizzled as above. */
template <int BN> static __device__ __forceinline__ void put_results(unsigned char *shared, int pixel, int k, float first, float second) {
  *(__half2 *)(shared + pixel * 2 * BN + (k / CHUNK ^ pixel % CHUNKS) * 16 + k % CHUNK * 2) = __floats2half2_rn(first, second);
}

/* By a warpgroup, from there to y, which begins at the tile's first filter: `filters` of them, of pixels first_pixel, ... */
template <int BM, int BN>
static __device__ __forceinline__ void store_results(const conv_problem &p, const unsigned char *shared, __half *y, int first_pixel, int filters) {
  const bool whole = p.K % CHUNK == 0 && p.K / p.groups % CHUNK == 0;
  for (int i = threadIdx.x % THREADS; i < BM * BN / CHUNK; i += THREADS) {
    const int pixel = i / (BN / CHUNK), j = i % (BN / CHUNK), k = j * CHUNK;
    if (first_pixel + pixel >= p.N * p.P * p.Q || k >= filters) continue;
    const unsigned char *const from = shared + pixel * 2 * BN + (j ^ pixel % CHUNKS) * 16;
    __half *const to = y + (first_pixel + pixel) * p.K + k;
    if (whole) *(uint4 *)to = *(const uint4 *)from;
    else
      for (int e = 0; e < CHUNK && k + e < filters; e++) to[e] = ((const __half *)from)[e];
  }
}
