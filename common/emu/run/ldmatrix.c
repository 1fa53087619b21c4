/* ldmatrix on the emulator: every lane brings the 16 bytes it read, the last to arrive hands them round. */
#include <string.h>

#include "common/emu/hopper.h"
#include "common/emu/tool/tool.h"

typedef struct ldmatrix {
  unsigned *fragment;
  int count, trans;
  const unsigned short *row; /* 8 halves of matrix lane / 8, its row lane % 8 */
} ldmatrix;

/* Lane 4 g + t receives of each matrix the halves [g][2t] and [g][2t + 1], with .trans [2t][g] and [2t + 1][g]. */
static void execute_ldmatrix(emu_warp *warp, unsigned lanes) {
  if (lanes != 0xffffffff) emu_fail("ldmatrix at %s:%d: lanes 0x%08x have exited", warp->threads[0].where.file, warp->threads[0].where.line, ~lanes);
  for (unsigned lane = 0; lane < EMU_WARP; lane++) {
    const ldmatrix *m = warp->operands[lane];
    const unsigned g = lane / 4, pair = 2 * (lane % 4);
    for (int matrix = 0; matrix < m->count; matrix++) {
      void **rows = &warp->operands[8 * matrix];
      const unsigned short *straight = ((const ldmatrix *)rows[g])->row;
      const unsigned short *low = ((const ldmatrix *)rows[pair])->row, *high = ((const ldmatrix *)rows[pair + 1])->row;
      m->fragment[matrix] = m->trans ? low[g] | (unsigned)high[g] << 16 : straight[pair] | (unsigned)straight[pair + 1] << 16;
    }
  }
}

void emu_ldmatrix(unsigned *fragment, int count, int trans, const void *row, const char *file, int line) {
  unsigned short halves[8];
  memcpy(halves, row, sizeof halves);
  ldmatrix m = {fragment, count, trans, halves};
  emu_meet(0xffffffff, &m, execute_ldmatrix, "ldmatrix", file, line);
}
