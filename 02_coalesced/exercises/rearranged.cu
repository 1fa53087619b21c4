/* Exercise rearranged: rearrange once, read often.
 *
 * Given:  fprop in NHWC with neighbouring threads on neighbouring filters. Stores of y fill their sectors, loads of x are one address for
 *         the whole warp; but each lane's filter lies R*S*C elements from the next one's, and every load of w touches 32 sectors.
 * Task:   first copy the filters into b->workspace (as large as w), in an order in which those loads fall next to each other; a second
 *         kernel, launched behind the first on the same stream, computes y from it.
 * Layout: NHWC, filters KRSC, fp32.
 * Level:  two of three stars, about 30 minutes.
 * Grade:  make exercise-rearranged       (docs/exercises.md has the text) */
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

  const int group_c = p.C / p.groups, first_c = k / (p.K / p.groups) * group_c;
  float sum = 0;
  for (int r = 0; r < p.R; r++)
    for (int s = 0; s < p.S; s++) {
      const int in_h = out_p * p.stride_h - p.pad_top + r * p.dil_h;
      const int in_w = out_q * p.stride_w - p.pad_left + s * p.dil_w;
      if (in_h < 0 || in_h >= p.H || in_w < 0 || in_w >= p.W) continue;
      for (int c = 0; c < group_c; c++) sum += x[((n * p.H + in_h) * p.W + in_w) * p.C + first_c + c] * w[((k * p.R + r) * p.S + s) * group_c + c];
    }
  y[((n * p.P + out_p) * p.Q + out_q) * p.K + k] = sum;
}

cudaError_t exercise_launch(const conv_problem *p, const conv_buffers *b, cudaStream_t stream) {
  const int outputs = p->N * p->K * p->P * p->Q;
  my_fprop_kernel<<<(outputs + THREADS - 1) / THREADS, THREADS, 0, stream>>>(*p, (const float *)b->x, (const float *)b->w, (float *)b->y);
  return cudaGetLastError();
}

/* ================================================================ your part ends here */
