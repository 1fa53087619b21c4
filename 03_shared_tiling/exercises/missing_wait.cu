/* Exercise missing-wait: a pipeline that waits for too little.
 *
 * Given:  fprop through shared memory by cp.async, a ring of four stages: three are on their way while one is computed. Results are right if every
 *         copy arrives at once and no thread runs ahead. They need not: a stage may be read before it is there, and filled while it is read.
 * Task:   find both places and mend them; copies must go on running ahead, and one barrier a stage is enough.
 * Layout: NCHW, filters KCRS, fp32.
 * Needs:  compute capability 8.0 (the emulator has it).
 * Level:  two of three stars, about 30 minutes.
 * Grade:  make exercise-missing-wait       (docs/exercises.md has the text) */
#include <cuda_pipeline.h>
#include <cuda_runtime.h>

#include "common/exercise/exercise.h"

enum { OUTPUTS = 64, STAGES = 4 }; /* OUTPUTS of a block: a piece of one row of y, an output a thread */

/* ================================================================ your part begins here */

/* A block: OUTPUTS pixels of row `out_p` of one output channel. A stage: a channel's filter row, and the image row under it.
 * x: [N][C][H][W]   w: [K][C / groups][R][S]   y: [N][K][P][Q] */
__global__ void __launch_bounds__(OUTPUTS) my_fprop_kernel(conv_problem p, int width, const float *x, const float *w, float *y) {
  extern __shared__ float shared[]; /* [STAGES][width + S]: pixels, then weights */
  const int pieces = (p.Q + OUTPUTS - 1) / OUTPUTS, first_q = blockIdx.x % pieces * OUTPUTS, out_p = blockIdx.x / pieces % p.P;
  const int k = blockIdx.x / pieces / p.P % p.K, n = blockIdx.x / pieces / p.P / p.K, out_q = first_q + threadIdx.x;
  const int group_c = p.C / p.groups, first_c = k / (p.K / p.groups) * group_c;
  const int stages = group_c * p.R;

  /* Starts the copies of a stage into its place of the ring. A copy of 4 bytes of which 4 are zeros reads nothing. */
  const auto copy = [&](int stage) {
    const int c = stage / p.R, r = stage % p.R, in_h = out_p * p.stride_h - p.pad_top + r * p.dil_h;
    float *pixels = shared + stage % STAGES * (width + p.S), *weights = pixels + width;
    for (int i = threadIdx.x; i < width; i += OUTPUTS) {
      const int in_w = first_q * p.stride_w - p.pad_left + i;
      const bool inside = in_h >= 0 && in_h < p.H && in_w >= 0 && in_w < p.W;
      __pipeline_memcpy_async(&pixels[i], inside ? &x[((n * p.C + first_c + c) * p.H + in_h) * p.W + in_w] : x, 4, inside ? 0 : 4);
    }
    for (int s = threadIdx.x; s < p.S; s += OUTPUTS) __pipeline_memcpy_async(&weights[s], &w[((k * group_c + c) * p.R + r) * p.S + s], 4);
    __pipeline_commit();
  };

  float sum = 0;
  for (int stage = 0; stage < STAGES - 1 && stage < stages; stage++) copy(stage);
  for (int stage = 0; stage < stages; stage++) {
    if (stage + STAGES - 1 < stages) copy(stage + STAGES - 1);
    __pipeline_wait_prior(STAGES - 1); /* all groups but the last three are there */
    __syncthreads();
    const float *pixels = shared + stage % STAGES * (width + p.S), *weights = pixels + width;
    for (int s = 0; s < p.S; s++) sum += pixels[threadIdx.x * p.stride_w + s * p.dil_w] * weights[s];
  }
  if (out_q < p.Q) y[((n * p.K + k) * p.P + out_p) * p.Q + out_q] = sum;
}

cudaError_t exercise_launch(const conv_problem *p, const conv_buffers *b, cudaStream_t stream) {
  const int pieces = (p->Q + OUTPUTS - 1) / OUTPUTS, width = (OUTPUTS - 1) * p->stride_w + (p->S - 1) * p->dil_w + 1;
  const size_t shared = STAGES * ((size_t)width + p->S) * sizeof(float);
  my_fprop_kernel<<<p->N * p->K * p->P * pieces, OUTPUTS, shared, stream>>>(*p, width, (const float *)b->x, (const float *)b->w, (float *)b->y);
  return cudaGetLastError();
}

/* ================================================================ your part ends here */
