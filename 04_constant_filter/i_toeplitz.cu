/* 04i: depthwise layers on tensor cores.
 *
 * Idea:     a filter row that slides over columns is a product with a banded (Toeplitz) matrix. Most of that matrix is zeros, but tensor cores
 *           have more than ten times the FMAs: 16 x 16 x 8 products for 16 tiles of 7 outputs, of which a 7x7 filter needs 7 x 7 x 16.
 * Change:   against 04f no FMA is left. Rows of pixels flow through a ring in shared memory, several on their way while one is multiplied; results
 *           are gathered there too, so that a pixel's channels leave together. (toeplitz.cuh has the kernel.)
 * Expect:   bound by memory for all filters up to 7x7. The registers of a multiprocessor hold T and the sums of 32 channels of 7x7, which is 8 warps: few to
 *           hide one another's waiting.
 * Sizes:    3x3, 5x5, 7x7 with stride 1 or 2, no dilation. C = K = groups, a multiple of 8.
 * Infinity: a zero of the band times an infinity is NaN, so an infinite pixel can spoil outputs of its tile, and of the one before, that it does not lie under.
 * Passes:   fprop (04j: dgrad, 04k: wgrad). Layout: NHWC, filters KRSC, fp16 with fp32 sums. Needs compute capability 8.0. */
#include "04_constant_filter/toeplitz.cuh"

/* The kernels for this filter, the channels of a warp and the warps of a block: more channels are longer pieces of memory, fewer are more blocks. */
static int rows_of(const conv_problem *p, toeplitz_row row[2]) {
  switch (10 * p->S + p->stride_h) {
    case 31: row[0] = toeplitz_of<3, 1, 1, false, 8, 8>(), row[1] = toeplitz_of<3, 1, 1, false, 4, 8>(); return 2;
    case 32: row[0] = toeplitz_of<3, 2, 1, false, 8, 8>(), row[1] = toeplitz_of<3, 2, 1, false, 4, 8>(); return 2;
    case 51: row[0] = toeplitz_of<5, 1, 1, false, 4, 8>(), row[1] = toeplitz_of<5, 1, 1, false, 4, 12>(); return 2;
    case 52: row[0] = toeplitz_of<5, 2, 1, false, 4, 8>(), row[1] = toeplitz_of<5, 2, 1, false, 4, 12>(); return 2;
    case 71: row[0] = toeplitz_of<7, 1, 1, false, 4, 8>(); return 1;
    default: row[0] = toeplitz_of<7, 2, 1, false, 4, 8>(); return 1;
  }
}

static sweep sweep_of(const conv_problem *p) {
  return {.N = p->N, .C = p->C, .in_h = p->H, .in_w = p->W, .out_h = p->P, .out_w = p->Q, .pad_h = p->pad_top, .pad_w = p->pad_left,
          .shift_h = 0, .shift_w = 0, .tiles = 0, .strip = 0, .slots = 0};
}

static const char *unsupported(const conv_problem *p, const conv_device *device) {
  const char *reason = toeplitz_unsupported(p);
  if (reason) return reason;
  toeplitz_row row[2];
  const int count = rows_of(p, row);
  return toeplitz_too_large(row, count, sweep_of(p), device->shared_per_block);
}

static cudaError_t launch_fprop(const conv_problem *p, const conv_buffers *b, cudaStream_t stream) {
  toeplitz_row row[2];
  const int count = rows_of(p, row);
  return toeplitz_launch(row, count, sweep_of(p), b->x, b->w, b->y, stream);
}

TOEPLITZ_ROW(toeplitz_fprop, "04i", PASS_FPROP, unsupported, launch_fprop);
