/* The definition of the three passes, with fp64 accumulation: what every kernel of this repository is compared with.
 *
 *   fprop  y[n,k,p,q]  = sum over c,r,s of  x[n,c,h,w] * w[k,c,r,s]
 *   dgrad dx[n,c,h,w]  = sum over k,r,s of dy[n,k,p,q] * w[k,c,r,s]
 *   wgrad dw[k,c,r,s]  = sum over n,p,q of dy[n,k,p,q] * x[n,c,h,w]
 *
 *   where h = p * stride_h - pad_top + r * dil_h,  w = q * stride_w - pad_left + s * dil_w,  both inside the image,
 *   and channel c and filter k are of the same group.
 *
 * fprop is the formula; dgrad and wgrad are its derivatives: each product x * w that went into a y sends dy back to its two factors. */
#pragma once
#include "common/conv/tensor.h"

/* One element's sum of products, and the sums that its error bound needs. */
typedef struct conv_sums {
  double value;    /* sum x w */
  double absolute; /* sum |x w| */
  double square;   /* sum (x w)^2 */
} conv_sums;

/* The inputs of a pass as floats (fp16 converts exactly), each in the memory order of its tensor. */
typedef struct conv_inputs {
  conv_tensor a_shape, b_shape; /* roles pass_input_a, pass_input_b; their data is not used */
  const float *a, *b;
} conv_inputs;

/* The element at[4] (logical axes of the pass's output) of the result. */
conv_sums definition_element(const conv_problem *p, conv_pass pass, const conv_inputs *in, const int at[4]);
