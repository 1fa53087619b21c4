/* wgmma: when. (What it computes: wgmma_product.c.)
 *
 * A wgmma is asynchronous: the 128 threads of a warpgroup issue it, go on, and wait for its group. So here each thread leaves its part in the warpgroup's queue
 * and runs on; the work is done when they wait, all of a group at once. In late mode (EMU_LATE, the check build's default) the accumulator holds NaNs from the
 * issue to the wait: who reads it before has them in his result. */
#include <stdlib.h>
#include <string.h>

#include "common/emu/hopper.h"
#include "common/emu/run/hopper.h"
#include "common/emu/run/wgmma_product.h"
#include "common/emu/tool/tool.h"

enum { WARPGROUPS = EMU_MAX_THREADS / EMU_WARPGROUP };

/* One wgmma of a warpgroup, as its threads have left it. */
typedef struct entry {
  emu_wgmma_record what;
  unsigned group; /* of the wgmma groups of its threads, from 0 */
  unsigned threads;
  emu_site where;
  float *d[EMU_WARPGROUP];
  uint32_t a[EMU_WARPGROUP][4];
} entry;

/* An accumulator, in late mode: what it really holds. */
typedef struct accumulator {
  float *d;
  int floats;
  unsigned until; /* the wgmma that works on it last */
  bool works;     /* else: held is what the last wait left there */
  emu_site where; /* of the first wgmma that works on it */
  float held[128];
} accumulator;

typedef struct issuer {
  unsigned issued, groups; /* counted from the block's beginning */
  bool fenced;             /* wgmma.fence, since the block's beginning or since the last wait left the accumulator as it did */
  accumulator *at_work;
  int count, room;
} issuer;

typedef struct warpgroup {
  entry *queue;
  unsigned first, count, room; /* queue[0] is the wgmma number `first` */
  unsigned waiting;
  int left;
  emu_site where;
  issuer thread[EMU_WARPGROUP];
} warpgroup;

static __thread warpgroup *groups[EMU_MAX_CLUSTER][WARPGROUPS];

static warpgroup *own(const char *what, const char *file, int line) {
  const emu_thread *t = emu_self;
  const unsigned index = t->number / EMU_WARPGROUP;
  emu_needs(90, what, file, line);
  if ((index + 1) * EMU_WARPGROUP > t->block->thread_count)
    emu_fail("%s at %s:%d: warpgroup %u has %u threads, expected 128", what, file, line, index, t->block->thread_count - index * EMU_WARPGROUP);
  warpgroup **g = &groups[t->block->rank][index];
  if (*g == NULL) *g = emu_take(1, sizeof **g, "a warpgroup");
  return *g;
}

static unsigned lane() { return emu_self->number % EMU_WARPGROUP; }

void emu_wgmma_fence(const char *file, int line) {
  warpgroup *g = own("wgmma.fence", file, line);
  g->thread[lane()].fenced = true;
}

/* The warpgroup's entry number `index`, new if this thread is the first to come there. */
static entry *entry_at(warpgroup *g, unsigned index) {
  const unsigned at = index - g->first;
  if (at < g->count) return &g->queue[at];
  if (g->count == g->room) {
    g->room = g->room == 0 ? 16 : 2 * g->room;
    g->queue = emu_grow(g->queue, g->room, sizeof *g->queue, "the wgmma under way");
  }
  entry *e = &g->queue[g->count++];
  e->threads = 0;
  return e;
}

/* Between which addresses the thread's sums at work lie. */
static void set_busy(emu_thread *thread, const issuer *t) {
  thread->busy_start = UINTPTR_MAX, thread->busy_end = 0;
  for (const accumulator *a = t->at_work; a < t->at_work + t->count; a++) {
    if (!a->works) continue;
    const uintptr_t start = (uintptr_t)a->d, end = (uintptr_t)(a->d + a->floats);
    if (start < thread->busy_start) thread->busy_start = start;
    if (end > thread->busy_end) thread->busy_end = end;
  }
}

emu_site emu_wgmma_working_on(uintptr_t address, size_t bytes) {
  const warpgroup *g = groups[emu_self->block->rank][emu_self->number / EMU_WARPGROUP];
  const issuer *t = g == NULL ? NULL : &g->thread[lane()];
  for (int i = 0; t != NULL && i < t->count; i++) {
    const accumulator *a = &t->at_work[i];
    if (a->works && address < (uintptr_t)(a->d + a->floats) && address + bytes > (uintptr_t)a->d) return a->where;
  }
  return (emu_site){0};
}

/* Keeps what the accumulator holds, and spoils it. Between the last wait and this one, whatever else the registers were used for must be behind a fence: that
 * shows where they hold something else. */
static void hide(issuer *t, float *d, int floats, emu_site where) {
  accumulator *a = t->at_work;
  while (a < t->at_work + t->count && a->d != d) a++;
  const bool known = a < t->at_work + t->count;
  if (!known) {
    if (t->count == t->room) {
      t->room = t->room == 0 ? 2 : 2 * t->room;
      t->at_work = emu_grow(t->at_work, (size_t)t->room, sizeof *a, "the sums of a wgmma");
      a = t->at_work + t->count;
    }
    t->count++;
    *a = (accumulator){.d = d};
  }
  if (!a->works) {
    if (!t->fenced && !(known && a->floats == floats && memcmp(a->held, d, (size_t)floats * sizeof *d) == 0))
      emu_fail("wgmma at %s:%d: its sums were in use since the last wgmma, with no wgmma.fence between", where.file, where.line);
    a->floats = floats;
    memcpy(a->held, d, (size_t)floats * sizeof *d);
    memset(d, EMU_POISON, (size_t)floats * sizeof *d);
    a->works = true;
    a->where = where;
    set_busy(emu_self, t);
  }
  a->until = t->issued;
}

/* Descriptors that mean nothing known on a GPU. */
static void refuse(const emu_wgmma_record *what, const char *file, int line) {
  const char *a = emu_wgmma_refused(what->a), *b = emu_wgmma_refused(what->b); /* a in registers: 0, which is one */
  if (a != NULL || b != NULL)
    emu_fail("wgmma at %s:%d: the descriptor of %s, 0x%016llx, %s", file, line, a ? "a" : "b", (unsigned long long)(a ? what->a : what->b), a ? a : b);
}

/* Every thread asks, for every product: most of the time the text is the same one. */
static bool elsewhere(emu_site a, const char *file, int line) { return a.line != line || (a.file != file && strcmp(a.file, file) != 0); }

void emu_wgmma(int n, float *d, const uint32_t *a_registers, uint64_t a, uint64_t b, int a_mn, int b_mn, int scale_d, const char *file, int line) {
  warpgroup *g = own("wgmma", file, line);
  issuer *t = &g->thread[lane()];
  const emu_wgmma_record what = {.n = n, .a = a_registers != NULL ? 0 : a, .b = b, .a_mn = a_mn != 0, .b_mn = b_mn != 0, .scale_d = scale_d != 0};
  entry *e = entry_at(g, t->issued);
  if (e->threads == 0) {
    refuse(&what, file, line);
    e->what = what;
    e->group = t->groups;
    e->where = (emu_site){file, line};
  } else if (elsewhere(e->where, file, line) || e->group != t->groups) {
    emu_fail("divergent warpgroup: this thread issues the wgmma at %s:%d where others have issued that at %s:%d", file, line, e->where.file, e->where.line);
  } else if (e->what.a != what.a || e->what.b != what.b || e->what.scale_d != what.scale_d) {
    emu_fail("wgmma at %s:%d: the threads of a warpgroup bring different %s", file, line,
             e->what.a != what.a   ? "descriptors of a"
             : e->what.b != what.b ? "descriptors of b"
                                   : "scale-d");
  }
  e->d[lane()] = d;
  if (a_registers != NULL) {
    memcpy(e->a[lane()], a_registers, sizeof e->a[0]);
    e->what.a_registers = (const uint32_t(*)[4])e->a; /* set anew when it is carried out: the queue moves */
  }
  if (++e->threads == EMU_WARPGROUP) EMU_TELL(wgmma_issued, &e->what, e->group, e->where);
  if (emu_late()) hide(t, d, n / 2, (emu_site){file, line});
  t->issued++;
}

void emu_wgmma_commit(const char *file, int line) {
  warpgroup *g = own("wgmma.commit_group", file, line);
  g->thread[lane()].groups++;
}

/* The accumulator that a thread's registers stand for now. */
static float *held(issuer *t, float *d) {
  for (accumulator *a = t->at_work; a < t->at_work + t->count; a++)
    if (a->d == d && a->works) return a->held;
  return d;
}

/* Entries from `e` on, at most `most`, that work on the same accumulators. */
static unsigned chain_of(const entry *e, unsigned most) {
  unsigned count = 1;
  while (count < most && e[count].what.n == e->what.n && memcmp(e[count].d, e->d, sizeof e->d) == 0) count++;
  return count;
}

/* Carries out the first `count` entries; first: the warpgroup's first thread. */
static void carry_out(warpgroup *g, unsigned count, emu_thread *first) {
  enum { MOST = 64 };
  for (unsigned i = 0, chain; i < count; i += chain) {
    entry *e = &g->queue[i];
    chain = chain_of(e, count - i < MOST ? count - i : MOST);
    emu_wgmma_record records[MOST];
    for (unsigned k = 0; k < chain; k++) {
      records[k] = e[k].what;
      if (records[k].a_registers != NULL) records[k].a_registers = (const uint32_t(*)[4])e[k].a;
    }
    float *d[EMU_WARPGROUP];
    for (unsigned l = 0; l < EMU_WARPGROUP; l++) d[l] = held(&g->thread[l], e->d[l]);
    emu_wgmma_chain(d, records, (int)chain, first->block->arena);
  }
  g->first += count;
  g->count -= count;
  memmove(g->queue, g->queue + count, g->count * sizeof *g->queue);
  /* What nothing works on any more is there. */
  for (int l = 0; l < EMU_WARPGROUP; l++) {
    issuer *t = &g->thread[l];
    t->fenced = false;
    for (accumulator *a = t->at_work; a < t->at_work + t->count; a++) {
      if (!a->works || a->until >= g->first) continue;
      memcpy(a->d, a->held, (size_t)a->floats * sizeof *a->d);
      a->works = false;
    }
    set_busy(&first[l], t);
  }
}

void emu_wgmma_wait(int left, const char *file, int line) {
  warpgroup *g = own("wgmma.wait_group", file, line);
  emu_thread *t = emu_self;
  if (g->waiting == 0) g->left = left, g->where = (emu_site){file, line};
  else if (g->left != left || elsewhere(g->where, file, line))
    emu_fail("divergent warpgroup: this thread comes to wgmma.wait_group at %s:%d where others wait at %s:%d", file, line, g->where.file, g->where.line);
  t->what = "wgmma.wait_group";
  t->where = g->where;
  t->state = EMU_WAIT_WARPGROUP;
  if (++g->waiting == EMU_WARPGROUP) {
    g->waiting = 0;
    const unsigned committed = g->thread[lane()].groups;
    unsigned count = 0;
    while (count < g->count && committed > (unsigned)left && g->queue[count].group < committed - (unsigned)left) count++;
    for (const entry *e = g->queue; e < g->queue + count; e++)
      if (e->threads != EMU_WARPGROUP)
        emu_fail("wgmma at %s:%d was issued by %u of the 128 threads of its warpgroup", e->where.file, e->where.line, e->threads);
    emu_thread *first = t->block->threads + t->number / EMU_WARPGROUP * EMU_WARPGROUP;
    carry_out(g, count, first);
    EMU_TELL(wgmma_waited, t->block, t->number / EMU_WARPGROUP, committed > (unsigned)left ? committed - (unsigned)left : 0);
    for (int l = 0; l < EMU_WARPGROUP; l++) emu_make_ready(&first[l]);
  }
  emu_wait(t);
}

void emu_wgmma_end_block(emu_worker *w) {
  for (unsigned i = 0; i < WARPGROUPS; i++) {
    warpgroup *g = groups[w->block->rank][i];
    if (g == NULL) continue;
    if (g->count > 0 && emu_late() && !w->launch->failed)
      emu_report_begin(w->launch, cudaErrorLaunchFailure, "block (%u,%u,%u) ends, and nobody has waited for the wgmma at %s:%d", w->block->index.x,
                       w->block->index.y, w->block->index.z, g->queue->where.file, g->queue->where.line);
    g->first = g->count = g->waiting = 0;
    for (issuer *t = g->thread; t < g->thread + EMU_WARPGROUP; t++) t->issued = t->groups = 0, t->count = 0, t->fenced = false;
  }
}
