/* Divisions without a division. */
#pragma once
#include <cuda_runtime.h>
#include <stdint.h>

/* n / by for 0 <= n < 2^31: n * times / 2^shift, three instructions instead of thirty. */
typedef struct divisor {
  int by, shift;
  unsigned times;
} divisor;

static __device__ __forceinline__ int quotient(int n, divisor d) { return (int)((unsigned long long)(unsigned)n * d.times >> d.shift); }
static __device__ __forceinline__ int rest_of(int n, divisor d) { return n - quotient(n, d) * d.by; }

static inline divisor divisor_of(int by) {
  int log = 0;
  while ((int64_t)1 << log < by) log++;
  return {by, 31 + log, (unsigned)((((uint64_t)1 << (31 + log)) + (unsigned)by - 1) / (unsigned)by)};
}
