/* Step 04: filters small enough to stay where the arithmetic is, while the image streams past. */
#include "common/harness/registry.h"

extern const kernel_source sources_04[]; /* written when the step is built */
extern const conv_kernel constant_fprop, window_fprop, separable_fprop, large_fprop, banks_fprop, depthwise_fprop, depthwise_dgrad, depthwise_wgrad;
extern const conv_kernel planes_fprop, planes_dgrad, planes_wgrad, large_dgrad, large_wgrad, rows_fprop;
extern const conv_kernel any_channels_fprop, any_channels_dgrad, any_channels_wgrad;

/* What a rule asks of a problem. */
#define ASKS(name, condition)                                                                       \
  static bool name(const conv_problem *p, conv_pass pass, const conv_device *device, bool random) { \
    (void)p, (void)pass, (void)device, (void)random;                                                \
    return condition;                                                                               \
  }
ASKS(many_channels, p->C != p->groups)
ASKS(few_filters, p->K <= 4) /* 04e copies and launches for each k */
ASKS(few_filters_random, p->K <= 4 && random)
ASKS(large_filter, p->R * p->S >= 64)
ASKS(wide_or_few, p->K <= 4 || (p->Q >= 56 && p->stride_h == 1 && p->stride_w == 1))

static const conv_kernel *const kernels[] = {&constant_fprop, &window_fprop,    &separable_fprop,    &large_fprop,        &large_dgrad,       &banks_fprop,
                                             &rows_fprop,     &depthwise_fprop, &depthwise_dgrad,    &depthwise_wgrad,    &planes_fprop,      &planes_dgrad,
                                             &planes_wgrad,   &large_wgrad,     &any_channels_fprop, &any_channels_dgrad, &any_channels_wgrad};
static const conv_choice rule[] = {
    {&constant_fprop, many_channels, "several input channels a group"},
    {&rows_fprop, few_filters_random, "9x9, at most 4 filters, random data (it has no error bound for others)"},
    {&banks_fprop, few_filters, "the sizes that it has, at most 4 filters"},
    {&large_fprop, large_filter, "other filters of 64 elements and more"},
    {&window_fprop, wide_or_few, "at most 4 filters, or 56 columns and more at stride 1"},
    {&planes_fprop, NULL, "else"},
    {&window_fprop, NULL, "where 04j cannot"},
    {&large_dgrad, large_filter, "filters of 64 elements and more"},
    {&planes_dgrad, NULL, "else"},
    {&large_wgrad, large_filter, "filters of 64 elements and more"},
    {&planes_wgrad, NULL, "else"},
    {&depthwise_fprop, NULL, "depthwise, fp16"},
    {&depthwise_dgrad, NULL, "depthwise, fp16"},
    {&depthwise_wgrad, NULL, "depthwise, fp16"},
    {&any_channels_fprop, NULL, "where 04g cannot: an odd number of channels, several filters a channel"},
    {&any_channels_dgrad, NULL, "where 04h cannot"},
    {&any_channels_wgrad, NULL, "where 04i cannot"},
};
const conv_step step_04 = {
    .number = "04",
    .title = "constant filter: the filter stays put, the image streams past",
    .kernels = kernels,
    .kernel_count = sizeof kernels / sizeof *kernels,
    .sources = sources_04,
    .rule = rule,
    .rule_count = sizeof rule / sizeof *rule,
};
