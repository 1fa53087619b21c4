/* Asks kernels whether they can, and how they would. See plan.h. */
#include "common/harness/plan.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

static const char *const activation_names[ACTIVATION_COUNT] = {"nothing", "relu", "relu6", "gelu", "silu"};

/* What of the epilogue the kernel does not do; NULL: nothing. */
static const char *not_fused(const conv_kernel *k, const conv_epilogue *e) {
  if (e->scale && !(k->fuses & FUSES_SCALE)) return "scale";
  if (e->bias && !(k->fuses & FUSES_BIAS)) return "bias";
  if (e->residual && !(k->fuses & FUSES_RESIDUAL)) return "residual";
  return e->activation && !(k->fuses & FUSES_ACTIVATION) ? activation_names[e->activation] : NULL;
}

/* Kernels count rows and columns by ints, and a block's last windows may begin many outputs behind the last one. */
static bool beyond_ints(int out, int stride, int taps, int dil) {
  enum { SPARE = 1024 };
  return ((int64_t)out + SPARE) * stride + ((int64_t)taps + SPARE) * dil > INT_MAX;
}

/* Sizes with which a kernel's own plan() would overflow before it could refuse them; NULL: none. */
static const char *too_large(const conv_problem *p) {
  if (problem_w_count(p) > INT_MAX) return "w has 2^31 elements or more (indices are 32-bit)";
  return beyond_ints(p->P, p->stride_h, p->R, p->dil_h) || beyond_ints(p->Q, p->stride_w, p->S, p->dil_w)
             ? "a stride or dilation by which windows reach row or column 2^31 (indices are 32-bit)"
             : NULL;
}

const char *kernel_plan(const conv_kernel *k, const conv_operation *o, const conv_device *device, conv_plan *plan) {
  memset(plan, 0, sizeof *plan);
  plan->operation = *o;
  if (k->place == ON_GPU && k->min_arch > device->arch) {
    snprintf(plan->why_not, sizeof plan->why_not, "needs compute capability %d.%d, this GPU has %d.%d", k->min_arch / 10, k->min_arch % 10, device->arch / 10,
             device->arch % 10);
    return plan->why_not;
  }
  if (k->does != o->kind) return "does another kind of operation";
  if (k->stores_fp32 != o->epilogue.fp32) return k->stores_fp32 ? "stores its result as fp32" : "does not store its result as fp32";
  const char *missing = not_fused(k, &o->epilogue);
  if (missing) {
    snprintf(plan->why_not, sizeof plan->why_not, "does not fuse %s", missing);
    return plan->why_not;
  }
  const char *why = k->place == ON_GPU && o->kind == OPERATION_CONVOLUTION ? too_large(&o->problem) : NULL;
  return why ? why : k->plan(o, device, plan);
}

const char *kernel_plan_pass(const conv_kernel *k, const conv_problem *p, const conv_device *device, conv_plan *plan) {
  const conv_operation o = {.problem = *p, .pass = k->pass, .epilogue = {.fp32 = k->stores_fp32}};
  return kernel_plan(k, &o, device, plan);
}

const char *plan_failed(conv_plan *plan, cudaError_t status) {
  cudaGetLastError(); /* or the next kernel's launch would be blamed for it */
  plan->failed = status;
  snprintf(plan->why_not, sizeof plan->why_not, "cannot be planned: %s", cudaGetErrorString(status));
  return plan->why_not;
}

cudaError_t plan_allow_shared(const void *kernel, size_t bytes) {
  struct cudaFuncAttributes now;
  const cudaError_t status = cudaFuncGetAttributes(&now, kernel);
  if (status) return status;
  /* Said even of 48 KiB or less: what is there without saying is less by what the kernel declares. */
  const int most = now.maxDynamicSharedSizeBytes > (int)bytes ? now.maxDynamicSharedSizeBytes : (int)bytes;
  return cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, most);
}
