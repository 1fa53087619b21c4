/* Exercise constant: one element for all lanes.
 *
 * Given:  step 02's fprop kernel. Half of its loads fetch filter elements from global memory.
 * Task:   read them from constant memory where the filters fit its 64 KiB, and let all lanes of a warp want the same element at the same time:
 *         the constant cache serves one element after the other. Larger filters: the kernel as it is.
 * Layout: NCHW, filters KCRS, fp32. A copy on the device to a __constant__ array may be launched beside the kernel: cudaMemcpyToSymbolAsync.
 * Level:  one of three stars, about 20 minutes.
 * Grade:  make exercise-constant       (docs/exercises.md has the text) */
#include <cuda_runtime.h>

#include "common/exercise/exercise.h"

enum { THREADS = 128 };

/* ================================================================ your part begins here */

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

cudaError_t exercise_launch(const conv_problem *p, const conv_buffers *b, cudaStream_t stream) {
  const int outputs = p->N * p->K * p->P * p->Q;
  plain_fprop_kernel<<<(outputs + THREADS - 1) / THREADS, THREADS, 0, stream>>>(*p, (const float *)b->x, (const float *)b->w, (float *)b->y);
  return cudaGetLastError();
}

/* ================================================================ your part ends here */
