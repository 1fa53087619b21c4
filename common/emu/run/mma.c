/* mma.sync on the emulator: the lanes of a warp bring their fragments, the last to arrive multiplies. */
#include <string.h>

#include "common/emu/run/mma_multiply.h"
#include "common/emu/tool/tool.h"

typedef struct mma {
  float *d;
  const unsigned *a, *b;
  unsigned depth;
} mma;

static const emu_mma_way *fastest;
static __attribute__((constructor)) void choose(void) { fastest = emu_mma_ways(0); }

/* Where elements lie (PTX ISA, Matrix Fragments for mma.m16n8k16): with g = lane / 4 and t = lane % 4,
 * a [16][16]: register i has row g + 8 (i % 2), columns 2t and 2t + 1, plus 8 in registers 2 and 3;
 * b [16][8]: register i has rows 2t + 8i and the next, column g;  d [16][8]: element i has row g + 8 (i / 2), column 2t + i % 2. */
static void execute_m16n8k16(emu_warp *warp, unsigned lanes) {
  static const unsigned all = 0xffffffff;
  if (lanes != all) emu_fail("mma.sync at %s:%d: lanes 0x%08x have exited", warp->threads[0].where.file, warp->threads[0].where.line, ~lanes);
  emu_mma_matrices m16n8k16;
  for (unsigned lane = 0; lane < EMU_WARP; lane++) {
    const mma *m = warp->operands[lane];
    const unsigned g = lane / 4, t = lane % 4;
    for (unsigned i = 0; i < 4; i++) memcpy(&m16n8k16.a.at[g + 8 * (i % 2)][2 * t + 8 * (i / 2)], &m->a[i], sizeof m->a[i]);
    for (unsigned i = 0; i < 4; i++) m16n8k16.b.at[2 * t + 8 * (i / 2) + i % 2][g] = (uint16_t)(m->b[i / 2] >> 16 * (i % 2));
    for (unsigned i = 0; i < 2; i++) memcpy(&m16n8k16.d.at[g + 8 * i][2 * t], &m->d[2 * i], 2 * sizeof *m->d);
  }
  fastest->multiply(&m16n8k16);
  EMU_TELL(mma_issued, 16 * 8 * ((const mma *)warp->operands[0])->depth, warp->threads[0].where);
  for (unsigned lane = 0; lane < EMU_WARP; lane++) {
    const mma *m = warp->operands[lane];
    for (unsigned i = 0; i < 2; i++) memcpy(&m->d[2 * i], &m16n8k16.d.at[lane / 4 + 8 * i][2 * (lane % 4)], 2 * sizeof *m->d);
  }
}

void emu_mma_m16n8k16(float d[4], const unsigned a[4], const unsigned b[2], const char *file, int line) {
  mma m = {d, a, b, 16};
  emu_meet(0xffffffff, &m, execute_m16n8k16, "mma.sync", file, line);
}

/* The other half of its depth is zeros here. */
void emu_mma_m16n8k8(float d[4], const unsigned a[2], unsigned b, const char *file, int line) {
  const unsigned half_a[4] = {a[0], a[1], 0, 0}, half_b[2] = {b, 0};
  mma m = {d, half_a, half_b, 8};
  emu_meet(0xffffffff, &m, execute_m16n8k16, "mma.sync", file, line);
}

static void execute_nothing(emu_warp *warp, unsigned lanes) {
  const emu_thread *first = &warp->threads[__builtin_ctz(lanes)];
  if (lanes != 0xffffffff) emu_fail("%s at %s:%d: lanes 0x%08x have exited", first->what, first->where.file, first->where.line, ~lanes);
}

void emu_meet_warp(const char *what, const char *file, int line) { emu_meet(0xffffffff, NULL, execute_nothing, what, file, line); }
