/* What a request costs.
 *
 * Global memory moves in sectors of 32 bytes: a request costs as many as its lanes touch, each counted once.
 * Out of L1 and out of shared memory, which are one memory, it comes in passes ("wavefronts"). There are 32 banks of 4 bytes, word i lies in bank
 * i % 32. What a bank delivers at once is one word, to any number of lanes; so a wavefront serves lanes whose words lie in different banks or are the
 * same. A request of 8-byte accesses is served in two halves of the warp, one of 16-byte accesses in four quarters, because a wavefront moves 128
 * bytes. For global memory that is the least: it holds where L1 has the data (docs/emulator.md, wavefronts). */
#include <stdio.h>
#include <string.h>

#include "common/emu/count/count.h"

enum { SECTOR = 32, BANKS = 32 };

/* Adds a number to a set, if it is new. Returns the set's size. */
static unsigned add(uint64_t *set, unsigned count, uint64_t value) {
  for (unsigned i = 0; i < count; i++)
    if (set[i] == value) return count;
  set[count] = value;
  return count + 1;
}

unsigned emu_sectors(const emu_touch *const touch[], int n) {
  enum { MOST = 8 * EMU_WARP };
  uint64_t set[MOST];
  unsigned count = 0;
  for (int i = 0; i < n; i++)
    for (uint64_t s = touch[i]->address / SECTOR; s <= (touch[i]->address + touch[i]->bytes - 1) / SECTOR && count < MOST; s++) count = add(set, count, s);
  return count;
}

/* Passes for the lanes from `first` up to before `end`. */
static unsigned passes(const emu_touch *const touch[], int n, unsigned first, unsigned end) {
  uint64_t words[BANKS][EMU_WARP];
  unsigned count[BANKS] = {0}, most = 0;
  for (int i = 0; i < n; i++) {
    if (touch[i]->lane < first || touch[i]->lane >= end) continue;
    for (uint64_t word = touch[i]->address / 4; word <= (touch[i]->address + touch[i]->bytes - 1) / 4; word++) {
      const unsigned bank = (unsigned)(word % BANKS);
      if (count[bank] < EMU_WARP) count[bank] = add(words[bank], count[bank], word);
      if (count[bank] > most) most = count[bank];
    }
  }
  return most;
}

unsigned emu_wavefronts(const emu_touch *const touch[], int n) {
  const unsigned parts = touch[0]->bytes <= 4 ? 1 : touch[0]->bytes / 4, size = EMU_WARP / (parts > 4 ? 4 : parts);
  unsigned sum = 0;
  for (unsigned first = 0; first < EMU_WARP; first += size) sum += passes(touch, n, first, first + size);
  return sum;
}

/* Constant memory serves a warp one element after the other, each to all lanes that want it. */
static unsigned elements(const emu_touch *const touch[], int n) {
  uint64_t set[EMU_WARP];
  unsigned count = 0;
  for (int i = 0; i < n; i++) count = add(set, count, touch[i]->address);
  return count;
}

void emu_count_name_array(uintptr_t address, char *name, size_t room) {
  snprintf(name, room, "global");
  const emu_shadow *s = emu_shadow_at(address);
  if (s == NULL || !s->marked) return;
  char place[200];
  emu_arrays_describe(s, address - s->start, place, sizeof place);
  place[strcspn(place, ",")] = '\0';
  snprintf(name, room, "%.31s", place);
}

/* What the reader knows the place as. */
static void name_array(emu_worker *w, const emu_touch *t, char *name, size_t room) {
  snprintf(name, room, "%s", t->space == EMU_CONSTANT ? "constant" : "shared");
  if (t->space == EMU_GLOBAL) emu_count_name_array(t->address, name, room);
  if (t->space != EMU_SHARED) return;
  emu_launch *launch = w->launch;
  pthread_mutex_lock(&launch->lock);
  for (int i = 0; i < launch->site_count; i++) {
    const emu_shared_site *site = launch->sites[i];
    if (t->address - site->offset < (site->bytes != 0 ? site->bytes : launch->call.shared_bytes)) snprintf(name, room, "%.31s", site->name);
  }
  pthread_mutex_unlock(&launch->lock);
}

/* The instruction's row of the table; a new one gets its name. */
static emu_instruction *row_of(emu_counts *counts, emu_worker *w, const emu_touch *t) {
  for (size_t probe = 0, at = (uintptr_t)t->pc * 0x9E3779B97F4A7C15u >> 32; probe < EMU_INSTRUCTIONS; probe++, at++) {
    emu_instruction *row = &counts->instruction[at % EMU_INSTRUCTIONS];
    if (row->pc == t->pc && row->space == t->space && row->kind == t->kind) return row;
    if (row->pc != NULL) continue;
    *row = (emu_instruction){.pc = t->pc, .space = t->space, .kind = t->kind, .bytes = t->bytes};
    name_array(w, t, row->array, sizeof row->array);
    return row;
  }
  return NULL;
}

void emu_count_request(emu_counts *counts, emu_worker *w, const emu_touch *const touch[], int n) {
  emu_instruction *row = row_of(counts, w, touch[0]);
  if (row == NULL) return;
  row->requests++;
  row->lanes += (unsigned)n;
  if (touch[0]->space == EMU_GLOBAL) row->sectors += emu_sectors(touch, n);
  const bool through_l1 = touch[0]->space == EMU_SHARED || (touch[0]->space == EMU_GLOBAL && touch[0]->kind != EMU_ATOMIC); /* L2 does atomics */
  if (through_l1) row->wavefronts += emu_wavefronts(touch, n);
  if (touch[0]->space == EMU_CONSTANT) row->wavefronts += elements(touch, n);
}
