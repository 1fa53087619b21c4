/* Shared memory by 32-bit addresses, and what all files of this folder need.
 *
 * All inline PTX of this repository is here: one wrapper per instruction, the emulator's branch beside it (common/emu/hopper.h says what it does). Instructions
 * and, in brackets, sections are named as in the PTX ISA manual. Compiled for a GPU that lacks the instruction a wrapper is empty: a kernel that uses it
 * compiles, and is never launched there. */
#pragma once
#include <cuda_runtime.h>

/* Emulator: a wrapper's last parameters are the line that calls it, for reports. */
#ifdef CUDA_EMULATOR
#include "common/emu/hopper.h"
#define PTX_ONLY_CALLER const char *file = __builtin_FILE(), int line = __builtin_LINE()
#define PTX_CALLER , PTX_ONLY_CALLER
#else
#define PTX_ONLY_CALLER
#define PTX_CALLER
#endif

/* cvta.to.shared (Data Movement and Conversion Instructions: cvta): the address as instructions take it, half the registers and half the arithmetic of a
 * pointer. Those of instructions with .shared::cluster may lie in another block of the cluster (ptx_mapa in cluster.cuh). */
typedef unsigned ptx_shared;
static __device__ __forceinline__ ptx_shared ptx_shared_address(const void *shared) {
#ifdef CUDA_EMULATOR
  return emu_shared_address(shared);
#else
  return (unsigned)__cvta_generic_to_shared(shared);
#endif
}
