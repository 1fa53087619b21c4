/* Exercise nhwc: the formula in another layout, for every shape.
 *
 * Given:  one thread per output; right for stride 1, no dilation, no padding, one group.
 * Task:   make it right for every stride, dilation, padding and number of groups.
 * Layout: NHWC, fp32: the channel is the axis whose neighbours lie next to each other in memory. Filters are KRSC.
 * Level:  one of three stars, about 20 minutes.
 * Grade:  make exercise-nhwc       (docs/exercises.md has the text) */
#include <cuda_runtime.h>

#include "common/exercise/exercise.h"

enum { THREADS = 256 };

/* ================================================================ your part begins here */

/* y[n,p,q,k] = sum over r,s,c of x[n,h,w,c] * w[k,r,s,c]
 * x: [N][H][W][C]   w: [K][R][S][C / groups]   y: [N][P][Q][K] */
__global__ void __launch_bounds__(THREADS) my_fprop_kernel(conv_problem p, const float *x, const float *w, float *y) {
  const int i = blockIdx.x * THREADS + threadIdx.x;
  if (i >= p.N * p.K * p.P * p.Q) return;
  const int k = i % p.K;
  const int out_q = i / p.K % p.Q;
  const int out_p = i / p.K / p.Q % p.P;
  const int n = i / p.K / p.Q / p.P;

  float sum = 0;
  for (int r = 0; r < p.R; r++)
    for (int s = 0; s < p.S; s++)
      for (int c = 0; c < p.C; c++) {
        const int in_h = out_p + r;
        const int in_w = out_q + s;
        sum += x[((n * p.H + in_h) * p.W + in_w) * p.C + c] * w[((k * p.R + r) * p.S + s) * p.C + c];
      }
  y[((n * p.P + out_p) * p.Q + out_q) * p.K + k] = sum;
}

/* ================================================================ your part ends here */

cudaError_t exercise_launch(const conv_problem *p, const conv_buffers *b, cudaStream_t stream) {
  const int outputs = p->N * p->K * p->P * p->Q;
  my_fprop_kernel<<<(outputs + THREADS - 1) / THREADS, THREADS, 0, stream>>>(*p, (const float *)b->x, (const float *)b->w, (float *)b->y);
  return cudaGetLastError();
}
