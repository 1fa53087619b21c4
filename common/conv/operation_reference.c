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

/* x itself, or the largest pixel of each window. */
static double chosen_pixel(const conv_operation *o, const conv_tensor *x, const int at[4]) {
  const conv_problem *p = &o->problem;
  double most = -INFINITY;
  const bool pools = o->kind == OPERATION_MAX_POOL;
  for (int r = 0; r < (pools ? p->R : 1); r++)
    for (int s = 0; s < (pools ? p->S : 1); s++) {
      const int h = pools ? at[2] * p->stride_h - p->pad_top + r * p->dil_h : at[2], w = pools ? at[3] * p->stride_w - p->pad_left + s * p->dil_w : at[3];
      if (h < 0 || h >= p->H || w < 0 || w >= p->W) continue;
      most = fmax(most, (double)tensor_get(x, at[0] * x->stride[0] + at[1] * x->stride[1] + h * x->stride[2] + w * x->stride[3]));
    }
  return most;
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
      ref->value[i] = chosen_pixel(o, a, at);
      ref->scale[i] = round_scale(fabs(ref->value[i]));
    }
  }
  if (!epilogue_empty(&o->epilogue)) reference_fuse(ref, &o->epilogue, data);
  return 0;
}
