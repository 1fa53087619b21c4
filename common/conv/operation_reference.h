/* The right answer of a whole operation: a pass, or something simpler, and its epilogue. */
#pragma once
#include <math.h>

#include "common/conv/epilogue.h"
#include "common/conv/reference.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The right answer of a whole operation from its inputs (b: NULL for one without a filter): reference_compute() or, for the other kinds, what they are,
 * exact but for the epilogue; then reference_fuse(). Returns and frees as reference_compute(). */
int operation_reference(conv_reference *ref, const conv_operation *o, const conv_tensor *a, const conv_tensor *b, const epilogue_data *data, bool random,
                        bool use_gpu, char *error, size_t error_size);

/* The same where everything stays on the device, as reference_compute_on_device(): not checked yet. */
int operation_reference_on_device(conv_reference *ref, const conv_operation *o, const conv_tensor *a, const conv_tensor *b, const epilogue_data *data,
                                  bool random, char *error, size_t error_size);

/* What an operation without products takes of x for the result at[]: the pixel itself, or the largest of a window. */
static inline HOST_DEVICE double operation_pixel(const conv_operation *o, const conv_tensor *x, const int at[4]) {
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

/* Applies the epilogue to the reference of the plain pass. */
void reference_fuse(conv_reference *ref, const conv_epilogue *e, const epilogue_data *data);
/* The same where the reference and the data are in device memory. Returns the first error of its CUDA calls. */
cudaError_t reference_fuse_on_device(conv_reference *ref, const conv_epilogue *e, const epilogue_data *data);

#ifdef __cplusplus
}
#endif
