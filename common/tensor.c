/* Host tensors. See tensor.h. */
#include "common/tensor.h"

#include <stdlib.h>
#include <string.h>

#include "common/half.h"
#include "common/random.h"

const char *role_name(tensor_role role, conv_pass pass) {
  static const char *const names[3][2] = {{"x", "dx"}, {"w", "dw"}, {"y", "dy"}};
  const bool gradient = role == TENSOR_Y ? pass != PASS_FPROP : role == pass_output(pass) && pass != PASS_FPROP;
  return names[role][gradient];
}

const char *role_axes(tensor_role role) {
  static const char *const axes[3] = {"n,c,h,w", "k,c,r,s", "n,k,p,q"};
  return axes[role];
}

conv_tensor tensor_describe(const conv_problem *p, tensor_role role, conv_dtype dtype, conv_layout layout) {
  conv_tensor t = {.role = role, .dtype = dtype, .layout = layout};
  const int dims[3][4] = {{p->N, p->C, p->H, p->W}, {p->K, p->C / p->groups, p->R, p->S}, {p->N, p->K, p->P, p->Q}};
  memcpy(t.dim, dims[role], sizeof t.dim);
  static const int memory_order[LAYOUT_COUNT][4] = {[LAYOUT_NCHW] = {0, 1, 2, 3}, [LAYOUT_NHWC] = {0, 2, 3, 1}}; /* slowest axis first */
  int64_t stride = 1;
  for (int i = 3; i >= 0; i--) {
    const int axis = memory_order[layout][i];
    t.stride[axis] = stride;
    stride *= t.dim[axis];
  }
  t.count = stride;
  return t;
}

int tensor_alloc(conv_tensor *t) {
  const size_t bytes = (tensor_bytes(t) + 511) / 512 * 512;
  t->data = aligned_alloc(512, bytes);
  return t->data ? 0 : -1;
}

void tensor_free(conv_tensor *t) {
  free(t->data);
  t->data = NULL;
}

float tensor_get(const conv_tensor *t, int64_t offset) {
  return t->dtype == DTYPE_FP16 ? half_to_float(((const uint16_t *)t->data)[offset]) : ((const float *)t->data)[offset];
}

void tensor_set(conv_tensor *t, int64_t offset, double value) {
  if (t->dtype == DTYPE_FP16)
    ((uint16_t *)t->data)[offset] = half_from_double(value);
  else
    ((float *)t->data)[offset] = (float)value;
}

int64_t tensor_offset(const conv_tensor *t, int64_t index) {
  int64_t offset = 0;
  for (int axis = 3; axis >= 0; axis--) {
    offset += index % t->dim[axis] * t->stride[axis];
    index /= t->dim[axis];
  }
  return offset;
}

void tensor_coordinates(const conv_tensor *t, int64_t offset, int at[4]) {
  for (int axis = 0; axis < 4; axis++) at[axis] = (int)(offset / t->stride[axis] % t->dim[axis]);
}

void tensor_fill_normal(conv_tensor *t, uint64_t seed) {
#pragma omp parallel for if (t->count >= TENSOR_THREADS)
  for (int64_t i = 0; i < t->count; i++) tensor_set(t, tensor_offset(t, i), random_normal(seed, (uint64_t)i));
}

void tensor_fill_integers(conv_tensor *t, uint64_t seed, int magnitude) {
#pragma omp parallel for if (t->count >= TENSOR_THREADS)
  for (int64_t i = 0; i < t->count; i++) {
    const int value = 1 + (int)random_below(seed, (uint64_t)i, 2 * (uint64_t)magnitude); /* 1 .. 2m */
    tensor_set(t, tensor_offset(t, i), value > magnitude ? magnitude - value : value);
  }
}

float *tensor_to_float(const conv_tensor *t) {
  float *values = malloc((size_t)t->count * sizeof *values);
  if (!values) return NULL;
#pragma omp parallel for if (t->count >= TENSOR_THREADS)
  for (int64_t i = 0; i < t->count; i++) values[i] = tensor_get(t, i);
  return values;
}
