/* Step 05: convolution as a matrix product. */
#include "common/step.h"

extern const conv_kernel winograd_fprop, winograd_dgrad, winograd4_fprop, winograd4_dgrad;
extern const conv_kernel im2col_fprop, implicit_fprop, pipelined_fprop, split_fprop, stream_fprop, col2im_dgrad, classes_dgrad, pixels_wgrad, few_dgrad;

extern bool stream_pays(const conv_problem *p, int multiprocessors);

/* Winograd where a patch has enough channels to be worth its transforms, and enough filters to serve; it has no error bound unless data are random. Of the
 * others 05d, 05f and 05g do nearly everything; they decide themselves how to cut a problem (split.h). 05k where rounds of tiles do not
 * come out even, where tiles are many and short, and where there are groups. */
static const char *choose(const conv_problem *p, conv_pass pass, const conv_device *device, bool random) {
  const int channels = p->C / p->groups, filters = p->K / p->groups, least = pass == PASS_FPROP && p->groups > 1 ? 16 : 64;
  const bool winograd = random && channels >= least && filters >= least;
  if (pass == PASS_FPROP && winograd && !winograd4_fprop.unsupported(p, device)) return "05i";
  if (pass == PASS_DGRAD && winograd && !winograd4_dgrad.unsupported(p, device)) return "05i";
  if (pass == PASS_DGRAD && !few_dgrad.unsupported(p, device)) return "05j";
  if (pass == PASS_DGRAD) return classes_dgrad.unsupported(p, device) ? "05e" : "05f";
  if (pass == PASS_WGRAD) return "05g";
  if (!stream_fprop.unsupported(p, device) && (p->groups > 1 || stream_pays(p, device->sm_count))) return "05k";
  return split_fprop.unsupported(p, device) ? "05b" : "05d";
}

int main(int argc, char **argv) {
  static const conv_kernel *const kernels[] = {&im2col_fprop, &implicit_fprop, &pipelined_fprop, &split_fprop, &col2im_dgrad, &classes_dgrad, &pixels_wgrad, &winograd_fprop, &winograd_dgrad, &winograd4_fprop, &winograd4_dgrad, &few_dgrad, &stream_fprop};
  static const conv_step step = {
      .number = "05",
      .title = "im2col GEMM: convolution as a matrix product",
      .kernels = kernels,
      .kernel_count = sizeof kernels / sizeof *kernels,
      .choose = choose,
      .choice_rule = "05i for 3x3 filters of 64 channels and more, 64 of them or more (fprop with groups: 16), if the data are random (it has no error bound for others); dgrad to at most 4 channels: 05j; fprop whose 64 x 128 tiles, one a multiprocessor, fill less than 90 % of their rounds, or with 8 rounds of tiles of a few stages, or with groups: 05k; else 05d, 05f, 05g for fprop, dgrad, wgrad, each cut by its model of waves, tiles and bytes; 05b, 05e where 05d, 05f cannot",
  };
  return step_main(&step, argc, argv);
}
