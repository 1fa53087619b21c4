/* Exercise fixed-order: a gradient divided, and added up in one order.
 *
 * Given:  wgrad, a thread for each filter element: a depthwise layer of 32 channels has 288 of them, and each adds up all pixels of all images.
 * Task:   divide every sum over many threads, and add their parts in an order that is the same in every run: no atomics. b->workspace has room for
 *         64 times dw; a second kernel may add up.
 * Layout: NHWC, filters KRSC, fp32.
 * Level:  two of three stars, about 40 minutes.
 * Grade:  make exercise-fixed-order       (docs/exercises.md has the text) */
#include <cuda_runtime.h>

#include "common/exercise/exercise.h"

enum { THREADS = 128 };

/* ================================================================ your part begins here */

/* dw[k,r,s,c] = sum over n,p,q of dy[n,p,q,k] * x[n,h,w,c]
 * x: [N][H][W][C]   dy: [N][P][Q][K]   dw: [K][R][S][C / groups] */
__global__ void __launch_bounds__(THREADS) my_wgrad_kernel(conv_problem p, const float *x, const float *dy, float *dw) {
  const int group_c = p.C / p.groups;
  const int i = blockIdx.x * THREADS + threadIdx.x;
  if (i >= p.K * p.R * p.S * group_c) return;
  const int k = i % p.K; /* neighbouring threads: neighbouring channels of dy */
  const int c = i / p.K % group_c;
  const int s = i / p.K / group_c % p.S;
  const int r = i / p.K / group_c / p.S;
  const int in_c = k / (p.K / p.groups) * group_c + c;

  float sum = 0;
  for (int n = 0; n < p.N; n++)
    for (int out_p = 0; out_p < p.P; out_p++)
      for (int out_q = 0; out_q < p.Q; out_q++) {
        const int in_h = out_p * p.stride_h - p.pad_top + r * p.dil_h;
        const int in_w = out_q * p.stride_w - p.pad_left + s * p.dil_w;
        if (in_h < 0 || in_h >= p.H || in_w < 0 || in_w >= p.W) continue;
        sum += dy[((n * p.P + out_p) * p.Q + out_q) * p.K + k] * x[((n * p.H + in_h) * p.W + in_w) * p.C + in_c];
      }
  dw[((k * p.R + r) * p.S + s) * group_c + c] = sum;
}

cudaError_t exercise_launch(const conv_problem *p, const conv_buffers *b, cudaStream_t stream) {
  const int elements = p->K * p->R * p->S * (p->C / p->groups);
  my_wgrad_kernel<<<(elements + THREADS - 1) / THREADS, THREADS, 0, stream>>>(*p, (const float *)b->x, (const float *)b->y, (float *)b->w);
  return cudaGetLastError();
}

/* ================================================================ your part ends here */
