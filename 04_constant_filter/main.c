/* Step 04: filters small enough to stay where the arithmetic is, while the image streams past. */
#include "common/step.h"

extern const conv_kernel constant_fprop, window_fprop, separable_fprop, large_fprop, banks_fprop;

int main(int argc, char **argv) {
  static const conv_kernel *const kernels[] = {&constant_fprop, &window_fprop, &separable_fprop, &large_fprop, &banks_fprop};
  static const conv_step step = {
      .number = "04",
      .title = "constant filter: the filter stays put, the image streams past",
      .kernels = kernels,
      .kernel_count = sizeof kernels / sizeof *kernels,
  };
  return step_main(&step, argc, argv);
}
