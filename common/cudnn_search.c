/* The search for cuDNN's best plan.
 *
 * First what cuDNN itself proposes: every plan of the heuristic modes A, B and FALLBACK, and every usable engine with default knobs. Then,
 * for the fastest engines, knob by knob: the kernel configuration, tiles, split-K 1, 2, 4, ... and the rest, keeping what is faster. The
 * whole space has some 10^11 points, so plans and seconds are limited; what was known but not reached is counted. */
#include "common/cudnn_api.h"

#ifdef HAVE_CUDNN
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { LEADERS = 3, FINALISTS = 12, LIST = 95, FIRST_RANKS = 10, KNOB_VALUES = 24 };
static const double listing_share = 0.7;  /* of plans and seconds; the rest is the sweep's */
static const double leader_distance = 1.3; /* of the best time: slower engines are not swept */
static const double give_up_factor = 2.5, warm_up_seconds = 0.05;

static double now(void) {
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

bool search_try(plan_search *s, const cudnn_graph *g, const cudnn_config *config, double give_up_us) {
  if (s->lost || seen_before(s, config)) return false;
  const engine_facts facts = engine_ask(g, config->engine);
  if (facts.usable && !notes_same_math(facts.notes, s->bench->task->dtype)) {
    s->counts.other_math++;
    snprintf(s->why, sizeof s->why, "its engine does other math than the task's");
    return false;
  }
  tried_plan *entry = room_for_one(s);
  cudnn_plan *plan = entry ? malloc(sizeof *plan) : NULL;
  if (!plan) return false;
  const double start = now();
  const bool built = plan_build(plan, g, s->bench->handle, config) == 0;
  const double middle = now();
  s->counts.build_seconds += middle - start;
  bool entered = false;
  if (!built) {
    s->counts.refused++;
    snprintf(s->why, sizeof s->why, "%s", plan->pool.failure);
  } else if (plan->workspace > s->options.workspace_limit) {
    s->counts.over_workspace++;
    snprintf(s->why, sizeof s->why, "wants a workspace of %zu bytes", plan->workspace);
  } else {
    *entry = (tried_plan){.plan = plan, .graph = g};
    switch (bench_time(s->bench, g, plan, give_up_us, &entry->us)) {
      case TRIED_TIMED: entered = true; break;
      case TRIED_NOT_CAPTURABLE: s->counts.not_capturable++, snprintf(s->why, sizeof s->why, "runs, but not inside a CUDA graph"); break;
      case TRIED_DEVICE_LOST: s->lost = true; /* fall through */
      case TRIED_FAILED: s->counts.failed++, cudnn_failure(s->why, sizeof s->why, "cudnnBackendExecute", CUDNN_STATUS_EXECUTION_FAILED); break;
    }
    s->counts.time_seconds += now() - middle;
  }
  if (entered) {
    s->count++;
    s->counts.timed++;
    s->counts.runtime_built += (int)(plan->behavior >> CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION & 1);
  } else {
    plan_free(plan);
    free(plan);
  }
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
  s->tried = NULL, s->seen = NULL;
  s->count = s->seen_count = s->room = s->seen_room = 0;
}

/* ---------------------------------------------------------------- limits */

typedef struct {
  int plans;     /* that may have been timed by then */
  double second; /* of the clock */
} limit;

static limit limit_of(const plan_search *s, double share) {
  return (limit){.plans = (int)(share * s->options.most_plans), .second = s->start + share * s->options.most_seconds};
}

static bool reached(const plan_search *s, limit l) {
  const cudnn_counts *c = &s->counts;
  return s->lost || c->timed + c->failed + c->not_capturable >= l.plans || now() >= l.second;
}

/* ---------------------------------------------------------------- what cuDNN proposes */

typedef struct {
  const cudnn_graph *graph;
  cudnn_config config;
} proposal;

typedef struct {
  proposal *item;
  int count, room;
} proposals;

static void propose(proposals *q, const cudnn_graph *g, const cudnn_config *config) {
  for (int i = 0; i < q->count; i++)
    if (config_equal(&q->item[i].config, config)) return;
  if (q->count < q->room) q->item[q->count++] = (proposal){g, *config};
}

/* Best first: the heuristic's ten best, every engine's defaults, fallbacks, the heuristics' rest. Graphs take turns. */
static void collect(proposals *q, const cudnn_graph *graphs, int graph_count) {
  static const cudnnBackendHeurMode_t mode[3] = {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK, CUDNN_HEUR_MODE_B};
  cudnn_config *list[LAYOUT_COUNT][3];
  int count[LAYOUT_COUNT][3] = {{0}};
  for (int g = 0; g < graph_count; g++)
    for (int m = 0; m < 3; m++) {
      list[g][m] = malloc(LIST * sizeof **list[g]);
      if (list[g][m]) count[g][m] = config_list(&graphs[g], mode[m], list[g][m], LIST);
    }
  for (int rank = 0; rank < FIRST_RANKS; rank++)
    for (int g = 0; g < graph_count; g++)
      if (rank < count[g][0]) propose(q, &graphs[g], &list[g][0][rank]);
  for (int g = 0; g < graph_count; g++)
    for (int engine = 0; engine < graphs[g].engines; engine++)
      if (engine_ask(&graphs[g], engine).usable) propose(q, &graphs[g], &(cudnn_config){.layout = graphs[g].layout, .engine = engine});
  for (int m = 1; m <= 3; m++) /* FALLBACK, B, A: what is left of them */
    for (int rank = 0; rank < LIST; rank++)
      for (int g = 0; g < graph_count; g++)
        if (rank < count[g][m % 3]) propose(q, &graphs[g], &list[g][m % 3][rank]);
  for (int g = 0; g < graph_count; g++)
    for (int m = 0; m < 3; m++) free(list[g][m]);
}

/* ---------------------------------------------------------------- the sweep of knobs */

/* In the order they are turned. A splitting knob takes 1, 2, 4, ...; any other numbers its choices. Written as numbers: the headers of
 * older 9.x versions lack the last ones, which their engines do not have either. */
static const struct {
  int type;
  bool doubling;
} sweep_order[] = {
    {24, false} /* KERNEL_CFG */,  {2, false} /* TILE_SIZE */,   {40, false} /* TILE_M */,        {41, false} /* TILE_N */,
    {17, true} /* SPLIT_K_SLC */,  {0, true} /* SPLIT_K */,      {38, false} /* STREAM_K */,      {39, true} /* SPLIT_P_SLC */,
    {27, true} /* TILE_CGA_M */,   {28, true} /* TILE_CGA_N */,  {13, false} /* TILEK */,         {5, false} /* KBLOCK */,
    {14, false} /* STAGES */,      {42, false} /* WARP_SPEC_CFG */, {43, false} /* SWAP_AB */,    {37, true} /* CTA_COUNT */,
    {15, false} /* REDUCTION_MODE */, {18, false} /* IDX_MODE */, {25, false} /* WORKSPACE */,    {23, false} /* SPECFILT */,
    {6, false} /* LDGA */,         {22, false} /* LDGC */,       {34, false} /* TILE_ROWS */,     {35, false} /* TILE_COLS */,
    {29, true} /* BLOCK_SIZE */,   {33, true} /* SPLIT_COLS */,
};

/* The values to try of a range: all, or powers of two, or an even selection of a long one. */
static int sweep_values(const knob_range *range, bool doubling, int64_t value[KNOB_VALUES]) {
  int count = 0;
  const int64_t stride = range->stride > 0 ? range->stride : 1, steps = (range->most - range->least) / stride;
  if (doubling) {
    for (int64_t v = range->least > 1 ? range->least : 1; v <= range->most && count < KNOB_VALUES; v *= 2) value[count++] = v;
  } else if (steps < KNOB_VALUES) {
    for (int64_t k = 0; k <= steps; k++) value[count++] = range->least + k * stride;
  } else {
    for (int64_t k = 0; k < KNOB_VALUES; k++) value[count++] = range->least + k * steps / (KNOB_VALUES - 1) * stride;
  }
  return count;
}

static void sweep(plan_search *s, const cudnn_graph *g, cudnn_config best, double us, limit until) {
  const engine_facts facts = engine_ask(g, best.engine);
  for (size_t k = 0; k < sizeof sweep_order / sizeof *sweep_order; k++)
    for (int f = 0; f < facts.knobs; f++) {
      if (facts.knob[f].type != sweep_order[k].type) continue;
      int64_t value[KNOB_VALUES];
      const int values = sweep_values(&facts.knob[f], sweep_order[k].doubling, value);
      const cudnn_config from = best;
      for (int v = 0; v < values; v++) {
        cudnn_config config = from;
        config_set(&config, facts.knob[f].type, value[v]);
        if (reached(s, until)) {
          s->counts.cut++;
        } else if (search_try(s, g, &config, give_up_factor * us) && s->tried[s->count - 1].us < us) {
          us = s->tried[s->count - 1].us;
          best = config;
        }
      }
    }
}

/* The fastest engines, each from its fastest configuration. */
static void sweep_leaders(plan_search *s) {
  tried_plan leader[LEADERS];
  int leaders = 0;
  search_sort(s);
  for (int i = 0; i < s->count && leaders < LEADERS && s->tried[i].us <= leader_distance * s->tried[0].us; i++) {
    bool known = false;
    for (int k = 0; k < leaders; k++) known |= leader[k].graph == s->tried[i].graph && leader[k].plan->config.engine == s->tried[i].plan->config.engine;
    if (!known) leader[leaders++] = s->tried[i];
  }
  const limit all = limit_of(s, 1);
  for (int i = 0; i < leaders; i++) {
    const cudnn_counts *c = &s->counts;
    const int timed = c->timed + c->failed + c->not_capturable;
    const limit until = {.plans = timed + (all.plans - timed) / (leaders - i), .second = now() + (all.second - now()) / (leaders - i)};
    sweep(s, leader[i].graph, leader[i].plan->config, leader[i].us, until);
  }
}

/* ---------------------------------------------------------------- the whole */

/* Tries proposals from *next on. */
static void work_off(plan_search *s, const proposals *q, int *next, limit until) {
  for (; *next < q->count && !reached(s, until); ++*next) {
    const bool first = search_try(s, q->item[*next].graph, &q->item[*next].config, give_up_factor * best_us(s)) && s->count == 1;
    const double warm = now() + warm_up_seconds;
    while (first && now() < warm && bench_time(s->bench, s->tried->graph, s->tried->plan, 0, &s->tried->us) == TRIED_TIMED) {} /* clocks rise */
  }
}

/* The fastest once more, in turns, so that a clock drift does not choose among them. */
static void run_off(plan_search *s) {
  enum { ROUNDS = 3 };
  const int finalists = s->count < FINALISTS ? s->count : FINALISTS;
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

bool search_run(plan_search *s, const cudnn_graph *graphs, int graph_count) {
  s->start = now();
  proposals q = {.room = LAYOUT_COUNT * 4 * LIST};
  q.item = malloc((size_t)q.room * sizeof *q.item);
  if (!q.item) q.room = 0;
  collect(&q, graphs, graph_count);
  int next = 0;
  work_off(s, &q, &next, limit_of(s, listing_share));
  sweep_leaders(s);
  work_off(s, &q, &next, limit_of(s, 1));
  s->counts.cut += q.count - next;
  free(q.item);
  search_sort(s);
  run_off(s);
  search_sort(s);
  s->counts.seconds = now() - s->start;
  return !s->lost;
}
#endif
