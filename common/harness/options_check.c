/* Options that were read one by one: do they go together? See options.h. */
#include <stdio.h>

#include "common/conv/tensor.h"
#include "common/harness/options.h"

/* .npy files make sense for one problem and one pass, and only for the tensors which that pass reads. What a transposed convolution calls x is the problem's y. */
static int check_files(step_options *o) {
  const char *const names[3] = {"--x", "--w", "--dy"};
  if (o->keep_wrong && !o->npy_out) {
    fprintf(stderr, "--keep-wrong: expected --out beside it\n");
    return -1;
  }
  const bool any_in = o->npy_in[0] || o->npy_in[1] || o->npy_in[2];
  if (!any_in && !o->npy_out) return 0;
  int passes = 0, pass = 0;
  for (int i = 0; i < PASS_COUNT; i++)
    if (o->passes[i]) passes++, pass = i;
  if (passes != 1 || !o->one_shape) {
    fprintf(stderr, "%s: expected one --shape and one --pass with a .npy file\n", any_in ? "--x, --w, --dy" : "--out");
    return -1;
  }
  if (o->exact_only && any_in) {
    fprintf(stderr, "--exact: expected its own integers, got .npy data\n");
    return -1;
  }
  const conv_operation asked = {.pass = (conv_pass)pass, .transposed = o->transposed};
  const tensor_role a = o->transposed ? TENSOR_X : pass_input_a(asked.pass), b = pass_input_b(asked.pass);
  const tensor_role other = (tensor_role)(TENSOR_X + TENSOR_W + TENSOR_Y - a - b);
  if (o->npy_in[other]) {
    fprintf(stderr, "%s: expected one of the tensors that %s reads (%s, %s)\n", names[other], operation_name(&asked), names[a], names[b]);
    return -1;
  }
  if (o->transposed) o->npy_in[TENSOR_Y] = o->npy_in[TENSOR_X], o->npy_in[TENSOR_X] = NULL;
  return 0;
}

/* Where nothing runs, nothing is read or written; where cuDNN is not timed, nothing is searched. */
static int check_ignored(const step_options *o) {
  const struct {
    const char *option;
    bool given;
  } of_runs[] = {
      {"--csv", o->csv}, {"--json", o->json}, {"--out", o->npy_out}, {"--x", o->npy_in[TENSOR_X]}, {"--w", o->npy_in[TENSOR_W]}, {"--dy", o->npy_in[TENSOR_Y]}};
  if (o->list && o->which) {
    fprintf(stderr, "--list: expected no --which beside it\n");
    return -1;
  }
  for (size_t i = 0; (o->list || o->which) && i < sizeof of_runs / sizeof *of_runs; i++) {
    if (!of_runs[i].given) continue;
    fprintf(stderr, "%s: expected no %s beside it, which runs nothing\n", of_runs[i].option, o->list ? "--list" : "--which");
    return -1;
  }
  if ((o->cudnn_search || o->cudnn_seconds) && (!o->cudnn || !o->timing || o->exact_only)) {
    fprintf(stderr, "%s: expected cuDNN to be timed (no --no-cudnn, --no-time or --exact)\n", o->cudnn_search ? "--search-cudnn" : "--search-seconds");
    return -1;
  }
  return 0;
}

int options_check(step_options *o) {
  if (!epilogue_empty(&o->epilogue)) { /* a gradient of filters is stored as it is */
    if (!o->passes[PASS_FPROP] && !o->passes[PASS_DGRAD]) {
      fprintf(stderr, "--fuse: expected --pass fprop, dgrad or transposed, got \"wgrad\"\n");
      return -1;
    }
    o->passes[PASS_WGRAD] = false;
  }
  if (o->cudnn_fused && (!o->passes[PASS_FPROP] || !epilogue_empty(&o->epilogue) || !o->cudnn || !o->timing || o->exact_only)) {
    fprintf(stderr, "--cudnn-fused: expected forward convolutions without --fuse, timed beside cuDNN (no --no-cudnn, --no-time or --exact)\n");
    return -1;
  }
  if (o->in_order && (!o->timing || o->exact_only)) {
    fprintf(stderr, "--in-order: expected kernels that are timed (no --no-time or --exact)\n");
    return -1;
  }
  return check_ignored(o) || check_files(o) ? -1 : 0;
}
