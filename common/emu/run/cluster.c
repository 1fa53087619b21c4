/* Clusters: blocks that live together, meet at a barrier of their own and reach each other's shared memory. And shared memory by number. */
#include <stdio.h>

#include "common/emu/hopper.h"
#include "common/emu/run/hopper.h"
#include "common/emu/tool/tool.h"

uint32_t emu_cluster_rank(void) { return emu_self->block->rank; }
uint32_t emu_cluster_size(void) { return emu_self->block->team_size; }

/* ---- barrier.cluster: arrivals are counted for all blocks, in the first one ---- */

static unsigned alive(const emu_block *team) {
  unsigned sum = 0;
  for (unsigned rank = 0; rank < team->team_size; rank++) sum += team[rank].alive;
  return sum;
}

static void settle(emu_block *team) {
  if (team->cluster_arrived == 0 || team->cluster_arrived < alive(team)) return;
  team->cluster_arrived = 0;
  team->cluster_phases++;
  EMU_TELL(cluster_barrier, team, team->cluster_relaxed != 0);
  team->cluster_relaxed = 0;
  for (unsigned rank = 0; rank < team->team_size; rank++)
    for (emu_thread *t = team[rank].threads, *end = t + team[rank].thread_count; t < end; t++) {
      t->cluster_arrived = false;
      if (t->state == EMU_WAIT_CLUSTER) emu_make_ready(t);
    }
}

void emu_cluster_arrive(int relaxed, const char *file, int line) {
  emu_thread *t = emu_self;
  if (t->cluster_waits) emu_fail("barrier.cluster.arrive at %s:%d: this thread has arrived already, with no wait between", file, line);
  t->cluster_arrived = true;
  t->cluster_waits = true;
  t->block->team->cluster_arrived++;
  t->block->team->cluster_relaxed |= relaxed;
  settle(t->block->team);
}

void emu_cluster_wait(const char *file, int line) {
  emu_thread *t = emu_self;
  if (!t->cluster_waits) emu_fail("barrier.cluster.wait at %s:%d: this thread has not arrived before", file, line);
  t->cluster_waits = false;
  if (!t->cluster_arrived) return; /* the round is over */
  t->what = "barrier.cluster";
  t->where = (emu_site){file, line};
  t->state = EMU_WAIT_CLUSTER;
  emu_wait(t);
}

void emu_cluster_exit(emu_block *block) { settle(block->team); }

/* ---- shared addresses ---- */

uint32_t emu_mapa(uint32_t address, uint32_t rank, const char *file, int line) {
  const emu_block *b = emu_self->block;
  if (rank >= b->team_size) emu_fail("mapa at %s:%d: block %u of a cluster of %u", file, line, rank, b->team_size);
  if (address >= EMU_ARENA) emu_fail("mapa at %s:%d: address %u is another block's already", file, line, address);
  return (rank + 1) * EMU_ARENA + address;
}

emu_block *emu_shared_home(emu_block *block, uint32_t *address) {
  if (*address >= EMU_ARENA) block = &block->team[*address / EMU_ARENA - 1];
  *address %= EMU_ARENA;
  return block;
}

unsigned char *emu_shared_place(const emu_block *block, uint32_t address) {
  if (address < EMU_ARENA) return block->arena + address;
  const uint32_t rank = address / EMU_ARENA - 1;
  if (rank >= block->team_size) emu_fail("shared address %u: no block of this cluster has it", address);
  const emu_block *b = &block->team[rank];
  if (b->alive == 0 && b != block)
    emu_fail("shared address %u: block (%u,%u,%u) of the cluster has exited, and its shared memory with it", address, b->index.x, b->index.y, b->index.z);
  return b->arena + address % EMU_ARENA;
}

void emu_shared_describe(uint32_t address, char *text, size_t room) {
  emu_launch *launch = emu_this_worker->launch;
  const uint32_t offset = address % EMU_ARENA;
  pthread_mutex_lock(&launch->lock);
  snprintf(text, room, "shared address %u", offset);
  for (int i = 0; i < launch->site_count; i++) {
    const emu_shared_site *s = launch->sites[i];
    const size_t bytes = s->bytes != 0 ? s->bytes : launch->call.shared_bytes;
    if (offset < s->offset || offset - s->offset >= bytes) continue;
    if (offset == s->offset) snprintf(text, room, "%s", s->name);
    else snprintf(text, room, "%s + %zu bytes", s->name, offset - s->offset);
  }
  pthread_mutex_unlock(&launch->lock);
}

void *emu_far_pointer(uint32_t address) { return emu_shared_place(emu_self->block, address); }

uint32_t emu_far_address(const void *shared) {
  const emu_block *b = emu_self->block;
  const uintptr_t offset = (uintptr_t)shared - (uintptr_t)b->arena;
  if (offset < EMU_ARENA) return (uint32_t)offset;
  const uintptr_t among = (uintptr_t)shared - (uintptr_t)b->team[0].arena;
  if (b->team_size > 1 && among < (uintptr_t)b->team_size * EMU_ARENA) return (uint32_t)(EMU_ARENA + among);
  emu_fail("the address of a shared variable is asked for, but %p lies in no shared memory of this block", shared);
}
