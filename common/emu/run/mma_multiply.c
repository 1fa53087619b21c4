#include "common/emu/run/mma_multiply.h"

#include <stddef.h>

typedef int32_t ints8 __attribute__((vector_size(32)));
typedef int64_t longs8 __attribute__((vector_size(64)));
typedef double doubles8 __attribute__((vector_size(64)));
#define UNROLL _Pragma("GCC unroll 4")

/* No comparisons of vectors below: shifted signs, as compilers take apart the former. */

/* As half_to_float(), eight at once: the fraction and exponent of a half in a float's place are the value times 2^-112, subnormals too. */
static inline __attribute__((always_inline)) void to_doubles(doubles8 *to, const emu_halves8 *from) {
  const ints8 half = __builtin_convertvector(*from, ints8);
  const ints8 special = (0x7bff - (half & 0x7c00)) >> 31 & 0x7f800000; /* infinity, NaN */
  const emu_floats8 value = (emu_floats8)((half & 0x7fff) << 13) * 0x1p112f;
  *to = __builtin_convertvector((emu_floats8)((ints8)value | special | half >> 15 << 31), doubles8);
}

/* Towards zero, as tensor cores round their sums. (None is beyond the floats: products of halves are too small to add to the largest.) */
static inline __attribute__((always_inline)) void truncate_row(emu_floats8 *to, const doubles8 *from) {
  const longs8 magnitude = {INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX};
  const emu_floats8 nearest = __builtin_convertvector(*from, emu_floats8);
  const doubles8 back = __builtin_convertvector(nearest, doubles8);
  const ints8 away = __builtin_convertvector((((longs8)*from & magnitude) - ((longs8)back & magnitude)) >> 63, ints8); /* -1: one bit less */
  *to = (emu_floats8)((ints8)nearest + away);
}

/* Several rows at a time, as one sum has to wait for the one before. A product is exact: fused with the sum or not, it is the same. */
static inline __attribute__((always_inline)) void multiply(emu_mma_matrices *m) {
  enum { ROWS = 4 };
  doubles8 b[16];
  for (int k = 0; k < 16; k++) to_doubles(&b[k], &m->b.row[k]);
  for (int first = 0; first < 16; first += ROWS) {
    union {
      double at[16];
      doubles8 half_row[2];
    } a[ROWS];
    doubles8 sum[ROWS];
    UNROLL for (int i = 0; i < ROWS; i++) {
      to_doubles(&a[i].half_row[0], &m->a.half_row[first + i][0]);
      to_doubles(&a[i].half_row[1], &m->a.half_row[first + i][1]);
      sum[i] = __builtin_convertvector(m->d.row[first + i], doubles8);
    }
    for (int k = 0; k < 16; k++) { UNROLL for (int i = 0; i < ROWS; i++) sum[i] += a[i].at[k] * b[k]; }
    UNROLL for (int i = 0; i < ROWS; i++) truncate_row(&m->d.row[first + i], &sum[i]);
  }
}

static void multiply_plain(emu_mma_matrices *m) { multiply(m); }
#ifdef __x86_64__
__attribute__((target("avx2,fma"))) static void multiply_avx2(emu_mma_matrices *m) { multiply(m); }
__attribute__((target("avx512f,avx512dq,avx512vl"))) static void multiply_avx512(emu_mma_matrices *m) { multiply(m); }
#endif

const emu_mma_way *emu_mma_ways(int index) {
  static const emu_mma_way plain = {"plain", multiply_plain};
  const emu_mma_way *here[3];
  int count = 0;
#ifdef __x86_64__
  static const emu_mma_way avx2 = {"avx2", multiply_avx2}, avx512 = {"avx512", multiply_avx512};
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) here[count++] = &avx512;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) here[count++] = &avx2;
#endif
  here[count++] = &plain;
  return index < count ? here[index] : NULL;
}
