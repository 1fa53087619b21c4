/* Clusters: blocks that run at the same time and reach one another's shared memory (9.0 and up). Launched by common/harness/launch.h. */
#pragma once
#include "common/ptx/shared.cuh"

/* %cluster_ctarank, %cluster_nctarank (Special Registers): this block's number in its cluster, and how many blocks that has. */
static __device__ __forceinline__ unsigned ptx_cluster_rank() {
#ifdef CUDA_EMULATOR
  return emu_cluster_rank();
#else
  unsigned rank = 0;
#if __CUDA_ARCH__ >= 900
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
#endif
  return rank;
#endif
}

static __device__ __forceinline__ unsigned ptx_cluster_size() {
#ifdef CUDA_EMULATOR
  return emu_cluster_size();
#else
  unsigned size = 1;
#if __CUDA_ARCH__ >= 900
  asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(size));
#endif
  return size;
#endif
}

/* barrier.cluster (Parallel Synchronization and Communication Instructions: barrier.cluster), by every thread of the cluster that has not ended. arrive: what
 * this thread wrote is there for those who wait; wait: until all have arrived. A block whose shared memory others reach may end only after such a barrier, or when it has waited for all that they store there. */
static __device__ __forceinline__ void ptx_cluster_arrive(PTX_ONLY_CALLER) {
#ifdef CUDA_EMULATOR
  emu_cluster_arrive(0, file, line);
#elif __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive;" ::: "memory");
#endif
}

/* .relaxed: all are there, no more: what a thread wrote need not be. Enough for mbarriers that ptx_fence_mbarrier_init() has published, and quicker by a fence of all memory. */
static __device__ __forceinline__ void ptx_cluster_arrive_relaxed(PTX_ONLY_CALLER) {
#ifdef CUDA_EMULATOR
  emu_cluster_arrive(1, file, line);
#elif __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.relaxed;" ::: "memory");
#endif
}

static __device__ __forceinline__ void ptx_cluster_wait(PTX_ONLY_CALLER) {
#ifdef CUDA_EMULATOR
  emu_cluster_wait(file, line);
#elif __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.wait;" ::: "memory");
#endif
}

/* mapa (Data Movement and Conversion Instructions: mapa): where the same variable lies in block `rank` of the cluster. */
static __device__ __forceinline__ ptx_shared ptx_mapa(ptx_shared address, unsigned rank PTX_CALLER) {
#ifdef CUDA_EMULATOR
  return emu_mapa(address, rank, file, line);
#else
  ptx_shared there = 0;
#if __CUDA_ARCH__ >= 900
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(rank));
#endif
  return there;
#endif
}

/* ld.shared::cluster (Data Movement and Conversion Instructions: ld): 4 or 16 bytes of any block of the cluster. In the emulator plain accesses, which the
 * checker and the counter see. */
static __device__ __forceinline__ unsigned ptx_ld_cluster(ptx_shared from) {
#ifdef CUDA_EMULATOR
  return *(const unsigned *)emu_shared_pointer(from);
#else
  unsigned value = 0;
#if __CUDA_ARCH__ >= 900
  asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(value) : "r"(from) : "memory");
#endif
  return value;
#endif
}

static __device__ __forceinline__ uint4 ptx_ld_cluster_16(ptx_shared from) {
#ifdef CUDA_EMULATOR
  return *(const uint4 *)emu_shared_pointer(from);
#else
  uint4 value = {};
#if __CUDA_ARCH__ >= 900
  asm volatile("ld.shared::cluster.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w) : "r"(from) : "memory");
#endif
  return value;
#endif
}

/* st.shared::cluster (same: st). */
static __device__ __forceinline__ void ptx_st_cluster(ptx_shared to, unsigned value) {
#ifdef CUDA_EMULATOR
  *(unsigned *)emu_shared_pointer(to) = value;
#elif __CUDA_ARCH__ >= 900
  asm volatile("st.shared::cluster.u32 [%0], %1;" ::"r"(to), "r"(value) : "memory");
#endif
}

static __device__ __forceinline__ void ptx_st_cluster_16(ptx_shared to, uint4 value) {
#ifdef CUDA_EMULATOR
  *(uint4 *)emu_shared_pointer(to) = value;
#elif __CUDA_ARCH__ >= 900
  asm volatile("st.shared::cluster.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(value.x), "r"(value.y), "r"(value.z), "r"(value.w) : "memory");
#endif
}
