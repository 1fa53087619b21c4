/* Step 02: the same work, with neighbouring threads on neighbouring addresses. */
#include "common/harness/registry.h"

extern const kernel_source sources_02[]; /* written when the step is built */
extern const conv_kernel coalesced_fprop, coalesced_dgrad, coalesced_wgrad, warp_wgrad;

/* A warp for every gradient is worth it while a thread for every one would leave the GPU without enough threads. */
static bool few_gradients(const conv_problem *p, conv_pass pass, const conv_device *device, bool random) {
  (void)pass, (void)random;
  return problem_w_count(p) < (int64_t)device->sm_count * 2048;
}

static const conv_kernel *const kernels[] = {&coalesced_fprop, &coalesced_dgrad, &coalesced_wgrad, &warp_wgrad};
static const conv_choice rule[] = {
    {&warp_wgrad, few_gradients, "fewer gradients than the GPU holds threads (2048 a multiprocessor)"},
    {&coalesced_fprop, NULL, "always"},
    {&coalesced_dgrad, NULL, "always"},
    {&coalesced_wgrad, NULL, "else"},
};
const conv_step step_02 = {
    .number = "02",
    .title = "coalesced: neighbouring threads on neighbouring addresses",
    .kernels = kernels,
    .kernel_count = sizeof kernels / sizeof *kernels,
    .sources = sources_02,
    .rule = rule,
    .rule_count = sizeof rule / sizeof *rule,
};
