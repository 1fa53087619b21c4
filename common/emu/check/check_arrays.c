/* Arrays inside an allocation, marked by the program, and what a report calls a place in global memory. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/emu/check/check.h"

typedef struct array {
  uintptr_t start;
  size_t bytes;
  char name[32];
} array;

static array *arrays;
static size_t count, room;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static emu_shadow *shadow_of(uintptr_t start, size_t bytes) {
  emu_shadow *s = emu_shadow_at(start);
  return s != NULL && start - s->start <= s->bytes && bytes <= s->bytes - (start - s->start) ? s : NULL;
}

void emu_arrays_mark(const void *pointer, size_t bytes, const char *name) {
  const uintptr_t start = (uintptr_t)pointer;
  emu_shadow *s = shadow_of(start, bytes);
  if (s == NULL || bytes == 0) return;
  if (!s->marked) {
    emu_shadow_set(s, 0, s->bytes, 0xFF, 0);
    s->marked = true;
  }
  emu_shadow_set(s, start - s->start, bytes, 0xFF, 0x0F);
  pthread_mutex_lock(&lock);
  if (count == room) {
    room = room ? 2 * room : 16;
    arrays = emu_grow(arrays, room, sizeof *arrays, "the list of arrays");
  }
  arrays[count] = (array){.start = start, .bytes = bytes};
  snprintf(arrays[count++].name, sizeof arrays->name, "%s", name);
  pthread_mutex_unlock(&lock);
}

void emu_arrays_unmark(const void *pointer, size_t bytes) {
  emu_shadow *s = shadow_of((uintptr_t)pointer, bytes);
  if (s != NULL) emu_shadow_set(s, (uintptr_t)pointer - s->start, bytes, 0xF0, 0);
}

void emu_arrays_forget(const emu_shadow *s) {
  pthread_mutex_lock(&lock);
  for (size_t i = count; i-- > 0;)
    if (arrays[i].start - s->start < s->bytes) arrays[i] = arrays[--count];
  pthread_mutex_unlock(&lock);
}

/* How far the place is from an array: 0 inside, else bytes before its start or behind its end. */
static size_t distance(const array *a, uintptr_t at) { return at < a->start ? a->start - at : at < a->start + a->bytes ? 0 : at - (a->start + a->bytes) + 1; }

static void describe(char *text, size_t size, const char *name, size_t bytes, ptrdiff_t offset) {
  if (offset < 0) snprintf(text, size, "%s, byte %td (%td before its start)", name, offset, -offset);
  else if ((size_t)offset >= bytes) snprintf(text, size, "%s, byte %td (its end is at %zu)", name, offset, bytes);
  else snprintf(text, size, "%s, byte %td", name, offset);
}

bool emu_arrays_leave(const void *pointer, size_t bytes, char *text, size_t size) {
  const uintptr_t start = (uintptr_t)pointer;
  bool leaves = false;
  pthread_mutex_lock(&lock);
  for (size_t i = 0; i < count && !leaves; i++) {
    const size_t at = start - arrays[i].start;
    leaves = at < arrays[i].bytes && bytes > arrays[i].bytes - at;
    if (leaves) snprintf(text, size, "%s, byte %zu: expected at most %zu", arrays[i].name, at, arrays[i].bytes - at);
  }
  pthread_mutex_unlock(&lock);
  return leaves;
}

void emu_arrays_describe(const emu_shadow *s, size_t offset, char *text, size_t size) {
  const uintptr_t at = s->start + offset;
  const array *nearest = NULL;
  pthread_mutex_lock(&lock);
  for (size_t i = 0; i < count; i++)
    if (arrays[i].start - s->start < s->bytes && (nearest == NULL || distance(&arrays[i], at) < distance(nearest, at))) nearest = &arrays[i];
  if (nearest != NULL) {
    describe(text, size, nearest->name, nearest->bytes, (ptrdiff_t)(at - nearest->start));
  } else {
    char name[64];
    snprintf(name, sizeof name, "allocation %llu", (unsigned long long)s->serial);
    describe(text, size, name, s->bytes, (ptrdiff_t)offset);
  }
  pthread_mutex_unlock(&lock);
}
