/* Division by a number that the host knows and the compiler does not: a multiplication. */
#pragma once
#include <cuda_runtime.h>

/* n / by = n * multiplier >> shift for 0 <= n < 2^31: multiplier is 2^shift / by, rounded up, shift 31 and so many bits that 2^(shift - 31) >= by, so what
 * rounding adds stays below one. */
typedef struct divisor {
  int by;
  unsigned multiplier, shift;
} divisor;

static inline divisor divisor_of(int by) {
  unsigned shift = 31;
  while (1ull << (shift - 31) < (unsigned)by) shift++;
  return {by, (unsigned)(((1ull << shift) + (unsigned)by - 1) / (unsigned)by), shift};
}

static __device__ __forceinline__ int divide(int n, const divisor &d) { return (int)((unsigned long long)(unsigned)n * d.multiplier >> d.shift); }
