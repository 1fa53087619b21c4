/* ldmatrix on the emulator: every lane brings the 16 bytes it read, the last to arrive hands them round. */
#include <string.h>

#include "common/emu/tool/tool.h"

typedef struct ldmatrix {
  unsigned *fragment;
  const unsigned short *row; /* 8 halves of matrix lane / 8, its row lane % 8 */
} ldmatrix;

/* With .trans lane 4 g + t receives of each matrix the halves [2t][g] and [2t + 1][g]. */
static void execute_x4_trans(emu_warp *warp, unsigned lanes) {
  if (lanes != 0xffffffff) emu_fail("ldmatrix at %s:%d: lanes 0x%08x have exited", warp->threads[0].where.file, warp->threads[0].where.line, ~lanes);
  for (unsigned lane = 0; lane < EMU_WARP; lane++)
    for (unsigned matrix = 0; matrix < 4; matrix++) {
      const unsigned g = lane / 4, first = 8 * matrix + 2 * (lane % 4);
      const ldmatrix *low = warp->operands[first], *high = warp->operands[first + 1];
      ((const ldmatrix *)warp->operands[lane])->fragment[matrix] = low->row[g] | (unsigned)high->row[g] << 16;
    }
}

void emu_ldmatrix_x4_trans(unsigned fragment[4], const void *row, const char *file, int line) {
  unsigned short halves[8];
  memcpy(halves, row, sizeof halves);
  ldmatrix m = {fragment, halves};
  emu_meet(0xffffffff, &m, execute_x4_trans, "ldmatrix", file, line);
}
