/* memcpy, memmove and memset in a kernel, for the builds whose accesses are seen (modes.mk). g++ makes some of them into plain accesses and leaves the others as calls, which
 * no hook would see. Here all are plain accesses, each of as many bytes as both pointers' types are aligned to. nvcc may take smaller ones: it knows little of a pointer. */
#pragma once
#include <cstring> /* which would take the names below away */
#include <stddef.h>
#include <stdint.h>

template <size_t N> struct emu_piece;
template <> struct emu_piece<1> { typedef uint8_t type __attribute__((may_alias)); };
template <> struct emu_piece<2> { typedef uint16_t type __attribute__((may_alias)); };
template <> struct emu_piece<4> { typedef uint32_t type __attribute__((may_alias)); };
template <> struct emu_piece<8> { typedef uint64_t type __attribute__((may_alias)); };
template <> struct emu_piece<16> { typedef unsigned __int128 type __attribute__((may_alias)); };

template <typename T> struct emu_alignment { static constexpr size_t of = alignof(T) < 16 ? alignof(T) : 16; };
template <> struct emu_alignment<void> { static constexpr size_t of = 1; };

/* From the first byte on, or from the last. */
template <size_t N, bool DOWN> static inline __attribute__((always_inline)) void emu_copy(void *to, const void *from, size_t bytes) {
  typedef typename emu_piece<N>::type piece;
  const size_t whole = bytes / N, rest = bytes % N;
  if (DOWN)
    for (size_t i = rest; i-- > 0;) ((uint8_t *)to)[whole * N + i] = ((const uint8_t *)from)[whole * N + i];
  for (size_t i = 0; i < whole; i++) {
    const size_t at = DOWN ? whole - 1 - i : i;
    ((piece *)to)[at] = ((const piece *)from)[at];
  }
  if (!DOWN)
    for (size_t i = 0; i < rest; i++) ((uint8_t *)to)[whole * N + i] = ((const uint8_t *)from)[whole * N + i];
}

template <typename T, typename U> static inline __attribute__((always_inline)) void *emu_memcpy(T *to, const U *from, size_t bytes) {
  constexpr size_t a = emu_alignment<T>::of, b = emu_alignment<U>::of, piece = a < b ? a : b;
  if (__builtin_constant_p(bytes) && bytes <= piece) return __builtin_memcpy((void *)to, from, bytes); /* one access, or none: of a register's bits */
  emu_copy<piece, false>((void *)to, from, bytes);
  return (void *)to;
}

template <typename T, typename U> static inline __attribute__((always_inline)) void *emu_memmove(T *to, const U *from, size_t bytes) {
  constexpr size_t a = emu_alignment<T>::of, b = emu_alignment<U>::of, piece = a < b ? a : b;
  if ((uintptr_t)to <= (uintptr_t)from) emu_copy<piece, false>((void *)to, from, bytes);
  else emu_copy<piece, true>((void *)to, from, bytes);
  return (void *)to;
}

template <typename T> static inline __attribute__((always_inline)) void *emu_memset(T *to, int value, size_t bytes) {
  constexpr size_t piece = emu_alignment<T>::of < 8 ? emu_alignment<T>::of : 8;
  const uint64_t all = 0x0101010101010101u * (uint8_t)value;
  for (size_t i = 0; i < bytes / piece; i++) ((typename emu_piece<piece>::type *)to)[i] = (typename emu_piece<piece>::type)all;
  for (size_t i = bytes / piece * piece; i < bytes; i++) ((uint8_t *)to)[i] = (uint8_t)value;
  return (void *)to;
}

namespace std {
using ::emu_memcpy, ::emu_memmove, ::emu_memset;
}
#define memcpy emu_memcpy
#define memmove emu_memmove
#define memset emu_memset
