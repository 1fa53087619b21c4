/* A solution of exercise constant: a block has pixels of one output channel only. */
#include <cuda_runtime.h>

#include "common/exercise/exercise.h"

enum { THREADS = 128, MOST_FILTERS = 64 * 1024 / 4 };

static __constant__ float constant_w[MOST_FILTERS]; /* [K][C / groups][R][S] */

/* y[n,k,p,q] = sum over c,r,s of x[n,c,h,w] * w[k,c,r,s]
 * x: [N][C][H][W]   w: [K][C / groups][R][S]   y: [N][K][P][Q] */
__global__ void __launch_bounds__(THREADS) plain_fprop_kernel(conv_problem p, const float *x, const float *w, float *y) {
  const int i = blockIdx.x * THREADS + threadIdx.x;
  if (i >= p.N * p.K * p.P * p.Q) return;
  const int out_q = i % p.Q;
  const int out_p = i / p.Q % p.P;
  const int k = i / p.Q / p.P % p.K;
  const int n = i / p.Q / p.P / p.K;

  const int group_c = p.C / p.groups, first_c = k / (p.K / p.groups) * group_c;
  float sum = 0;
  for (int c = 0; c < group_c; c++)
    for (int r = 0; r < p.R; r++)
      for (int s = 0; s < p.S; s++) {
        const int in_h = out_p * p.stride_h - p.pad_top + r * p.dil_h;
        const int in_w = out_q * p.stride_w - p.pad_left + s * p.dil_w;
        if (in_h < 0 || in_h >= p.H || in_w < 0 || in_w >= p.W) continue;
        sum += x[((n * p.C + first_c + c) * p.H + in_h) * p.W + in_w] * w[((k * group_c + c) * p.R + r) * p.S + s];
      }
  y[((n * p.K + k) * p.P + out_p) * p.Q + out_q] = sum;
}

/* The same from constant_w. A block: pixels of one image and output channel. */
__global__ void __launch_bounds__(THREADS) constant_fprop_kernel(conv_problem p, const float *x, float *y) {
  const int parts = (p.P * p.Q + THREADS - 1) / THREADS;
  const int i = blockIdx.x % parts * THREADS + threadIdx.x;
  if (i >= p.P * p.Q) return;
  const int out_q = i % p.Q, out_p = i / p.Q, k = blockIdx.x / parts % p.K, n = blockIdx.x / parts / p.K;

  const int group_c = p.C / p.groups, first_c = k / (p.K / p.groups) * group_c;
  float sum = 0;
  for (int c = 0; c < group_c; c++)
    for (int r = 0; r < p.R; r++)
      for (int s = 0; s < p.S; s++) {
        const int in_h = out_p * p.stride_h - p.pad_top + r * p.dil_h;
        const int in_w = out_q * p.stride_w - p.pad_left + s * p.dil_w;
        if (in_h < 0 || in_h >= p.H || in_w < 0 || in_w >= p.W) continue;
        sum += x[((n * p.C + first_c + c) * p.H + in_h) * p.W + in_w] * constant_w[((k * group_c + c) * p.R + r) * p.S + s];
      }
  y[((n * p.K + k) * p.P + out_p) * p.Q + out_q] = sum;
}

cudaError_t exercise_launch(const conv_problem *p, const conv_buffers *b, cudaStream_t stream) {
  const int filters = p->K * (p->C / p->groups) * p->R * p->S;
  if (filters <= MOST_FILTERS) {
    const cudaError_t status = cudaMemcpyToSymbolAsync(constant_w, b->w, filters * sizeof(float), 0, cudaMemcpyDeviceToDevice, stream);
    if (status) return status;
    constant_fprop_kernel<<<(p->P * p->Q + THREADS - 1) / THREADS * p->N * p->K, THREADS, 0, stream>>>(*p, (const float *)b->x, (float *)b->y);
    return cudaGetLastError();
  }
  const int outputs = p->N * p->K * p->P * p->Q;
  plain_fprop_kernel<<<(outputs + THREADS - 1) / THREADS, THREADS, 0, stream>>>(*p, (const float *)b->x, (const float *)b->w, (float *)b->y);
  return cudaGetLastError();
}
