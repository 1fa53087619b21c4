/* What the device does in place of the host: it makes data, computes the right answer, compares. All memory here is the device's; kernels run on the default
 * stream, and what returns values waits for them. Each returns the first error of its calls. */
#pragma once
#include <cuda_runtime_api.h>

#include "common/conv/epilogue.h"
#include "common/conv/judge.h"
#include "common/conv/operation.h"
#include "common/conv/reference.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Blocks for `count` elements: each thread takes one, and from a number on that fills any GPU several times, more. */
enum { GPU_THREADS = 256, GPU_MOST_BLOCKS = 4096 };
static inline unsigned gpu_blocks(int64_t count) {
  const int64_t blocks = (count + GPU_THREADS - 1) / GPU_THREADS, most = GPU_MOST_BLOCKS;
  return (unsigned)(blocks < most ? blocks : most);
}

/* Fills a tensor with random numbers: bit for bit what the host's tensor_fill_normal and tensor_fill_integers do. */
cudaError_t gpu_fill(const conv_tensor *t, conv_source from);

/* The same elements in another layout. */
cudaError_t gpu_copy(const conv_tensor *to, const conv_tensor *from);

/* The largest of `count` floats that are 0 or more; NaN are passed over, 0 if there is nothing else. room: GPU_ROOM bytes. */
enum { GPU_ROOM = 2048 };
cudaError_t gpu_largest(const float *values, int64_t count, void *room, float *largest);

/* `data` beside what it must be: where they differ first and last (-1: nowhere). At most GPU_PAIRS of them; room: GPU_ROOM bytes. */
enum { GPU_PAIRS = 96 };
typedef struct gpu_pair {
  const void *data, *want;
  size_t bytes;
} gpu_pair;
typedef struct gpu_difference {
  int64_t first, last;
} gpu_difference;
cudaError_t gpu_differences(const gpu_pair pairs[], int count, void *room, gpu_difference found[]);

/* All of a result beside the reference, which is in device memory too. */
typedef struct gpu_comparison {
  int64_t mismatches;
  double worst_share, plain_share;
} gpu_comparison;
cudaError_t gpu_compare(const conv_tensor *out, const conv_reference *ref, const conv_judge *judge, gpu_comparison *all);

/* The first wrong element from `from` on, in the reference's order; there must be one. */
typedef struct gpu_mismatch {
  int64_t offset; /* in the reference */
  float got;
  double value;
  float scale;
} gpu_mismatch;
cudaError_t gpu_next_mismatch(const conv_tensor *out, const conv_reference *ref, const conv_judge *judge, int64_t from, gpu_mismatch *m);

/* reference_fuse() for a reference and data in device memory, but for its largest scale. */
cudaError_t gpu_fuse(const conv_reference *ref, const conv_epilogue *e, const epilogue_data *data);

/* operation_reference() of an operation without products, but for its largest scale. */
cudaError_t gpu_pixels(const conv_reference *ref, const conv_operation *o, const conv_tensor *x);

#ifdef __cplusplus
}
#endif
