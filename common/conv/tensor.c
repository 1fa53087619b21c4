/* Tensors on the host. See tensor.h. */
#include "common/conv/tensor.h"

#include <stdlib.h>
#include <string.h>

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

double source_value(const conv_source *from, int64_t index) {
  return from->given ? (double)tensor_get(from->given, tensor_offset(from->given, index)) : random_value(*from, index);
}

void tensor_fill(conv_tensor *t, conv_source from) {
#pragma omp parallel for if (t->count >= TENSOR_THREADS)
  for (int64_t i = 0; i < t->count; i++) tensor_set(t, tensor_offset(t, i), source_value(&from, i));
}

void tensor_fill_normal(conv_tensor *t, uint64_t seed) { tensor_fill(t, (conv_source){.seed = seed}); }
void tensor_fill_integers(conv_tensor *t, uint64_t seed, int magnitude) { tensor_fill(t, (conv_source){.seed = seed, .magnitude = magnitude}); }

float *tensor_to_float(const conv_tensor *t) {
  float *values = malloc((size_t)t->count * sizeof *values);
  if (!values) return NULL;
#pragma omp parallel for if (t->count >= TENSOR_THREADS)
  for (int64_t i = 0; i < t->count; i++) values[i] = tensor_get(t, i);
  return values;
}
