/* 04a: the filters in constant memory.
 *
 * Terms:    constant memory, broadcast.
 * Idea:     all lanes of a warp want the same filter element at the same time. Constant memory is made for that: its cache hands one value
 *           to 32 lanes, and the load and store unit, which 02a kept busy with filters half of the time, has only pixels left to serve.
 * Change:   against 02a w is read from a __constant__ array; a copy on the device fills it before every launch.
 * Expect:   for one-channel images the filter's loads vanish from the load unit; the copy costs about 2 us. Where the lanes of a warp belong
 *           to two different output channels, they want two elements, and the constant cache serves one after the other.
 * Limits:   64 KiB of constant memory, so 16384 filter elements. Passes: fprop. Layout: NCHW, filters KCRS, fp32. */
#include <cuda_runtime.h>

#include "common/harness/plain.h"

enum { THREADS = 256, MOST_FILTERS = 16384 };

static __constant__ float constant_w[MOST_FILTERS]; /* [K][C/groups][R][S] */

/* y[n,k,p,q] = sum over c,r,s of x[n,c,h,w] * w[k,c,r,s] */
__global__ void __launch_bounds__(THREADS) constant_fprop_kernel(conv_problem p, const float *x, float *y) {
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
          sum += x[((n * p.C + first_c + c) * p.H + in_h) * p.W + in_w] * constant_w[((k * group_c + c) * p.R + r) * p.S + s];
      }
  y[((n * p.K + k) * p.P + out_p) * p.Q + out_q] = sum;
}

/* ---------------------------------------------------------------- host */

static const char *plan_fprop(const conv_operation *o, const conv_device *device, conv_plan *plan) {
  if (problem_w_count(&o->problem) > MOST_FILTERS) return "the filters exceed 64 KiB of constant memory";
  return plain_plan(o, device, plan);
}

static cudaError_t launch_fprop(const conv_plan *plan, const conv_buffers *b, cudaStream_t stream) {
  const conv_problem &p = plan->operation.problem;
  const cudaError_t status = cudaMemcpyToSymbolAsync(constant_w, b->w, (size_t)problem_w_count(&p) * sizeof(float), 0, cudaMemcpyDeviceToDevice, stream);
  if (status) return status;
  constant_fprop_kernel<<<(problem_y_count(&p) + THREADS - 1) / THREADS, THREADS, 0, stream>>>(p, (const float *)b->x, (float *)b->y);
  return cudaGetLastError();
}

NCHW_ROW(constant_fprop, "04a", "filters in constant memory", PASS_FPROP, plan_fprop, launch_fprop, plain_growth_fprop);
