/* Data that will be wanted soon: into the L2 cache, where a later copy finds them.
 *
 * 9.0 and up, in Data Movement and Conversion Instructions: cp.async.bulk.prefetch.tensor. */
#pragma once
#include "common/ptx/tensor.cuh"

/* A box of a tiled map of four dimensions; `at` as for ptx_tensor_load. Nobody waits for it, and it orders nothing: what is not there in time is read then. */
static __device__ __forceinline__ void ptx_tensor_prefetch(const CUtensorMap *map, const int (&at)[4] PTX_CALLER) {
#ifdef CUDA_EMULATOR
  (void)at;
  emu_tensor_prefetch(map, file, line);
#elif __CUDA_ARCH__ >= 900
  asm volatile("cp.async.bulk.prefetch.tensor.4d.L2.global.tile [%0, {%1, %2, %3, %4}];" ::"l"(map), PTX_AT_4 : "memory");
#endif
}
