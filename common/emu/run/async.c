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
  unsigned char *dst;
  const unsigned char *src;
  size_t bytes, src_bytes;
  const void *pc;
  unsigned group; /* counts its thread's groups */
} copy;

/* Of one thread: its copies under way, oldest first, and how many groups it has committed in this block. */
typedef struct queue {
  copy *first, *last;
  unsigned groups;
} queue;

/* Of one worker. */
typedef struct pending {
  queue of[EMU_MAX_THREADS];
  copy *unused;
  uint64_t launch; /* its serial */
  uint3 block;
  unsigned threads; /* of that block */
} pending;

static __thread pending *mine;

bool emu_late(void) { return emu_setting(EMU_SET_LATE, emu_the_tool != NULL && emu_the_tool->late) != 0; }

/* Those of the running thread; of all threads emptied when a new block has begun. */
static queue *own(void) {
  const emu_block *b = emu_self->block;
  if (mine == NULL) mine = emu_take(1, sizeof *mine, "the asynchronous copies of a block");
  pending *p = mine;
  if (p->launch != b->launch->serial || p->block.x != b->index.x || p->block.y != b->index.y || p->block.z != b->index.z) {
    for (queue *q = p->of; q < p->of + p->threads; q++) {
      if (q->first != NULL) {
        q->last->next = p->unused;
        p->unused = q->first;
      }
      *q = (queue){0};
    }
    p->launch = b->launch->serial;
    p->block = b->index;
    p->threads = b->thread_count;
  }
  return &p->of[emu_self->number];
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
  if (!emu_late()) {
    fill(dst, src, bytes, src_bytes);
    EMU_TELL(async_done, dst, bytes, pc);
    return;
  }
  memset(dst, EMU_POISON, bytes);
  queue *q = own();
  copy *c = mine->unused;
  if (c != NULL) mine->unused = c->next;
  else c = emu_take(1, sizeof *c, "an asynchronous copy");
  *c = (copy){NULL, dst, src, bytes, src_bytes, pc, q->groups};
  if (q->first != NULL) q->last->next = c;
  else q->first = c;
  q->last = c;
}

void emu_cp_async_commit(void) { own()->groups++; }

/* Completes the thread's groups but for the last n; with n < 0 also what was never committed. */
void emu_cp_async_wait(int n) {
  queue *q = own();
  while (q->first != NULL && (n < 0 || (q->first->group < q->groups && q->groups - q->first->group > (unsigned)n))) {
    copy *c = q->first;
    fill(c->dst, c->src, c->bytes, c->src_bytes);
    EMU_TELL(async_done, c->dst, c->bytes, c->pc);
    q->first = c->next;
    c->next = mine->unused;
    mine->unused = c;
  }
}

bool emu_cp_async_is_open(unsigned thread, const void *dst) {
  if (mine == NULL || thread >= EMU_MAX_THREADS) return false;
  const queue *q = &mine->of[thread];
  for (const copy *c = q->first; c != NULL; c = c->next)
    if (c->group == q->groups && (size_t)((const unsigned char *)dst - c->dst) < c->bytes) return true;
  return false;
}

/* Groups of the thread that hold copies and are under way; in late mode. */
unsigned emu_cp_async_left(void) {
  unsigned n = 0, last = ~0u;
  for (const copy *c = own()->first; c != NULL; c = c->next)
    if (c->group != last) n++, last = c->group;
  return n;
}
