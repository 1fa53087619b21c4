/* What a trial compares, on the host or on the device. See trial_state.h. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/conv/transposed.h"
#include "common/harness/trial_state.h"

const conv_tensor *trial_input(const trial_state *s, tensor_role role) { return s->on_device ? &s->device.given[role] : &s->host[role]; }

cudaError_t trial_upload(const trial_state *s, const buffer_sets *sets) {
  if (s->on_device) return device_check_upload(&s->device, sets);
  cudaError_t status = buffer_upload(sets, (int)s->input_a, s->host[s->input_a].data);
  if (!status) status = buffer_upload(sets, (int)s->input_b, s->host[s->input_b].data);
  return status ? status : buffer_upload_fused(sets, &s->fused);
}

/* Looks over every part of a set from the host. */
static cudaError_t look_over(trial_state *s, const buffer_sets *sets, int set, part_state parts[PART_COUNT]) {
  const conv_tensor *const given[PART_COUNT] = {[TENSOR_X] = &s->host[TENSOR_X],      [TENSOR_W] = &s->host[TENSOR_W], [TENSOR_Y] = &s->host[TENSOR_Y],
                                                [PART_RESIDUAL] = &s->fused.residual, [PART_SCALE] = &s->fused.scale,  [PART_BIAS] = &s->fused.bias};
  cudaError_t status = cudaSuccess;
  for (int part = 0; part < PART_COUNT && !status; part++) {
    parts[part] = (part_state){0};
    status = buffer_check(sets, set, part, &parts[part].damaged, &parts[part].where);
    if (status || part == (int)s->output || !given[part] || given[part]->count == 0) continue;
    status = buffer_download(sets, set, part, s->scratch.data);
    parts[part].changed = !status && memcmp(s->scratch.data, given[part]->data, tensor_bytes(given[part])) != 0;
  }
  return status;
}

bool trial_untouched(trial_state *s, const buffer_sets *sets, int set, char *note, size_t note_size, cudaError_t *status) {
  static const char *const names[PART_COUNT] = {
      [PART_RESIDUAL] = "the residual", [PART_SCALE] = "the scale", [PART_BIAS] = "the bias", [PART_WORKSPACE] = "the workspace"};
  part_state parts[PART_COUNT];
  *status = s->on_device ? device_check_parts(&s->device, sets, set, parts) : look_over(s, sets, set, parts);
  for (int part = 0; part < PART_COUNT && !*status; part++) {
    const char *name = names[part] || part > TENSOR_Y ? names[part]
                       : s->t->options->transposed    ? transposed_role_name((tensor_role)part)
                                                      : role_name((tensor_role)part, s->t->pass);
    const long long where = parts[part].where;
    if (parts[part].damaged)
      snprintf(note, note_size, "wrote outside %s: byte %lld %s", name, where < 0 ? -where : where + 1, where < 0 ? "before its start" : "after its end");
    else if (parts[part].changed) snprintf(note, note_size, "changed its input %s", name);
    if (parts[part].damaged || parts[part].changed) return false;
  }
  return !*status;
}

error_rule trial_rule(const trial_state *s, const conv_kernel *kernel) {
  const bool random = s->reference.random;
  return (error_rule){.growth = kernel->growth(s->t->problem, random) + epilogue_growth(&s->t->epilogue, random), .shared = kernel->shares_error};
}

cudaError_t trial_download(trial_state *s, const buffer_sets *sets, int set) {
  const conv_tensor *out = &s->host[s->output];
  const cudaError_t status = out->data ? buffer_download(sets, set, (int)s->output, out->data) : cudaSuccess; /* on the device only for --out */
  s->has_output = out->data && !status;
  return status;
}

/* Sums of |x w| say how large partial sums may be, and how wrong a result; it may be small all the same. */
cudaError_t trial_largest_result(const trial_state *s, double *largest) {
  enum { AT_ONCE = 4096 };
  const conv_reference *ref = &s->reference;
  double value[AT_ONCE], growth = 0;
  float scale[AT_ONCE];
  cudaError_t status = cudaSuccess;
  for (int i = 0; i < s->t->kernel_count; i++)
    if (isfinite(trial_rule(s, s->t->kernels[i]).growth)) growth = fmax(growth, trial_rule(s, s->t->kernels[i]).growth);
  *largest = 0;
  for (int64_t first = 0; first < ref->shape.count && !status; first += AT_ONCE) {
    const size_t count = (size_t)(ref->shape.count - first < AT_ONCE ? ref->shape.count - first : AT_ONCE);
    if (ref->room) {
      status = cudaMemcpy(value, ref->value + first, count * sizeof *value, cudaMemcpyDeviceToHost);
      if (!status) status = cudaMemcpy(scale, ref->scale + first, count * sizeof *scale, cudaMemcpyDeviceToHost);
    } else {
      memcpy(value, ref->value + first, count * sizeof *value), memcpy(scale, ref->scale + first, count * sizeof *scale);
    }
    for (size_t i = 0; i < count && !status; i++) *largest = fmax(*largest, fabs(value[i]) + growth * (double)scale[i]);
  }
  return status;
}

cudaError_t trial_judge(trial_state *s, const buffer_sets *sets, int set, compare_mode mode, error_rule rule, FILE *log, conv_verdict *verdict) {
  conv_tensor out = s->host[s->output];
  *verdict = (conv_verdict){0};
  const cudaError_t status = trial_download(s, sets, set);
  if (status) return status;
  if (!s->on_device) {
    *verdict = verify_output(&out, &s->reference, mode, rule, log);
    return cudaSuccess;
  }
  out.data = buffer_address(sets, set, (int)s->output);
  return verify_on_device(&out, &s->reference, mode, rule, log, verdict);
}
