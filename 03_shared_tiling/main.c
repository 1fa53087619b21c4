/* Step 03: every value that is fetched is used many times: by the threads of a block through shared memory, by a thread through its registers. */
#include "common/step.h"

extern const conv_kernel halo_fprop, halo_dgrad, filters_fprop, filters_dgrad, registers_fprop, registers_dgrad, pipelined_fprop, pipelined_dgrad;

int main(int argc, char **argv) {
  static const conv_kernel *const kernels[] = {&halo_fprop, &halo_dgrad, &filters_fprop, &filters_dgrad, &registers_fprop, &registers_dgrad, &pipelined_fprop, &pipelined_dgrad};
  static const conv_step step = {
      .number = "03",
      .title = "shared tiling: fetch once, use many times",
      .kernels = kernels,
      .kernel_count = sizeof kernels / sizeof *kernels,
  };
  return step_main(&step, argc, argv);
}
