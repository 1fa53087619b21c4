/* A solution of exercise float4: where channels come in fours, so do their addresses. */
#include <cuda_runtime.h>

#include "common/exercise/exercise.h"

enum { THREADS = 256 };

/* y[n,p,q,k] = sum over r,s,c of x[n,h,w,c] * w[k,r,s,c]
 * x: [N][H][W][C]   w: [K][R][S][C / groups]   y: [N][P][Q][K] */
__global__ void __launch_bounds__(THREADS) my_fprop_kernel(conv_problem p, const float *x, const float *w, float *y) {
  const int i = blockIdx.x * THREADS + threadIdx.x;
  if (i >= p.N * p.K * p.P * p.Q) return;
  const int k = i % p.K;
  const int out_q = i / p.K % p.Q;
  const int out_p = i / p.K / p.Q % p.P;
  const int n = i / p.K / p.Q / p.P;

  const int group_c = p.C / p.groups, first_c = k / (p.K / p.groups) * group_c;
  const bool fours = group_c % 4 == 0; /* then C and first_c are multiples of 4 too */
  float sum = 0;
  for (int r = 0; r < p.R; r++)
    for (int s = 0; s < p.S; s++) {
      const int in_h = out_p * p.stride_h - p.pad_top + r * p.dil_h;
      const int in_w = out_q * p.stride_w - p.pad_left + s * p.dil_w;
      if (in_h < 0 || in_h >= p.H || in_w < 0 || in_w >= p.W) continue;
      const float *pixel = &x[((n * p.H + in_h) * p.W + in_w) * p.C + first_c];
      const float *tap = &w[((k * p.R + r) * p.S + s) * group_c];
      int c = 0;
      for (; fours && c < group_c; c += 4) {
        const float4 a = *(const float4 *)&pixel[c], b = *(const float4 *)&tap[c];
        sum += a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w;
      }
      for (; c < group_c; c++) sum += pixel[c] * tap[c];
    }
  y[((n * p.P + out_p) * p.Q + out_q) * p.K + k] = sum;
}

cudaError_t exercise_launch(const conv_problem *p, const conv_buffers *b, cudaStream_t stream) {
  const int outputs = p->N * p->K * p->P * p->Q;
  my_fprop_kernel<<<(outputs + THREADS - 1) / THREADS, THREADS, 0, stream>>>(*p, (const float *)b->x, (const float *)b->w, (float *)b->y);
  return cudaGetLastError();
}
