/* The right answer of an operation. See operation_reference.h. */
#include "common/conv/operation_reference.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/conv/gpu.h"

void reference_fuse(conv_reference *ref, const conv_epilogue *e, const epilogue_data *data) {
  float largest = 0;
#pragma omp parallel for reduction(max : largest) if (ref->shape.count >= TENSOR_THREADS)
  for (int64_t i = 0; i < ref->shape.count; i++) {
    int at[4];
    tensor_coordinates(&ref->shape, i, at);
    const double scale = e->scale ? tensor_get(&data->scale, at[1]) : 1, bias = e->bias ? tensor_get(&data->bias, at[1]) : 0;
    const double residual = e->residual ? tensor_get(&data->residual, i) : 0;
    ref->value[i] = epilogue_value(e, ref->value[i], scale, bias, residual);
    ref->scale[i] = epilogue_scale(e, ref->scale[i], scale, bias, residual);
    largest = fmaxf(largest, ref->scale[i]);
  }
  ref->largest_scale = largest;
}

cudaError_t reference_fuse_on_device(conv_reference *ref, const conv_epilogue *e, const epilogue_data *data) {
  const cudaError_t status = gpu_fuse(ref, e, data);
  return status ? status : gpu_largest(ref->scale, ref->shape.count, ref->room, &ref->largest_scale);
}

int operation_reference(conv_reference *ref, const conv_operation *o, const conv_tensor *a, const conv_tensor *b, const epilogue_data *data, bool random,
                        bool use_gpu, char *error, size_t error_size) {
  if (o->kind == OPERATION_CONVOLUTION) {
    if (reference_compute(ref, &o->problem, o->pass, a, b, random, use_gpu, error, error_size)) return -1;
  } else {
    *ref = (conv_reference){.shape = tensor_describe(&o->problem, TENSOR_Y, a->dtype, a->layout), .random = random, .terms = 1};
    ref->value = malloc((size_t)ref->shape.count * sizeof *ref->value);
    ref->scale = malloc((size_t)ref->shape.count * sizeof *ref->scale);
    if (!ref->value || !ref->scale) {
      snprintf(error, error_size, "no memory for the reference of %lld elements", (long long)ref->shape.count);
      reference_free(ref);
      return -1;
    }
#pragma omp parallel for if (ref->shape.count >= TENSOR_THREADS)
    for (int64_t i = 0; i < ref->shape.count; i++) {
      int at[4];
      tensor_coordinates(&ref->shape, i, at);
      ref->value[i] = operation_pixel(o, a, at);
      ref->scale[i] = round_scale(fabs(ref->value[i]));
    }
  }
  if (!epilogue_empty(&o->epilogue)) reference_fuse(ref, &o->epilogue, data);
  return 0;
}

int operation_reference_on_device(conv_reference *ref, const conv_operation *o, const conv_tensor *a, const conv_tensor *b, const epilogue_data *data,
                                  bool random, char *error, size_t error_size) {
  if (o->kind == OPERATION_CONVOLUTION) {
    const int made = reference_compute_on_device(ref, &o->problem, o->pass, a, b, random, error, error_size);
    if (made) return made;
  } else {
    *ref = (conv_reference){.shape = tensor_describe(&o->problem, TENSOR_Y, a->dtype, a->layout), .random = random, .terms = 1, .by_gpu = true};
    cudaError_t status = reference_alloc_on_device(ref);
    if (!status) status = gpu_pixels(ref, o, a);
    if (!status) status = gpu_largest(ref->scale, ref->shape.count, ref->room, &ref->largest_scale);
    const int made = reference_made(ref, status, error, error_size);
    if (made) return made;
  }
  return epilogue_empty(&o->epilogue) ? 0 : reference_made(ref, reference_fuse_on_device(ref, &o->epilogue, data), error, error_size);
}
