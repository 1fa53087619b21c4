/* 02a: one thread per output element, neighbouring threads on neighbouring addresses.
 *
 * Terms:    memory coalescing.
 * Idea:     the hardware serves a warp's 32 loads together; when they fall next to each other, a few sectors of 32 bytes serve them all.
 * Change:   against 01a only the numbering of the outputs: the axis that is contiguous in memory comes first (q in fprop, w in dgrad,
 *           s in wgrad). The arithmetic is the same, product by product.
 * Expect:   in fprop and dgrad a store of 32 neighbouring outputs fills 4 sectors instead of touching 32; a load of x or dy likewise at
 *           stride 1, and the filter's element is the same for the whole warp: one sector, broadcast. wgrad's loads of x stay scattered
 *           (02b). dgrad's time will not follow its sectors: each product costs it two integer divisions.
 * Layout:   NCHW, filters KCRS, fp32 (the letters: common/conv/problem.h). */
#include <cuda_runtime.h>

#include "common/harness/kernel.h"
#include "common/harness/plain.h"

enum { THREADS = 256 };

/* y[n,k,p,q] = sum over c,r,s of x[n,c,h,w] * w[k,c,r,s] */
__global__ void __launch_bounds__(THREADS) coalesced_fprop_kernel(conv_problem p, const float *x, const float *w, float *y) {
  const int i = blockIdx.x * THREADS + threadIdx.x;
  if (i >= p.N * p.K * p.P * p.Q) return;
  const int out_q = i % p.Q; /* neighbouring threads: neighbouring pixels */
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
        if (in_h >= 0 && in_h < p.H && in_w >= 0 && in_w < p.W)
          sum += x[((n * p.C + first_c + c) * p.H + in_h) * p.W + in_w] * w[((k * group_c + c) * p.R + r) * p.S + s];
      }
  y[((n * p.K + k) * p.P + out_p) * p.Q + out_q] = sum;
}

/* dx[n,c,h,w] = sum over k,r,s of dy[n,k,p,q] * w[k,c,r,s] */
__global__ void __launch_bounds__(THREADS) coalesced_dgrad_kernel(conv_problem p, const float *dy, const float *w, float *dx) {
  const int i = blockIdx.x * THREADS + threadIdx.x;
  if (i >= p.N * p.C * p.H * p.W) return;
  const int in_w = i % p.W; /* neighbouring threads: neighbouring pixels */
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
        if (down >= 0 && right >= 0 && out_p * p.stride_h == down && out_q * p.stride_w == right && out_p < p.P && out_q < p.Q)
          sum += dy[((n * p.K + k) * p.P + out_p) * p.Q + out_q] * w[((k * group_c + c % group_c) * p.R + r) * p.S + s];
      }
  dx[((n * p.C + c) * p.H + in_h) * p.W + in_w] = sum;
}

/* dw[k,c,r,s] = sum over n,p,q of dy[n,k,p,q] * x[n,c,h,w] */
__global__ void __launch_bounds__(THREADS) coalesced_wgrad_kernel(conv_problem p, const float *x, const float *dy, float *dw) {
  const int group_c = p.C / p.groups;
  const int i = blockIdx.x * THREADS + threadIdx.x;
  if (i >= p.K * group_c * p.R * p.S) return;
  const int s = i % p.S; /* neighbouring threads: neighbouring taps, then channels */
  const int r = i / p.S % p.R;
  const int c = i / p.S / p.R % group_c;
  const int k = i / p.S / p.R / group_c;

  const int x_c = k / (p.K / p.groups) * group_c + c;
  float sum = 0;
  for (int n = 0; n < p.N; n++)
    for (int out_p = 0; out_p < p.P; out_p++)
      for (int out_q = 0; out_q < p.Q; out_q++) {
        const int in_h = out_p * p.stride_h - p.pad_top + r * p.dil_h;
        const int in_w = out_q * p.stride_w - p.pad_left + s * p.dil_w;
        if (in_h >= 0 && in_h < p.H && in_w >= 0 && in_w < p.W)
          sum += dy[((n * p.K + k) * p.P + out_p) * p.Q + out_q] * x[((n * p.C + x_c) * p.H + in_h) * p.W + in_w];
      }
  dw[((k * group_c + c) * p.R + r) * p.S + s] = sum;
}

/* ---------------------------------------------------------------- host: one launch and one row per pass; nothing to plan, if ints can count every tensor */

static cudaError_t launch_fprop(const conv_plan *plan, const conv_buffers *b, cudaStream_t stream) {
  const conv_problem &p = plan->operation.problem;
  coalesced_fprop_kernel<<<(problem_y_count(&p) + THREADS - 1) / THREADS, THREADS, 0, stream>>>(p, (const float *)b->x, (const float *)b->w, (float *)b->y);
  return cudaGetLastError();
}

static cudaError_t launch_dgrad(const conv_plan *plan, const conv_buffers *b, cudaStream_t stream) {
  const conv_problem &p = plan->operation.problem;
  coalesced_dgrad_kernel<<<(problem_x_count(&p) + THREADS - 1) / THREADS, THREADS, 0, stream>>>(p, (const float *)b->y, (const float *)b->w, (float *)b->x);
  return cudaGetLastError();
}

static cudaError_t launch_wgrad(const conv_plan *plan, const conv_buffers *b, cudaStream_t stream) {
  const conv_problem &p = plan->operation.problem;
  coalesced_wgrad_kernel<<<(problem_w_count(&p) + THREADS - 1) / THREADS, THREADS, 0, stream>>>(p, (const float *)b->x, (const float *)b->y, (float *)b->w);
  return cudaGetLastError();
}

NCHW_ROW(coalesced_fprop, "02a", "one thread per output, neighbours on q", PASS_FPROP, plain_plan, launch_fprop, plain_growth_fprop);
NCHW_ROW(coalesced_dgrad, "02a", "one thread per output, neighbours on w", PASS_DGRAD, plain_plan, launch_dgrad, plain_growth_dgrad);
NCHW_ROW(coalesced_wgrad, "02a", "one thread per output, neighbours on s", PASS_WGRAD, plain_plan, launch_wgrad, plain_growth_wgrad);
