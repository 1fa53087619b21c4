/* 05l: Winograd's convolution, four outputs with 16 multiplications instead of 36.
 *
 * Terms:    Winograd, F(2x2, 3x3); batched GEMM.
 * Idea:     two outputs of a filter of three taps are six products: y0 = d0 g0 + d1 g1 + d2 g2, y1 = d1 g0 + d2 g1 + d3 g2. Four do:
 *
 *               m0 = (d0 - d2) g0     m1 = (d1 + d2) (g0 + g1 + g2) / 2     m2 = (d3 - d1) g2     m3 = (d2 - d1) (g0 - g1 + g2) / 2
 *               y0 = m0 + m1 + m3     y1 = m1 + m2 - m3
 *
 *           What stands before the multiplication is a sum of pixels, or of taps, and is needed once for many multiplications: the pixels' for every
 *           filter, the taps' for every tile. And m may be added up over the channels before y is made of it. In two dimensions, lines of lines: 2 x 2
 *           outputs out of 4 x 4 pixels by 16 multiplications, where the formula has 36 (S. Winograd, 1980; A. Lavin and S. Gray, "Fast Algorithms for
 *           Convolutional Neural Networks", 2015).
 * Change:   against 05e there are 16 matrix products, of transformed pixels and filters (winograd.cuh), and no gather in any of them. Three kernels.
 * Expect:   the arithmetic in 44 % of its time, and memory to pay for it: V is four times as large as x, and M four times as large as y, each written
 *           and read once. They go through the L2 cache. Half the time of 05f where C and K are large; nothing to gain where they are small.
 * Exact:    the halves are exact in binary: integers that are small enough stay exact.
 * Sizes:    3x3, stride 1, no dilation; any padding, groups.
 * Passes:   fprop, dgrad. Layout: NCHW, filters KCRS, fp32. */
#include "05_im2col_gemm/winograd.cuh"

template <> __device__ __forceinline__ void filter_line<2>(const float (&g)[3], float (&u)[4]) {
  const float outer = g[0] + g[2];
  u[0] = g[0], u[1] = 0.5f * (outer + g[1]), u[2] = g[2], u[3] = 0.5f * (outer - g[1]);
}

template <> __device__ __forceinline__ void patch_line<2>(const float (&d)[4], float (&v)[4]) {
  v[0] = d[0] - d[2], v[1] = d[1] + d[2], v[2] = d[3] - d[1], v[3] = d[2] - d[1];
}

/* One output, without the last point. */
template <> __device__ __forceinline__ void short_patch_line<2>(const float (&d)[4], float (&v)[4]) {
  v[0] = d[0] - d[1], v[1] = 2 * d[1], v[2] = d[2] - d[1], v[3] = 0;
}

template <> __device__ __forceinline__ void output_line<2>(const float (&m)[4], float (&y)[2]) { y[0] = m[0] + m[1] + m[3], y[1] = m[1] + m[2] - m[3]; }

/* ---------------------------------------------------------------- host */

/* Along a line, sums of pixels and of taps at the four points have the norms sqrt 2, and 1, sqrt 3/4, sqrt 3/4, 1; of an output's three points together
 * that is 2 + 3/2 + 3/2 = 5, where the formula has 3. A shorter tile's one output: sqrt 2, 2, sqrt 2, and 1, sqrt 3/4, 1, together 2 + 3 + 2 = 7: (7/3)^(1/2),
 * and for two directions 7/3. */

/* On integers: V is at most 4 max|x|, and U at most 9 max|w| in quarters; the nine points of an output have (2 * 2 + 2 * 3 + 2 * 3)^2 = 256 of them for every
 * channel, where the formula has 9. (In a shorter tile (2 * 2 + 2 * 3 + 2 * 2)^2.) */
enum { EXACT_FACTOR = 29 };

static double growth_fprop(const conv_problem *p, bool random) { return growth_winograd((double)problem_terms(p, PASS_FPROP), WINOGRAD_2X2_NORM, random); }
static double growth_dgrad(const conv_problem *p, bool random) { return growth_winograd((double)problem_terms(p, PASS_DGRAD), WINOGRAD_2X2_NORM, random); }

static cudaError_t launch_fprop(const conv_plan *plan, const conv_buffers *b, cudaStream_t stream) {
  return winograd_launch<2, false>(plan_data<winograd_plan>(plan), (const float *)b->x, (const float *)b->w, (float *)b->y, (float *)b->workspace, stream);
}
static cudaError_t launch_dgrad(const conv_plan *plan, const conv_buffers *b, cudaStream_t stream) {
  return winograd_launch<2, true>(plan_data<winograd_plan>(plan), (const float *)b->y, (const float *)b->w, (float *)b->x, (float *)b->workspace, stream);
}

WINOGRAD_ROW(winograd_fprop, "05l", "Winograd: 2 x 2 outputs by 16 multiplications", PASS_FPROP, winograd_plan_for<2>, launch_fprop, growth_fprop,
             EXACT_FACTOR);
WINOGRAD_ROW(winograd_dgrad, "05l", "Winograd: 2 x 2 outputs by 16 multiplications", PASS_DGRAD, winograd_plan_for<2>, launch_dgrad, growth_dgrad,
             EXACT_FACTOR);
