/* The right answer of a pass. See reference.h. */
#include "common/reference.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "00_cpu_reference/definition.h"
#include "common/bound.h"
#include "common/random.h"

static float scale_of(const conv_sums *sums, bool random) { return round_scale(random ? sqrt(sums->square) : sums->absolute); }

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

/* Recomputes a few elements of the reference by the definition; the first, the last, and random ones between them. */
static int spot_check(const conv_reference *ref, const conv_problem *p, conv_pass pass, const conv_inputs *in, bool random, char *error, size_t error_size) {
  const int samples = ref->by_gpu ? 32 : 4;
  int64_t wrong = -1;
#pragma omp parallel for schedule(dynamic, 1) if (samples * ref->terms >= 8 * TENSOR_THREADS)
  for (int sample = 0; sample < samples; sample++) {
    const uint64_t last = (uint64_t)ref->shape.count - 1;
    const int64_t i = sample == 0 ? 0 : sample == 1 ? (int64_t)last : (int64_t)random_below(17, (uint64_t)sample, last + 1);
    int at[4];
    tensor_coordinates(&ref->shape, i, at);
    const conv_sums sums = definition_element(p, pass, in, at);
    const double scale = scale_of(&sums, random);
    const bool right = fabs(ref->value[i] - sums.value) <= 1e-10 * sums.absolute && fabs(ref->scale[i] - scale) <= 1e-6 * scale;
    if (!right) {
#pragma omp critical
      wrong = i;
    }
  }
  if (wrong < 0) return 0;
  snprintf(error, error_size, "the %s fp64 reference disagrees with the definition at element %lld of %s", ref->by_gpu ? "GPU's" : "CPU's", (long long)wrong,
           pass_name(pass));
  return -1;
}

int reference_compute(conv_reference *ref, const conv_problem *p, conv_pass pass, const conv_tensor *a, const conv_tensor *b, bool random, bool use_gpu,
                      char *error, size_t error_size) {
  *ref = (conv_reference){.shape = tensor_describe(p, pass_output(pass), a->dtype, a->layout), .random = random, .terms = problem_terms(p, pass)};
  const size_t count = (size_t)ref->shape.count;
  float *floats_a = NULL, *floats_b = NULL;
  ref->value = malloc(count * sizeof *ref->value);
  ref->scale = malloc(count * sizeof *ref->scale);
  int status = ref->value && ref->scale && (floats_a = tensor_to_float(a)) && (floats_b = tensor_to_float(b)) ? 0 : -1;
  if (status) snprintf(error, error_size, "no memory for the reference of %zu elements", count);
  if (status == 0) {
    const conv_inputs in = {.a_shape = *a, .b_shape = *b, .a = floats_a, .b = floats_b};
    ref->by_gpu = use_gpu && by_gpu(ref, p, pass, a, b, random) == cudaSuccess;
    if (!ref->by_gpu) { /* without a GPU, or with too little memory on it */
      if (use_gpu) cudaGetLastError();
      status = reference_by_rows(ref, p, pass, &in);
      if (status) snprintf(error, error_size, "no memory for a row of the reference");
    }
    if (status == 0) status = spot_check(ref, p, pass, &in, random, error, error_size);
  }
  for (size_t i = 0; i < count && status == 0; i++) ref->largest_scale = fmaxf(ref->largest_scale, ref->scale[i]);
  free(floats_a);
  free(floats_b);
  if (status) reference_free(ref);
  return status;
}

void reference_free(conv_reference *ref) {
  free(ref->value);
  free(ref->scale);
  ref->value = NULL;
  ref->scale = NULL;
}
