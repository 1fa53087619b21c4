/* The right answer of a pass, and the scale of its error bound, for every element of the result. */
#pragma once
#include <cuda_runtime_api.h>

#include "common/conv/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct conv_reference {
  conv_tensor shape;   /* of the result; elements below lie in its memory order */
  double *value;       /* the sum, accumulated in fp64 */
  float *scale;        /* sum |x w|, or sqrt(sum (x w)^2) where the data is random (common/conv/bound.h); infinite if fp32 cannot hold it */
  bool random;         /* which of the two */
  int64_t terms;       /* products in a sum, at most */
  float largest_scale; /* of all elements */
  bool by_gpu; /* by the fp64 kernel below, else by common/conv/reference_rows.c; a few elements of either are compared with 00_cpu_reference/a_definition.c */
  void *room;  /* NULL: value and scale are in host memory. Else they are on the device, and so is this room for what a comparison finds (common/conv/gpu.h) */
} conv_reference;

/* Computes the reference of a pass from its two inputs (host tensors, already rounded to their dtype).
 * random: the inputs are independent random numbers of mean zero. use_gpu: the GPU may do it.
 * Returns 0, REFERENCE_NO_ROOM if there is too little memory, or -1; a line in `error` with either. Free with reference_free. */
enum { REFERENCE_NO_ROOM = 1 };
int reference_compute(conv_reference *ref, const conv_problem *p, conv_pass pass, const conv_tensor *a, const conv_tensor *b, bool random, bool use_gpu,
                      char *error, size_t error_size);
void reference_free(conv_reference *ref);

/* The same where everything stays on the device: a and b are in its memory, and the reference will be. Not checked yet: spot_check()
 * (common/conv/spot_check.h) is the caller's to call. Returns and frees as reference_compute(). */
int reference_compute_on_device(conv_reference *ref, const conv_problem *p, conv_pass pass, const conv_tensor *a, const conv_tensor *b, bool random,
                                char *error, size_t error_size);

/* Its parts, where something else than a pass is computed. Device memory for a reference whose shape is there; and what came of making it: 0, or the
 * reference is freed, there is a line, and the return value is reference_compute()'s. */
cudaError_t reference_alloc_on_device(conv_reference *ref);
int reference_made(conv_reference *ref, cudaError_t status, char *error, size_t error_size);

/* The same by a plain fp64 kernel (common/conv/gpu_reference.cu). a, b: device memory behind the tensors' shapes; value, scale: device arrays
 * of out.count elements. Asynchronous on the default stream. */
cudaError_t gpu_reference(const conv_problem *p, conv_pass pass, const conv_tensor *a, const conv_tensor *b, const conv_tensor *out, double *value,
                          float *scale, bool random);

/* The same by the CPU, a row at a time (common/conv/reference_rows.c): of ref, shape, terms and random are there, value and scale are written.
 * Returns -1 when there is no memory. */
struct conv_inputs;
int reference_by_rows(conv_reference *ref, const conv_problem *p, conv_pass pass, const struct conv_inputs *in);

#ifdef __cplusplus
}
#endif
