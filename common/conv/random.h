/* Random numbers as a function of (seed, index): the same on every machine, in any order, by any number of threads. */
#pragma once
#include <math.h>
#include <stdint.h>

/* 64 random bits: the output function of SplitMix64 (G. Steele, D. Lea, C. Flood, OOPSLA 2014) over a counter. */
static inline uint64_t random_bits(uint64_t seed, uint64_t index) {
  uint64_t z = seed * 0xD1342543DE82EF95u + (index + 1) * 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

/* Uniform in 0 .. n-1; the bias of the modulo is below n / 2^64. */
static inline uint64_t random_below(uint64_t seed, uint64_t index, uint64_t n) { return random_bits(seed, index) % n; }

/* Standard normal (Box-Muller: one of the pair is thrown away, which keeps the index independent). */
static inline double random_normal(uint64_t seed, uint64_t index) {
  const double u = ((double)(random_bits(seed, 2 * index) >> 11) + 0.5) * 0x1p-53; /* in (0, 1): the logarithm is finite */
  const double v = ((double)(random_bits(seed, 2 * index + 1) >> 11) + 0.5) * 0x1p-53;
  return sqrt(-2.0 * log(u)) * cos(6.283185307179586 * v);
}
