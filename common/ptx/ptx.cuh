/* All inline PTX of this repository: one wrapper per instruction, the emulator's branch beside it.
 * Instructions are named as in the PTX ISA manual. */
#pragma once
#include <cuda_runtime.h>

/* bar.sync (Parallel Synchronization and Communication Instructions: bar): waits until `threads` of the block (a multiple of 32) have come to barrier `id`
 * (0..15; 0 is __syncthreads's). */
#ifdef CUDA_EMULATOR
#define ptx_bar_sync(id, threads) emu_barrier_wait(id, threads, 0, "bar.sync", __FILE__, __LINE__)
#else
static __device__ __forceinline__ void ptx_bar_sync(int id, int threads) { asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory"); }
#endif

/* mma.sync (Warp Level Matrix Instructions: mma.m16n8k16, .f16; 8.0 and up): d += a b. Of a [16][16] a lane holds 4 registers of 2 halves, of b [16][8] 2,
 * of d [16][8] 4 floats; the manual's drawings say which. */
#ifdef CUDA_EMULATOR
#define ptx_mma_m16n8k16(d, a, b) emu_mma_m16n8k16(d, a, b, __FILE__, __LINE__)
#else
static __device__ __forceinline__ void ptx_mma_m16n8k16(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800 /* older GPUs: never launched */
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#endif
}
#endif

/* mma.m16n8k8: the same with half the depth: the registers 0 and 1 of a, 0 of b. */
#ifdef CUDA_EMULATOR
static inline void ptx_mma_m16n8k8(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
  const unsigned half_a[4] = {a[0], a[1], 0, 0}, half_b[2] = {b[0], 0};
  emu_mma_m16n8k16(d, half_a, half_b, __FILE__, __LINE__);
}
#else
static __device__ __forceinline__ void ptx_mma_m16n8k8(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800 /* older GPUs: never launched */
  asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(b[0]));
#endif
}
#endif

/* Shared memory by 32-bit addresses, as the instructions below take it: half the registers and half the arithmetic of pointers. */
#ifdef CUDA_EMULATOR
typedef unsigned char *ptx_shared;
static inline ptx_shared ptx_shared_address(void *shared) { return (ptx_shared)shared; }
#else
typedef unsigned ptx_shared;
static __device__ __forceinline__ ptx_shared ptx_shared_address(const void *shared) { return (unsigned)__cvta_generic_to_shared(shared); }
#endif

/* cp.async (Data Movement and Conversion Instructions: cp.async; 8.0 and up): 16 bytes from global to shared memory, or 16 zeros (then nothing is read).
 * __pipeline_commit and __pipeline_wait_prior close a group and wait. */
#ifdef CUDA_EMULATOR
static inline void ptx_cp_async_16(ptx_shared to, const void *from, bool zeros) { emu_cp_async(to, from, 16, zeros ? 0 : 16); }
#else
static __device__ __forceinline__ void ptx_cp_async_16(ptx_shared to, const void *from, bool zeros) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800 /* older GPUs: never launched */
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(__cvta_generic_to_global(from)), "r"(zeros ? 0 : 16) : "memory");
#endif
}
#endif

/* cp.async with the operand ignore-src: as above, of 4 or 16 bytes, but the choice is a predicate, not a size: one machine instruction, where a size that is
 * not a constant makes two, of which one is carried out. */
#ifdef CUDA_EMULATOR
template <int BYTES> static inline void ptx_cp_async(ptx_shared to, const void *from, bool zeros) { emu_cp_async(to, from, BYTES, zeros ? 0 : BYTES); }
#else
template <int BYTES> static __device__ __forceinline__ void ptx_cp_async(ptx_shared to, const void *from, bool zeros) {
  static_assert(BYTES == 4 || BYTES == 16, "from L1, or past it");
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800 /* older GPUs: never launched */
  if constexpr (BYTES == 4)
    asm volatile("{ .reg .pred zeros; setp.ne.b32 zeros, %2, 0; cp.async.ca.shared.global [%0], [%1], 4, zeros; }" ::"r"(to),
                 "l"(__cvta_generic_to_global(from)), "r"((int)zeros)
                 : "memory");
  else
    asm volatile("{ .reg .pred zeros; setp.ne.b32 zeros, %2, 0; cp.async.cg.shared.global [%0], [%1], 16, zeros; }" ::"r"(to),
                 "l"(__cvta_generic_to_global(from)), "r"((int)zeros)
                 : "memory");
#endif
}
#endif

/* ldmatrix (Warp Level Matrix Instructions: ldmatrix, .m8n8.x4.trans.b16; 7.5 and up): four 8x8 matrices of halves from shared memory. Lane i points to row
 * i % 8 (16 bytes) of matrix i / 8, and receives of each matrix, which is turned, the halves of rows 2 (i % 4) and the next in column i / 4. */
#ifdef CUDA_EMULATOR
static inline void ptx_ldmatrix_x4_trans(unsigned (&d)[4], ptx_shared row) {
  const uint4 read = *(const uint4 *)row;
  emu_ldmatrix_x4_trans(d, &read, __FILE__, __LINE__);
}
#else
static __device__ __forceinline__ void ptx_ldmatrix_x4_trans(unsigned (&d)[4], ptx_shared row) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 750 /* older GPUs: never launched */
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3]) : "r"(row));
#endif
}
#endif

/* griddepcontrol (Parallel Synchronization and Communication Instructions: griddepcontrol; 9.0 and up): for a kernel that may begin before the one before it
 * in its stream has ended (programmatic dependent launch). wait: until that one has ended and what it wrote is visible. launch_dependents: as far as
 * this block is concerned, the next one may begin. The emulator ends a kernel before it begins the next; its checker finds what relies on that. */
#ifdef CUDA_EMULATOR
static inline void ptx_griddepcontrol_wait() { emu_dependency_wait(); }
static inline void ptx_griddepcontrol_launch_dependents() { emu_launch_dependents(); }
#else
static __device__ __forceinline__ void ptx_griddepcontrol_wait() {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900 /* for older GPUs kernels are launched in turn */
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
static __device__ __forceinline__ void ptx_griddepcontrol_launch_dependents() {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}
#endif

/* The emulator does not execute what follows: kernels that use it stand under #ifndef CUDA_EMULATOR, or in files that only nvcc compiles. */
#ifndef CUDA_EMULATOR

/* wgmma and what belongs to it exist on 9.0a alone. */
#ifdef __CUDA_ARCH_FEAT_SM90_ALL

/* fence.proxy.async (Memory Consistency Model: Proxies; membar/fence): what this thread stored in shared memory becomes visible to wgmma and to bulk copies. */
static __device__ __forceinline__ void ptx_fence_proxy_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

/* wgmma.fence (Asynchronous Warpgroup Level Matrix Instructions): before the first wgmma, and after other code touched its registers. */
static __device__ __forceinline__ void ptx_wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }

/* wgmma.commit_group: the wgmmas issued so far are a group. */
static __device__ __forceinline__ void ptx_wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

/* wgmma.wait_group: waits until at most LEFT groups are still at work. */
template <int LEFT> static __device__ __forceinline__ void ptx_wgmma_wait() { asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(LEFT) : "memory"); }

/* The matrix descriptor of wgmma (Matrix Descriptor Format) for a K-major matrix in shared memory whose rows are 64 halves = 128 bytes, swizzled
 * by 128 bytes, row after row from a multiple of 1024 bytes on: 1024 bytes from 8 rows to the next 8. The next 16 halves of a row are 2 more. */
static __device__ __forceinline__ unsigned long long ptx_wgmma_descriptor_k128(const void *shared) {
  const unsigned long long start = (__cvta_generic_to_shared(shared) & 0x3ffff) >> 4, group_stride = 1024 >> 4, swizzle_128 = 1;
  return start | group_stride << 32 | swizzle_128 << 62;
}

/* wgmma.mma_async.m64n256k16 (.f32.f16.f16): d += a b for a warpgroup; a [64][16] and b [256][16] in shared memory, both K-major.
 * A lane holds 128 elements of d [64][256]. */
#define PTX_8(d, i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]), "+f"(d[i + 7])
#define PTX_32(d, i) PTX_8(d, i), PTX_8(d, i + 8), PTX_8(d, i + 16), PTX_8(d, i + 24)
static __device__ __forceinline__ void ptx_wgmma_m64n256k16(float (&d)[128], unsigned long long a, unsigned long long b) {
  asm volatile("wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16 "
               "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
               "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
               "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
               "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "
               "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "
               "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "
               "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, "
               "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127}, "
               "%128, %129, 1, 1, 1, 0, 0;"
               : PTX_32(d, 0), PTX_32(d, 32), PTX_32(d, 64), PTX_32(d, 96)
               : "l"(a), "l"(b));
}

#endif /* 9.0a */
#endif /* not the emulator */
