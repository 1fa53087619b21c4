/* WMMA, the C++ interface of tensor cores (CUDA C++ Programming Guide, Warp Matrix Functions): 16x16x16, halves with sums in float or half.
 *
 * Which lane holds which element is nobody's business; here fragments are those of mma.m16n8k16 (common/emu/run/mma.c), twice for 16 columns. Each element
 * is in one lane, so num_elements is 8; a GPU may keep a and b twice. */
#pragma once
#include "cuda_fp16.h"

#ifdef __cplusplus
namespace nvcuda {
namespace wmma {

struct matrix_a {};
struct matrix_b {};
struct accumulator {};
struct row_major {};
struct col_major {};
enum layout_t { mem_row_major, mem_col_major };

/* x: with g = lane / 4 and t = lane % 4, of pair r = i / 2 and its member j = i % 2
 * a: row g + 8 (r % 2), k 2t + 8 (r / 2) + j;  b: k 2t + 8 (r % 2) + j, column g + 8 (r / 2);  accumulator: row g + 8 (r % 2), column 2t + 8 (r / 2) + j. */
template <typename T> struct emu_elements {
  typedef T element_type;
  static constexpr int num_elements = 8;
  T x[num_elements];
};

template <typename Use, int m, int n, int k, typename T, typename Layout = void> struct fragment {
  static_assert(m < 0, "the emulator has fragments of 16x16x16: a and b of half, row_major or col_major, accumulators of float or half");
};
template <> struct fragment<matrix_a, 16, 16, 16, __half, row_major> : emu_elements<__half> {};
template <> struct fragment<matrix_a, 16, 16, 16, __half, col_major> : emu_elements<__half> {};
template <> struct fragment<matrix_b, 16, 16, 16, __half, row_major> : emu_elements<__half> {};
template <> struct fragment<matrix_b, 16, 16, 16, __half, col_major> : emu_elements<__half> {};
template <> struct fragment<accumulator, 16, 16, 16, float> : emu_elements<float> {};
template <> struct fragment<accumulator, 16, 16, 16, __half> : emu_elements<__half> {};

/* ---- between memory and a fragment, in the kernel's own code, where the checker and the counter see it ---- */

/* Two neighbours in memory, in one access. */
template <typename T> struct emu_pair;
template <> struct emu_pair<float> {
  typedef float2 type;
  enum { step = 4 }; /* of a leading dimension: 16 bytes */
  static const char *name() { return "floats"; }
};
template <> struct emu_pair<__half> {
  typedef __half2 type;
  enum { step = 8 };
  static const char *name() { return "halves"; }
};

/* All lanes have come, with an address and a leading dimension that the instruction can take. */
template <typename T> static inline void emu_wmma_begin(const char *what, const T *p, unsigned ldm, const char *file, int line) {
  if ((uintptr_t)p % 32 != 0) emu_fail("%s at %s:%d: address %p, expected a multiple of 32 bytes", what, file, line, (const void *)p);
  if (ldm % emu_pair<T>::step != 0)
    emu_fail("%s at %s:%d: a leading dimension of %u %s, expected a multiple of %d", what, file, line, ldm, emu_pair<T>::name(), (int)emu_pair<T>::step);
  emu_meet_warp(what, file, line);
}

/* Pair r's first element: in the direction along which the pair lies, and across. */
static inline void emu_wmma_place(int r, bool b, unsigned *along, unsigned *across) {
  const unsigned g = emu_self->lane / 4, t = emu_self->lane % 4;
  *along = 2 * t + 8 * (b ? r % 2 : r / 2);
  *across = g + 8 * (b ? r / 2 : r % 2);
}

template <typename T> static inline void emu_wmma_load(T *x, const T *p, unsigned ldm, bool b, bool neighbours) {
  for (int r = 0; r < 4; r++) {
    unsigned along, across;
    emu_wmma_place(r, b, &along, &across);
    if (neighbours) {
      const typename emu_pair<T>::type two = *(const typename emu_pair<T>::type *)(p + across * ldm + along);
      x[2 * r] = two.x, x[2 * r + 1] = two.y;
    } else {
      for (int j = 0; j < 2; j++) x[2 * r + j] = p[(along + j) * ldm + across];
    }
  }
}

#define EMU_CALLER const char *file = __builtin_FILE(), int line = __builtin_LINE()

template <typename Layout> static inline void load_matrix_sync(fragment<matrix_a, 16, 16, 16, __half, Layout> &a, const __half *p, unsigned ldm, EMU_CALLER) {
  emu_wmma_begin("load_matrix_sync", p, ldm, file, line);
  emu_wmma_load(a.x, p, ldm, false, __is_same(Layout, row_major));
}

template <typename Layout> static inline void load_matrix_sync(fragment<matrix_b, 16, 16, 16, __half, Layout> &b, const __half *p, unsigned ldm, EMU_CALLER) {
  emu_wmma_begin("load_matrix_sync", p, ldm, file, line);
  emu_wmma_load(b.x, p, ldm, true, __is_same(Layout, col_major));
}

template <typename T> static inline void load_matrix_sync(fragment<accumulator, 16, 16, 16, T> &c, const T *p, unsigned ldm, layout_t layout, EMU_CALLER) {
  emu_wmma_begin("load_matrix_sync", p, ldm, file, line);
  emu_wmma_load(c.x, p, ldm, false, layout == mem_row_major);
}

template <typename T> static inline void store_matrix_sync(T *p, const fragment<accumulator, 16, 16, 16, T> &d, unsigned ldm, layout_t layout, EMU_CALLER) {
  emu_wmma_begin("store_matrix_sync", p, ldm, file, line);
  for (int r = 0; r < 4; r++) {
    unsigned column, row;
    emu_wmma_place(r, false, &column, &row);
    if (layout == mem_row_major) {
      typename emu_pair<T>::type two;
      two.x = d.x[2 * r], two.y = d.x[2 * r + 1];
      *(typename emu_pair<T>::type *)(p + row * ldm + column) = two;
    } else {
      for (int j = 0; j < 2; j++) p[(column + j) * ldm + row] = d.x[2 * r + j];
    }
  }
}

/* ---- arithmetic ---- */

template <typename Use, typename T, typename Layout, typename Value>
static inline void fill_fragment(fragment<Use, 16, 16, 16, T, Layout> &f, const Value &value) {
  for (int i = 0; i < f.num_elements; i++) f.x[i] = T(value);
}

/* d = a b + c: two products of 8 columns each, with sums in float. */
template <typename LayoutA, typename LayoutB, typename D, typename C>
static inline void mma_sync(fragment<accumulator, 16, 16, 16, D> &d, const fragment<matrix_a, 16, 16, 16, __half, LayoutA> &a,
                            const fragment<matrix_b, 16, 16, 16, __half, LayoutB> &b, const fragment<accumulator, 16, 16, 16, C> &c, EMU_CALLER) {
  unsigned of_a[4], of_b[4];
  float sum[8];
  for (int r = 0; r < 4; r++) {
    of_a[r] = a.x[2 * r].bits | (unsigned)a.x[2 * r + 1].bits << 16;
    of_b[r] = b.x[2 * r].bits | (unsigned)b.x[2 * r + 1].bits << 16;
  }
  for (int i = 0; i < 8; i++) sum[i] = float(c.x[i]);
  emu_mma_m16n8k16(sum, of_a, of_b, file, line);
  emu_mma_m16n8k16(sum + 4, of_a, of_b + 2, file, line);
  for (int i = 0; i < 8; i++) d.x[i] = D(sum[i]);
}

#undef EMU_CALLER

} // namespace wmma
} // namespace nvcuda
#endif
