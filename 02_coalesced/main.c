/* Step 02: the same work, with neighbouring threads on neighbouring addresses. */
#include "common/step.h"

extern const conv_kernel coalesced_fprop, coalesced_dgrad, coalesced_wgrad, warp_wgrad;

/* A warp for every gradient is worth it while a thread for every one would leave the GPU without enough threads. */
static const char *choose(const conv_problem *p, conv_pass pass, const conv_device *device, bool random) {
  (void)random;
  return pass == PASS_WGRAD && problem_w_count(p) < (int64_t)device->sm_count * 2048 ? "02b" : "02a";
}

int main(int argc, char **argv) {
  static const conv_kernel *const kernels[] = {&coalesced_fprop, &coalesced_dgrad, &coalesced_wgrad, &warp_wgrad};
  static const conv_step step = {
      .number = "02",
      .title = "coalesced: neighbouring threads on neighbouring addresses",
      .kernels = kernels,
      .kernel_count = sizeof kernels / sizeof *kernels,
      .choose = choose,
      .choice_rule = "02b for a wgrad with fewer gradients than the GPU holds threads (2048 a multiprocessor), else 02a",
  };
  return step_main(&step, argc, argv);
}
