/* Tensors: four logical axes, whatever their order in memory. */
#pragma once
#include "common/conv/half.h"
#include "common/conv/problem.h"
#include "common/conv/random.h"

/* The three tensors of a problem. Logical axes: x (dx): N C H W; w (dw): K C/groups R S; y (dy): N K P Q. */
typedef enum { TENSOR_X, TENSOR_W, TENSOR_Y } tensor_role;

typedef struct conv_tensor {
  tensor_role role;
  conv_dtype dtype;
  conv_layout layout;
  int dim[4];        /* logical order */
  int64_t stride[4]; /* in elements, logical order */
  int64_t count;     /* elements; tensors are dense */
  void *data;        /* host memory, unless somebody says otherwise */
} conv_tensor;

/* The roles a pass reads (first, second) and writes. */
static inline tensor_role pass_input_a(conv_pass pass) { return pass == PASS_DGRAD ? TENSOR_Y : TENSOR_X; }
static inline tensor_role pass_input_b(conv_pass pass) { return pass == PASS_WGRAD ? TENSOR_Y : TENSOR_W; }
static inline tensor_role pass_output(conv_pass pass) { return pass == PASS_FPROP ? TENSOR_Y : pass == PASS_DGRAD ? TENSOR_X : TENSOR_W; }

const char *role_name(tensor_role role, conv_pass pass); /* "x", "dw" ... */
const char *role_axes(tensor_role role);                 /* "n,c,h,w" ... */

/* The shape without memory: data is NULL. */
conv_tensor tensor_describe(const conv_problem *p, tensor_role role, conv_dtype dtype, conv_layout layout);

/* Allocates uninitialised data, 512-byte aligned. Returns 0, or -1 when there is no memory. Free with tensor_free. */
int tensor_alloc(conv_tensor *t);
void tensor_free(conv_tensor *t);
static inline size_t tensor_bytes(const conv_tensor *t) { return (size_t)t->count * dtype_bytes(t->dtype); }

/* A number as the dtype keeps it: exact as a float for both. */
static inline HOST_DEVICE float dtype_round(double value, conv_dtype dtype) {
  return dtype == DTYPE_FP16 ? half_to_float(half_from_double(value)) : (float)value;
}

/* From so many elements on, a loop over them is shared among threads: with fewer, starting those takes longer than the loop. */
enum { TENSOR_THREADS = 1 << 13 };

/* Element at a memory offset (in elements), as a float. */
static inline HOST_DEVICE float tensor_get(const conv_tensor *t, int64_t offset) {
  return t->dtype == DTYPE_FP16 ? half_to_float(((const uint16_t *)t->data)[offset]) : ((const float *)t->data)[offset];
}
static inline HOST_DEVICE void tensor_set(const conv_tensor *t, int64_t offset, double value) { /* rounds to the dtype */
  if (t->dtype == DTYPE_FP16) ((uint16_t *)t->data)[offset] = half_from_double(value);
  else ((float *)t->data)[offset] = (float)value;
}

/* Memory offset of the element whose position in logical order (last axis fastest) is `index`, and back; the offset's coordinates. */
static inline HOST_DEVICE int64_t tensor_offset(const conv_tensor *t, int64_t index) {
  int64_t offset = 0;
  for (int axis = 3; axis >= 0; axis--) {
    offset += index % t->dim[axis] * t->stride[axis];
    index /= t->dim[axis];
  }
  return offset;
}
static inline HOST_DEVICE void tensor_coordinates(const conv_tensor *t, int64_t offset, int at[4]) {
  for (int axis = 0; axis < 4; axis++) at[axis] = (int)(offset / t->stride[axis] % t->dim[axis]);
}
static inline HOST_DEVICE int64_t tensor_index(const conv_tensor *t, int64_t offset) {
  int at[4];
  tensor_coordinates(t, offset, at);
  return ((at[0] * (int64_t)t->dim[1] + at[1]) * t->dim[2] + at[2]) * t->dim[3] + at[3];
}

/* Where a tensor's values come from: another tensor of its shape, on the host; or, where that is NULL, random numbers. A random value depends on the seed and
 * the logical position alone, so every layout holds the same tensor. */
typedef struct conv_source {
  const conv_tensor *given;
  uint64_t seed;
  int magnitude; /* 0: normal, mean 0, deviation 1; else integers -magnitude .. magnitude without 0, so that no product can go missing unseen */
  bool half;     /* random ones are rounded to fp16, whatever the tensor's type */
} conv_source;

static inline HOST_DEVICE double random_value(conv_source from, int64_t index) {
  const double value = from.magnitude ? random_integer(from.seed, (uint64_t)index, from.magnitude) : random_normal(from.seed, (uint64_t)index);
  return from.half ? dtype_round(value, DTYPE_FP16) : value;
}

double source_value(const conv_source *from, int64_t index); /* on the host, before it is rounded to a dtype */
void tensor_fill(conv_tensor *t, conv_source from);          /* a host tensor */
void tensor_fill_normal(conv_tensor *t, uint64_t seed);
void tensor_fill_integers(conv_tensor *t, uint64_t seed, int magnitude);

/* Same element values as floats in the same memory order; a fresh array of count floats, or NULL when there is no memory. */
float *tensor_to_float(const conv_tensor *t);
