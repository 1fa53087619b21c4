/* What plain kernels have in common: 32-bit indices, one fp32 chain per output, no workspace; and their rows. */
#pragma once
#include <limits.h>

#include "common/conv/bound.h"
#include "common/harness/plan.h"

/* Indices are ints, as a beginner writes them, so every tensor must be countable by one (with room for a last partial block). */
static inline const char *plain_unsupported(const conv_problem *p, const conv_device *device) {
  (void)device;
  const int64_t most = INT_MAX - 1024;
  if (problem_x_count(p) > most) return "x has 2^31 elements or more (indices are 32-bit)";
  if (problem_w_count(p) > most) return "w has 2^31 elements or more (indices are 32-bit)";
  if (problem_y_count(p) > most) return "y has 2^31 elements or more (indices are 32-bit)";
  return NULL;
}

/* plan() of a kernel that has nothing to decide. */
static inline const char *plain_plan(const conv_operation *o, const conv_device *device, conv_plan *plan) {
  (void)plan;
  return plain_unsupported(&o->problem, device);
}

/* One thread adds up all products of its output, one after the other. */
static inline double plain_growth_fprop(const conv_problem *p, bool random) { return growth_chain_fp32((double)problem_terms(p, PASS_FPROP), random); }
static inline double plain_growth_dgrad(const conv_problem *p, bool random) { return growth_chain_fp32((double)problem_terms(p, PASS_DGRAD), random); }
static inline double plain_growth_wgrad(const conv_problem *p, bool random) { return growth_chain_fp32((double)problem_terms(p, PASS_WGRAD), random); }

/* A row of the kernel table for an fp32 NCHW kernel. The declaration gives the row C linkage, for the step's kernels.c. */
#define NCHW_ROW(variable, NAME, IDEA, PASS, PLAN, LAUNCH, GROWTH) \
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

/* A row of the kernel table for an fp16 NHWC kernel, from compute capability MIN_ARCH / 10 on. */
#define NHWC_ROW(variable, NAME, IDEA, PASS, MIN_ARCH, PLAN, LAUNCH, GROWTH) NHWC_FUSING_ROW(variable, NAME, IDEA, PASS, MIN_ARCH, PLAN, LAUNCH, GROWTH, 0)

/* The same for one that fuses parts of an epilogue, FUSES_... */
#define NHWC_FUSING_ROW(variable, NAME, IDEA, PASS, MIN_ARCH, PLAN, LAUNCH, GROWTH, FUSES) \
  extern "C" const conv_kernel variable;                                                   \
  const conv_kernel variable = {.name = NAME,                                              \
                                .idea = IDEA,                                              \
                                .place = ON_GPU,                                           \
                                .pass = PASS,                                              \
                                .dtype = DTYPE_FP16,                                       \
                                .layout = LAYOUT_NHWC,                                     \
                                .min_arch = MIN_ARCH,                                      \
                                .plan = PLAN,                                              \
                                .launch = LAUNCH,                                          \
                                .growth = GROWTH,                                          \
                                .fuses = FUSES}
