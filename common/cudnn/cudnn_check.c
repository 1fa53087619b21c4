/* Is cuDNN's result right? The same checker and the same kind of bound as for our own kernels. */
#include "common/cudnn/cudnn_api.h"

#ifdef HAVE_CUDNN
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/conv/bound.h"
#include "common/conv/gpu.h"
#include "common/conv/verify.h"
#include "common/harness/buffers.h"

static bool transforms(unsigned notes) { return notes >> CUDNN_NUMERICAL_NOTE_FFT & 1 || notes >> CUDNN_NUMERICAL_NOTE_WINOGRAD & 1; }

/* The rule of a transform, the same for cuDNN and for us: whoever adds up fewer products than the formula has may err as F(4x4, 3x3) may, with the norm of 05m,
 * about 11 plain sums' bounds, whatever the tile, or the transform. */
error_rule cudnn_rule(const cudnn_task *task, unsigned notes, bool random) {
  const double terms = (double)problem_terms(task->problem, task->pass);
  error_rule rule = {.growth = growth_chain_fp32(terms + 64, random), .shared = transforms(notes)};
  if (notes >> CUDNN_NUMERICAL_NOTE_TENSOR_CORE & 1) rule.growth = fmax(rule.growth, 2 * UNIT_ROUNDOFF_FP32 * (terms / 8 + 8));
  if (rule.shared) rule.growth = fmax(rule.growth, growth_winograd(terms, WINOGRAD_4X4_NORM, random));
  if (rule.shared && task->dtype == DTYPE_FP16) rule.growth += WINOGRAD_4X4_NORM * UNIT_ROUNDOFF_FP16; /* transformed values are kept in the dtype */
  rule.growth += epilogue_growth(&task->epilogue, random);
  return rule;
}

/* TF32 keeps 10 of fp32's 23 bits. Whether an engine rounds the others or cuts them off it does not tell: each of two inputs errs by 2^-10 of itself at most. */
error_rule cudnn_any_math_rule(const cudnn_task *task, error_rule rule) {
  if (task->dtype == DTYPE_FP32) rule.growth += 2 * 0x1p-10;
  return rule;
}

/* Not every Winograd engine is noted as one (9.19's fp32 wgrad is not). The error of a transform, but none of the size that TF32 inputs would bring: 2^-11 of
 * the scale, where these reach twice that among 10^5 results. */
bool cudnn_unnoted_rule(const cudnn_task *task, unsigned notes, bool random, error_rule *rule) {
  if (task->dtype != DTYPE_FP32 || transforms(notes) || !random) return false;
  *rule = cudnn_rule(task, notes | 1u << CUDNN_NUMERICAL_NOTE_WINOGRAD, random);
  rule->growth = fmin(rule->growth, 0x1p-11);
  return true;
}

bool cudnn_rounded_rule(const cudnn_task *task, unsigned notes, bool random, error_rule *rule) {
  (void)notes;
  if (task->dtype != DTYPE_FP16 || epilogue_empty(&task->epilogue)) return false;
  rule->growth += (random ? 8 : 1) * UNIT_ROUNDOFF_FP16;
  return true;
}

/* The same tensor in another layout. */
static void change_layout(const conv_tensor *to, const conv_tensor *from) {
  const size_t bytes = dtype_bytes(to->dtype);
#pragma omp parallel for
  for (int64_t i = 0; i < to->count; i++)
    memcpy((char *)to->data + (size_t)tensor_offset(to, i) * bytes, (const char *)from->data + (size_t)tensor_offset(from, i) * bytes, bytes);
}

static int fail(char *error, size_t size, const char *what, const char *why) {
  snprintf(error, size, "checking cuDNN's result: %s: %s", what, why);
  return -1;
}

/* Tensors that are on the device already. */
static int copy(const buffer_sets *set, const conv_tensor *from, conv_layout layout, const conv_problem *p, char *error, size_t error_size) {
  conv_tensor to = tensor_describe(p, from->role, from->dtype, layout);
  to.data = buffer_address(set, 0, (int)from->role);
  const cudaError_t status = gpu_copy(&to, from);
  return status ? fail(error, error_size, "copying", cudaGetErrorString(status)) : 0;
}

static int upload(const buffer_sets *set, const conv_tensor *host, conv_layout layout, const conv_problem *p, char *error, size_t error_size) {
  conv_tensor moved = tensor_describe(p, host->role, host->dtype, layout);
  const bool moves = layout != host->layout;
  if (moves && tensor_alloc(&moved)) return fail(error, error_size, "host memory", "none left");
  if (moves) change_layout(&moved, host);
  const cudaError_t status = buffer_upload(set, (int)host->role, moves ? moved.data : host->data);
  if (moves) tensor_free(&moved);
  return status ? fail(error, error_size, "cudaMemcpy", cudaGetErrorString(status)) : 0;
}

/* Compares the result with the reference, where that is: on the host in the reference's layout. */
static int judge(const buffer_sets *set, const conv_tensor shape, const conv_reference *reference, error_rule rule, conv_verdict *verdict, char *error,
                 size_t error_size) {
  conv_tensor result = shape, moved = reference->shape;
  if (reference->room) {
    result.data = buffer_address(set, 0, (int)shape.role);
    const cudaError_t status = verify_on_device(&result, reference, COMPARE_BOUND, rule, NULL, verdict);
    return status ? fail(error, error_size, "comparing", cudaGetErrorString(status)) : 0;
  }
  const bool moves = shape.layout != moved.layout;
  moved.data = NULL;
  if (tensor_alloc(&result) || (moves && tensor_alloc(&moved))) {
    tensor_free(&result);
    return fail(error, error_size, "host memory", "none left");
  }
  const cudaError_t status = buffer_download(set, 0, (int)shape.role, result.data);
  if (!status) {
    if (moves) change_layout(&moved, &result);
    *verdict = verify_output(moves ? &moved : &result, reference, COMPARE_BOUND, rule, NULL);
  }
  tensor_free(&result);
  if (moves) tensor_free(&moved);
  return status ? fail(error, error_size, "cudaMemcpy", cudaGetErrorString(status)) : 0;
}

int cudnn_check(cudnn_bench *b, const cudnn_graph *g, const cudnn_plan *p, const cudnn_truth *truth, error_rule rule, conv_verdict *verdict, char *error,
                size_t error_size) {
  const cudnn_task *task = b->task;
  conv_tensor shape[3];
  for (int role = 0; role < 3; role++) shape[role] = operation_tensor(task->problem, task->pass, &task->epilogue, (tensor_role)role, task->dtype, g->layout);
  buffer_sets set = buffer_sets_plan(ON_GPU, shape, 0);
  if (buffer_sets_alloc(&set, 1)) return fail(error, error_size, "device memory", "none left");
  conv_buffers view = buffer_view(&set, 0);
  view.scale = b->views[0].scale, view.bias = b->views[0].bias, view.residual = b->views[0].residual;
  cudnn_pool packs[GRAPHS];
  memset(packs, 0, sizeof packs);
  cudnn_bench one = *b; /* the same workspace and stream, other tensors */
  one.views = &view, one.sets = 1, one.packs = packs;
  int (*const bring)(const buffer_sets *, const conv_tensor *, conv_layout, const conv_problem *, char *, size_t) = truth->reference->room ? copy : upload;
  int status = bring(&set, truth->a, g->layout, task->problem, error, error_size);
  if (!status) status = bring(&set, truth->b, g->layout, task->problem, error, error_size);
  if (!status) {
    const cudnnStatus_t run = bench_enqueue(&one, g, p, 0, b->stream);
    const cudaError_t done = cudaStreamSynchronize(b->stream);
    if (run || done) status = fail(error, error_size, "cudnnBackendExecute", run ? cudnn.GetErrorString(run) : cudaGetErrorString(done));
  }
  if (!status) status = judge(&set, shape[pass_output(task->pass)], truth->reference, rule, verdict, error, error_size);
  for (int i = 0; i < GRAPHS; i++) pool_free(&packs[i]);
  buffer_sets_free(&set);
  return status;
}
#endif
