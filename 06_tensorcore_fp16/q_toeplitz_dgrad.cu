/* 06q: the data gradient of depthwise layers on tensor cores.
 *
 * Idea:     dx is dy under the filter turned by 180 degrees, so 06p's kernel does it. With stride 2 a row of dy belongs to SIZE rows of dx
 *           as in 04h, and T, from columns of dy to columns of dx, has a tap in every second row: T[j][q] = w[r][SIZE - 1 - (2 j - q)].
 * Change:   against 06p the filter is turned; stride 2 has another T, two rows of dx a step, and tiles that begin where w + pad is even.
 * Expect:   bound by memory at either stride.
 * Sizes:    3x3, 5x5, 7x7 with stride 1 or 2, no dilation. C = K = groups, a multiple of 8.
 * Infinity: see 06p.
 * Passes:   dgrad. Layout: NHWC, filters KRSC, fp16 with fp32 sums. Needs compute capability 8.0. */
#include "06_tensorcore_fp16/toeplitz_plan.cuh"

/* For each filter, the channels of a warp and the warps of a block, as in 06p. With stride 2 a block stores four times what it loads: 48 channels
 * where they divide C. */
static const toeplitz_row table[] = {
    toeplitz_of<3, 1, 1, true, 8, 8>(),       toeplitz_of<3, 1, 1, true, 4, 8>(),          /* stride 1 */
    toeplitz_of<3, 1, 2, true, 4, 12>(BY_48), toeplitz_of<3, 1, 2, true, 4, 8>(NOT_BY_48), /* 2 */
    toeplitz_of<5, 1, 1, true, 4, 8>(),       toeplitz_of<5, 1, 1, true, 4, 12>(),         /* 1 */
    toeplitz_of<5, 1, 2, true, 4, 12>(BY_48), toeplitz_of<5, 1, 2, true, 4, 8>(NOT_BY_48), /* 2 */
    toeplitz_of<7, 1, 1, true, 4, 8>(),                                                    /* 1 */
    toeplitz_of<7, 1, 2, true, 4, 8>(),                                                    /* 2 */
};

static const char *plan_dgrad(const conv_operation *o, const conv_device *device, conv_plan *plan) {
  const conv_problem *p = &o->problem;
  const char *why = toeplitz_unsupported(p, device);
  if (why) return why;
  /* Row and column 0 of the walk are `shift` before dx, so that shift + pad is a multiple of the stride. */
  const int shift_h = p->pad_top % p->stride_h, shift_w = p->pad_left % p->stride_w;
  sweep s = {};
  s.N = p->N, s.C = p->C, s.in_h = p->P, s.in_w = p->Q, s.out_h = p->H, s.out_w = p->W, s.shift_h = shift_h, s.shift_w = shift_w;
  s.pad_h = (p->R - 1 - (p->pad_top - shift_h)) / p->stride_h, s.pad_w = (p->S - 1 - (p->pad_left - shift_w)) / p->stride_w;
  return toeplitz_plan(table, sizeof table / sizeof *table, p, s, device, plan);
}

static cudaError_t launch_dgrad(const conv_plan *plan, const conv_buffers *b, cudaStream_t stream) { return toeplitz_run(plan, b->y, b->w, b->x, stream); }

NHWC_ROW(toeplitz_dgrad, "06q", "depthwise, fp16: filter rows as banded matrices", PASS_DGRAD, 80, plan_dgrad, launch_dgrad, toeplitz_growth);
