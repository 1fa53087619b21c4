/* One kernel for two passes: the data gradient of a convolution with stride 1 is a convolution itself.
 *
 *   dx[n,c,h,w] = sum over k,r,s of dy[n,k, h + pad - r*dil, w + pad - s*dil] * w[k,c,r,s]
 *
 * Count the taps backwards, r' = R-1-r, and it reads h - (dil*(R-1) - pad) + r'*dil: the index of a forward convolution whose image is dy,
 * whose padding is dil*(R-1) - pad (it may be negative: then the first windows start inside), and whose filters are w with C and K exchanged
 * and every filter turned by 180 degrees. Nothing is copied: a kernel reads w through two strides and a direction. */
#pragma once
#include "common/harness/plain.h"

typedef struct turned_conv {
  conv_problem p;    /* the convolution to compute, in fprop's letters: image [N][C][H][W], result [N][K][P][Q] */
  int w_k, w_c;      /* elements of w from one output channel to the next, from one input channel to the next, both inside a group */
  int w_tap, w_turn; /* tap (r, s) lies at w_tap + w_turn * (r*S + s) */
} turned_conv;

/* In a group, the filter's element of output channel k, input channel c and tap (r, s); a group's filters start at group * group_k * group_c * R * S. */
#define TURNED_W(t, k, c, tap) ((k) * (t).w_k + (c) * (t).w_c + (t).w_tap + (t).w_turn * (tap))

static inline turned_conv turned_fprop(const conv_problem *p) {
  return (turned_conv){.p = *p, .w_k = p->C / p->groups * p->R * p->S, .w_c = p->R * p->S, .w_tap = 0, .w_turn = 1};
}

static inline turned_conv turned_dgrad(const conv_problem *p) {
  turned_conv t = {.p = *p, .w_k = p->R * p->S, .w_c = p->C / p->groups * p->R * p->S, .w_tap = p->R * p->S - 1, .w_turn = -1};
  t.p.C = p->K, t.p.H = p->P, t.p.W = p->Q;
  t.p.K = p->C, t.p.P = p->H, t.p.Q = p->W;
  t.p.pad_top = p->dil_h * (p->R - 1) - p->pad_top;
  t.p.pad_left = p->dil_w * (p->S - 1) - p->pad_left;
  return t;
}

/* The convolution that a pass is: fprop as it stands, dgrad turned. */
static inline turned_conv turned_pass(const conv_operation *o) { return o->pass == PASS_DGRAD ? turned_dgrad(&o->problem) : turned_fprop(&o->problem); }

static inline const char *turned_unsupported(const conv_operation *o, const conv_device *device) {
  const conv_problem *p = &o->problem;
  if (o->pass == PASS_DGRAD && (p->stride_h != 1 || p->stride_w != 1)) return "stride is not 1 (with gaps between the windows, dgrad is no convolution)";
  return plain_unsupported(p, device);
}

/* Its image and its result: x and y, or dy and dx. */
static inline const float *turned_image(const conv_plan *plan, const conv_buffers *b) {
  return (const float *)(plan->operation.pass == PASS_DGRAD ? b->y : b->x);
}
static inline float *turned_result(const conv_plan *plan, const conv_buffers *b) { return (float *)(plan->operation.pass == PASS_DGRAD ? b->x : b->y); }
