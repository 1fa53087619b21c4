/* Random numbers as a function of (seed, index): the same on every machine, in any order, by any number of threads, on the host and in kernels.
 *
 * The same to the last bit: a C library's logarithm and cosine are another's but for the last bits, and a GPU's. So these are here, in steps that IEEE 754
 * rounds one way only: every sum of products is an fma(), so that no compiler has products to fuse. */
#pragma once
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "common/conv/host_device.h"

/* 64 random bits: the output function of SplitMix64 (G. Steele, D. Lea, C. Flood, OOPSLA 2014) over a counter. */
static inline HOST_DEVICE uint64_t random_bits(uint64_t seed, uint64_t index) {
  uint64_t z = seed * 0xD1342543DE82EF95u + (index + 1) * 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

/* Uniform in 0 .. n-1; the bias of the modulo is below n / 2^64. */
static inline HOST_DEVICE uint64_t random_below(uint64_t seed, uint64_t index, uint64_t n) { return random_bits(seed, index) % n; }

/* -magnitude .. magnitude without 0. */
static inline HOST_DEVICE int random_integer(uint64_t seed, uint64_t index, int magnitude) {
  const int value = 1 + (int)random_below(seed, index, 2 * (uint64_t)magnitude); /* 1 .. 2m */
  return value > magnitude ? magnitude - value : value;
}

/* log u for a normal u, to 2^-51 of itself: u = m 2^e with m from sqrt(1/2) to sqrt(2), log m = 2 (s + s^3/3 + s^5/5 + ...) with s = (m - 1) / (m + 1). */
static inline HOST_DEVICE double random_log(double u) {
  const double odd[] = {1.0 / 3, 1.0 / 5, 1.0 / 7, 1.0 / 9, 1.0 / 11, 1.0 / 13, 1.0 / 15, 1.0 / 17, 1.0 / 19, 1.0 / 21};
  uint64_t bits;
  memcpy(&bits, &u, sizeof bits);
  int e = (int)(bits >> 52) - 1022;
  bits = (bits & 0xFFFFFFFFFFFFFu) | 0x3FE0000000000000u; /* m from 1/2 to 1 */
  double m;
  memcpy(&m, &bits, sizeof m);
  if (m < 0x1.6a09e667f3bcdp-1) m *= 2, e--;
  const double s = (m - 1) / (m + 1), z = s * s, twice = 2 * s;
  double sum = odd[9];
  for (int i = 8; i >= 0; i--) sum = fma(sum, z, odd[i]);
  return fma((double)e, 0x1.62e42fefa39efp-1 /* log 2 */, fma(twice * z, sum, twice));
}

/* cos(2 pi v) for v from 0 to 1, to 2^-51: it is sin x with x = 2 pi (1/4 - v), or with 1 - v for v; x - x^3/3! + x^5/5! - ... up to pi / 2. */
static inline HOST_DEVICE double random_cosine(double v) {
  const double factor[] = {-1.0 / 6,
                           1.0 / 120,
                           -1.0 / 5040,
                           1.0 / 362880,
                           -1.0 / 39916800,
                           1.0 / 6227020800,
                           -1.0 / 1307674368000,
                           1.0 / 355687428096000,
                           -1.0 / 121645100408832000,
                           1.0 / 51090942171709440000.0};
  const double x = 0x1.921fb54442d18p+2 /* 2 pi */ * (0.25 - (v < 0.5 ? v : 1 - v)), z = x * x;
  double sum = factor[9];
  for (int i = 8; i >= 0; i--) sum = fma(sum, z, factor[i]);
  return fma(x * z, sum, x);
}

/* Standard normal (Box-Muller: one of the pair is thrown away, which keeps the index independent). */
static inline HOST_DEVICE double random_normal(uint64_t seed, uint64_t index) {
  const double u = ((double)(random_bits(seed, 2 * index) >> 11) + 0.5) * 0x1p-53; /* in (0, 1]: the logarithm is finite */
  const double v = ((double)(random_bits(seed, 2 * index + 1) >> 11) + 0.5) * 0x1p-53;
  return sqrt(-2.0 * random_log(u)) * random_cosine(v);
}
