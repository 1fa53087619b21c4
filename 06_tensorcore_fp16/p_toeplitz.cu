/* 06p: depthwise layers on tensor cores.
 *
 * Terms:    tensor cores, mma.sync; banded (Toeplitz) matrix.
 * Idea:     a filter row that slides over columns is a product with a banded (Toeplitz) matrix. Most of that matrix is zeros, but tensor cores
 *           have more than ten times the FMAs: 16 x 16 x 8 products for 16 tiles of 7 outputs, of which a 7x7 filter needs 7 x 7 x 16.
 * Change:   against 04g no FMA is left. Rows of pixels flow through a ring in shared memory, several on their way while one is multiplied; results
 *           are gathered there too, so that a pixel's channels leave together. (toeplitz.cuh has the kernel.)
 * Expect:   bound by memory for all filters up to 7x7. The registers of a multiprocessor hold T and the sums of 32 channels of 7x7, which is
 *           8 warps: few to hide one another's waiting.
 * Sizes:    3x3, 5x5, 7x7 with stride 1 or 2, no dilation. C = K = groups, a multiple of 8.
 * Infinity: a zero of the band times an infinity is NaN, so an infinite pixel can spoil outputs of its tile, and of the one before, that it does
 *           not lie under.
 * Passes:   fprop (06q: dgrad, 06r: wgrad). Layout: NHWC, filters KRSC, fp16 with fp32 sums. Needs compute capability 8.0. */
#include "06_tensorcore_fp16/toeplitz_plan.cuh"

/* For each filter, the channels of a warp and the warps of a block: more channels are longer pieces of memory, fewer are more blocks. */
static const toeplitz_row table[] = {
    toeplitz_of<3, 1, 1, false, 8, 8>(), toeplitz_of<3, 1, 1, false, 4, 8>(),  /* stride 1 */
    toeplitz_of<3, 2, 1, false, 8, 8>(), toeplitz_of<3, 2, 1, false, 4, 8>(),  /* 2 */
    toeplitz_of<5, 1, 1, false, 4, 8>(), toeplitz_of<5, 1, 1, false, 4, 12>(), /* 1 */
    toeplitz_of<5, 2, 1, false, 4, 8>(), toeplitz_of<5, 2, 1, false, 4, 12>(), /* 2 */
    toeplitz_of<7, 1, 1, false, 4, 8>(),                                       /* 1 */
    toeplitz_of<7, 2, 1, false, 4, 8>(),                                       /* 2 */
};

static const char *plan_fprop(const conv_operation *o, const conv_device *device, conv_plan *plan) {
  const conv_problem *p = &o->problem;
  const char *why = toeplitz_unsupported(p, device);
  if (why) return why;
  sweep s = {};
  s.N = p->N, s.C = p->C, s.in_h = p->H, s.in_w = p->W, s.out_h = p->P, s.out_w = p->Q;
  s.pad_h = p->pad_top, s.pad_w = p->pad_left;
  return toeplitz_plan(table, sizeof table / sizeof *table, p, s, device, plan);
}

static cudaError_t launch_fprop(const conv_plan *plan, const conv_buffers *b, cudaStream_t stream) { return toeplitz_run(plan, b->x, b->w, b->y, stream); }

NHWC_ROW(toeplitz_fprop, "06p", "depthwise, fp16: filter rows as banded matrices", PASS_FPROP, 80, plan_fprop, launch_fprop, toeplitz_growth);
