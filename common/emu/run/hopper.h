/* What the files of Hopper's instructions share (hopper.h of common/emu is what kernels see). */
#pragma once
#include "common/emu/hopper.h"
#include "common/emu/run/internal.h"

/* mbarrier.c: a copy into this block's shared memory reports its bytes; what a thread in EMU_WAIT_MBARRIER waits for, in words. */
void emu_mbarrier_complete(emu_block *block, uint32_t offset, uint32_t bytes, emu_site where);
void emu_mbarrier_describe(const emu_thread *t, char *text, size_t room);

/* "full + 8", or "shared address 4104": the array of the running launch that the address lies in. */
void emu_shared_describe(uint32_t address, char *text, size_t room);

/* The place of an address in a block of the running thread's cluster. */
unsigned char *emu_shared_place(const emu_block *block, uint32_t address);

/* Of an address that has a place: the block of the cluster whose shared memory it is in, and the address there. */
emu_block *emu_shared_home(emu_block *block, uint32_t *address);

/* Fails the block if the GPU that is played has no such instruction. */
static inline void emu_needs(int arch, const char *what, const char *file, int line) {
  if (emu_arch() < arch) emu_fail("%s at %s:%d: needs compute capability %d.%d, and EMU_ARCH=%d", what, file, line, arch / 10, arch % 10, emu_arch());
}

/* reduce.c: adds numbers to those in memory, whole additions each. */
void emu_reduce_add(unsigned char *to, const unsigned char *from, unsigned bytes, emu_bulk_reduce type);

/* wgmma.c: the wgmma whose sums of the running thread lie there, in late mode; file NULL: none. A block has ended. */
emu_site emu_wgmma_working_on(uintptr_t address, size_t bytes);
void emu_wgmma_end_block(emu_worker *w);

/* elect.c: a block has ended: did its warpgroups ask for more registers than there are? */
void emu_registers_end_block(const emu_worker *w);
