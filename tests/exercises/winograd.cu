/* A solution of exercise winograd: d are four pixels of a row, g three taps, m their products. */
#include <cuda_runtime.h>

#include "common/exercise/exercise.h"

enum { THREADS = 128 };

/* y[n,k,p,q] = sum over c,r,s of x[n,c,h,w] * w[k,c,r,s]. A thread: outputs q and q + 1.
 * x: [N][C][H][W]   w: [K][C / groups][R][S]   y: [N][K][P][Q] */
__global__ void __launch_bounds__(THREADS) plain_fprop_kernel(conv_problem p, const float *x, const float *w, float *y) {
  const int pairs = (p.Q + 1) / 2;
  const int i = blockIdx.x * THREADS + threadIdx.x;
  if (i >= p.N * p.K * p.P * pairs) return;
  const int first_q = i % pairs * 2;
  const int out_p = i / pairs % p.P;
  const int k = i / pairs / p.P % p.K;
  const int n = i / pairs / p.P / p.K;

  const int group_c = p.C / p.groups, first_c = k / (p.K / p.groups) * group_c;
  float sum[2] = {};
  for (int c = 0; c < group_c; c++)
    for (int r = 0; r < p.R; r++) {
      const int in_h = out_p * p.stride_h - p.pad_top + r * p.dil_h;
      if (in_h < 0 || in_h >= p.H) continue;
      const float *row = &x[((n * p.C + first_c + c) * p.H + in_h) * p.W], *taps = &w[((k * group_c + c) * p.R + r) * p.S];
      for (int s = 0; s < p.S; s++)
        for (int j = 0; j < 2; j++) {
          const int in_w = (first_q + j) * p.stride_w - p.pad_left + s * p.dil_w;
          if (in_w >= 0 && in_w < p.W && first_q + j < p.Q) sum[j] += row[in_w] * taps[s];
        }
    }
  for (int j = 0; j < 2 && first_q + j < p.Q; j++) y[((n * p.K + k) * p.P + out_p) * p.Q + first_q + j] = sum[j];
}

/* u[k,c,r] = the four factors that m0 to m3 have from the taps. A thread: one row of a filter. u: [K][C / groups][R][4] */
__global__ void __launch_bounds__(THREADS) transform_kernel(int rows, const float *w, float4 *u) {
  const int i = blockIdx.x * THREADS + threadIdx.x;
  if (i >= rows) return;
  const float g0 = w[3 * i], g1 = w[3 * i + 1], g2 = w[3 * i + 2];
  u[i] = make_float4(g0, 0.5f * (g0 + g1 + g2), 0.5f * (g0 - g1 + g2), g2);
}

/* As plain_fprop_kernel, for S = 3 and, along the rows, stride 1 and no dilation. The sums are those of m. */
__global__ void __launch_bounds__(THREADS) winograd_fprop_kernel(conv_problem p, const float *x, const float4 *u, float *y) {
  const int pairs = (p.Q + 1) / 2;
  const int i = blockIdx.x * THREADS + threadIdx.x;
  if (i >= p.N * p.K * p.P * pairs) return;
  const int first_q = i % pairs * 2;
  const int out_p = i / pairs % p.P;
  const int k = i / pairs / p.P % p.K;
  const int n = i / pairs / p.P / p.K;

  const int group_c = p.C / p.groups, first_c = k / (p.K / p.groups) * group_c;
  float m0 = 0, m1 = 0, m2 = 0, m3 = 0;
  for (int c = 0; c < group_c; c++)
    for (int r = 0; r < p.R; r++) {
      const int in_h = out_p * p.stride_h - p.pad_top + r * p.dil_h;
      if (in_h < 0 || in_h >= p.H) continue;
      const float *row = &x[((n * p.C + first_c + c) * p.H + in_h) * p.W];
      const float4 taps = u[(k * group_c + c) * p.R + r];
      float d[4];
#pragma unroll
      for (int j = 0; j < 4; j++) {
        const int in_w = first_q - p.pad_left + j;
        d[j] = in_w >= 0 && in_w < p.W ? row[in_w] : 0;
      }
      m0 += (d[0] - d[2]) * taps.x;
      m1 += (d[1] + d[2]) * taps.y;
      m2 += (d[2] - d[1]) * taps.z;
      m3 += (d[1] - d[3]) * taps.w;
    }
  float *out = &y[((n * p.K + k) * p.P + out_p) * p.Q + first_q];
  out[0] = m0 + m1 + m2;
  if (first_q + 1 < p.Q) out[1] = m1 - m2 - m3;
}

cudaError_t exercise_launch(const conv_problem *p, const conv_buffers *b, cudaStream_t stream) {
  const int threads = p->N * p->K * p->P * ((p->Q + 1) / 2), blocks = (threads + THREADS - 1) / THREADS;
  if (p->S == 3 && p->stride_w == 1 && p->dil_w == 1) {
    const int rows = p->K * (p->C / p->groups) * p->R;
    float4 *u = (float4 *)b->workspace;
    transform_kernel<<<(rows + THREADS - 1) / THREADS, THREADS, 0, stream>>>(rows, (const float *)b->w, u);
    winograd_fprop_kernel<<<blocks, THREADS, 0, stream>>>(*p, (const float *)b->x, u, (float *)b->y);
    return cudaGetLastError();
  }
  plain_fprop_kernel<<<blocks, THREADS, 0, stream>>>(*p, (const float *)b->x, (const float *)b->w, (float *)b->y);
  return cudaGetLastError();
}
