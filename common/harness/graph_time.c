/* Times a graph beside cuDNN's plans for its operations. See graph_time.h. */
#include "common/harness/graph_time.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/harness/graph_theirs.h"
#include "common/harness/timing.h"

/* Ours: all operations on one set. */
typedef struct ours {
  const conv_graph *g;
  const graph_plan *plan;
  const buffer_sets *sets;
  bool differs;
} ours;

static cudaError_t enqueue_ours(void *context, int set, cudaStream_t stream) {
  const ours *o = context;
  return graph_launch(o->g, o->plan, o->sets, set, stream);
}

static cudaError_t poison_results(const conv_graph *g, const buffer_sets *sets) {
  cudaError_t status = cudaSuccess;
  for (int set = 0; set < sets->count; set++)
    for (int i = 0; i < g->tensors && !status; i++)
      if (g->tensor[i].use != USE_IN) status = buffer_poison(sets, set, i);
  return status;
}
static cudaError_t poison_ours(void *context) { return poison_results(((ours *)context)->g, ((ours *)context)->sets); }

static cudaError_t check_ours(void *context, int first, int count) {
  ours *o = context;
  const int last = o->g->operation[o->g->operations - 1].y;
  conv_tensor seen = o->g->tensor[last].host;
  (void)count;
  if (tensor_alloc(&seen)) return cudaErrorMemoryAllocation;
  const cudaError_t status = buffer_download(o->sets, first, last, seen.data);
  if (!status) o->differs = memcmp(seen.data, o->g->tensor[last].host.data, tensor_bytes(&seen)) != 0;
  tensor_free(&seen);
  return status;
}

static cudaError_t nothing(void *context) { return (void)context, cudaSuccess; }
static cudaError_t not_checked(void *context, int first, int count) { return (void)context, (void)first, (void)count, cudaSuccess; }

/* Sets that both graphs can work on: their first tensors are the same. */
static buffer_sets sets_for(const conv_graph *g, const graph_plan *plan, const graph_apart *apart) {
  const buffer_sets one = graph_buffers(g, plan);
  if (!apart) return one;
  const buffer_sets other = graph_buffers(apart->g, apart->plan);
  size_t bytes[PART_COUNT];
  for (int i = 0; i < PART_COUNT; i++) bytes[i] = one.bytes[i] > other.bytes[i] ? one.bytes[i] : other.bytes[i];
  return buffer_sets_plan_parts(ON_GPU, bytes);
}

/* A piece by our kernels, or by cuDNN's plans. */
typedef struct part {
  const ours *own;
  const their_graph *theirs;
  int first, end;
} part;

static cudaError_t enqueue_part(void *context, int set, cudaStream_t stream) {
  const part *p = context;
  if (p->theirs) return their_graph_enqueue_some(p->theirs, set, p->first, p->end, stream);
  return graph_launch_some(p->own->g, p->own->plan, p->own->sets, set, p->first, p->end, stream);
}

/* An epilogue that was split off reads a tensor that nobody asked for. */
static bool split_off(const conv_graph *g, const conv_graph *asked, int i) { return i < g->operations && g->operation[i].x >= asked->tensors; }

static cudaError_t time_pieces(const ours *own, const their_graph *theirs, const conv_graph *asked, const machine *m, graph_figures *f) {
  const conv_graph *g = own->g;
  cudaError_t status = cudaSuccess;
  for (int i = 0, of_asked = 0; i < g->operations && !status;) {
    const int count = own->plan->chain[i] ? own->plan->chain[i]->count : 1;
    const int end = i + count + (split_off(g, asked, i + count) ? 1 : 0);
    part of[2] = {{.own = own, .first = i, .end = end}, {.theirs = theirs, .first = of_asked, .end = of_asked + count}};
    contender turn[3];
    for (int k = 0; k < 3; k++) turn[k] = (contender){.enqueue = enqueue_part, .poison = nothing, .check = not_checked, .context = &of[k / 2]};
    turn[1].in_order = true;
    status = time_in_turns(turn, theirs ? 3 : 2, ON_GPU, own->sets->count, m);
    f->piece[f->pieces++] = (graph_piece){
        of_asked, count, turn[0].median_us, turn[1].median_us, theirs ? turn[2].median_us : 0, turn[0].early_share, theirs ? turn[2].early_share : 0};
    i = end, of_asked += count;
  }
  return status;
}

/* The tensors of the graph as it was asked for are the first of the split one's, with the same numbers. */
cudaError_t graph_time(const conv_graph *g, const graph_plan *plan, const conv_graph *asked, const graph_timing *how, const machine *m, graph_figures *f) {
  *f = (graph_figures){0};
  const graph_apart *apart = how->apart;
  conv_graph before = *asked;
  size_t touched = 0;
  buffer_sets sets = sets_for(g, plan, apart);
  static their_graph t;
  for (int i = 0; i < g->tensors; i++) /* what stays inside a kernel keeps no cache cold */
    if (g->tensor[i].use != USE_INSIDE) touched += tensor_bytes(&g->tensor[i].host);
  for (int i = 0; i < asked->tensors; i++) before.tensor[i].host.data = g->tensor[i].host.data;
  for (int i = 0; i < asked->operations; i++) f->floor_us += 1e6 * machine_floor(m, &asked->operation[i].what, g->dtype);
  cudaError_t status = cudaErrorMemoryAllocation;
  for (int count = timing_sets(touched, m->device.l2_bytes); count > 0 && status == cudaErrorMemoryAllocation; count /= 2)
    status = buffer_sets_alloc(&sets, count);
  if (!status) status = graph_upload(g, &sets);
  for (int i = 0; i < g->tensors && !status; i++)
    status = buffer_upload(&sets, i, g->tensor[i].host.data); /* what lies between too, for cuDNN's plans one by one */
  if (!status) status = buffer_replicate(&sets);
  const int none = status || !how->cudnn ? 1 : their_graph_open(&t, &before, &sets, how->seconds, m, f->note);
  if (none < 0) status = cudaErrorUnknown;
  ours own[3] = {{.g = g, .plan = plan, .sets = &sets}, {.sets = &sets}, {.g = g, .plan = plan, .sets = &sets}};
  contender turn[4] = {{.enqueue = enqueue_ours, .poison = poison_ours, .check = check_ours, .context = &own[0]}};
  int turns = 1;
  if (apart) {
    own[1].g = apart->g, own[1].plan = apart->plan;
    turn[turns++] = (contender){.enqueue = enqueue_ours, .poison = poison_ours, .check = check_ours, .context = &own[1]};
  }
  const int in_order = turns;
  if (how->in_order) turn[turns++] = (contender){.enqueue = enqueue_ours, .poison = poison_ours, .check = check_ours, .context = &own[2], .in_order = true};
  if (!none) turn[turns++] = (contender){.enqueue = their_graph_enqueue, .poison = nothing, .check = not_checked, .context = &t};
  if (!status) status = time_in_turns(turn, turns, ON_GPU, sets.count, m);
  f->differs = !status && (own[0].differs || own[1].differs || own[2].differs);
  if (f->differs) snprintf(f->note, sizeof f->note, "the last timed run left other bits than the verified one");
  if (!status && !timing_is_cold(touched, sets.count, m->device.l2_bytes) && !*f->note)
    snprintf(f->note, sizeof f->note, "%d buffer sets: not enough to keep the cache cold", sets.count);
  f->us = turn[0].median_us, f->min_us = turn[0].min_us, f->early_share = turn[0].early_share;
  f->in_order_us = how->in_order ? turn[in_order].median_us : 0;
  f->apart_us = apart ? turn[1].median_us : 0;
  f->cudnn_us = none ? 0 : turn[turns - 1].median_us, f->cudnn_early_share = none ? 0 : turn[turns - 1].early_share;
  if (!status && how->pieces) status = time_pieces(&own[0], none ? NULL : &t, asked, m, f);
  for (int i = 0; i < asked->operations && !none && !status; i++) snprintf(f->cudnn_plans[i], sizeof f->cudnn_plans[i], "%.79s", t.operation[i].tag);
  if (how->cudnn) their_graph_close(&t);
  buffer_sets_free(&sets);
  return status;
}
