/* mma.sync on the emulator: the lanes of a warp bring their fragments, the last to arrive multiplies. */
#include "common/conv/half.h"
#include "common/emu/tool/tool.h"

typedef struct mma {
  float *d;
  const unsigned *a, *b;
} mma;

static float half_of(unsigned two, unsigned which) { return half_to_float((unsigned short)(two >> 16 * which)); }

/* Towards zero, as tensor cores round their sums. */
static float truncated(double x) {
  union {
    float value;
    unsigned bits;
  } f = {.value = (float)x};
  if (f.value - f.value == 0 && (f.value > 0 ? f.value > x : f.value < x)) f.bits--;
  return f.value;
}

/* Where elements lie (PTX ISA, Matrix Fragments for mma.m16n8k16): with g = lane / 4 and t = lane % 4,
 * a [16][16]: register i has row g + 8 (i % 2), columns 2t and 2t + 1, plus 8 in registers 2 and 3;
 * b [16][8]: register i has rows 2t + 8i and the next, column g;  d [16][8]: element i has row g + 8 (i / 2), column 2t + i % 2. */
static void execute_m16n8k16(emu_warp *warp, unsigned lanes) {
  static const unsigned all = 0xffffffff;
  if (lanes != all) emu_fail("mma.sync at %s:%d: lanes 0x%08x have exited", warp->threads[0].where.file, warp->threads[0].where.line, ~lanes);
  double a[16][16], b[16][8], sum[16][8];
  for (unsigned lane = 0; lane < EMU_WARP; lane++) {
    const mma *m = warp->operands[lane];
    const unsigned g = lane / 4, t = lane % 4;
    for (unsigned i = 0; i < 4; i++)
      for (unsigned j = 0; j < 2; j++) a[g + 8 * (i % 2)][2 * t + 8 * (i / 2) + j] = half_of(m->a[i], j);
    for (unsigned i = 0; i < 2; i++)
      for (unsigned j = 0; j < 2; j++) b[2 * t + 8 * i + j][g] = half_of(m->b[i], j);
    for (unsigned i = 0; i < 4; i++) sum[g + 8 * (i / 2)][2 * t + i % 2] = m->d[i];
  }
  for (unsigned row = 0; row < 16; row++)
    for (unsigned k = 0; k < 16; k++)
      for (unsigned column = 0; column < 8; column++) sum[row][column] += a[row][k] * b[k][column];
  for (unsigned lane = 0; lane < EMU_WARP; lane++) {
    const mma *m = warp->operands[lane];
    for (unsigned i = 0; i < 4; i++) m->d[i] = truncated(sum[lane / 4 + 8 * (i / 2)][2 * (lane % 4) + i % 2]);
  }
}

void emu_mma_m16n8k16(float d[4], const unsigned a[4], const unsigned b[2], const char *file, int line) {
  mma m = {d, a, b};
  emu_meet(0xffffffff, &m, execute_m16n8k16, "mma.sync", file, line);
}

static void execute_nothing(emu_warp *warp, unsigned lanes) {
  const emu_thread *first = &warp->threads[__builtin_ctz(lanes)];
  if (lanes != 0xffffffff) emu_fail("%s at %s:%d: lanes 0x%08x have exited", first->what, first->where.file, first->where.line, ~lanes);
}

void emu_meet_warp(const char *what, const char *file, int line) { emu_meet(0xffffffff, NULL, execute_nothing, what, file, line); }
