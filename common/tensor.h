/* Host tensors: four logical axes, whatever their order in memory. */
#pragma once
#include "common/problem.h"

/* The three tensors of a problem. Logical axes: x (dx): N C H W; w (dw): K C/groups R S; y (dy): N K P Q. */
typedef enum { TENSOR_X, TENSOR_W, TENSOR_Y } tensor_role;

typedef struct conv_tensor {
  tensor_role role;
  conv_dtype dtype;
  conv_layout layout;
  int dim[4];        /* logical order */
  int64_t stride[4]; /* in elements, logical order */
  int64_t count;     /* elements; tensors are dense */
  void *data;        /* host memory */
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

/* From so many elements on, a loop over them is shared among threads: with fewer, starting those takes longer than the loop. */
enum { TENSOR_THREADS = 1 << 13 };

/* Element at a memory offset (in elements), as a float: exact for both dtypes. */
float tensor_get(const conv_tensor *t, int64_t offset);
void tensor_set(conv_tensor *t, int64_t offset, double value); /* rounds to the dtype */

/* Memory offset of the element whose position in logical order (last axis fastest) is `index`, and the way back to coordinates. */
int64_t tensor_offset(const conv_tensor *t, int64_t index);
void tensor_coordinates(const conv_tensor *t, int64_t offset, int at[4]);

/* Random data. A value depends on the seed and the logical position alone, so every layout holds the same tensor.
 * Normal: mean 0, deviation 1. Integers: -magnitude .. magnitude without 0, so that no product can go missing unseen. */
void tensor_fill_normal(conv_tensor *t, uint64_t seed);
void tensor_fill_integers(conv_tensor *t, uint64_t seed, int magnitude);

/* Same element values as floats in the same memory order; a fresh array of count floats, or NULL when there is no memory. */
float *tensor_to_float(const conv_tensor *t);
