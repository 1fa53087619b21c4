/* Epilogues: what happens to sums on their way out. activation(scale * sum + bias + residual), of which any part may be missing, in fp32, and then rounded: once.
 *
 * Sums lie as wgmma leaves them, [64 channels of the result][N pixels], so a thread has two channels, whose scale and bias it keeps in registers. The residual lies in
 * shared memory where the result will: [pixel][64 channels], swizzled, brought there by the copy engine; ldmatrix reads it in the very pattern in which stmatrix
 * writes, so each thread replaces what it has read. */
#pragma once
#include <string.h>

#include "06_tensorcore_fp16/tiles.cuh"
#include "common/conv/operation.h"
#include "common/ptx/convert.cuh"

/* What a launch knows of the epilogue; NULL, and false: that part is missing. Without `smooth` activations an activation is two limits. */
typedef struct finish {
  const float *scale, *bias;
  bool residual, gelu /* or SiLU; where the kernel is SMOOTH */;
  __half2 low, high; /* twice the same */
} finish;

static inline bool is_smooth(conv_activation a) { return a == ACTIVATION_GELU || a == ACTIVATION_SILU; }

static inline finish finish_of(const conv_epilogue *e, const float *scale, const float *bias) {
  const bool limited = e->activation == ACTIVATION_RELU || e->activation == ACTIVATION_RELU6;
  return {e->scale ? scale : NULL,
          e->bias ? bias : NULL,
          e->residual,
          e->activation == ACTIVATION_GELU,
          __float2half2_rn(limited ? 0 : -INFINITY),
          __float2half2_rn(e->activation == ACTIVATION_RELU6 ? 6 : INFINITY)};
}

/* What is left of the two limits, where a kernel has code for that: both; none below zero, which rounding can do by the way, and the upper one; that alone; none. */
typedef enum { LIMITS, FLOOR, RELU, NO_LIMITS } limits_kind;

static __device__ __forceinline__ bool is_floored(const finish &f) { return __low2float(f.low) == 0; }
static __device__ __forceinline__ bool is_relu(const finish &f) { return is_floored(f) && __low2float(f.high) == INFINITY; }
static __device__ __forceinline__ bool is_unlimited(const finish &f) { return __low2float(f.low) == -INFINITY && __low2float(f.high) == INFINITY; }

/* Of the 64 channels from `first` on, the two whose sums this thread holds: rows lane / 4 and 8 below of its warp's 16. */
typedef struct channel_pair {
  float scale[2], bias[2];
} channel_pair;

static __device__ __forceinline__ channel_pair channels_of(const finish &f, int first, int channels) {
  const int row = first + threadIdx.x / 32 % 4 * 16 + threadIdx.x % 32 / 4;
  channel_pair c = {{1, 1}, {0, 0}};
#pragma unroll
  for (int i = 0; i < 2; i++) {
    if (f.scale && row + 8 * i < channels) c.scale[i] = f.scale[row + 8 * i];
    if (f.bias && row + 8 * i < channels) c.bias[i] = f.bias[row + 8 * i];
  }
  return c;
}

static __device__ __forceinline__ float smooth(float v, const finish &f) { return f.gelu ? 0.5f * v * erfcf(-v * 0.70710678f) : v / (1 + expf(-v)); }

/* Two results, rounded and limited: two at a time, and the same as limited before, since limits are halves. SMOOTH: GELU, SiLU. What is not a number stays so. */
template <bool SMOOTH, limits_kind KIND = LIMITS> static __device__ __forceinline__ unsigned activated(float2 v, const finish &f) {
  if (SMOOTH) v.x = smooth(v.x, f), v.y = smooth(v.y, f);
  __half2 pair = KIND == FLOOR || KIND == RELU ? ptx_half2_relu(v.x, v.y) : __float22half2_rn(v);
  if (!SMOOTH && KIND == LIMITS) pair = __hmax2_nan(pair, f.low);
  if (!SMOOTH && (KIND == LIMITS || KIND == FLOOR)) pair = __hmin2_nan(pair, f.high);
  unsigned bits;
  memcpy(&bits, &pair, sizeof bits);
  return bits;
}

/* Two neighbouring pixels of one channel, and their residuals, as two halves. */
template <bool SMOOTH, bool RESIDUAL, limits_kind KIND = LIMITS>
static __device__ __forceinline__ unsigned finished(float2 sum, float scale, float bias, unsigned residual, const finish &f) {
  float2 v = make_float2(fmaf(sum.x, scale, bias), fmaf(sum.y, scale, bias));
  if (RESIDUAL) { v.x += __half2float(__ushort_as_half((unsigned short)residual)), v.y += __half2float(__ushort_as_half((unsigned short)(residual >> 16))); }
  return activated<SMOOTH, KIND>(v, f);
}

/* 06f's put_turned, with the epilogue: sums [64 channels][N pixels] become halves in shared memory, [pixel][64 channels], over the residual, if there is one. */
template <int N, bool SMOOTH, bool RESIDUAL, limits_kind KIND = LIMITS>
static __device__ __forceinline__ void put_over(const float (&sum)[N / 2], const channel_pair &c, const finish &f, ptx_shared box) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4, chunk = 2 * warp + lane / 8 % 2; /* 8 channels are 16 bytes */
#pragma unroll
  for (int j = 0; j + 1 < N / 8; j += 2) { /* two times eight pixels, 16 channels */
    const ptx_shared at = box + swizzled(8 * (j + lane / 16) + lane % 8, chunk);
    unsigned part[4] = {};
    if (RESIDUAL) ptx_ldmatrix_x4_trans(part, at);
#pragma unroll
    for (int i = 0; i < 4; i++) {
      const int s = 4 * (j + i / 2) + 2 * (i % 2);
      part[i] = finished<SMOOTH, RESIDUAL, KIND>(make_float2(sum[s], sum[s + 1]), c.scale[i % 2], c.bias[i % 2], part[i], f);
    }
    ptx_stmatrix_x4_trans(at, part);
  }
  if (N / 8 % 2 == 1) {
    constexpr int j = N / 8 - 1;
    const ptx_shared at = box + swizzled(8 * j + lane % 8, chunk);
    unsigned part[2] = {};
    if (RESIDUAL) ptx_ldmatrix_x2_trans(part, at);
#pragma unroll
    for (int i = 0; i < 2; i++)
      part[i] = finished<SMOOTH, RESIDUAL, KIND>(make_float2(sum[4 * j + 2 * i], sum[4 * j + 2 * i + 1]), c.scale[i], c.bias[i], part[i], f);
    ptx_stmatrix_x2_trans(at, part);
  }
}

template <int N, bool SMOOTH, limits_kind KIND = LIMITS>
static __device__ __forceinline__ void put_finished(const float (&sum)[N / 2], const channel_pair &c, const finish &f, ptx_shared box) {
  if (f.residual) put_over<N, SMOOTH, true, KIND>(sum, c, f, box);
  else put_over<N, SMOOTH, false, KIND>(sum, c, f, box);
}

/* The same, and code of its own for what most layers end with: ReLU, or nothing. Rounding does either: one instruction for two results instead of three. */
template <int N, bool SMOOTH>
static __device__ __forceinline__ void put_any_finished(const float (&sum)[N / 2], const channel_pair &c, const finish &f, ptx_shared box) {
  if (!SMOOTH && is_relu(f)) put_finished<N, SMOOTH, RELU>(sum, c, f, box);
  else if (!SMOOTH && is_unlimited(f)) put_finished<N, SMOOTH, NO_LIMITS>(sum, c, f, box);
  else put_finished<N, SMOOTH>(sum, c, f, box);
}

/* A row of a step's table for a kernel that fuses all of an epilogue. */
#define FINISHING_ROW(variable, NAME, IDEA, PLAN, LAUNCH, GROWTH) \
  NHWC_FUSING_ROW(variable, NAME, IDEA, PASS_FPROP, 90, PLAN, LAUNCH, GROWTH, FUSES_SCALE | FUSES_BIAS | FUSES_RESIDUAL | FUSES_ACTIVATION)
