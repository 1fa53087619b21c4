/* A solution of exercise fragments: two neighbours along the reduction are a register, of a and of b. */
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "common/exercise/exercise.h"
#include "common/ptx/ptx.cuh"

enum { BM = 64, BN = 32, BK = 32, THREADS = 2 * BM, TILES = BN / 8, PITCH = BK + 8 };

/* A warp: d [16 pixels][BN filters] += a [16][BK] x b [BN][BK], transposed. sum[j] is a lane's part of the filters 8 j to 8 j + 7, as mma.sync has it:
 * element i is of row lane / 4 + 8 (i / 2) and of column 2 (lane % 4) + i % 2. */
static __device__ __forceinline__ void multiply(float (&sum)[TILES][4], const __half (*a)[PITCH], const __half (*b)[PITCH]) {
  const int lane = threadIdx.x % 32;
  const int row = lane / 4, column = 2 * (lane % 4);
#pragma unroll
  for (int l = 0; l < BK; l += 16) {
    unsigned of_a[4], of_b[2];
    for (int i = 0; i < 4; i++) of_a[i] = *(const unsigned *)&a[row + 8 * (i % 2)][l + column + 8 * (i / 2)];
#pragma unroll
    for (int j = 0; j < TILES; j++) {
      for (int i = 0; i < 2; i++) of_b[i] = *(const unsigned *)&b[8 * j + row][l + column + 8 * i];
      ptx_mma_m16n8k16(sum[j], of_a, of_b);
    }
  }
}

/* The matrix's element: the window of `pixel`, its tap and channel l; x: the group's first channel. */
static __device__ __half window_element(const conv_problem &p, const __half *x, int pixel, int l) {
  const int group_c = p.C / p.groups, c = l % group_c, s = l / group_c % p.S, r = l / group_c / p.S;
  const int n = pixel / (p.P * p.Q), in_h = pixel / p.Q % p.P * p.stride_h - p.pad_top + r * p.dil_h,
            in_w = pixel % p.Q * p.stride_w - p.pad_left + s * p.dil_w;
  const bool inside = in_h >= 0 && in_h < p.H && in_w >= 0 && in_w < p.W;
  return inside ? x[((n * p.H + in_h) * p.W + in_w) * p.C + c] : __float2half(0);
}

/* y[N*P*Q][K] = windows[N*P*Q][R*S*C] x w[K][R*S*C], transposed. A block: BM pixels x BN filters of a group; a warp: 16 x BN.
 * x: [N][H][W][C]   w: [K][R][S][C / groups]   y: [N][P][Q][K] */
__global__ void __launch_bounds__(THREADS) my_fprop_kernel(conv_problem p, const __half *x, const __half *w, __half *y) {
  __shared__ __align__(16) __half a[BM][PITCH]; /* windows */
  __shared__ __align__(16) __half b[BN][PITCH]; /* filters */
  const int group_k = p.K / p.groups, tiles_k = (group_k + BN - 1) / BN, terms = p.C / p.groups * p.R * p.S, pixels = p.N * p.P * p.Q;
  const int group = blockIdx.x / tiles_k % p.groups, first_k = blockIdx.x % tiles_k * BN, first_pixel = blockIdx.x / tiles_k / p.groups * BM;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  x += group * (p.C / p.groups);
  w += group * group_k * terms;

  float sum[TILES][4] = {};
  for (int first = 0; first < terms; first += BK) {
    const int l = first + threadIdx.x % BK; /* of every element that this thread copies */
    for (int i = threadIdx.x / BK; i < BM; i += THREADS / BK)
      a[i][l - first] = l < terms && first_pixel + i < pixels ? window_element(p, x, first_pixel + i, l) : __float2half(0);
    for (int i = threadIdx.x / BK; i < BN; i += THREADS / BK)
      b[i][l - first] = l < terms && first_k + i < group_k ? w[(first_k + i) * terms + l] : __float2half(0);
    __syncthreads(); /* windows and filters are there */
    multiply(sum, &a[16 * warp], b);
    __syncthreads(); /* nobody reads them any more */
  }
#pragma unroll
  for (int j = 0; j < TILES; j++)
#pragma unroll
    for (int i = 0; i < 4; i++) {
      const int pixel = first_pixel + 16 * warp + lane / 4 + 8 * (i / 2), k = first_k + 8 * j + 2 * (lane % 4) + i % 2;
      if (pixel < pixels && k < group_k) y[pixel * p.K + group * group_k + k] = __float2half(sum[j][i]);
    }
}

cudaError_t exercise_launch(const conv_problem *p, const conv_buffers *b, cudaStream_t stream) {
  const int tiles_k = (p->K / p->groups + BN - 1) / BN, tiles = (p->N * p->P * p->Q + BM - 1) / BM;
  my_fprop_kernel<<<tiles * p->groups * tiles_k, THREADS, 0, stream>>>(*p, (const __half *)b->x, (const __half *)b->w, (__half *)b->y);
  return cudaGetLastError();
}
