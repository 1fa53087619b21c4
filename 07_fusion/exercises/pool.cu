/* Exercise pool: a layer and its pooling.
 *
 * Given:  two kernels: y = max(0, fprop), written to b->workspace; then max-pooling with windows of 3 x 3, stride 2, padding 1 (which takes no part).
 *         What lies between is four times as large as the result.
 * Task:   one kernel that writes the pooled result alone. Windows overlap: do not compute twice what two of them see, but for the rim of a tile.
 * Layout: NCHW, filters KCRS, fp32. The result: [N][K][(P + 1) / 2][(Q + 1) / 2].
 * Level:  three of three stars, about 60 minutes.
 * Grade:  make exercise-pool       (docs/exercises.md has the text) */
#include <cuda_runtime.h>

#include "common/exercise/exercise.h"

enum { THREADS = 128 };

/* ================================================================ your part begins here */

/* One output of the layer, after its ReLU. */
static __device__ float output_of(const conv_problem &p, const float *x, const float *w, int n, int k, int out_p, int out_q) {
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
  return fmaxf(sum, 0);
}

/* x: [N][C][H][W]   w: [K][C / groups][R][S]   y: [N][K][P][Q] */
__global__ void __launch_bounds__(THREADS) my_fprop_kernel(conv_problem p, const float *x, const float *w, float *y) {
  const int i = blockIdx.x * THREADS + threadIdx.x;
  if (i >= p.N * p.K * p.P * p.Q) return;
  y[i] = output_of(p, x, w, i / p.Q / p.P / p.K, i / p.Q / p.P % p.K, i / p.Q % p.P, i % p.Q);
}

/* y: [N][K][P][Q]   to: [N][K][(P + 1) / 2][(Q + 1) / 2] */
__global__ void __launch_bounds__(THREADS) pool_kernel(conv_problem p, const float *y, float *to) {
  const int pooled_p = (p.P + 1) / 2, pooled_q = (p.Q + 1) / 2;
  const int i = blockIdx.x * THREADS + threadIdx.x;
  if (i >= p.N * p.K * pooled_p * pooled_q) return;
  const float *plane = y + i / pooled_q / pooled_p * p.P * p.Q;
  const int first_p = i / pooled_q % pooled_p * 2 - 1, first_q = i % pooled_q * 2 - 1;
  float most = 0; /* no output is less */
  for (int out_p = max(first_p, 0); out_p < min(first_p + 3, p.P); out_p++)
    for (int out_q = max(first_q, 0); out_q < min(first_q + 3, p.Q); out_q++) most = fmaxf(most, plane[out_p * p.Q + out_q]);
  to[i] = most;
}

cudaError_t exercise_launch(const conv_problem *p, const conv_buffers *b, cudaStream_t stream) {
  const int outputs = p->N * p->K * p->P * p->Q, results = p->N * p->K * ((p->P + 1) / 2) * ((p->Q + 1) / 2);
  float *y = (float *)b->workspace;
  my_fprop_kernel<<<(outputs + THREADS - 1) / THREADS, THREADS, 0, stream>>>(*p, (const float *)b->x, (const float *)b->w, y);
  pool_kernel<<<(results + THREADS - 1) / THREADS, THREADS, 0, stream>>>(*p, y, (float *)b->y);
  return cudaGetLastError();
}

/* ================================================================ your part ends here */
