/* Asynchronous copies under way (bulk.c), oldest first. Loads and stores have a list each: of a block that takes many tiles, thousands of stores wait for its
 * end, and none is to be passed over for every load. */
#pragma once

#include <string.h>

#include "common/emu/run/internal.h"

static inline void emu_jobs_append(emu_jobs *list, struct emu_job *j) {
  if (list->count == list->room) {
    list->room = list->room > 0 ? 2 * list->room : 64;
    list->of = emu_grow(list->of, list->room, sizeof *list->of, "the bulk copies under way");
  }
  list->of[list->count++] = j;
}

/* Those behind it keep their order. */
static inline struct emu_job *emu_jobs_take(emu_jobs *list, unsigned i) {
  struct emu_job *j = list->of[i];
  list->count--;
  memmove(list->of + i, list->of + i + 1, (list->count - i) * sizeof *list->of);
  return j;
}
