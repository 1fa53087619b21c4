/* Step 00: what a convolution is, and how fast a CPU can be at it. */
#include "00_cpu_reference/roof.h"
#include "common/harness/registry.h"

extern const kernel_source sources_00[]; /* written when the step is built */
extern const conv_kernel definition_fprop, definition_dgrad, definition_wgrad;
extern const conv_kernel blocked_fprop, blocked_dgrad, blocked_wgrad;

static void measure_peaks(machine_peaks *peaks) {
  const cpu_roof roof = cpu_measure_roof();
  *peaks = (machine_peaks){.fp32_flops = roof.fma_flops,
                           .read_per_second = roof.memory_bytes_per_second,
                           .copy_per_second = roof.memory_bytes_per_second,
                           .source = "measured here just now"};
}

static const conv_kernel *const kernels[] = {&definition_fprop, &definition_dgrad, &definition_wgrad, &blocked_fprop, &blocked_dgrad, &blocked_wgrad};
const conv_step step_00 = {
    .number = "00",
    .title = "on the CPU: the definition, and an honest contender",
    .kernels = kernels,
    .kernel_count = sizeof kernels / sizeof *kernels,
    .sources = sources_00,
    .measure_peaks = measure_peaks,
};
