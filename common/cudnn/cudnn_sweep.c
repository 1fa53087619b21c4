/* The second half of the search: the knobs of all engines, the fastest engine first, one knob after the other, keeping what is faster. First the kernel
 * configuration and the tiles, then split-K 1, 2, 4, ..., then every other knob that the engine reports. The whole space has some 10^11 points; this walks
 * along its axes. The first knob of the fastest engine is turned whatever the seconds; what they do not suffice for of the others is counted. */
#include "common/cudnn/cudnn_api.h"

#ifdef HAVE_CUDNN
#include <stdlib.h>

enum { KNOB_VALUES = 64 };
static const double least_share = 0.3;  /* of the seconds, for the sweep */
static const double leader_share = 0.5; /* of what is left, for the next engine; what it does not need is the others' */

/* In the order they are turned; the types that are not here follow. A splitting knob takes 1, 2, 4, ...; any other numbers its choices. Written as numbers: the
 * headers of older 9.x versions lack the last ones, which their engines do not have either. */
static const struct {
  int type;
  bool doubling;
} sweep_order[] = {
    {24, false} /* KERNEL_CFG */, {2, false} /* TILE_SIZE */,       {40, false} /* TILE_M */,     {41, false} /* TILE_N */,        {17, true} /* SPLIT_K_SLC */,
    {0, true} /* SPLIT_K */,      {38, false} /* STREAM_K */,       {39, true} /* SPLIT_P_SLC */, {27, true} /* TILE_CGA_M */,     {28, true} /* TILE_CGA_N */,
    {13, false} /* TILEK */,      {5, false} /* KBLOCK */,          {14, false} /* STAGES */,     {42, false} /* WARP_SPEC_CFG */, {43, false} /* SWAP_AB */,
    {37, true} /* CTA_COUNT */,   {15, false} /* REDUCTION_MODE */, {18, false} /* IDX_MODE */,   {25, false} /* WORKSPACE */,     {23, false} /* SPECFILT */,
    {6, false} /* LDGA */,        {22, false} /* LDGC */,           {34, false} /* TILE_ROWS */,  {35, false} /* TILE_COLS */,     {29, true} /* BLOCK_SIZE */,
    {33, true} /* SPLIT_COLS */,
};

/* The values to try of a range: all, or powers of two, or an even selection of a long one; then, of a long one, the neighbours of the best
 * (kernel configurations are numbered so that neighbours are alike). */
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

static int neighbours(const knob_range *range, int64_t of, int64_t value[KNOB_VALUES]) {
  enum { REACH = 4 };
  int count = 0;
  const int64_t stride = range->stride > 0 ? range->stride : 1;
  for (int64_t k = 1; k <= REACH; k++)
    for (int side = -1; side <= 1; side += 2) {
      const int64_t v = of + side * k * stride;
      if (v >= range->least && v <= range->most) value[count++] = v;
    }
  return count;
}

/* The configuration that a sweep stands at. */
typedef struct {
  plan_search *search;
  const cudnn_graph *graph;
  cudnn_config best;
  double us, build_seconds; /* build_seconds: of the engine's default; its siblings will take as long */
  double give_up_us;        /* a plan as slow as that is not sampled any further */
  search_limit until;
  bool always; /* whatever the limit */
} sweep_state;

/* Turns one knob through the values and leaves it at the fastest. */
static void turn(sweep_state *w, int type, const int64_t *value, int values) {
  plan_search *s = w->search;
  const cudnn_config from = w->best;
  for (int done = 0; done < values;) {
    if (s->lost || (!w->always && (search_reached(s, w->until) || search_enough(s, w->until.second - w->build_seconds)))) {
      s->counts.cut += values - done;
      return;
    }
    proposal batch[BUILDERS];
    int count = 0;
    for (; count < BUILDERS && done < values; count++, done++) {
      batch[count] = (proposal){w->graph, from};
      config_set(&batch[count].config, type, value[done]);
    }
    s->deadline = w->always ? 0 : w->until.second;
    const int entered = search_try(s, batch, count, w->give_up_us);
    s->deadline = 0;
    for (int i = s->count - entered; i < s->count; i++)
      if (s->tried[i].us < w->us) {
        w->us = s->tried[i].us;
        w->best = s->tried[i].plan->config;
      }
  }
}

static void turn_all(sweep_state *w, const knob_range *range, bool doubling) {
  int64_t value[KNOB_VALUES] = {0};
  turn(w, range->type, value, sweep_values(range, doubling, value));
  const bool is_long = !doubling && range->most - range->least >= KNOB_VALUES * (range->stride > 0 ? range->stride : 1);
  for (int i = 0; is_long && i < w->best.knobs; i++)
    if (w->best.knob[i].type == range->type) {
      turn(w, range->type, value, neighbours(range, w->best.knob[i].value, value));
      return;
    }
}

int sweep_list(const engine_facts *facts, knob_turn list[KNOBS]) {
  enum { LISTED = sizeof sweep_order / sizeof *sweep_order, LONG = 64 };
  bool turned[KNOBS] = {false};
  int count = 0;
  for (int k = 0; k < LISTED; k++)
    for (int f = 0; f < facts->knobs; f++)
      if (facts->knob[f].type == sweep_order[k].type) list[count++] = (knob_turn){facts->knob[f], sweep_order[k].doubling}, turned[f] = true;
  for (int f = 0; f < facts->knobs; f++)
    if (!turned[f]) list[count++] = (knob_turn){facts->knob[f], facts->knob[f].least >= 0 && facts->knob[f].most - facts->knob[f].least >= LONG};
  return count;
}

static void sweep(sweep_state *w) {
  const engine_facts facts = engine_ask(w->graph, w->best.engine);
  knob_turn list[KNOBS];
  const int knobs = sweep_list(&facts, list);
  for (int k = 0; k < knobs; k++, w->always = false) turn_all(w, &list[k].range, list[k].doubling);
}

/* All engines that ran, each from its fastest configuration, the fastest first. */
void search_sweep(plan_search *s) {
  search_sort(s);
  tried_plan *leader = malloc((size_t)(s->count ? s->count : 1) * sizeof *leader);
  int leaders = 0;
  for (int i = 0; leader && i < s->count; i++) {
    bool known = false;
    for (int k = 0; k < leaders; k++) known |= leader[k].graph == s->tried[i].graph && leader[k].plan->config.engine == s->tried[i].plan->config.engine;
    if (!known) leader[leaders++] = s->tried[i];
  }
  search_limit all = search_limit_of(s, 1);
  const double least = search_clock() + least_share * s->options.most_seconds, best = leaders ? leader[0].us : 0;
  if (all.second < least) all.second = least; /* one slow compilation must not take the sweep's time */
  for (int i = 0; i < leaders; i++) {
    const int tried = search_tried(s);
    const double now = search_clock(), share = i + 1 < leaders ? leader_share : 1;
    const search_limit until = {.plans = tried + (int)(share * (all.plans - tried)), .second = now + share * (all.second - now)};
    sweep_state w = {.search = s,
                     .graph = leader[i].graph,
                     .best = leader[i].plan->config,
                     .us = leader[i].us,
                     .build_seconds = leader[i].build_seconds,
                     .give_up_us = SEARCH_GIVE_UP * best,
                     .until = until,
                     .always = i == 0}; /* its kernel configurations: where plans are compiled, a short search would turn none */
    sweep(&w);
  }
  free(leader);
}
#endif
