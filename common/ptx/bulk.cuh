/* Bulk copies: one thread asks, the copy engine moves. Addresses and numbers of bytes are multiples of 16. Loads report their bytes to an mbarrier; stores
 * belong to the thread's groups. All 9.0 and up, in Data Movement and Conversion Instructions: cp.async.bulk, cp.reduce.async.bulk. */
#pragma once
#include "common/ptx/shared.cuh"

/* cp.async.bulk, global to shared memory; `barrier` gets the bytes. */
static __device__ __forceinline__ void ptx_bulk_load(ptx_shared to, const void *from, unsigned bytes, ptx_shared barrier PTX_CALLER) {
#ifdef CUDA_EMULATOR
  emu_bulk_load(to, from, bytes, barrier, 0, file, line);
#elif __CUDA_ARCH__ >= 900
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to), "l"(__cvta_generic_to_global(from)),
               "r"(bytes), "r"(barrier)
               : "memory");
#endif
}

/* The same with .multicast::cluster (9.0a: elsewhere ptxas warns of it): to the same place in every block of the cluster whose bit is set in `blocks`, each
 * time with the mbarrier at the same place there. */
static __device__ __forceinline__ void ptx_bulk_load_multicast(ptx_shared to, const void *from, unsigned bytes, ptx_shared barrier,
                                                               unsigned short blocks PTX_CALLER) {
#ifdef CUDA_EMULATOR
  emu_bulk_load(to, from, bytes, barrier, blocks, file, line);
#elif defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], %2, [%3], %4;" ::"r"(to),
               "l"(__cvta_generic_to_global(from)), "r"(bytes), "r"(barrier), "h"(blocks)
               : "memory");
#endif
}

/* cp.async.bulk, shared to global memory. */
static __device__ __forceinline__ void ptx_bulk_store(void *to, ptx_shared from, unsigned bytes PTX_CALLER) {
#ifdef CUDA_EMULATOR
  emu_bulk_store(to, from, bytes, file, line);
#elif __CUDA_ARCH__ >= 900
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(__cvta_generic_to_global(to)), "r"(from), "r"(bytes) : "memory");
#endif
}

/* cp.async.bulk, the block's shared memory to that of a block of the cluster; `to` and `barrier` lie there. */
static __device__ __forceinline__ void ptx_bulk_between(ptx_shared to, ptx_shared from, unsigned bytes, ptx_shared barrier PTX_CALLER) {
#ifdef CUDA_EMULATOR
  emu_bulk_between(to, from, bytes, barrier, file, line);
#elif __CUDA_ARCH__ >= 900
  asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to), "r"(from), "r"(bytes), "r"(barrier)
               : "memory");
#endif
}

/* cp.reduce.async.bulk .add.f32: each float of shared memory is added to the one in global memory. */
static __device__ __forceinline__ void ptx_bulk_reduce_add_f32(float *to, ptx_shared from, unsigned bytes PTX_CALLER) {
#ifdef CUDA_EMULATOR
  emu_bulk_reduce_add(to, from, bytes, EMU_REDUCE_ADD_F32, file, line);
#elif __CUDA_ARCH__ >= 900
  asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;" ::"l"(__cvta_generic_to_global(to)), "r"(from), "r"(bytes)
               : "memory");
#endif
}

/* cp.reduce.async.bulk .add.noftz.f16: the same of halves. */
static __device__ __forceinline__ void ptx_bulk_reduce_add_f16(void *to, ptx_shared from, unsigned bytes PTX_CALLER) {
#ifdef CUDA_EMULATOR
  emu_bulk_reduce_add(to, from, bytes, EMU_REDUCE_ADD_F16, file, line);
#elif __CUDA_ARCH__ >= 900
  asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.noftz.f16 [%0], [%1], %2;" ::"l"(__cvta_generic_to_global(to)), "r"(from), "r"(bytes)
               : "memory");
#endif
}

/* cp.async.bulk.commit_group: the stores and reductions of this thread so far, tensor.cuh's too, are a group. */
static __device__ __forceinline__ void ptx_bulk_commit() {
#ifdef CUDA_EMULATOR
  emu_bulk_commit();
#elif __CUDA_ARCH__ >= 900
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
#endif
}

/* cp.async.bulk.wait_group: until at most the last LEFT of the thread's groups are at work. */
template <int LEFT> static __device__ __forceinline__ void ptx_bulk_wait(PTX_ONLY_CALLER) {
#ifdef CUDA_EMULATOR
  emu_bulk_wait(LEFT, false, file, line);
#elif __CUDA_ARCH__ >= 900
  asm volatile("cp.async.bulk.wait_group %0;" ::"n"(LEFT) : "memory");
#endif
}

/* cp.async.bulk.wait_group.read: until at most the last LEFT groups still read shared memory, which may then be written again. */
template <int LEFT> static __device__ __forceinline__ void ptx_bulk_wait_read(PTX_ONLY_CALLER) {
#ifdef CUDA_EMULATOR
  emu_bulk_wait(LEFT, true, file, line);
#elif __CUDA_ARCH__ >= 900
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(LEFT) : "memory");
#endif
}
