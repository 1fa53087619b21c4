/* What the depthwise kernels in fp16 (04g to 04i; step 06's too) have in common on the host. */
#pragma once
#include <cuda_runtime.h>

#include "common/harness/plain.h"

static inline const char *depthwise_unsupported(const conv_problem *p, const conv_device *device) {
  if (p->C != p->groups || p->K != p->groups) return "not depthwise: C, K and groups differ";
  if (p->C % 2 != 0) return "C is odd (two channels a thread)";
  return plain_unsupported(p, device);
}

/* A square filter without dilation, and the same stride both ways: what the rows of their tables of kernels are for. */
static inline bool is_square(const conv_problem *p, int size, int stride) {
  return p->R == size && p->S == size && p->stride_h == stride && p->stride_w == stride && p->dil_h == 1 && p->dil_w == 1;
}

/* Rows of a strip, of `rows` in all: the fewer, the more threads; the more, the fewer rows that complete nothing. `columns`: threads that one strip
 * takes. Twice the threads that the GPU holds at a time, `held`, are enough. */
static inline int depthwise_strip(int64_t columns, int rows, int least, int64_t held) {
  int strips = 1;
  while (columns * strips < 2 * held && rows / (strips + 1) >= least) strips++;
  return (rows + strips - 1) / strips;
}
