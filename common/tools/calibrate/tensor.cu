/* How fast are the tensor cores? fp16 products, fp32 sums, on random data: zeros toggle no wires, draw less power and run at a higher clock.
 * Two kernels: mma.sync, which every GPU since 8.0 has, from registers; and wgmma of 9.0a, from shared memory.
 * Only nvcc compiles this file. */
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <math.h>
#include <stdio.h>

#include "common/conv/half.h"
#include "common/conv/random.h"
#include "common/ptx/ptx.cuh"
#include "common/tools/calibrate/probe.h"

/* ---------------------------------------------------------------- mma.sync: d[16][8 TILES] += a[16][16] b[8 TILES][16] in every warp */

enum { MMA_M = 16, MMA_N = 8, MMA_K = 16, MMA_TILES = 8, MMA_THREADS = 512 };

__global__ void __launch_bounds__(MMA_THREADS) mma_kernel(const __half *a, const __half *b, float *d, int rounds) {
#if __CUDA_ARCH__ >= 800
  const int lane = threadIdx.x % 32, row = lane / 4, pair = lane % 4 * 2;
  const auto two = [](const __half *p) { return *(const unsigned *)p; };
  const __half *top = a + row * MMA_K + pair, *low = top + 8 * MMA_K;
  const unsigned a_part[4] = {two(top), two(low), two(top + 8), two(low + 8)};
  unsigned b_part[MMA_TILES][2];
  float sum[MMA_TILES][4] = {};
#pragma unroll
  for (int t = 0; t < MMA_TILES; t++) {
    b_part[t][0] = two(b + (t * MMA_N + row) * MMA_K + pair);
    b_part[t][1] = two(b + (t * MMA_N + row) * MMA_K + pair + 8);
  }
#pragma unroll 1
  for (int i = 0; i < rounds; i++) {
#pragma unroll
    for (int t = 0; t < MMA_TILES; t++) ptx_mma_m16n8k16(sum[t], a_part, b_part[t]);
  }
  if (blockIdx.x == 0 && threadIdx.x < 32) {
#pragma unroll
    for (int t = 0; t < MMA_TILES; t++)
#pragma unroll
      for (int i = 0; i < 4; i++) d[(row + i / 2 * 8) * (MMA_TILES * MMA_N) + t * MMA_N + pair + i % 2] = sum[t][i];
  }
#else
  (void)a, (void)b, (void)d, (void)rounds;
#endif
}

/* ---------------------------------------------------------------- wgmma: two warpgroups, d[128][256] += a[128][64] b[256][64] */

enum { WG_M = 64, WG_N = 256, WG_K = 64, WG_GROUPS = 2, WG_THREADS = 128 * WG_GROUPS, WG_REPEATS = 8 };
enum { WG_SHARED = (WG_GROUPS * WG_M + WG_N) * WG_K * 2 + 1024 };

__global__ void __launch_bounds__(WG_THREADS, 1) wgmma_kernel(const __half *a, const __half *b, float *d, int rounds) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ unsigned char memory[];
  unsigned char *a_tile = memory + (1024 - __cvta_generic_to_shared(memory) % 1024) % 1024, *b_tile = a_tile + WG_GROUPS * WG_M * WG_K * 2;
  /* 16 bytes at a time; piece j of row r goes to place j ^ (r % 8) of its row: the 128-byte swizzle. */
  for (int i = threadIdx.x; i < (WG_GROUPS * WG_M + WG_N) * 8; i += WG_THREADS) {
    const int r = i / 8, j = i % 8;
    const __half *from = r < WG_GROUPS * WG_M ? a + r * WG_K : b + (r - WG_GROUPS * WG_M) * WG_K;
    *(uint4 *)(a_tile + r * 128 + (j ^ r % 8) * 16) = *(const uint4 *)(from + j * 8);
  }
  ptx_fence_proxy_async();
  __syncthreads();

  const int group = threadIdx.x / 128, warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32;
  const unsigned long long a_matrix = ptx_wgmma_descriptor(ptx_shared_address(a_tile + group * WG_M * 128), 0, 1024, PTX_SWIZZLE_128);
  const unsigned long long b_matrix = ptx_wgmma_descriptor(ptx_shared_address(b_tile), 0, 1024, PTX_SWIZZLE_128);
  float sum[128];
#pragma unroll
  for (int i = 0; i < 128; i++) sum[i] = 0;
#pragma unroll 1
  for (int i = 0; i < rounds; i++) {
    ptx_wgmma_fence();
#pragma unroll
    for (int k = 0; k < WG_REPEATS * WG_K / 16; k++) ptx_wgmma_m64n256k16(sum, a_matrix + k % (WG_K / 16) * 2, b_matrix + k % (WG_K / 16) * 2);
    ptx_wgmma_commit();
    ptx_wgmma_wait<0>();
  }
  if (blockIdx.x == 0) {
    float *mine = d + (group * WG_M + warp * 16 + lane / 4) * WG_N + lane % 4 * 2;
#pragma unroll
    for (int i = 0; i < 128; i++) mine[i / 2 % 2 * 8 * WG_N + i / 4 * 8 + i % 2] = sum[i];
  }
#else
  (void)a, (void)b, (void)d, (void)rounds;
#endif
}

/* ---------------------------------------------------------------- probes */

/* Both kernels: d [m][n], a [m][k], b [n][k]; every round adds a b `repeats` times. p->number: 1 for random data, 0 for zeros. */
typedef struct shape {
  int m, n, k, repeats;
} shape;
static const shape mma_shape = {MMA_M, MMA_TILES *MMA_N, MMA_K, 1}, wgmma_shape = {WG_GROUPS * WG_M, WG_N, WG_K, WG_REPEATS};
enum { MOST_HALVES = (WG_GROUPS * WG_M + WG_N) * WG_K };

static float element(const probe *p, int i) { return p->number ? half_to_float(half_from_double(random_normal(7, i))) : 0; }

/* a and behind it b, in target. */
static cudaError_t prepare_tiles(const probe *p, const workbench *w) {
  static uint16_t halves[MOST_HALVES];
  for (int i = 0; i < MOST_HALVES; i++) halves[i] = half_from_float(element(p, i));
  return cudaMemcpy(w->target, halves, sizeof halves, cudaMemcpyHostToDevice);
}

/* Tensor cores cut off where fp32 would round, and a small error is added up in every step: one part in a hundred of the sum of magnitudes is allowed. */
static cudaError_t check_tiles(const probe *p, const workbench *w, const shape *s, bool *right) {
  static float got[WG_GROUPS * WG_M * WG_N];
  const cudaError_t status = cudaMemcpy(got, w->result, sizeof *got * s->m * s->n, cudaMemcpyDeviceToHost);
  *right = true;
  for (int at = 0; at < s->m * s->n && *right; at += 101) {
    double sum = 0, magnitude = 0;
    for (int k = 0; k < s->k; k++) {
      const double product = (double)element(p, at / s->n * s->k + k) * element(p, s->m * s->k + at % s->n * s->k + k);
      sum += product, magnitude += fabs(product);
    }
    const double times = (double)p->rounds * s->repeats;
    if (!(fabs(got[at] - times * sum) <= 0.01 * times * magnitude)) *right = false;
  }
  return status;
}

static cudaError_t launch_mma(const probe *p, const workbench *w, int, cudaStream_t stream) {
  const __half *a = (const __half *)w->target, *b = a + MMA_M * MMA_K;
  mma_kernel<<<w->device->sm_count, MMA_THREADS, 0, stream>>>(a, b, (float *)w->result, p->rounds);
  return cudaGetLastError();
}

static cudaError_t check_mma(const probe *p, const workbench *w, int, bool *right, double *) { return check_tiles(p, w, &mma_shape, right); }

static cudaError_t prepare_wgmma(const probe *p, const workbench *w) {
  const cudaError_t status = cudaFuncSetAttribute(wgmma_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, WG_SHARED);
  return status ? status : prepare_tiles(p, w);
}

static cudaError_t launch_wgmma(const probe *p, const workbench *w, int, cudaStream_t stream) {
  const __half *a = (const __half *)w->target, *b = a + WG_GROUPS * WG_M * WG_K;
  wgmma_kernel<<<w->device->sm_count, WG_THREADS, WG_SHARED, stream>>>(a, b, (float *)w->result, p->rounds);
  return cudaGetLastError();
}

static cudaError_t check_wgmma(const probe *p, const workbench *w, int, bool *right, double *) { return check_tiles(p, w, &wgmma_shape, right); }

static probe *add_tensor(probe_list *list, const char *name, const char *parameter, int random, int rounds) {
  probe *p = add_probe(list, name, "TFLOP/s");
  snprintf(p->parameter, sizeof p->parameter, "%s", parameter);
  p->number = random, p->rounds = rounds;
  return p;
}

static void add_mma(probe_list *list, const workbench *w) {
  probe *p = add_tensor(list, "fp16_mma", "", 1, 4000);
  p->work = 2.0 * (MMA_M * MMA_N * MMA_K * MMA_TILES) * p->rounds * (MMA_THREADS / 32) * w->device->sm_count;
  p->prepare = prepare_tiles, p->launch = launch_mma, p->check = check_mma;
}

static void add_wgmma(probe_list *list, const workbench *w, const char *parameter, int random, int rounds, bool sustained) {
  probe *p = add_tensor(list, "fp16_wgmma", parameter, random, rounds);
  p->work = 2.0 * (WG_GROUPS * WG_M * WG_N * WG_K * WG_REPEATS) * p->rounds * w->device->sm_count;
  p->sustained = sustained;
  p->prepare = prepare_wgmma, p->launch = launch_wgmma, p->check = check_wgmma;
}

void add_tensor_probes(probe_list *list, const workbench *w) {
  if (w->device->arch >= 80) add_mma(list, w);
  if (w->device->arch != 90) return;
  add_wgmma(list, w, "burst", 1, 50, false);
  add_wgmma(list, w, "sustained", 1, 2500, true);
  add_wgmma(list, w, "zeros", 0, 2500, true);
}
