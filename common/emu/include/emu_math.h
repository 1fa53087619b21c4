/* Device functions: arithmetic. The fast variants (__expf and the like) are as exact as the others here. Part of cuda_runtime.h. */
#pragma once
/* Of what C++17 adds to <math.h>, the special functions (Bessel's and the like) take longer to read than all the rest of a kernel's file. */
#undef _GLIBCXX_USE_STD_SPEC_FUNCS
#include <math.h>

/* Keeps the compiler from fusing this product or sum with another one, as the _rn functions promise. */
template <typename T> T emu_rounded(T x) {
#if defined(__x86_64__)
  asm("" : "+x"(x));
#elif defined(__aarch64__)
  asm("" : "+w"(x));
#endif
  return x;
}

static inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
static inline float __fadd_rn(float a, float b) { return emu_rounded(emu_rounded(a) + b); }
static inline float __fsub_rn(float a, float b) { return emu_rounded(emu_rounded(a) - b); }
static inline float __fmul_rn(float a, float b) { return emu_rounded(a * b); }
static inline float __fdiv_rn(float a, float b) { return a / b; }
static inline float __frcp_rn(float a) { return 1 / a; }
static inline float __fsqrt_rn(float a) { return sqrtf(a); }
static inline float __frsqrt_rn(float a) { return (float)(1 / sqrt((double)a)); }
static inline double __fma_rn(double a, double b, double c) { return fma(a, b, c); }
static inline double __dadd_rn(double a, double b) { return emu_rounded(emu_rounded(a) + b); }
static inline double __dmul_rn(double a, double b) { return emu_rounded(a * b); }
static inline float __fdividef(float a, float b) { return a / b; }
static inline float __saturatef(float a) { return a > 0 ? (a < 1 ? a : 1.0f) : 0.0f; } /* NaN gives 0 */
static inline float rsqrtf(float a) { return (float)(1 / sqrt((double)a)); }
static inline double rsqrt(double a) { return 1 / sqrt(a); }

/* Macros, because the C library has functions of these names for itself. */
#define __expf(a) expf(a)
#define __exp10f(a) exp10f(a)
#define __logf(a) logf(a)
#define __log2f(a) log2f(a)
#define __log10f(a) log10f(a)
#define __powf(a, b) powf(a, b)
#define __sinf(a) sinf(a)
#define __cosf(a) cosf(a)
#define __tanf(a) tanf(a)

#ifndef __clang__ /* has it */
#define __builtin_assume(condition) ((void)sizeof((condition) ? 1 : 0))
#endif

/* Saturating conversions, as the hardware does them; NaN gives 0. */
static inline int emu_float_to_int(float a) { return a != a ? 0 : a >= 0x1p31f ? 0x7FFFFFFF : a < -0x1p31f ? -0x7FFFFFFF - 1 : (int)a; }
static inline int __float2int_rn(float a) { return emu_float_to_int(rintf(a)); }
static inline int __float2int_rz(float a) { return emu_float_to_int(truncf(a)); }
static inline int __float2int_rd(float a) { return emu_float_to_int(floorf(a)); }
static inline int __float2int_ru(float a) { return emu_float_to_int(ceilf(a)); }
static inline unsigned emu_float_to_unsigned(float a) { return !(a > 0) ? 0 : a >= 0x1p32f ? 0xFFFFFFFFu : (unsigned)a; }
static inline unsigned __float2uint_rn(float a) { return emu_float_to_unsigned(rintf(a)); }
static inline unsigned __float2uint_rz(float a) { return emu_float_to_unsigned(truncf(a)); }
static inline unsigned __float2uint_rd(float a) { return emu_float_to_unsigned(floorf(a)); }
static inline unsigned __float2uint_ru(float a) { return emu_float_to_unsigned(ceilf(a)); }
static inline float __int2float_rn(int a) { return (float)a; }
static inline float __uint2float_rn(unsigned a) { return (float)a; }

static inline int __mulhi(int a, int b) { return (int)((int64_t)a * b >> 32); }
static inline unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)((uint64_t)a * b >> 32); }
static inline unsigned __umul24(unsigned a, unsigned b) { return (a & 0xFFFFFF) * (b & 0xFFFFFF); }
static inline unsigned __sad(int a, int b, unsigned c) { return (a > b ? (unsigned)a - (unsigned)b : (unsigned)b - (unsigned)a) + c; }
static inline unsigned __usad(unsigned a, unsigned b, unsigned c) { return (a > b ? a - b : b - a) + c; }
static inline int __mul24(int a, int b) { return (int)((unsigned)((a << 8) >> 8) * (unsigned)((b << 8) >> 8)); }

/* min and max of the toolkit: mixed signedness compares as unsigned, mixed precision as double; of a number and NaN the number. */
#define EMU_MIN_MAX(A, B, R)                                          \
  static inline R min(A a, B b) { return (R)a < (R)b ? (R)a : (R)b; } \
  static inline R max(A a, B b) { return (R)a > (R)b ? (R)a : (R)b; }
EMU_MIN_MAX(int, int, int)
EMU_MIN_MAX(unsigned, unsigned, unsigned)
EMU_MIN_MAX(int, unsigned, unsigned)
EMU_MIN_MAX(unsigned, int, unsigned)
EMU_MIN_MAX(long, long, long)
EMU_MIN_MAX(unsigned long, unsigned long, unsigned long)
EMU_MIN_MAX(long, unsigned long, unsigned long)
EMU_MIN_MAX(unsigned long, long, unsigned long)
EMU_MIN_MAX(long long, long long, long long)
EMU_MIN_MAX(unsigned long long, unsigned long long, unsigned long long)
EMU_MIN_MAX(long long, unsigned long long, unsigned long long)
EMU_MIN_MAX(unsigned long long, long long, unsigned long long)
#undef EMU_MIN_MAX
static inline unsigned umin(unsigned a, unsigned b) { return min(a, b); }
static inline unsigned umax(unsigned a, unsigned b) { return max(a, b); }
static inline long long llmin(long long a, long long b) { return min(a, b); }
static inline long long llmax(long long a, long long b) { return max(a, b); }
static inline unsigned long long ullmin(unsigned long long a, unsigned long long b) { return min(a, b); }
static inline unsigned long long ullmax(unsigned long long a, unsigned long long b) { return max(a, b); }
static inline float min(float a, float b) { return fminf(a, b); }
static inline float max(float a, float b) { return fmaxf(a, b); }
static inline double min(double a, double b) { return fmin(a, b); }
static inline double max(double a, double b) { return fmax(a, b); }
static inline double min(float a, double b) { return fmin((double)a, b); }
static inline double max(float a, double b) { return fmax((double)a, b); }
static inline double min(double a, float b) { return fmin(a, (double)b); }
static inline double max(double a, float b) { return fmax(a, (double)b); }
