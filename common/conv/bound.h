/* How wrong a right result may be: the bound that verification uses, derived from the arithmetic a kernel does.
 *
 *   |out - ref| <= E + u_out * (|ref| + E) + eta_out / 2        with  E = g * scale + terms * eta_fp32 / 2
 *
 * ref    the same sum in fp64, from the same (already rounded) inputs
 * scale  sum |x w| on any data; on independent zero-mean data sqrt(sum (x w)^2), which is what partial sums of random signs grow like
 * g      the growth of the kernel's accumulation, below
 * terms  products in the sum: each may fall into the subnormal range, where it is off by up to half the spacing eta_fp32 = 2^-149
 * u_out  unit roundoff of the output type, eta_out its smallest subnormal: the final rounding
 *
 * gamma_n = n u / (1 - n u) is the worst case of n roundings in a row (N. Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed.,
 * section 3.1). It alone is used on data we know nothing of: constant data, say, rounds the same way every time. On random data the
 * roundings are as good as random too, and 8 u sqrt(n) bounds them (N. Higham and T. Mary, "A New Approach to Probabilistic Rounding Error
 * Analysis", SIAM J. Sci. Comput. 41(5), 2019) with lambda = 8: odds of 2 exp(-32), below 3e-14, per rounding. On zero-mean data the partial
 * sums themselves stay near sqrt(sum (x w)^2) instead of sum |x w|, and so do the errors (the same authors, "Sharper Probabilistic Backward
 * Error Analysis for Basic Linear Algebra Kernels with Random Data", SIAM J. Sci. Comput. 42(5), 2020). For fewer than 8 products the worst
 * case is less: sum |x w| is at most sqrt(n) times sqrt(sum (x w)^2). */
#pragma once
#include <math.h>
#include <stdbool.h>

#include "common/conv/host_device.h"
#include "common/conv/problem.h"

#define UNIT_ROUNDOFF_FP32 0x1p-24
#define UNIT_ROUNDOFF_FP16 0x1p-11

/* Growth of a chain of n additions in fp32, each rounded to nearest (with or without fused multiply-add: n roundings either way). Infinite,
 * that is unknown, for 2^23 and more on data that is not random. */
static inline double growth_chain_fp32(double n, bool random) {
  const double u = UNIT_ROUNDOFF_FP32;
  const double worst = n * u < 0.5 ? n * u / (1 - n * u) : INFINITY;
  return random ? sqrt(n) * fmin(worst, 8 * u) : worst;
}

/* Growth of n additions on tensor cores, which cut off what lies below the last of 24 bits of a product's largest addend: up to 2 u of it for every
 * addend. Cutting is no rounding to nearest: errors go one way, and do not cancel on random data either; there the largest partial sum is within 8
 * times the scale, as above. (How the hardware adds: M. Fasi, N. Higham, M. Mikaitis, S. Pranesh, "Numerical behavior of NVIDIA tensor cores", 2021.) */
static inline double growth_truncated(double n, bool random) {
  const double u = UNIT_ROUNDOFF_FP32;
  return n * 2 * u < 0.5 ? (random ? 8 : 1) * n * 2 * u / (1 - n * 2 * u) : INFINITY;
}

/* Winograd's F(m x m, 3 x 3) adds up a ninth of the formula's products for each point of a tile, and rounds the tile's sums 8 times a line, three lines to a
 * direction. `norm`: how much larger those sums are than the result (05_im2col_gemm/l_winograd.cu and m_winograd4.cu work theirs out). Every output's error
 * depends on all of its tile: the scale is the largest of the result (error_rule.shared). On data that is not random there is no useful bound. */
#define WINOGRAD_2X2_NORM (7.0 / 3)
#define WINOGRAD_4X4_NORM 31.5
static inline double growth_winograd(double terms, double norm, bool random) { return random ? norm * growth_chain_fp32(terms / 9 + 24, true) : INFINITY; }

/* What a result is judged by. */
typedef struct error_rule {
  double growth; /* g */
  bool shared;   /* the largest scale of the result stands for every element's */
} error_rule;

static inline HOST_DEVICE double dtype_unit_roundoff(conv_dtype dtype) { return dtype == DTYPE_FP16 ? UNIT_ROUNDOFF_FP16 : UNIT_ROUNDOFF_FP32; }
static inline HOST_DEVICE double dtype_subnormal_spacing(conv_dtype dtype) { return dtype == DTYPE_FP16 ? 0x1p-24 : 0x1p-149; }

/* A scale as a float that is never below it: the factor outweighs the cast's rounding. */
static inline HOST_DEVICE float round_scale(double scale) { return (float)(scale * (1 + 0x1p-22)); }

/* The largest allowed |out - ref|: the same bits on the host and in kernels, as every sum of products is an fma(). */
static inline HOST_DEVICE double error_bound(double ref, double scale, double growth, int64_t terms, conv_dtype out) {
  const double e = fma(growth, scale, (double)terms * 0x1p-150);
  return fma(dtype_unit_roundoff(out), fabs(ref) + e, e) + dtype_subnormal_spacing(out) / 2;
}
