/* Lockstep. A GPU issues an instruction once for all lanes of a warp that stand at it. Here every lane is a thread of its own, and at each
 * basic block it stops (the compiler's coverage hook). Of the lanes that can go on, those at the lowest program counter take the next
 * step, one after the other; the rest waits. Compilers lay out code so that where branches meet again comes after the branches, so this
 * brings divergent lanes together again, as the hardware does. Inside one step all lanes run the same straight code, so the first
 * access of each is one request, the second of each the next one. */
#include <stdlib.h>

#include "common/emu/check/hooks.h"
#include "common/emu/count/count.h"

static __thread emu_counter *stepping;

void emu_step_begin_block(emu_worker *w) {
  emu_counter *c = w->tool;
  stepping = w->stepping ? c : NULL;
  c->group = 0;
  c->warp = 0;
  for (int i = 0; i < EMU_WARPS; i++) c->ready[i] = 0;
  for (int i = 0; i < EMU_WARP; i++) c->log[i].count = 0;
  c->logged = false;
}

/* Turns what the lanes of the current warp have logged into requests. */
static void flush(emu_counter *c) {
  if (!c->logged) return; /* most steps touch no memory */
  int next[EMU_WARP] = {0};
  for (int first = 0; first < EMU_WARP;) {
    if (next[first] == c->log[first].count) {
      first++;
      continue;
    }
    const emu_touch *lead = &c->log[first].at[next[first]], *together[EMU_WARP];
    int n = 0;
    for (int lane = first; lane < EMU_WARP; lane++) {
      if (next[lane] == c->log[lane].count) continue;
      const emu_touch *t = &c->log[lane].at[next[lane]];
      if (t->pc != lead->pc || t->space != lead->space) continue;
      together[n++] = t;
      next[lane]++;
    }
    emu_count_request(&c->counts, c->worker, together, n);
  }
  for (int i = 0; i < EMU_WARP; i++) c->log[i].count = 0;
  c->logged = false;
}

static void turn_to(emu_counter *c, unsigned warp) {
  flush(c);
  c->warp = warp;
  c->group = 0;
}

void emu_step_pause(bool pause) { stepping = pause || !emu_this_worker->stepping ? NULL : emu_this_worker->tool; }

void emu_step_end_block(emu_worker *w) {
  flush(w->tool);
  w->stepping = false;
  stepping = NULL;
}

void emu_step_log(emu_worker *w, const emu_touch *touch) {
  emu_counter *c = w->tool;
  const unsigned warp = emu_self->number / EMU_WARP, lane = emu_self->lane;
  if (warp != c->warp) turn_to(c, warp);
  if (c->log[lane].count == c->log[lane].room) {
    c->log[lane].room = c->log[lane].room ? 2 * c->log[lane].room : 64;
    c->log[lane].at = emu_grow(c->log[lane].at, (size_t)c->log[lane].room, sizeof *touch, "the accesses of a lane");
  }
  c->log[lane].at[c->log[lane].count++] = *touch;
  c->logged = true;
}

void emu_step_make_ready(emu_worker *w, emu_thread *t) {
  emu_counter *c = w->tool;
  c->ready[t->number / EMU_WARP] |= 1u << t->lane;
}

/* The next step of the current warp: its ready lanes that are deepest in calls, of those the ones at the lowest program counter. */
static uint32_t choose_group(const emu_counter *c) {
  uint32_t group = 0;
  unsigned best = 0;
  for (uint32_t left = c->ready[c->warp]; left != 0; left &= left - 1) {
    const unsigned lane = (unsigned)__builtin_ctz(left), i = c->warp * EMU_WARP + lane;
    const bool before = group == 0 || c->depth[i] > c->depth[best] || (c->depth[i] == c->depth[best] && c->pc[i] < c->pc[best]);
    if (before) {
      best = i;
      group = 0;
    }
    if (c->depth[i] == c->depth[best] && c->pc[i] == c->pc[best]) group |= 1u << lane;
  }
  return group;
}

/* Some thread of the block is ready. */
emu_thread *emu_step_take_ready(emu_worker *w) {
  emu_counter *c = w->tool;
  if ((c->group & c->ready[c->warp]) == 0) {
    unsigned warp = (c->warp + w->yielded) % EMU_WARPS;
    w->yielded = false;
    while (c->ready[warp] == 0) warp = (warp + 1) % EMU_WARPS;
    turn_to(c, warp);
    c->group = choose_group(c);
  }
  const unsigned lane = (unsigned)__builtin_ctz(c->group & c->ready[c->warp]);
  c->group &= ~(1u << lane);
  c->ready[c->warp] &= ~(1u << lane);
  return &w->threads[c->warp * EMU_WARP + lane];
}

/* Called by instrumented code at the start of every basic block. */
void __sanitizer_cov_trace_pc(void) {
  emu_counter *c = stepping;
  if (c == NULL) return;
  emu_thread *t = emu_self;
  const unsigned i = t->number;
  c->pc[i] = (uintptr_t)__builtin_return_address(0);
  c->depth[i] = (uint32_t)(t->stack->top - (unsigned char *)__builtin_frame_address(0));
  if (c->group == 0) {
    emu_make_ready(t);
    emu_wait(t);
    return;
  }
  /* As those two would do it while lanes are left in the step (but that, with a seed, no copy arrives in between): all of the warp have started, and the next of them goes on. */
  const unsigned next = (unsigned)__builtin_ctz(c->group);
  c->group &= c->group - 1;
  c->ready[c->warp] = (c->ready[c->warp] | 1u << t->lane) & ~(1u << next);
  emu_hand_over(t, &t->warp->threads[next]);
}

/* This file is linked because kernels call the function above; so it is here that the counter comes into the program. */
static __attribute__((constructor)) void install(void) {
  emu_count_gpu(); /* before anything runs, whether there is one of that name */
  emu_the_tool = &emu_counter_tool;
  emu_count_access = emu_count_see;
}
