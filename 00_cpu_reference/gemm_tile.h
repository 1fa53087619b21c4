/* The innermost loops of the CPU contender: a tile of results that lives in vector registers while its operands stream past.
 *
 * No intrinsics: GCC's vector extension (gcc and clang have it) names the registers, #if picks their width.
 * A core starts 1 or 2 vector FMAs a cycle and needs 4 cycles for each, so 8 or more sums must be under way at a time; and it loads 2 vectors a
 * cycle, so an FMA whose two factors both came from memory would leave half the arithmetic idle. A tile of accumulators answers both: every
 * loaded value is used by a whole row or a whole column of them. */
#pragma once
#include <stdint.h>
#ifdef _OPENMP
#include <omp.h>
#else
#pragma GCC diagnostic ignored "-Wunknown-pragmas" /* one thread: the omp lines are comments then */
#endif

/* For every file that includes this one. ISO mode (-std=c17) makes gcc round between * and +, two instructions for one; clang fuses them
 * unasked. And the copy loops here move 7 to 200 floats: gcc would replace them by calls of memcpy, whose start costs as much as the copy. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("fp-contract=fast", "no-tree-loop-distribute-patterns")
#endif

#if defined(__AVX512F__)
enum { LANES = 16, REGISTERS = 32 };
#elif defined(__AVX__)
enum { LANES = 8, REGISTERS = 16 };
#elif defined(__aarch64__)
enum { LANES = 4, REGISTERS = 32 };
#else
enum { LANES = 4, REGISTERS = 16 };
#endif

typedef float vec __attribute__((vector_size(4 * LANES), may_alias));                      /* LANES floats, on a vector boundary */
typedef float vec_anywhere __attribute__((vector_size(4 * LANES), aligned(4), may_alias)); /* and on any float */

enum {
  LINE = 16, /* floats in a cache line of 64 bytes */

  /* Outer-product tile: TILE_M filters x TILE_N pixels. 32 registers: 8 x 3 vectors = 24 sums + 3 of pixels + 1 filter value spread over a
   * vector; 16 registers: 4 x 3 = 12 + 3 + 1. A step of 24 FMAs loads 3 vectors and 8 single values: 0.46 loads an FMA. */
  TILE_M = REGISTERS / 4,
  TILE_VECTORS = 3,
  TILE_N = TILE_VECTORS * LANES,

  /* Pixels gathered at a time, and the distance from one row of them to the next: an odd number of cache lines (13, 7, 3), because rows
   * an even number apart would share half, a quarter, ... of the cache's sets. */
  PIXELS = 4 * TILE_N,
  PIXELS_STRIDE = (PIXELS / LINE | 1) * LINE,

  /* Depth of a block. The pixels one tile walks, DEPTH x TILE_N, are 24 KB: they stay in a 32 KB L1 while filter after filter
   * passes over them, 4 KB (32 registers) at a time. */
  DEPTH = 24 * 1024 / 4 / TILE_N,

  /* Inner-product tile: DOT_M x DOT_N vectors of sums. 24 + 6 + 1 registers make 10 loads for 24 FMAs, 12 + 3 + 1 make 7 for 12.
   * DOT_DEPTH pixels of DOT_M + DOT_N rows are 20 KB of L1 (odd row distance again: 33 lines). A shorter depth would spend more of its
   * time on adding up lanes: 24 sums x 12 instructions here, 4 a cycle, against 768 FMAs. */
  DOT_M = 4,
  DOT_N = REGISTERS == 32 ? 6 : 3,
  DOT_DEPTH = 512,
  DOT_STRIDE = DOT_DEPTH + LINE,
};

#ifdef __clang__
#define UNROLLED _Pragma("clang loop unroll(full)")
#else
#define UNROLLED _Pragma("GCC unroll 32")
#endif
#define INLINE static inline __attribute__((always_inline))
#define NOINLINE __attribute__((noinline)) /* a function that wants all registers for its own loops */

INLINE int thread_count(void) {
#ifdef _OPENMP
  return omp_get_max_threads();
#else
  return 1;
#endif
}

INLINE int thread_number(void) {
#ifdef _OPENMP
  return omp_get_thread_num();
#else
  return 0;
#endif
}

/* c[rows][PIXELS] += a[depth][rows]^T * b[depth][PIXELS_STRIDE], over `vectors` vectors of columns. rows and vectors are constants at every call,
 * so that acc is registers, not memory. */
INLINE void outer_tile(const int rows, const int vectors, int depth, const float *a, const float *b, float *c) {
  vec acc[TILE_M * TILE_VECTORS];
  UNROLLED for (int i = 0; i < rows; i++) { UNROLLED for (int j = 0; j < vectors; j++) acc[i * vectors + j] = *(const vec *)(c + i * PIXELS + j * LANES); }
  for (int d = 0; d < depth; d++, a += rows, b += PIXELS_STRIDE) {
    UNROLLED for (int i = 0; i < rows; i++) { UNROLLED for (int j = 0; j < vectors; j++) acc[i * vectors + j] += a[i] * *(const vec *)(b + j * LANES); }
  }
  UNROLLED for (int i = 0; i < rows; i++) { UNROLLED for (int j = 0; j < vectors; j++) * (vec *)(c + i * PIXELS + j * LANES) = acc[i * vectors + j]; }
}

/* The sum of a vector's lanes: quarter-sized vectors first, then the last four. */
INLINE float lane_sum(vec v) {
  typedef float quad __attribute__((vector_size(16)));
  union {
    vec v;
    quad q[LANES / 4];
  } u = {v};
  quad sum = u.q[0];
  UNROLLED for (int i = 1; i < LANES / 4; i++) sum += u.q[i];
  return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

/* c[rows][columns] += a[rows][DOT_STRIDE] * b[columns][DOT_STRIDE]^T over the first `depth` pixels, a multiple of LANES. Both factors run along
 * the pixels, so neither has to be transposed. The tile computes tile_rows x tile_columns (constants); c takes the first rows x columns. */
INLINE void inner_tile(const int tile_rows, const int tile_columns, int depth, const float *a, const float *b, float *c, int64_t c_stride, int rows,
                       int columns) {
  vec acc[DOT_M * DOT_N] = {0};
  for (int d = 0; d < depth; d += LANES) {
    vec column[DOT_N]; /* volatile: load each once. Tuning for Zen, gcc would rather read it again for every row, and loads become the limit */
    UNROLLED for (int j = 0; j < tile_columns; j++) column[j] = *(const volatile vec *)(b + j * DOT_STRIDE + d);
    UNROLLED for (int i = 0; i < tile_rows; i++) {
      const vec value = *(const vec *)(a + i * DOT_STRIDE + d);
      UNROLLED for (int j = 0; j < tile_columns; j++) acc[i * tile_columns + j] += value * column[j];
    }
  }
  float sum[DOT_M * DOT_N];
  UNROLLED for (int i = 0; i < tile_rows * tile_columns; i++) sum[i] = lane_sum(acc[i]);
  for (int i = 0; i < rows; i++) {
    for (int j = 0; j < columns; j++) c[i * c_stride + j] += sum[i * tile_columns + j];
  }
}
