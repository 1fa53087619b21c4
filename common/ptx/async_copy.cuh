/* Copies of single threads from global to shared memory that run on while the thread computes. __pipeline_commit and __pipeline_wait_prior close a group and
 * wait. */
#pragma once
#include "common/ptx/shared.cuh"

/* cp.async (Data Movement and Conversion Instructions: cp.async; 8.0 and up): 16 bytes from global to shared memory, or 16 zeros (then nothing is read). */
static __device__ __forceinline__ void ptx_cp_async_16(ptx_shared to, const void *from, bool zeros) {
#ifdef CUDA_EMULATOR
  emu_cp_async(emu_shared_pointer(to), from, 16, zeros ? 0 : 16);
#elif __CUDA_ARCH__ >= 800
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(__cvta_generic_to_global(from)), "r"(zeros ? 0 : 16) : "memory");
#endif
}

/* cp.async with the operand ignore-src: as above, of 4, 8 or 16 bytes, but the choice is a predicate, not a size: one machine instruction, where a size that is
 * not a constant makes two, of which one is carried out. */
template <int BYTES> static __device__ __forceinline__ void ptx_cp_async(ptx_shared to, const void *from, bool zeros) {
  static_assert(BYTES == 4 || BYTES == 8 || BYTES == 16, "from L1, or past it");
#ifdef CUDA_EMULATOR
  emu_cp_async(emu_shared_pointer(to), from, BYTES, zeros ? 0 : BYTES);
#elif __CUDA_ARCH__ >= 800
  if constexpr (BYTES < 16)
    asm volatile("{ .reg .pred zeros; setp.ne.b32 zeros, %2, 0; cp.async.ca.shared.global [%0], [%1], %3, zeros; }" ::"r"(to),
                 "l"(__cvta_generic_to_global(from)), "r"((int)zeros), "n"(BYTES)
                 : "memory");
  else
    asm volatile("{ .reg .pred zeros; setp.ne.b32 zeros, %2, 0; cp.async.cg.shared.global [%0], [%1], 16, zeros; }" ::"r"(to),
                 "l"(__cvta_generic_to_global(from)), "r"((int)zeros)
                 : "memory");
#endif
}
