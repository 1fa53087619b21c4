/* mbarriers: a phase takes along what those knew who arrived in it, to those who wait for its end.
 *
 * A wait names its phase by the parity alone. If it comes before the phase in front of that one is over, it passes at once, by the parity of two phases ago.
 * So who waits for a phase must know that the one before is over, in whatever order things happened here. It does if its warp waited for that one, or heard
 * of it from one who had (an mbarrier is a clock, whose time is the phases that are over). Or if it knows of all arrivals up to that one's end, and no copies
 * report there: so producers in turns know of a stage's rounds by what its readers had done before they left another stage. */
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
  p->waited[0].over = p->waited[1].over = 0;
  p->thread = (uint16_t)emu_self->number, p->fenced = p->told = p->copies = false;
  for (unsigned rank = 0; rank < c->team_size; rank++) {
    memset(p->arrived[rank], 0, sizeof p->arrived[rank]);
    memset(p->knows[rank], 0, sizeof p->knows[rank]);
    memset(p->before[rank], 0, sizeof p->before[rank]);
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

void emu_engines_mbarrier_copies(emu_checker *c, uint32_t offset) {
  emu_phases *p = emu_phases_at(c, offset);
  if (p != NULL) p->copies = true;
}

void emu_engines_mbarrier_phase(emu_block *block, uint32_t offset) {
  emu_checker *c = emu_checker_of(block);
  emu_phases *p = emu_phases_at(c, offset);
  if (p == NULL) return;
  p->over++;
  for (unsigned rank = 0; rank < c->team_size; rank++) memcpy(p->before[rank], p->knows[rank], sizeof p->before[rank]);
  memcpy(p->knows, p->arrived, c->team_size * sizeof p->knows[0]);
}

/* Whether a warp knows that the phase before the last that is over was over before. */
static bool knows_before(emu_checker *c, const emu_phases *p, unsigned w) {
  if (c->clock[w][EMU_OF_MBARRIER + (p - c->mbarrier)] + 1 >= p->over) return true;
  if (p->copies) return false;
  for (unsigned rank = 0; rank < c->team_size; rank++) {
    const uint32_t *known = emu_known(c, rank, w);
    for (int i = 0; i < EMU_WARPS; i++)
      if (known[i] < p->before[rank][i]) return false;
  }
  return true;
}

static void check_before(emu_checker *c, const emu_phases *p, const emu_block *block, emu_site where) {
  if (knows_before(c, p, emu_self->number / EMU_WARP)) return;
  const unsigned last = p->over - 1, i = last % 2;
  const bool any = p->waited[i].over == last;
  const emu_other other = {EMU_WAITED, any ? emu_site_pc(p->waited[i].where) : NULL, p->waited[i].thread, -1};
  char place[200];
  emu_shared_describe_at(c, p->offset, place, sizeof place);
  emu_check_note(EMU_RACE, emu_site_pc(where), any ? &other : NULL,
                 "a wait for phase %u, with no word that phase %u is over (before, it passes at once): mbarrier of block (%u,%u,%u), %s", last, last - 1,
                 block->index.x, block->index.y, block->index.z, place);
}

void emu_engines_mbarrier_passed(emu_thread *t, uint32_t offset, emu_site where) {
  emu_checker *c = emu_checker_of(t->block);
  emu_phases *p = emu_phases_at(c, offset);
  const unsigned w = t->number / EMU_WARP;
  emu_check_mbarrier(c, t->block, offset, "a wait at it", emu_site_pc(where));
  if (p == NULL) return;
  check_before(c, p, t->block, where);
  p->waited[p->over % 2].over = p->over, p->waited[p->over % 2].thread = (uint16_t)t->number, p->waited[p->over % 2].where = where;
  for (unsigned rank = 0; rank < c->team_size; rank++) emu_learn(emu_known(c, rank, w), p->knows[rank]);
  c->clock[w][EMU_OF_MBARRIER + (p - c->mbarrier)] = p->over;
}
