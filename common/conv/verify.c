/* Is a result right? See verify.h. */
#include "common/conv/verify.h"

#include "common/conv/gpu.h"

enum { SHOWN = 4 }; /* mismatches that are printed */

int exact_magnitude(int64_t terms) {
  int magnitude = 0;
  while (magnitude < 8 && (int64_t)(magnitude + 1) * (magnitude + 1) * terms < (1 << 24)) magnitude++;
  return magnitude;
}

static conv_judge judge_of(const conv_tensor *out, const conv_reference *ref, compare_mode mode, error_rule rule) {
  return (conv_judge){.dtype = out->dtype,
                      .mode = mode,
                      .rule = rule,
                      .plain_growth = growth_chain_fp32((double)ref->terms, ref->random),
                      .terms = ref->terms,
                      .largest_scale = ref->largest_scale};
}

static void print_mismatch(FILE *log, const conv_judge *j, const conv_tensor *shape, int64_t offset, float got, double value, float scale) {
  int at[4];
  tensor_coordinates(shape, offset, at);
  fprintf(log, "    wrong at (%s) = (%d,%d,%d,%d): got %.9g, want %.9g", role_axes(shape->role), at[0], at[1], at[2], at[3], (double)got,
          j->mode == COMPARE_EXACT ? (double)dtype_round(value, j->dtype) : value);
  if (j->mode == COMPARE_BOUND) fprintf(log, " +- %.3g", judge_bound(j, value, scale));
  fprintf(log, "\n");
}

static bool complete(const conv_tensor *out, const conv_reference *ref) { return out->count > 0 && out->count == ref->shape.count; }

conv_verdict verify_output(const conv_tensor *out, const conv_reference *ref, compare_mode mode, error_rule rule, FILE *log) {
  const conv_judge j = judge_of(out, ref, mode, rule);
  int64_t mismatches = 0;
  double worst = 0, plain = 0;
#pragma omp parallel for reduction(+ : mismatches) reduction(max : worst, plain) if (out->count >= TENSOR_THREADS)
  for (int64_t i = 0; i < out->count; i++) mismatches += judge_wrong(&j, (double)tensor_get(out, i), ref->value[i], ref->scale[i], &worst, &plain);
  if (mismatches && log) {
    fprintf(log, "    %lld of %lld elements wrong\n", (long long)mismatches, (long long)out->count);
    double ignored = 0;
    for (int64_t i = 0, shown = 0; i < out->count && shown < SHOWN; i++) {
      if (!judge_wrong(&j, (double)tensor_get(out, i), ref->value[i], ref->scale[i], &ignored, &ignored)) continue;
      print_mismatch(log, &j, out, i, tensor_get(out, i), ref->value[i], ref->scale[i]);
      shown++;
    }
  }
  return (conv_verdict){.right = mismatches == 0 && complete(out, ref), .mismatches = mismatches, .worst_share = worst, .plain_share = plain};
}

cudaError_t verify_on_device(const conv_tensor *out, const conv_reference *ref, compare_mode mode, error_rule rule, FILE *log, conv_verdict *verdict) {
  *verdict = (conv_verdict){0};
  if (!complete(out, ref)) return cudaSuccess;
  const conv_judge j = judge_of(out, ref, mode, rule);
  gpu_comparison all;
  cudaError_t status = gpu_compare(out, ref, &j, &all);
  if (!status && all.mismatches && log) fprintf(log, "    %lld of %lld elements wrong\n", (long long)all.mismatches, (long long)out->count);
  gpu_mismatch m = {.offset = -1};
  for (int shown = 0; !status && log && shown < SHOWN && shown < all.mismatches; shown++) {
    status = gpu_next_mismatch(out, ref, &j, m.offset + 1, &m);
    if (!status) print_mismatch(log, &j, &ref->shape, m.offset, m.got, m.value, m.scale);
  }
  *verdict =
      (conv_verdict){.right = !status && all.mismatches == 0, .mismatches = all.mismatches, .worst_share = all.worst_share, .plain_share = all.plain_share};
  return status;
}
