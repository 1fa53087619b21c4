/* mbarriers: 8 bytes of shared memory that threads arrive at and copies report their bytes to.
 *
 * A phase is over when nobody is left to arrive and no bytes are missing. Bytes may come before they are expected: what is missing is signed. The wait is one
 * step here, not a loop: a thread that waits for a phase that cannot end is part of a deadlock, and the report says what is missing.
 *
 *   bits 0..19  arrivals of each phase    20..39  still to come in this one    40..60  bytes missing, signed    61  parity of the phase
 *   62..63  10: it is one; 01: it is one, and nobody has waited for the phase that ended last */
#include <stdio.h>
#include <string.h>

#include "common/emu/hopper.h"
#include "common/emu/run/hopper.h"
#include "common/emu/tool/tool.h"

enum { MOST_ARRIVALS = (1 << 20) - 1, MOST_BYTES = (1 << 20) - 1, IS_ONE = 2, UNWAITED = 1 };

typedef struct state {
  unsigned count, pending, parity;
  int missing; /* bytes */
  bool unwaited;
} state;

static const char *name(uint32_t barrier) {
  static __thread char text[64];
  emu_shared_describe(barrier, text, sizeof text);
  return text;
}

static unsigned char *place(uint32_t barrier, const char *what, const char *file, int line) {
  emu_needs(90, what, file, line);
  if (barrier % 8 != 0) emu_fail("%s at %s:%d: the mbarrier at shared address %u is no multiple of 8", what, file, line, barrier);
  return emu_shared_pointer(barrier);
}

static bool read_state(const unsigned char *at, state *s) {
  uint64_t bits;
  memcpy(&bits, at, sizeof bits);
  *s = (state){.count = bits & 0xfffff, .pending = bits >> 20 & 0xfffff, .parity = bits >> 61 & 1, .missing = (int)((int64_t)(bits << 3) >> 43)};
  s->unwaited = bits >> 62 == UNWAITED;
  return bits >> 62 == IS_ONE || s->unwaited;
}

static void write_state(unsigned char *at, const state *s) {
  const uint64_t bits = (uint64_t)s->count | (uint64_t)s->pending << 20 | ((uint64_t)(unsigned)s->missing & 0x1fffff) << 40 | (uint64_t)s->parity << 61 |
                        (uint64_t)(s->unwaited ? UNWAITED : IS_ONE) << 62;
  memcpy(at, &bits, sizeof bits);
}

static state need(const unsigned char *at, uint32_t barrier, const char *what, const char *file, int line) {
  state s;
  if (!read_state(at, &s)) emu_fail("%s at %s:%d: %s is no mbarrier: it was not initialised, or overwritten", what, file, line, name(barrier));
  return s;
}

/* Ends the phase if it is over. */
static void settle(emu_block *block, uint32_t offset, unsigned char *at, state *s) {
  const bool over = s->pending == 0 && s->missing == 0;
  if (over) s->parity ^= 1, s->pending = s->count, s->unwaited = true;
  write_state(at, s);
  if (!over) return;
  EMU_TELL(mbarrier_phase, block, offset);
  for (emu_thread *t = block->threads, *end = t + block->thread_count; t < end; t++)
    if (t->state == EMU_WAIT_MBARRIER && t->mbarrier == offset && t->parity != s->parity) emu_make_ready(t);
}

void emu_mbarrier_init(uint32_t barrier, uint32_t count, const char *file, int line) {
  unsigned char *at = place(barrier, "mbarrier.init", file, line);
  if (count == 0 || count > MOST_ARRIVALS) emu_fail("mbarrier.init at %s:%d: %u arrivals, expected 1 to %d", file, line, count, MOST_ARRIVALS);
  const state s = {.count = count, .pending = count};
  write_state(at, &s);
  uint32_t offset = barrier;
  emu_block *block = emu_shared_home(emu_self->block, &offset);
  EMU_TELL(mbarrier_init, block, offset, ((emu_site){file, line}));
}

void emu_mbarrier_invalidate(uint32_t barrier, const char *file, int line) {
  unsigned char *at = place(barrier, "mbarrier.inval", file, line);
  need(at, barrier, "mbarrier.inval", file, line);
  memset(at, EMU_POISON, 8);
}

void emu_mbarrier_arrive(uint32_t barrier, uint32_t count, const char *file, int line) {
  unsigned char *at = place(barrier, "mbarrier.arrive", file, line);
  state s = need(at, barrier, "mbarrier.arrive", file, line);
  if (count > s.pending)
    emu_fail("mbarrier.arrive at %s:%d: %u arrival%s too many at %s, which expects %u each phase", file, line, count - s.pending,
             count - s.pending == 1 ? "" : "s", name(barrier), s.count);
  s.pending -= count;
  if (s.pending == 0 && s.missing == 0 && s.unwaited && emu_late())
    emu_fail("mbarrier.arrive at %s:%d: ends a phase of %s, and nobody has waited for the one before", file, line, name(barrier));
  emu_block *block = emu_shared_home(emu_self->block, &barrier);
  EMU_TELL(mbarrier_arrive, emu_self, block, barrier, ((emu_site){file, line}));
  settle(block, barrier, at, &s);
}

void emu_mbarrier_expect(uint32_t barrier, uint32_t bytes, const char *file, int line) {
  unsigned char *at = place(barrier, "mbarrier.expect_tx", file, line);
  state s = need(at, barrier, "mbarrier.expect_tx", file, line);
  if (bytes > MOST_BYTES || s.missing + (int)bytes > MOST_BYTES)
    emu_fail("mbarrier.expect_tx at %s:%d: %u bytes more, together more than %d at %s", file, line, bytes, MOST_BYTES, name(barrier));
  s.missing += (int)bytes;
  emu_block *block = emu_shared_home(emu_self->block, &barrier);
  settle(block, barrier, at, &s);
}

void emu_mbarrier_complete(emu_block *block, uint32_t offset, uint32_t bytes, emu_site where) {
  unsigned char *at = block->arena + offset;
  state s;
  if (!read_state(at, &s)) {
    emu_report_begin(block->launch, cudaErrorLaunchFailure, "block (%u,%u,%u): the copy at %s:%d reports to shared address %u, which is no mbarrier",
                     block->index.x, block->index.y, block->index.z, where.file, where.line, offset);
    return;
  }
  s.missing -= (int)bytes;
  if (s.missing < -MOST_BYTES)
    emu_report_begin(block->launch, cudaErrorLaunchFailure,
                     "block (%u,%u,%u): the copy at %s:%d brings more bytes to the mbarrier at shared address %u than it can count", block->index.x,
                     block->index.y, block->index.z, where.file, where.line, offset);
  settle(block, offset, at, &s);
}

void emu_mbarrier_wait(uint32_t barrier, uint32_t parity, const char *file, int line) {
  emu_thread *t = emu_self;
  if (barrier >= EMU_ARENA) emu_fail("mbarrier.try_wait at %s:%d: the mbarrier is another block's; only its own block can wait there", file, line);
  if (parity > 1) emu_fail("mbarrier.try_wait at %s:%d: parity %u, expected 0 or 1", file, line, parity);
  unsigned char *at = place(barrier, "mbarrier.try_wait", file, line);
  state s = need(at, barrier, "mbarrier.try_wait", file, line);
  if (s.parity == parity) {
    t->what = "mbarrier.try_wait";
    t->where = (emu_site){file, line};
    t->mbarrier = barrier, t->parity = parity;
    t->state = EMU_WAIT_MBARRIER;
    emu_wait(t);
    s = need(at, barrier, "mbarrier.try_wait", file, line);
  }
  s.unwaited = false;
  write_state(at, &s);
  EMU_TELL(mbarrier_passed, t, barrier, ((emu_site){file, line}));
}

void emu_mbarrier_describe(const emu_thread *t, char *text, size_t room) {
  state s;
  char place_text[64];
  emu_shared_describe(t->mbarrier, place_text, sizeof place_text);
  if (!read_state(t->block->arena + t->mbarrier, &s)) snprintf(text, room, "%s, which was overwritten", place_text);
  else if (s.missing < 0) snprintf(text, room, "%s: %u of %u arrivals missing, %d bytes too many", place_text, s.pending, s.count, -s.missing);
  else snprintf(text, room, "%s: %u of %u arrivals and %d bytes missing", place_text, s.pending, s.count, s.missing);
}

void emu_fence_mbarrier_init(void) { EMU_TELL(mbarrier_fence, emu_self); }
