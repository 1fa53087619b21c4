/* What cuDNN's plans are tried on. See cudnn_work.h. */
#include "common/cudnn/cudnn_work.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/conv/bound.h"
#include "common/harness/timing.h"

/* Scale, bias and residual, on the device and in the reference: value = relu(scale * conv + bias + residual), where the bound's sum grows
 * by what is added. Residuals lie behind one another, one for each set. */
static cudaError_t make_epilogues(cudnn_work *w, bool check) {
  const unsigned fuse = w->task.fuse;
  if (!fuse) return cudaSuccess;
  const conv_tensor *y = &w->host[TENSOR_Y];
  const int K = w->task.problem->K, sets = w->sets.count;
  const size_t channel_bytes = ((size_t)K * sizeof(float) + 511) / 512 * 512, residual_bytes = (tensor_bytes(y) + 511) / 512 * 512;
  conv_tensor residual = *y, channels = {.dtype = DTYPE_FP32, .layout = LAYOUT_NCHW, .dim = {2, K, 1, 1}, .stride = {K, 1, 1, 1}, .count = 2 * (int64_t)K};
  residual.data = NULL;
  w->epilogues = calloc((size_t)sets, sizeof *w->epilogues);
  if (!w->epilogues || tensor_alloc(&residual) || tensor_alloc(&channels)) return cudaErrorMemoryAllocation;
  tensor_fill_normal(&residual, 11);
  tensor_fill_normal(&channels, 12);
  const float *scale = channels.data, *bias = scale + K;
  cudaError_t status = cudaMalloc(&w->extra, 2 * channel_bytes + (size_t)sets * residual_bytes);
  char *at = w->extra;
  if (!status) status = cudaMemcpy(at, scale, (size_t)K * sizeof(float), cudaMemcpyHostToDevice);
  if (!status) status = cudaMemcpy(at + channel_bytes, bias, (size_t)K * sizeof(float), cudaMemcpyHostToDevice);
  for (int i = 0; i < sets && !status; i++) {
    char *mine = at + 2 * channel_bytes + (size_t)i * residual_bytes;
    status = cudaMemcpy(mine, residual.data, tensor_bytes(y), cudaMemcpyHostToDevice);
    w->epilogues[i] = (cudnn_epilogue){(float *)(void *)at, (float *)(void *)(at + channel_bytes), mine};
  }
  for (int64_t i = 0; check && i < w->reference.shape.count; i++) {
    int c[4];
    tensor_coordinates(&w->reference.shape, i, c);
    double v = w->reference.value[i], sum = (double)w->reference.scale[i];
    if (fuse & FUSE_SCALE) v *= (double)scale[c[1]], sum *= fabs((double)scale[c[1]]);
    const double added = (fuse & FUSE_BIAS ? (double)bias[c[1]] : 0), more = (fuse & FUSE_RESIDUAL ? (double)tensor_get(&residual, i) : 0);
    v += added + more;
    sum += fabs(added) + fabs(more);
    w->reference.value[i] = fuse & FUSE_RELU ? fmax(v, 0) : v;
    w->reference.scale[i] = round_scale(sum);
  }
  tensor_free(&residual), tensor_free(&channels);
  return status;
}

static int fail(char *error, size_t size, const char *what, const char *why) {
  snprintf(error, size, "%s: %s", what, why);
  return -1;
}

int cudnn_work_make(cudnn_work *w, const cudnn_task *task, const machine *m, bool check, char *error, size_t error_size) {
  *w = (cudnn_work){.task = *task};
  const tensor_role a = pass_input_a(task->pass), b = pass_input_b(task->pass);
  for (int role = 0; role < 3; role++) w->host[role] = tensor_describe(task->problem, (tensor_role)role, task->dtype, task->layout);
  if (tensor_alloc(&w->host[a]) || tensor_alloc(&w->host[b])) return fail(error, error_size, "tensors", "no host memory");
  tensor_fill_normal(&w->host[a], 1);
  tensor_fill_normal(&w->host[b], 2);
  if (check && reference_compute(&w->reference, task->problem, task->pass, &w->host[a], &w->host[b], true, true, error, error_size)) return -1;
  w->sets = buffer_sets_plan(ON_GPU, w->host, 0);
  const int wanted = timing_sets(w->sets.bytes[0] + w->sets.bytes[1] + w->sets.bytes[2], m->device.l2_bytes);
  cudaError_t status = buffer_sets_alloc(&w->sets, wanted);
  if (!status) status = buffer_upload(&w->sets, (int)a, w->host[a].data);
  if (!status) status = buffer_upload(&w->sets, (int)b, w->host[b].data);
  if (!status) status = buffer_replicate(&w->sets);
  if (!status) status = make_epilogues(w, check);
  w->views = calloc((size_t)wanted, sizeof *w->views);
  for (int i = 0; w->views && i < wanted; i++) w->views[i] = buffer_view(&w->sets, i);
  return status || !w->views ? fail(error, error_size, "buffers", cudaGetErrorString(status)) : 0;
}

void cudnn_work_free(cudnn_work *w) {
  for (int role = 0; role < 3; role++) tensor_free(&w->host[role]);
  reference_free(&w->reference);
  buffer_sets_free(&w->sets);
  cudaFree(w->extra);
  free(w->views);
  free(w->epilogues);
}
