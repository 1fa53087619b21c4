/* 8x8 matrices of halves between shared memory and the registers of a warp, laid out as mma and wgmma want them. */
#pragma once
#include "common/ptx/shared.cuh"

/* ldmatrix (Warp Level Matrix Instructions: ldmatrix, .m8n8.b16; 7.5 and up): 1, 2 or 4 matrices. Lane i points to row i % 8 (16 bytes) of matrix i / 8; where
 * lanes above the last matrix point does not matter. A lane receives of each matrix two neighbours of row lane / 4, the columns 2 (lane % 4) and the next; with
 * .trans those of the transposed matrix: of column lane / 4 the rows 2 (lane % 4) and the next. */
#ifdef CUDA_EMULATOR
/* Reads the lane's row here, in the kernel's own code, where the checker and the counter see it. */
template <int COUNT> static inline void ptx_emulate_ldmatrix(unsigned *d, ptx_shared row, bool trans, const char *file, int line) {
  uint4 read = {};
  if (emu_ldmatrix_reads(COUNT)) read = *(const uint4 *)emu_shared_pointer(row);
  emu_ldmatrix(d, COUNT, trans, &read, file, line);
}
#endif

static __device__ __forceinline__ void ptx_ldmatrix_x1(unsigned (&d)[1], ptx_shared row PTX_CALLER) {
#ifdef CUDA_EMULATOR
  ptx_emulate_ldmatrix<1>(d, row, false, file, line);
#elif __CUDA_ARCH__ >= 750
  asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(d[0]) : "r"(row));
#endif
}

static __device__ __forceinline__ void ptx_ldmatrix_x2(unsigned (&d)[2], ptx_shared row PTX_CALLER) {
#ifdef CUDA_EMULATOR
  ptx_emulate_ldmatrix<2>(d, row, false, file, line);
#elif __CUDA_ARCH__ >= 750
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];" : "=r"(d[0]), "=r"(d[1]) : "r"(row));
#endif
}

static __device__ __forceinline__ void ptx_ldmatrix_x4(unsigned (&d)[4], ptx_shared row PTX_CALLER) {
#ifdef CUDA_EMULATOR
  ptx_emulate_ldmatrix<4>(d, row, false, file, line);
#elif __CUDA_ARCH__ >= 750
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3]) : "r"(row));
#endif
}

static __device__ __forceinline__ void ptx_ldmatrix_x1_trans(unsigned (&d)[1], ptx_shared row PTX_CALLER) {
#ifdef CUDA_EMULATOR
  ptx_emulate_ldmatrix<1>(d, row, true, file, line);
#elif __CUDA_ARCH__ >= 750
  asm volatile("ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%0}, [%1];" : "=r"(d[0]) : "r"(row));
#endif
}

static __device__ __forceinline__ void ptx_ldmatrix_x2_trans(unsigned (&d)[2], ptx_shared row PTX_CALLER) {
#ifdef CUDA_EMULATOR
  ptx_emulate_ldmatrix<2>(d, row, true, file, line);
#elif __CUDA_ARCH__ >= 750
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];" : "=r"(d[0]), "=r"(d[1]) : "r"(row));
#endif
}

static __device__ __forceinline__ void ptx_ldmatrix_x4_trans(unsigned (&d)[4], ptx_shared row PTX_CALLER) {
#ifdef CUDA_EMULATOR
  ptx_emulate_ldmatrix<4>(d, row, true, file, line);
#elif __CUDA_ARCH__ >= 750
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3]) : "r"(row));
#endif
}

/* stmatrix (Warp Level Matrix Instructions: stmatrix, .m8n8.b16; 9.0 and up): the way back. */
static __device__ __forceinline__ void ptx_stmatrix_x1(ptx_shared row, const unsigned (&s)[1] PTX_CALLER) {
#ifdef CUDA_EMULATOR
  emu_stmatrix(row, s, 1, false, file, line);
#elif __CUDA_ARCH__ >= 900
  asm volatile("stmatrix.sync.aligned.m8n8.x1.shared.b16 [%0], {%1};" ::"r"(row), "r"(s[0]) : "memory");
#endif
}

static __device__ __forceinline__ void ptx_stmatrix_x2(ptx_shared row, const unsigned (&s)[2] PTX_CALLER) {
#ifdef CUDA_EMULATOR
  emu_stmatrix(row, s, 2, false, file, line);
#elif __CUDA_ARCH__ >= 900
  asm volatile("stmatrix.sync.aligned.m8n8.x2.shared.b16 [%0], {%1, %2};" ::"r"(row), "r"(s[0]), "r"(s[1]) : "memory");
#endif
}

static __device__ __forceinline__ void ptx_stmatrix_x4(ptx_shared row, const unsigned (&s)[4] PTX_CALLER) {
#ifdef CUDA_EMULATOR
  emu_stmatrix(row, s, 4, false, file, line);
#elif __CUDA_ARCH__ >= 900
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(row), "r"(s[0]), "r"(s[1]), "r"(s[2]), "r"(s[3]) : "memory");
#endif
}

static __device__ __forceinline__ void ptx_stmatrix_x1_trans(ptx_shared row, const unsigned (&s)[1] PTX_CALLER) {
#ifdef CUDA_EMULATOR
  emu_stmatrix(row, s, 1, true, file, line);
#elif __CUDA_ARCH__ >= 900
  asm volatile("stmatrix.sync.aligned.m8n8.x1.trans.shared.b16 [%0], {%1};" ::"r"(row), "r"(s[0]) : "memory");
#endif
}

static __device__ __forceinline__ void ptx_stmatrix_x2_trans(ptx_shared row, const unsigned (&s)[2] PTX_CALLER) {
#ifdef CUDA_EMULATOR
  emu_stmatrix(row, s, 2, true, file, line);
#elif __CUDA_ARCH__ >= 900
  asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1, %2};" ::"r"(row), "r"(s[0]), "r"(s[1]) : "memory");
#endif
}

static __device__ __forceinline__ void ptx_stmatrix_x4_trans(ptx_shared row, const unsigned (&s)[4] PTX_CALLER) {
#ifdef CUDA_EMULATOR
  emu_stmatrix(row, s, 4, true, file, line);
#elif __CUDA_ARCH__ >= 900
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(row), "r"(s[0]), "r"(s[1]), "r"(s[2]), "r"(s[3]) : "memory");
#endif
}
