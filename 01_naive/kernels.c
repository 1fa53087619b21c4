/* Step 01: every output of a convolution has its own GPU thread. */
#include "common/harness/registry.h"

extern const kernel_source sources_01[]; /* written when the step is built */
extern const conv_kernel naive_fprop, naive_dgrad, naive_wgrad;

static const conv_kernel *const kernels[] = {&naive_fprop, &naive_dgrad, &naive_wgrad};
const conv_step step_01 = {
    .number = "01",
    .title = "naive: one thread per output, as the formula reads",
    .kernels = kernels,
    .kernel_count = sizeof kernels / sizeof *kernels,
    .sources = sources_01,
};
