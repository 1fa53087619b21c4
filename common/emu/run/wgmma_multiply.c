#include "common/emu/run/wgmma_multiply.h"

#include <stddef.h>
#include <string.h>

/* A block of BLOCK_ROWS x 2 vectors of d stays in registers while depth goes by: each row of b that is loaded serves all of the block's rows. */
#define PRODUCT(NAME, TARGET, VECTOR, WIDTH, BLOCK_ROWS, MULTIPLY_ADD)                                      \
  TARGET static void NAME(float *d, const float *a, const float *b, int depth, int columns, int stride) {   \
    for (int column = 0; column < columns; column += 2 * WIDTH)                                             \
      for (int row = 0; row < EMU_PRODUCT_ROWS; row += BLOCK_ROWS) {                                        \
        VECTOR sum[BLOCK_ROWS][2];                                                                          \
        UNROLL for (int i = 0; i < BLOCK_ROWS; i++) {                                                       \
          const VECTOR *from = (const VECTOR *)(d + (row + i) * stride + column);                           \
          sum[i][0] = from[0], sum[i][1] = from[1];                                                         \
        }                                                                                                   \
        for (int k = 0; k < depth; k++) {                                                                   \
          const VECTOR *of_b = (const VECTOR *)(b + k * stride + column), b_0 = of_b[0], b_1 = of_b[1];     \
          UNROLL for (int i = 0; i < BLOCK_ROWS; i++) {                                                     \
            const VECTOR of_a = a[k * EMU_PRODUCT_ROWS + row + i] - (VECTOR){0}; /* in every element */     \
            sum[i][0] = MULTIPLY_ADD(of_a, b_0, sum[i][0]), sum[i][1] = MULTIPLY_ADD(of_a, b_1, sum[i][1]); \
          }                                                                                                 \
        }                                                                                                   \
        UNROLL for (int i = 0; i < BLOCK_ROWS; i++) {                                                       \
          VECTOR *to = (VECTOR *)(d + (row + i) * stride + column);                                         \
          to[0] = WRITTEN(VECTOR, sum[i][0]), to[1] = WRITTEN(VECTOR, sum[i][1]);                           \
        }                                                                                                   \
      }                                                                                                     \
  }
/* Every NaN as 0x7fffffff: all bits, but the sign. */
#define BITS(sum) __typeof__((sum) != (sum))
#define WRITTEN(VECTOR, sum) (VECTOR)(((BITS(sum))(sum) | ((sum) != (sum))) & ~(((sum) != (sum)) & INT32_MIN))
#define UNROLL _Pragma("GCC unroll 16")

/* Every CPU: SSE2, NEON. The fraction and exponent of a half in a float's place are the value times 2^-112, subnormals too. */
typedef float v4 __attribute__((vector_size(16), may_alias));
typedef uint32_t u4 __attribute__((vector_size(16)));
typedef uint16_t h4 __attribute__((vector_size(8)));

static void convert_plain(float *to, const uint16_t *halves, int count) {
  for (int i = 0; i < count; i += 4) {
    h4 read;
    memcpy(&read, halves + i, sizeof read);
    const u4 half = __builtin_convertvector(read, u4);
    const u4 special = (u4)((half & 0x7c00) == 0x7c00) & 0x7f800000; /* infinity, NaN */
    const v4 value = (v4)((half & 0x7fff) << 13) * 0x1p112f;
    const u4 bits = (u4)value | special | (half & 0x8000) << 16;
    memcpy(to + i, &bits, sizeof bits);
  }
}

#define ADD(a, b, sum) ((sum) + (a) * (b))
PRODUCT(multiply_plain, , v4, 4, 4, ADD)

#ifdef __x86_64__
#include <immintrin.h>
#define AVX2 __attribute__((target("avx2,fma,f16c")))
#define AVX512 __attribute__((target("avx512f,f16c")))

AVX2 static void convert_avx2(float *to, const uint16_t *halves, int count) {
  for (int i = 0; i < count; i += 8) _mm256_storeu_ps(to + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(halves + i))));
}

PRODUCT(multiply_avx2, AVX2, __m256, 8, 4, _mm256_fmadd_ps)
PRODUCT(multiply_avx512, AVX512, __m512, 16, 8, _mm512_fmadd_ps)
#endif

const emu_product_way *emu_product_ways(int index) {
  static const emu_product_way plain = {"plain", convert_plain, multiply_plain};
  const emu_product_way *here[3];
  int count = 0;
#ifdef __x86_64__
  static const emu_product_way avx2 = {"avx2", convert_avx2, multiply_avx2}, avx512 = {"avx512", convert_avx2, multiply_avx512};
  const int has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); /* and then F16C, which is older */
  if (has_avx2 && __builtin_cpu_supports("avx512f")) here[count++] = &avx512;
  if (has_avx2) here[count++] = &avx2;
#endif
  here[count++] = &plain;
  return index < count ? here[index] : NULL;
}
