/* Guarded, poisoned memory. See buffers.h. */
#include "common/harness/buffers.h"

#include <stdlib.h>
#include <string.h>

/* As half, float or double the pattern is a NaN, so that reading it spoils a result; it differs from the poison, so that a kernel that
 * copies poison into a guard is found too. */
static const unsigned char guard_pattern[2] = {0xC5, 0xFF};

static void fill_guard(unsigned char band[GUARD_BYTES]) {
  for (int i = 0; i < GUARD_BYTES; i++) band[i] = guard_pattern[i % 2];
}

static cudaError_t copy(const buffer_sets *sets, void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind) {
  if (sets->place == ON_GPU) return cudaMemcpy(to, from, bytes, kind);
  memcpy(to, from, bytes);
  return cudaSuccess;
}

void *buffer_address(const buffer_sets *sets, int set, int part) {
  if (part == PART_WORKSPACE) set = sets->count; /* behind the last */
  return sets->bytes[part] ? sets->base + (size_t)set * sets->set_bytes + sets->offset[part] : NULL;
}

/* Tells the emulator's checker where the arrays lie inside the allocation; all else in it is out of bounds. */
static void mark_arrays(const buffer_sets *sets) {
#ifdef CUDA_EMULATOR
  static const char *const name[PART_COUNT] = {"x", "w", "y", "residual", "scale", "bias", [PART_WORKSPACE] = "workspace"};
  for (int i = 0; sets->place == ON_GPU && i < sets->count * PART_COUNT; i++) {
    const int set = i / PART_COUNT, part = i % PART_COUNT;
    if (sets->bytes[part] && (part != PART_WORKSPACE || set == 0))
      emu_mark_array(buffer_address(sets, set, part), sets->bytes[part],
                     name[part] && (sets->by_role || part == PART_WORKSPACE) ? name[part] : "a tensor of the graph");
  }
#else
  (void)sets;
#endif
}

buffer_sets buffer_sets_plan(conv_place place, const conv_tensor shapes[3], size_t workspace_bytes) {
  return buffer_sets_plan_fused(place, shapes, NULL, workspace_bytes);
}

buffer_sets buffer_sets_plan_fused(conv_place place, const conv_tensor shapes[3], const epilogue_data *fused, size_t workspace_bytes) {
  size_t bytes[PART_COUNT] = {tensor_bytes(&shapes[TENSOR_X]), tensor_bytes(&shapes[TENSOR_W]),
                              tensor_bytes(&shapes[TENSOR_Y]), [PART_WORKSPACE] = workspace_bytes};
  if (fused)
    bytes[PART_RESIDUAL] = tensor_bytes(&fused->residual), bytes[PART_SCALE] = tensor_bytes(&fused->scale), bytes[PART_BIAS] = tensor_bytes(&fused->bias);
  buffer_sets sets = buffer_sets_plan_parts(place, bytes);
  sets.by_role = true;
  return sets;
}

buffer_sets buffer_sets_plan_parts(conv_place place, const size_t bytes[PART_COUNT]) {
  buffer_sets sets = {.place = place};
  for (int part = 0; part < PART_COUNT; part++) {
    size_t *end = part == PART_WORKSPACE ? &sets.tail_bytes : &sets.set_bytes;
    sets.bytes[part] = bytes[part];
    if (sets.bytes[part] == 0) continue;
    sets.offset[part] = *end + GUARD_BYTES;
    *end = (sets.offset[part] + sets.bytes[part] + GUARD_BYTES + 511) / 512 * 512;
  }
  return sets;
}

cudaError_t buffer_sets_alloc(buffer_sets *sets, int count) {
  sets->count = count;
  sets->base = NULL;
  size_t whole;
  if (__builtin_mul_overflow((size_t)count, sets->set_bytes, &whole) || __builtin_add_overflow(whole, sets->tail_bytes, &whole))
    return cudaErrorMemoryAllocation;
  if (sets->place == ON_GPU) {
    const cudaError_t status = cudaMalloc((void **)&sets->base, whole);
    if (status) {
      sets->base = NULL;
      cudaGetLastError(); /* no room is the caller's to handle, not a failed launch */
      return status;
    }
  } else {
    sets->base = aligned_alloc(512, whole);
    if (!sets->base) return cudaErrorMemoryAllocation;
  }
  mark_arrays(sets);
  unsigned char band[GUARD_BYTES];
  fill_guard(band);
  cudaError_t status = cudaSuccess;
  for (int part = 0; part < PART_COUNT && !status; part++) {
    unsigned char *data = buffer_address(sets, 0, part);
    if (!data) continue;
    status = copy(sets, data - GUARD_BYTES, band, GUARD_BYTES, cudaMemcpyHostToDevice);
    if (!status) status = copy(sets, data + sets->bytes[part], band, GUARD_BYTES, cudaMemcpyHostToDevice);
    if (!status) status = buffer_poison(sets, 0, part);
  }
  if (status) buffer_sets_free(sets);
  return status;
}

void buffer_sets_free(buffer_sets *sets) {
  if (sets->place == ON_GPU) cudaFree(sets->base);
  else free(sets->base);
  sets->base = NULL;
}

cudaError_t buffer_upload(const buffer_sets *sets, int part, const void *host) {
  return copy(sets, buffer_address(sets, 0, part), host, sets->bytes[part], cudaMemcpyHostToDevice);
}

cudaError_t buffer_upload_fused(const buffer_sets *sets, const epilogue_data *fused) {
  const conv_tensor *const from[3] = {&fused->residual, &fused->scale, &fused->bias};
  cudaError_t status = cudaSuccess;
  for (int i = 0; i < 3 && !status; i++)
    if (from[i]->count) status = buffer_upload(sets, PART_RESIDUAL + i, from[i]->data);
  return status;
}

cudaError_t buffer_replicate(const buffer_sets *sets) {
  cudaError_t status = cudaSuccess;
  for (int filled = 1; filled < sets->count && !status; filled *= 2) { /* twice as much with every copy */
    const int more = filled < sets->count - filled ? filled : sets->count - filled;
    status = copy(sets, sets->base + (size_t)filled * sets->set_bytes, sets->base, (size_t)more * sets->set_bytes, cudaMemcpyDeviceToDevice);
  }
  return status;
}

cudaError_t buffer_download(const buffer_sets *sets, int set, int part, void *host) {
  return copy(sets, host, buffer_address(sets, set, part), sets->bytes[part], cudaMemcpyDeviceToHost);
}

cudaError_t buffer_poison(const buffer_sets *sets, int set, int part) {
  void *data = buffer_address(sets, set, part);
  if (!data) return cudaSuccess;
  if (sets->place == ON_GPU) {
    const cudaError_t status = cudaMemset(data, 0xFF, sets->bytes[part]);
#ifdef CUDA_EMULATOR
    emu_mark_uninitialised(data, sets->bytes[part]);
#endif
    return status;
  }
  memset(data, 0xFF, sets->bytes[part]);
  return cudaSuccess;
}

conv_buffers buffer_view(const buffer_sets *sets, int set) {
  return (conv_buffers){.x = buffer_address(sets, set, TENSOR_X),
                        .w = buffer_address(sets, set, TENSOR_W),
                        .y = buffer_address(sets, set, TENSOR_Y),
                        .residual = buffer_address(sets, set, PART_RESIDUAL),
                        .scale = (const float *)(const void *)buffer_address(sets, set, PART_SCALE),
                        .bias = (const float *)(const void *)buffer_address(sets, set, PART_BIAS),
                        .workspace = buffer_address(sets, set, PART_WORKSPACE)};
}

cudaError_t buffer_guard(void *device) {
  unsigned char band[GUARD_BYTES];
  fill_guard(band);
  return cudaMemcpy(device, band, sizeof band, cudaMemcpyHostToDevice);
}

cudaError_t buffer_check(const buffer_sets *sets, int set, int part, bool *damaged, int64_t *where) {
  *damaged = false;
  const unsigned char *data = buffer_address(sets, set, part);
  if (!data) return cudaSuccess;
  unsigned char band[GUARD_BYTES], intact[GUARD_BYTES];
  fill_guard(intact);
  cudaError_t status = copy(sets, band, data - GUARD_BYTES, GUARD_BYTES, cudaMemcpyDeviceToHost);
  if (status) return status;
  if (memcmp(band, intact, GUARD_BYTES) != 0)
    for (int i = GUARD_BYTES - 1; i >= 0 && !*damaged; i--)
      if (band[i] != intact[i]) *damaged = true, *where = i - GUARD_BYTES;
  if (*damaged) return cudaSuccess;
  status = copy(sets, band, data + sets->bytes[part], GUARD_BYTES, cudaMemcpyDeviceToHost);
  if (status) return status;
  if (memcmp(band, intact, GUARD_BYTES) != 0)
    for (int i = 0; i < GUARD_BYTES && !*damaged; i++)
      if (band[i] != intact[i]) *damaged = true, *where = i;
  return cudaSuccess;
}

cudaError_t buffer_halves(void *halves, const float *floats, size_t count) {
  float *values = malloc(count * sizeof *values);
  uint16_t *rounded = malloc(count * sizeof *rounded);
  cudaError_t status = values && rounded ? cudaMemcpy(values, floats, count * sizeof *values, cudaMemcpyDeviceToHost) : cudaErrorMemoryAllocation;
  for (size_t i = 0; i < count && !status; i++) rounded[i] = half_from_float(values[i]);
  if (!status) status = cudaMemcpy(halves, rounded, count * sizeof *rounded, cudaMemcpyHostToDevice);
  free(values);
  free(rounded);
  return status;
}
