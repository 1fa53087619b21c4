/* Step 05: convolution as a matrix product. */
#include "common/harness/registry.h"

extern const kernel_source sources_05[]; /* written when the step is built */
extern const conv_kernel im2col_fprop, implicit_fprop, register_tile_fprop, table_fprop, pipelined_fprop, split_fprop, stream_fprop, col2im_dgrad,
    classes_dgrad, few_dgrad, pixels_wgrad;
extern const conv_kernel winograd_fprop, winograd_dgrad, winograd4_fprop, winograd4_dgrad, winograd_wgrad;
extern const conv_kernel few_groups_fprop, few_groups_dgrad, few_groups_wgrad, cells_dgrad, turned_dgrad;

extern bool stream_pays(const conv_problem *p, int multiprocessors), turning_pays(const conv_problem *p, int multiprocessors);

/* Products of channels and filters for each number that a patch's transforms read or write: patches with enough of them are worth their transforms. 32 for 64 to 64. */
static double products_a_number(const conv_problem *p) {
  const double channels = p->C / p->groups, filters = p->K / p->groups;
  return channels * filters / (channels + filters);
}

/* Winograd has no error bound unless data are random. */
static bool winograd_pays(const conv_problem *p, conv_pass pass, const conv_device *device, bool random) {
  (void)device, (void)pass;
  return random && products_a_number(p) >= 16;
}

/* So few channels and filters, most often of a group, that a tile of a matrix product would be padding for the most part. Forward, fewer than 4 channels are padding here, too. */
static int products_a_tap(const conv_problem *p) { return p->C / p->groups * (p->K / p->groups); }
static bool few_pay(const conv_problem *p, conv_pass pass, const conv_device *device, bool random) {
  (void)device, (void)random;
  return products_a_tap(p) <= 256 && (pass != PASS_FPROP || p->groups > 1 || p->C >= 4);
}
static bool cells_pay(const conv_problem *p, conv_pass pass, const conv_device *device, bool random) {
  (void)pass, (void)device, (void)random;
  return p->groups > 1 && products_a_tap(p) <= 1024;
}

/* Of a gradient, and patches enough (of 4 x 4 outputs) to be worth 36 numbers for each 9 of dw, which are written and read. Less than 64 channels and filters have to stay in the L2
 * cache, 36 numbers for 16 of x and of dy. */
static bool winograd_wgrad_pays(const conv_problem *p, conv_pass pass, const conv_device *device, bool random) {
  const int channels = p->C / p->groups, filters = p->K / p->groups;
  const double patches = (double)p->N * ((p->P + 3) / 4) * ((p->Q + 3) / 4), bytes = patches * 36 * sizeof(float) * (p->C + p->K);
  const bool many = channels >= 64 && filters >= 64, stay = p->groups == 1 && products_a_number(p) >= 20 && bytes <= (double)device->l2_bytes;
  (void)pass;
  return random && patches >= 32 && (many || stay);
}

/* Rounds of tiles that do not come out even; tiles that are many and short. */
static bool stays(const conv_problem *p, conv_pass pass, const conv_device *device, bool random) {
  (void)pass, (void)random;
  return stream_pays(p, device->sm_count);
}

/* Filters turned, and then forward. */
static bool turns(const conv_problem *p, conv_pass pass, const conv_device *device, bool random) {
  (void)pass, (void)random;
  return turning_pays(p, device->sm_count);
}

static const conv_kernel *const kernels[] = {&im2col_fprop,     &implicit_fprop,  &register_tile_fprop, &table_fprop,    &pipelined_fprop,  &split_fprop,
                                             &stream_fprop,     &col2im_dgrad,    &classes_dgrad,       &few_dgrad,      &pixels_wgrad,     &winograd_fprop,
                                             &winograd_dgrad,   &winograd4_fprop, &winograd4_dgrad,     &winograd_wgrad, &few_groups_fprop, &few_groups_dgrad,
                                             &few_groups_wgrad, &cells_dgrad,     &turned_dgrad};
static const conv_choice rule[] = {
    {&few_groups_fprop, few_pay, "3x3, at most 256 channels x filters (of a group), 4 channels or more or groups"},
    {&winograd4_fprop, winograd_pays, "3x3, channels x filters of a group at least 16 times channels + filters, random data"},
    {&stream_fprop, stays, "64 x 128 tiles, one a multiprocessor, fill less than 90 % of their rounds; or 8 rounds of tiles of a few stages"},
    {&split_fprop, NULL, "else"},
    {&register_tile_fprop, NULL, "where 05f cannot"},
    {&few_groups_dgrad, few_pay, "3x3, stride 1, at most 256 channels x filters (of a group)"},
    {&cells_dgrad, cells_pay, "3x3, stride 2, groups of at most 1024"},
    {&winograd4_dgrad, winograd_pays, "3x3, channels x filters of a group at least 16 times channels + filters, random data"},
    {&few_dgrad, NULL, "at most 4 channels a group"},
    {&turned_dgrad, turns, "stride 1, unless 05f would store whole tiles of images of no multiple of 4 pixels"},
    {&classes_dgrad, NULL, "else"},
    {&col2im_dgrad, NULL, "where 05i cannot"},
    {&few_groups_wgrad, few_pay, "3x3, at most 256 channels x filters (of a group)"},
    {&winograd_wgrad, winograd_wgrad_pays,
     "3x3, 64 channels and 64 filters or more, or channels x filters at least 20 times their sum and all in L2; 32 patches of 4 x 4 or more, random data"},
    {&pixels_wgrad, NULL, "else"},
};
const conv_step step_05 = {
    .number = "05",
    .title = "im2col GEMM: convolution as a matrix product",
    .kernels = kernels,
    .kernel_count = sizeof kernels / sizeof *kernels,
    .sources = sources_05,
    .rule = rule,
    .rule_count = sizeof rule / sizeof *rule,
};
