/* A solution of exercise fixed-order: 32 parts of whole rows, added up first to last. */
#include <cuda_runtime.h>

#include "common/exercise/exercise.h"

enum { THREADS = 128, PARTS = 32 };

/* dw[k,r,s,c] = sum over n,p,q of dy[n,p,q,k] * x[n,h,w,c]
 * part t of it: output rows t, t + PARTS, ... of all images, counted through; parts[PARTS][R][S][C / groups][K].
 * x: [N][H][W][C]   dy: [N][P][Q][K] */
__global__ void __launch_bounds__(THREADS) my_wgrad_kernel(conv_problem p, const float *x, const float *dy, float *parts) {
  const int group_c = p.C / p.groups;
  const int i = blockIdx.x * THREADS + threadIdx.x;
  if (i >= p.K * p.R * p.S * group_c) return;
  const int k = i % p.K; /* neighbouring threads: neighbouring channels of dy */
  const int c = i / p.K % group_c;
  const int s = i / p.K / group_c % p.S;
  const int r = i / p.K / group_c / p.S;
  const int in_c = k / (p.K / p.groups) * group_c + c;

  float sum = 0;
  for (int row = blockIdx.y; row < p.N * p.P; row += PARTS) {
    const int n = row / p.P, out_p = row % p.P;
    for (int out_q = 0; out_q < p.Q; out_q++) {
      const int in_h = out_p * p.stride_h - p.pad_top + r * p.dil_h;
      const int in_w = out_q * p.stride_w - p.pad_left + s * p.dil_w;
      if (in_h < 0 || in_h >= p.H || in_w < 0 || in_w >= p.W) continue;
      sum += dy[((n * p.P + out_p) * p.Q + out_q) * p.K + k] * x[((n * p.H + in_h) * p.W + in_w) * p.C + in_c];
    }
  }
  parts[blockIdx.y * p.K * p.R * p.S * group_c + i] = sum;
}

/* dw = the sum of all parts. A thread: one element. */
__global__ void __launch_bounds__(THREADS) add_parts_kernel(conv_problem p, const float *parts, float *dw) {
  const int group_c = p.C / p.groups, elements = p.K * p.R * p.S * group_c;
  const int i = blockIdx.x * THREADS + threadIdx.x;
  if (i >= elements) return;
  float sum = 0;
  for (int part = 0; part < PARTS; part++) sum += parts[part * elements + i];
  const int k = i % p.K, c = i / p.K % group_c, tap = i / p.K / group_c;
  dw[(k * p.R * p.S + tap) * group_c + c] = sum;
}

cudaError_t exercise_launch(const conv_problem *p, const conv_buffers *b, cudaStream_t stream) {
  const int elements = p->K * p->R * p->S * (p->C / p->groups), blocks = (elements + THREADS - 1) / THREADS;
  float *parts = (float *)b->workspace;
  my_wgrad_kernel<<<dim3(blocks, PARTS), THREADS, 0, stream>>>(*p, (const float *)b->x, (const float *)b->y, parts);
  add_parts_kernel<<<blocks, THREADS, 0, stream>>>(*p, parts, (float *)b->w);
  return cudaGetLastError();
}
