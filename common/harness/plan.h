/* Plan, then launch: everything that a kernel decides for a problem is decided once, before anything runs and outside the time. */
#pragma once
#include "common/harness/kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Asks a kernel. NULL: it computes this operation on this device, *plan has what launch() needs. Else why not, in words (they may stand in the plan). */
const char *kernel_plan(const conv_kernel *kernel, const conv_operation *operation, const conv_device *device, conv_plan *plan);

/* The same for a plain pass without an epilogue. */
const char *kernel_plan_pass(const conv_kernel *kernel, const conv_problem *problem, const conv_device *device, conv_plan *plan);

/* For a plan() whose CUDA call failed: notes the error, and is the reason to return. */
const char *plan_failed(conv_plan *plan, cudaError_t status);

/* For a plan() whose kernel wants so much dynamic shared memory: lets it have that, and never less than an earlier plan was promised. */
cudaError_t plan_allow_shared(const void *kernel, size_t bytes);

#ifdef __cplusplus
}

/* What a kernel's plan() leaves for its launch(): a struct of its own, without pointers into itself. */
template <class T> static inline T *plan_data(conv_plan *plan) {
  static_assert(sizeof(T) <= sizeof plan->data && alignof(T) <= 128, "raise PLAN_BYTES");
  return (T *)plan->data;
}
template <class T> static inline const T *plan_data(const conv_plan *plan) {
  static_assert(sizeof(T) <= sizeof plan->data && alignof(T) <= 128, "raise PLAN_BYTES");
  return (const T *)plan->data;
}
#endif
