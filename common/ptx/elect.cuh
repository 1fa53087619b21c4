/* Roles of warps: one lane that acts for all, and registers that move from warps that need few to those that need many. */
#pragma once
#include "common/ptx/shared.cuh"

/* elect.sync (Parallel Synchronization and Communication Instructions: elect.sync; 9.0 and up): true in one lane of the mask, nobody says which. */
static __device__ __forceinline__ bool ptx_elect(unsigned mask PTX_CALLER) {
#ifdef CUDA_EMULATOR
  return emu_elect(mask, file, line) != 0;
#else
  unsigned elected = 0;
#if __CUDA_ARCH__ >= 900
  asm volatile("{ .reg .pred elected; elect.sync _|elected, %1; selp.u32 %0, 1, 0, elected; }" : "=r"(elected) : "r"(mask));
#endif
  return elected != 0;
#endif
}

/* setmaxnreg (Miscellaneous Instructions: setmaxnreg; 9.0a), by all warps of a warpgroup: from here on each thread has so many registers, a multiple of 8 from
 * 24 to 256. ptxas heeds it only in kernels with a bound of registers: __launch_bounds__(threads, 1). */
template <int REGISTERS> static __device__ __forceinline__ void ptx_setmaxnreg_inc(PTX_ONLY_CALLER) {
#ifdef CUDA_EMULATOR
  emu_setmaxnreg(REGISTERS, true, file, line);
#elif defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(REGISTERS));
#endif
}

template <int REGISTERS> static __device__ __forceinline__ void ptx_setmaxnreg_dec(PTX_ONLY_CALLER) {
#ifdef CUDA_EMULATOR
  emu_setmaxnreg(REGISTERS, false, file, line);
#elif defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(REGISTERS));
#endif
}
