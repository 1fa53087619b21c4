/* 04m: depthwise layers in fp16 with any number of channels, and any number of filters for each.
 *
 * Idea:     04g to 04i read two channels as one word of 4 bytes. With an odd number of channels every other pixel begins in the middle of a word,
 *           where no word can be read; and with two filters a channel the pairs of x are not those of y. Here a thread has one channel.
 * Change:   against 04g nothing stays in registers but one sum: these are the plain kernels of 04g to 04i, for any filter, stride and dilation, with
 *           one channel for two. Neighbouring threads are still neighbouring channels: 32 lanes read 64 bytes side by side.
 * Expect:   slow beside 04g. An output reads its R x S pixels and taps from L1, two loads of 2 bytes for a multiply-add.
 * Sizes:    C = groups, more than one, K a multiple of it.
 * Passes:   fprop, dgrad, wgrad. Layout: NHWC, filters KRSC, fp16 with fp32 sums. */
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <stdio.h>

#include "common/harness/plain.h"

enum { THREADS = 128, MOST_PARTS = 512, RESIDENT = 2048 /* threads of a multiprocessor */ };

/* y [N][P][Q][K]. A thread: one element. */
__global__ void __launch_bounds__(THREADS) one_channel_fprop_kernel(conv_problem p, const __half *x, const __half *w, __half *y) {
  const int i = blockIdx.x * THREADS + threadIdx.x, k = i % p.K, c = k / (p.K / p.C); /* neighbouring threads: neighbouring filters */
  const int out_q = i / p.K % p.Q, out_p = i / p.K / p.Q % p.P, n = i / p.K / p.Q / p.P;
  if (n >= p.N) return;
  float sum = 0;
  for (int r = 0; r < p.R; r++)
    for (int s = 0; s < p.S; s++) {
      const int in_h = out_p * p.stride_h - p.pad_top + r * p.dil_h, in_w = out_q * p.stride_w - p.pad_left + s * p.dil_w;
      if (in_h < 0 || in_h >= p.H || in_w < 0 || in_w >= p.W) continue;
      sum += __half2float(x[((n * p.H + in_h) * p.W + in_w) * p.C + c]) * __half2float(w[(k * p.R + r) * p.S + s]);
    }
  y[i] = __float2half_rn(sum);
}

/* dx [N][H][W][C]. A thread: one element; it asks of each tap whether a window has it there. */
__global__ void __launch_bounds__(THREADS) one_channel_dgrad_kernel(conv_problem p, const __half *dy, const __half *w, __half *dx) {
  const int i = blockIdx.x * THREADS + threadIdx.x, c = i % p.C, in_w = i / p.C % p.W, in_h = i / p.C / p.W % p.H, n = i / p.C / p.W / p.H;
  const int filters = p.K / p.C;
  if (n >= p.N) return;
  float sum = 0;
  for (int r = 0; r < p.R; r++)
    for (int s = 0; s < p.S; s++) {
      const int from_h = in_h + p.pad_top - r * p.dil_h, from_w = in_w + p.pad_left - s * p.dil_w; /* the window's first pixel, from the padding's */
      if (from_h < 0 || from_w < 0 || from_h % p.stride_h != 0 || from_w % p.stride_w != 0) continue;
      const int out_p = from_h / p.stride_h, out_q = from_w / p.stride_w;
      if (out_p >= p.P || out_q >= p.Q) continue;
      for (int k = c * filters; k < (c + 1) * filters; k++)
        sum += __half2float(dy[((n * p.P + out_p) * p.Q + out_q) * p.K + k]) * __half2float(w[(k * p.R + r) * p.S + s]);
    }
  dx[i] = __float2half_rn(sum);
}

/* parts[part][tap][K]. A thread: one tap of one filter, and of the rows n * P + p of dy every part_count-th. */
__global__ void __launch_bounds__(THREADS) one_channel_wgrad_kernel(conv_problem p, int part_count, const __half *x, const __half *dy, float *parts) {
  const int i = blockIdx.x * THREADS + threadIdx.x, taps = p.R * p.S;
  const int k = i % p.K, c = k / (p.K / p.C), tap = i / p.K % taps, part = i / p.K / taps; /* neighbouring threads: neighbouring filters */
  if (part >= part_count) return;
  float sum = 0;
  for (int row = part; row < p.N * p.P; row += part_count) {
    const int n = row / p.P, in_h = row % p.P * p.stride_h - p.pad_top + tap / p.S * p.dil_h;
    if (in_h < 0 || in_h >= p.H) continue;
    for (int out_q = 0; out_q < p.Q; out_q++) {
      const int in_w = out_q * p.stride_w - p.pad_left + tap % p.S * p.dil_w;
      if (in_w < 0 || in_w >= p.W) continue;
      sum += __half2float(dy[(row * p.Q + out_q) * p.K + k]) * __half2float(x[((n * p.H + in_h) * p.W + in_w) * p.C + c]);
    }
  }
  parts[i] = sum;
}

/* dw [K][taps] = the sum of all parts, first to last. A thread: one element, as they lie in parts. */
__global__ void __launch_bounds__(THREADS) add_parts_kernel(int filters, int taps, int part_count, const float *parts, __half *dw) {
  const int i = blockIdx.x * THREADS + threadIdx.x, elements = filters * taps;
  if (i >= elements) return;
  float sum = 0;
  for (int part = 0; part < part_count; part++) sum += parts[part * elements + i];
  dw[i % filters * taps + i / filters] = __float2half_rn(sum);
}

/* ---------------------------------------------------------------- host */

static const char *unsupported(const conv_problem *p, const conv_device *device) {
  if (p->groups == 1) return "not depthwise: one group";
  return p->C != p->groups ? "not depthwise: a group has more than one channel" : plain_unsupported(p, device);
}

static int blocks_for(int64_t threads) { return (int)((threads + THREADS - 1) / THREADS); }

static const char *plan_plain(const conv_operation *o, const conv_device *device, conv_plan *plan) {
  snprintf(plan->words, sizeof plan->words, "an output a thread");
  return unsupported(&o->problem, device);
}

static cudaError_t launch_fprop(const conv_plan *plan, const conv_buffers *b, cudaStream_t stream) {
  const conv_problem &p = plan->operation.problem;
  one_channel_fprop_kernel<<<blocks_for(problem_y_count(&p)), THREADS, 0, stream>>>(p, (const __half *)b->x, (const __half *)b->w, (__half *)b->y);
  return cudaGetLastError();
}

static cudaError_t launch_dgrad(const conv_plan *plan, const conv_buffers *b, cudaStream_t stream) {
  const conv_problem &p = plan->operation.problem;
  one_channel_dgrad_kernel<<<blocks_for(problem_x_count(&p)), THREADS, 0, stream>>>(p, (const __half *)b->y, (const __half *)b->w, (__half *)b->x);
  return cudaGetLastError();
}

/* As many parts as give every multiprocessor its threads, and no more than there are rows, than MOST_PARTS, than an int counts, which indices are. */
static const char *plan_wgrad(const conv_operation *o, const conv_device *device, conv_plan *plan) {
  const conv_problem *p = &o->problem;
  const char *why = unsupported(p, device);
  if (why) return why;
  const int64_t elements = problem_w_count(p), wanted = (int64_t)device->sm_count * RESIDENT / elements + 1;
  const int64_t limits[] = {(int64_t)p->N * p->P, MOST_PARTS, (INT_MAX - 1024) / elements};
  int64_t parts = wanted;
  for (const int64_t limit : limits)
    if (limit < parts) parts = limit;
  *plan_data<int>(plan) = (int)parts;
  plan->workspace_bytes = (size_t)(parts * elements) * sizeof(float);
  snprintf(plan->words, sizeof plan->words, "rows one by one, %d parts", (int)parts);
  return NULL;
}

static cudaError_t launch_wgrad(const conv_plan *plan, const conv_buffers *b, cudaStream_t stream) {
  const conv_problem &p = plan->operation.problem;
  const int parts = *plan_data<int>(plan);
  const int64_t elements = problem_w_count(&p);
  float *found = (float *)b->workspace;
  one_channel_wgrad_kernel<<<blocks_for(parts * elements), THREADS, 0, stream>>>(p, parts, (const __half *)b->x, (const __half *)b->y, found);
  const cudaError_t status = cudaGetLastError();
  if (status) return status;
  add_parts_kernel<<<blocks_for(elements), THREADS, 0, stream>>>(p.K, p.R * p.S, parts, found, (__half *)b->w);
  return cudaGetLastError();
}

NHWC_ROW(any_channels_fprop, "04m", "depthwise, fp16: one channel a thread", PASS_FPROP, 53, plan_plain, launch_fprop, plain_growth_fprop);
NHWC_ROW(any_channels_dgrad, "04m", "depthwise, fp16: one channel a thread", PASS_DGRAD, 53, plan_plain, launch_dgrad, plain_growth_dgrad);
NHWC_ROW(any_channels_wgrad, "04m", "depthwise, fp16: one channel a thread", PASS_WGRAD, 53, plan_wgrad, launch_wgrad, plain_growth_wgrad);
