/* 04g: depthwise layers, fp16 NHWC: one filter a channel, and it stays in registers.
 *
 * Terms:    depthwise convolution; software prefetching.
 * Idea:     in NHWC the channels are what lies side by side. A thread owns two of them, one __half2: 32 lanes read 128 bytes of one pixel
 *           together. It keeps both filters in registers as fp32, and walks down the image as 04b does: every value is read and converted once
 *           for all rows of outputs that it belongs to.
 * Change:   against 04b neighbouring lanes are neighbouring channels, so no lane needs pixels of another; sums are fp32, data fp16.
 *           Several rows are on their way to a thread at a time, and addresses only move on from row to row: a first version had one row on its
 *           way, and worked out an address for every pixel, nine instructions each.
 * Expect:   3x3: bound by memory. 7x7: 49 products an output in fp32 take longer than its 4 bytes: bound by FMAs.
 * Banks:    (04e tells of the register file's.) The two channels alternate in a thread's registers. A window that slides by a pixel slides by two
 *           registers, so that a channel's pixels stay in one bank, whatever the tap.
 *           Meant to help; of the multiply-adds 25 to 46 % still meet in a bank at stride 1 (scripts/register_banks.sh).
 * Sizes:    3x3, 5x5, 7x7 with stride 1 or 2, no dilation; others by a plain kernel. C = K = groups, even.
 * Passes:   fprop (04h: dgrad, 04i: wgrad). Layout: NHWC, filters KRSC, fp16 with fp32 sums. */
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <stdio.h>

#include "04_constant_filter/depthwise.h"

enum { THREADS = 128, COLS = 4 };

static __host__ __device__ constexpr int resident_blocks(int size) { return size == 3 ? 5 : size == 5 ? 3 : 2; }

/* Rows of pixels on their way to a thread. A multiprocessor needs some 30 KB on their way (docs/gpu_speed.md, waiting): 640 threads of a 3x3 filter have 24 bytes
 * each in a row, three rows are 46 KB. */
static __host__ __device__ constexpr int rows_ahead(int size, int stride) { return stride == 2 ? 2 : size == 3 ? 3 : 2; }

/* A thread: `strip` rows of COLS columns of two channels of y. */
template <int SIZE, int STRIDE>
__global__ void __launch_bounds__(THREADS, resident_blocks(SIZE))
    depthwise_kernel(conv_problem p, int strip, const __half2 *__restrict__ x, const __half *__restrict__ w, __half2 *__restrict__ y) {
  constexpr int WIDTH = (COLS - 1) * STRIDE + SIZE, FLIGHT = (SIZE - 1) / STRIDE + 1; /* pixels of a row under my windows; output rows that a row belongs to */
  constexpr int AHEAD = rows_ahead(SIZE, STRIDE), STEPS = AHEAD / STRIDE;             /* steps until the rows on their way have their places again */
  const int pairs = p.C / 2, tiles_q = (p.Q + COLS - 1) / COLS, strips = (p.P + strip - 1) / strip;
  const int task = blockIdx.x * THREADS + threadIdx.x, pair = task % pairs; /* neighbouring threads: neighbouring channels */
  const int first_q = task / pairs % tiles_q * COLS, first_p = task / pairs / tiles_q % strips * strip, n = task / pairs / tiles_q / strips;
  if (n >= p.N) return;

  float2 filter[SIZE * SIZE];
#pragma unroll
  for (int i = 0; i < SIZE * SIZE; i++) filter[i] = make_float2(__half2float(w[2 * pair * SIZE * SIZE + i]), __half2float(w[(2 * pair + 1) * SIZE * SIZE + i]));
  const int rows = min(strip, p.P - first_p), first_h = first_p * STRIDE - p.pad_top, first_w = first_q * STRIDE - p.pad_left;
  const int end_h = min(first_h + (rows - 1) * STRIDE + SIZE, p.H);

  /* Rows are loaded one after the other, so addresses only move on; which columns lie in the image does not change. */
  bool in_image[WIDTH];
#pragma unroll
  for (int j = 0; j < WIDTH; j++) in_image[j] = first_w + j >= 0 && first_w + j < p.W;
  int coming_h = first_h, coming = ((n * p.H + first_h) * p.W + first_w) * pairs + pair, to = ((n * p.P + first_p) * p.Q + first_q) * pairs + pair;
  const auto load_row = [&](__half2 *row) {
    const bool inside = coming_h >= 0 && coming_h < end_h;
#pragma unroll
    for (int j = 0; j < WIDTH; j++) row[j] = inside && in_image[j] ? x[coming + j * pairs] : __float2half2_rn(0);
    coming_h++, coming += p.W * pairs;
  };

  __half2 next[AHEAD][WIDTH];
  float2 sum[FLIGHT][COLS] = {}; /* sum[k]: output row t - k of mine */
#pragma unroll
  for (int i = 0; i < AHEAD; i++) load_row(next[i]);
  for (int first_t = 0; first_t < rows + FLIGHT - 1; first_t += STEPS)
#pragma unroll
    for (int i = 0; i < STEPS; i++) {
      const int t = first_t + i;
      if (t >= rows + FLIGHT - 1) return;
#pragma unroll
      for (int d = 0; d < STRIDE; d++) { /* row t * STRIDE + d lies under filter row k * STRIDE + d of output row t - k */
        float2 row[WIDTH];
#pragma unroll
        for (int j = 0; j < WIDTH; j++) row[j] = __half22float2(next[i * STRIDE + d][j]);
        load_row(next[i * STRIDE + d]); /* on its way while this one and others are computed */
#pragma unroll
        for (int k = FLIGHT - 1; k >= 0; k--) {
          const int r = k * STRIDE + d;
          if (r >= SIZE) continue;
#pragma unroll
          for (int j = 0; j < COLS; j++) {
            float2 part = d > 0 ? sum[k][j] : k > 0 ? sum[k - 1][j] : make_float2(0, 0); /* the first row of a step moves all sums on */
#pragma unroll
            for (int s = 0; s < SIZE; s++) {
              part.x += row[j * STRIDE + s].x * filter[r * SIZE + s].x;
              part.y += row[j * STRIDE + s].y * filter[r * SIZE + s].y;
            }
            sum[k][j] = part;
          }
        }
      }
      if (t < FLIGHT - 1) continue; /* the first output row is not complete yet */
#pragma unroll
      for (int j = 0; j < COLS; j++)
        if (first_q + j < p.Q) y[to + j * pairs] = __floats2half2_rn(sum[FLIGHT - 1][j].x, sum[FLIGHT - 1][j].y);
      to += p.Q * pairs;
    }
}

/* Any other filter, stride, dilation: a thread has one pixel of two channels. */
__global__ void __launch_bounds__(THREADS) any_depthwise_kernel(conv_problem p, const __half2 *x, const __half *w, __half2 *y) {
  const int pairs = p.C / 2, i = blockIdx.x * THREADS + threadIdx.x;
  const int pair = i % pairs, out_q = i / pairs % p.Q, out_p = i / pairs / p.Q % p.P, n = i / pairs / p.Q / p.P, taps = p.R * p.S;
  if (n >= p.N) return;
  float2 sum = make_float2(0, 0);
  for (int r = 0; r < p.R; r++)
    for (int s = 0; s < p.S; s++) {
      const int in_h = out_p * p.stride_h - p.pad_top + r * p.dil_h, in_w = out_q * p.stride_w - p.pad_left + s * p.dil_w;
      if (in_h < 0 || in_h >= p.H || in_w < 0 || in_w >= p.W) continue;
      const float2 pixel = __half22float2(x[(((int64_t)n * p.H + in_h) * p.W + in_w) * pairs + pair]);
      sum.x += pixel.x * __half2float(w[2 * pair * taps + r * p.S + s]);
      sum.y += pixel.y * __half2float(w[(2 * pair + 1) * taps + r * p.S + s]);
    }
  y[(int64_t)i] = __floats2half2_rn(sum.x, sum.y);
}

/* ---------------------------------------------------------------- host */

typedef void (*depthwise_t)(conv_problem p, int strip, const __half2 *x, const __half *w, __half2 *y);

/* The kernels: size of the filter, stride. */
typedef struct depthwise_row {
  int size, stride;
  depthwise_t kernel;
} depthwise_row;
static const depthwise_row table[] = {
    {3, 1, depthwise_kernel<3, 1>}, {3, 2, depthwise_kernel<3, 2>}, {5, 1, depthwise_kernel<5, 1>},
    {5, 2, depthwise_kernel<5, 2>}, {7, 1, depthwise_kernel<7, 1>}, {7, 2, depthwise_kernel<7, 2>},
};

/* The kernel for this filter; NULL: the plain one. */
static depthwise_t kernel_of(const conv_problem *p) {
  for (const depthwise_row &row : table)
    if (is_square(p, row.size, row.stride)) return row.kernel;
  return NULL;
}

/* What a launch needs. */
typedef struct depthwise_launch {
  depthwise_t kernel;
  int strip, blocks;
} depthwise_launch;

static const char *plan_fprop(const conv_operation *o, const conv_device *device, conv_plan *plan) {
  const conv_problem *p = &o->problem;
  const char *why = depthwise_unsupported(p, device);
  if (why) return why;
  depthwise_launch *l = plan_data<depthwise_launch>(plan);
  l->kernel = kernel_of(p);
  const int cols = l->kernel ? COLS : 1, columns = p->N * (p->C / 2) * ((p->Q + cols - 1) / cols); /* threads of a strip */
  l->strip = l->kernel ? depthwise_strip(columns, p->P, 2 * p->S, (int64_t)device->sm_count * THREADS * resident_blocks(p->S)) : 1;
  l->blocks = (columns * ((p->P + l->strip - 1) / l->strip) + THREADS - 1) / THREADS;
  if (l->kernel) snprintf(plan->words, sizeof plan->words, "strips of %d rows", l->strip);
  else snprintf(plan->words, sizeof plan->words, "two outputs a thread");
  return NULL;
}

static cudaError_t launch_fprop(const conv_plan *plan, const conv_buffers *b, cudaStream_t stream) {
  const conv_problem &p = plan->operation.problem;
  const depthwise_launch *l = plan_data<depthwise_launch>(plan);
  if (l->kernel) l->kernel<<<l->blocks, THREADS, 0, stream>>>(p, l->strip, (const __half2 *)b->x, (const __half *)b->w, (__half2 *)b->y);
  else any_depthwise_kernel<<<l->blocks, THREADS, 0, stream>>>(p, (const __half2 *)b->x, (const __half *)b->w, (__half2 *)b->y);
  return cudaGetLastError();
}

NHWC_ROW(depthwise_fprop, "04g", "depthwise, fp16: two channels a thread", PASS_FPROP, 53, plan_fprop, launch_fprop, plain_growth_fprop);
