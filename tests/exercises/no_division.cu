/* A solution of exercise no-division: a thread copies for one and the same pixel all the time, and counts the taps on. */
#include <cuda_runtime.h>

#include "common/exercise/exercise.h"

enum { BM = 32, BN = 32, BK = 16, TM = 4, TN = 4, THREADS = BM / TM * (BN / TN), PITCH = BM + 2, AT_ONCE = THREADS / BN };

/* y[K][N*P*Q] = w[K][C*R*S] x windows[C*R*S][N*P*Q]. A block: BM filters of a group x BN pixels.
 * x: [N][C][H][W]   w: [K][C / groups][R][S]   y: [N][K][P][Q] */
__global__ void __launch_bounds__(THREADS) my_fprop_kernel(conv_problem p, const float *x, const float *w, float *y) {
  __shared__ float a[BK][PITCH]; /* filters, turned */
  __shared__ float b[BK][BN];    /* windows */
  const int group_k = p.K / p.groups, tiles_k = (group_k + BM - 1) / BM, terms = p.C / p.groups * p.R * p.S, image = p.P * p.Q, pixels = p.N * image;
  const int group = blockIdx.x / tiles_k % p.groups, first_k = blockIdx.x % tiles_k * BM, first_pixel = blockIdx.x / tiles_k / p.groups * BN;
  const int my_k = threadIdx.x / (BN / TN), my_pixel = threadIdx.x % (BN / TN); /* the first ones of TM and TN, that lie BM / TM and BN / TN apart */
  w += group * group_k * terms;
  x += group * (p.C / p.groups) * p.H * p.W;

  /* The thread's pixel of a window, and the row's channel and tap: row l of every BK, then l + AT_ONCE, ... */
  const int column = threadIdx.x % BN, pixel = first_pixel + column, first_l = threadIdx.x / BN;
  const int top = pixel / p.Q % p.P * p.stride_h - p.pad_top, left = pixel % p.Q * p.stride_w - p.pad_left;
  int c = first_l / (p.R * p.S), r = first_l / p.S % p.R, s = first_l % p.S;
  x += pixel / image * p.C * p.H * p.W;

  float sum[TM][TN] = {};
  for (int first = 0; first < terms; first += BK) {
    for (int i = threadIdx.x; i < BM * BK; i += THREADS) {
      const int l = i % BK, k = i / BK;
      a[l][k] = first + l < terms && first_k + k < group_k ? w[(first_k + k) * terms + first + l] : 0;
    }
    for (int l = first_l; l < BK; l += AT_ONCE) {
      const int in_h = top + r * p.dil_h, in_w = left + s * p.dil_w;
      const bool inside = first + l < terms && pixel < pixels && in_h >= 0 && in_h < p.H && in_w >= 0 && in_w < p.W;
      b[l][column] = inside ? x[(c * p.H + in_h) * p.W + in_w] : 0;
      for (s += AT_ONCE; s >= p.S; s -= p.S)
        if (++r == p.R) r = 0, c++;
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

cudaError_t exercise_launch(const conv_problem *p, const conv_buffers *b, cudaStream_t stream) {
  const int tiles_k = (p->K / p->groups + BM - 1) / BM, tiles = (p->N * p->P * p->Q + BN - 1) / BN;
  my_fprop_kernel<<<tiles * p->groups * tiles_k, THREADS, 0, stream>>>(*p, (const float *)b->x, (const float *)b->w, (float *)b->y);
  return cudaGetLastError();
}
