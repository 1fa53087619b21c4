/* Conversions that do more than C's. */
#pragma once
#include <cuda_fp16.h>
#include <string.h>

#include "common/ptx/shared.cuh"

/* cvt.rn.relu.f16x2.f32 (Data Movement and Conversion Instructions: cvt; 8.0 and up): two floats rounded to halves, the first in the low bits, and what is less than zero, zero. What is not a
 * number stays so. */
static __device__ __forceinline__ __half2 ptx_half2_relu(float low, float high) {
#ifdef CUDA_EMULATOR
  return __hmax2_nan(__floats2half2_rn(low, high), __floats2half2_rn(0, 0));
#else
  unsigned bits = 0;
#if __CUDA_ARCH__ >= 800
  asm("cvt.rn.relu.f16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
#endif
  __half2 d;
  memcpy(&d, &bits, sizeof d);
  return d;
#endif
}
