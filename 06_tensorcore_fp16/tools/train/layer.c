/* A layer of convolution and its three jobs, each by the kernel that step 06's rule takes. See train.h. */
#include <stdio.h>
#include <stdlib.h>

#include "06_tensorcore_fp16/tools/train/train.h"
#include "common/conv/verify.h"

extern const conv_step step_06; /* 06_tensorcore_fp16/kernels.c */

static const char *const job_names[JOBS] = {"output", "input's gradient", "filter's gradient"};

void must(cudaError_t status, const char *what, const layer *l) {
  if (!status) return;
  fprintf(stderr, "train: layer %d: %s: %s\n", l->number, what, cudaGetErrorString(status));
  exit(1);
}

void no_memory(const char *what) {
  fprintf(stderr, "train: no memory for %s\n", what);
  exit(1);
}

conv_pass layer_pass(const layer *l, layer_job job) {
  static const conv_pass passes[2][JOBS] = {{PASS_FPROP, PASS_DGRAD, PASS_WGRAD}, {PASS_DGRAD, PASS_FPROP, PASS_WGRAD}};
  return passes[l->transposed][job];
}

/* What stands for the problem's x, w and y in a job: the values of what it reads forward, the gradients of what comes from behind. */
typedef struct job_tensors {
  conv_tensor *of[3]; /* by tensor_role */
} job_tensors;

static job_tensors tensors_of(layer *l, layer_job job) {
  conv_tensor *in = job == TO_INPUT ? &l->d_in : &l->in, *out = job == FORWARD ? &l->out : &l->d_out, *w = job == TO_FILTER ? &l->dw : &l->w;
  if (l->transposed) return (job_tensors){{out, w, in}};
  return (job_tensors){{in, w, out}};
}

static conv_tensor new_tensor(const layer *l, tensor_role role) {
  conv_tensor t = tensor_describe(&l->p, role, DTYPE_FP16, LAYOUT_NHWC);
  if (tensor_alloc(&t)) no_memory("a layer's tensors");
  return t;
}

void layer_open(layer *l, const layer *before, const conv_device *device) {
  const tensor_role in = l->transposed ? TENSOR_Y : TENSOR_X, out = l->transposed ? TENSOR_X : TENSOR_Y;
  size_t workspace = 0;
  for (layer_job job = 0; job < JOBS; job++) {
    const conv_operation o = {.problem = l->p, .pass = layer_pass(l, job)};
    const conv_choice *choice = step_choose(&step_06, &o, DTYPE_FP16, device, false, &l->plan[job]);
    if (!choice) {
      fprintf(stderr, "train: expected a GPU of compute capability 9.0, where step 06 has %s of such layers in fp16; this one has %d.%d\n", pass_name(o.pass),
              device->arch / 10, device->arch % 10);
      exit(2);
    }
    l->kernel[job] = choice->kernel;
    if (l->plan[job].workspace_bytes > workspace) workspace = l->plan[job].workspace_bytes;
  }
  l->in = before ? before->out : new_tensor(l, in);
  l->d_in = before ? before->d_out : new_tensor(l, in);
  l->out = new_tensor(l, out), l->d_out = new_tensor(l, out);
  l->w = new_tensor(l, TENSOR_W), l->dw = new_tensor(l, TENSOR_W);
  const job_tensors shapes = tensors_of(l, FORWARD);
  l->device = buffer_sets_plan(ON_GPU, (const conv_tensor[3]){*shapes.of[TENSOR_X], *shapes.of[TENSOR_W], *shapes.of[TENSOR_Y]}, workspace);
  must(buffer_sets_alloc(&l->device, 1), "device memory", l);
}

void layer_close(layer *l) {
  buffer_sets_free(&l->device);
  if (l->number == 1) tensor_free(&l->in), tensor_free(&l->d_in);
  tensor_free(&l->out), tensor_free(&l->d_out), tensor_free(&l->w), tensor_free(&l->dw);
}

void layer_run(layer *l, layer_job job) {
  const conv_pass pass = layer_pass(l, job);
  const tensor_role a = pass_input_a(pass), b = pass_input_b(pass), result = pass_output(pass);
  const job_tensors t = tensors_of(l, job);
  const conv_buffers view = buffer_view(&l->device, 0);
  must(buffer_upload(&l->device, a, t.of[a]->data), "upload", l);
  must(buffer_upload(&l->device, b, t.of[b]->data), "upload", l);
  must(l->kernel[job]->launch(&l->plan[job], &view, NULL), l->kernel[job]->name, l);
  must(buffer_download(&l->device, 0, result, t.of[result]->data), l->kernel[job]->name, l);
}

bool layer_check(layer *l, layer_job job, bool on_gpu) {
  const conv_pass pass = layer_pass(l, job);
  const job_tensors t = tensors_of(l, job);
  conv_tensor result = *t.of[pass_output(pass)];
  const error_rule rule = {.growth = l->kernel[job]->growth(&l->p, false)};
  conv_reference ref;
  char error[256], shape[256];
  if (reference_compute(&ref, &l->p, pass, t.of[pass_input_a(pass)], t.of[pass_input_b(pass)], false, on_gpu, error, sizeof error)) {
    fprintf(stderr, "train: %s\n", error);
    exit(1);
  }
  must(buffer_poison(&l->device, 0, pass_output(pass)), "poison", l);
  layer_run(l, job);
  const conv_verdict v = verify_output(&result, &ref, COMPARE_BOUND, rule, stdout);
  reference_free(&ref);
  problem_print(&l->p, shape, sizeof shape);
  printf("layer %d, %-17s  %s of %-31s by %s: ", l->number, job_names[job], pass_name(pass), shape, l->kernel[job]->name);
  if (v.right) printf("%2.0f %% of the error bound\n", 100 * v.worst_share);
  else printf("WRONG in %lld elements\n", (long long)v.mismatches);
  return v.right;
}
