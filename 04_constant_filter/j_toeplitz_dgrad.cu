/* 04j: the data gradient of depthwise layers on tensor cores.
 *
 * Idea:     dx is dy under the filter turned by 180 degrees, so 04i's kernel does it. With stride 2 a row of dy belongs to SIZE rows of dx
 *           as in 04g, and T, from columns of dy to columns of dx, has a tap in every second row: T[j][q] = w[r][SIZE - 1 - (2 j - q)].
 * Change:   against 04i the filter is turned; stride 2 has another T, two rows of dx a step, and tiles that begin where w + pad is even.
 * Expect:   bound by memory at either stride.
 * Sizes:    3x3, 5x5, 7x7 with stride 1 or 2, no dilation. C = K = groups, a multiple of 8.
 * Infinity: see 04i.
 * Passes:   dgrad. Layout: NHWC, filters KRSC, fp16 with fp32 sums. Needs compute capability 8.0. */
#include "04_constant_filter/toeplitz.cuh"

/* The kernels for this filter, as in 04i. With stride 2 a block stores four times what it loads: 48 channels where they divide C. */
static int rows_of(const conv_problem *p, toeplitz_row row[2]) {
  const bool wide = p->C % 48 == 0;
  switch (10 * p->S + p->stride_h) {
    case 31: row[0] = toeplitz_of<3, 1, 1, true, 8, 8>(), row[1] = toeplitz_of<3, 1, 1, true, 4, 8>(); return 2;
    case 32: row[0] = wide ? toeplitz_of<3, 1, 2, true, 4, 12>() : toeplitz_of<3, 1, 2, true, 4, 8>(); return 1;
    case 51: row[0] = toeplitz_of<5, 1, 1, true, 4, 8>(), row[1] = toeplitz_of<5, 1, 1, true, 4, 12>(); return 2;
    case 52: row[0] = wide ? toeplitz_of<5, 1, 2, true, 4, 12>() : toeplitz_of<5, 1, 2, true, 4, 8>(); return 1;
    case 71: row[0] = toeplitz_of<7, 1, 1, true, 4, 8>(); return 1;
    default: row[0] = toeplitz_of<7, 1, 2, true, 4, 8>(); return 1;
  }
}

/* Row and column 0 of the walk are `shift` before dx, so that shift + pad is a multiple of the stride. */
static sweep sweep_of(const conv_problem *p) {
  const int shift_h = p->pad_top % p->stride_h, shift_w = p->pad_left % p->stride_w;
  return {.N = p->N, .C = p->C, .in_h = p->P, .in_w = p->Q, .out_h = p->H, .out_w = p->W,
          .pad_h = (p->R - 1 - (p->pad_top - shift_h)) / p->stride_h, .pad_w = (p->S - 1 - (p->pad_left - shift_w)) / p->stride_w,
          .shift_h = shift_h, .shift_w = shift_w, .tiles = 0, .strip = 0, .slots = 0};
}

static const char *unsupported(const conv_problem *p, const conv_device *device) {
  const char *reason = toeplitz_unsupported(p);
  if (reason) return reason;
  toeplitz_row row[2];
  const int count = rows_of(p, row);
  return toeplitz_too_large(row, count, sweep_of(p), device->shared_per_block);
}

static cudaError_t launch_dgrad(const conv_problem *p, const conv_buffers *b, cudaStream_t stream) {
  toeplitz_row row[2];
  const int count = rows_of(p, row);
  return toeplitz_launch(row, count, sweep_of(p), b->y, b->w, b->x, stream);
}

TOEPLITZ_ROW(toeplitz_dgrad, "04j", PASS_DGRAD, unsupported, launch_dgrad);
