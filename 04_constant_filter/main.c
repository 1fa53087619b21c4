/* Step 04: filters small enough to stay where the arithmetic is, while the image streams past. */
#include "common/step.h"

extern const conv_kernel constant_fprop, window_fprop, separable_fprop, large_fprop, banks_fprop, depthwise_fprop, depthwise_dgrad, depthwise_wgrad, tensor_wgrad;
extern const conv_kernel toeplitz_fprop, toeplitz_dgrad;
extern const conv_kernel planes_fprop, planes_dgrad, planes_wgrad, large_dgrad, large_wgrad, rows_fprop;

/* By the filter's size, where the kernel for it can do the problem. */
static const char *choose(const conv_problem *p, conv_pass pass, const conv_device *device, bool random) {
  if (p->C != p->groups) return "04a";
  if (pass == PASS_DGRAD) return p->R * p->S >= 64 && !large_dgrad.unsupported(p, device) ? "04d" : "04l";
  if (pass == PASS_WGRAD) return p->R * p->S >= 64 && !large_wgrad.unsupported(p, device) ? "04n" : "04m";
  if (random && p->K <= 4 && device->arch >= rows_fprop.min_arch && !rows_fprop.unsupported(p, device)) return "04o";
  if (p->K <= 4 && !banks_fprop.unsupported(p, device)) return "04e"; /* it copies and launches for each k */
  if (p->R * p->S >= 64 && !large_fprop.unsupported(p, device)) return "04d";
  const bool wide = p->Q >= 56 && p->stride_h == 1 && p->stride_w == 1;
  return p->K <= 4 || wide || planes_fprop.unsupported(p, device) ? "04b" : "04l";
}

/* Depthwise layers in fp16: on tensor cores where that kernel can, unless a warp of plain FMAs has less to set up. */
static const char *choose_fp16(const conv_problem *p, conv_pass pass, const conv_device *device, bool random) {
  (void)random;
  static const conv_kernel *const tensor[PASS_COUNT] = {&toeplitz_fprop, &toeplitz_dgrad, &tensor_wgrad}, *const plain[PASS_COUNT] = {&depthwise_fprop, &depthwise_dgrad, &depthwise_wgrad};
  const bool small = p->R * p->S <= 9, narrow = pass == PASS_FPROP ? p->Q <= 14 : p->W < 100;
  const bool better = pass == PASS_WGRAD || (pass == PASS_DGRAD && p->stride_h * p->stride_w > 1 ? false : !(small && narrow));
  return better && device->arch >= tensor[pass]->min_arch && !tensor[pass]->unsupported(p, device) ? tensor[pass]->name : plain[pass]->name;
}

int main(int argc, char **argv) {
  static const conv_kernel *const kernels[] = {&constant_fprop, &window_fprop, &separable_fprop, &large_fprop, &banks_fprop, &depthwise_fprop, &depthwise_dgrad, &depthwise_wgrad, &toeplitz_fprop, &toeplitz_dgrad, &tensor_wgrad, &large_dgrad, &planes_fprop, &planes_dgrad, &planes_wgrad, &large_wgrad, &rows_fprop};
  static const conv_step step = {
      .number = "04",
      .title = "constant filter: the filter stays put, the image streams past",
      .kernels = kernels,
      .kernel_count = sizeof kernels / sizeof *kernels,
      .choose = choose,
      .choose_fp16 = choose_fp16,
      .choice_rule = "04a for several input channels; one: 04o for 9x9 (random data; for other data it has no error bound) and 04e for the sizes that it has, if K is at most 4, 04d for other filters of 64 elements and more, 04b from 56 columns on at stride 1, else 04l; dgrad: 04d or 04l, wgrad: 04n or 04m, likewise; fp16: 04i, 04j, 04k where they can; but 04f up to 3x3 and 14 columns, 04g up to 3x3 and 99 columns and for strides",
  };
  return step_main(&step, argc, argv);
}
