/* Exercise classes: neighbours that want the same taps.
 *
 * Given:  dgrad as step 02 has it: neighbouring threads on neighbouring pixels. Right for every shape. With a stride of 2 a tap reaches every other
 *         pixel: of a warp's 32 lanes eight take part in a load, and of its rounds through the filter's rows half are for nothing.
 * Task:   number the threads so that the lanes of a warp have pixels that the same taps reach. The sum itself need not change.
 * Layout: NCHW, filters KCRS, fp32.
 * Level:  two of three stars, about 30 minutes.
 * Grade:  make exercise-classes       (docs/exercises.md has the text) */
#include <cuda_runtime.h>

#include "common/exercise/exercise.h"

enum { THREADS = 128 };

/* ================================================================ your part begins here */

/* dx[n,c,h,w] = sum over k,r,s of dy[n,k,p,q] * w[k,c,r,s]
 * dy: [N][K][P][Q]   w: [K][C / groups][R][S]   dx: [N][C][H][W] */
__global__ void __launch_bounds__(THREADS) my_dgrad_kernel(conv_problem p, const float *dy, const float *w, float *dx) {
  const int i = blockIdx.x * THREADS + threadIdx.x;
  if (i >= p.N * p.C * p.H * p.W) return;
  const int in_w = i % p.W;
  const int in_h = i / p.W % p.H;
  const int c = i / p.W / p.H % p.C;
  const int n = i / p.W / p.H / p.C;

  const int group_c = p.C / p.groups, group_k = p.K / p.groups, first_k = c / group_c * group_k;
  float sum = 0;
  for (int k = first_k; k < first_k + group_k; k++)
    for (int r = 0; r < p.R; r++)
      for (int s = 0; s < p.S; s++) {
        const int down = in_h + p.pad_top - r * p.dil_h;   /* = out_p * stride_h, if a window has this pixel under tap (r, s) */
        const int right = in_w + p.pad_left - s * p.dil_w; /* = out_q * stride_w */
        const int out_p = down / p.stride_h, out_q = right / p.stride_w;
        if (down < 0 || right < 0 || out_p * p.stride_h != down || out_q * p.stride_w != right || out_p >= p.P || out_q >= p.Q) continue;
        sum += dy[((n * p.K + k) * p.P + out_p) * p.Q + out_q] * w[((k * group_c + c % group_c) * p.R + r) * p.S + s];
      }
  dx[((n * p.C + c) * p.H + in_h) * p.W + in_w] = sum;
}

cudaError_t exercise_launch(const conv_problem *p, const conv_buffers *b, cudaStream_t stream) {
  const int outputs = p->N * p->C * p->H * p->W;
  my_dgrad_kernel<<<(outputs + THREADS - 1) / THREADS, THREADS, 0, stream>>>(*p, (const float *)b->y, (const float *)b->w, (float *)b->x);
  return cudaGetLastError();
}

/* ================================================================ your part ends here */
