/* cp.async: copies from global to shared memory that a thread starts, groups and waits for.
 *
 * By default a copy is done when it is issued. In late mode (EMU_LATE=1; in the check build unless EMU_LATE=0) it is done as late as the
 * rules allow: when its thread waits for its group. Until then its destination holds poison. A kernel that reads before it waits is
 * right by luck in the first mode, and wrong in the second. */
#include <stdlib.h>
#include <string.h>

#include "common/emu/tool/tool.h"

typedef struct copy {
  struct copy *next;
  const emu_thread *thread;
  unsigned char *dst;
  const unsigned char *src;
  size_t bytes, src_bytes;
  const void *pc;
  bool committed;
  unsigned group; /* counts its thread's groups */
} copy;

/* Of one worker: copies under way, oldest first, and how many groups each thread has committed in this block. */
typedef struct pending {
  copy *first, **end;
  copy *unused;
  uint64_t launch; /* its serial */
  uint3 block;
  unsigned groups[EMU_MAX_THREADS];
} pending;

static __thread pending *mine;

static bool late(void) {
  static int mode = -1;
  if (mode < 0) {
    const char *text = getenv("EMU_LATE");
    mode = text != NULL ? atoi(text) != 0 : emu_the_tool != NULL && emu_the_tool->late;
  }
  return mode;
}

/* The worker's list; emptied when a new block has begun. */
static pending *list(void) {
  const emu_block *b = emu_self->block;
  if (mine == NULL) {
    mine = calloc(1, sizeof *mine);
    if (mine == NULL) abort();
    mine->end = &mine->first;
  }
  pending *p = mine;
  if (p->launch == b->launch->serial && p->block.x == b->index.x && p->block.y == b->index.y && p->block.z == b->index.z) return p;
  *p->end = p->unused;
  p->unused = p->first;
  p->first = NULL;
  p->end = &p->first;
  p->launch = b->launch->serial;
  p->block = b->index;
  memset(p->groups, 0, sizeof p->groups);
  return p;
}

/* What arrives: src_bytes of the source, then zeros. */
static void fill(unsigned char *dst, const unsigned char *src, size_t bytes, size_t src_bytes) {
  memcpy(dst, src, src_bytes);
  memset(dst + src_bytes, 0, bytes - src_bytes);
}

void emu_cp_async(void *dst, const void *src, size_t bytes, size_t src_bytes) {
  const void *pc = __builtin_return_address(0);
  if (bytes != 4 && bytes != 8 && bytes != 16) emu_fail("cp.async of %zu bytes, expected 4, 8 or 16", bytes);
  if (src_bytes > bytes) emu_fail("cp.async of %zu bytes reads %zu, expected no more", bytes, src_bytes);
  if ((uintptr_t)dst % bytes != 0 || (src_bytes > 0 && (uintptr_t)src % bytes != 0)) emu_fail("cp.async of %zu bytes: a misaligned address", bytes);
  if ((uintptr_t)dst - (uintptr_t)emu_self->block->arena >= EMU_ARENA) emu_fail("cp.async to an address outside of shared memory");
  EMU_TELL(async_issue, dst, src, bytes, src_bytes, pc);
  if (!late()) {
    fill(dst, src, bytes, src_bytes);
    EMU_TELL(async_done, dst, bytes, pc);
    return;
  }
  memset(dst, EMU_POISON, bytes);
  pending *p = list();
  copy *c = p->unused;
  if (c != NULL) p->unused = c->next;
  else c = malloc(sizeof *c);
  if (c == NULL) abort();
  *c = (copy){NULL, emu_self, dst, src, bytes, src_bytes, pc, false, 0};
  *p->end = c;
  p->end = &c->next;
}

void emu_cp_async_commit(void) {
  pending *p = list();
  const unsigned group = p->groups[emu_self->number]++;
  for (copy *c = p->first; c != NULL; c = c->next)
    if (c->thread == emu_self && !c->committed) {
      c->committed = true;
      c->group = group;
    }
}

/* Completes the thread's groups but for the last n; with n < 0 also what was never committed. */
void emu_cp_async_wait(int n) {
  pending *p = list();
  const unsigned groups = p->groups[emu_self->number];
  for (copy **link = &p->first; *link != NULL;) {
    copy *c = *link;
    const bool due = c->thread == emu_self && (n < 0 || (c->committed && groups - c->group > (unsigned)n));
    if (!due) {
      link = &c->next;
      continue;
    }
    fill(c->dst, c->src, c->bytes, c->src_bytes);
    EMU_TELL(async_done, c->dst, c->bytes, c->pc);
    *link = c->next;
    if (*link == NULL) p->end = link;
    c->next = p->unused;
    p->unused = c;
  }
}
