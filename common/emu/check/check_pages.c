/* Memory of the shadows. Programs free buffers and allocate the next ones, of about that size, again and again; and new pages cost more than
 * what the checker does with them. So those of the last few that were freed are kept for the next, unless they are large. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "common/emu/check/check.h"

enum { KEPT = 4, MOST_GROUPS_KEPT = 1 << 20 };
static emu_shadow kept[KEPT]; /* all zeros but for `who` */
static size_t next_kept;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Pages of zeros that cost nothing until somebody touches them. */
static void *pages(size_t bytes) {
  void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) {
    fprintf(stderr, "emulator check: no memory for the shadow of an allocation\n");
    abort();
  }
  return p;
}

/* Groups that there are pages for. */
static size_t room_for(const emu_shadow *s) {
  size_t groups = 1024;
  while (groups < emu_groups(s)) groups *= 2;
  return groups;
}

static bool take_kept(emu_shadow *s) {
  bool found = false;
  pthread_mutex_lock(&lock);
  for (int i = 0; i < KEPT && !found; i++) {
    found = kept[i].state != NULL && room_for(&kept[i]) == room_for(s);
    if (found) s->state = kept[i].state, s->seen = kept[i].seen, s->who = kept[i].who, kept[i].state = NULL;
  }
  pthread_mutex_unlock(&lock);
  return found;
}

void emu_pages_take(emu_shadow *s) {
  if (take_kept(s)) return;
  const size_t groups = room_for(s);
  s->state = pages(groups);
  s->seen = pages(3 * groups * sizeof *s->seen);
  s->who = pages(3 * groups * sizeof *s->who);
}

static void drop(const emu_shadow *s) {
  const size_t groups = room_for(s);
  munmap(s->state, groups);
  munmap(s->seen, 3 * groups * sizeof *s->seen);
  munmap(s->who, 3 * groups * sizeof *s->who);
}

void emu_pages_give(const emu_shadow *s) {
  if (emu_groups(s) > MOST_GROUPS_KEPT) {
    drop(s);
    return;
  }
  memset(s->state, 0, emu_groups(s));
  memset(s->seen, 0, (*s->has_halves ? emu_entries(s) : emu_groups(s)) * sizeof *s->seen);
  pthread_mutex_lock(&lock);
  emu_shadow *k = &kept[next_kept++ % KEPT];
  const emu_shadow oldest = *k;
  *k = *s;
  pthread_mutex_unlock(&lock);
  if (oldest.state != NULL) drop(&oldest);
}
