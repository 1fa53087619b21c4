/* The right answer of a pass. See reference.h. */
#include "common/conv/reference.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "00_cpu_reference/definition.h"
#include "common/conv/bound.h"
#include "common/conv/gpu.h"
#include "common/conv/spot_check.h"

static cudaError_t by_gpu(conv_reference *ref, const conv_problem *p, conv_pass pass, const conv_tensor *a, const conv_tensor *b, bool random) {
  conv_tensor device_a = *a, device_b = *b;
  double *value = NULL;
  float *scale = NULL;
  const size_t count = (size_t)ref->shape.count;
  device_a.data = device_b.data = NULL;
  cudaError_t status = cudaMalloc(&device_a.data, tensor_bytes(a));
  if (!status) status = cudaMalloc(&device_b.data, tensor_bytes(b));
  if (!status) status = cudaMalloc((void **)&value, count * sizeof *value);
  if (!status) status = cudaMalloc((void **)&scale, count * sizeof *scale);
  if (!status) status = cudaMemcpy(device_a.data, a->data, tensor_bytes(a), cudaMemcpyHostToDevice);
  if (!status) status = cudaMemcpy(device_b.data, b->data, tensor_bytes(b), cudaMemcpyHostToDevice);
  if (!status) status = gpu_reference(p, pass, &device_a, &device_b, &ref->shape, value, scale, random);
  if (!status) status = cudaMemcpy(ref->value, value, count * sizeof *value, cudaMemcpyDeviceToHost);
  if (!status) status = cudaMemcpy(ref->scale, scale, count * sizeof *scale, cudaMemcpyDeviceToHost);
  cudaFree(device_a.data), cudaFree(device_b.data), cudaFree(value), cudaFree(scale);
  return status;
}

int reference_compute(conv_reference *ref, const conv_problem *p, conv_pass pass, const conv_tensor *a, const conv_tensor *b, bool random, bool use_gpu,
                      char *error, size_t error_size) {
  *ref = (conv_reference){.shape = tensor_describe(p, pass_output(pass), a->dtype, a->layout), .random = random, .terms = problem_terms(p, pass)};
  const size_t count = (size_t)ref->shape.count;
  float *floats_a = NULL, *floats_b = NULL;
  ref->value = malloc(count * sizeof *ref->value);
  ref->scale = malloc(count * sizeof *ref->scale);
  int status = ref->value && ref->scale ? 0 : REFERENCE_NO_ROOM;
  if (status == 0 && use_gpu) {
    ref->by_gpu = by_gpu(ref, p, pass, a, b, random) == cudaSuccess;
    if (!ref->by_gpu) cudaGetLastError(); /* with too little memory there: the CPU's */
  }
  if (status == 0 && !ref->by_gpu) status = (floats_a = tensor_to_float(a)) && (floats_b = tensor_to_float(b)) ? 0 : REFERENCE_NO_ROOM;
  if (status) snprintf(error, error_size, "no memory for the reference of %zu elements", count);
  if (status == 0 && ref->by_gpu) {
    const conv_source from[2] = {{.given = a}, {.given = b}};
    status = spot_check(ref, p, pass, a->dtype, from, NULL, NULL, error, error_size);
  } else if (status == 0) {
    const conv_inputs in = {.a_shape = *a, .b_shape = *b, .a = floats_a, .b = floats_b};
    status = reference_by_rows(ref, p, pass, &in) ? REFERENCE_NO_ROOM : 0;
    if (status) snprintf(error, error_size, "no memory for a row of the reference");
    const conv_source from[2] = {{.given = a}, {.given = b}};
    if (status == 0) status = spot_check(ref, p, pass, a->dtype, from, NULL, NULL, error, error_size);
  }
  for (size_t i = 0; i < count && status == 0; i++) ref->largest_scale = fmaxf(ref->largest_scale, ref->scale[i]);
  free(floats_a);
  free(floats_b);
  if (status) reference_free(ref);
  return status;
}

cudaError_t reference_alloc_on_device(conv_reference *ref) {
  const size_t count = (size_t)ref->shape.count;
  cudaError_t status = cudaMalloc(&ref->room, GPU_ROOM);
  if (!status) status = cudaMalloc((void **)&ref->value, count * sizeof *ref->value);
  if (!status) status = cudaMalloc((void **)&ref->scale, count * sizeof *ref->scale);
  return status;
}

int reference_made(conv_reference *ref, cudaError_t status, char *error, size_t error_size) {
  if (!status) return 0;
  snprintf(error, error_size, "the reference of %lld elements on the device: %s", (long long)ref->shape.count, cudaGetErrorString(status));
  reference_free(ref);
  if (status == cudaErrorMemoryAllocation) cudaGetLastError(); /* no room is the caller's to handle, not a failed launch */
  return status == cudaErrorMemoryAllocation ? REFERENCE_NO_ROOM : -1;
}

int reference_compute_on_device(conv_reference *ref, const conv_problem *p, conv_pass pass, const conv_tensor *a, const conv_tensor *b, bool random,
                                char *error, size_t error_size) {
  *ref =
      (conv_reference){.shape = tensor_describe(p, pass_output(pass), a->dtype, a->layout), .random = random, .terms = problem_terms(p, pass), .by_gpu = true};
  cudaError_t status = reference_alloc_on_device(ref);
  if (!status) status = gpu_reference(p, pass, a, b, &ref->shape, ref->value, ref->scale, random);
  if (!status) status = gpu_largest(ref->scale, ref->shape.count, ref->room, &ref->largest_scale);
  return reference_made(ref, status, error, error_size);
}

void reference_free(conv_reference *ref) {
  if (ref->room) {
    cudaFree(ref->value), cudaFree(ref->scale), cudaFree(ref->room);
  } else {
    free(ref->value), free(ref->scale);
  }
  ref->value = NULL;
  ref->scale = NULL;
  ref->room = NULL;
}
