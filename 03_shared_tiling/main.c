/* Step 03: every value that is fetched is used many times: by the threads of a block through shared memory, by a thread through its registers. */
#include "common/step.h"

extern const conv_kernel halo_fprop, halo_dgrad, filters_fprop, filters_dgrad, registers_fprop, registers_dgrad, pipelined_fprop, pipelined_dgrad;

/* 03a computes output channels one by one, 03b eight at a time, 03d 64 at a time, about 6 and 18 times as fast as 03a if it needs them all. */
static const char *choose(const conv_problem *p, conv_pass pass, const conv_device *device, bool random) {
  (void)device, (void)random;
  const int outputs = (pass == PASS_DGRAD ? p->C : p->K) / p->groups;
  const double a = outputs, b = (outputs + 7) / 8 * 8 / 6.0, d = (outputs + 63) / 64 * 64 / 18.0;
  return a <= b && a <= d ? "03a" : b <= d ? "03b" : "03d";
}

int main(int argc, char **argv) {
  static const conv_kernel *const kernels[] = {&halo_fprop, &halo_dgrad, &filters_fprop, &filters_dgrad, &registers_fprop, &registers_dgrad, &pipelined_fprop, &pipelined_dgrad};
  static const conv_step step = {
      .number = "03",
      .title = "shared tiling: fetch once, use many times",
      .kernels = kernels,
      .kernel_count = sizeof kernels / sizeof *kernels,
      .choose = choose,
      .choice_rule = "output channels of a group, rounded up to 1, 8, 64, over the rates 1, 6, 18: the least of 03a, 03b, 03d",
  };
  return step_main(&step, argc, argv);
}
