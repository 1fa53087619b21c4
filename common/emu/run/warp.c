/* Warp functions: each lane brings its operands; the last to arrive computes everybody's result. */
#include <string.h>

#include "common/emu/tool/tool.h"

static void end_meeting(emu_warp *warp, emu_meeting *m) {
  const unsigned lanes = m->arrived;
  *m = warp->meeting[--warp->meetings];
  for (unsigned lane = 0; lane < EMU_WARP; lane++)
    if (lanes >> lane & 1) emu_make_ready(&warp->threads[lane]);
}

static emu_meeting *find_meeting(emu_warp *warp, unsigned mask) {
  for (emu_meeting *m = warp->meeting; m < warp->meeting + warp->meetings; m++)
    if (m->mask == mask) return m;
  return NULL;
}

void emu_meet(unsigned mask, void *operands, void (*execute)(emu_warp *, unsigned), const char *what, const char *file, int line) {
  emu_thread *t = emu_self;
  emu_warp *warp = t->warp;
  const unsigned self = 1u << t->lane;
  t->what = what;
  t->where = (emu_site){file, line};
  t->mask = mask;
  if (!(mask & self)) emu_fail("%s at %s:%d: lane %u is not in its own mask 0x%08x", what, file, line, t->lane, mask);

  emu_meeting *m = find_meeting(warp, mask);
  if (m == NULL) {
    m = &warp->meeting[warp->meetings++];
    *m = (emu_meeting){.mask = mask, .execute = execute, .what = what, .where = t->where};
  } else if (m->execute != execute || m->where.line != line || (m->where.file != file && strcmp(m->where.file, file) != 0)) {
    emu_fail("divergent warp: lanes 0x%08x wait in %s at %s:%d while lane %u arrives in %s at %s:%d, with the same mask 0x%08x", m->arrived, m->what,
             m->where.file, m->where.line, t->lane, what, file, line, mask);
  }
  warp->operands[t->lane] = operands;
  m->arrived |= self;
  t->state = EMU_WAIT_WARP;
  if ((mask & ~warp->exited) == m->arrived) {
    if (execute != NULL) execute(warp, m->arrived);
    end_meeting(warp, m);
  }
  emu_wait(t);
}

/* A lane has exited: those that waited for it alone go on without it. */
void emu_warp_exit(emu_warp *warp) {
  for (int i = warp->meetings - 1; i >= 0; i--) {
    emu_meeting *m = &warp->meeting[i];
    if ((m->mask & ~warp->exited) != m->arrived) continue;
    if (m->execute != NULL) m->execute(warp, m->arrived);
    end_meeting(warp, m);
  }
}

unsigned emu_activemask(void) { return ~emu_self->warp->exited; }

/* Shuffles and votes exchange values; this one alone orders memory. */
static void execute_syncwarp(emu_warp *warp, unsigned lanes) { EMU_TELL(warp_sync, warp, lanes); }

void emu_syncwarp(unsigned mask, const char *file, int line) { emu_meet(mask, NULL, execute_syncwarp, "__syncwarp", file, line); }

typedef struct shuffle {
  uint64_t value, result;
  emu_shuffle_kind how;
  unsigned lane; /* or distance */
  int width;
} shuffle;

static unsigned shuffle_source(const shuffle *s, unsigned lane) {
  const unsigned width = (unsigned)s->width, first = lane & ~(width - 1), last = first + width - 1;
  switch (s->how) {
    case EMU_SHFL_INDEX: return first + (s->lane & (width - 1));
    case EMU_SHFL_UP: return lane - first >= s->lane ? lane - s->lane : lane;
    case EMU_SHFL_DOWN: return s->lane <= last - lane ? lane + s->lane : lane;
    case EMU_SHFL_XOR: return (lane ^ s->lane) <= last ? (lane ^ s->lane) : lane;
  }
  return lane;
}

static const char *const shuffle_name[] = {"__shfl_sync", "__shfl_up_sync", "__shfl_down_sync", "__shfl_xor_sync"};

static void execute_shuffle(emu_warp *warp, unsigned lanes) {
  for (unsigned lane = 0; lane < EMU_WARP; lane++) {
    if (!(lanes >> lane & 1)) continue;
    shuffle *s = warp->operands[lane];
    const unsigned source = shuffle_source(s, lane);
    if (lanes >> source & 1) {
      s->result = ((const shuffle *)warp->operands[source])->value;
    } else {
      const emu_thread *t = emu_self = &warp->threads[lane]; /* its mistake, whoever noticed */
      emu_fail("%s at %s:%d: lane %u reads from lane %u, which %s", shuffle_name[s->how], t->where.file, t->where.line, lane, source,
               t->mask >> source & 1 ? "has exited" : "is not in the mask");
    }
  }
}

uint64_t emu_shuffle(emu_shuffle_kind how, unsigned mask, uint64_t value, unsigned lane, int width, const char *file, int line) {
  if (width < 1 || width > EMU_WARP || (width & (width - 1)) != 0)
    emu_fail("%s at %s:%d: width %d, expected a power of two up to 32", shuffle_name[how], file, line, width);
  shuffle s = {value, 0, how, lane, width};
  emu_meet(mask, &s, execute_shuffle, shuffle_name[how], file, line);
  return s.result;
}

/* Votes, matches and reductions: one value per lane in, one out. */
typedef struct ballot {
  int64_t value, result;
  int how;
} ballot;

static void execute_vote(emu_warp *warp, unsigned lanes) {
  unsigned votes = 0;
  for (unsigned lane = 0; lane < EMU_WARP; lane++)
    if (lanes >> lane & 1 && ((const ballot *)warp->operands[lane])->value) votes |= 1u << lane;
  for (unsigned lane = 0; lane < EMU_WARP; lane++) {
    if (!(lanes >> lane & 1)) continue;
    ballot *b = warp->operands[lane];
    b->result = b->how == EMU_BALLOT ? votes : b->how == EMU_ANY ? votes != 0 : votes == lanes;
  }
}

unsigned emu_vote(emu_vote_kind how, unsigned mask, int predicate, const char *file, int line) {
  static const char *const name[] = {"__all_sync", "__any_sync", "__ballot_sync"};
  ballot b = {predicate != 0, 0, (int)how};
  emu_meet(mask, &b, execute_vote, name[how], file, line);
  return (unsigned)b.result;
}

static void execute_match(emu_warp *warp, unsigned lanes) {
  for (unsigned lane = 0; lane < EMU_WARP; lane++) {
    if (!(lanes >> lane & 1)) continue;
    ballot *b = warp->operands[lane];
    b->result = 0;
    for (unsigned other = 0; other < EMU_WARP; other++)
      if (lanes >> other & 1 && ((const ballot *)warp->operands[other])->value == b->value) b->result |= INT64_C(1) << other;
  }
}

unsigned emu_match_any(unsigned mask, uint64_t value, const char *file, int line) {
  ballot b = {(int64_t)value, 0, 0};
  emu_meet(mask, &b, execute_match, "__match_any_sync", file, line);
  return (unsigned)b.result;
}

static int64_t combine(int how, int64_t a, int64_t b) {
  switch (how) {
    case EMU_ADD: return (int64_t)((uint64_t)a + (uint64_t)b);
    case EMU_MIN: return a < b ? a : b;
    case EMU_MAX: return a > b ? a : b;
    case EMU_AND: return a & b;
    case EMU_OR: return a | b;
    default: return a ^ b;
  }
}

static void execute_reduce(emu_warp *warp, unsigned lanes) {
  ballot *first = NULL;
  for (unsigned lane = 0; lane < EMU_WARP; lane++) {
    if (!(lanes >> lane & 1)) continue;
    ballot *b = warp->operands[lane];
    if (first == NULL) {
      first = b;
      first->result = b->value;
    } else {
      first->result = combine(b->how, first->result, b->value);
    }
  }
  for (unsigned lane = 0; lane < EMU_WARP; lane++)
    if (lanes >> lane & 1) ((ballot *)warp->operands[lane])->result = first->result;
}

int64_t emu_reduce(emu_reduce_kind how, unsigned mask, int64_t value, const char *file, int line) {
  static const char *const name[] = {"__reduce_add_sync", "__reduce_min_sync", "__reduce_max_sync",
                                     "__reduce_and_sync", "__reduce_or_sync",  "__reduce_xor_sync"};
  ballot b = {value, 0, (int)how};
  emu_meet(mask, &b, execute_reduce, name[how], file, line);
  return b.result;
}
