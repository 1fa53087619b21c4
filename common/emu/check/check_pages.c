/* Memory of the shadows. Programs free buffers and allocate the next ones, of about that size, again and again; and new pages cost more than
 * what the checker does with them. So those of the last few that were freed are kept for the next, unless they are large. */
#include <string.h>
#include <sys/mman.h>

#include "common/emu/check/check.h"

enum { KEPT = 16, MOST_GROUPS_KEPT = 1 << 22 /* of one, and of all */ };
static emu_shadow kept[KEPT]; /* all zeros but for `who`; the oldest stands at next_kept */
static size_t next_kept, groups_kept;
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
    if (found) s->state = kept[i].state, s->seen = kept[i].seen, s->who = kept[i].who, kept[i].state = NULL, groups_kept -= room_for(s);
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

/* A page that is read before it is written costs two faults, and the second one every core: it takes the page of zeros away from all. */
static void make_present(void *memory, size_t bytes) {
#ifdef MADV_POPULATE_WRITE
  madvise(memory, bytes, MADV_POPULATE_WRITE);
#else
  (void)memory, (void)bytes;
#endif
}

bool emu_pages_take(emu_shadow *s) {
  if (take_kept(s)) return true;
  const size_t groups = room_for(s);
  s->state = emu_pages(groups);
  s->seen = emu_pages(3 * groups * sizeof *s->seen);
  s->who = emu_pages(3 * groups * sizeof *s->who);
  if (s->state != NULL && s->seen != NULL && s->who != NULL) {
    if (groups <= MOST_GROUPS_KEPT) make_present(s->state, groups), make_present(s->seen, groups * sizeof *s->seen);
    return true;
  }
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
  groups_kept += room_for(s);
  for (int i = 0; i < KEPT && (i == 0 || groups_kept > MOST_GROUPS_KEPT); i++) { /* room for this one: the oldest go */
    emu_shadow *oldest = &kept[(next_kept + i) % KEPT];
    if (oldest->state == NULL) continue;
    drop(oldest);
    groups_kept -= room_for(oldest), oldest->state = NULL;
  }
  kept[next_kept++ % KEPT] = *s;
  pthread_mutex_unlock(&lock);
}
