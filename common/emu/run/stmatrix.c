/* stmatrix on the emulator: the last lane to arrive writes all rows, each in the name of the lane that gave its address. */
#include <string.h>

#include "common/emu/hopper.h"
#include "common/emu/tool/tool.h"

typedef struct stmatrix {
  const unsigned *fragment;
  uint32_t row; /* address of row lane % 8 of matrix lane / 8 */
  int count;
  bool trans;
  const void *pc;
} stmatrix;

/* With g = lane / 4 and t = lane % 4, a lane holds of each matrix the halves [g][2t] and [g][2t + 1]; with .trans [2t][g] and [2t + 1][g]. */
static void execute_stmatrix(emu_warp *warp, unsigned lanes) {
  emu_thread *const last = emu_self;
  const emu_site where = warp->threads[__builtin_ctz(lanes)].where;
  if (lanes != 0xffffffff) emu_fail("stmatrix at %s:%d: lanes 0x%08x have exited", where.file, where.line, ~lanes);
  for (unsigned lane = 0; lane < EMU_WARP; lane++) {
    const stmatrix *m = warp->operands[lane];
    const unsigned matrix = lane / 8, row = lane % 8;
    if (matrix >= (unsigned)m->count) break;
    unsigned short halves[8];
    for (unsigned column = 0; column < 8; column++) {
      const unsigned g = m->trans ? column : row, two = m->trans ? row : column;
      const stmatrix *from = warp->operands[4 * g + two / 2];
      halves[column] = (unsigned short)(from->fragment[matrix] >> 16 * (two % 2));
    }
    emu_self = &warp->threads[lane]; /* its access, and its mistake */
    if (m->row % 16 != 0) emu_fail("stmatrix at %s:%d: lane %u points to shared address 0x%x, expected a multiple of 16", where.file, where.line, lane, m->row);
    unsigned char *to = emu_shared_pointer(m->row);
    EMU_TELL(access, to, sizeof halves, true, m->pc);
    memcpy(to, halves, sizeof halves);
  }
  emu_self = last;
}

void emu_stmatrix(uint32_t row, const unsigned *fragment, int count, int trans, const char *file, int line) {
  stmatrix m = {fragment, row, count, trans, __builtin_return_address(0)};
  emu_meet(0xffffffff, &m, execute_stmatrix, "stmatrix", file, line);
}
