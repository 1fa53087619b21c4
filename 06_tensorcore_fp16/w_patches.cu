/* 06w: patches: windows that do not overlap are pixels of more channels, and nothing has to move.
 *
 * Terms:    patch embedding, space-to-depth.
 * Idea:     a vision transformer's first layer has filters of 16 x 16 with a stride of 16. Of a row of x, 16 pixels of 3 channels belong to one window alone: in memory
 *           they are one pixel of 48 channels. So x [H][W][3] is [H][W / 16][48], the filters [16][16][3] are [16][1][48], and the layer one of 16 x 1 with a stride
 *           down the image alone: what other kernels of this step do (06f, 06k, 06l).
 * Strides:  tensor maps know strides up to 8. Two rows of x, one after the other in memory, are a row of twice the length; a filter's two rows lie W / 16 columns apart
 *           in it, as if it were dilated: [H / 2][2 W / 16][48] and [8][2][48], dilation W / 16, stride 8.
 * Change:   no kernel: other names for the same bytes.
 * Expect:   (before anything ran on a GPU) 48 of 64 channels of a step count: half of 06f's rate.
 * Passes:   all three. Layout: NHWC, filters KRSC, fp16 with fp32 sums. Windows side by side without padding, and their rows a multiple of 8 halves. */
#include <cuda_runtime.h>
#include <stdio.h>

#include "common/harness/plain.h"

extern "C" const conv_kernel persistent_fprop, strided_dgrad, dense_wgrad;
static const conv_kernel *const of_pass[PASS_COUNT] = {&persistent_fprop, &strided_dgrad, &dense_wgrad};

/* The same layer with patches' rows as channels; NULL or why it is none of patches. */
static const char *as_pixels(const conv_problem *p, conv_problem *as) {
  if (p->groups > 1) return "groups";
  if (p->S == 1 || p->stride_w != p->S || p->dil_w > 1) return "windows that overlap or leave columns out";
  if (p->pad_top != 0 || p->pad_left != 0 || p->pad_bottom > 0 || p->pad_right > 0) return "padding";
  if (p->W != (int64_t)p->Q * p->S) return "columns beside the windows";
  if (p->S * (int64_t)p->C % 8 != 0) return "a row of a window is no multiple of 8 halves";
  *as = *p;
  as->C = p->S * p->C, as->W = p->Q, as->S = 1, as->stride_w = 1;
  while (as->stride_h > 8 && as->stride_h % 2 == 0 && as->R % 2 == 0 && as->H % 2 == 0 && as->dil_h == 1 && as->S == 1) {
    as->H /= 2, as->W *= 2, as->R /= 2, as->S *= 2, as->stride_h /= 2;
    as->dil_w = p->Q;
  }
  as->pad_bottom = (as->P - 1) * as->stride_h + (as->R - 1) * as->dil_h + 1 - as->H, as->pad_right = 0;
  return NULL;
}

static const char *plan_patches(const conv_operation *o, const conv_device *device, conv_plan *plan) {
  conv_operation as = *o;
  const char *why = as_pixels(&o->problem, &as.problem);
  return why ? why : of_pass[o->pass]->plan(&as, device, plan);
}

static cudaError_t launch_patches(const conv_plan *plan, const conv_buffers *b, cudaStream_t stream) {
  conv_plan as = *plan;
  as_pixels(&plan->operation.problem, &as.operation.problem);
  return of_pass[plan->operation.pass]->launch(&as, b, stream);
}

static double growth_of(conv_pass pass, const conv_problem *p, bool random) {
  conv_problem as;
  return as_pixels(p, &as) ? 0 : of_pass[pass]->growth(&as, random);
}
static double growth_fprop(const conv_problem *p, bool random) { return growth_of(PASS_FPROP, p, random); }
static double growth_dgrad(const conv_problem *p, bool random) { return growth_of(PASS_DGRAD, p, random); }
static double growth_wgrad(const conv_problem *p, bool random) { return growth_of(PASS_WGRAD, p, random); }

#define IDEA "patches: windows side by side are pixels of more channels"
NHWC_ROW(patches_fprop, "06w", IDEA, PASS_FPROP, 90, plan_patches, launch_patches, growth_fprop);
NHWC_ROW(patches_dgrad, "06w", IDEA, PASS_DGRAD, 90, plan_patches, launch_patches, growth_dgrad);
NHWC_ROW(patches_wgrad, "06w", IDEA, PASS_WGRAD, 90, plan_patches, launch_patches, growth_wgrad);
