/* What the depthwise kernels of the three passes (04f, 04g, 04h) have in common on the host. */
#pragma once
#include <cuda_runtime.h>

#include "common/harness/plain.h"

static inline const char *depthwise_unsupported(const conv_problem *p, const conv_device *device) {
  if (p->C != p->groups || p->K != p->groups) return "not depthwise: C, K and groups differ";
  if (p->C % 2 != 0) return "C is odd (two channels a thread)";
  return plain_unsupported(p, device);
}

/* Rows of a strip, of `rows` in all: the fewer, the more threads; the more, the fewer rows that complete nothing. `columns`: threads that one strip
 * takes. Twice the threads that the GPU holds at a time, `resident` a multiprocessor, are enough. */
static inline cudaError_t depthwise_strip(int64_t columns, int rows, int least, int resident, int *strip) {
  int device = 0, multiprocessors = 0, strips = 1;
  cudaError_t status = cudaGetDevice(&device);
  if (!status) status = cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device);
  while (columns * strips < 2LL * multiprocessors * resident && rows / (strips + 1) >= least) strips++;
  *strip = (rows + strips - 1) / strips;
  return status;
}

#define DEPTHWISE_ROW(variable, NAME, PASS, WORKSPACE, LAUNCH, GROWTH)                       \
  extern "C" const conv_kernel variable;                                                     \
  const conv_kernel variable = {.name = NAME,                                                \
                                .idea = "depthwise, fp16: two channels a thread",            \
                                .place = ON_GPU,                                             \
                                .pass = PASS,                                                \
                                .dtype = DTYPE_FP16,                                         \
                                .layout = LAYOUT_NHWC,                                       \
                                .min_arch = 53,                                              \
                                .unsupported = depthwise_unsupported,                        \
                                .workspace_bytes = WORKSPACE,                                \
                                .launch = LAUNCH,                                            \
                                .growth = GROWTH}
