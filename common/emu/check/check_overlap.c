/* Programmatic dependent launch: a launch with that attribute may begin before the kernel before it in its stream has ended, as soon as all
 * of that one's blocks have run griddepcontrol.launch_dependents or ended. Here it never does; but an access to what the other one wrote, or
 * a write to what it read, is a defect unless the thread comes after a griddepcontrol.wait: its own, or one by a thread that it has met
 * since at a barrier.
 *
 * A wait lasts until the kernel before has ended. Whether those before that one have ended too depends on whether it waited for them:
 *
 *   A      B early, never waits      C early, waits for B: A may still be at work
 *
 * So a launch has two sets of launches that may be at work beside it: `before` its wait and `after`.
 *   before(C) = B, and what may be at work when C can begin: before(B); or after(B), if a block of B runs launch_dependents only after its wait
 *   after(C)  = what may be at work when B has ended: after(B) if B waited, else before(B)
 * A launch without the attribute begins when all before it in the stream has ended, and so does what is copied or set.
 *
 * The shadow's marks say which launch wrote a word last, and which read it last. */
#include "common/emu/check/check.h"

static void add(emu_flight *f, uint32_t mark) {
  for (int i = 0; i < f->count; i++)
    if (f->mark[i] == mark) return;
  if (f->count < EMU_OVERLAPPING) f->mark[f->count++] = mark; /* beyond that they count as ended */
}

static void add_all(emu_flight *f, const emu_flight *from) {
  for (int i = 0; i < from->count; i++) add(f, from->mark[i]);
}

void emu_overlap_begin_launch(emu_launch *launch) {
  const emu_past *past = launch->past;
  if (!launch->call.early || past->mark == 0 || past->serial < emu_shadow_oldest()) return;
  add(&launch->before, past->mark);
  add_all(&launch->before, past->late ? &past->after : &past->before);
  add_all(&launch->after, past->waited ? &past->after : &past->before);
}

void emu_overlap_end_launch(emu_launch *launch) {
  *launch->past = (emu_past){launch->serial, launch->mark, launch->waited, launch->late, launch->before, launch->after};
}

void emu_overlap_begin_block(emu_checker *c) {
  c->watching = c->worker->launch->before.count > 0;
  if (!c->watching) return;
  for (int i = 0; i < EMU_CACHED; i++) c->cache[i] = (emu_shadow){.start = 0};
  for (int w = 0; w < EMU_WARPS; w++) c->waited[w].lanes = c->waited[w].clock = 0;
  c->early_trigger = false;
  c->waits = 0;
}

/* Whether the running thread comes after a wait. */
static bool has_waited(const emu_checker *c) {
  const unsigned w = emu_self->number / EMU_WARP;
  if (c->waited[w].lanes >> emu_self->lane & 1) return true;
  for (int other = 0; other < EMU_WARPS; other++)
    if (c->waited[other].clock != 0 && c->clock[w][other] >= c->waited[other].clock) return true;
  return false;
}

void emu_overlap_wait(void) {
  emu_checker *c = emu_checking;
  const unsigned w = emu_self->number / EMU_WARP;
  __atomic_store_n(&c->worker->launch->waited, 1, __ATOMIC_RELAXED);
  if (c->worker->launch->before.count == 0 || c->waited[w].lanes >> emu_self->lane & 1) return;
  c->waited[w].lanes |= 1u << emu_self->lane;
  if (c->waited[w].clock == 0) c->waited[w].clock = c->clock[w][w] + 1;
  if (++c->waits == emu_self->block->thread_count && c->worker->launch->after.count == 0) c->watching = false;
}

void emu_overlap_trigger(void) {
  emu_checker *c = emu_checking;
  if (c->worker->launch->before.count > 0 && !has_waited(c)) c->early_trigger = true;
}

void emu_overlap_end_block(emu_worker *w) {
  const emu_checker *c = w->tool;
  if (w->launch->before.count > 0 && c->waits > 0 && !c->early_trigger) __atomic_store_n(&w->launch->late, 1, __ATOMIC_RELAXED);
}

static bool contains(const emu_flight *f, uint32_t word) {
  for (int i = 0; i < f->count; i++)
    if (word >> (EMU_BLOCK_BITS + 1) == f->mark[i]) return true;
  return false;
}

void emu_overlap_look(emu_checker *c, const emu_shadow *s, size_t offset, size_t entry, emu_access_kind kind, const void *pc) {
  const emu_launch *launch = c->worker->launch;
  const emu_flight *at_work = has_waited(c) ? &launch->after : &launch->before;
  const uint32_t writer = __atomic_load_n(&s->seen[entry].writer, __ATOMIC_RELAXED), reader = __atomic_load_n(&s->seen[entry].reader, __ATOMIC_RELAXED);
  const bool after_write = contains(at_work, writer), after_read = !emu_reads_memory(kind) && contains(at_work, reader);
  if (!after_write && !after_read) return;
  const uint32_t who = after_write ? s->who[entry].writer : s->who[entry].reader;
  const emu_other other = {!after_write ? EMU_READ : writer & EMU_SEEN_ATOMIC ? EMU_ATOMIC : EMU_WRITE, emu_long_pc(who >> 10), -1, EMU_EARLIER};
  char place[200];
  emu_arrays_describe(s, offset, place, sizeof place);
  emu_check_note(EMU_EARLY, pc, &other, "%s", place);
}
