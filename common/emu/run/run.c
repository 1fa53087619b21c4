/* One worker runs blocks: starts a block's threads as fibers, switches between them when they wait, notices when none can go on.
 *
 * A thread that never waits costs a function call: the fiber that ran it runs the next one on the same stack. Only when a thread waits
 * does its fiber keep the stack, and the next thread gets another one. */
#include <stdlib.h>
#include <string.h>

#include "common/emu/run/fiber.h"
#include "common/emu/tool/tool.h"

__thread emu_thread *emu_self;
__thread uint3 threadIdx, blockIdx; /* what kernels see; cuda_runtime.h */
__thread dim3 blockDim, gridDim;
__thread emu_worker *emu_this_worker;

uint64_t emu_random(uint64_t *state) {
  uint64_t x = *state += 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

static void set_self(emu_thread *t) {
  emu_worker *w = emu_this_worker;
  emu_self = t;
  threadIdx = t->index;
  if (t->block == w->block) return;
  w->block = t->block;
  blockIdx = w->block->index;
  EMU_TELL(block_switch, w);
}

static unsigned random_below(emu_worker *w, unsigned n) { return (unsigned)((emu_random(&w->random) >> 32) * n >> 32); }

/* A place in the ring of ready threads, at most one round too far: a division would take as long as the rest of a switch. */
static unsigned in_ring(const emu_worker *w, unsigned place) { return place < w->room ? place : place - w->room; }

void emu_make_ready(emu_thread *t) {
  emu_worker *w = emu_this_worker;
  t->state = EMU_RUNNABLE;
  if (w->stepping) {
    w->ready_count++;
    emu_the_tool->make_ready(w, t);
    return;
  }
  w->ready[in_ring(w, w->ready_first + w->ready_count++)] = t;
}

static emu_thread *take_ready(emu_worker *w) {
  if (w->stepping) {
    w->ready_count--;
    return emu_the_tool->take_ready(w);
  }
  if (w->random != 0) { /* any of them: swap it to the front */
    const unsigned pick = in_ring(w, w->ready_first + random_below(w, w->ready_count));
    emu_thread *t = w->ready[pick];
    w->ready[pick] = w->ready[w->ready_first];
    w->ready[w->ready_first] = t;
  }
  emu_thread *t = w->ready[w->ready_first];
  w->ready_first = in_ring(w, w->ready_first + 1);
  w->ready_count--;
  return t;
}

/* Threads that can go on come before threads that have not started: a warp finishes its shuffles while its stacks are in the cache.
 * Lanes that go in lockstep start together. */
static bool should_start(emu_worker *w) {
  if (w->started == w->total) return false;
  if (w->stepping && w->started % EMU_WARP != 0) return true;
  return w->ready_count == 0 || (w->random != 0 && random_below(w, 2));
}

static void check_stack(emu_thread *t) {
  if (!t->stack->guarded && !emu_stack_intact(t->stack))
    emu_fail("stack overflow: more than %zu KiB of local variables (EMU_STACK_KB=n gives more)", emu_stack_bytes() >> 10);
}

static void run_fiber(void);

/* A thread that waits for a store. */
static bool end_wait_for_store(emu_worker *w) {
  if (w->lingering == 0) return false;
  unsigned i = 0;
  while (w->threads[w->order[i]].state != EMU_WAIT_STORE) i++;
  w->lingering--;
  emu_make_ready(&w->threads[w->order[i]]);
  return true;
}

/* The context to go on with when the running one waits or is done. *same: it is t's own, which has just been made ready. */
static void *next_context(emu_worker *w, const emu_thread *t, bool *same) {
  if (should_start(w)) {
    emu_stack *s = emu_stack_take(w);
    w->starting = s;
    return emu_fiber_create(s->bottom, (size_t)(s->top - s->bottom), run_fiber);
  }
  /* With a seed copies arrive at any time; else when nobody can go on without. */
  if (w->random != 0 && w->loads.count + w->stores.count > 0 && w->alive > 0 && random_below(w, 4) == 0) emu_bulk_progress(w);
  while (w->ready_count == 0 && w->alive > 0 && (emu_bulk_progress(w) || end_wait_for_store(w))) {}
  if (w->ready_count > 0) {
    set_self(take_ready(w));
    *same = emu_self == t;
    return emu_self->context;
  }
  if (w->alive > 0) emu_report_deadlock(w);
  emu_self = NULL;
  return w->home;
}

void emu_wait(emu_thread *t) {
  emu_worker *w = emu_this_worker;
  check_stack(t);
  bool same = false;
  void *next = next_context(w, t, &same);
  if (!same) emu_fiber_switch(&t->context, next);
}

void emu_hand_over(emu_thread *t, emu_thread *next) {
  check_stack(t);
  set_self(next);
  emu_fiber_switch(&t->context, next->context);
}

void emu_yield(void) {
  emu_this_worker->yielded = true;
  emu_make_ready(emu_self);
  emu_wait(emu_self);
}

void emu_linger(const char *what, const char *file, int line) {
  emu_worker *w = emu_this_worker;
  if (w->random == 0 || random_below(w, 4) != 0) return;
  emu_self->state = EMU_WAIT_STORE, emu_self->what = what, emu_self->where = (emu_site){file, line};
  w->lingering++;
  emu_wait(emu_self);
}

static void thread_exit(emu_worker *w, emu_thread *t) {
  check_stack(t);
  t->state = EMU_IDLE;
  t->block->alive--;
  w->alive--;
  t->warp->exited |= 1u << t->lane;
  EMU_TELL(thread_exit, t);
  if (t->warp->meetings > 0) emu_warp_exit(t->warp);
  emu_barrier_exit(t->block);
  if (t->block->team_size > 1) emu_cluster_exit(t->block);
}

/* The body of every fiber: threads, one after the other, until there is something better to do. */
static void run_fiber(void) {
  emu_worker *w = emu_this_worker;
  const emu_call *call = &w->launch->call;
  emu_stack *stack = w->starting;
  do {
    emu_thread *t = &w->threads[w->order[w->started++]];
    t->stack = stack;
    t->state = EMU_RUNNABLE;
    t->cluster_arrived = t->cluster_waits = t->passed = 0;
    t->busy_start = UINTPTR_MAX, t->busy_end = 0;
    set_self(t);
    call->entry(call->closure);
    thread_exit(w, t);
  } while (should_start(w));
  emu_stack_give(w, stack); /* nobody takes it before we have left it */
  bool same;
  void *never_back;
  emu_fiber_switch(&never_back, next_context(w, NULL, &same));
}

void emu_abandon_block(void) {
  emu_worker *w = emu_this_worker;
  emu_self = NULL;
  void *never_back;
  emu_fiber_switch(&never_back, w->home);
  __builtin_unreachable();
}

/* Memory for so many threads. */
static void make_room(emu_worker *w, unsigned threads) {
  if (threads <= w->room) return;
  w->room = threads;
  free(w->threads), free(w->warps), free(w->order), free(w->ready);
  w->threads = emu_take(threads, sizeof *w->threads, "a block's threads");
  w->warps = emu_take(threads / EMU_WARP, sizeof *w->warps, "a block's warps");
  w->order = emu_take(threads, sizeof *w->order, "the order of a block's threads");
  w->ready = emu_take(threads, sizeof(emu_thread *), "the order of a block's threads");
}

/* What stays the same from block to block of a launch. */
static void lay_out_threads(emu_worker *w, emu_launch *launch) {
  const dim3 size = launch->call.block;
  const unsigned n = launch->threads_per_block, padded = (n + EMU_WARP - 1) / EMU_WARP * EMU_WARP;
  w->launch = launch;
  w->team_size = launch->team_size;
  w->total = launch->team_size * n;
  make_room(w, launch->team_size * padded > EMU_MAX_THREADS ? launch->team_size * padded : EMU_MAX_THREADS);
  for (; w->arenas < w->team_size; w->arenas++) memset(w->arena + (size_t)w->arenas * EMU_ARENA, EMU_POISON, EMU_ARENA);
  blockDim = size;
  gridDim = launch->call.grid;
  for (unsigned rank = 0; rank < w->team_size; rank++) {
    emu_block *b = &w->team[rank];
    b->launch = launch;
    b->rank = rank;
    b->team = w->team;
    b->team_size = w->team_size;
    b->threads = w->threads + rank * padded;
    b->warps = w->warps + rank * padded / EMU_WARP;
    b->thread_count = n;
    b->arena = w->arena + (size_t)rank * EMU_ARENA;
    for (unsigned i = 0; i < n; i++) {
      emu_thread *t = &b->threads[i];
      t->index = (uint3){i % size.x, i / size.x % size.y, i / (size.x * size.y)};
      t->number = i;
      t->lane = i % EMU_WARP;
      t->block = b;
      t->warp = &b->warps[i / EMU_WARP];
      t->state = EMU_IDLE;
      w->order[rank * n + i] = (unsigned short)(rank * padded + i);
    }
  }
  w->block = w->team;
}

/* The blocks of a cluster are neighbours in the grid, x first; so are the clusters. */
static uint3 block_index(const emu_launch *launch, uint64_t team, unsigned rank) {
  const dim3 grid = launch->call.grid;
  const dim3 c = launch->call.cluster;
  if (launch->team_size == 1) return (uint3){(unsigned)(team % grid.x), (unsigned)(team / grid.x % grid.y), (unsigned)(team / ((uint64_t)grid.x * grid.y))};
  const uint64_t across = grid.x / c.x, down = grid.y / c.y;
  return (uint3){(unsigned)(team % across * c.x + rank % c.x), (unsigned)(team / across % down * c.y + rank / c.x % c.y),
                 (unsigned)(team / (across * down) * c.z + rank / (c.x * c.y))};
}

static void begin_block(emu_block *b) {
  b->alive = b->thread_count;
  memset(b->barriers, 0, sizeof b->barriers);
  for (unsigned first = 0; first < b->thread_count; first += EMU_WARP) {
    emu_warp *warp = &b->warps[first / EMU_WARP];
    const unsigned lanes = b->thread_count - first;
    warp->threads = &b->threads[first];
    warp->meetings = 0;
    warp->exited = lanes >= EMU_WARP ? 0 : ~0u << lanes;
  }
  b->cluster_phases = b->cluster_arrived = 0, b->cluster_relaxed = 0;
  memset(b->registers, 0, sizeof b->registers);
}

static void begin_team(emu_worker *w, uint64_t index) {
  for (unsigned rank = 0; rank < w->team_size; rank++) {
    w->team[rank].index = block_index(w->launch, index, rank);
    begin_block(&w->team[rank]);
  }
  w->alive = w->total;
  w->started = 0;
  w->ready_first = w->ready_count = w->lingering = 0;
  if (w->random != 0)
    for (unsigned i = w->total; i > 1; i--) {
      const unsigned j = random_below(w, i);
      const unsigned short swap = w->order[i - 1];
      w->order[i - 1] = w->order[j];
      w->order[j] = swap;
    }
}

/* Each block of the team is the current one for a while: blockIdx, and what the tool keeps of it. */
static void select_block(emu_worker *w, unsigned rank) {
  w->block = &w->team[rank];
  blockIdx = w->block->index;
}

static void run_team(emu_worker *w, uint64_t index) {
  begin_team(w, index);
  for (unsigned rank = w->team_size; rank-- > 0;) {
    select_block(w, rank);
    EMU_TELL(block_begin, w);
  }
  bool same = false;
  emu_fiber_switch(&w->home, next_context(w, NULL, &same));
  if (w->alive > 0) emu_stack_reclaim_all(w); /* abandoned */
  for (unsigned rank = 0; rank < w->team_size; rank++) {
    select_block(w, rank);
    if (w->team_size > 1) EMU_TELL(block_switch, w);
    emu_bulk_end_block(w);
    EMU_TELL(block_end, w);
    emu_arena_end_block(w);
  }
}

void emu_run_blocks(emu_worker *w, emu_launch *launch) {
  if (w->arena == NULL) w->arena = emu_arena_create();
  emu_this_worker = w;
  w->random = emu_seed();
  lay_out_threads(w, launch);
  EMU_TELL(worker_begin, w);
  while (!__atomic_load_n(&launch->failed, __ATOMIC_RELAXED)) {
    const uint64_t i = __atomic_fetch_add(&launch->next_block, 1, __ATOMIC_RELAXED);
    if (i >= launch->block_count) break;
    run_team(w, (launch->block_start + i * launch->block_step) % launch->block_count);
  }
  EMU_TELL(worker_end, w);
}

int emu_at(unsigned bx, unsigned by, unsigned bz, unsigned tx, unsigned ty, unsigned tz) {
  const emu_thread *t = emu_self;
  if (t == NULL) return 0;
  const uint3 b = t->block->index, i = t->index;
  return b.x == bx && b.y == by && b.z == bz && i.x == tx && i.y == ty && i.z == tz;
}
