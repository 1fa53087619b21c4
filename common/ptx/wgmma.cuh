/* wgmma: matrix products of a warpgroup (128 threads, 4 warps from a multiple of 4 on), operands in shared memory, sums in registers. The tensor cores work
 * while the threads go on: fence, products, commit, and a wait before anybody touches the sums. All on 9.0a alone, in Asynchronous Warpgroup Level Matrix
 * Instructions. Where ptxas cannot keep the sums in their registers it waits after each product and says so: the build fails then (scripts/nvcc_strict.sh). */
#pragma once
#include "common/ptx/shared.cuh"

/* wgmma.fence: before the first product, and after other code touched its registers. */
static __device__ __forceinline__ void ptx_wgmma_fence(PTX_ONLY_CALLER) {
#ifdef CUDA_EMULATOR
  emu_wgmma_fence(file, line);
#elif defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#endif
}

/* wgmma.commit_group: the products so far are a group. */
static __device__ __forceinline__ void ptx_wgmma_commit(PTX_ONLY_CALLER) {
#ifdef CUDA_EMULATOR
  emu_wgmma_commit(file, line);
#elif defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
#endif
}

/* wgmma.wait_group: until at most the last LEFT groups are at work. */
template <int LEFT> static __device__ __forceinline__ void ptx_wgmma_wait(PTX_ONLY_CALLER) {
#ifdef CUDA_EMULATOR
  emu_wgmma_wait(LEFT, file, line);
#elif defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(LEFT) : "memory");
#endif
}

/* How 16-byte pieces are permuted inside rows of so many bytes, by bits of the shared address: in a matrix descriptor's code. */
typedef enum { PTX_SWIZZLE_NONE, PTX_SWIZZLE_128, PTX_SWIZZLE_64, PTX_SWIZZLE_32 } ptx_swizzle;

/* A matrix descriptor (Matrix Descriptor Format): where an operand lies in shared memory. Strides in bytes, multiples of 16:
 *   K-major, swizzled: sbo from 8 rows to the next 8; lbo is not used. The next 16 halves of the rows: address + 32.
 *   K-major, not swizzled: core matrices of 8 rows of 16 bytes; sbo from 8 rows to the next 8, lbo from 8 halves of K to the next.
 *   MN-major, swizzled by n bytes: atoms of n / 2 rows or columns by 8 of K; sbo from 8 of K to the next 8, lbo from n / 2 to the next n / 2.
 *   MN-major, not swizzled: core matrices of 8 of K, each 16 bytes of rows or columns; sbo from 8 rows or columns to the next 8, lbo from 8 of K to the next.
 * Descriptors are numbers: the same matrix n bytes further is the descriptor plus n / 16. */
static __device__ __forceinline__ unsigned long long ptx_wgmma_descriptor(ptx_shared address, unsigned lbo, unsigned sbo, ptx_swizzle swizzle) {
  return (unsigned long long)((address & 0x3ffff) >> 4) | (unsigned long long)(lbo >> 4) << 16 | (unsigned long long)(sbo >> 4) << 32 |
         (unsigned long long)swizzle << 62;
}

/* The text and the operands of the sums: the first 4, 8, ... of d. */
#define PTX_SUMS_TEXT_4 "%0, %1, %2, %3"
#define PTX_SUMS_TEXT_8 PTX_SUMS_TEXT_4 ", %4, %5, %6, %7"
#define PTX_SUMS_TEXT_12 PTX_SUMS_TEXT_8 ", %8, %9, %10, %11"
#define PTX_SUMS_TEXT_16 PTX_SUMS_TEXT_12 ", %12, %13, %14, %15"
#define PTX_SUMS_TEXT_20 PTX_SUMS_TEXT_16 ", %16, %17, %18, %19"
#define PTX_SUMS_TEXT_24 PTX_SUMS_TEXT_20 ", %20, %21, %22, %23"
#define PTX_SUMS_TEXT_28 PTX_SUMS_TEXT_24 ", %24, %25, %26, %27"
#define PTX_SUMS_TEXT_32 PTX_SUMS_TEXT_28 ", %28, %29, %30, %31"
#define PTX_SUMS_TEXT_36 PTX_SUMS_TEXT_32 ", %32, %33, %34, %35"
#define PTX_SUMS_TEXT_40 PTX_SUMS_TEXT_36 ", %36, %37, %38, %39"
#define PTX_SUMS_TEXT_44 PTX_SUMS_TEXT_40 ", %40, %41, %42, %43"
#define PTX_SUMS_TEXT_48 PTX_SUMS_TEXT_44 ", %44, %45, %46, %47"
#define PTX_SUMS_TEXT_52 PTX_SUMS_TEXT_48 ", %48, %49, %50, %51"
#define PTX_SUMS_TEXT_56 PTX_SUMS_TEXT_52 ", %52, %53, %54, %55"
#define PTX_SUMS_TEXT_60 PTX_SUMS_TEXT_56 ", %56, %57, %58, %59"
#define PTX_SUMS_TEXT_64 PTX_SUMS_TEXT_60 ", %60, %61, %62, %63"
#define PTX_SUMS_TEXT_68 PTX_SUMS_TEXT_64 ", %64, %65, %66, %67"
#define PTX_SUMS_TEXT_72 PTX_SUMS_TEXT_68 ", %68, %69, %70, %71"
#define PTX_SUMS_TEXT_76 PTX_SUMS_TEXT_72 ", %72, %73, %74, %75"
#define PTX_SUMS_TEXT_80 PTX_SUMS_TEXT_76 ", %76, %77, %78, %79"
#define PTX_SUMS_TEXT_84 PTX_SUMS_TEXT_80 ", %80, %81, %82, %83"
#define PTX_SUMS_TEXT_88 PTX_SUMS_TEXT_84 ", %84, %85, %86, %87"
#define PTX_SUMS_TEXT_92 PTX_SUMS_TEXT_88 ", %88, %89, %90, %91"
#define PTX_SUMS_TEXT_96 PTX_SUMS_TEXT_92 ", %92, %93, %94, %95"
#define PTX_SUMS_TEXT_100 PTX_SUMS_TEXT_96 ", %96, %97, %98, %99"
#define PTX_SUMS_TEXT_104 PTX_SUMS_TEXT_100 ", %100, %101, %102, %103"
#define PTX_SUMS_TEXT_108 PTX_SUMS_TEXT_104 ", %104, %105, %106, %107"
#define PTX_SUMS_TEXT_112 PTX_SUMS_TEXT_108 ", %108, %109, %110, %111"
#define PTX_SUMS_TEXT_116 PTX_SUMS_TEXT_112 ", %112, %113, %114, %115"
#define PTX_SUMS_TEXT_120 PTX_SUMS_TEXT_116 ", %116, %117, %118, %119"
#define PTX_SUMS_TEXT_124 PTX_SUMS_TEXT_120 ", %120, %121, %122, %123"
#define PTX_SUMS_TEXT_128 PTX_SUMS_TEXT_124 ", %124, %125, %126, %127"
#define PTX_4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define PTX_SUMS_4 PTX_4(0)
#define PTX_SUMS_8 PTX_SUMS_4, PTX_4(4)
#define PTX_SUMS_12 PTX_SUMS_8, PTX_4(8)
#define PTX_SUMS_16 PTX_SUMS_12, PTX_4(12)
#define PTX_SUMS_20 PTX_SUMS_16, PTX_4(16)
#define PTX_SUMS_24 PTX_SUMS_20, PTX_4(20)
#define PTX_SUMS_28 PTX_SUMS_24, PTX_4(24)
#define PTX_SUMS_32 PTX_SUMS_28, PTX_4(28)
#define PTX_SUMS_36 PTX_SUMS_32, PTX_4(32)
#define PTX_SUMS_40 PTX_SUMS_36, PTX_4(36)
#define PTX_SUMS_44 PTX_SUMS_40, PTX_4(40)
#define PTX_SUMS_48 PTX_SUMS_44, PTX_4(44)
#define PTX_SUMS_52 PTX_SUMS_48, PTX_4(48)
#define PTX_SUMS_56 PTX_SUMS_52, PTX_4(52)
#define PTX_SUMS_60 PTX_SUMS_56, PTX_4(56)
#define PTX_SUMS_64 PTX_SUMS_60, PTX_4(60)
#define PTX_SUMS_68 PTX_SUMS_64, PTX_4(64)
#define PTX_SUMS_72 PTX_SUMS_68, PTX_4(68)
#define PTX_SUMS_76 PTX_SUMS_72, PTX_4(72)
#define PTX_SUMS_80 PTX_SUMS_76, PTX_4(76)
#define PTX_SUMS_84 PTX_SUMS_80, PTX_4(80)
#define PTX_SUMS_88 PTX_SUMS_84, PTX_4(84)
#define PTX_SUMS_92 PTX_SUMS_88, PTX_4(88)
#define PTX_SUMS_96 PTX_SUMS_92, PTX_4(92)
#define PTX_SUMS_100 PTX_SUMS_96, PTX_4(96)
#define PTX_SUMS_104 PTX_SUMS_100, PTX_4(100)
#define PTX_SUMS_108 PTX_SUMS_104, PTX_4(104)
#define PTX_SUMS_112 PTX_SUMS_108, PTX_4(108)
#define PTX_SUMS_116 PTX_SUMS_112, PTX_4(112)
#define PTX_SUMS_120 PTX_SUMS_116, PTX_4(116)
#define PTX_SUMS_124 PTX_SUMS_120, PTX_4(120)
#define PTX_SUMS_128 PTX_SUMS_124, PTX_4(124)

/* The bodies, for the numbers of the operands behind the sums. */
#ifdef CUDA_EMULATOR
#define PTX_WGMMA_SHARED(N, SUMS, O0, O1, O2, O3, O4) emu_wgmma(N, d, nullptr, a, b, A_MN, B_MN, SCALE_D, file, line)
#define PTX_WGMMA_REGISTERS(N, SUMS, O0, O1, O2, O3, O4, O5, O6) emu_wgmma(N, d, a, 0, b, 0, B_MN, SCALE_D, file, line)
#elif defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define PTX_WGMMA_SHARED(N, SUMS, O0, O1, O2, O3, O4)                                                                                                       \
  asm volatile("wgmma.mma_async.sync.aligned.m64n" #N "k16.f32.f16.f16 {" PTX_SUMS_TEXT_##SUMS "}, %" #O0 ", %" #O1 ", %" #O2 ", 1, 1, %" #O3 ", %" #O4 ";" \
               : PTX_SUMS_##SUMS                                                                                                                            \
               : "l"(a), "l"(b), "n"(SCALE_D), "n"(A_MN), "n"(B_MN))
#define PTX_WGMMA_REGISTERS(N, SUMS, O0, O1, O2, O3, O4, O5, O6)                                                                                              \
  asm volatile("wgmma.mma_async.sync.aligned.m64n" #N "k16.f32.f16.f16 {" PTX_SUMS_TEXT_##SUMS "}, {%" #O0 ", %" #O1 ", %" #O2 ", %" #O3 "}, %" #O4 ", %" #O5 \
                                                                                               ", 1, 1, %" #O6 ";"                                            \
               : PTX_SUMS_##SUMS                                                                                                                              \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "n"(SCALE_D), "n"(B_MN))
#else
#define PTX_WGMMA_SHARED(...)
#define PTX_WGMMA_REGISTERS(...)
#endif

/* wgmma.mma_async.m64nNk16 (.f32.f16.f16): d += a b for a [64][16] and b [16][N], by descriptors, K-major unless A_MN or B_MN is 1; with SCALE_D 0, d = a b.
 * Of d [64][N] a thread holds N / 2 floats: of row 16 (warp % 4) + lane / 4 + 8 (i / 2 % 2) the columns 8 (i / 4) + 2 (lane % 4) + i % 2.
 * ptx_wgmma takes the N that d has room for, and so does ptx_wgmma_registers, whose a comes from registers, as mma.m16n8k16's: each warp holds its 16 rows. They may
 * change only after a wait. */
#define PTX_WGMMA(N, SUMS, O0, O1, O2, O3, O4, O5, O6)                                                                                    \
  template <int A_MN = 0, int B_MN = 0, int SCALE_D = 1>                                                                                  \
  static __device__ __forceinline__ void ptx_wgmma_m64n##N##k16(float(&d)[SUMS], unsigned long long a, unsigned long long b PTX_CALLER) { \
    PTX_WGMMA_SHARED(N, SUMS, O0, O1, O2, O3, O4);                                                                                        \
  }                                                                                                                                       \
  template <int A_MN = 0, int B_MN = 0, int SCALE_D = 1>                                                                                  \
  static __device__ __forceinline__ void ptx_wgmma(float(&d)[SUMS], unsigned long long a, unsigned long long b PTX_CALLER) {              \
    PTX_WGMMA_SHARED(N, SUMS, O0, O1, O2, O3, O4);                                                                                        \
  }                                                                                                                                       \
  template <int B_MN = 0, int SCALE_D = 1>                                                                                                \
  static __device__ __forceinline__ void ptx_wgmma_registers(float(&d)[SUMS], const unsigned(&a)[4], unsigned long long b PTX_CALLER) {   \
    PTX_WGMMA_REGISTERS(N, SUMS, O0, O1, O2, O3, O4, O5, O6);                                                                             \
  }
PTX_WGMMA(8, 4, 4, 5, 6, 7, 8, 9, 10)
PTX_WGMMA(16, 8, 8, 9, 10, 11, 12, 13, 14)
PTX_WGMMA(24, 12, 12, 13, 14, 15, 16, 17, 18)
PTX_WGMMA(32, 16, 16, 17, 18, 19, 20, 21, 22)
PTX_WGMMA(40, 20, 20, 21, 22, 23, 24, 25, 26)
PTX_WGMMA(48, 24, 24, 25, 26, 27, 28, 29, 30)
PTX_WGMMA(56, 28, 28, 29, 30, 31, 32, 33, 34)
PTX_WGMMA(64, 32, 32, 33, 34, 35, 36, 37, 38)
PTX_WGMMA(72, 36, 36, 37, 38, 39, 40, 41, 42)
PTX_WGMMA(80, 40, 40, 41, 42, 43, 44, 45, 46)
PTX_WGMMA(88, 44, 44, 45, 46, 47, 48, 49, 50)
PTX_WGMMA(96, 48, 48, 49, 50, 51, 52, 53, 54)
PTX_WGMMA(104, 52, 52, 53, 54, 55, 56, 57, 58)
PTX_WGMMA(112, 56, 56, 57, 58, 59, 60, 61, 62)
PTX_WGMMA(120, 60, 60, 61, 62, 63, 64, 65, 66)
PTX_WGMMA(128, 64, 64, 65, 66, 67, 68, 69, 70)
PTX_WGMMA(136, 68, 68, 69, 70, 71, 72, 73, 74)
PTX_WGMMA(144, 72, 72, 73, 74, 75, 76, 77, 78)
PTX_WGMMA(152, 76, 76, 77, 78, 79, 80, 81, 82)
PTX_WGMMA(160, 80, 80, 81, 82, 83, 84, 85, 86)
PTX_WGMMA(168, 84, 84, 85, 86, 87, 88, 89, 90)
PTX_WGMMA(176, 88, 88, 89, 90, 91, 92, 93, 94)
PTX_WGMMA(184, 92, 92, 93, 94, 95, 96, 97, 98)
PTX_WGMMA(192, 96, 96, 97, 98, 99, 100, 101, 102)
PTX_WGMMA(200, 100, 100, 101, 102, 103, 104, 105, 106)
PTX_WGMMA(208, 104, 104, 105, 106, 107, 108, 109, 110)
PTX_WGMMA(216, 108, 108, 109, 110, 111, 112, 113, 114)
PTX_WGMMA(224, 112, 112, 113, 114, 115, 116, 117, 118)
PTX_WGMMA(232, 116, 116, 117, 118, 119, 120, 121, 122)
PTX_WGMMA(240, 120, 120, 121, 122, 123, 124, 125, 126)
PTX_WGMMA(248, 124, 124, 125, 126, 127, 128, 129, 130)
PTX_WGMMA(256, 128, 128, 129, 130, 131, 132, 133, 134)
