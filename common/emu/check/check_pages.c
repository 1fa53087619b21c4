/* Memory of the shadows. Programs free buffers and allocate the next ones, of about that size, again and again; and new pages cost more than
 * what the checker does with them. So those of the last few that were freed are kept for the next, unless they are large. */
#include <string.h>
#include <sys/mman.h>

#include "common/emu/check/check.h"

enum { KEPT = 4, MOST_GROUPS_KEPT = 1 << 20 };
static emu_shadow kept[KEPT]; /* all zeros but for `who` */
static size_t next_kept;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Groups that there are pages for: where they are kept, enough for the next of about that size. */
static size_t room_for(const emu_shadow *s) {
  size_t groups = 1024;
  if (emu_groups(s) > MOST_GROUPS_KEPT) return emu_groups(s);
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

static void drop(const emu_shadow *s) {
  const size_t groups = room_for(s);
  if (s->state != NULL) munmap(s->state, groups);
  if (s->seen != NULL) munmap(s->seen, 3 * groups * sizeof *s->seen);
  if (s->who != NULL) munmap(s->who, 3 * groups * sizeof *s->who);
}

bool emu_pages_take(emu_shadow *s) {
  if (take_kept(s)) return true;
  const size_t groups = room_for(s);
  s->state = emu_pages(groups);
  s->seen = emu_pages(3 * groups * sizeof *s->seen);
  s->who = emu_pages(3 * groups * sizeof *s->who);
  if (s->state != NULL && s->seen != NULL && s->who != NULL) return true;
  drop(s);
  return false;
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
