/* cuDNN's plans as contenders: the interface of cudnn.h, from a search or from the winners of an earlier one. */
#include "common/cudnn/cudnn_api.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef HAVE_CUDNN

/* What a baseline holds between open and close. */
typedef struct cudnn_session {
  conv_problem problem;
  cudnn_task task;
  conv_buffers *views;
  cudnn_graph graph[GRAPHS]; /* graph[0]: in the task's layout (fp16: NHWC), a bias in its type */
  int graphs;
  cudnn_bench bench;
  plan_search search;
  tried_plan kept[CUDNN_BEST + 1];
  bool borrowed; /* kept plans are another session's */
} cudnn_session;

static const size_t default_workspace = (size_t)1 << 30, least_workspace = (size_t)1 << 20;

/* ---------------------------------------------------------------- opening */

static void *copy_of(const void *data, size_t bytes) {
  void *copy = data ? malloc(bytes) : NULL;
  if (copy) memcpy(copy, data, bytes);
  return copy;
}

/* The layouts to try, the first of them the one in which the heuristic is asked. */
static int choose_layouts(const cudnn_task *task, const cudnn_options *options, conv_layout chosen[LAYOUT_COUNT]) {
  int count = 0;
  const bool named = options->layouts[LAYOUT_NCHW] || options->layouts[LAYOUT_NHWC];
  for (int i = 0; i < LAYOUT_COUNT; i++) {
    const conv_layout layout = (conv_layout)((task->layout + i) % LAYOUT_COUNT);
    bool wanted = named ? options->layouts[layout] : task->dtype == DTYPE_FP16 ? layout == LAYOUT_NHWC : true;
    if (!epilogue_empty(&task->epilogue)) wanted = layout == task->layout; /* the residual lies as the caller laid it */
    if (wanted) chosen[count++] = layout;
  }
  return count;
}

static int open_session(cudnn_baseline *b, const cudnn_task *task, const conv_buffers *views, int sets, const cudnn_options *options, char *error,
                        size_t error_size) {
  *b = (cudnn_baseline){.heuristic = -1};
  if (!cudnn_version()) {
    snprintf(error, error_size, "%s", cudnn_describe());
    return 1;
  }
  cudnn_session *s = b->session = calloc(1, sizeof *s);
  if (s) s->views = copy_of(views, (size_t)sets * sizeof *views);
  if (!s || !s->views) {
    snprintf(error, error_size, "no host memory for cuDNN's plans");
    return -1;
  }
  s->problem = *task->problem;
  s->task = *task;
  s->task.problem = &s->problem;
  if (bench_open(&s->bench, &s->task, s->views, sets, error, error_size)) return -1;
  conv_layout layout[LAYOUT_COUNT];
  const int layouts = choose_layouts(task, options, layout);
  const bool halves = task_halves(task);
  for (int i = 0; i < layouts * (halves ? 2 : 1); i++) {
    cudnn_task asked = s->task;
    if (halves) asked.bias = i < layouts ? DTYPE_FP16 : DTYPE_FP32;
    cudnn_graph *graph = &s->graph[s->graphs];
    if (cudnn_graph_make(graph, &asked, layout[i % layouts], s->bench.handle, NULL, error, error_size) == 0) {
      s->graphs++;
      continue;
    }
    cudnn_graph_free(graph);
    if (halves) fprintf(stderr, "cuDNN refuses a bias in %s: %s\n", dtype_name(asked.bias), error);
  }
  if (s->graphs == 0) return 1;
  s->search = (plan_search){.bench = &s->bench, .options = *options};
  cudnn_options *o = &s->search.options;
  if (o->most_plans <= 0) o->most_plans = 400;
  if (o->most_seconds <= 0) o->most_seconds = 10;
  if (o->workspace_limit == 0) o->workspace_limit = default_workspace;
  while (bench_workspace(&s->bench, o->workspace_limit) && o->workspace_limit > least_workspace) o->workspace_limit /= 2;
  search_watch(&s->search);
  return 0;
}

void cudnn_baseline_close(cudnn_baseline *b) {
  cudnn_session *s = b->session;
  if (s) {
    for (int i = 0; i < b->count && !s->borrowed; i++) {
      plan_free(s->kept[i].plan);
      free(s->kept[i].plan);
    }
    search_free(&s->search);
    for (int i = 0; i < s->graphs; i++) cudnn_graph_free(&s->graph[i]);
    bench_free(&s->bench);
    free(s->views);
    free(s);
  }
  free(b->all);
  *b = (cudnn_baseline){.heuristic = -1};
}

/* ---------------------------------------------------------------- choosing */

/* Winners of an earlier search that took this many times the first one's time are not timed again: no run differs so much from another. */
static const double again_share = 1.25, close_share = 1.1 /* winners_only */;

static cudnn_candidate describe(const cudnn_session *s, const tried_plan *tried) {
  cudnn_candidate c = {.layout = tried->graph->layout, .workspace = tried->plan->workspace, .us = tried->us};
  config_print(&tried->plan->config, s->task.layout, c.tag);
  notes_print(tried->plan->notes, c.notes);
  c.note_bits = tried->plan->notes;
  return c;
}

/* Moves a tried plan among the kept, if its result is right. Returns its index, -1: wrong, -2: an error. */
static int keep(cudnn_baseline *b, tried_plan *tried, const cudnn_truth *truth, char *error, size_t error_size) {
  cudnn_session *s = b->session;
  cudnn_candidate c = describe(s, tried);
  if (truth) {
    conv_verdict verdict;
    error_rule rule = cudnn_rule(&s->task, c.note_bits, truth->reference->random);
    if (s->search.options.any_math) rule = cudnn_any_math_rule(&s->task, rule);
    if (cudnn_check(&s->bench, tried->graph, tried->plan, truth, rule, &verdict, error, error_size)) return -2;
    for (int twice = 0; twice < 2 && !verdict.right && !s->search.options.direct; twice++) {
      if (!(twice ? cudnn_rounded_rule : cudnn_unnoted_rule)(&s->task, c.note_bits, truth->reference->random, &rule)) continue;
      if (cudnn_check(&s->bench, tried->graph, tried->plan, truth, rule, &verdict, error, error_size)) return -2;
      const char *what = twice ? "sums rounded before the epilogue" : "Winograd, not noted";
      if (verdict.right) snprintf(c.notes, sizeof c.notes, "error %.2g times a plain sum's bound: %s", verdict.plain_share, what);
      c.rounds_sums = twice, c.note_bits |= (unsigned)!twice << CUDNN_NUMERICAL_NOTE_WINOGRAD;
    }
    c.worst_share = verdict.worst_share, c.plain_share = verdict.plain_share;
    if (!verdict.right) {
      if (b->counts.wrong++ == 0) {
        b->counts.wrong_us = c.us;
        b->counts.wrong_share = c.plain_share;
        memcpy(b->counts.wrong_tag, c.tag, CUDNN_TAG);
      }
      tried->wrong = true;
      return -1;
    }
    c.checked = true;
  }
  s->kept[b->count] = *tried;
  tried->plan = NULL;
  b->plan[b->count] = c;
  return b->count++;
}

/* The same kernel by another name, it seems: some knobs change nothing. Of these one is enough. */
static bool is_alias(const cudnn_baseline *b, const tried_plan *tried) {
  const double alike = 0.005;
  for (int i = 0; i < b->count; i++) {
    const tried_plan *kept = &b->session->kept[i];
    if (kept->graph == tried->graph && kept->plan->config.engine == tried->plan->config.engine && kept->plan->workspace == tried->plan->workspace &&
        tried->us < (1 + alike) * kept->us)
      return true;
  }
  return false;
}

/* Many configurations of its engine have proved wrong: the others are not worth a check. */
static bool is_of_wrong_kind(const plan_search *search, int index) {
  enum { ENOUGH = 6 };
  const tried_plan *tried = search->tried;
  int wrong = 0;
  for (int i = 0; i < index; i++)
    wrong += tried[i].wrong && tried[i].graph == tried[index].graph && tried[i].plan->config.engine == tried[index].plan->config.engine;
  return wrong >= ENOUGH;
}

/* What a user gets: heuristic mode A's first plan that does the task's math, fits the workspace and runs. Tried now if it was not yet. */
static int keep_heuristic(cudnn_baseline *b, const cudnn_truth *truth, char *error, size_t error_size) {
  enum { LIST = 32 };
  cudnn_session *s = b->session;
  plan_search *search = &s->search;
  static cudnn_config list[LIST];
  const int listed = config_list(&s->graph[0], CUDNN_HEUR_MODE_A, list, LIST);
  for (int i = 0; i < listed && !search->lost; i++) {
    for (int k = 0; k < b->count; k++)
      if (config_equal(&s->kept[k].plan->config, &list[i])) return k;
    int at = -1;
    for (int k = 0; k < search->count && at < 0; k++)
      if (search->tried[k].plan && config_equal(&search->tried[k].plan->config, &list[i])) at = k;
    if (at < 0 && search_try(search, &(proposal){&s->graph[0], list[i]}, 1, 0)) at = search->count - 1;
    if (at < 0 || search->tried[at].wrong) continue;
    const int kept = keep(b, &search->tried[at], truth, error, error_size);
    if (kept != -1) return kept;
  }
  return -1;
}

static int by_time(const void *a, const void *b) {
  const double x = ((const cudnn_candidate *)a)->us, y = ((const cudnn_candidate *)b)->us;
  return (x > y) - (x < y);
}

/* From what was tried to what is handed over. Returns as cudnn_baseline_open. */
static int conclude(cudnn_baseline *b, const cudnn_truth *truth, bool with_heuristic, char *error, size_t error_size) {
  cudnn_session *s = b->session;
  plan_search *search = &s->search;
  b->counts = search->counts;
  search_sort(search);
  if (search->options.keep_all && search->count) {
    b->all = malloc((size_t)search->count * sizeof *b->all);
    for (int i = 0; b->all && i < search->count; i++) b->all[b->all_count++] = describe(s, &search->tried[i]);
    if (b->all) qsort(b->all, (size_t)b->all_count, sizeof *b->all, by_time);
  }
  for (int i = 0; i < search->count && b->count < CUDNN_BEST && !search->lost; i++) {
    if (b->count && search->tried[i].us > SEARCH_GIVE_UP * b->plan[0].us) break; /* will not win, and may take seconds to time */
    if (!is_alias(b, &search->tried[i]) && !is_of_wrong_kind(search, i) && keep(b, &search->tried[i], truth, error, error_size) == -2) return -1;
  }
  b->best = b->count;
  if (with_heuristic && !search->lost) b->heuristic = keep_heuristic(b, truth, error, error_size);
  if (search->lost || b->heuristic == -2) {
    if (search->lost) snprintf(error, error_size, "a plan of cuDNN made the device unusable: %.300s", search->why);
    return -1;
  }
  size_t most = 0;
  for (int i = 0; i < b->count; i++)
    if (b->plan[i].workspace > most) most = b->plan[i].workspace;
  search_free(search);
  if (bench_workspace(&s->bench, most)) {
    snprintf(error, error_size, "no device memory for a workspace of %zu bytes", most);
    return -1;
  }
  if (b->count) return 0;
  char shape[256];
  problem_print(&s->problem, shape, sizeof shape);
  snprintf(error, error_size, "cuDNN has no plan for %s %s %s (%d of other math, %d refused, %d over the workspace, %d failed, %d wrong)%s%.300s", shape,
           pass_name(s->task.pass), dtype_name(s->task.dtype), b->counts.other_math, b->counts.refused, b->counts.over_workspace, b->counts.failed,
           b->counts.wrong, search->why[0] ? "; the last: " : "", search->why);
  return 1;
}

/* ---------------------------------------------------------------- the interface */

/* Builds and times plans by their tags, CUDNN_BEST at most. Returns how many could be. */
static int try_tags(cudnn_session *s, const char (*tags)[CUDNN_TAG], int count) {
  s->search.checked = true;
  proposal list[CUDNN_BEST];
  int listed = 0;
  for (int i = 0; i < count; i++) {
    cudnn_config config;
    if (config_parse(&config, s->task.layout, tags[i])) {
      snprintf(s->search.why, sizeof s->search.why, "\"%.100s\" is no tag; expected something like eng79_k24=3", tags[i]);
      continue;
    }
    for (int g = 0; g < s->graphs; g++)
      if (s->graph[g].layout == config.layout && s->graph[g].bias == config.bias) list[listed++] = (proposal){&s->graph[g], config};
  }
  if (listed) search_try(&s->search, list, listed, 0);
  return s->search.count;
}

/* After a failure nothing is left but the counts, which may tell why. */
static int closed_unless_good(cudnn_baseline *b, int status) {
  const cudnn_counts counts = b->counts;
  if (status) cudnn_baseline_close(b);
  b->counts = counts;
  return status;
}

static void remember(const cudnn_baseline *b, const cudnn_task *task, const cudnn_options *o, size_t asked_workspace) {
  cudnn_winners winners = {.count = b->best};
  if (!o->append_to || !o->gpu || b->best == 0 || o->workspace_limit != asked_workspace) return;
  for (int i = 0; i < b->best; i++) {
    memcpy(winners.tag[i], b->plan[i].tag, CUDNN_TAG);
    winners.us[i] = b->plan[i].us;
  }
  memcpy(winners.search, b->search, sizeof winners.search);
  cudnn_winners_append(o->append_to, task, o->gpu, cudnn_version(), o->workspace_limit, &winners);
}

int cudnn_baseline_open(cudnn_baseline *b, const cudnn_task *task, const conv_buffers *views, int sets, const cudnn_options *options, const cudnn_truth *truth,
                        char *error, size_t error_size) {
  int status = open_session(b, task, views, sets, options, error, error_size);
  if (!status) {
    plan_search *search = &b->session->search;
    const cudnn_options *o = &search->options;
    const size_t asked = options->workspace_limit ? options->workspace_limit : default_workspace;
    const double share = o->winners_only ? close_share : again_share;
    cudnn_winners known = {0};
    bool known_ones = false;
    for (int i = 0; i < 2 && !known_ones; i++) {
      if (!o->winners[i] || !o->gpu) continue;
      const int found = cudnn_winners_lookup(o->winners[i], task, o->gpu, cudnn_version(), asked, &known, error, error_size);
      if (found < 0) fprintf(stderr, "%s\n", error);
      while (found == 0 && known.count > 1 && known.us[known.count - 1] > share * known.us[0]) known.count--;
      known_ones = found == 0 && try_tags(b->session, (const char(*)[CUDNN_TAG])known.tag, known.count) > 0;
    }
    const bool from_file = known_ones && !o->search; /* a search anew begins with them, too: it never ends with less */
    search->counts.from_file = from_file;
    search->checked = from_file || truth;
    if (!from_file) search_run(search, b->session->graph, b->session->graphs);
    status = conclude(b, truth, !(from_file && o->winners_only), error, error_size);
    if (from_file) memcpy(b->search, known.search, sizeof b->search);
    else cudnn_counts_print(&b->counts, b->search);
    if (!status && !from_file) remember(b, task, o, asked);
  }
  return closed_unless_good(b, status);
}

int cudnn_plan_from_tag(cudnn_baseline *b, const cudnn_task *task, const char *tag, const conv_buffers *views, int sets, const cudnn_options *options,
                        const cudnn_truth *truth, char *error, size_t error_size) {
  char one[1][CUDNN_TAG];
  snprintf(one[0], CUDNN_TAG, "%s", tag);
  int status = open_session(b, task, views, sets, options, error, error_size);
  if (!status) {
    try_tags(b->session, (const char(*)[CUDNN_TAG])one, 1);
    status = conclude(b, truth, false, error, error_size);
  }
  return closed_unless_good(b, status);
}

int cudnn_plan_again(cudnn_baseline *b, const cudnn_task *task, const cudnn_runner *known, const conv_buffers *views, int sets, const cudnn_options *options,
                     const cudnn_truth *truth, char *error, size_t error_size) {
  int status = open_session(b, task, views, sets, options, error, error_size);
  if (!status) {
    cudnn_session *s = b->session;
    tried_plan again = known->baseline->session->kept[known->plan];
    const cudnn_graph *of = again.graph;
    s->borrowed = true, status = 1;
    for (int i = 0; i < s->graphs; i++)
      if (s->graph[i].layout == of->layout && s->graph[i].bias == of->bias) again.graph = &s->graph[i], status = 0;
    snprintf(error, error_size, "no graph for the plan %s, or no memory for its workspace", known->baseline->plan[known->plan].tag);
    if (!status && bench_workspace(&s->bench, again.plan->workspace)) status = -1;
    if (!status) {
      snprintf(error, error_size, "the plan %s is wrong on other buffers", known->baseline->plan[known->plan].tag);
      status = keep(b, &again, truth, error, error_size) < 0 ? -1 : 0;
    }
    b->best = b->count;
  }
  return closed_unless_good(b, status);
}

cudaError_t cudnn_enqueue(void *runner, int set, cudaStream_t stream) {
  const cudnn_runner *r = runner;
  cudnn_session *s = r->baseline->session;
  const cudnnStatus_t status = bench_enqueue(&s->bench, s->kept[r->plan].graph, s->kept[r->plan].plan, set, stream);
  if (status) {
    char message[CUDNN_ERROR];
    cudnn_failure(message, sizeof message, r->baseline->plan[r->plan].tag, status);
    fprintf(stderr, "%s\n", message);
  }
  return status ? cudaErrorUnknown : cudaSuccess;
}
#endif
