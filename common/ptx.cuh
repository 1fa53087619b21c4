/* All inline PTX of this repository: one wrapper per instruction, the emulator's branch beside it.
 * Instructions are named as in the PTX ISA manual. */
#pragma once
#include <cuda_runtime.h>

/* bar.sync (Parallel Synchronization and Communication Instructions: bar): waits until `threads` of the block (a multiple of 32) have come to barrier `id` (0..15; 0 is __syncthreads's). */
#ifdef CUDA_EMULATOR
#define ptx_bar_sync(id, threads) emu_barrier_wait(id, threads, 0, "bar.sync", __FILE__, __LINE__)
#else
static __device__ __forceinline__ void ptx_bar_sync(int id, int threads) { asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory"); }
#endif
