/* 05m: Winograd's convolution in larger tiles, sixteen outputs with 36 multiplications instead of 144.
 *
 * Terms:    Winograd, F(4x4, 3x3).
 * Idea:     05l's formulas come from polynomials: a product with 4 coefficients is known when it is known at four points, 0, 1, -1 and "infinity".
 *           Six points, with 2 and -2, do for four outputs in a row.
 * Change:   against 05l the points, and what follows from them: 4 x 4 outputs out of 6 x 6 pixels.
 * Expect:   the arithmetic in 25 % of its time; V and M are 36 / 16 = 2.25 times as large as x and y, where 05l had 4 times. So it is better at both. Of
 *           14 x 14 outputs a tenth of that is lost again, with shorter tiles; of 7 x 7 too, or a quarter if few images leave no choice. Where C and K are
 *           128 and more, five to seven tenths of the time is multiply_kernel's, of whose instructions nearly nine tenths are FMAs. The rest is memory's: U,
 *           V and M are written and read once, and all three may be larger than the L2 cache: U at 512 x 512 filters, V and M at 64 images.
 * Price:    powers of 2 grow large, sixths are not exact in binary: the bound is 12 times a plain sum's at 64 channels, and integers do not stay integers. It
 *           is verified by its error bound alone.
 * Sizes:    as 05l. */
#include "05_im2col_gemm/winograd.cuh"

template <> __device__ __forceinline__ void filter_line<4>(const float (&g)[3], float (&u)[6]) {
  const float outer = (g[0] + g[2]) * (1.0f / 6), wide = g[0] * (1.0f / 24) + g[2] * (1.0f / 6);
  u[0] = 0.25f * g[0];
  u[1] = -outer - g[1] * (1.0f / 6), u[2] = g[1] * (1.0f / 6) - outer;
  u[3] = wide + g[1] * (1.0f / 12), u[5] = wide - g[1] * (1.0f / 12);
  u[4] = g[2];
}

template <> __device__ __forceinline__ void patch_line<4>(const float (&d)[6], float (&v)[6]) {
  const float even = d[4] - 4 * d[2], odd = d[3] - 4 * d[1], even_2 = d[4] - d[2], odd_2 = 2 * (d[3] - d[1]);
  v[0] = 4 * d[0] - 5 * d[2] + d[4];
  v[1] = even + odd, v[2] = even - odd;
  v[3] = even_2 + odd_2, v[5] = even_2 - odd_2;
  v[4] = 4 * d[1] - 5 * d[3] + d[5];
}

/* Three outputs, without -2. With U as above, a sum is its point's distance from -2 times as large as it would be otherwise. */
template <> __device__ __forceinline__ void short_patch_line<4>(const float (&d)[6], float (&v)[6]) {
  const float near = d[3] - d[1], far = d[3] - d[2];
  v[0] = 4 * (d[0] - d[2]) + 2 * near;
  v[1] = 3 * (far - 2 * d[1]), v[2] = far - 2 * (d[2] - d[1]);
  v[3] = 4 * near;
  v[4] = d[4] - d[2] - 2 * near;
  v[5] = 0;
}

template <> __device__ __forceinline__ void output_line<4>(const float (&m)[6], float (&y)[4]) {
  const float even = m[1] + m[2], odd = m[1] - m[2], even_2 = m[3] + m[5], odd_2 = m[3] - m[5];
  y[0] = m[0] + even + even_2;
  y[1] = odd + 2 * odd_2;
  y[2] = even + 4 * even_2;
  y[3] = odd + 8 * odd_2 + m[4];
}

/* ---------------------------------------------------------------- host */

/* Along a line, the squared norms of the sums of pixels are 42, 34, 34, 10, 10, 42; of taps 1/16, 1/12, 1/12, 7/192, 7/192, 1. The last output takes their
 * products times the squares of 0, 1, 1, 8, 8, 1: 17/6 + 17/6 + 70/3 + 70/3 + 42 = 94.33, where the formula has 3: 31.5^(1/2), for two directions 31.5. (The
 * last of a shorter tile: 34.33.) */

static double growth_fprop(const conv_problem *p, bool random) { return growth_winograd((double)problem_terms(p, PASS_FPROP), WINOGRAD_4X4_NORM, random); }
static double growth_dgrad(const conv_problem *p, bool random) { return growth_winograd((double)problem_terms(p, PASS_DGRAD), WINOGRAD_4X4_NORM, random); }

static cudaError_t launch_fprop(const conv_plan *plan, const conv_buffers *b, cudaStream_t stream) {
  return winograd_launch<4, false>(plan_data<winograd_plan>(plan), (const float *)b->x, (const float *)b->w, (float *)b->y, (float *)b->workspace, stream);
}
static cudaError_t launch_dgrad(const conv_plan *plan, const conv_buffers *b, cudaStream_t stream) {
  return winograd_launch<4, true>(plan_data<winograd_plan>(plan), (const float *)b->y, (const float *)b->w, (float *)b->x, (float *)b->workspace, stream);
}

WINOGRAD_ROW(winograd4_fprop, "05m", "Winograd: 4 x 4 outputs by 36 multiplications", PASS_FPROP, winograd_plan_for<4>, launch_fprop, growth_fprop,
             EXACT_NEVER);
WINOGRAD_ROW(winograd4_dgrad, "05m", "Winograd: 4 x 4 outputs by 36 multiplications", PASS_DGRAD, winograd_plan_for<4>, launch_dgrad, growth_dgrad,
             EXACT_NEVER);
