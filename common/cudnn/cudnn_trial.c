/* cuDNN's plans as contenders of a trial. See cudnn_trial.h. */
#include "common/cudnn/cudnn_trial.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern const conv_kernel pointwise_fp32, pointwise_fp16; /* common/harness/unfused.cu */

static cudaError_t enqueue(void *context, int set, cudaStream_t stream) {
  struct cudnn_turn *turn = context;
  const cudnn_trial *c = turn->trial;
  const cudaError_t status = cudnn_enqueue(&turn->runner, set, stream);
  if (status || !c->after) return status;
  conv_buffers view = buffer_view(c->sets, set);
  view.x = view.y = buffer_address(c->sets, set, (int)c->state->output); /* in place */
  return c->after->launch(&c->after_plan, &view, stream);
}

static cudaError_t poison(void *context) {
  const cudnn_trial *c = ((struct cudnn_turn *)context)->trial;
  cudaError_t status = cudaSuccess;
  for (int set = 0; set < c->sets->count && !status; set++) status = buffer_poison(c->sets, set, (int)c->state->output);
  return status;
}

/* Verifies what the last timed sample wrote into one set. A plan on the other layout took the same bytes for another problem's data, so
 * there is nothing to compare with: that it computes the right thing was checked when it was chosen. */
static cudaError_t check(void *context, int first, int count) {
  struct cudnn_turn *turn = context;
  trial_state *s = turn->trial->state;
  cudnn_candidate *plan = &turn->trial->baseline.plan[turn->runner.plan];
  (void)count;
  if (plan->layout != s->t->layout) return cudaSuccess;
  const cudnn_task task = {.problem = s->t->problem, .pass = s->t->pass, .dtype = s->t->dtype, .layout = s->t->layout, .epilogue = s->t->epilogue};
  error_rule rule = cudnn_rule(&task, plan->note_bits, s->reference.random);
  if (turn->trial->after || plan->rounds_sums)
    rule.growth += (s->reference.random ? 8 : 1) * dtype_unit_roundoff(s->t->dtype); /* the sums are rounded once more on their way */
  conv_verdict verdict;
  const cudaError_t status = trial_judge(s, turn->trial->sets, first, COMPARE_BOUND, rule, NULL, &verdict);
  turn->wrong = !verdict.right;
  if (turn->trial->after) plan->plain_share = verdict.plain_share;
  return status;
}

/* The kernel for the epilogue alone, and its plan. Returns false where there is none. */
static bool plan_after(cudnn_trial *c, const trial *t) {
  static const conv_kernel *const rows[] = {&pointwise_fp32, &pointwise_fp16};
  const conv_operation whole = {.problem = *t->problem, .pass = t->pass, .epilogue = t->epilogue}, alone = epilogue_alone(&whole);
  for (int i = 0; i < 2 && !c->after; i++)
    if (rows[i]->dtype == t->dtype && rows[i]->layout == t->layout && !kernel_plan(rows[i], &alone, &t->machine->device, &c->after_plan)) c->after = rows[i];
  return c->after != NULL;
}

int cudnn_trial_open(cudnn_trial *c, trial_state *s, const buffer_sets *sets, const cudnn_options *wanted, cudnn_way way,
                     contender contenders[CUDNN_CONTENDERS]) {
  const trial *t = s->t;
  *c = (cudnn_trial){.baseline = {.heuristic = -1}, .state = s, .sets = sets};
  cudnn_task task = {
      .problem = t->problem, .pass = t->pass, .dtype = t->dtype, .layout = t->layout, .epilogue = t->epilogue, .zero_bias = way == CUDNN_ZERO_BIAS};
  cudnn_options options = *wanted;
  const cudnn_truth truth = {trial_input(s, s->input_a), trial_input(s, s->input_b), &s->reference};
  if (way == CUDNN_APART) {
    task.epilogue = (conv_epilogue){0};
    options.layouts[t->layout] = true; /* the other kernel's */
    options.append_to = NULL;          /* unchecked: the reference is the whole operation's; */
    options.search = false;            /* so what a search of the bare graph has found is better */
    if (!plan_after(c, t)) {
      snprintf(c->note, sizeof c->note, "no kernel for the epilogue alone");
      return 0;
    }
  }
  conv_buffers *views = calloc((size_t)sets->count, sizeof *views);
  char error[CUDNN_ERROR] = "no host memory";
  int status = views ? 0 : 1;
  for (int i = 0; views && i < sets->count; i++) views[i] = buffer_view(sets, i);
  if (!status) status = cudnn_baseline_open(&c->baseline, &task, views, sets->count, &options, c->after ? NULL : &truth, error, sizeof error);
  free(views);
  if (status) {
    snprintf(c->note, sizeof c->note, "%.255s", error);
    if (status < 0) fprintf(stderr, "%s\n", error);
    return status < 0 ? -1 : 0;
  }
  const cudnn_counts *n = &c->baseline.counts;
  if (n->from_file) snprintf(c->note, sizeof c->note, "the winners of an earlier search");
  else
    snprintf(c->note, sizeof c->note,
             "best of %d plans in %.0f s, %d more known but not tried; left out: %d of other math, %d hopeless, %d over the workspace, %d wrong", n->timed,
             n->seconds, n->cut, n->other_math, n->hopeless, n->over_workspace, n->wrong);
  for (int i = 0; i < c->baseline.count; i++) {
    c->turn[i] = (struct cudnn_turn){.runner = {&c->baseline, i}, .trial = c};
    contenders[i] = (contender){.enqueue = enqueue, .poison = poison, .check = check, .context = &c->turn[i], .first_seconds = 1e-6 * c->baseline.plan[i].us};
  }
  return c->baseline.count;
}

cudnn_figures cudnn_trial_figures(const cudnn_trial *c, const contender contenders[CUDNN_CONTENDERS]) {
  const cudnn_baseline *b = &c->baseline;
  cudnn_figures f = {0};
  int best = -1;
  for (int i = 0; i < b->count; i++) /* the heuristic's pick may be the fastest after all */
    if (!c->turn[i].wrong && (best < 0 || contenders[i].median_us < contenders[best].median_us)) best = i;
  memcpy(f.note, c->note, sizeof f.note);
  if (best < 0) return f;
  f.version = cudnn_version();
  f.best_us = contenders[best].median_us;
  const char *then = c->after ? "+pointwise" : "";
  snprintf(f.best_plan, sizeof f.best_plan, "%.180s%s", b->plan[best].tag, then);
  f.best_plain_share = b->plan[best].plain_share;
  f.best_early_share = contenders[best].early_share;
  memcpy(f.search, b->search, sizeof f.search);
  memcpy(f.best_notes, b->plan[best].notes, sizeof f.best_notes);
  if (b->heuristic >= 0 && !c->turn[b->heuristic].wrong) {
    f.heuristic_us = contenders[b->heuristic].median_us;
    snprintf(f.heuristic_plan, sizeof f.heuristic_plan, "%.180s%s", b->plan[b->heuristic].tag, then);
  }
  return f;
}

cudnn_figures cudnn_faster(const cudnn_figures *a, const cudnn_figures *b) {
  if (!b->version) return *a;
  if (!a->version) return *b;
  cudnn_figures f = b->best_us < a->best_us ? *b : *a;
  const cudnn_figures *gets = b->heuristic_us > 0 && !(a->heuristic_us > 0 && a->heuristic_us <= b->heuristic_us) ? b : a;
  f.heuristic_us = gets->heuristic_us;
  memcpy(f.heuristic_plan, gets->heuristic_plan, sizeof f.heuristic_plan);
  return f;
}

void cudnn_trial_close(cudnn_trial *c) { cudnn_baseline_close(&c->baseline); }
