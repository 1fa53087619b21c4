/* Products of small matrices by a warp, from registers. */
#pragma once
#include "common/ptx/shared.cuh"

/* mma.sync (Warp Level Matrix Instructions: mma.m16n8k16, .f16; 8.0 and up): d += a b. Of a [16][16] a lane holds 4 registers of 2 halves, of b [16][8] 2,
 * of d [16][8] 4 floats; the manual's drawings say which. */
static __device__ __forceinline__ void ptx_mma_m16n8k16(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2] PTX_CALLER) {
#ifdef CUDA_EMULATOR
  emu_mma_m16n8k16(d, a, b, file, line);
#elif __CUDA_ARCH__ >= 800
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#endif
}

/* mma.m16n8k8: the same with half the depth: the registers 0 and 1 of a, 0 of b. */
static __device__ __forceinline__ void ptx_mma_m16n8k8(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2] PTX_CALLER) {
#ifdef CUDA_EMULATOR
  emu_mma_m16n8k8(d, a, b[0], file, line);
#elif __CUDA_ARCH__ >= 800
  asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(b[0]));
#endif
}
