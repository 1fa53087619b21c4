/* 05r: the gradient of the image at stride 1, by the forward kernels, with filters turned first.
 *
 *     dx[n,c,h,w] = sum over k,r,s of w[k,c,r,s] * dy[n,k,h + pad - r*dil,w + pad - s*dil]
 *                 = sum over k,r,s of turned[c,k,r,s] * dy[n,k,h - pad' + r*dil,w - pad' + s*dil]
 *                   with turned[c,k,r,s] = w[k,c,R-1-r,S-1-s] and pad' = (R-1)*dil - pad
 *
 * Terms:    convolution with the transposed, flipped filter.
 * Idea:     at stride 1 05i has one class, with all taps: a convolution forward, but that k and c lie the other way round in w, and r and s backwards. 05i looks
 *           every element up, for every tile and slice anew. Filters are small. Turn them once, in a launch of their own, and what is left is forward word for word:
 *           05f, or 05g where that pays (stream_pays()), with their vectorized copies of 1 x 1 layers, and nothing to write but a plan.
 * Change:   against 05i no kernel but turn_kernel; dy takes the place of x, dx that of y.
 * Price:    the filters are read and written once more, and a launch. By what 05r takes longer than the forward layer: 1.5 us for 16 KB of filters, 6 for 4 MB, 10 for 8 MB.
 * Expect:   the forward time of the layer with C and K exchanged, and the turning: 7 x 1, 192 to 192 channels, 17 x 17 pixels, 16 images 66 + 2 us (05i: 72);
 *           5 x 5, 48 to 64, 35 x 35 79 + 2 (108); 1 x 1, 512 to 1024, 14 x 14 81 + 2 (104).
 * Sizes:    as 05f's; the stride is 1, and no padding exceeds the filter's reach.
 * Passes:   dgrad. Layout: NCHW, filters KCRS, fp32. */
#include <cuda_runtime.h>

#include "05_im2col_gemm/as_fprop.h"
#include "05_im2col_gemm/rows.h"
#include "05_im2col_gemm/split.h"

enum { TURN_THREADS = 256, TURN_C = 8 };

/* turned[C][K / groups][R * S], taps last to first. A thread: one filter's tap, of TURN_C channels of a group. Neighbours write neighbours; what they read lies
 * `group_c * taps` apart, but those channels are next to each other: together they want whole sectors. */
__global__ void __launch_bounds__(TURN_THREADS) turn_kernel(int group_c, int group_k, int taps, const float *__restrict__ w, float *__restrict__ turned) {
  const int across = (group_k * taps + TURN_THREADS - 1) / TURN_THREADS, down = (group_c + TURN_C - 1) / TURN_C; /* blocks of a group */
  const int element = blockIdx.x % across * TURN_THREADS + threadIdx.x, k = element / taps, tap = element % taps;
  const int first_c = blockIdx.x / across % down * TURN_C, group = blockIdx.x / across / down;
  if (k >= group_k) return;
  const float *from = w + ((group * group_k + k) * group_c + first_c) * taps + taps - 1 - tap;
  float *to = turned + (group * group_c + first_c) * group_k * taps + element;
#pragma unroll
  for (int c = 0; c < TURN_C; c++)
    if (first_c + c < group_c) to[c * group_k * taps] = from[c * taps];
}

/* ---------------------------------------------------------------- host */

extern "C" const conv_kernel split_fprop, stream_fprop;
extern "C" bool stream_pays(const conv_problem *p, int multiprocessors), turning_pays(const conv_problem *p, int multiprocessors);
extern const cut_kernel split_cuts;

typedef struct turned_plan {
  alignas(128) unsigned char forward[1024]; /* what the forward kernel's plan() left; first, where its launch() looks for it */
  const conv_kernel *kernel;
  size_t filter_bytes; /* of the workspace; the rest is the forward kernel's */
  int blocks;          /* of turn_kernel */
} turned_plan;

/* Whether it takes less time than 05i. Where 05f does not slice, images of no multiple of four pixels are stored an element at a time, and 05i has store_class() for that. */
bool turning_pays(const conv_problem *p, int multiprocessors) {
  const conv_problem f = as_fprop(p, PASS_DGRAD);
  if (f.P * f.Q % 4 == 0 || stream_pays(&f, multiprocessors)) return true;
  const matrix_product product = split_cuts.product(&f);
  return split_for(&product, multiprocessors, &h200_prices).slices > 1;
}

static const char *plan_dgrad(const conv_operation *o, const conv_device *device, conv_plan *plan) {
  const conv_problem *p = &o->problem;
  if (p->stride_h != 1 || p->stride_w != 1) return "only for stride 1";
  const char *why = plain_unsupported(p, device);
  if (why) return why;
  const conv_problem f = as_fprop(p, PASS_DGRAD);
  if (f.pad_top < 0 || f.pad_left < 0) return "padding beyond the filter's reach";
  const conv_kernel *kernel = stream_pays(&f, device->sm_count) ? &stream_fprop : &split_fprop;
  plan->operation.problem = f, plan->operation.pass = PASS_FPROP;
  why = kernel->plan(&plan->operation, device, plan);
  plan->operation = *o;
  if (why && !plan->failed) snprintf(plan->why_not, sizeof plan->why_not, "turned, dy for x: %s", why), why = plan->why_not;
  if (why) return why;
  const int group_c = p->C / p->groups, group_k = p->K / p->groups, taps = p->R * p->S;
  turned_plan *mine = plan_data<turned_plan>(plan);
  mine->kernel = kernel;
  mine->filter_bytes = ((size_t)problem_w_count(p) * sizeof(float) + 511) / 512 * 512;
  mine->blocks = (group_k * taps + TURN_THREADS - 1) / TURN_THREADS * ((group_c + TURN_C - 1) / TURN_C) * p->groups;
  plan->workspace_bytes += mine->filter_bytes;
  return NULL;
}

static cudaError_t launch_dgrad(const conv_plan *plan, const conv_buffers *b, cudaStream_t stream) {
  const conv_problem *p = &plan->operation.problem;
  const turned_plan *mine = plan_data<turned_plan>(plan);
  float *turned = (float *)b->workspace;
  turn_kernel<<<mine->blocks, TURN_THREADS, 0, stream>>>(p->C / p->groups, p->K / p->groups, p->R * p->S, (const float *)b->w, turned);
  conv_plan forward = *plan;
  forward.operation.problem = as_fprop(p, PASS_DGRAD), forward.operation.pass = PASS_FPROP;
  conv_buffers buffers = *b;
  buffers.x = b->y, buffers.w = turned, buffers.y = b->x, buffers.workspace = (char *)b->workspace + mine->filter_bytes;
  return mine->kernel->launch(&forward, &buffers, stream);
}

GEMM_ROW(turned_dgrad, "05r", "filters turned, then forward", PASS_DGRAD, plan_dgrad, launch_dgrad, plain_growth_dgrad);
