/* Step 06: tensor cores in fp16. */
#include "03_shared_tiling/turned.h"
#include "06_tensorcore_fp16/cost.h"
#include "common/harness/registry.h"

extern const kernel_source sources_06[]; /* written when the step is built */
extern const conv_kernel wmma_fprop, mma_fprop, wgmma_fprop, tma_fprop, roles_fprop, persistent_fprop, resident_fprop, stream_window_fprop, stream_window_dgrad,
    few_fprop, split_dgrad, resident_dgrad, persistent_dgrad, dense_wgrad, strided_dgrad, window_wgrad, pair_wgrad, toeplitz_fprop, toeplitz_dgrad,
    tensor_wgrad, first_fprop, first_wgrad, groups_fprop, groups_dgrad, groups_wgrad, patches_fprop, patches_dgrad, patches_wgrad, direct_fprop, blocks_fprop,
    blocks_dgrad, blocks_wgrad, neighbours_fprop, neighbours_dgrad;

static bool depthwise(const conv_problem *p) { return p->groups > 1 && p->groups == p->C; }

/* Depthwise layers, forward: with a stride neighbours have little in common, and who asks for each pixel itself is as fast; of a large filter, where results are many. */
static int64_t results(const conv_problem *p) { return (int64_t)p->N * p->P * p->Q * p->K; }
static bool few_results(const conv_problem *p, conv_pass pass, const conv_device *device, bool random) {
  (void)pass, (void)random;
  return results(p) <= (int64_t)1500 * device->sm_count;
}
static bool few_or_one(const conv_problem *p, conv_pass pass, const conv_device *device, bool random) {
  return few_results(p, pass, device, random) || p->P * p->Q == 1;
}
static bool wide_5x5(const conv_problem *p) { return p->R == 5 && p->stride_w == 2 && p->Q > 14; }
static bool direct_pays(const conv_problem *p, conv_pass pass, const conv_device *device, bool random) {
  const bool some = !few_results(p, pass, device, random) && results(p) <= (int64_t)7000 * device->sm_count;
  return depthwise(p) && p->stride_w == 2 && (p->R == 3 || (wide_5x5(p) && some));
}
/* Groups of up to 16 channels. 5 x 5: halo tiles grow, and of many results each is asked for more often than 06p does. */
static bool blocks_pay(const conv_problem *p, conv_pass pass, const conv_device *device, bool random) {
  const bool some = wide_5x5(p) ? few_results(p, pass, device, random) : results(p) <= (int64_t)15000 * device->sm_count;
  return p->groups > 1 && p->C / p->groups <= 16 && (p->R == 3 || some) && (pass == PASS_FPROP || !depthwise(p));
}
/* With a stride bytes decide, and 06v's small tiles bring them as fast; with few results the first tile and the last sums, which 06v has sooner. */
static bool blocks_pay_wgrad(const conv_problem *p, conv_pass pass, const conv_device *device, bool random) {
  return p->stride_w == 1 && results(p) >= (int64_t)30000 * device->sm_count && blocks_pay(p, pass, device, random);
}
/* Depthwise layers, the image's gradient: where a warp of plain FMAs (step 04) has not less to set up. */
static bool wide_no_stride(const conv_problem *p, conv_pass pass, const conv_device *device, bool random) {
  (void)pass, (void)device, (void)random;
  return p->stride_h == 1 && p->stride_w == 1 && !(p->R * p->S <= 9 && p->W < 100);
}

/* Dense layers: where the window pays, and where the reduction is worth dividing. */
static bool window_pays(const conv_problem *p, conv_pass pass, const conv_device *device, bool random) {
  (void)pass, (void)random;
  return p->R * p->S > 1 && p->K <= 64 && (int64_t)p->N * p->P * p->Q >= (int64_t)100 * device->sm_count;
}
static bool window_pays_dgrad(const conv_problem *p, conv_pass pass, const conv_device *device, bool random) {
  const conv_problem turned = turned_dgrad(p).p;
  return window_pays(&turned, pass, device, random);
}
/* 06l's boxes are 64 channels (but for five of 32 where a block has a tile to itself), most of its tiles 128 filters: whether there are as many or not. */
static bool window_pays_wgrad(const conv_problem *p, conv_pass pass, const conv_device *device, bool random) {
  (void)pass, (void)device, (void)random;
  return (int64_t)p->N * p->P * p->Q >= 400 && (p->C <= 96 || (p->K > 128 && p->K % 128 != 0));
}
/* A window of any size, by the estimates: 06f's copies of each tap, or 06h's halo tiles. */
static bool stream_pays(const conv_problem *p, conv_pass pass, const conv_device *device, bool random) {
  (void)pass, (void)random;
  int split;
  persistent_tile tile;
  return p->R * p->S > 1 && stream_window_clocks(p, device) < fmin(best_split(p, device->sm_count, &split), best_persistent(p, device->sm_count, &tile));
}
static bool stream_pays_dgrad(const conv_problem *p, conv_pass pass, const conv_device *device, bool random) {
  const conv_problem turned = turned_dgrad(p).p;
  return p->stride_h == 1 && p->stride_w == 1 && stream_pays(&turned, pass, device, random);
}
static bool few_tiles(const conv_problem *p, conv_pass pass, const conv_device *device, bool random) {
  (void)random;
  const conv_problem turned = turned_dgrad(p).p, *of = pass == PASS_DGRAD ? &turned : p;
  int split;
  persistent_tile tile;
  return best_split(of, device->sm_count, &split) < best_persistent(of, device->sm_count, &tile);
}
/* Rows that begin in the middle of a sector keep the copy engine longer than a warp's own copies take. */
static bool few_odd_channels(const conv_problem *p, conv_pass pass, const conv_device *device, bool random) {
  (void)pass, (void)device, (void)random;
  return p->groups == 1 && p->C <= 40 && p->C % 16 != 0 && (p->stride_h > 1 || p->stride_w > 1);
}
/* Where most of a product would be zeros, and filters are laid out for pixels enough. */
#define NEIGHBOURS                                                                                                                                           \
  "up to 24 channels to read, or 32 to read and to write, with a stride 32 of x; 15 pixels of y or more for each multiprocessor, and half as many as w has " \
  "numbers, with a stride "                                                                                                                                  \
  "as many: where it can"
static bool neighbours_pay(const conv_problem *p, conv_pass pass, const conv_device *device, bool random) {
  (void)random;
  const int from = pass == PASS_DGRAD ? p->K : p->C, to = pass == PASS_DGRAD ? p->C : p->K;
  const int64_t pixels = (int64_t)p->N * p->P * p->Q, numbers = (int64_t)p->K * p->R * p->S * p->C;
  if (p->groups > 1 || pixels < (int64_t)15 * device->sm_count) return false;
  if (p->stride_h > 1 || p->stride_w > 1) return p->C <= 32 && numbers <= pixels;
  return (from <= 24 || (from <= 32 && to <= 32)) && numbers <= 2 * pixels;
}
static bool not_depthwise(const conv_problem *p, conv_pass pass, const conv_device *device, bool random) {
  (void)pass, (void)device, (void)random;
  return !depthwise(p);
}

/* Neither dense nor depthwise. */
static bool few_a_group(const conv_problem *p, conv_pass pass, const conv_device *device, bool random) {
  (void)pass, (void)device, (void)random;
  return p->groups > 1 && p->C > p->groups && p->C / p->groups <= 64;
}

static const conv_kernel *const kernels[] = {
    &wmma_fprop,          &mma_fprop,    &wgmma_fprop,    &tma_fprop,           &roles_fprop,      &persistent_fprop, &resident_fprop,
    &stream_window_fprop, &few_fprop,    &resident_dgrad, &stream_window_dgrad, &split_dgrad,      &persistent_dgrad, &strided_dgrad,
    &dense_wgrad,         &window_wgrad, &pair_wgrad,     &toeplitz_fprop,      &toeplitz_dgrad,   &tensor_wgrad,     &first_fprop,
    &first_wgrad,         &groups_fprop, &groups_dgrad,   &groups_wgrad,        &patches_fprop,    &patches_dgrad,    &patches_wgrad,
    &direct_fprop,        &blocks_fprop, &blocks_dgrad,   &blocks_wgrad,        &neighbours_fprop, &neighbours_dgrad};
static const conv_choice rule[] = {
    {&direct_fprop, direct_pays,
     "depthwise, stride 2: 3x3; 5x5 with more than 14 columns of results, 1500 to 7000 results for each multiprocessor: where it can"},
    {&blocks_fprop, blocks_pay,
     "groups of up to 16 channels: where it can; 5x5 with at most 15,000 results for each multiprocessor, 1500 if there is a stride and more than 14 columns"},
    {&direct_fprop, few_or_one, "depthwise: 1500 results at most for each multiprocessor, or one an image: where it can"},
    {&toeplitz_fprop, NULL, "depthwise: where it can"},
    {&toeplitz_dgrad, wide_no_stride, "depthwise: stride 1, and filters above 3x3 or 100 columns and more"},
    {&tensor_wgrad, NULL, "depthwise: where it can"},
    {&first_fprop, NULL, "up to four channels: where it can"},
    {&first_wgrad, NULL, "up to four channels: where it can"},
    {&patches_fprop, NULL, "patches: where it can"},
    {&patches_dgrad, NULL, "patches: where it can"},
    {&patches_wgrad, NULL, "patches: where it can"},
    {&groups_fprop, few_a_group, "groups of 2 to 64 channels: where it can"},
    {&blocks_dgrad, blocks_pay, "groups of 2 to 16 channels: where it can"},
    {&groups_dgrad, few_a_group, "groups of 2 to 64 channels: where it can"},
    {&blocks_wgrad, blocks_pay_wgrad, "groups of 2 to 16 channels, stride 1, 30,000 results of the layer and more for each multiprocessor: where it can"},
    {&groups_wgrad, few_a_group, "groups of 2 to 64 channels: where it can"},
    {&neighbours_fprop, neighbours_pay, NEIGHBOURS},
    {&neighbours_dgrad, neighbours_pay, NEIGHBOURS},
    {&resident_fprop, window_pays, "up to 64 channels and 64 filters, larger than 1x1, 100 pixels or more for each multiprocessor"},
    {&stream_window_fprop, stream_pays, "where a window that slides over halo tiles is estimated to take less clocks than 06f and 06i"},
    {&mma_fprop, few_odd_channels, "a stride, and 8, 24 or 40 channels: such rows are slow to copy for 06f"},
    {&few_fprop, few_tiles, "where a reduction divided in clusters is estimated to take less clocks than 06f"},
    {&persistent_fprop, NULL, "where it can"},
    {&resident_dgrad, window_pays_dgrad, "up to 64 channels and 64 filters, larger than 1x1, 100 pixels or more for each multiprocessor"},
    {&stream_window_dgrad, stream_pays_dgrad, "where a window that slides over halo tiles is estimated to take less clocks than 06j and 06i"},
    {&split_dgrad, few_tiles, "where a reduction divided in clusters is estimated to take less clocks than 06j"},
    {&persistent_dgrad, NULL, "where it can"},
    {&strided_dgrad, NULL, "where it can"},
    {&window_wgrad, window_pays_wgrad, "400 pixels or more; up to 96 channels, or more than 128 filters and no multiple of 128: where it can"},
    {&dense_wgrad, NULL, "where it can"},
    {&mma_fprop, not_depthwise, "everything else that is not depthwise"},
};
const conv_step step_06 = {
    .number = "06",
    .title = "tensor cores in fp16: a warp multiplies matrices",
    .kernels = kernels,
    .kernel_count = sizeof kernels / sizeof *kernels,
    .sources = sources_06,
    .rule = rule,
    .rule_count = sizeof rule / sizeof *rule,
    .layer = "g128mb64ic128ih56oc128oh56kh7ph3",
    .small_layer = "g32mb1ic32ih28oc32oh28kh3ph1",
};
