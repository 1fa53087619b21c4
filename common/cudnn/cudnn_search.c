/* The search for cuDNN's best plan.
 *
 * First what won for the layer's other graphs (cudnn_kin.c), and what cuDNN itself proposes: every plan of the heuristic modes A, B and FALLBACK, and
 * every usable engine with default knobs. Then the knobs of the fastest engines (cudnn_sweep.c), and the fastest on engines like theirs of the task's
 * other graph. Plans and seconds are limited, but for the first LEAST_PLANS; what was known but not reached is counted. */
#include "common/cudnn/cudnn_api.h"

#ifdef HAVE_CUDNN
#include "common/cudnn/cudnn_watch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { FINALISTS = 12, LIST = 95, LEAST_PLANS = 32 };
static const double listing_share = 0.7; /* of plans and seconds; the rest is the sweep's */
static const double warm_up_seconds = 0.05;

double search_clock(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---------------------------------------------------------------- one configuration */

static bool seen_before(plan_search *s, const cudnn_config *config) {
  for (int i = 0; i < s->seen_count; i++)
    if (config_equal(&s->seen[i], config)) return true;
  if (s->seen_count == s->seen_room) {
    const int room = s->seen_room ? 2 * s->seen_room : 256;
    cudnn_config *more = realloc(s->seen, (size_t)room * sizeof *more);
    if (!more) return true; /* no memory: try nothing more */
    s->seen = more, s->seen_room = room;
  }
  s->seen[s->seen_count++] = *config;
  return false;
}

static tried_plan *room_for_one(plan_search *s) {
  if (s->count == s->room) {
    const int room = s->room ? 2 * s->room : 64;
    tried_plan *more = realloc(s->tried, (size_t)room * sizeof *more);
    if (!more) return NULL;
    s->tried = more, s->room = room;
  }
  return &s->tried[s->count];
}

static double best_us(const plan_search *s) {
  double best = 0;
  for (int i = 0; i < s->count; i++)
    if (best == 0 || s->tried[i].us < best) best = s->tried[i].us;
  return best;
}

/* A direct kernel without tensor cores takes at least its FLOPs at fp32's peak. cuDNN compiles such engines at run time, for up to 20 s. */
static bool hopeless(const plan_search *s, const engine_facts *facts) {
  const unsigned compiled = 1u << CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION;
  const unsigned faster = 1u << CUDNN_NUMERICAL_NOTE_TENSOR_CORE | 1u << CUDNN_NUMERICAL_NOTE_FFT | 1u << CUDNN_NUMERICAL_NOTE_WINOGRAD;
  const double best = best_us(s), margin = 0.5;
  if (!(facts->behavior & compiled) || facts->notes & faster || s->options.fp32_flops <= 0 || best <= 0) return false;
  return best < margin * 2e6 * problem_macs(s->bench->task->problem) / s->options.fp32_flops;
}

/* The same math as the task's? fp16 engines noted for reduced-precision sums may keep them in fp32 all the same (9.19's for three input
 * channels does): where results are checked, the check decides. */
static bool admitted(const plan_search *s, unsigned notes) {
  const conv_dtype dtype = s->bench->task->dtype;
  if (s->options.direct && notes & (1u << CUDNN_NUMERICAL_NOTE_WINOGRAD | 1u << CUDNN_NUMERICAL_NOTE_FFT)) return false;
  return s->options.any_math || notes_same_math(notes, dtype) || (s->checked && dtype == DTYPE_FP16);
}

enum { ENDLESS = 64 };

/* A file in the folder of another. */
static void beside(const char *other, const char *name, char path[PATH_MAX]) {
  const char *slash = strrchr(other, '/');
  snprintf(path, PATH_MAX, "%.*s%s", slash ? (int)(slash + 1 - other) : 0, other, name);
}

void search_watch(plan_search *s) {
  const cudnn_options *o = &s->options;
  char key[CUDNN_KEY], path[PATH_MAX];
  cudnn_task_key(s->bench->task, o->gpu ? o->gpu : "", cudnn_version(), o->workspace_limit, key);
  s->endless = malloc(ENDLESS * sizeof *s->endless);
  for (int i = 0; i < 2 && s->endless; i++) {
    if (!o->winners[i]) continue;
    beside(o->winners[i], "cudnn_endless.csv", path);
    s->endless_count += watch_known(path, key, s->endless + s->endless_count, ENDLESS - s->endless_count);
  }
  if (o->append_to) beside(o->append_to, "cudnn_endless.csv", path);
  watch_task(key, o->append_to ? path : NULL);
}

static bool is_endless(const plan_search *s, const cudnn_config *config) {
  char tag[CUDNN_TAG];
  config_print(config, s->bench->task->layout, tag);
  for (int i = 0; i < s->endless_count; i++)
    if (strcmp(s->endless[i], tag) == 0) return true;
  return false;
}

/* Leaves out what was seen, what does not end and what does other math; makes jobs of the rest. */
static int select_jobs(plan_search *s, const proposal *list, int count, build_job jobs[BUILDERS]) {
  int selected = 0;
  for (int i = 0; i < count && selected < BUILDERS; i++) {
    if (seen_before(s, &list[i].config)) continue;
    if (is_endless(s, &list[i].config)) {
      s->counts.endless++;
      snprintf(s->why, sizeof s->why, "it did not end in an earlier run");
      continue;
    }
    const engine_facts facts = engine_ask(list[i].graph, list[i].config.engine);
    if (facts.usable && !admitted(s, facts.notes)) {
      s->counts.other_math++;
      snprintf(s->why, sizeof s->why, "its engine does other math than the task's");
      continue;
    }
    if (hopeless(s, &facts)) {
      s->counts.hopeless++;
      snprintf(s->why, sizeof s->why, "fp32 FMA is too slow for it");
      continue;
    }
    cudnn_plan *plan = malloc(sizeof *plan);
    if (plan) jobs[selected++] = (build_job){.graph = list[i].graph, .config = list[i].config, .plan = plan};
  }
  return selected;
}

int search_tried(const plan_search *s) { return s->counts.timed + s->counts.failed + s->counts.not_capturable; }

/* Seconds run out where every plan is compiled at run time: the first few are tried whatever it takes, or a short search would have picked none of them. */
bool search_enough(const plan_search *s, double second) { return search_clock() >= second && search_tried(s) >= LEAST_PLANS; }

/* Times a built plan. Returns true if it was entered. */
static bool enter(plan_search *s, const build_job *job, double give_up_us) {
  tried_plan *entry = room_for_one(s);
  cudnn_plan *plan = job->plan;
  if (!entry || s->lost) return false;
  if (plan->workspace > s->options.workspace_limit) {
    s->counts.over_workspace++;
    snprintf(s->why, sizeof s->why, "wants a workspace of %zu bytes", plan->workspace);
    return false;
  }
  *entry = (tried_plan){.plan = plan, .graph = job->graph, .build_seconds = job->seconds};
  const try_result result = bench_time(s->bench, job->graph, plan, give_up_us, &entry->us);
  if (result == TRIED_TIMED) {
    s->count++;
    s->counts.timed++;
    s->counts.runtime_built += (int)(plan->behavior >> CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION & 1);
  } else if (result == TRIED_NOT_CAPTURABLE) {
    s->counts.not_capturable++;
    snprintf(s->why, sizeof s->why, "runs, but not inside a CUDA graph");
  } else {
    s->counts.failed++;
    s->lost = result == TRIED_DEVICE_LOST;
    cudnn_failure(s->why, sizeof s->why, "cudnnBackendExecute", CUDNN_STATUS_EXECUTION_FAILED);
  }
  return result == TRIED_TIMED;
}

int search_try(plan_search *s, const proposal *list, int count, double give_up_us) {
  build_job jobs[BUILDERS];
  const double start = search_clock();
  const int selected = select_jobs(s, list, count, jobs);
  if (selected) bench_build(s->bench, jobs, selected);
  const double middle = search_clock();
  s->counts.build_seconds += middle - start;
  int entered = 0;
  for (int i = 0; i < selected; i++) {
    bool kept = false;
    if (jobs[i].seconds > s->counts.slowest_build) {
      s->counts.slowest_build = jobs[i].seconds;
      config_print(&jobs[i].config, s->bench->task->layout, s->counts.slowest_tag);
    }
    if (jobs[i].built && s->deadline > 0 && search_enough(s, s->deadline)) {
      s->counts.cut++; /* one launch can take seconds */
    } else if (jobs[i].built) {
      kept = enter(s, &jobs[i], give_up_us);
    } else {
      s->counts.refused++;
      snprintf(s->why, sizeof s->why, "%s", jobs[i].plan->pool.failure);
    }
    entered += kept;
    if (kept) continue;
    plan_free(jobs[i].plan);
    free(jobs[i].plan);
  }
  s->counts.time_seconds += search_clock() - middle;
  return entered;
}

static int compare_times(const void *a, const void *b) {
  const double x = ((const tried_plan *)a)->us, y = ((const tried_plan *)b)->us;
  return (x > y) - (x < y);
}

void search_sort(plan_search *s) {
  if (s->count) qsort(s->tried, (size_t)s->count, sizeof *s->tried, compare_times);
}

void search_free(plan_search *s) {
  for (int i = 0; i < s->count; i++)
    if (s->tried[i].plan) {
      plan_free(s->tried[i].plan);
      free(s->tried[i].plan);
    }
  free(s->tried);
  free(s->seen);
  free(s->endless);
  s->endless = NULL, s->endless_count = 0;
  s->tried = NULL, s->seen = NULL;
  s->count = s->seen_count = s->room = s->seen_room = 0;
}

/* ---------------------------------------------------------------- limits */

search_limit search_limit_of(const plan_search *s, double share) {
  return (search_limit){.plans = (int)(share * s->options.most_plans), .second = s->start + share * s->options.most_seconds};
}

bool search_reached(const plan_search *s, search_limit l) { return s->lost || search_tried(s) >= l.plans || search_enough(s, l.second); }

/* ---------------------------------------------------------------- what cuDNN proposes */

typedef struct {
  proposal *item;
  int count, room, kin; /* kin: the first ones, from the layer's other graphs */
} proposals;

static void propose(proposals *q, const cudnn_graph *g, const cudnn_config *config) {
  for (int i = 0; i < q->count; i++)
    if (config_equal(&q->item[i].config, config)) return;
  if (q->count < q->room) q->item[q->count++] = (proposal){g, *config};
}

/* Best first, behind what is there: heuristic A's, every engine's defaults, fallbacks, what B adds. Graphs take turns. */
static void collect(proposals *q, const cudnn_graph *graphs, int graph_count) {
  static const cudnnBackendHeurMode_t mode[3] = {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK, CUDNN_HEUR_MODE_B};
  cudnn_config *list[GRAPHS][3];
  int count[GRAPHS][3] = {{0}};
  for (int g = 0; g < graph_count; g++)
    for (int m = 0; m < 3; m++) {
      list[g][m] = malloc(LIST * sizeof **list[g]);
      if (list[g][m]) count[g][m] = config_list(&graphs[g], mode[m], list[g][m], LIST);
    }
  for (int rank = 0; rank < LIST; rank++)
    for (int g = 0; g < graph_count; g++)
      if (rank < count[g][0]) propose(q, &graphs[g], &list[g][0][rank]);
  for (unsigned compiled = 0; compiled < 2; compiled++) /* those that are compiled at run time after the others: they may take long */
    for (int g = 0; g < graph_count; g++)
      for (int engine = 0; engine < graphs[g].engines; engine++) {
        const engine_facts facts = engine_ask(&graphs[g], engine);
        if (facts.usable && (facts.behavior >> CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION & 1) == compiled)
          propose(q, &graphs[g], &(cudnn_config){.layout = graphs[g].layout, .bias = graphs[g].bias, .engine = engine});
      }
  for (int m = 1; m < 3; m++)
    for (int rank = 0; rank < LIST; rank++)
      for (int g = 0; g < graph_count; g++)
        if (rank < count[g][m]) propose(q, &graphs[g], &list[g][m][rank]);
  for (int g = 0; g < graph_count; g++)
    for (int m = 0; m < 3; m++) free(list[g][m]);
}

/* ---------------------------------------------------------------- the whole */

/* Tries proposals from *next on. */
static void work_off(plan_search *s, const proposals *q, int *next, search_limit until) {
  s->deadline = search_limit_of(s, 1).second;
  while (*next < q->count && !search_reached(s, until)) {
    const bool first = s->count == 0;
    const int end = *next < q->kin ? q->kin : q->count, left = end - *next, count = first ? 1 : left < BUILDERS ? left : BUILDERS;
    const int entered = search_try(s, &q->item[*next], count, SEARCH_GIVE_UP * best_us(s)); /* one thread makes the first handle */
    if (*next < q->kin) s->counts.kin += entered;
    *next += count;
    const double warm = search_clock() + warm_up_seconds; /* clocks rise */
    while (first && entered && search_clock() < warm && bench_time(s->bench, s->tried->graph, s->tried->plan, 0, &s->tried->us) == TRIED_TIMED) {}
  }
  s->deadline = 0;
}

/* The fastest once more, in turns, so that a clock drift does not choose among them. Sorted by time. */
static void run_off(plan_search *s) {
  enum { ROUNDS = 3 };
  int finalists = 0;
  while (finalists < s->count && finalists < FINALISTS && s->tried[finalists].us <= SEARCH_GIVE_UP * s->tried[0].us) finalists++;
  double sum[FINALISTS] = {0};
  int rounds[FINALISTS] = {0};
  for (int round = 0; round < ROUNDS; round++)
    for (int i = 0; i < finalists && !s->lost; i++) {
      double us;
      const try_result result = bench_time(s->bench, s->tried[i].graph, s->tried[i].plan, 0, &us);
      s->lost = result == TRIED_DEVICE_LOST;
      if (result == TRIED_TIMED) sum[i] += us, rounds[i]++;
    }
  for (int i = 0; i < finalists; i++)
    if (rounds[i]) s->tried[i].us = sum[i] / rounds[i];
}

/* The fastest, on engines like theirs of the other graph: the same kernels, but for the bias's type. */
static void cross(plan_search *s, const cudnn_graph *graphs, int graph_count) {
  enum { ROOM = 4 * FINALISTS };
  proposal list[ROOM];
  int count = 0;
  search_sort(s);
  for (int i = 0; i < s->count && i < FINALISTS; i++) count = kin_add(s->tried[i].graph, &s->tried[i].plan->config, graphs, graph_count, list, count, ROOM);
  const double give_up_us = SEARCH_GIVE_UP * best_us(s);
  for (int i = 0; i < count && !s->lost; i += BUILDERS) search_try(s, list + i, count - i < BUILDERS ? count - i : BUILDERS, give_up_us);
}

bool search_run(plan_search *s, const cudnn_graph *graphs, int graph_count) {
  s->start = search_clock();
  proposals q = {.room = GRAPHS * 4 * LIST};
  q.item = malloc((size_t)q.room * sizeof *q.item);
  if (!q.item) q.room = 0;
  q.count = q.kin = kin_list(s, graphs, graph_count, q.item, q.room);
  collect(&q, graphs, graph_count);
  int next = 0;
  work_off(s, &q, &next, search_limit_of(s, listing_share));
  search_sweep(s);
  if (graph_count > 1) cross(s, graphs, graph_count);
  work_off(s, &q, &next, search_limit_of(s, 1));
  s->counts.cut += q.count - next;
  free(q.item);
  search_sort(s);
  run_off(s);
  search_sort(s);
  s->counts.seconds = search_clock() - s->start;
  return !s->lost;
}
#endif
