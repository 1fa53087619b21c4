/* The timing half of a trial: buffer sets, turns, and verification of what the last sample wrote. See trial_state.h. */
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/conv/verify.h"
#include "common/cudnn/cudnn_trial.h"
#include "common/harness/gpus.h"
#include "common/harness/timing.h"
#include "common/harness/trial_state.h"

typedef struct {
  trial_state *s;
  const conv_kernel *kernel;
  const conv_plan *plan;
  const buffer_sets *sets;
  result_row *row;
} timed_kernel;

static cudaError_t enqueue(void *context, int set, cudaStream_t stream) {
  const timed_kernel *k = context;
  const conv_buffers view = buffer_view(k->sets, set);
  return k->kernel->launch(k->plan, &view, stream);
}

static cudaError_t poison(void *context) {
  const timed_kernel *k = context;
  cudaError_t status = cudaSuccess;
  for (int set = 0; set < k->sets->count && !status; set++) status = buffer_poison(k->sets, set, (int)k->s->output);
  return status ? status : buffer_poison(k->sets, 0, PART_WORKSPACE);
}

/* Verifies what the last timed sample wrote into one set. */
static cudaError_t check_set(timed_kernel *k, int set) {
  trial_state *s = k->s;
  result_row *row = k->row;
  cudaError_t status = cudaSuccess;
  if (!trial_untouched(s, k->sets, set, row->note, sizeof row->note, &status)) {
    row->status = RESULT_WRONG;
    return status;
  }
  conv_verdict verdict;
  status = trial_judge(s, k->sets, set, COMPARE_BOUND, trial_rule(s, k->kernel), s->log, &verdict);
  if (!status && !verdict.right) {
    row->status = RESULT_WRONG;
    snprintf(row->note, sizeof row->note, "the last timed sample: %lld elements wrong in buffer set %d", (long long)verdict.mismatches, set);
  }
  return status;
}

/* The first, the middle and the last set of the sample: a kernel that only works once, or only on the first set, shows. */
static cudaError_t check_timed(void *context, int first, int count) {
  timed_kernel *k = context;
  const int written = count < k->sets->count ? count : k->sets->count;
  const int sample[3] = {0, written / 2, written - 1};
  cudaError_t status = cudaSuccess;
  for (int i = 0; i < 3 && !status && k->row->status == RESULT_RIGHT; i++)
    if (i == 0 || sample[i] != sample[i - 1]) status = check_set(k, (first + sample[i]) % k->sets->count);
  return status;
}

/* Adds cuDNN's plans to the turns of a trial on a GPU, those of one way to ask. Returns how many; -1: a CUDA error. */
static int add_cudnn(trial_state *s, cudnn_trial *c, const buffer_sets *sets, cudnn_way way, contender turn[CUDNN_CONTENDERS]) {
  const trial *t = s->t;
  char committed[PATH_MAX];
  cudnn_options options = {.search = t->options->cudnn_search,
                           .most_seconds = t->options->cudnn_seconds,
                           .gpu = t->machine->device.name,
                           .fp32_flops = t->machine->peaks.fp32_flops};
  cudnn_winners_files(t->machine->device.name, committed, &options);
  return cudnn_trial_open(c, s, sets, &options, way, turn);
}

cudaError_t trial_time(trial_state *s, result_row rows[], contender contenders[], cudnn_figures *cudnn, cudnn_figures *fused) {
  const trial *t = s->t;
  timed_kernel timed[TRIAL_KERNELS];
  contender turn[2 * TRIAL_KERNELS + 2 * CUDNN_CONTENDERS] = {0};
  cudnn_trial baseline = {.baseline = {.heuristic = -1}}, second = baseline;
  const bool beside = t->place == ON_GPU && t->options->cudnn, bare = epilogue_empty(&t->epilogue);
  const bool beside_second = beside && (!bare || (t->options->cudnn_fused && t->pass == PASS_FPROP));
  int index[TRIAL_KERNELS], n = 0, plans = 0, second_plans = 0;
  size_t workspace = 0;
  for (int i = 0; i < t->kernel_count; i++) {
    if (rows[i].status != RESULT_RIGHT) continue;
    if (s->plans[i].workspace_bytes > workspace) workspace = s->plans[i].workspace_bytes;
    index[n++] = i;
  }
  if (n == 0) return cudaSuccess;
  buffer_sets sets = buffer_sets_plan_fused(t->place, s->host, &s->fused, workspace);
  const size_t touched = sets.bytes[TENSOR_X] + sets.bytes[TENSOR_W] + sets.bytes[TENSOR_Y] + sets.bytes[PART_RESIDUAL];
  const int wanted = timing_sets(touched, t->machine->device.l2_bytes);
  cudaError_t status = cudaErrorMemoryAllocation;
  for (int count = wanted; count > 0 && status == cudaErrorMemoryAllocation; count /= 2) status = buffer_sets_alloc(&sets, count);
  if (!status) status = trial_upload(s, &sets);
  if (!status) status = buffer_replicate(&sets);
  for (int k = 0; k < n && !status; k++) {
    timed[k] = (timed_kernel){.s = s, .kernel = t->kernels[index[k]], .plan = &s->plans[index[k]], .sets = &sets, .row = &rows[index[k]]};
    turn[k] = (contender){.enqueue = enqueue, .poison = poison, .check = check_timed, .context = &timed[k], .first_seconds = rows[index[k]].run_seconds};
  }
  /* With --in-order each of ours a second time. */
  const int ours = t->place == ON_GPU && t->options->in_order ? 2 * n : n;
  for (int k = n; k < ours; k++) turn[k] = turn[k - n], turn[k].in_order = true;
  if (!status && beside) plans = add_cudnn(s, &baseline, &sets, CUDNN_ONE_GRAPH, turn + ours);
  if (plans >= 0 && !status && beside_second) second_plans = add_cudnn(s, &second, &sets, bare ? CUDNN_ZERO_BIAS : CUDNN_APART, turn + ours + plans);
  if (plans < 0 || second_plans < 0) status = cudaErrorUnknown;
  if (!status) status = time_in_turns(turn, ours + plans + second_plans, t->place, sets.count, t->machine);
  if (!status && beside) *cudnn = cudnn_trial_figures(&baseline, turn + ours);
  if (!status && beside_second) {
    const cudnn_figures other = cudnn_trial_figures(&second, turn + ours + plans);
    if (bare) *fused = other;
    else *cudnn = cudnn_faster(cudnn, &other);
  }
  cudnn_trial_close(&baseline);
  cudnn_trial_close(&second);
  for (int k = 0; k < ours && status; k++)
    if (turn[k].failed) {
      rows[index[k % n]].status = RESULT_WRONG;
      snprintf(rows[index[k % n]].note, sizeof rows[index[k % n]].note, "right once, but failed while it was timed: %s", cudaGetErrorString(status));
    }
  for (int k = 0; k < n && !status; k++) {
    result_row *row = &rows[index[k]];
    contenders[index[k]] = turn[k];
    row->time = &contenders[index[k]];
    row->timed = true;
    row->in_order_us = ours > n && turn[n + k].count > 1 ? turn[n + k].median_us : 0;
    row->cudnn = cudnn->note[0] ? cudnn : NULL;
    row->fused = fused->note[0] ? fused : NULL;
    if (row->status != RESULT_RIGHT) continue;
    if (turn[k].count == 1) snprintf(row->note, sizeof row->note, "takes over a second: run once");
    else if (!timing_is_cold(touched, sets.count, t->machine->device.l2_bytes))
      snprintf(row->note, sizeof row->note, "%d buffer sets: not enough to keep the cache cold", sets.count);
  }
  buffer_sets_free(&sets);
  return status;
}
