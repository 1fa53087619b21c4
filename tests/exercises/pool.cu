/* A solution of exercise pool: a block computes the outputs under its tile of results, rim included, and pools them in shared memory. */
#include <cuda_runtime.h>

#include "common/exercise/exercise.h"

enum { THREADS = 128, TILE_P = 8, TILE_Q = 16, ROWS = 2 * TILE_P + 1, COLS = 2 * TILE_Q + 1 }; /* results of a block; outputs under them */

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

/* x: [N][C][H][W]   w: [K][C / groups][R][S]   to: [N][K][(P + 1) / 2][(Q + 1) / 2] */
__global__ void __launch_bounds__(THREADS) my_pooled_kernel(conv_problem p, const float *x, const float *w, float *to) {
  __shared__ float tile[ROWS][COLS];
  const int pooled_p = (p.P + 1) / 2, pooled_q = (p.Q + 1) / 2, tiles_p = (pooled_p + TILE_P - 1) / TILE_P, tiles_q = (pooled_q + TILE_Q - 1) / TILE_Q;
  const int first_q = blockIdx.x % tiles_q * TILE_Q, first_p = blockIdx.x / tiles_q % tiles_p * TILE_P, plane = blockIdx.x / tiles_q / tiles_p;
  for (int i = threadIdx.x; i < ROWS * COLS; i += THREADS) {
    const int out_p = 2 * first_p - 1 + i / COLS, out_q = 2 * first_q - 1 + i % COLS;
    const bool exists = out_p >= 0 && out_p < p.P && out_q >= 0 && out_q < p.Q;
    tile[i / COLS][i % COLS] = exists ? output_of(p, x, w, plane / p.K, plane % p.K, out_p, out_q) : 0; /* no output is less */
  }
  __syncthreads(); /* the outputs are there */
  const int at_p = threadIdx.x / TILE_Q, at_q = threadIdx.x % TILE_Q;
  if (first_p + at_p >= pooled_p || first_q + at_q >= pooled_q) return;
  float most = 0;
  for (int i = 0; i < 3; i++)
    for (int j = 0; j < 3; j++) most = fmaxf(most, tile[2 * at_p + i][2 * at_q + j]);
  to[(plane * pooled_p + first_p + at_p) * pooled_q + first_q + at_q] = most;
}

cudaError_t exercise_launch(const conv_problem *p, const conv_buffers *b, cudaStream_t stream) {
  const int tiles_p = ((p->P + 1) / 2 + TILE_P - 1) / TILE_P, tiles_q = ((p->Q + 1) / 2 + TILE_Q - 1) / TILE_Q;
  my_pooled_kernel<<<p->N * p->K * tiles_p * tiles_q, THREADS, 0, stream>>>(*p, (const float *)b->x, (const float *)b->w, (float *)b->y);
  return cudaGetLastError();
}
