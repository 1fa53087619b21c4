/* Step 04: filters small enough to stay where the arithmetic is, while the image streams past. */
#include "common/step.h"

extern const conv_kernel constant_fprop, window_fprop, separable_fprop, large_fprop, banks_fprop, depthwise_fprop, depthwise_dgrad, depthwise_wgrad;

/* By the filter's size, where the kernel for it can do the problem. */
static const char *choose(const conv_problem *p, conv_pass pass, const conv_device *device) {
  (void)pass;
  if (p->C != p->groups) return "04a";
  if (p->S >= 9 && p->S <= 15 && !banks_fprop.unsupported(p, device)) return "04e";
  return p->R * p->S >= 64 && !large_fprop.unsupported(p, device) ? "04d" : "04b";
}

int main(int argc, char **argv) {
  static const conv_kernel *const kernels[] = {&constant_fprop, &window_fprop, &separable_fprop, &large_fprop, &banks_fprop, &depthwise_fprop, &depthwise_dgrad, &depthwise_wgrad};
  static const conv_step step = {
      .number = "04",
      .title = "constant filter: the filter stays put, the image streams past",
      .kernels = kernels,
      .kernel_count = sizeof kernels / sizeof *kernels,
      .choose = choose,
      .choice_rule = "04a for several input channels; one: 04e for 9x9 to 15x15, 04d for other filters of 64 elements and more, else 04b",
  };
  return step_main(&step, argc, argv);
}
