/* Half precision in software: IEEE binary16 with the toolkit's names. Every operation rounds its exact result once, to nearest even.
 *
 * Through float where that is safe: a sum, difference, product, quotient or square root of two halves rounded to 24 bits and then to 11
 * is the correctly rounded one, because 24 >= 2 * 11 + 2 (S. Figueroa, "When is double rounding innocuous?", 1995). */
#pragma once
#include "common/conv/half.h"
#include "cuda_runtime.h"

#ifdef __cplusplus

typedef struct __half_raw {
  unsigned short x;
} __half_raw;

struct __half {
  unsigned short bits;

  __half() = default;
  __half(const __half_raw &raw) : bits(raw.x) {}
  __half(float value) : bits(half_from_float(value)) {}
  __half(double value) : bits(half_from_double(value)) {}
  __half(int value) : bits(half_from_double(value)) {}
  __half(unsigned value) : bits(half_from_double(value)) {}
  __half(long long value) : bits(half_from_double((double)value)) {}
  operator float() const { return half_to_float(bits); }
  operator __half_raw() const { return {bits}; }
};
typedef __half half;

/* Read and written in one access of 4 bytes, like the vector types. */
struct alignas(4) __half2 {
  typedef uint32_t emu_whole __attribute__((may_alias));
  __half x, y;

  __half2() = default;
  __half2(__half x_, __half y_) : x(x_), y(y_) {}
  __half2(const __half2 &o) { *(emu_whole *)this = *(const emu_whole *)&o; }
  __half2 &operator=(const __half2 &o) {
    *(emu_whole *)this = *(const emu_whole *)&o;
    return *this;
  }
};
typedef __half2 half2;

/* ---- conversions ---- */

static inline float __half2float(__half a) { return half_to_float(a.bits); }
static inline __half __float2half(float a) { return __half(a); }
static inline __half __float2half_rn(float a) { return __half(a); }
static inline __half __double2half(double a) { return __half(a); }
static inline __half __int2half_rn(int a) { return __half(a); }
static inline int __half2int_rn(__half a) { return __float2int_rn(__half2float(a)); }
static inline int __half2int_rz(__half a) { return __float2int_rz(__half2float(a)); }
static inline unsigned short __half_as_ushort(__half a) { return a.bits; }
static inline short __half_as_short(__half a) { return (short)a.bits; }
static inline __half __ushort_as_half(unsigned short bits) { return __half(__half_raw{bits}); }
static inline __half __short_as_half(short bits) { return __half(__half_raw{(unsigned short)bits}); }
static inline __half2 make_half2(__half x, __half y) { return __half2(x, y); }
static inline __half2 __halves2half2(__half x, __half y) { return __half2(x, y); }
static inline __half2 __half2half2(__half a) { return __half2(a, a); }
static inline __half2 __float2half2_rn(float a) { return __half2(__half(a), __half(a)); }
static inline __half2 __floats2half2_rn(float x, float y) { return __half2(__half(x), __half(y)); }
static inline __half2 __float22half2_rn(float2 a) { return __half2(__half(a.x), __half(a.y)); }
static inline float2 __half22float2(__half2 a) { return make_float2(__half2float(a.x), __half2float(a.y)); }
static inline __half __low2half(__half2 a) { return a.x; }
static inline __half __high2half(__half2 a) { return a.y; }
static inline float __low2float(__half2 a) { return __half2float(a.x); }
static inline float __high2float(__half2 a) { return __half2float(a.y); }
static inline __half2 __low2half2(__half2 a) { return __half2(a.x, a.x); }
static inline __half2 __high2half2(__half2 a) { return __half2(a.y, a.y); }
static inline __half2 __lowhigh2highlow(__half2 a) { return __half2(a.y, a.x); }
static inline __half2 __lows2half2(__half2 a, __half2 b) { return __half2(a.x, b.x); }
static inline __half2 __highs2half2(__half2 a, __half2 b) { return __half2(a.y, b.y); }

/* ---- arithmetic ---- */

static inline __half __hadd(__half a, __half b) { return __half(__half2float(a) + __half2float(b)); }
static inline __half __hsub(__half a, __half b) { return __half(__half2float(a) - __half2float(b)); }
static inline __half __hmul(__half a, __half b) { return __half(__half2float(a) * __half2float(b)); }
static inline __half __hdiv(__half a, __half b) { return __half(__half2float(a) / __half2float(b)); }
/* In double the product is exact and what the sum loses lies far below a half's last bit, so that one rounding is left. */
static inline __half __hfma(__half a, __half b, __half c) { return __half((double)__half2float(a) * (double)__half2float(b) + (double)__half2float(c)); }
static inline __half __hneg(__half a) { return __ushort_as_half(a.bits ^ 0x8000); }
static inline __half __habs(__half a) { return __ushort_as_half(a.bits & 0x7FFF); }
static inline bool __hisnan(__half a) { return (a.bits & 0x7FFF) > 0x7C00; }
static inline int __hisinf(__half a) { return (a.bits & 0x7FFF) != 0x7C00 ? 0 : a.bits & 0x8000 ? -1 : 1; }
static inline __half __hmax(__half a, __half b) { return __half(fmaxf(__half2float(a), __half2float(b))); }
static inline __half __hmin(__half a, __half b) { return __half(fminf(__half2float(a), __half2float(b))); }
static inline __half __hmax_nan(__half a, __half b) { return __hisnan(a) || __hisnan(b) ? __ushort_as_half(0x7FFF) : __hmax(a, b); }
static inline __half __hmin_nan(__half a, __half b) { return __hisnan(a) || __hisnan(b) ? __ushort_as_half(0x7FFF) : __hmin(a, b); }
static inline __half hsqrt(__half a) { return __half(sqrtf(__half2float(a))); }
static inline __half hrsqrt(__half a) { return __half(1 / sqrt((double)__half2float(a))); }
static inline __half hrcp(__half a) { return __half(1 / __half2float(a)); }
static inline __half hexp(__half a) { return __half(exp((double)__half2float(a))); }
static inline __half htanh(__half a) { return __half(tanh((double)__half2float(a))); }

#define EMU_HALF2_BINARY(name2, name) \
  static inline __half2 name2(__half2 a, __half2 b) { return __half2(name(a.x, b.x), name(a.y, b.y)); }
EMU_HALF2_BINARY(__hadd2, __hadd)
EMU_HALF2_BINARY(__hsub2, __hsub)
EMU_HALF2_BINARY(__hmul2, __hmul)
EMU_HALF2_BINARY(__h2div, __hdiv)
EMU_HALF2_BINARY(__hmax2, __hmax)
EMU_HALF2_BINARY(__hmin2, __hmin)
EMU_HALF2_BINARY(__hmax2_nan, __hmax_nan)
EMU_HALF2_BINARY(__hmin2_nan, __hmin_nan)
#undef EMU_HALF2_BINARY
static inline __half2 __hfma2(__half2 a, __half2 b, __half2 c) { return __half2(__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)); }
static inline __half2 __hneg2(__half2 a) { return __half2(__hneg(a.x), __hneg(a.y)); }
static inline __half2 __habs2(__half2 a) { return __half2(__habs(a.x), __habs(a.y)); }

/* ---- comparisons: false if either is NaN, but for "not equal" and the u forms of the toolkit, which are left out ---- */

#define EMU_HALF_COMPARE(name, op) \
  static inline bool name(__half a, __half b) { return __half2float(a) op __half2float(b); }
EMU_HALF_COMPARE(__heq, ==)
EMU_HALF_COMPARE(__hlt, <)
EMU_HALF_COMPARE(__hle, <=)
EMU_HALF_COMPARE(__hgt, >)
EMU_HALF_COMPARE(__hge, >=)
#undef EMU_HALF_COMPARE
static inline bool __hne(__half a, __half b) { return __half2float(a) < __half2float(b) || __half2float(a) > __half2float(b); }

#define EMU_HALF_OPERATOR(op, name, name2)                                                      \
  static inline __half operator op(const __half &a, const __half &b) { return name(a, b); }     \
  static inline __half &operator op##=(__half &a, const __half &b) { return a = name(a, b); }   \
  static inline __half2 operator op(const __half2 &a, const __half2 &b) { return name2(a, b); } \
  static inline __half2 &operator op##=(__half2 &a, const __half2 &b) { return a = name2(a, b); }
EMU_HALF_OPERATOR(+, __hadd, __hadd2)
EMU_HALF_OPERATOR(-, __hsub, __hsub2)
EMU_HALF_OPERATOR(*, __hmul, __hmul2)
EMU_HALF_OPERATOR(/, __hdiv, __h2div)
#undef EMU_HALF_OPERATOR
static inline __half operator-(const __half &a) { return __hneg(a); }
static inline __half operator+(const __half &a) { return a; }
static inline __half2 operator-(const __half2 &a) { return __hneg2(a); }
static inline bool operator==(const __half &a, const __half &b) { return __heq(a, b); }
static inline bool operator!=(const __half &a, const __half &b) { return !__heq(a, b); }
static inline bool operator<(const __half &a, const __half &b) { return __hlt(a, b); }
static inline bool operator<=(const __half &a, const __half &b) { return __hle(a, b); }
static inline bool operator>(const __half &a, const __half &b) { return __hgt(a, b); }
static inline bool operator>=(const __half &a, const __half &b) { return __hge(a, b); }

/* ---- loads, stores and atomics ---- */

/* Whole words of 4 bytes, 2 with half: replaces the value in one step and returns the old one. */
static inline __half atomicAdd(__half *p, __half value) {
  typedef unsigned short bits __attribute__((may_alias));
  return __ushort_as_half(emu_atomic_update((bits *)p, [value](unsigned short old) { return __hadd(__ushort_as_half(old), value).bits; }));
}
static inline __half2 atomicAdd(__half2 *p, __half2 value) {
  typedef uint32_t bits __attribute__((may_alias));
  return emu_from_bits<__half2>(
      emu_atomic_update((bits *)p, [value](uint32_t old) { return (uint32_t)emu_to_bits<__half2>(__hadd2(emu_from_bits<__half2>(old), value)); }));
}

#else
#include "cuda_runtime_api.h"
#endif
