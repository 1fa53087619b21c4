/* One problem, one kernel, many cuts: verified, and timed in turns. See cuts.h.
 *
 * Data are small integers, so every cut must give the bits of the fp64 reference. Times are taken as the harness takes them (common/harness/timing.h), but
 * shorter: a sample is a replay of a graph over enough buffer sets that L2 is cold, cuts take turns, and what the last sample wrote is
 * verified. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "05_im2col_gemm/tools/cuts/cuts.h"
#include "common/conv/reference.h"
#include "common/conv/verify.h"
#include "common/harness/buffers.h"
#include "common/harness/timing.h"

enum { LEAST_LAUNCHES = 3 /* in a sample */ };
static const double kept = 1.15, kept_us = 3; /* slower than 1.15 times the fastest and 3 us, alone: not timed */

typedef struct bench {
  const machine *gpu;
  cut_trial *t;
  conv_plan *plans; /* of the trial's cuts */
  conv_pass pass;
  conv_tensor host[3]; /* shapes, no memory */
  buffer_sets sets;
  double *value; /* the reference's */
  float *scale;  /* and what it tells beside */
  unsigned *counter;
  cudaStream_t stream;
  cudaEvent_t start, stop;
} bench;

static cudaError_t launch_cut(const bench *b, const cut *c, const conv_buffers *view) {
  return cut_kernel_of(b->t->kernel)->launch(&b->plans[c - b->t->cuts], view, b->stream);
}

static int64_t output_count(const bench *b) { return b->host[pass_output(b->pass)].count; }

/* So many sets, or fewer where memory does not do; the inputs are in each. */
static cudaError_t make_sets(bench *b, int count, size_t workspace) {
  const tensor_role inputs[2] = {pass_input_a(b->pass), pass_input_b(b->pass)};
  const int magnitude = exact_magnitude(problem_terms(&b->t->p, b->pass));
  b->sets = buffer_sets_plan(ON_GPU, b->host, workspace);
  cudaError_t status = cudaErrorMemoryAllocation;
  for (; count > 0 && status == cudaErrorMemoryAllocation; count /= 2) status = buffer_sets_alloc(&b->sets, count);
  for (int i = 0; i < 2 && !status; i++)
    status = fill_integers((float *)(b->sets.base + b->sets.offset[inputs[i]]), b->host[inputs[i]].count, (unsigned)i, magnitude ? magnitude : 1);
  if (!status) status = cudaDeviceSynchronize();
  return status ? status : buffer_replicate(&b->sets);
}

static cudaError_t make_reference(bench *b) {
  const tensor_role role_a = pass_input_a(b->pass), role_b = pass_input_b(b->pass);
  const conv_buffers view = buffer_view(&b->sets, 0);
  void *const at[3] = {view.x, view.w, view.y};
  conv_tensor in_a = b->host[role_a], in_b = b->host[role_b];
  in_a.data = at[role_a], in_b.data = at[role_b];
  cudaError_t status = cudaMalloc((void **)&b->value, (size_t)output_count(b) * sizeof *b->value);
  if (!status) status = cudaMalloc((void **)&b->scale, (size_t)output_count(b) * sizeof *b->scale);
  if (!status) status = cudaMalloc((void **)&b->counter, sizeof *b->counter);
  if (!status) status = gpu_reference(&b->t->p, b->pass, &in_a, &in_b, &b->host[pass_output(b->pass)], b->value, b->scale, false);
  return status ? status : cudaDeviceSynchronize();
}

static cudaError_t poison(const bench *b, int set) {
  const cudaError_t status = buffer_poison(&b->sets, set, (int)pass_output(b->pass));
  return status ? status : buffer_poison(&b->sets, set, PART_WORKSPACE);
}

/* Compares a set's output with the reference, and looks behind its ends and the workspace's. */
static cudaError_t check(const bench *b, int set, cut *c) {
  const int parts[2] = {(int)pass_output(b->pass), PART_WORKSPACE};
  const conv_buffers view = buffer_view(&b->sets, set);
  const void *const at[3] = {view.x, view.w, view.y};
  unsigned different = 0;
  cudaError_t status = count_different((const float *)at[parts[0]], b->value, output_count(b), b->counter, &different);
  c->right &= !status && different == 0;
  for (int i = 0; i < 2 && !status; i++) {
    bool damaged = false;
    int64_t where = 0;
    status = buffer_check(&b->sets, set, parts[i], &damaged, &where);
    c->right &= !damaged;
  }
  return status;
}

/* Launched on its own: right, and how long about. */
static cudaError_t try_cut(bench *b, cut *c) {
  const conv_buffers view = buffer_view(&b->sets, 0);
  float milliseconds = 0;
  c->right = true;
  cudaError_t status = poison(b, 0);
  if (!status) status = launch_cut(b, c, &view);
  if (!status) status = cudaDeviceSynchronize();
  if (!status) status = check(b, 0, c);
  if (status || b->gpu->device.emulated) return status;
  status = cudaEventRecord(b->start, b->stream); /* once more: the first launch loaded the code */
  if (!status) status = launch_cut(b, c, &view);
  if (!status) status = cudaEventRecord(b->stop, b->stream);
  if (!status) status = cudaEventSynchronize(b->stop);
  if (!status) status = cudaEventElapsedTime(&milliseconds, b->start, b->stop);
  c->first_us = 1e3 * milliseconds;
  return status;
}

/* ---------------------------------------------------------------- timing */

typedef struct turn {
  cut *c;
  cudaGraphExec_t graph;
  double samples[ROUNDS];
} turn;

static cudaError_t capture(const bench *b, turn *t, int launches) {
  cudaGraph_t graph = NULL;
  cudaError_t status = cudaStreamBeginCapture(b->stream, cudaStreamCaptureModeThreadLocal);
  for (int i = 0; i < launches && !status; i++) {
    const conv_buffers view = buffer_view(&b->sets, i % b->sets.count);
    status = launch_cut(b, t->c, &view);
  }
  const cudaError_t ended = cudaStreamEndCapture(b->stream, &graph);
  if (!status) status = ended;
  if (!status) status = cudaGraphInstantiate(&t->graph, graph, 0);
  if (graph) cudaGraphDestroy(graph);
  return status;
}

static cudaError_t play(const bench *b, const turn *t, int launches, double *us) {
  float milliseconds = 0;
  cudaError_t status = cudaEventRecord(b->start, b->stream);
  if (!status) status = cudaGraphLaunch(t->graph, b->stream);
  if (!status) status = cudaEventRecord(b->stop, b->stream);
  if (!status) status = cudaEventSynchronize(b->stop);
  if (!status) status = cudaEventElapsedTime(&milliseconds, b->start, b->stop);
  *us = 1e3 * milliseconds / launches;
  return status;
}

/* Once more, into poisoned outputs: the first and the last set must be right. */
static cudaError_t check_timed(const bench *b, turn *t, int launches) {
  cudaError_t status = cudaSuccess;
  double us;
  for (int set = 0; set < b->sets.count && !status; set++) status = poison(b, set);
  if (!status) status = cudaDeviceSynchronize();
  if (!status) status = play(b, t, launches, &us);
  if (!status) status = check(b, 0, t->c);
  if (!status && b->sets.count > 1) status = check(b, b->sets.count - 1, t->c);
  return status;
}

static int compare_doubles(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* n cuts in turns, every one ROUNDS times after a round that does not count. */
static cudaError_t time_cuts(bench *b, turn turns[], int n) {
  const int launches = (LEAST_LAUNCHES + b->sets.count - 1) / b->sets.count * b->sets.count;
  cudaError_t status = cudaSuccess;
  double us;
  for (int i = 0; i < n && !status; i++) status = capture(b, &turns[i], launches);
  for (int round = -1; round < ROUNDS; round++)
    for (int i = 0; i < n && !status; i++) {
      status = play(b, &turns[i], launches, &us);
      if (round >= 0) turns[i].samples[round] = us;
    }
  for (int i = 0; i < n && !status; i++) {
    cut *c = turns[i].c;
    qsort(turns[i].samples, ROUNDS, sizeof(double), compare_doubles);
    c->us = turns[i].samples[ROUNDS / 2], c->us_min = turns[i].samples[0], c->us_max = turns[i].samples[ROUNDS - 1];
    status = check_timed(b, &turns[i], launches);
  }
  for (int i = 0; i < n; i++)
    if (turns[i].graph) cudaGraphExecDestroy(turns[i].graph);
  return status;
}

/* Those that may be among the fastest, and the model's. */
static cudaError_t time_fast_cuts(bench *b) {
  turn turns[MOST_CUTS] = {{0}};
  double least = INFINITY;
  size_t workspace = 0;
  int n = 0;
  for (int i = 0; i < b->t->count; i++) least = fmin(least, b->t->cuts[i].first_us);
  for (int i = 0; i < b->t->count; i++) {
    cut *c = &b->t->cuts[i];
    if (!c->right || (!c->chosen && c->first_us > kept * least + kept_us)) continue;
    turns[n++].c = c;
    if (c->workspace > workspace) workspace = c->workspace;
  }
  size_t touched = 0;
  for (int role = 0; role < 3; role++) touched += tensor_bytes(&b->host[role]);
  buffer_sets_free(&b->sets);
  const cudaError_t status = make_sets(b, timing_sets(touched, b->gpu->device.l2_bytes), workspace);
  return status ? status : time_cuts(b, turns, n);
}

static cudaError_t run(bench *b) {
  cudaError_t status = cudaSuccess;
  size_t workspace = 0;
  int fit = 0;
  for (int i = 0; i < b->t->count; i++) /* a cut that wants a quarter of the memory is none */
    if (b->t->cuts[i].chosen || b->t->cuts[i].workspace < b->gpu->device.memory_bytes / 4) b->t->cuts[fit++] = b->t->cuts[i];
  b->t->count = b->t->tried = fit;
  for (int i = 0; i < fit; i++)
    if (b->t->cuts[i].workspace > workspace) workspace = b->t->cuts[i].workspace;
  status = cudaStreamCreate(&b->stream);
  if (!status) status = cudaEventCreate(&b->start);
  if (!status) status = cudaEventCreate(&b->stop);
  if (!status) status = make_sets(b, 1, workspace);
  if (!status) status = make_reference(b);
  if (!status && !(b->plans = malloc((size_t)fit * sizeof *b->plans))) status = cudaErrorMemoryAllocation;
  for (int i = 0; i < fit && !status; i++) status = plan_cut(b->t, &b->t->cuts[i], &b->plans[i]);
  for (int i = 0; i < fit && !status; i++) status = try_cut(b, &b->t->cuts[i]);
  return status || b->gpu->device.emulated ? status : time_fast_cuts(b);
}

int measure_cuts(const machine *gpu, cut_trial *t) {
  bench b = {.gpu = gpu, .t = t, .pass = cut_kernel_of(t->kernel)->pass};
  char shape[256];
  int failed = 0;
  problem_print(&t->p, shape, sizeof shape);
  for (int role = 0; role < 3; role++) b.host[role] = tensor_describe(&t->p, (tensor_role)role, DTYPE_FP32, LAYOUT_NCHW);
  const cudaError_t status = run(&b);
  cudaFree(b.value), cudaFree(b.scale), cudaFree(b.counter);
  buffer_sets_free(&b.sets);
  free(b.plans);
  if (b.start) cudaEventDestroy(b.start);
  if (b.stop) cudaEventDestroy(b.stop);
  if (b.stream) cudaStreamDestroy(b.stream);
  if (status) fprintf(stderr, "%s, %s: %s\n", shape, cut_kernel_of(t->kernel)->name, cudaGetErrorString(status));
  for (int i = 0; i < t->count && !status; i++) {
    if (t->cuts[i].right) continue;
    fprintf(stderr, "%s, %s: WRONG with tiles of %d rows and %d slices\n", shape, cut_kernel_of(t->kernel)->name, t->cuts[i].bm, t->cuts[i].slices);
    failed = 1;
  }
  return status ? 2 : failed;
}
