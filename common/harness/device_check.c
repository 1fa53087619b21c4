/* A trial's data, reference and comparisons in device memory. See device_check.h. */
#include "common/harness/device_check.h"

#include <stdio.h>

#include "common/conv/gpu.h"
#include "common/conv/operation_reference.h"
#include "common/conv/spot_check.h"
#include "common/harness/timing.h"

/* What cuDNN may want beside the trial's buffers: its workspace (cudnn_options.workspace_limit), and as much again for a heuristic's. */
static const double cudnn_bytes = 2147483648.0;

bool device_check_suits(const trial *t, const conv_tensor shapes[3], const epilogue_data *fused, size_t workspace_bytes) {
  const double elements = (double)shapes[TENSOR_X].count + (double)shapes[TENSOR_W].count + (double)shapes[TENSOR_Y].count;
  const bool large = problem_macs(t->problem) > MANY_MACS || elements > MANY_ELEMENTS;
  const verify_place asked = t->options->verify;
  if (t->place != ON_GPU || asked == VERIFY_ON_HOST) return false;
  if (asked == VERIFY_BY_SIZE && (t->machine->device.emulated || !large)) return false;
  const buffer_sets sets = buffer_sets_plan_fused(ON_GPU, shapes, fused, workspace_bytes);
  const size_t touched = sets.bytes[TENSOR_X] + sets.bytes[TENSOR_W] + sets.bytes[TENSOR_Y] + sets.bytes[PART_RESIDUAL];
  const double sets_bytes = (double)timing_sets(touched, t->machine->device.l2_bytes) * (double)sets.set_bytes + (double)sets.tail_bytes;
  const double reference = (double)(sizeof(double) + sizeof(float)) * (double)shapes[pass_output(t->pass)].count;
  const int opponents = t->options->cudnn_fused || !epilogue_empty(&t->epilogue) ? 2 : 1;
  const double others = t->options->timing && t->options->cudnn && !t->machine->device.emulated ? opponents * cudnn_bytes + 2 * (double)sets.set_bytes : 0;
  return sets_bytes + (double)sets.set_bytes /* the inputs once more */ + reference + others < 0.95 * (double)t->machine->device.memory_bytes;
}

/* Memory for a tensor, and its data. */
static cudaError_t make(conv_tensor *t, const conv_source *from) {
  if (t->count == 0) return cudaSuccess;
  const cudaError_t status = cudaMalloc(&t->data, tensor_bytes(t));
  if (status) t->data = NULL;
  if (status || !from->given) return status ? status : gpu_fill(t, *from);
  return cudaMemcpy(t->data, from->given->data, tensor_bytes(t), cudaMemcpyHostToDevice);
}

static cudaError_t make_all(device_check *d, const trial *t, const conv_source from[3], const conv_source fused[3]) {
  const tensor_role inputs[2] = {pass_input_a(t->pass), pass_input_b(t->pass)};
  conv_tensor *const parts[3] = {&d->fused.scale, &d->fused.bias, &d->fused.residual};
  cudaError_t status = cudaMalloc(&d->room, GPU_ROOM);
  if (!status) status = cudaMalloc(&d->band, GUARD_BYTES);
  if (!status) status = buffer_guard(d->band);
  for (int i = 0; i < 2 && !status; i++) status = make(&d->given[inputs[i]], &from[inputs[i]]);
  for (int i = 0; i < 3 && !status; i++) status = make(parts[i], &fused[i]);
  return status;
}

int device_check_prepare(device_check *d, conv_reference *ref, const trial *t, const conv_source from[3], const conv_source fused[3], bool random, char *error,
                         size_t error_size) {
  const tensor_role a = pass_input_a(t->pass), b = pass_input_b(t->pass);
  const conv_epilogue *e = epilogue_empty(&t->epilogue) ? NULL : &t->epilogue;
  device_check_free(d);
  for (int role = 0; role < 3; role++) d->given[role] = operation_tensor(t->problem, t->pass, &t->epilogue, (tensor_role)role, t->dtype, t->layout);
  d->fused = epilogue_describe(&t->epilogue, &d->given[pass_output(t->pass)]);
  cudaError_t status = make_all(d, t, from, fused);
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError(); /* no room is the caller's to handle, not a failed launch */
    snprintf(error, error_size, "too little memory on the device to verify there");
    return REFERENCE_NO_ROOM;
  }
  if (!status) {
    const int made = reference_compute_on_device(ref, t->problem, t->pass, &d->given[a], &d->given[b], random, error, error_size);
    if (made) return made;
    ref->shape.dtype = d->given[pass_output(t->pass)].dtype;
    if (e) status = reference_fuse_on_device(ref, e, &d->fused);
  }
  if (status) {
    snprintf(error, error_size, "data and reference on the device: %s", cudaGetErrorString(status));
    return -1;
  }
  return spot_check(ref, t->problem, t->pass, t->dtype, (const conv_source[2]){from[a], from[b]}, e, fused, error, error_size);
}

void device_check_free(device_check *d) {
  if (!d->room) return; /* the first that is allocated */
  for (int role = 0; role < 3; role++) cudaFree(d->given[role].data);
  cudaFree(d->fused.scale.data), cudaFree(d->fused.bias.data), cudaFree(d->fused.residual.data);
  cudaFree(d->band), cudaFree(d->room);
  *d = (device_check){0};
}

/* What a part must still hold after a launch: NULL for the output, the workspace and what is not there. */
static const void *original(const device_check *d, int part) {
  if (part <= TENSOR_Y) return d->given[part].data;
  return part == PART_RESIDUAL ? d->fused.residual.data : part == PART_SCALE ? d->fused.scale.data : part == PART_BIAS ? d->fused.bias.data : NULL;
}

cudaError_t device_check_upload(const device_check *d, const buffer_sets *sets) {
  cudaError_t status = cudaSuccess;
  for (int part = 0; part < PART_COUNT && !status; part++)
    if (original(d, part)) status = cudaMemcpy(buffer_address(sets, 0, part), original(d, part), sets->bytes[part], cudaMemcpyDeviceToDevice);
  return status;
}

cudaError_t device_check_parts(const device_check *d, const buffer_sets *sets, int set, part_state parts[PART_COUNT]) {
  enum { BEFORE, BEHIND, INSIDE, PLACES };
  gpu_pair pairs[GPU_PAIRS];
  gpu_difference found[GPU_PAIRS];
  int count = 0, place[PART_COUNT]; /* a trial's parts are few */
  for (int part = 0; part < PART_COUNT; part++) {
    char *data = buffer_address(sets, set, part);
    const size_t bytes = sets->bytes[part];
    parts[part] = (part_state){0};
    place[part] = data && count + PLACES <= GPU_PAIRS ? count : -1;
    if (place[part] < 0) continue;
    count += PLACES;
    gpu_pair *pair = &pairs[place[part]];
    pair[BEFORE] = (gpu_pair){data - GUARD_BYTES, d->band, GUARD_BYTES};
    pair[BEHIND] = (gpu_pair){data + bytes, d->band, GUARD_BYTES};
    pair[INSIDE] = (gpu_pair){data, original(d, part), original(d, part) ? bytes : 0};
  }
  const cudaError_t status = gpu_differences(pairs, count, d->room, found);
  for (int part = 0; part < PART_COUNT && !status; part++) {
    if (place[part] < 0) continue;
    const gpu_difference *at = &found[place[part]];
    parts[part] = (part_state){.changed = at[INSIDE].last >= 0, .damaged = at[BEFORE].last >= 0 || at[BEHIND].last >= 0};
    parts[part].where = at[BEFORE].last >= 0 ? at[BEFORE].last - GUARD_BYTES : at[BEHIND].first; /* the nearest */
  }
  return status;
}
