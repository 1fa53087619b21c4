/* Between the ways to memory: threads have one, the copy engine and the tensor cores another. */
#pragma once
#include "common/ptx/shared.cuh"

/* fence.proxy.async (Memory Consistency Model: Proxies; membar/fence; 9.0 and up): what this thread stored in shared memory becomes visible to wgmma and to
 * bulk copies. */
static __device__ __forceinline__ void ptx_fence_proxy_async(PTX_ONLY_CALLER) {
#ifdef CUDA_EMULATOR
  emu_fence_proxy_async(file, line);
#elif __CUDA_ARCH__ >= 900
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}
