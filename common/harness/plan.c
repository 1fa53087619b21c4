/* Asks kernels whether they can, and how they would. See plan.h. */
#include "common/harness/plan.h"

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
  return k->plan(o, device, plan);
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
