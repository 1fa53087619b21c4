/* Exercise winograd: six products by four multiplications.
 *
 * Given:  fprop, two neighbouring outputs a thread: of a filter row of three taps they are six products, and the kernel multiplies six times.
 * Task:   for filters three taps wide, stride 1 and no dilation along the rows, compute the two by Winograd's F(2, 3): four multiplications. What it makes of
 *         the taps is the same for all pixels: a first kernel works it out, once, into b->workspace (twice as large as w). Other filters: as they are.
 * Layout: NCHW, filters KCRS, fp32.
 * Level:  three of three stars, about 60 minutes.
 * Grade:  make exercise-winograd       (docs/exercises.md has the text) */
#include <cuda_runtime.h>

#include "common/exercise/exercise.h"

enum { THREADS = 128 };

/* ================================================================ your part begins here */

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

cudaError_t exercise_launch(const conv_problem *p, const conv_buffers *b, cudaStream_t stream) {
  const int threads = p->N * p->K * p->P * ((p->Q + 1) / 2), blocks = (threads + THREADS - 1) / THREADS;
  plain_fprop_kernel<<<blocks, THREADS, 0, stream>>>(*p, (const float *)b->x, (const float *)b->w, (float *)b->y);
  return cudaGetLastError();
}

/* ================================================================ your part ends here */
