/* What the rows of this step have in common: how they are written down, and how their plans are finished. */
#pragma once
#include <stdio.h>

#include "common/harness/plain.h"
#include "common/harness/plan.h"

/* "64 x 128 tiles, 3 slices, 132 blocks" */
static inline void tile_words(conv_plan *plan, int rows, int columns, int slices, int64_t blocks) {
  char cut[32] = "";
  if (slices > 1) snprintf(cut, sizeof cut, ", %d slices", slices);
  snprintf(plan->words, sizeof plan->words, "%d x %d tiles%s, %lld block%s", rows, columns, cut, (long long)blocks, blocks == 1 ? "" : "s");
}

/* A row of the kernel table for an fp32 NCHW kernel. The declaration gives the row C linkage, for the step's kernels.c. */
#define GEMM_ROW(variable, NAME, IDEA, PASS, PLAN, LAUNCH, GROWTH) \
  extern "C" const conv_kernel variable;                           \
  const conv_kernel variable = {.name = NAME,                      \
                                .idea = IDEA,                      \
                                .place = ON_GPU,                   \
                                .pass = PASS,                      \
                                .dtype = DTYPE_FP32,               \
                                .layout = LAYOUT_NCHW,             \
                                .min_arch = 0,                     \
                                .plan = PLAN,                      \
                                .launch = LAUNCH,                  \
                                .growth = GROWTH}
