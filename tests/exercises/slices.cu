/* A solution of exercise slices: slices of whole stages; the workspace is [SLICES][N][K][P][Q]. */
#include <cuda_runtime.h>

#include "common/exercise/exercise.h"

enum { BM = 32, BN = 32, BK = 16, TM = 4, TN = 4, THREADS = BM / TM * (BN / TN), PITCH = BM + 2, SLICES = 8, SUM_THREADS = 128 };

/* The matrix's element: row l of a group (its channel and tap), column `pixel`; x: the group's first channel. */
static __device__ float window_element(const conv_problem &p, const float *x, int l, int pixel) {
  const int c = l / (p.R * p.S), r = l / p.S % p.R, s = l % p.S;
  const int n = pixel / (p.P * p.Q), in_h = pixel / p.Q % p.P * p.stride_h - p.pad_top + r * p.dil_h,
            in_w = pixel % p.Q * p.stride_w - p.pad_left + s * p.dil_w;
  const bool inside = in_h >= 0 && in_h < p.H && in_w >= 0 && in_w < p.W;
  return inside ? x[((n * p.C + c) * p.H + in_h) * p.W + in_w] : 0;
}

/* parts[slice] = what slice blockIdx.y of the reduction adds to y. A block: BM filters of a group x BN pixels.
 * x: [N][C][H][W]   w: [K][C / groups][R][S]   parts: [SLICES][N][K][P][Q] */
__global__ void __launch_bounds__(THREADS) slice_kernel(conv_problem p, const float *x, const float *w, float *parts) {
  __shared__ float a[BK][PITCH]; /* filters, turned */
  __shared__ float b[BK][BN];    /* windows */
  const int group_k = p.K / p.groups, tiles_k = (group_k + BM - 1) / BM, terms = p.C / p.groups * p.R * p.S, image = p.P * p.Q, pixels = p.N * image;
  const int group = blockIdx.x / tiles_k % p.groups, first_k = blockIdx.x % tiles_k * BM, first_pixel = blockIdx.x / tiles_k / p.groups * BN;
  const int my_k = threadIdx.x / (BN / TN), my_pixel = threadIdx.x % (BN / TN); /* the first ones of TM and TN, that lie BM / TM and BN / TN apart */
  w += group * group_k * terms;
  x += group * (p.C / p.groups) * p.H * p.W;

  /* Where there are fewer stages than slices, the last ones are empty: their sums are zeros. */
  const int stages = (terms + BK - 1) / BK, each = (stages + SLICES - 1) / SLICES * BK;
  const int slice = blockIdx.y, end = min((slice + 1) * each, terms);
  float *y = parts + slice * p.K * pixels;

  float sum[TM][TN] = {};
  for (int first = slice * each; first < end; first += BK) {
    for (int i = threadIdx.x; i < BM * BK; i += THREADS) {
      const int l = i % BK, k = i / BK;
      a[l][k] = first + l < terms && first_k + k < group_k ? w[(first_k + k) * terms + first + l] : 0;
    }
    for (int i = threadIdx.x; i < BK * BN; i += THREADS) {
      const int l = i / BN, pixel = i % BN;
      b[l][pixel] = first + l < terms && first_pixel + pixel < pixels ? window_element(p, x, first + l, first_pixel + pixel) : 0;
    }
    __syncthreads(); /* filters and windows are there */
#pragma unroll
    for (int l = 0; l < BK; l++)
#pragma unroll
      for (int i = 0; i < TM; i++)
#pragma unroll
        for (int j = 0; j < TN; j++) sum[i][j] += a[l][my_k + i * (BM / TM)] * b[l][my_pixel + j * (BN / TN)];
    __syncthreads(); /* nobody reads them any more */
  }
#pragma unroll
  for (int j = 0; j < TN; j++) {
    const int pixel = first_pixel + my_pixel + j * (BN / TN), n = pixel / image;
    if (pixel >= pixels) continue;
#pragma unroll
    for (int i = 0; i < TM; i++) {
      const int k = first_k + my_k + i * (BM / TM);
      if (k < group_k) y[(n * p.K + group * group_k + k) * image + pixel % image] = sum[i][j];
    }
  }
}

/* y = the sum of all slices, first to last. A thread: one output. */
__global__ void __launch_bounds__(SUM_THREADS) add_slices_kernel(int outputs, const float *parts, float *y) {
  const int i = blockIdx.x * SUM_THREADS + threadIdx.x;
  if (i >= outputs) return;
  float sum = 0;
  for (int slice = 0; slice < SLICES; slice++) sum += parts[slice * outputs + i];
  y[i] = sum;
}

cudaError_t exercise_launch(const conv_problem *p, const conv_buffers *b, cudaStream_t stream) {
  const int tiles_k = (p->K / p->groups + BM - 1) / BM, tiles = (p->N * p->P * p->Q + BN - 1) / BN, outputs = p->N * p->K * p->P * p->Q;
  float *parts = (float *)b->workspace;
  slice_kernel<<<dim3(tiles * p->groups * tiles_k, SLICES), THREADS, 0, stream>>>(*p, (const float *)b->x, (const float *)b->w, parts);
  add_slices_kernel<<<(outputs + SUM_THREADS - 1) / SUM_THREADS, SUM_THREADS, 0, stream>>>(outputs, parts, (float *)b->y);
  return cudaGetLastError();
}
