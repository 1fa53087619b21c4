/* mma.sync on the emulator, and on a GPU: against a plain product. On small integers bit for bit, on random halves within the rounding of its sums. */
#include <cuda_fp16.h>
#include <math.h>
#include <stdint.h>

#include "common/ptx/ptx.cuh"
#include "tests/tap.h"

static constexpr int WARPS = 64, TIMES = 3;

/* d [16][8] += a [16][16] b [16][8], TIMES times over, one product a warp. */
__global__ void multiply(const __half *a, const __half *b, float *d) {
  const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4, warp = threadIdx.x / 32 + blockIdx.x * 2;
  a += warp * 256, b += warp * 128, d += warp * 128;
  const auto two = [](__half low, __half high) { return __half_as_ushort(low) | (unsigned)__half_as_ushort(high) << 16; };
  unsigned a_part[4], b_part[2];
  for (int i = 0; i < 4; i++) {
    const __half *from = a + (g + 8 * (i % 2)) * 16 + 2 * t + 8 * (i / 2);
    a_part[i] = two(from[0], from[1]);
  }
  for (int i = 0; i < 2; i++) b_part[i] = two(b[(2 * t + 8 * i) * 8 + g], b[(2 * t + 8 * i + 1) * 8 + g]);
  float sum[4];
  for (int i = 0; i < 4; i++) sum[i] = d[(g + 8 * (i / 2)) * 8 + 2 * t + i % 2];
  for (int i = 0; i < TIMES; i++) ptx_mma_m16n8k16(sum, a_part, b_part);
  for (int i = 0; i < 4; i++) d[(g + 8 * (i / 2)) * 8 + 2 * t + i % 2] = sum[i];
}

static uint64_t state = 1;
static int random_int(int range) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (int)((state >> 33) % (uint64_t)range);
}

static void test(const char *what, bool integers) {
  static __half a[WARPS][16][16], b[WARPS][16][8];
  static float before[WARPS][16][8], after[WARPS][16][8];
  const auto fill = [&](__half *to, int n) {
    for (int i = 0; i < n; i++) to[i] = __float2half(integers ? (float)(random_int(17) - 8) : (float)(random_int(20001) - 10000) / 5000);
  };
  fill(&a[0][0][0], WARPS * 256);
  fill(&b[0][0][0], WARPS * 128);
  for (int i = 0; i < WARPS * 128; i++) (&before[0][0][0])[i] = (float)(random_int(2001) - 1000);
  void *dev_a = NULL, *dev_b = NULL, *dev_d = NULL;
  cudaMalloc(&dev_a, sizeof a), cudaMalloc(&dev_b, sizeof b), cudaMalloc(&dev_d, sizeof before);
  cudaMemcpy(dev_a, a, sizeof a, cudaMemcpyHostToDevice);
  cudaMemcpy(dev_b, b, sizeof b, cudaMemcpyHostToDevice);
  cudaMemcpy(dev_d, before, sizeof before, cudaMemcpyHostToDevice);
  multiply<<<WARPS / 2, 64>>>((const __half *)dev_a, (const __half *)dev_b, (float *)dev_d);
  const cudaError_t status = cudaMemcpy(after, dev_d, sizeof after, cudaMemcpyDeviceToHost);
  int wrong = status != cudaSuccess;
  for (int w = 0; w < WARPS; w++)
    for (int m = 0; m < 16; m++)
      for (int n = 0; n < 8; n++) {
        double sum = before[w][m][n], scale = fabs(sum);
        for (int k = 0; k < 16; k++) {
          const double product = (double)__half2float(a[w][m][k]) * (double)__half2float(b[w][k][n]);
          sum += TIMES * product, scale += TIMES * fabs(product);
        }
        wrong += !(fabs(after[w][m][n] - sum) <= (integers ? 0 : TIMES * 16 * 0x1p-23 * scale));
      }
  ok(wrong == 0, "%s", what);
  cudaFree(dev_a), cudaFree(dev_b), cudaFree(dev_d);
}

int main() {
  int major = 0;
  cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0);
  if (major < 8) {
    printf("1..0 # SKIP mma.m16n8k16 of halves needs compute capability 8.0\n");
    return 0;
  }
  test("mma.m16n8k16: small integers, exact", true);
  test("mma.m16n8k16: random halves, within the rounding of its sums", false);
  return done_testing();
}
