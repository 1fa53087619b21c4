/* A solution of exercise epilogue. */
#include <cuda_runtime.h>

#include "common/exercise/exercise.h"

enum { THREADS = 256 };

/* What happens to a sum: a value for each channel, or for each element; NULL: nothing. */
typedef struct finish {
  const float *scale, *bias, *residual;
} finish;

/* y[n,p,q,k] = sum over r,s,c of x[n,h,w,c] * w[k,r,s,c], finished
 * x: [N][H][W][C]   w: [K][R][S][C / groups]   y, residual: [N][P][Q][K] */
__global__ void __launch_bounds__(THREADS) my_fprop_kernel(conv_problem p, const float *x, const float *w, finish f, float *y) {
  const int i = blockIdx.x * THREADS + threadIdx.x;
  if (i >= p.N * p.K * p.P * p.Q) return;
  const int k = i % p.K;
  const int out_q = i / p.K % p.Q;
  const int out_p = i / p.K / p.Q % p.P;
  const int n = i / p.K / p.Q / p.P;

  const int group_c = p.C / p.groups, first_c = k / (p.K / p.groups) * group_c;
  float sum = 0;
  for (int r = 0; r < p.R; r++)
    for (int s = 0; s < p.S; s++) {
      const int in_h = out_p * p.stride_h - p.pad_top + r * p.dil_h;
      const int in_w = out_q * p.stride_w - p.pad_left + s * p.dil_w;
      if (in_h < 0 || in_h >= p.H || in_w < 0 || in_w >= p.W) continue;
      for (int c = 0; c < group_c; c++) sum += x[((n * p.H + in_h) * p.W + in_w) * p.C + first_c + c] * w[((k * p.R + r) * p.S + s) * group_c + c];
    }
  if (f.scale) sum *= f.scale[k];
  if (f.bias) sum += f.bias[k];
  if (f.residual) sum += f.residual[i];
  y[i] = fmaxf(sum, 0);
}

cudaError_t exercise_launch(const conv_problem *p, const conv_buffers *b, cudaStream_t stream) {
  const int outputs = p->N * p->K * p->P * p->Q;
  const finish f = {b->scale, b->bias, (const float *)b->residual};
  my_fprop_kernel<<<(outputs + THREADS - 1) / THREADS, THREADS, 0, stream>>>(*p, (const float *)b->x, (const float *)b->w, f, (float *)b->y);
  return cudaGetLastError();
}
