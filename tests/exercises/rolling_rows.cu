/* A solution of exercise rolling-rows: eight rows a thread, whose pixels move up by one from filter row to filter row. */
#include <cuda_runtime.h>

#include "common/exercise/exercise.h"

enum { THREADS = 256, ROWS = 8 };

/* y[n,k,p,q] = sum over c,r,s of x[n,c,h,w] * w[k,c,r,s]
 * x: [N][C][H][W]   w: [K][C / groups][R][S]   y: [N][K][P][Q] */
__global__ void __launch_bounds__(THREADS) my_fprop_kernel(conv_problem p, const float *x, const float *w, float *y) {
  const int strips = (p.P + ROWS - 1) / ROWS;
  const int i = blockIdx.x * THREADS + threadIdx.x;
  if (i >= p.N * p.K * strips * p.Q) return;
  const int out_q = i % p.Q;
  const int first_p = i / p.Q % strips * ROWS;
  const int k = i / p.Q / strips % p.K;
  const int n = i / p.Q / strips / p.K;

  const int group_c = p.C / p.groups, first_c = k / (p.K / p.groups) * group_c;
  const bool rolls = p.stride_h == p.dil_h; /* then output row j+1 has under filter row r what row j has under r+1 */
  float sum[ROWS] = {};
  for (int c = 0; c < group_c; c++)
    for (int s = 0; s < p.S; s++) {
      const int in_w = out_q * p.stride_w - p.pad_left + s * p.dil_w;
      if (in_w < 0 || in_w >= p.W) continue;
      const float *column = x + (n * p.C + first_c + c) * p.H * p.W + in_w;
      float pixel[ROWS];
      for (int r = 0; r < p.R; r++) {
        const float weight = w[((k * group_c + c) * p.R + r) * p.S + s];
#pragma unroll
        for (int j = 0; j < ROWS; j++) {
          const int in_h = (first_p + j) * p.stride_h - p.pad_top + r * p.dil_h;
          if (rolls && r > 0 && j + 1 < ROWS) pixel[j] = pixel[j + 1];
          else pixel[j] = in_h >= 0 && in_h < p.H ? column[in_h * p.W] : 0;
          sum[j] += pixel[j] * weight;
        }
      }
    }
#pragma unroll
  for (int j = 0; j < ROWS; j++)
    if (first_p + j < p.P) y[((n * p.K + k) * p.P + first_p + j) * p.Q + out_q] = sum[j];
}

cudaError_t exercise_launch(const conv_problem *p, const conv_buffers *b, cudaStream_t stream) {
  const int threads = p->N * p->K * ((p->P + ROWS - 1) / ROWS) * p->Q;
  my_fprop_kernel<<<(threads + THREADS - 1) / THREADS, THREADS, 0, stream>>>(*p, (const float *)b->x, (const float *)b->w, (float *)b->y);
  return cudaGetLastError();
}
