/* elect.sync, setmaxnreg, fence.proxy.async. */
#include "common/emu/hopper.h"
#include "common/emu/run/hopper.h"
#include "common/emu/tool/tool.h"

/* The lowest lane that is there; with EMU_SEED any of them: the instruction promises no particular one. */
static void execute_elect(emu_warp *warp, unsigned lanes) {
  emu_worker *w = emu_this_worker;
  unsigned chosen = (unsigned)__builtin_ctz(lanes);
  if (w->random != 0) do
      chosen = (unsigned)(emu_random(&w->random) >> 59);
    while (!(lanes >> chosen & 1));
  for (unsigned lane = 0; lane < EMU_WARP; lane++)
    if (lanes >> lane & 1) *(int *)warp->operands[lane] = lane == chosen;
}

int emu_elect(unsigned mask, const char *file, int line) {
  int mine = 0;
  emu_meet(mask, &mine, execute_elect, "elect.sync", file, line);
  return mine;
}

/* Registers have no number here. But a block has 65536, divided among its threads when it is launched, and a warpgroup that asks for more than others have given
 * up waits for ever on a GPU. */
void emu_setmaxnreg(unsigned registers, int more, const char *file, int line) {
  if (registers < 24 || registers > 256 || registers % 8 != 0)
    emu_fail("setmaxnreg.%s at %s:%d: %u registers, expected a multiple of 8 from 24 to 256", more ? "inc" : "dec", file, line, registers);
  const unsigned threads = emu_self->block->thread_count, index = emu_self->number / 128;
  if ((index + 1) * 128 > threads) emu_fail("setmaxnreg at %s:%d: warpgroup %u has %u threads, expected 128", file, line, index, threads - index * 128);
  emu_self->block->registers[index] = (unsigned short)registers;
}

void emu_registers_end_block(const emu_worker *w) {
  const emu_block *b = w->block;
  const unsigned warpgroups = b->thread_count / 128, launched = 65536 / b->thread_count / 8 * 8;
  unsigned asked = 0;
  bool any = false;
  for (unsigned i = 0; i < warpgroups; i++) {
    any |= b->registers[i] != 0;
    asked += 128 * (b->registers[i] != 0 ? b->registers[i] : launched);
  }
  const unsigned there = launched * 128 * warpgroups;
  if (any && asked > there && !w->launch->failed)
    emu_report_begin(
        w->launch, cudaErrorLaunchFailure,
        "block (%u,%u,%u): its warpgroups ask for %u registers by setmaxnreg, and %u threads have at most %u each, %u together: on a GPU they wait for ever",
        b->index.x, b->index.y, b->index.z, asked, b->thread_count, launched, there);
}

void emu_fence_proxy_async(const char *file, int line) {
  (void)file, (void)line;
  EMU_TELL(proxy_fence, emu_self);
}
