/* A recurrent layer, all of its steps: h[t] = activation(z[t] + U h[t-1]). What comes from the input, z = W x + b, is one matrix product for all steps, made before. */
#pragma once
#include <cuda_runtime_api.h>
#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct recurrent_layer {
  int hidden; /* 64, 128, 256, 512 or 1024 */
  int batch, steps;
  bool relu; /* else no activation */
  int rows;  /* of the batch, a cluster's; recurrent_plan() sets it */
} recurrent_layer;

/* NULL, or why 07i does not compute it, in words; *status: of a CUDA call that failed. Sets what the launch needs. */
const char *recurrent_plan(recurrent_layer *layer, int arch, cudaError_t *status);

/* All steps in one launch. u [hidden][hidden], first [batch][hidden], z and h [steps][batch][hidden]: halves in device memory, 16-byte aligned. Returns the first error. */
cudaError_t recurrent_launch(const recurrent_layer *layer, const void *u, const void *first, const void *z, void *h, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
