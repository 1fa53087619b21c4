/* mbarriers: a phase takes along what those knew who arrived in it, to those who wait for its end. */
#include <string.h>

#include "common/emu/check/check.h"
#include "common/emu/check/hooks.h"

static int number_at(const emu_checker *c, uint32_t offset) {
  for (int i = 0; i < c->mbarriers; i++)
    if (c->mbarrier[i].offset == offset) return i;
  return -1;
}

emu_phases *emu_phases_at(emu_checker *c, uint32_t offset) {
  const int i = number_at(c, offset);
  return i < 0 ? NULL : &c->mbarrier[i];
}

void emu_engines_mbarrier_init(emu_block *block, uint32_t offset, emu_site where) {
  emu_checker *c = emu_checker_of(block);
  c->engines = true;
  emu_hook_access((void *)(c->arena + offset), 8, EMU_WRITE, emu_site_pc(where));
  emu_phases *p = emu_phases_at(c, offset);
  if (p == NULL && c->mbarriers == EMU_MBARRIERS) emu_fail("a block has more than %d mbarriers: the checker keeps account of no more", EMU_MBARRIERS);
  if (p == NULL) p = &c->mbarrier[c->mbarriers++];
  p->offset = offset;
  p->over = 0;
  p->thread = (uint16_t)emu_self->number, p->fenced = p->told = false;
  for (unsigned rank = 0; rank < c->team_size; rank++) {
    memset(p->arrived[rank], 0, sizeof p->arrived[rank]);
    memset(p->knows[rank], 0, sizeof p->knows[rank]);
  }
}

void emu_engines_mbarrier_fence(emu_thread *t) {
  emu_checker *c = emu_checker_of(t->block);
  for (int i = 0; i < c->mbarriers; i++) c->mbarrier[i].fenced |= c->mbarrier[i].thread == t->number;
}

void emu_engines_mbarriers_told(emu_checker *c) {
  for (int i = 0; i < c->mbarriers; i++) c->mbarrier[i].told = c->mbarrier[i].fenced;
}

bool emu_engines_mbarrier_is_told(const emu_checker *c, uint32_t offset) {
  const int i = number_at(c, offset);
  return i >= 0 && c->mbarrier[i].told;
}

void emu_engines_mbarrier_arrive(emu_thread *t, emu_block *block, uint32_t offset, emu_site where) {
  emu_checker *there = emu_checker_of(block), *c = emu_checker_of(t->block);
  emu_phases *p = emu_phases_at(there, offset);
  emu_check_mbarrier(c, block, offset, "an arrival at it", emu_site_pc(where));
  if (p == NULL) return;
  const unsigned w = t->number / EMU_WARP;
  c->clock[w][w]++; /* what it did up to now is over */
  for (unsigned rank = 0; rank < c->team_size; rank++) emu_learn(p->arrived[rank], emu_known(c, rank, w));
}

void emu_engines_mbarrier_phase(emu_block *block, uint32_t offset) {
  emu_checker *c = emu_checker_of(block);
  emu_phases *p = emu_phases_at(c, offset);
  if (p == NULL) return;
  p->over++;
  memcpy(p->knows, p->arrived, c->team_size * sizeof p->knows[0]);
}

void emu_engines_mbarrier_passed(emu_thread *t, uint32_t offset, emu_site where) {
  emu_checker *c = emu_checker_of(t->block);
  const emu_phases *p = emu_phases_at(c, offset);
  const unsigned w = t->number / EMU_WARP;
  emu_check_mbarrier(c, t->block, offset, "a wait at it", emu_site_pc(where));
  if (p == NULL) return;
  for (unsigned rank = 0; rank < c->team_size; rank++) emu_learn(emu_known(c, rank, w), p->knows[rank]);
  c->clock[w][EMU_OF_MBARRIER + (p - c->mbarrier)] = p->over;
}
