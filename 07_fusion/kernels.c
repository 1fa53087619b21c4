/* Step 07: fusion. */
#include "06_tensorcore_fp16/cost.h"
#include "common/harness/registry.h"

extern const kernel_source sources_07[]; /* written when the step is built */
extern const conv_kernel epilogue_fprop, window_epilogue_fprop, few_epilogue_fprop;
extern const chain_kernel strips_chain, conv_1x1_chain, cluster_chain, bottleneck_chain, two_windows_chain, separable_chain, stem_chain;

/* As in step 06: where the window pays, and where the reduction is worth dividing. */
static bool window_pays(const conv_problem *p, conv_pass pass, const conv_device *device, bool random) {
  (void)pass, (void)random;
  return p->R * p->S > 1 && p->K <= 64 && (int64_t)p->N * p->P * p->Q >= (int64_t)100 * device->sm_count;
}
static bool few_tiles(const conv_problem *p, conv_pass pass, const conv_device *device, bool random) {
  (void)pass, (void)random;
  int split;
  persistent_tile tile;
  return best_split(p, device->sm_count, &split) < best_persistent(p, device->sm_count, &tile);
}

static const conv_kernel *const kernels[] = {&epilogue_fprop, &window_epilogue_fprop, &few_epilogue_fprop};
static const chain_kernel *const chains[] = {&strips_chain,      &conv_1x1_chain,  &cluster_chain, &bottleneck_chain,
                                             &two_windows_chain, &separable_chain, &stem_chain};
static const conv_choice rule[] = {
    {&window_epilogue_fprop, window_pays, "up to 64 channels and 64 filters, larger than 1x1, 100 pixels or more for each multiprocessor"},
    {&few_epilogue_fprop, few_tiles, "where a reduction divided in clusters is estimated to take less clocks than 07a"},
    {&epilogue_fprop, NULL, "where it can"},
};
const conv_step step_07 = {
    .number = "07",
    .title = "fusion: fewer trips to memory",
    .kernels = kernels,
    .kernel_count = sizeof kernels / sizeof *kernels,
    .sources = sources_07,
    .rule = rule,
    .rule_count = sizeof rule / sizeof *rule,
    .chains = chains,
    .chain_count = sizeof chains / sizeof *chains,
    .layer = "mb32ic64ih56oc256oh56kh1",
    .small_layer = "mb1ic64ih14oc64oh14kh3ph1",
};
