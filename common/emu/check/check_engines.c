/* Who else works in shared memory: the copy engine and the tensor cores, asynchronously, and what makes their work known to threads, and the threads' to them.
 *
 * They have clocks as warps have (check_shared.c). An mbarrier is one: a copy that reports to it has written its bytes in the phase under way, and a warp that
 * waits for that phase's end knows of it. It learns as well what those who arrived there knew: that is how a consumer tells the producer that a stage may be
 * filled again. A warp's part of a wgmma is one: its reads are made when the wgmma is issued, and known to be over when that warp has waited for its group.
 * A warpgroup's bulk stores likewise.
 *
 * Copy engine and tensor cores see shared memory through another proxy than the threads' loads and stores (PTX: Memory Consistency Model, Proxies). What a
 * thread has written reaches them by fence.proxy.async, and a copy over what it has written or read comes after that by one: of that thread, before it tells
 * anybody; or of one who knows of the access, on the way to the one who issues.
 *
 * Not seen: which of a warp's lanes arrived at an mbarrier;
 * two threads of a warpgroup that store and wait each for itself. */
#include <stdlib.h>
#include <string.h>

#include "common/emu/check/check.h"
#include "common/emu/check/hooks.h"
#include "common/emu/run/hopper.h"
#include "common/emu/run/wgmma_product.h"

static __thread emu_checker *of_rank[EMU_MAX_CLUSTER];

emu_checker *emu_checker_of(const emu_block *block) {
  emu_worker *w = emu_this_worker;
  if (of_rank[0] == NULL) of_rank[0] = w->tool;
  emu_checker **c = &of_rank[block->rank];
  if (*c == NULL) {
    emu_checker_create(w); /* leaves it in w->tool */
    *c = w->tool;
  }
  (*c)->arena = (uintptr_t)block->arena;
  return *c;
}

void emu_engines_switch(emu_worker *w) {
  emu_checker *c = emu_checker_of(w->block);
  if (c != w->tool)
    for (int i = 0; i < EMU_CACHED; i++) c->cache[i] = (emu_shadow){.start = 0};
  w->tool = c;
  emu_checking = c;
}

/* ---- time ---- */

void emu_engines_begin_block(emu_checker *c) {
  emu_cluster_begin_block(c, emu_this_worker->block->rank, emu_this_worker->team_size);
  if (!c->engines) return;
  c->engines = c->team_size > 1;
  c->mbarriers = 0;
  for (int w = 0; w < EMU_WARPS; w++) memset(&c->clock[w][EMU_WARPS], 0, (EMU_AGENTS - EMU_WARPS) * sizeof c->clock[w][0]);
  memset(c->stores, 0, sizeof c->stores);
}

void emu_engines_meet(emu_checker *c, uint32_t set, int warps) {
  uint32_t known[EMU_AGENTS] = {0};
  for (int a = 0; a < warps; a++)
    for (int b = EMU_WARPS; b < EMU_AGENTS && set >> a & 1; b++)
      if (c->clock[a][b] > known[b]) known[b] = c->clock[a][b];
  for (int a = 0; a < warps; a++)
    if (set >> a & 1) memcpy(&c->clock[a][EMU_WARPS], known + EMU_WARPS, (EMU_AGENTS - EMU_WARPS) * sizeof *known);
  if (c->team_size > 1) emu_cluster_meet(c, set, warps);
}

int emu_writer(const emu_cell *cell) {
  if (cell->write_thread < EMU_MAX_THREADS) return cell->write_thread;
  return cell->write_thread / EMU_WARP < EMU_OF_VISITOR ? EMU_COPY : EMU_VISITOR;
}

static bool reader_done(const emu_checker *c, unsigned reader, size_t index, bool done, int who, emu_other *other) {
  if (!done) *other = (emu_other){EMU_READ, emu_long_pc(c->reads[EMU_WARPS + reader][index].pc), who, -1};
  return done;
}

bool emu_engines_readers_done(const emu_checker *c, const emu_cell *cell, size_t index, const uint32_t *known, emu_other *other) {
  for (unsigned left = cell->engines; left != 0; left &= left - 1) {
    const unsigned engine = (unsigned)__builtin_ctz(left);
    const uint32_t time = c->reads[EMU_WARPS + engine][index].clock;
    bool done = true;
    if (engine >= EMU_WARPGROUPS) done = time <= known[EMU_OF_STORE + engine - EMU_WARPGROUPS];
    else
      for (unsigned i = 4 * engine; i < 4 * engine + 4; i++) done &= time <= known[EMU_OF_TENSOR + i];
    if (!reader_done(c, engine, index, done, engine < EMU_WARPGROUPS ? EMU_TENSOR_CORES : EMU_STORE, other)) return false;
  }
  for (unsigned rank = 0; rank < c->team_size && cell->visited; rank++) {
    const unsigned reader = 2 * EMU_WARPGROUPS + rank;
    if (!reader_done(c, reader, index, c->reads[EMU_WARPS + reader][index].clock <= known[EMU_OF_VISITOR + rank], EMU_VISITOR, other)) return false;
  }
  return true;
}

static unsigned own_warp(void) { return emu_self->number / EMU_WARP; }

/* Whether a fence.proxy.async lies between a thread's access, when it had run so many, and one who knows so much. */
static bool fenced(const emu_checker *c, unsigned thread, uint32_t clock, uint16_t fences, const uint32_t *known) {
  const unsigned w = thread / EMU_WARP, since = (uint16_t)(c->fences_of[thread] - fences);
  if (clock <= known[EMU_OF_FENCED + w] || since > EMU_PROXY_FENCES) return true;
  return since > 0 && (c->fence_times[thread][(uint16_t)(fences + 1) % EMU_PROXY_FENCES] <= known[w] || (thread == emu_self->number && known == c->clock[w]));
}

/* ---- ranges of shared memory, cell by cell ---- */

static emu_cell *cell_of(emu_checker *c, size_t group) {
  emu_cell *cell = &c->cells[group];
  if (cell->stamp != c->stamp) *cell = (emu_cell){.stamp = c->stamp};
  return cell;
}

static bool inside(emu_checker *c, uint32_t shared, uint32_t bytes, const char *what, const void *pc) {
  for (uint32_t at = shared; at < shared + bytes; at += 4)
    if (at >= EMU_ARENA || c->shared_allowed[at / 4] != 0x0F) {
      char place[200];
      emu_shared_describe_at(c, at, place, sizeof place);
      emu_check_note(EMU_OUT_OF_BOUNDS, pc, NULL, "%s: %s", what, place);
      return false;
    }
  return true;
}

static void note_race(const emu_checker *c, size_t offset, const emu_other *other, const char *what, const void *pc) {
  char place[200];
  emu_shared_describe_at(c, offset, place, sizeof place);
  emu_check_note(EMU_RACE, pc, other, "%s: %s", what, place);
}

static void note_no_fence(const emu_checker *c, size_t offset, const emu_other *other, const char *what, const void *pc) {
  char place[200];
  emu_shared_describe_at(c, offset, place, sizeof place);
  emu_check_note(EMU_PROXY, pc, other, "%s, with no fence.proxy.async between: %s", what, place);
}

/* A copy into a cell, that is to overwrite what is there: who wrote or read it must be known to the thread that asks, and have passed from its proxy to the
 * engine's, unless a thread sends the copy. */
static void copy_into(emu_checker *c, const emu_checker *issuer, size_t index, size_t offset, const uint32_t *known, bool engine, const void *pc) {
  const emu_cell *cell = &c->cells[index];
  const unsigned w = c == issuer ? own_warp() : EMU_WARPS, thread = c == issuer ? emu_self->number : EMU_MAX_THREADS; /* else: no warp, no thread of its */
  emu_other other = {EMU_WRITE, emu_long_pc(cell->write_pc), emu_writer(cell), -1};
  if ((cell->written || cell->pending) && cell->write_clock > known[cell->write_thread / EMU_WARP] && cell->write_thread != thread)
    note_race(c, offset, &other, "a copy into it", pc);
  else if (engine && cell->written && cell->write_thread < EMU_MAX_THREADS && cell->write_clock > 0 &&
           !fenced(c, cell->write_thread, cell->write_clock, cell->fences, known))
    note_no_fence(c, offset, &other, "a copy into it", pc);
  if (!emu_engines_readers_done(c, cell, index, known, &other)) note_race(c, offset, &other, "a copy into it", pc);
  for (uint32_t left = cell->readers; left != 0; left &= left - 1) {
    const unsigned r = (unsigned)__builtin_ctz(left);
    const emu_reads *reads = &c->reads[r][index];
    const bool before = known[r] >= reads->clock || (r == w && reads->lanes == 1u << emu_self->lane);
    if (before && (!engine || fenced(c, r * EMU_WARP + reads->lane, reads->clock, reads->fences, known))) continue;
    other = (emu_other){EMU_READ, emu_long_pc(reads->pc), (int)(r * EMU_WARP) + (before ? reads->lane : __builtin_ctz(reads->lanes)), -1};
    if (before) note_no_fence(c, offset, &other, "a copy into it", pc);
    else note_race(c, offset, &other, "a copy into it", pc);
    break;
  }
}

/* A cell that a copy writes, in the phase of its mbarrier that is under way. */
static emu_cell copied(emu_checker *c, uint32_t mbarrier, const void *pc) {
  const emu_phases *p = emu_phases_at(c, mbarrier);
  return (emu_cell){.stamp = c->stamp,
                    .write_pc = emu_short_pc(pc),
                    .write_clock = p != NULL ? p->over + 1 : 0,
                    .write_thread = (uint16_t)(p != NULL ? (EMU_OF_MBARRIER + (p - c->mbarrier)) * EMU_WARP : 0)};
}

void emu_engines_bulk_issued(emu_block *block, uint32_t shared, uint32_t bytes, uint32_t mbarrier, bool engine, emu_site where) {
  emu_checker *c = emu_checker_of(block), *issuer = emu_checker_of(emu_self->block);
  const void *pc = emu_site_pc(where);
  c->engines = true;
  if (!inside(c, shared, bytes, "a copy into it", pc)) return;
  emu_check_mbarrier(issuer, block, mbarrier, "a copy that reports to it", pc);
  emu_engines_mbarrier_copies(c, mbarrier);
  const uint32_t *known = emu_known(issuer, block->rank, own_warp());
  emu_cell under_way = copied(c, mbarrier, pc);
  under_way.pending = true;
  for (size_t group = shared / 4; group < (shared + bytes) / 4; group++) {
    const emu_cell *cell = cell_of(c, group);
    if (!cell->split) copy_into(c, issuer, group, 4 * group, known, engine, pc);
    for (size_t i = 0; i < 4 && cell->split; i++) copy_into(c, issuer, EMU_CELLS + 4 * group + i, 4 * group + i, known, engine, pc);
    c->cells[group] = under_way;
  }
}

void emu_engines_bulk_arrived(emu_block *block, uint32_t shared, uint32_t bytes, uint32_t mbarrier, emu_site where) {
  emu_checker *c = emu_checker_of(block);
  emu_cell cell = copied(c, mbarrier, emu_site_pc(where));
  cell.written = true;
  if (shared + bytes > EMU_ARENA) return;
  for (size_t group = shared / 4; group < (shared + bytes) / 4; group++) c->cells[group] = cell;
}

/* An engine's read under way. */
typedef struct engine_read {
  unsigned engine;
  uint32_t time;
  bool kept; /* it is not dropped */
  const char *what;
  const void *pc;
} engine_read;

/* What is there must be written (if it is kept), known to the thread that asks for it, and have passed from its proxy to the other. */
static void check_read(emu_checker *c, const emu_cell *cell, size_t offset, const engine_read *r) {
  const unsigned w = own_warp(), by = cell->write_thread / EMU_WARP;
  const emu_other other = {EMU_WRITE, emu_long_pc(cell->write_pc), emu_writer(cell), -1};
  char place[200];
  if (!cell->written) {
    if (!r->kept && !cell->pending) return;
    emu_shared_describe_at(c, offset, place, sizeof place);
    emu_check_note(EMU_UNINITIALISED, r->pc, NULL, "%s: %s%s", r->what, place, cell->pending ? ", a copy that nobody has waited for" : "");
  } else if (cell->write_clock > c->clock[w][by] && cell->write_thread != emu_self->number) {
    note_race(c, offset, &other, r->what, r->pc);
  } else if (by < EMU_WARPS && cell->write_clock > 0 && !fenced(c, cell->write_thread, cell->write_clock, cell->fences, c->clock[w])) {
    note_no_fence(c, offset, &other, r->what, r->pc);
  }
}

static void engine_reads(emu_checker *c, size_t first, size_t count, const engine_read *r) {
  const uint32_t *known = c->clock[own_warp()];
  const emu_reads now = {.clock = r->time, .pc = emu_short_pc(r->pc)};
  emu_reads *reads = c->reads[EMU_WARPS + r->engine];
  for (size_t group = first; group < first + count; group++) {
    emu_cell *cell = cell_of(c, group);
    const size_t at = cell->split ? EMU_CELLS + 4 * group : group, cells = cell->split ? 4 : 1;
    for (size_t i = 0; i < cells; i++) {
      cell = &c->cells[at + i];
      const unsigned by = cell->write_thread / EMU_WARP;
      if (!cell->written || cell->write_clock > known[by < EMU_WARPS ? EMU_OF_FENCED + by : by]) check_read(c, cell, 4 * group + i, r); /* else all is well */
      reads[at + i] = now;
      cell->engines |= (uint16_t)(1u << r->engine);
    }
  }
}

/* ---- stores ---- */

void emu_engines_store_issued(uint32_t shared, uint32_t bytes, emu_site where, unsigned *number) {
  emu_checker *c = emu_checking;
  const void *pc = emu_site_pc(where);
  const unsigned g = emu_self->number / 128;
  c->engines = true;
  if (!inside(c, shared, bytes, "a store from it", pc)) return;
  *number = ++c->stores[g];
}

void emu_engines_store_reads(uint32_t shared, uint32_t bytes, bool kept, unsigned number, emu_site where) {
  const unsigned g = emu_self->number / 128;
  const engine_read read = {EMU_WARPGROUPS + g, number, kept, "a store from it", emu_site_pc(where)};
  if (number > 0) engine_reads(emu_checking, shared / 4, bytes / 4, &read);
}

/* Those who wait for the copy at the other end know that its source has been read. */
void emu_engines_bulk_sent(emu_thread *t, unsigned number, emu_block *to, uint32_t mbarrier) {
  emu_phases *p = emu_phases_at(emu_checker_of(to), mbarrier);
  if (p == NULL) return;
  uint32_t *known = &p->arrived[t->block->rank][EMU_OF_STORE + t->number / 128];
  if (*known < number) *known = number;
}

void emu_engines_store_waited(emu_thread *t, unsigned number) {
  uint32_t *known = &emu_checking->clock[t->number / EMU_WARP][EMU_OF_STORE + t->number / 128];
  if (*known < number) *known = number;
}

void emu_engines_bulk_global(const void *address, size_t bytes, emu_access_kind kind, emu_site where) {
  const void *pc = emu_site_pc(where);
  if (kind == EMU_ATOMIC) emu_check_global(emu_checking, (uintptr_t)address, bytes, kind, pc); /* unlike a thread's it carries no order between blocks */
  else emu_hook_access(address, bytes, kind, pc);
}

void emu_engines_proxy_fence(emu_thread *t) {
  emu_checker *c = emu_checking;
  const unsigned w = t->number / EMU_WARP;
  c->engines = true;
  const uint16_t number = ++c->fences_of[t->number];
  c->fence_times[t->number][number % EMU_PROXY_FENCES] = c->clock[w][w] + 1;
  for (unsigned rank = 0; rank < c->team_size; rank++) {
    uint32_t *known = emu_known(c, rank, w);
    for (unsigned other = 0; other < EMU_WARPS; other++)
      if (known[EMU_OF_FENCED + other] < known[other]) known[EMU_OF_FENCED + other] = known[other];
  }
}

/* ---- accesses of threads that are not to their own shared memory ---- */

bool emu_engines_see(emu_checker *c, uintptr_t address, size_t bytes, emu_access_kind kind, const void *pc) {
  if (address < emu_self->busy_end && address + bytes > emu_self->busy_start) {
    const emu_site at = emu_wgmma_working_on(address, bytes);
    if (at.file != NULL) {
      const emu_other other = {EMU_WRITE, emu_site_pc(at), EMU_TENSOR_CORES, -1};
      emu_check_note(EMU_RACE, pc, &other, "the sums of a wgmma that nobody has waited for");
      return true;
    }
  }
  return emu_cluster_access(c, address, bytes, kind, pc);
}

/* ---- wgmma ---- */

void emu_engines_wgmma_issued(const emu_wgmma_record *what, unsigned group, emu_site where) {
  emu_checker *c = emu_checking;
  const void *pc = emu_site_pc(where);
  const unsigned g = emu_self->number / EMU_WARPGROUP;
  c->engines = true;
  const struct {
    bool there, mn;
    uint64_t descriptor;
    int rows;
    const char *name;
  } operands[2] = {{what->a_registers == NULL, what->a_mn, what->a, 64, "wgmma reads a"}, {true, what->b_mn, what->b, what->n, "wgmma reads b"}};
  enum { RUN = 8 }; /* halves that lie side by side, along k or the rows */
  for (int o = 0; o < 2; o++)
    for (int row = 0; row < operands[o].rows && operands[o].there; row += operands[o].mn ? RUN : 1)
      for (int k = 0; k < 16; k += operands[o].mn ? 1 : RUN) {
        const uint32_t at = emu_wgmma_address(operands[o].descriptor, operands[o].mn, row, k);
        if (!inside(c, at, 2 * RUN, operands[o].name, pc)) return;
        engine_reads(c, at / 4, RUN / 2, &(engine_read){g, group + 1, true, operands[o].name, pc});
      }
}

void emu_engines_wgmma_waited(emu_block *block, unsigned warpgroup, unsigned done) {
  emu_checker *c = emu_checker_of(block);
  for (unsigned w = 4 * warpgroup; w < 4 * warpgroup + 4; w++) c->clock[w][EMU_OF_TENSOR + w] = done; /* its own part */
}
