/* Shadow of shared memory: races between threads of a block, reads of what nobody has written, accesses next to an array.
 *
 * Time. Every warp has a clock that ticks when it meets others: at a barrier, and at __syncwarp. Each cell keeps the clock of the warp
 * that wrote it. clock[a][b] is how much of warp b's past warp a knows of; a meeting makes everybody know what anybody knew. So an
 * access by warp a comes after a write by warp b if and only if clock[a][b] >= the write's clock: one comparison, whatever the pattern
 * of barriers. (Vector clocks; one per warp instead of one per thread.) Within a warp, what lanes did since they last met has the clock
 * clock[a][a] + 1, which nobody knows yet: so two lanes that did not meet are found by the same comparison.
 *
 * Clocks never go back, not even from block to block; a new block only starts with everybody knowing everything, and with a new stamp
 * that makes all cells stale. What this cannot see: a __syncwarp of some lanes counts for the whole warp. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "common/emu/check/check.h"

enum { ALL_CELLS = EMU_CELLS + EMU_ARENA }; /* by 4 bytes, then by bytes */

/* ---- which bytes belong to an array ---- */

static uint8_t allowed[EMU_CELLS];

static void allow(size_t offset, size_t bytes) {
  for (size_t i = offset; i < offset + bytes; i++) allowed[i / 4] |= (uint8_t)(1u << i % 4);
}

void emu_shared_begin_check(emu_launch *launch) {
  memset(allowed, 0, sizeof allowed);
  allow(EMU_RESERVED_SHARED, launch->call.shared_bytes);
}

void emu_shared_allow(emu_launch *launch, const emu_shared_site *site) {
  (void)launch;
  allow(site->offset, site->bytes);
}

/* The array that the byte lies in or next to. */
void emu_shared_describe_at(const emu_checker *c, size_t offset, char *text, size_t room) {
  emu_launch *launch = c->worker->launch;
  pthread_mutex_lock(&launch->lock);
  const emu_shared_site *nearest = NULL;
  ptrdiff_t distance = EMU_ARENA, at = 0;
  for (int i = 0; i < launch->site_count; i++) {
    const emu_shared_site *s = launch->sites[i];
    const ptrdiff_t size = (ptrdiff_t)(s->bytes != 0 ? s->bytes : launch->call.shared_bytes), from = (ptrdiff_t)offset - (ptrdiff_t)s->offset;
    const ptrdiff_t away = from < 0 ? -from : from >= size ? from - size + 1 : 0;
    if (away >= distance) continue;
    nearest = s;
    distance = away;
    at = from;
  }
  if (nearest == NULL) snprintf(text, room, "shared memory, byte %zu", offset);
  else if (distance == 0) snprintf(text, room, "shared %s %s, byte %td", nearest->type, nearest->name, at);
  else if (at < 0) snprintf(text, room, "shared %s %s, byte %td (before its start)", nearest->type, nearest->name, at);
  else snprintf(text, room, "shared %s %s, byte %td (its end is at %td)", nearest->type, nearest->name, at, at - distance + 1);
  pthread_mutex_unlock(&launch->lock);
}

/* ---- time ---- */

static void *pages(size_t bytes) {
  void *p = emu_pages(bytes);
  if (p == NULL) emu_no_memory(bytes, "the checker's shadow of shared memory");
  return p;
}

void emu_checker_create(emu_worker *w) {
  emu_checker *c = emu_take(1, sizeof *c, "the checker of a worker");
  c->worker = w;
  c->shared_allowed = allowed;
  c->cells = pages(ALL_CELLS * sizeof *c->cells);
  c->before = pages(ALL_CELLS * sizeof *c->before);
  for (int i = 0; i < EMU_WARPS + 2 * EMU_WARPGROUPS + EMU_MAX_CLUSTER; i++) c->reads[i] = pages(ALL_CELLS * sizeof *c->reads[i]);
  w->tool = c;
}

/* The warps of the set meet. */
static void meet(emu_checker *c, uint32_t set, int warps) {
  uint32_t known[EMU_WARPS] = {0};
  for (int a = 0; a < warps; a++) {
    if (!(set >> a & 1)) continue;
    for (int b = 0; b < warps; b++)
      if (c->clock[a][b] > known[b]) known[b] = c->clock[a][b];
    if (known[a] < c->clock[a][a] + 1) known[a] = c->clock[a][a] + 1; /* all it did up to now */
  }
  for (int a = 0; a < warps; a++)
    if (set >> a & 1) memcpy(c->clock[a], known, (size_t)warps * sizeof *known);
  if (c->engines) emu_engines_meet(c, set, warps);
  if (c->fenced) emu_order_meet(c, set, warps);
}

void emu_checker_begin_block(emu_worker *w) {
  emu_engines_switch(w);
  emu_checker *c = w->tool;
  const uint3 b = w->block->index;
  const dim3 grid = w->launch->call.grid;
  const uint64_t index = b.x + (uint64_t)grid.x * (b.y + (uint64_t)grid.y * b.z);
  c->block = w->launch->mark << (EMU_BLOCK_BITS + 1) | (uint32_t)(index % EMU_SEVERAL);
  c->fenced = false;
  c->party = NULL;
  emu_engines_begin_block(c);
  if (++c->stamp == 0) {
    memset(c->cells, 0, ALL_CELLS * sizeof *c->cells);
    c->stamp = 1;
  }
  memset(c->brought, 0, sizeof c->brought);
  meet(c, ~0u, EMU_WARPS);
  emu_overlap_begin_block(c);
}

/* bar.arrive: who waits there learns what this thread knows now. */
void emu_checker_barrier_arrive(emu_thread *t, int id) {
  emu_checker *c = emu_this_worker->tool;
  const unsigned w = t->number / EMU_WARP;
  c->clock[w][w]++; /* what it did up to now is over */
  emu_learn(c->brought[id], c->clock[w]);
}

static int warps_of(const emu_block *block) { return (int)((block->thread_count + EMU_WARP - 1) / EMU_WARP); }

void emu_checker_barrier(emu_block *block, int id, unsigned expected) {
  emu_checker *c = emu_this_worker->tool;
  uint32_t set = 0;
  for (unsigned i = 0; i < block->thread_count; i++) {
    const emu_thread *t = &block->threads[i];
    if (expected == 0 || (t->state == EMU_WAIT_BARRIER && t->barrier == id)) set |= 1u << i / EMU_WARP;
  }
  for (int w = 0; w < warps_of(block); w++)
    if (set >> w & 1) emu_learn(c->clock[w], c->brought[id]);
  memset(c->brought[id], 0, sizeof c->brought[id]);
  meet(c, set, warps_of(block));
}

void emu_checker_warp_sync(emu_warp *warp, unsigned lanes) {
  (void)lanes;
  emu_checker *c = emu_this_worker->tool;
  const int w = (int)(warp->threads->number / EMU_WARP);
  meet(c, 1u << w, EMU_WARPS);
}

/* ---- accesses ---- */

static void note_race(emu_checker *c, size_t offset, emu_access_kind access, int thread, uint32_t other_pc, const void *pc) {
  const emu_other other = {access, emu_long_pc(other_pc), thread, -1};
  char place[200];
  emu_shared_describe_at(c, offset, place, sizeof place);
  emu_check_note(EMU_RACE, pc, &other, "%s", place);
}

static void check_readers(emu_checker *c, emu_cell *cell, size_t index, size_t offset, unsigned thread, const void *pc) {
  const unsigned me = thread / EMU_WARP;
  for (uint32_t left = cell->readers; left != 0; left &= left - 1) {
    const unsigned r = (unsigned)__builtin_ctz(left);
    const emu_reads *reads = &c->reads[r][index];
    const uint32_t lanes = r == me ? reads->lanes & ~(1u << thread % EMU_WARP) : reads->lanes;
    if (c->clock[me][r] >= reads->clock || lanes == 0) continue;
    note_race(c, offset, EMU_READ, (int)(r * EMU_WARP) + __builtin_ctz(lanes), reads->pc, pc);
    break;
  }
  cell->readers = 0;
}

/* An atomic operation on a cell that others have changed. */
static void check_before_atomics(emu_checker *c, size_t index, size_t offset, const void *pc) {
  const emu_before *b = &c->before[index];
  if (b->clock <= c->clock[emu_self->number / EMU_WARP][b->thread / EMU_WARP] || b->thread == emu_self->number) return;
  note_race(c, offset, EMU_WRITE, emu_writer(&(emu_cell){.write_thread = b->thread}), b->pc, pc);
}

/* One cell: number `index`, at byte `offset` of the arena. */
static void touch(emu_checker *c, size_t index, size_t offset, emu_access_kind kind, const void *pc) {
  emu_cell *cell = &c->cells[index];
  const unsigned thread = emu_self->number, me = thread / EMU_WARP;
  if (cell->stamp != c->stamp) *cell = (emu_cell){.stamp = c->stamp};
  if (!emu_writes_memory(kind) && !cell->written) {
    char place[200];
    emu_shared_describe_at(c, offset, place, sizeof place);
    const bool open = cell->pending && emu_cp_async_is_open(cell->write_thread, (const void *)(c->arena + offset));
    emu_check_note(EMU_UNINITIALISED, pc, NULL, "%s%s%s", place, cell->pending ? ", a copy that nobody has waited for" : "",
                   open ? " (no commit has put it in a group)" : "");
  }
  const bool said = !cell->written && emu_reads_memory(kind) && cell->write_thread >= EMU_MAX_THREADS; /* a bulk copy under way */
  const bool both_atomic = kind == EMU_ATOMIC && cell->atomic;
  if (cell->write_clock > c->clock[me][cell->write_thread / EMU_WARP] && cell->write_thread != thread && !both_atomic && !said)
    note_race(c, offset, cell->atomic ? EMU_ATOMIC : EMU_WRITE, emu_writer(cell), cell->write_pc, pc);
  if (both_atomic) check_before_atomics(c, index, offset, pc);
  else if (kind == EMU_ATOMIC) c->before[index] = (emu_before){cell->write_clock, cell->write_pc, cell->write_thread};
  if (emu_reads_memory(kind)) {
    emu_reads *reads = &c->reads[me][index];
    const uint32_t clock = c->clock[me][me] + 1;
    const bool again = cell->readers >> me & 1 && reads->clock == clock;
    *reads = (emu_reads){clock, (again ? reads->lanes : 0) | 1u << thread % EMU_WARP, emu_short_pc(pc), thread % EMU_WARP, c->fences_of[thread]};
    cell->readers |= 1u << me;
    return;
  }
  if (cell->readers != 0) check_readers(c, cell, index, offset, thread, pc);
  emu_other other;
  if ((cell->engines != 0 || cell->visited) && !emu_engines_readers_done(c, cell, index, c->clock[me], &other))
    note_race(c, offset, EMU_READ, other.thread, emu_short_pc(other.pc), pc);
  cell->engines = 0;
  cell->visited = false;
  cell->fences = c->fences_of[thread];
  cell->write_clock = c->clock[me][me] + 1;
  cell->write_pc = emu_short_pc(pc);
  cell->write_thread = (uint16_t)thread;
  cell->atomic = kind == EMU_ATOMIC;
  cell->written = true;
  cell->pending = false;
}

void emu_shared_split(emu_checker *c, size_t group) {
  emu_cell *cell = &c->cells[group];
  if (cell->stamp != c->stamp) *cell = (emu_cell){.stamp = c->stamp};
  const uint64_t visitors = cell->visited ? (1u << c->team_size) - 1 : 0; /* bits of c->reads */
  const uint64_t readers = cell->readers | (uint64_t)cell->engines << EMU_WARPS | visitors << (EMU_WARPS + 2 * EMU_WARPGROUPS);
  for (size_t i = EMU_CELLS + 4 * group; i < EMU_CELLS + 4 * group + 4; i++) {
    c->cells[i] = *cell;
    if (cell->atomic) c->before[i] = c->before[group];
    for (uint64_t left = readers; left != 0; left &= left - 1) c->reads[__builtin_ctzll(left)][i] = c->reads[__builtin_ctzll(left)][group];
  }
  cell->split = true;
}

void emu_check_shared(emu_checker *c, size_t offset, size_t bytes, emu_access_kind kind, const void *pc) {
  for (const size_t end = offset + bytes; offset < end;) {
    const size_t group = offset / 4, part = 4 - offset % 4 < end - offset ? 4 - offset % 4 : end - offset;
    const uint8_t mask = (uint8_t)(((1u << part) - 1) << offset % 4);
    if (group >= EMU_CELLS || (allowed[group] & mask) != mask) {
      char place[200];
      emu_shared_describe_at(c, offset, place, sizeof place);
      EMU_CHECK_STOP(EMU_OUT_OF_BOUNDS, pc, NULL, "%s, %s", place, emu_reads_memory(kind) ? "read" : "write");
    }
    if (part == 4 && !emu_is_split(c, group)) {
      touch(c, group, offset, kind, pc);
    } else {
      if (!emu_is_split(c, group)) emu_shared_split(c, group);
      for (size_t i = 0; i < part; i++) touch(c, EMU_CELLS + offset + i, offset + i, kind, pc);
    }
    offset += part;
  }
}

/* The bytes hold nothing yet (a copy is under way), or do now. */
void emu_shared_set_written(emu_checker *c, size_t offset, size_t bytes, bool written) {
  for (size_t i = offset; i < offset + bytes; i++) {
    emu_cell *cell = &c->cells[i / 4];
    if (cell->stamp == c->stamp && cell->split) cell = &c->cells[EMU_CELLS + i];
    else i |= 3; /* the group at once */
    cell->written = written;
    cell->pending = !written;
  }
}
