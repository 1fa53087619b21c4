/* Stores into another block's shared memory that report themselves. */
#pragma once
#include "common/ptx/shared.cuh"

/* st.async (Data Movement and Conversion Instructions: st.async; 9.0 and up): 16 bytes out of registers into shared memory of a block of the cluster; `barrier`,
 * which lies there too, gets the bytes. A store of a thread, not of the copy engine: who waited for it needs ptx_fence_proxy_async before wgmma or a bulk copy
 * reads it. (The emulator lets it arrive as a bulk copy does, and does not ask for that fence.)
 * Our waits acquire for the block, as ptx_mbarrier_wait does, where PTX would ask for the cluster: docs/07_one_image.md says what that costs. */
static __device__ __forceinline__ void ptx_st_async_16(ptx_shared to, uint4 value, ptx_shared barrier PTX_CALLER) {
#ifdef CUDA_EMULATOR
  const unsigned words[4] = {value.x, value.y, value.z, value.w};
  emu_st_async(to, words, barrier, file, line);
#elif __CUDA_ARCH__ >= 900
  asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(to), "r"(value.x), "r"(value.y),
               "r"(value.z), "r"(value.w), "r"(barrier)
               : "memory");
#endif
}
