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

/* Share of its bound that element i uses up; above 1, or NaN, means wrong. */
static double share_of_bound(const conv_tensor *out, const conv_reference *ref, int64_t i, compare_mode mode, double growth) {
  const double got = (double)tensor_get(out, i), want = ref->value[i];
  if (mode == COMPARE_EXACT) return got == round_to(want, out->dtype) ? 0 : NAN;
  const double bound = error_bound(want, fmax(ref->scale[i], ref->least_scale), growth, ref->terms, out->dtype);
  return isfinite(bound) ? fabs(got - want) / bound : NAN; /* an infinite bound would let anything pass */
}

static void print_mismatches(const conv_tensor *out, const conv_reference *ref, compare_mode mode, double growth, FILE *log) {
  enum { SHOWN = 4 };
  int shown = 0;
  for (int64_t i = 0; i < out->count && shown < SHOWN; i++) {
    if (share_of_bound(out, ref, i, mode, growth) <= 1) continue;
    int at[4];
    tensor_coordinates(out, i, at);
    fprintf(log, "    wrong at (%s) = (%d,%d,%d,%d): got %.9g, want %.9g", role_axes(out->role), at[0], at[1], at[2], at[3], (double)tensor_get(out, i),
            mode == COMPARE_EXACT ? round_to(ref->value[i], out->dtype) : ref->value[i]);
    if (mode == COMPARE_BOUND) fprintf(log, " +- %.3g", error_bound(ref->value[i], fmax(ref->scale[i], ref->least_scale), growth, ref->terms, out->dtype));
    fprintf(log, "\n");
    shown++;
  }
}

conv_verdict verify_output(const conv_tensor *out, const conv_reference *ref, compare_mode mode, double growth, FILE *log) {
  int64_t mismatches = 0;
  double worst = 0;
#pragma omp parallel for reduction(+ : mismatches) reduction(max : worst)
  for (int64_t i = 0; i < out->count; i++) {
    const double share = share_of_bound(out, ref, i, mode, growth);
    if (!(share <= 1)) mismatches++; /* written so that NaN counts */
    if (share > worst) worst = share;
  }
  if (mismatches && log) {
    fprintf(log, "    %lld of %lld elements wrong\n", (long long)mismatches, (long long)out->count);
    print_mismatches(out, ref, mode, growth, log);
  }
  return (conv_verdict){.right = mismatches == 0 && out->count > 0 && out->count == ref->shape.count, .mismatches = mismatches, .worst_share = worst};
}
