/* Barriers of some of a block's threads. */
#pragma once
#include "common/ptx/shared.cuh"

/* bar.sync (Parallel Synchronization and Communication Instructions: bar): waits until `threads` of the block (a multiple of 32) have come to barrier `id`
 * (0..15; 0 is __syncthreads's). */
static __device__ __forceinline__ void ptx_bar_sync(int id, int threads PTX_CALLER) {
#ifdef CUDA_EMULATOR
  emu_barrier_wait(id, threads, 0, "bar.sync", file, line);
#else
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
#endif
}

/* bar.arrive (same section): counts as having come, and goes on. */
static __device__ __forceinline__ void ptx_bar_arrive(int id, int threads PTX_CALLER) {
#ifdef CUDA_EMULATOR
  emu_barrier_arrive(id, threads, "bar.arrive", file, line);
#else
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
#endif
}
