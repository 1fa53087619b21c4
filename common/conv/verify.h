/* Is a result right? The one checker of this repository, for every kernel on every device. */
#pragma once
#include <stdio.h>

#include "common/conv/judge.h"
#include "common/conv/reference.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct conv_verdict {
  bool right;
  int64_t mismatches; /* elements that are wrong */
  double worst_share; /* largest |out - ref| / bound seen, 0 in exact mode; below 1 when right */
  double plain_share; /* the same over the bound of one chain of fp32 additions with the element's own scale, whatever the rule: one unit for everybody */
} conv_verdict;

/* Compares `out` (host) with the reference, by the rule of whoever made it. The first mismatches are printed to `log` (may be NULL) with
 * their coordinates and both values. A NaN is always a mismatch, so poisoned elements that nobody wrote are found. */
conv_verdict verify_output(const conv_tensor *out, const conv_reference *ref, compare_mode mode, error_rule rule, FILE *log);

/* The same where `out` and the reference are in device memory: the same verdict to the last bit, and the same lines. `out` may be of another layout. */
cudaError_t verify_on_device(const conv_tensor *out, const conv_reference *ref, compare_mode mode, error_rule rule, FILE *log, conv_verdict *verdict);

/* The largest integer magnitude m for which inputs in -m .. m keep every partial sum of `terms` products below 2^24, so that fp32
 * sums are exact in any order; 0 if there is none. At most 8. */
int exact_magnitude(int64_t terms);

#ifdef __cplusplus
}
#endif
