/* Step 02: the same work, with neighbouring threads on neighbouring addresses. */
#include "common/step.h"

extern const conv_kernel coalesced_fprop, coalesced_dgrad, coalesced_wgrad, warp_wgrad;

int main(int argc, char **argv) {
  static const conv_kernel *const kernels[] = {&coalesced_fprop, &coalesced_dgrad, &coalesced_wgrad, &warp_wgrad};
  static const conv_step step = {
      .number = "02",
      .title = "coalesced: neighbouring threads on neighbouring addresses",
      .kernels = kernels,
      .kernel_count = sizeof kernels / sizeof *kernels,
  };
  return step_main(&step, argc, argv);
}
