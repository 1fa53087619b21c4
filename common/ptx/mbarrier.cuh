/* mbarriers: barriers in shared memory (8 bytes, a multiple of 8) that count threads and bytes. A phase is over when as many threads have arrived as init said
 * and every byte that was expected has come; then the next one begins. All in Parallel Synchronization and Communication Instructions: mbarrier. */
#pragma once
#include "common/ptx/shared.cuh"

/* mbarrier.init (8.0 and up): phase 0 begins, and ends after `count` arrivals. */
static __device__ __forceinline__ void ptx_mbarrier_init(ptx_shared barrier, unsigned count PTX_CALLER) {
#ifdef CUDA_EMULATOR
  emu_mbarrier_init(barrier, count, file, line);
#elif __CUDA_ARCH__ >= 800
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(count) : "memory");
#endif
}

/* mbarrier.inval (8.0 and up): from here on the bytes may be used for something else. */
static __device__ __forceinline__ void ptx_mbarrier_inval(ptx_shared barrier PTX_CALLER) {
#ifdef CUDA_EMULATOR
  emu_mbarrier_invalidate(barrier, file, line);
#elif __CUDA_ARCH__ >= 800
  asm volatile("mbarrier.inval.shared::cta.b64 [%0];" ::"r"(barrier) : "memory");
#endif
}

/* mbarrier.arrive (9.0 and up, for nobody wants the old state): one arrival. What this thread did before it is there for those who wait. */
static __device__ __forceinline__ void ptx_mbarrier_arrive(ptx_shared barrier PTX_CALLER) {
#ifdef CUDA_EMULATOR
  emu_mbarrier_arrive(barrier, 1, file, line);
#elif __CUDA_ARCH__ >= 900
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
#endif
}

/* mbarrier.arrive.expect_tx (9.0 and up): one arrival, and the phase waits for so many bytes more. */
static __device__ __forceinline__ void ptx_mbarrier_arrive_expect_tx(ptx_shared barrier, unsigned bytes PTX_CALLER) {
#ifdef CUDA_EMULATOR
  emu_mbarrier_expect(barrier, bytes, file, line);
  emu_mbarrier_arrive(barrier, 1, file, line);
#elif __CUDA_ARCH__ >= 900
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
#endif
}

/* mbarrier.expect_tx (9.0 and up): the phase waits for so many bytes more; no arrival. */
static __device__ __forceinline__ void ptx_mbarrier_expect_tx(ptx_shared barrier, unsigned bytes PTX_CALLER) {
#ifdef CUDA_EMULATOR
  emu_mbarrier_expect(barrier, bytes, file, line);
#elif __CUDA_ARCH__ >= 900
  asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
#endif
}

/* mbarrier.arrive with .shared::cluster (9.0 and up): one arrival at a barrier of any block of the cluster, whose address ptx_mapa gives. As everywhere it releases
 * to the own block only: it says that something was read. With .release.cluster, which would also hand on what was written, it waits, by its
 * times, for what the thread has under way, products too (docs/06_launch.md). */
static __device__ __forceinline__ void ptx_mbarrier_arrive_cluster(ptx_shared barrier PTX_CALLER) {
#ifdef CUDA_EMULATOR
  emu_mbarrier_arrive(barrier, 1, file, line);
#elif __CUDA_ARCH__ >= 900
  asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(barrier) : "memory");
#endif
}

/* mbarrier.try_wait.parity (9.0 and up) in its loop, for it may give up: until the phase with this parity (0 for the first, 1 for the next, ...) is over. So a
 * barrier whose first phase is at work lets pass who waits for parity 1. */
static __device__ __forceinline__ void ptx_mbarrier_wait(ptx_shared barrier, unsigned parity PTX_CALLER) {
#ifdef CUDA_EMULATOR
  emu_mbarrier_wait(barrier, parity, file, line);
#elif __CUDA_ARCH__ >= 900
  asm volatile("{ .reg .pred over; again: mbarrier.try_wait.parity.shared::cta.b64 over, [%0], %1; @!over bra again; }" ::"r"(barrier), "r"(parity) : "memory");
#endif
}

/* fence.mbarrier_init (membar, fence; 9.0 and up): mbarriers that this thread has initialised are so for other blocks of the cluster, after a cluster barrier,
 * and for copies. */
static __device__ __forceinline__ void ptx_fence_mbarrier_init() {
#ifdef CUDA_EMULATOR
  emu_fence_mbarrier_init();
#elif __CUDA_ARCH__ >= 900
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
#endif
}
