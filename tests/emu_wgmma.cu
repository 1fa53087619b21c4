/* wgmma on the emulator and on a GPU of compute capability 9.0: products of small integers, exact, through descriptors of every kind that kernels use, random
 * otherwise. What a descriptor means stands in reference_address(); where this passes on a GPU, the emulator's view of descriptors is the GPU's. */
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "common/ptx/ptx.cuh"
#include "tests/tap.h"

enum { IMAGE = 128 << 10, CASES = 10, ROWS = 64, DEPTH = 16 };
enum { K_MAJOR, MN_MAJOR, REGISTERS }; /* a */

/* start from the image's beginning, strides: bytes */
struct operand {
  unsigned start, lbo, sbo;
  ptx_swizzle swizzle;
};

struct product {
  operand a, b;
};

template <int N, int A, int B_MN>
__global__ void __launch_bounds__(128) multiply(const uint4 *image, const __half *a_matrix, const product *products, float *out) {
  extern __shared__ __align__(1024) unsigned char shared[];
  for (int i = threadIdx.x; i < IMAGE / 16; i += 128) ((uint4 *)shared)[i] = image[i];
  ptx_fence_proxy_async();
  __syncthreads();
  const product p = products[blockIdx.x];
  const ptx_shared at = ptx_shared_address(shared);
  const unsigned long long a = ptx_wgmma_descriptor(at + p.a.start, p.a.lbo, p.a.sbo, p.a.swizzle);
  const unsigned long long b = ptx_wgmma_descriptor(at + p.b.start, p.b.lbo, p.b.sbo, p.b.swizzle);
  const int row = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4, column = threadIdx.x % 4 * 2;
  unsigned a_part[4];
  for (int i = 0; i < 4; i++) a_part[i] = *(const unsigned *)&a_matrix[(row + i % 2 * 8) * DEPTH + column + i / 2 * 8];
  float d[N / 2];
  for (int i = 0; i < N / 2; i++) d[i] = 1e9f; /* the first product does not read it */
  ptx_wgmma_fence();
  if constexpr (A == REGISTERS) {
    ptx_wgmma_registers<B_MN, 0>(d, a_part, b), ptx_wgmma_registers<B_MN>(d, a_part, b);
  } else {
    if constexpr (N == 8) ptx_wgmma_m64n8k16<A, B_MN, 0>(d, a, b), ptx_wgmma_m64n8k16<A, B_MN>(d, a, b);
    if constexpr (N == 64) ptx_wgmma_m64n64k16<A, B_MN, 0>(d, a, b), ptx_wgmma_m64n64k16<A, B_MN>(d, a, b);
    if constexpr (N == 192) ptx_wgmma_m64n192k16<A, B_MN, 0>(d, a, b), ptx_wgmma_m64n192k16<A, B_MN>(d, a, b);
  }
  ptx_wgmma_commit();
  ptx_wgmma_wait<0>();
  out += blockIdx.x * ROWS * N;
  for (int i = 0; i < N / 2; i++) out[(row + i / 2 % 2 * 8) * N + i / 4 * 8 + column + i % 2] = d[i];
}

/* ---- the reference ---- */

/* PTX ISA, Asynchronous Warpgroup Level Matrix Shared Memory Layout. */
static unsigned reference_address(const operand *o, bool mn, int row, int k) {
  static const unsigned span_of[] = {16, 128, 64, 32};
  const unsigned span = span_of[o->swizzle], wide = span / 2;
  const bool none = o->swizzle == PTX_SWIZZLE_NONE;
  unsigned address = o->start;
  if (mn) address += row % wide * 2 + row / wide * (none ? o->sbo : o->lbo) + k % 8 * span + k / 8 * (none ? o->lbo : o->sbo);
  else address += row % 8 * span + row / 8 * o->sbo + k % 8 * 2 + k / 8 * (none ? o->lbo : 16);
  return address ^ (address / 128 % (span / 16) * 16);
}

static uint64_t state = 1;
static unsigned random_below(unsigned range) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (unsigned)((state >> 33) % range);
}

/* Any row of a tile to start at, any 16 k of it; groups of 8 as many rows apart as a larger tile wants. Within the image. */
static operand random_operand(bool mn, int rows) {
  for (;;) {
    operand o = {};
    o.swizzle = (ptx_swizzle)random_below(4);
    const unsigned span = o.swizzle == PTX_SWIZZLE_NONE ? 16 : o.swizzle == PTX_SWIZZLE_128 ? 128 : o.swizzle == PTX_SWIZZLE_64 ? 64 : 32;
    o.start = random_below(72) * span + (mn || span == 16 ? 0 : random_below(span / 32) * 32);
    o.lbo = (1 + random_below(40)) * span;
    o.sbo = (8 + random_below(27)) * span;
    unsigned last = 0;
    for (int row = 0; row < rows; row++)
      for (int k = 0; k < DEPTH; k += 15) {
        const unsigned address = reference_address(&o, mn, row, k);
        if (address > last) last = address;
      }
    if (last + 256 < IMAGE) return o;
  }
}

/* ---- tests ---- */

static __half image[IMAGE / 2], a_matrix[ROWS * DEPTH];

template <int N, int A, int B_MN> static void test(const void *dev_image, const void *dev_a) {
  static product products[CASES];
  static float out[CASES][ROWS][N];
  for (product &p : products) p = {random_operand(A == MN_MAJOR, ROWS), random_operand(B_MN, N)};
  void *dev_products = NULL, *dev_out = NULL;
  cudaMalloc(&dev_products, sizeof products), cudaMalloc(&dev_out, sizeof out);
  cudaMemcpy(dev_products, products, sizeof products, cudaMemcpyHostToDevice);
  cudaFuncSetAttribute(multiply<N, A, B_MN>, cudaFuncAttributeMaxDynamicSharedMemorySize, IMAGE);
  multiply<N, A, B_MN><<<CASES, 128, IMAGE>>>((const uint4 *)dev_image, (const __half *)dev_a, (const product *)dev_products, (float *)dev_out);
  int wrong = cudaMemcpy(out, dev_out, sizeof out, cudaMemcpyDeviceToHost) != cudaSuccess, first = -1;
  for (int i = 0; i < CASES; i++)
    for (int row = 0; row < ROWS; row++)
      for (int column = 0; column < N; column++) {
        float sum = 0;
        for (int k = 0; k < DEPTH; k++) {
          const __half a = A == REGISTERS ? a_matrix[row * DEPTH + k] : image[reference_address(&products[i].a, A == MN_MAJOR, row, k) / 2];
          sum += 2 * __half2float(a) * __half2float(image[reference_address(&products[i].b, B_MN, column, k) / 2]);
        }
        if (out[i][row][column] == sum) continue;
        wrong++;
        if (first < 0) first = i;
      }
  static const char *const name_a[] = {"K-major", "MN-major", "in registers"};
  ok(wrong == 0, "m64n%dk16: a %s, b %s (%d wrong)", N, name_a[A], B_MN ? "MN-major" : "K-major", wrong);
  if (first >= 0) {
    const product *p = &products[first];
    diag("first: a start %u lbo %u sbo %u swizzle code %d, b start %u lbo %u sbo %u swizzle code %d", p->a.start, p->a.lbo, p->a.sbo, (int)p->a.swizzle,
         p->b.start, p->b.lbo, p->b.sbo, (int)p->b.swizzle);
  }
  cudaFree(dev_products), cudaFree(dev_out);
}

template <int N> static void test_all(const void *dev_image, const void *dev_a) {
  test<N, K_MAJOR, 0>(dev_image, dev_a), test<N, K_MAJOR, 1>(dev_image, dev_a);
  test<N, MN_MAJOR, 0>(dev_image, dev_a), test<N, MN_MAJOR, 1>(dev_image, dev_a);
  test<N, REGISTERS, 0>(dev_image, dev_a), test<N, REGISTERS, 1>(dev_image, dev_a);
}

#ifdef CUDA_EMULATOR
__global__ void base_offset(float *out) {
  extern __shared__ __align__(1024) unsigned char shared[];
  float d[4] = {};
  const unsigned long long a = ptx_wgmma_descriptor(ptx_shared_address(shared), 16, 1024, PTX_SWIZZLE_128);
  ptx_wgmma_fence();
  ptx_wgmma_m64n8k16(d, a, a | 1ull << 49);
  ptx_wgmma_commit();
  ptx_wgmma_wait<0>();
  out[threadIdx.x] = d[0];
}

static void test_refused() {
  static char text[4096];
  void *out = NULL;
  cudaMalloc(&out, 512);
  FILE *captured = tmpfile();
  const int real = dup(2);
  dup2(fileno(captured), 2);
  base_offset<<<1, 128, 8192>>>((float *)out);
  const cudaError_t error = cudaDeviceSynchronize();
  fflush(stderr);
  dup2(real, 2);
  close(real);
  rewind(captured);
  text[fread(text, 1, sizeof text - 1, captured)] = '\0';
  fclose(captured);
  ok(error == cudaErrorLaunchFailure && strstr(text, "the descriptor of b, 0x4002004000010040, has a base offset, expected 0"), "a base offset is refused") ||
      (diag("%s", text), 0);
}
#endif

int main() {
  int major = 0;
  cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0);
  if (major != 9) {
    printf("1..0 # SKIP wgmma needs compute capability 9.0\n");
    return 0;
  }
  for (__half &h : image) h = __float2half((float)((int)random_below(17) - 8));
  for (__half &h : a_matrix) h = __float2half((float)((int)random_below(17) - 8));
  void *dev_image = NULL, *dev_a = NULL;
  cudaMalloc(&dev_image, sizeof image), cudaMalloc(&dev_a, sizeof a_matrix);
  cudaMemcpy(dev_image, image, sizeof image, cudaMemcpyHostToDevice);
  cudaMemcpy(dev_a, a_matrix, sizeof a_matrix, cudaMemcpyHostToDevice);
  test_all<8>(dev_image, dev_a), test_all<64>(dev_image, dev_a), test_all<192>(dev_image, dev_a);
#ifdef CUDA_EMULATOR
  test_refused();
#endif
  return done_testing();
}
