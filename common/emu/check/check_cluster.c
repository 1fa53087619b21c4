/* Blocks of a cluster in each other's shared memory. Each block has its own checker; here a warp has, beside its clock's row for its own block, one for each other
 * block of the cluster (of_others): what it knows of that block's warps, copies and tensor cores. A cluster barrier makes everybody know everything, a relaxed one only which mbarriers are there; an arrival
 * at a block's mbarrier brings what the arriving warp knows of all blocks, a wait there takes it along (check_mbarrier.c). So a multicast into a stage that the
 * other block still multiplies is found as one in the own block is.
 *
 * Loads and stores of a block in another are that block's visits: of one visitor, whichever of its warps made them.
 *
 * Not seen: what a thread does between its arrival at a cluster barrier and the last one's; the proxy fence after a visitor's store; races among a visitor's own
 * warps. */
#include <stdlib.h>
#include <string.h>

#include "common/emu/check/check.h"

void emu_cluster_begin_block(emu_checker *c, unsigned rank, unsigned team_size) {
  c->rank = rank;
  c->team_size = team_size;
  if (team_size == 1) return;
  if (c->of_others == NULL) c->of_others = emu_take(EMU_MAX_CLUSTER, sizeof *c->of_others, "the clocks of a cluster");
  c->engines = true;
  memset(c->of_others, 0, team_size * sizeof *c->of_others);
  memset(c->visits, 0, sizeof c->visits);
}

void emu_cluster_meet(emu_checker *c, uint32_t set, int warps) {
  for (unsigned rank = 0; rank < c->team_size; rank++) {
    if (rank == c->rank) continue;
    uint32_t known[EMU_AGENTS] = {0};
    for (int a = 0; a < warps; a++)
      if (set >> a & 1) emu_learn(known, c->of_others[rank][a]);
    for (int a = 0; a < warps; a++)
      if (set >> a & 1) memcpy(c->of_others[rank][a], known, sizeof known);
  }
}

void emu_cluster_barrier(emu_block *team, bool relaxed) {
  const unsigned warps = (team->thread_count + EMU_WARP - 1) / EMU_WARP;
  emu_checker *blocks[EMU_MAX_CLUSTER];
  if (relaxed) { /* nobody learns anything, but of mbarriers */
    for (unsigned rank = 0; rank < team->team_size; rank++) emu_engines_mbarriers_told(emu_checker_of(&team[rank]));
    return;
  }
  for (unsigned rank = 0; rank < team->team_size; rank++) {
    emu_checker *of = blocks[rank] = emu_checker_of(&team[rank]);
    if (of->fenced) emu_order_meet(of, ~0u, (int)warps);
    uint32_t known[EMU_AGENTS] = {0};
    for (unsigned w = 0; w < warps; w++) of->clock[w][w]++; /* what it did up to now is over */
    for (unsigned other = 0; other < team->team_size; other++)
      for (unsigned w = 0; w < warps; w++) emu_learn(known, emu_known(emu_checker_of(&team[other]), rank, w));
    for (unsigned other = 0; other < team->team_size; other++)
      for (unsigned w = 0; w < warps; w++) emu_learn(emu_known(emu_checker_of(&team[other]), rank, w), known);
  }
  emu_order_cluster(blocks, team->team_size, team->thread_count);
}

/* An mbarrier, the own block's or another's, is there for those who know of its initialisation; another's that was fenced, for a cluster that has met. */
void emu_check_mbarrier(emu_checker *c, const emu_block *block, uint32_t offset, const char *what, const void *pc) {
  emu_checker *there = emu_checker_of(block);
  const emu_cell *cell = &there->cells[emu_cell_at(there, offset)];
  const uint32_t *known = emu_known(c, block->rank, emu_self->number / EMU_WARP);
  const bool there_yet = cell->stamp == there->stamp && cell->written;
  if (there_yet && c != there && !emu_self->cluster_waits && emu_engines_mbarrier_is_told(there, offset)) return; /* this thread has met them, too */
  if (there_yet && (cell->write_clock <= known[cell->write_thread / EMU_WARP] || (c == there && cell->write_thread == emu_self->number))) return;
  char place[200];
  emu_shared_describe_at(there, offset, place, sizeof place);
  const emu_other other = {EMU_WRITE, emu_long_pc(cell->write_pc), emu_writer(cell), -1};
  emu_check_note(EMU_RACE, pc, there_yet && c == there ? &other : NULL, "%s, with no %sbarrier since its initialisation: mbarrier of block (%u,%u,%u), %s",
                 what, c == there ? "" : "cluster ", block->index.x, block->index.y, block->index.z, place);
}

static void visit(emu_checker *c, emu_checker *there, size_t index, size_t offset, emu_access_kind kind, const void *pc) {
  emu_cell *cell = &there->cells[index];
  if (cell->stamp != there->stamp) *cell = (emu_cell){.stamp = there->stamp};
  uint32_t *known = emu_known(c, there->rank, emu_self->number / EMU_WARP);
  char place[200];
  emu_shared_describe_at(there, offset, place, sizeof place);
  if (!emu_writes_memory(kind) && !cell->written)
    emu_check_note(EMU_UNINITIALISED, pc, NULL, "of another block of the cluster: %s%s", place, cell->pending ? ", a copy that nobody has waited for" : "");
  emu_other other = {EMU_WRITE, emu_long_pc(cell->write_pc), emu_writer(cell), -1};
  bool race = (cell->written || (cell->pending && !emu_reads_memory(kind))) && cell->write_clock > known[cell->write_thread / EMU_WARP];
  const uint32_t now = ++there->visits[c->rank];
  known[EMU_OF_VISITOR + c->rank] = now;
  if (emu_reads_memory(kind)) {
    emu_reads **reads = &there->reads[EMU_WARPS + 2 * EMU_WARPGROUPS];
    for (unsigned rank = 0; rank < c->team_size && !cell->visited; rank++) reads[rank][index] = (emu_reads){.clock = 0};
    cell->visited = true;
    reads[c->rank][index] = (emu_reads){.clock = now, .pc = emu_short_pc(pc)};
  } else {
    for (uint32_t left = cell->readers; left != 0 && !race; left &= left - 1) {
      const unsigned r = (unsigned)__builtin_ctz(left);
      const emu_reads *reads = &there->reads[r][index];
      race = reads->clock > known[r];
      if (race) other = (emu_other){EMU_READ, emu_long_pc(reads->pc), (int)(r * EMU_WARP) + __builtin_ctz(reads->lanes), -1};
    }
    race = race || !emu_engines_readers_done(there, cell, index, known, &other);
    *cell = (emu_cell){.stamp = there->stamp,
                       .written = true,
                       .write_clock = now,
                       .write_pc = emu_short_pc(pc),
                       .write_thread = (uint16_t)((EMU_OF_VISITOR + c->rank) * EMU_WARP)};
  }
  if (race) emu_check_note(EMU_RACE, pc, &other, "of another block of the cluster: %s", place);
}

bool emu_cluster_access(emu_checker *c, uintptr_t address, size_t bytes, emu_access_kind kind, const void *pc) {
  const emu_block *team = emu_self->block->team;
  const uintptr_t at = address - (uintptr_t)team->arena;
  if (c->team_size == 1 || at >= (uintptr_t)c->team_size * EMU_ARENA || address - c->arena < EMU_ARENA) return false;
  emu_checker *there = emu_checker_of(&team[at / EMU_ARENA]);
  for (size_t offset = at % EMU_ARENA, end = offset + bytes; offset < end;) {
    const size_t group = offset / 4, part = 4 - offset % 4 < end - offset ? 4 - offset % 4 : end - offset;
    const uint8_t mask = (uint8_t)(((1u << part) - 1) << offset % 4);
    if (group >= EMU_CELLS || (c->shared_allowed[group] & mask) != mask) {
      char place[200];
      emu_shared_describe_at(there, offset, place, sizeof place);
      EMU_CHECK_STOP(EMU_OUT_OF_BOUNDS, pc, NULL, "of another block of the cluster: %s, %s", place, emu_reads_memory(kind) ? "read" : "write");
    }
    if (part < 4 && !emu_is_split(there, group)) emu_shared_split(there, group);
    const size_t step = emu_is_split(there, group) ? 1 : part;
    for (size_t i = 0; i < part; i += step) visit(c, there, emu_cell_at(there, offset + i), offset + i, kind, pc);
    offset += part;
  }
  return true;
}
