/* Which lines the L2 cache gives up first: a policy, and copies of boxes of four dimensions that have one.
 *
 * 9.0 and up (policies 8.0), in Data Movement and Conversion Instructions: createpolicy, and cp.async.bulk.tensor with .L2::cache_hint. */
#pragma once
#include "common/ptx/tensor.cuh"

typedef unsigned long long ptx_policy;

/* Lines that are given up last, and first. A hint: it changes no result. */
static __device__ __forceinline__ ptx_policy ptx_policy_keep(void) {
  ptx_policy policy = 0;
#if !defined CUDA_EMULATOR && __CUDA_ARCH__ >= 800
  asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
#endif
  return policy;
}
static __device__ __forceinline__ ptx_policy ptx_policy_drop(void) {
  ptx_policy policy = 0;
#if !defined CUDA_EMULATOR && __CUDA_ARCH__ >= 800
  asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
#endif
  return policy;
}

/* As ptx_tensor_load, and as ptx_tensor_store. */
static __device__ __forceinline__ void ptx_tensor_load_policy(ptx_shared to, const CUtensorMap *map, const int (&at)[4], ptx_shared barrier,
                                                              ptx_policy policy PTX_CALLER) {
#ifdef CUDA_EMULATOR
  (void)policy;
  emu_tensor_load(to, map, 4, at, nullptr, barrier, 0, file, line);
#elif __CUDA_ARCH__ >= 900
  asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1, {%3, %4, %5, %6}], [%2], %7;" ::"r"(to),
               "l"(map), "r"(barrier), PTX_AT_4, "l"(policy)
               : "memory");
#endif
}
static __device__ __forceinline__ void ptx_tensor_store_policy(const CUtensorMap *map, const int (&at)[4], ptx_shared from, ptx_policy policy PTX_CALLER) {
#ifdef CUDA_EMULATOR
  (void)policy;
  emu_tensor_store(map, 4, at, from, false, file, line);
#elif __CUDA_ARCH__ >= 900
  asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.bulk_group.L2::cache_hint [%1, {%2, %3, %4, %5}], [%0], %6;" ::"r"(from), "l"(map), PTX_AT_4,
               "l"(policy)
               : "memory");
#endif
}
