/* Is a result right? See verify.h. */
#include "common/verify.h"

#include <math.h>
#include <stdlib.h>

#include "common/bound.h"
#include "common/half.h"

int exact_magnitude(int64_t terms) {
  int magnitude = 0;
  while (magnitude < 8 && (int64_t)(magnitude + 1) * (magnitude + 1) * terms < (1 << 24)) magnitude++;
  return magnitude;
}

static double round_to(double value, conv_dtype dtype) { return dtype == DTYPE_FP16 ? (double)half_to_float(half_from_double(value)) : (double)(float)value; }

static double bound_of(const conv_tensor *out, const conv_reference *ref, int64_t i, error_rule rule) {
  return error_bound(ref->value[i], rule.shared ? ref->largest_scale : ref->scale[i], rule.growth, ref->terms, out->dtype);
}

/* Share of its bound that element i uses up; above 1, or NaN, means wrong. */
static double share_of_bound(const conv_tensor *out, const conv_reference *ref, int64_t i, error_rule rule) {
  const double bound = bound_of(out, ref, i, rule);
  return isfinite(bound) ? fabs((double)tensor_get(out, i) - ref->value[i]) / bound : NAN; /* an infinite bound would let anything pass */
}

static bool element_is_right(const conv_tensor *out, const conv_reference *ref, int64_t i, compare_mode mode, error_rule rule) {
  if (mode == COMPARE_EXACT) return (double)tensor_get(out, i) == round_to(ref->value[i], out->dtype);
  return share_of_bound(out, ref, i, rule) <= 1; /* written so that NaN is wrong */
}

static void print_mismatches(const conv_tensor *out, const conv_reference *ref, compare_mode mode, error_rule rule, FILE *log) {
  enum { SHOWN = 4 };
  int shown = 0;
  for (int64_t i = 0; i < out->count && shown < SHOWN; i++) {
    if (element_is_right(out, ref, i, mode, rule)) continue;
    int at[4];
    tensor_coordinates(out, i, at);
    fprintf(log, "    wrong at (%s) = (%d,%d,%d,%d): got %.9g, want %.9g", role_axes(out->role), at[0], at[1], at[2], at[3], (double)tensor_get(out, i),
            mode == COMPARE_EXACT ? round_to(ref->value[i], out->dtype) : ref->value[i]);
    if (mode == COMPARE_BOUND) fprintf(log, " +- %.3g", bound_of(out, ref, i, rule));
    fprintf(log, "\n");
    shown++;
  }
}

conv_verdict verify_output(const conv_tensor *out, const conv_reference *ref, compare_mode mode, error_rule rule, FILE *log) {
  const error_rule plain = {.growth = growth_chain_fp32((double)ref->terms, ref->random)};
  int64_t mismatches = 0;
  double worst = 0, worst_plain = 0;
#pragma omp parallel for reduction(+ : mismatches) reduction(max : worst, worst_plain) if (out->count >= TENSOR_THREADS)
  for (int64_t i = 0; i < out->count; i++) {
    if (!element_is_right(out, ref, i, mode, rule)) mismatches++;
    if (mode == COMPARE_EXACT) continue;
    worst = fmax(worst, share_of_bound(out, ref, i, rule));
    worst_plain = fmax(worst_plain, share_of_bound(out, ref, i, plain));
  }
  if (mismatches && log) {
    fprintf(log, "    %lld of %lld elements wrong\n", (long long)mismatches, (long long)out->count);
    print_mismatches(out, ref, mode, rule, log);
  }
  const bool complete = out->count > 0 && out->count == ref->shape.count;
  return (conv_verdict){.right = mismatches == 0 && complete, .mismatches = mismatches, .worst_share = worst, .plain_share = worst_plain};
}
