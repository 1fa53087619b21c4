/* ldmatrix on the emulator: every lane brings the 16 bytes it read, the last to arrive hands them round. */
#include <string.h>

#include "common/emu/hopper.h"
#include "common/emu/tool/tool.h"

typedef struct ldmatrix {
  unsigned *fragment;
  unsigned short row[8]; /* halves: row lane % 8 of matrix lane / 8 */
  int count;
  bool trans;
} ldmatrix;

/* With g = lane / 4 and t = lane % 4, a lane receives of each matrix the halves [g][2t] and [g][2t + 1]; with .trans [2t][g] and [2t + 1][g]. */
static void execute_ldmatrix(emu_warp *warp, unsigned lanes) {
  const emu_site where = warp->threads[__builtin_ctz(lanes)].where;
  if (lanes != 0xffffffff) emu_fail("ldmatrix at %s:%d: lanes 0x%08x have exited", where.file, where.line, ~lanes);
  for (unsigned lane = 0; lane < EMU_WARP; lane++) {
    const ldmatrix *m = warp->operands[lane];
    const unsigned g = lane / 4, t = lane % 4;
    for (int matrix = 0; matrix < m->count; matrix++) {
      unsigned two = 0;
      for (unsigned i = 0; i < 2; i++) {
        const unsigned row = m->trans ? 2 * t + i : g, column = m->trans ? g : 2 * t + i;
        two |= (unsigned)((const ldmatrix *)warp->operands[8 * matrix + row])->row[column] << 16 * i;
      }
      m->fragment[matrix] = two;
    }
  }
}

int emu_ldmatrix_reads(int count) { return emu_self->lane < 8 * (unsigned)count; }

void emu_ldmatrix(unsigned *fragment, int count, int trans, const void *row, const char *file, int line) {
  ldmatrix m = {.fragment = fragment, .count = count, .trans = trans};
  if (emu_ldmatrix_reads(count)) memcpy(m.row, row, sizeof m.row);
  emu_meet(0xffffffff, &m, execute_ldmatrix, "ldmatrix", file, line);
}
