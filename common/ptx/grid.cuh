/* Kernels of a stream that overlap: one may begin before the one before it has ended (programmatic dependent launch, common/harness/launch.h).
 * griddepcontrol (Parallel Synchronization and Communication Instructions: griddepcontrol; 9.0 and up: for older GPUs kernels are launched in turn).
 * The emulator ends a kernel before it begins the next; its checker finds what relies on that. */
#pragma once
#include "common/ptx/shared.cuh"

/* .wait: until the kernel before has ended and what it wrote is visible. */
static __device__ __forceinline__ void ptx_griddepcontrol_wait() {
#ifdef CUDA_EMULATOR
  emu_dependency_wait();
#elif __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/* .launch_dependents: as far as this block is concerned, the next kernel may begin. */
static __device__ __forceinline__ void ptx_griddepcontrol_launch_dependents() {
#ifdef CUDA_EMULATOR
  emu_launch_dependents();
#elif __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}
