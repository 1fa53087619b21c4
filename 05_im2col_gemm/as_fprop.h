/* The gradient of the image at stride 1 is a convolution forward: of dy, with filters turned. For 05l, 05m and 05r. */
#pragma once
#include "common/conv/problem.h"

/* p as fprop: where the pass is dgrad, dy for x and dx for y. Padding may be negative. */
static inline conv_problem as_fprop(const conv_problem *p, conv_pass pass) {
  conv_problem f = *p;
  if (pass == PASS_FPROP) return f;
  const int reach_h = (p->R - 1) * p->dil_h, reach_w = (p->S - 1) * p->dil_w;
  f.C = p->K, f.H = p->P, f.W = p->Q, f.K = p->C, f.P = p->H, f.Q = p->W;
  f.pad_top = reach_h - p->pad_top, f.pad_bottom = reach_h - p->pad_bottom;
  f.pad_left = reach_w - p->pad_left, f.pad_right = reach_w - p->pad_right;
  return f;
}
