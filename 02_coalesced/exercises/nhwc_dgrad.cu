/* Exercise nhwc-dgrad: coalesced in another layout.
 *
 * Given:  dgrad numbered as in 02a: neighbouring threads on neighbouring pixels. Right for every shape; but the layout is NHWC.
 * Task:   number the threads so that a warp's loads and stores fall next to each other. The sum itself need not change.
 * Layout: NHWC, fp32: the channel is the axis whose neighbours lie next to each other in memory. Filters are KRSC.
 * Level:  one of three stars, about 20 minutes.
 * Grade:  make exercise-nhwc-dgrad       (docs/exercises.md has the text) */
#include <cuda_runtime.h>

#include "common/exercise/exercise.h"

enum { THREADS = 256 };

/* ================================================================ your part begins here */

/* dx[n,h,w,c] = sum over k,r,s of dy[n,p,q,k] * w[k,r,s,c]
 * dy: [N][P][Q][K]   w: [K][R][S][C / groups]   dx: [N][H][W][C] */
__global__ void __launch_bounds__(THREADS) my_dgrad_kernel(conv_problem p, const float *dy, const float *w, float *dx) {
  const int i = blockIdx.x * THREADS + threadIdx.x;
  if (i >= p.N * p.C * p.H * p.W) return;
  const int in_w = i % p.W;
  const int in_h = i / p.W % p.H;
  const int c = i / p.W / p.H % p.C;
  const int n = i / p.W / p.H / p.C;

  const int group_c = p.C / p.groups, group_k = p.K / p.groups, first_k = c / group_c * group_k;
  float sum = 0;
  for (int r = 0; r < p.R; r++)
    for (int s = 0; s < p.S; s++) {
      const int down = in_h + p.pad_top - r * p.dil_h;   /* = out_p * stride_h, if a window has this pixel under tap (r, s) */
      const int right = in_w + p.pad_left - s * p.dil_w; /* = out_q * stride_w */
      const int out_p = down / p.stride_h, out_q = right / p.stride_w;
      if (down < 0 || right < 0 || out_p * p.stride_h != down || out_q * p.stride_w != right || out_p >= p.P || out_q >= p.Q) continue;
      for (int k = first_k; k < first_k + group_k; k++)
        sum += dy[((n * p.P + out_p) * p.Q + out_q) * p.K + k] * w[((k * p.R + r) * p.S + s) * group_c + c % group_c];
    }
  dx[((n * p.H + in_h) * p.W + in_w) * p.C + c] = sum;
}

/* ================================================================ your part ends here */

cudaError_t exercise_launch(const conv_problem *p, const conv_buffers *b, cudaStream_t stream) {
  const int outputs = p->N * p->C * p->H * p->W;
  my_dgrad_kernel<<<(outputs + THREADS - 1) / THREADS, THREADS, 0, stream>>>(*p, (const float *)b->y, (const float *)b->w, (float *)b->x);
  return cudaGetLastError();
}
