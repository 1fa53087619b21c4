/* What wgmma reads through a matrix descriptor: the byte of shared memory of each (row, k) of an operand.
 *
 * The other operand is ones in its diagonal, so that d is the operand itself. Shared memory holds the index of each half in it, in two products: index % 2048,
 * then index / 2048, numbers that fp16 holds exactly. */
#include <cuda_fp16.h>

#include "common/ptx/ptx.cuh"
#include "tests/golden/golden.h"
#include "tests/on_device.cuh"

enum { THREADS = 128, DEPTH = 16, ALIGN = 1024, WINDOW = 160 << 10, DIGIT = 2048, DIAGONAL = DEPTH * DEPTH * 2, ROWS = 256 };

typedef struct descriptor_case {
  char operand;
  int mn, swizzle; /* swizzle: ptx_swizzle */
  int start, lbo, sbo, n;
  bool full; /* the table, too */
} descriptor_case;

/* b, by a diagonal a in registers: d (k, row) = b (row, k), of the first 16 rows of d, the first warp's. */
template <int MN, int N> static __device__ __forceinline__ void read_b(unsigned long long b, float *out) {
  const int row = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4, column = 2 * (threadIdx.x % 4);
  unsigned a[4];
#pragma unroll
  for (int i = 0; i < 4; i++) {
    const int r = row + 8 * (i % 2), k = column + 8 * (i / 2);
    a[i] = (r == k ? 0x3c00u : 0) | (r == k + 1 ? 0x3c000000u : 0);
  }
  float d[N / 2];
#pragma unroll
  for (int i = 0; i < N / 2; i++) d[i] = 0;
  ptx_wgmma_fence();
  ptx_wgmma_registers<MN>(d, a, b);
  ptx_wgmma_commit();
  ptx_wgmma_wait<0>();
  if (threadIdx.x >= 32) return;
#pragma unroll
  for (int i = 0; i < N / 2; i++) out[(8 * (i / 4) + column + i % 2) * DEPTH + row + 8 * (i / 2 % 2)] = d[i];
}

/* a, by a diagonal b in shared memory, behind the window: d (row, k) = a (row, k). */
template <int MN> static __device__ __forceinline__ void read_a(unsigned long long a, ptx_shared diagonal, float *out) {
  float d[8];
#pragma unroll
  for (int i = 0; i < 8; i++) d[i] = 0;
  ptx_wgmma_fence();
  ptx_wgmma_m64n16k16<MN>(d, a, ptx_wgmma_descriptor(diagonal, 128, 256, PTX_SWIZZLE_NONE));
  ptx_wgmma_commit();
  ptx_wgmma_wait<0>();
  const int row = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4;
#pragma unroll
  for (int i = 0; i < 8; i++) out[(row + 8 * (i / 2 % 2)) * DEPTH + 8 * (i / 4) + 2 * (threadIdx.x % 4) + i % 2] = d[i];
}

/* out: [2 digits][rows][16]; N 0: operand a. */
template <int MN, int N> __global__ void __launch_bounds__(THREADS) read_operand(int swizzle, int start, int lbo, int sbo, float *out) {
  extern __shared__ __align__(1024) unsigned char shared[];
  const ptx_shared address = ptx_shared_address(shared), window = (address + ALIGN - 1) / ALIGN * ALIGN;
  __half *halves = (__half *)(shared + (window - address)), *diagonal = halves + WINDOW / 2;
  for (int i = threadIdx.x; i < DEPTH * DEPTH; i += THREADS) {
    const int row = i / DEPTH, k = i % DEPTH;
    diagonal[row / 8 * 128 + k / 8 * 64 + row % 8 * 8 + k % 8] = __int2half_rn(row == k);
  }
  for (int digit = 0; digit < 2; digit++) {
    for (int i = threadIdx.x; i < WINDOW / 2; i += THREADS) halves[i] = __int2half_rn(digit == 0 ? i % DIGIT : i / DIGIT);
    ptx_fence_proxy_async();
    __syncthreads();
    const unsigned long long operand = ptx_wgmma_descriptor(window + start, lbo, sbo, (ptx_swizzle)swizzle);
    if constexpr (N == 0) read_a<MN>(operand, window + WINDOW, out + digit * 64 * DEPTH);
    else read_b<MN, N>(operand, out + digit * N * DEPTH);
    __syncthreads(); /* the tensor cores have read */
  }
}

template <int MN, int N> static void launch(const descriptor_case *c, float *out) {
  const int bytes = ALIGN + WINDOW + DIAGONAL;
  if (cudaFuncSetAttribute(read_operand<MN, N>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes) != cudaSuccess) golden_fail("no shared memory");
  read_operand<MN, N><<<1, THREADS, bytes>>>(c->swizzle, c->start, c->lbo, c->sbo, out);
}

static void measure(const descriptor_case *c) {
  static const char *const swizzles[] = {"none", "128B", "64B", "32B"};
  const int rows = c->operand == 'a' ? 64 : c->n, elements = rows * DEPTH;
  if (!golden_case("wgmma %c %s swizzle %s start %d LBO %d SBO %d rows %d", c->operand, c->mn ? "MN-major" : "K-major", swizzles[c->swizzle], c->start, c->lbo,
                   c->sbo, rows))
    return;
  float *out = on_device<float>(2 * ROWS * DEPTH);
  if (c->operand == 'a') (c->mn ? launch<1, 0> : launch<0, 0>)(c, out);
  else if (c->n == 64) (c->mn ? launch<1, 64> : launch<0, 64>)(c, out);
  else if (c->n == 128) launch<1, 128>(c, out);
  else if (c->n == 192) launch<1, 192>(c, out);
  else launch<0, 232>(c, out);
  golden_launched();
  float *d = on_host(out, 2 * ROWS * DEPTH);
  unsigned bytes[ROWS * DEPTH];
  for (int i = 0; i < elements; i++) bytes[i] = 2 * ((unsigned)d[i] + DIGIT * (unsigned)d[elements + i]);
  golden_print("%s: crc32 %08x\n", golden_name(), golden_crc(bytes, elements));
  for (int row = 0; c->full && row < rows; row++) {
    golden_print("%s row %d, byte of each k:", golden_name(), row);
    for (int k = 0; k < DEPTH; k++) golden_print(" %u", bytes[row * DEPTH + k]);
    golden_print("\n");
  }
  free(d), cudaFree(out);
}

enum { ROW = 128, GROUP = 1024 }; /* bytes: of a pixel of 64 halves, of eight */
static const descriptor_case cases[] = {
    /* steps along k, an operand of more than 64 rows */
    {'b', 0, PTX_SWIZZLE_128, 32, 16, GROUP, 64, false},
    {'b', 0, PTX_SWIZZLE_128, 64, 16, GROUP, 64, false},
    {'b', 0, PTX_SWIZZLE_128, 96, 16, GROUP, 64, false},
    {'b', 0, PTX_SWIZZLE_128, 5 * ROW + 32, 16, GROUP, 64, false},
    {'b', 0, PTX_SWIZZLE_128, 59 * ROW, 16, GROUP, 232, false},
    {'b', 0, PTX_SWIZZLE_128, 118 * ROW + 96, 16, GROUP, 232, false},
    {'a', 0, PTX_SWIZZLE_128, 0, 16, GROUP, 0, true},
    {'a', 0, PTX_SWIZZLE_128, 1 * ROW, 16, GROUP, 0, false},
    {'a', 0, PTX_SWIZZLE_128, 6 * ROW + 64, 16, GROUP, 0, false},
    {'a', 0, PTX_SWIZZLE_128, 13 * ROW, 16, 10 * ROW, 0, false},
    {'a', 0, PTX_SWIZZLE_128, 0, 16, 9 * ROW, 0, false},
    {'a', 0, PTX_SWIZZLE_128, 71 * ROW, 16, 34 * ROW, 0, false},
    /* narrower swizzles */
    {'b', 0, PTX_SWIZZLE_64, 0, 16, 512, 64, true},
    {'b', 0, PTX_SWIZZLE_64, 32, 16, 512, 64, false},
    {'b', 0, PTX_SWIZZLE_64, 3 * 64, 16, 512, 64, false},
    {'b', 0, PTX_SWIZZLE_64, 0, 16, 576, 64, false},
    {'a', 0, PTX_SWIZZLE_64, 64, 16, 512, 0, false},
    {'b', 0, PTX_SWIZZLE_32, 0, 16, 256, 64, true},
    {'b', 0, PTX_SWIZZLE_32, 32, 16, 256, 64, false},
    {'b', 0, PTX_SWIZZLE_32, 5 * 32, 16, 288, 64, false},
    {'a', 0, PTX_SWIZZLE_32, 0, 16, 256, 0, false},
    /* core matrices, and windows that overlap */
    {'b', 0, PTX_SWIZZLE_NONE, 0, 128, 256, 64, false},
    {'b', 0, PTX_SWIZZLE_NONE, 0, 1024, 128, 64, false},
    {'b', 0, PTX_SWIZZLE_NONE, 48, 1040, 144, 64, false},
    {'b', 0, PTX_SWIZZLE_NONE, 0, 16, 128, 64, true},
    {'b', 0, PTX_SWIZZLE_NONE, 16, 16, 128, 64, false},
    {'b', 0, PTX_SWIZZLE_NONE, 32, 16, 128, 232, false},
    {'a', 0, PTX_SWIZZLE_NONE, 0, 128, 256, 0, false},
    {'a', 0, PTX_SWIZZLE_NONE, 0, 16, 128, 0, false},
    /* MN-major: the next 8 k, the next 64 rows, pixels as k */
    {'b', 1, PTX_SWIZZLE_128, 0, 8192, GROUP, 64, false},
    {'b', 1, PTX_SWIZZLE_128, 0, 8192, GROUP, 128, true},
    {'b', 1, PTX_SWIZZLE_128, 2048, 8192, GROUP, 128, false},
    {'b', 1, PTX_SWIZZLE_128, 0, 8192, 2048, 128, false},
    {'b', 1, PTX_SWIZZLE_128, 3 * ROW, 8192, GROUP, 128, false},
    {'b', 1, PTX_SWIZZLE_128, 58 * ROW, 8192, GROUP, 128, false},
    {'b', 1, PTX_SWIZZLE_128, 7 * ROW, 8192, 9 * ROW, 128, false},
    {'b', 1, PTX_SWIZZLE_128, 0, ROW, GROUP, 192, true},
    {'b', 1, PTX_SWIZZLE_128, 5 * ROW, ROW, GROUP, 192, false},
    {'a', 1, PTX_SWIZZLE_128, 0, 8192, GROUP, 0, false},
    {'a', 1, PTX_SWIZZLE_128, 1 * ROW, 8192, GROUP, 0, false},
    {'a', 1, PTX_SWIZZLE_128, 4 * ROW, 8192, 2048, 0, false},
    {'a', 1, PTX_SWIZZLE_128, 61 * ROW, 8192, GROUP, 0, false},
    {'b', 1, PTX_SWIZZLE_64, 0, 512, 4096, 64, false},
    {'b', 1, PTX_SWIZZLE_32, 0, 256, 4096, 64, false},
    {'b', 1, PTX_SWIZZLE_NONE, 0, 128, 256, 64, false},
    {'a', 1, PTX_SWIZZLE_64, 0, 512, 4096, 0, false},
    {'a', 1, PTX_SWIZZLE_NONE, 0, 1024, 128, 0, false},
};

void golden_descriptors(void) {
  for (int shift = 0; shift < 16; shift++) { /* a filter tap is a start some rows further */
    const descriptor_case c = {'b', 0, PTX_SWIZZLE_128, shift * ROW, 16, GROUP, 64, shift == 3};
    measure(&c);
  }
  for (int pitch = 9; pitch <= 34; pitch += pitch < 12 ? 1 : pitch < 16 ? 2 : 3) { /* groups of 8 rows that lie further apart */
    const descriptor_case c = {'b', 0, PTX_SWIZZLE_128, pitch % 5 * ROW, 16, pitch * ROW, 64, false};
    measure(&c);
  }
  for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) measure(&cases[i]);
}
