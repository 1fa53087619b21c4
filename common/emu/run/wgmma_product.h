/* The arithmetic of wgmma: operands through descriptors, fragments of a warpgroup's 128 threads. Knows nothing of when. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

enum { EMU_WARPGROUP = 128 };

/* One wgmma.mma_async.m64nNk16.f32.f16.f16. */
typedef struct emu_wgmma_record {
  int n;                            /* a multiple of 8 up to 256 */
  uint64_t a, b;                    /* matrix descriptors */
  const uint32_t (*a_registers)[4]; /* [128][4]: a, or NULL */
  bool a_mn, b_mn;                  /* MN-major */
  bool scale_d;                     /* d += a b; else d = a b */
} emu_wgmma_record;

/* Carries out `count` of them, one after the other, on the same d: d[thread] are that thread's n / 2 floats. shared: the block's shared memory, 256 KiB. */
void emu_wgmma_chain(float *const d[EMU_WARPGROUP], const emu_wgmma_record *records, int count, const unsigned char *shared);

/* The shared address of an operand's element: row 0 .. 63 of a or 0 .. n - 1 of b, k 0 .. 15. */
uint32_t emu_wgmma_address(uint64_t descriptor, bool mn, int row, int k);

/* Which element of d a thread's register i is: row 0 .. 63, column 0 .. n - 1. Of a in registers: half i (0 .. 7) of its four. */
void emu_wgmma_d_place(int thread, int i, int *row, int *column);
void emu_wgmma_a_place(int thread, int half, int *row, int *k);

/* NULL, or what is wrong with a descriptor, to be said after its name: "... has bits set outside of its fields". */
const char *emu_wgmma_refused(uint64_t descriptor);

/* How the inner loop is done: way 0 is the fastest that this CPU has, and the default. All give the same bits. Returns its name; NULL: there are no more.
 * For tests and measurements, before the first chain. */
const char *emu_wgmma_use(int way);
