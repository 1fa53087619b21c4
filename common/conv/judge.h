/* Is one element of a result right? For the host's comparison (verify.c) and the device's (gpu_verify.cu): the same code, the same bits. */
#pragma once
#include <float.h>

#include "common/conv/bound.h"
#include "common/conv/tensor.h"

typedef enum {
  COMPARE_BOUND, /* |out - ref| within the derived bound (common/conv/bound.h) */
  COMPARE_EXACT, /* out equals ref rounded to the output's dtype: for integer data whose sums are exact */
} compare_mode;

/* What holds for all elements of a result. */
typedef struct conv_judge {
  conv_dtype dtype;
  compare_mode mode;
  error_rule rule;
  double plain_growth; /* of one chain of fp32 additions: the unit that everybody's errors are told in */
  int64_t terms;       /* products in a sum, at most */
  float largest_scale; /* of all elements */
} conv_judge;

static inline HOST_DEVICE double judge_bound(const conv_judge *j, double value, float scale) {
  return error_bound(value, (double)(j->rule.shared ? j->largest_scale : scale), j->rule.growth, j->terms, j->dtype);
}

/* Share of a bound that an element uses up; above 1, or NaN, means wrong. An infinite bound would let anything pass. */
static inline HOST_DEVICE double judge_share(double out, double value, double bound) { return bound <= DBL_MAX ? fabs(out - value) / bound : (double)NAN; }

/* Adds what is to be said of one element to the largest shares seen, in bounds of its rule and of a plain sum with the element's own scale. Is it wrong?
 * Written so that NaN is. */
static inline HOST_DEVICE bool judge_wrong(const conv_judge *j, double out, double value, float scale, double *worst, double *plain) {
  if (j->mode == COMPARE_EXACT) return !(out == (double)dtype_round(value, j->dtype));
  const double share = judge_share(out, value, judge_bound(j, value, scale));
  *worst = fmax(*worst, share);
  *plain = fmax(*plain, judge_share(out, value, error_bound(value, (double)scale, j->plain_growth, j->terms, j->dtype)));
  return !(share <= 1);
}
