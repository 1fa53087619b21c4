/* Barriers of a block: the last thread to arrive makes all of them ready again, in their order.
 *
 * Who arrives by bar.arrive goes on, and may be back before the round is over. A GPU counts that thread once more: the round ends without somebody else, or never does.
 * Here that is an error. */
#include <string.h>

#include "common/emu/tool/tool.h"

static bool same_site(emu_site a, const char *file, int line) { return a.line == line && (a.file == file || strcmp(a.file, file) == 0); }

static void arrive(emu_barrier *b, int id, unsigned expected, const char *what, const char *file, int line) {
  if (emu_self->passed >> id & 1)
    emu_fail("%s at %s:%d: barrier %d: this thread has arrived before, in a round that is not over (%u of %u threads)", what, file, line, id, b->arrived,
             b->expected);
  if (b->arrived == 0) {
    b->expected = expected;
    b->what = what;
    b->where = (emu_site){file, line};
    b->count = b->any = 0;
    b->all = 1;
  } else if (expected == 0 && !same_site(b->where, file, line)) {
    emu_fail("divergent barrier: %u thread%s wait%s in %s at %s:%d while this one arrives at %s:%d", b->arrived, b->arrived == 1 ? "" : "s",
             b->arrived == 1 ? "s" : "", b->what, b->where.file, b->where.line, file, line);
  } else if (b->expected != expected) {
    emu_fail("barrier %d: %u threads expected at %s:%d, but %u at %s:%d", id, b->expected, b->where.file, b->where.line, expected, file, line);
  }
  b->arrived++;
}

/* Ends the round if everybody is there. */
static void try_release(emu_block *block, int id) {
  emu_barrier *b = &block->barriers[id];
  if (b->arrived == 0 || b->arrived < (b->expected != 0 ? b->expected : block->alive)) return;
  b->arrived = 0;
  b->result_count = b->count;
  b->result_all = b->all;
  b->result_any = b->any;
  EMU_TELL(barrier, block, id, b->expected);
  if (b->expected == 0 && block->alive < block->thread_count) EMU_TELL(barrier_left, block, b->where);
  const unsigned short others = b->passed > 0 ? (unsigned short)~(1u << id) : 0xffff;
  b->passed = 0;
  for (emu_thread *t = block->threads, *end = t + block->thread_count; t < end; t++) {
    t->passed &= others;
    if (t->state == EMU_WAIT_BARRIER && t->barrier == id) emu_make_ready(t);
  }
}

emu_barrier *emu_barrier_wait(int id, unsigned expected, int predicate, const char *what, const char *file, int line) {
  emu_thread *t = emu_self;
  emu_barrier *b = &t->block->barriers[id];
  t->what = what;
  t->where = (emu_site){file, line};
  t->barrier = id;
  arrive(b, id, expected, what, file, line);
  b->count += predicate != 0;
  b->all &= predicate != 0;
  b->any |= predicate != 0;
  t->state = EMU_WAIT_BARRIER;
  try_release(t->block, id);
  emu_wait(t);
  return b;
}

void emu_barrier_arrive(int id, unsigned expected, const char *what, const char *file, int line) {
  emu_block *block = emu_self->block;
  arrive(&block->barriers[id], id, expected, what, file, line);
  emu_self->passed |= (unsigned short)(1u << id);
  block->barriers[id].passed++;
  EMU_TELL(barrier_arrive, emu_self, id);
  try_release(block, id);
}

void emu_barrier_exit(emu_block *block) { try_release(block, 0); }
