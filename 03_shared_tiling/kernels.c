/* Step 03: every value that is fetched is used many times: by the threads of a block through shared memory, by a thread through its registers. */
#include "common/harness/registry.h"

extern const kernel_source sources_03[]; /* written when the step is built */
extern const conv_kernel halo_fprop, halo_dgrad, filters_fprop, filters_dgrad, registers_fprop, registers_dgrad, async_fprop, async_dgrad;

/* 03a computes output channels one by one, 03b eight at a time, 03d 64 at a time, about 6 and 18 times as fast as 03a if it needs them all. */
typedef struct {
  double a, b, d;
} costs;

static costs costs_of(const conv_problem *p, conv_pass pass) {
  const int outputs = (pass == PASS_DGRAD ? p->C : p->K) / p->groups;
  return (costs){outputs, (outputs + 7) / 8 * 8 / 6.0, (outputs + 63) / 64 * 64 / 18.0};
}

static bool one_by_one(const conv_problem *p, conv_pass pass, const conv_device *device, bool random) {
  (void)device, (void)random;
  const costs c = costs_of(p, pass);
  return c.a <= c.b && c.a <= c.d;
}
static bool by_eights(const conv_problem *p, conv_pass pass, const conv_device *device, bool random) {
  (void)device, (void)random;
  const costs c = costs_of(p, pass);
  return c.b <= c.d;
}

static const conv_kernel *const kernels[] = {&halo_fprop,      &halo_dgrad,      &filters_fprop, &filters_dgrad,
                                             &registers_fprop, &registers_dgrad, &async_fprop,   &async_dgrad};
static const char a[] = "output channels of a group over 1 are less than, rounded up to 8, over 6 and, rounded up to 64, over 18";
static const char b[] = "rounded up to 8, over 6, they are less than rounded up to 64, over 18";
static const conv_choice rule[] = {
    {&halo_fprop, one_by_one, a}, {&filters_fprop, by_eights, b}, {&async_fprop, NULL, "else"},
    {&halo_dgrad, one_by_one, a}, {&filters_dgrad, by_eights, b}, {&async_dgrad, NULL, "else"},
};
const conv_step step_03 = {
    .number = "03",
    .title = "shared tiling: fetch once, use many times",
    .kernels = kernels,
    .kernel_count = sizeof kernels / sizeof *kernels,
    .sources = sources_03,
    .rule = rule,
    .rule_count = sizeof rule / sizeof *rule,
};
