/* Step 01: every output of a convolution has its own GPU thread. */
#include "common/step.h"

extern const conv_kernel naive_fprop, naive_dgrad, naive_wgrad;

int main(int argc, char **argv) {
  static const conv_kernel *const kernels[] = {&naive_fprop, &naive_dgrad, &naive_wgrad};
  static const conv_step step = {
      .number = "01",
      .title = "naive: one thread per output, as the formula reads",
      .kernels = kernels,
      .kernel_count = sizeof kernels / sizeof *kernels,
  };
  return step_main(&step, argc, argv);
}
