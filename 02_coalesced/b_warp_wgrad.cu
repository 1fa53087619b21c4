/* 02b: wgrad with one warp per filter element; the lanes share the pixels and add up by shuffles.
 *
 * Terms:    warp-level reduction.
 * Idea:     wgrad has few outputs (K*C*R*S) and long sums (N*P*Q). One thread per output leaves the GPU half empty and makes each
 *           thread walk all images alone; neighbouring lanes on neighbouring pixels read neighbouring addresses, and there are 32 times
 *           as many threads.
 * Change:   against 02a: i numbers warps, the loop over (p, q) starts at the lane and steps by 32, five shuffles add the lanes' sums.
 * Expect:   loads of dy fill 4 sectors a warp instead of one element each, loads of x likewise at stride 1.
 * Layout:   NCHW, filters KCRS, fp32. */
#include <cuda_runtime.h>

#include "common/harness/kernel.h"
#include "common/harness/plain.h"

enum { THREADS = 256, WARP = 32, WARPS = THREADS / WARP };

/* dw[k,c,r,s] = sum over n,p,q of dy[n,k,p,q] * x[n,c,h,w] */
__global__ void __launch_bounds__(THREADS) warp_wgrad_kernel(conv_problem p, const float *x, const float *dy, float *dw) {
  const int group_c = p.C / p.groups;
  const int i = blockIdx.x * WARPS + threadIdx.x / WARP;
  const int lane = threadIdx.x % WARP;
  if (i >= p.K * group_c * p.R * p.S) return; /* the whole warp leaves together */
  const int s = i % p.S;
  const int r = i / p.S % p.R;
  const int c = i / p.S / p.R % group_c;
  const int k = i / p.S / p.R / group_c;

  const int x_c = k / (p.K / p.groups) * group_c + c;
  const int first_p = lane / p.Q, first_q = lane % p.Q; /* neighbouring lanes: neighbouring pixels, across row ends too */
  const int step_p = WARP / p.Q, step_q = WARP % p.Q;   /* 32 pixels on, without a division in the loop */
  float sum = 0;
  for (int n = 0; n < p.N; n++) {
    int out_p = first_p, out_q = first_q;
    for (int pixel = lane; pixel < p.P * p.Q; pixel += WARP) {
      const int in_h = out_p * p.stride_h - p.pad_top + r * p.dil_h;
      const int in_w = out_q * p.stride_w - p.pad_left + s * p.dil_w;
      if (in_h >= 0 && in_h < p.H && in_w >= 0 && in_w < p.W) sum += dy[(n * p.K + k) * p.P * p.Q + pixel] * x[((n * p.C + x_c) * p.H + in_h) * p.W + in_w];
      out_p += step_p;
      out_q += step_q;
      if (out_q >= p.Q) {
        out_q -= p.Q;
        out_p++;
      }
    }
  }
  for (int distance = WARP / 2; distance > 0; distance /= 2) sum += __shfl_down_sync(0xffffffffu, sum, distance);
  if (lane == 0) dw[((k * group_c + c) * p.R + r) * p.S + s] = sum;
}

/* ---------------------------------------------------------------- host */

static const char *plan_wgrad(const conv_operation *o, const conv_device *device, conv_plan *plan) {
  if (problem_w_count(&o->problem) > (int64_t)INT_MAX - WARPS) return "w has 2^31 elements or more (one warp each)";
  return plain_plan(o, device, plan);
}

static cudaError_t launch_wgrad(const conv_plan *plan, const conv_buffers *b, cudaStream_t stream) {
  const conv_problem &p = plan->operation.problem;
  warp_wgrad_kernel<<<(problem_w_count(&p) + WARPS - 1) / WARPS, THREADS, 0, stream>>>(p, (const float *)b->x, (const float *)b->y, (float *)b->w);
  return cudaGetLastError();
}

/* A lane's chain has a 32nd of the terms (rounded up once per image), the shuffles add five more. */
static double growth(const conv_problem *p, bool random) { return growth_chain_fp32(p->N * ceil((double)p->P * p->Q / (double)WARP) + 5, random); }

NCHW_ROW(warp_wgrad, "02b", "one warp per output, lanes on q, shuffle reduction", PASS_WGRAD, plan_wgrad, launch_wgrad, growth);
