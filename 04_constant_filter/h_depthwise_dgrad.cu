/* 04h: the data gradient of depthwise layers, strides included.
 *
 * Idea:     with stride 2 a pixel of dx has only every second tap of a row, and only every second row. A kernel that asks of each tap whether
 *           it divides does four times the work. Here a row of dy is spread instead: it belongs to SIZE rows of dx, whose unfinished sums
 *           a thread keeps; STRIDE of them are complete after it.
 * Change:   against 04g the sums move up by STRIDE rows with every row of dy. Which taps meet which column is known when compiling:
 *           tiles begin where w + pad is a multiple of the stride.
 * Expect:   bound by memory, like fprop, at either stride: dx is written once and dy read once.
 * Sizes:    3x3, 5x5, 7x7 with stride 1 or 2, no dilation; others by a plain kernel. C = K = groups, even.
 * Passes:   dgrad. Layout: NHWC, filters KRSC, fp16 with fp32 sums. */
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <stdio.h>

#include "04_constant_filter/depthwise.h"

enum { THREADS = 128, COLS = 4 };

static __host__ __device__ constexpr int resident_blocks(int size) { return size == 3 ? 5 : size == 5 ? 3 : 2; }
/* Rows of dy on their way. */
static __host__ __device__ constexpr int rows_ahead(int size, int stride) { return size == 3 ? (stride == 2 ? 4 : 3) : 2; }

/* A thread: `strip` rows (a multiple of STRIDE) of COLS columns of two channels of dx. */
template <int SIZE, int STRIDE>
__global__ void __launch_bounds__(THREADS, resident_blocks(SIZE))
    depthwise_dgrad_kernel(conv_problem p, int strip, const __half2 *__restrict__ dy, const __half *__restrict__ w, __half2 *__restrict__ dx) {
  constexpr int BEFORE = (SIZE - 1) / STRIDE, WIDTH = BEFORE + (COLS - 1) / STRIDE + 1; /* columns of dy before a thread's base; all that it needs */
  constexpr int AHEAD = rows_ahead(SIZE, STRIDE);
  const int shift_w = p.pad_left % STRIDE, shift_h = p.pad_top % STRIDE; /* tiles begin so many columns and rows before the image */
  const int pairs = p.C / 2, tiles_w = (p.W + shift_w + COLS - 1) / COLS, strips = (p.H + shift_h + strip - 1) / strip;
  const int task = blockIdx.x * THREADS + threadIdx.x, pair = task % pairs; /* neighbouring threads: neighbouring channels */
  const int first_w = task / pairs % tiles_w * COLS - shift_w, first_h = task / pairs / tiles_w % strips * strip - shift_h, n = task / pairs / tiles_w / strips;
  if (n >= p.N) return;

  float2 filter[SIZE * SIZE];
#pragma unroll
  for (int i = 0; i < SIZE * SIZE; i++) filter[i] = make_float2(__half2float(w[2 * pair * SIZE * SIZE + i]), __half2float(w[(2 * pair + 1) * SIZE * SIZE + i]));

  const int last_h = min(first_h + strip, p.H) - 1, first_p = (first_h + p.pad_top) / STRIDE - BEFORE, last_p = (last_h + p.pad_top) / STRIDE;
  const int first_q = (first_w + p.pad_left) / STRIDE - BEFORE;

  bool in_dy[WIDTH];
#pragma unroll
  for (int j = 0; j < WIDTH; j++) in_dy[j] = first_q + j >= 0 && first_q + j < p.Q;
  int coming_p = first_p, coming = ((n * p.P + first_p) * p.Q + first_q) * pairs + pair;
  const auto load_row = [&](__half2 *row) {
    const bool inside = coming_p >= 0 && coming_p < p.P && coming_p <= last_p;
#pragma unroll
    for (int j = 0; j < WIDTH; j++) row[j] = inside && in_dy[j] ? dy[coming + j * pairs] : __float2half2_rn(0);
    coming_p++, coming += p.Q * pairs;
  };

  __half2 next[AHEAD][WIDTH];
  float2 sum[SIZE][COLS] = {}; /* sum[r]: row in_h + r of dx, in_h = out_p * stride - pad */
#pragma unroll
  for (int i = 0; i < AHEAD; i++) load_row(next[i]);
  int in_h = first_p * STRIDE - p.pad_top, to = ((n * p.H + in_h) * p.W + first_w) * pairs + pair;
  for (int round_p = first_p; round_p <= last_p; round_p += AHEAD)
#pragma unroll
    for (int i = 0; i < AHEAD; i++) {
      if (round_p + i > last_p) return;
      float2 row[WIDTH];
#pragma unroll
      for (int j = 0; j < WIDTH; j++) row[j] = __half22float2(next[i][j]);
      load_row(next[i]); /* on its way while this one and others are computed */
#pragma unroll
      for (int r = 0; r < SIZE; r++)
#pragma unroll
        for (int j = 0; j < COLS; j++) {
          float2 part = r + STRIDE < SIZE ? sum[r + STRIDE < SIZE ? r + STRIDE : 0][j] : make_float2(0, 0);
#pragma unroll
          for (int s = 0; s < SIZE; s++) {
            if ((j + SIZE * STRIDE - s) % STRIDE != 0) continue; /* this tap falls between two columns of dy */
            const int q = (j + SIZE * STRIDE - s) / STRIDE - SIZE + BEFORE;
            part.x += row[q].x * filter[r * SIZE + s].x;
            part.y += row[q].y * filter[r * SIZE + s].y;
          }
          sum[r][j] = part;
        }
#pragma unroll
      for (int r = 0; r < STRIDE; r++, in_h++, to += p.W * pairs) { /* no later row of dy belongs to these */
        if (in_h < first_h || in_h < 0 || in_h > last_h) continue;
#pragma unroll
        for (int j = 0; j < COLS; j++)
          if (first_w + j >= 0 && first_w + j < p.W) dx[to + j * pairs] = __floats2half2_rn(sum[r][j].x, sum[r][j].y);
      }
    }
}

/* Any other filter, stride, dilation: a thread has one pixel of two channels. */
__global__ void __launch_bounds__(THREADS) any_depthwise_dgrad_kernel(conv_problem p, const __half2 *dy, const __half *w, __half2 *dx) {
  const int pairs = p.C / 2, i = blockIdx.x * THREADS + threadIdx.x;
  const int pair = i % pairs, in_w = i / pairs % p.W, in_h = i / pairs / p.W % p.H, n = i / pairs / p.W / p.H, taps = p.R * p.S;
  if (n >= p.N) return;
  float2 sum = make_float2(0, 0);
  for (int r = 0; r < p.R; r++)
    for (int s = 0; s < p.S; s++) {
      const int down = in_h + p.pad_top - r * p.dil_h, right = in_w + p.pad_left - s * p.dil_w, out_p = down / p.stride_h, out_q = right / p.stride_w;
      if (down < 0 || right < 0 || out_p * p.stride_h != down || out_q * p.stride_w != right || out_p >= p.P || out_q >= p.Q) continue;
      const float2 gradient = __half22float2(dy[(((int64_t)n * p.P + out_p) * p.Q + out_q) * pairs + pair]);
      sum.x += gradient.x * __half2float(w[2 * pair * taps + r * p.S + s]);
      sum.y += gradient.y * __half2float(w[(2 * pair + 1) * taps + r * p.S + s]);
    }
  dx[(int64_t)i] = __floats2half2_rn(sum.x, sum.y);
}

/* ---------------------------------------------------------------- host */

typedef void (*depthwise_dgrad_t)(conv_problem p, int strip, const __half2 *dy, const __half *w, __half2 *dx);

/* The kernels: size of the filter, stride. */
typedef struct depthwise_dgrad_row {
  int size, stride;
  depthwise_dgrad_t kernel;
} depthwise_dgrad_row;
static const depthwise_dgrad_row table[] = {
    {3, 1, depthwise_dgrad_kernel<3, 1>}, {3, 2, depthwise_dgrad_kernel<3, 2>}, {5, 1, depthwise_dgrad_kernel<5, 1>},
    {5, 2, depthwise_dgrad_kernel<5, 2>}, {7, 1, depthwise_dgrad_kernel<7, 1>}, {7, 2, depthwise_dgrad_kernel<7, 2>},
};

/* The kernel for this filter; NULL: the plain one. */
static depthwise_dgrad_t kernel_of(const conv_problem *p) {
  for (const depthwise_dgrad_row &row : table)
    if (is_square(p, row.size, row.stride)) return row.kernel;
  return NULL;
}

/* What a launch needs. */
typedef struct depthwise_dgrad_launch {
  depthwise_dgrad_t kernel;
  int strip, blocks;
} depthwise_dgrad_launch;

static const char *plan_dgrad(const conv_operation *o, const conv_device *device, conv_plan *plan) {
  const conv_problem *p = &o->problem;
  const char *why = depthwise_unsupported(p, device);
  if (why) return why;
  depthwise_dgrad_launch *l = plan_data<depthwise_dgrad_launch>(plan);
  l->kernel = kernel_of(p);
  const int shift_w = l->kernel ? p->pad_left % p->stride_w : 0, shift_h = l->kernel ? p->pad_top % p->stride_h : 0, cols = l->kernel ? COLS : 1;
  const int columns = p->N * (p->C / 2) * ((p->W + shift_w + cols - 1) / cols); /* threads of a strip */
  const int rows = depthwise_strip(columns, p->H, 2 * p->S, (int64_t)device->sm_count * THREADS * resident_blocks(p->S));
  l->strip = l->kernel ? (rows + p->stride_h - 1) / p->stride_h * p->stride_h : 1;
  l->blocks = (columns * ((p->H + shift_h + l->strip - 1) / l->strip) + THREADS - 1) / THREADS;
  if (l->kernel) snprintf(plan->words, sizeof plan->words, "strips of %d rows", l->strip);
  else snprintf(plan->words, sizeof plan->words, "two outputs a thread");
  return NULL;
}

static cudaError_t launch_dgrad(const conv_plan *plan, const conv_buffers *b, cudaStream_t stream) {
  const conv_problem &p = plan->operation.problem;
  const depthwise_dgrad_launch *l = plan_data<depthwise_dgrad_launch>(plan);
  if (l->kernel) l->kernel<<<l->blocks, THREADS, 0, stream>>>(p, l->strip, (const __half2 *)b->y, (const __half *)b->w, (__half2 *)b->x);
  else any_depthwise_dgrad_kernel<<<l->blocks, THREADS, 0, stream>>>(p, (const __half2 *)b->y, (const __half *)b->w, (__half2 *)b->x);
  return cudaGetLastError();
}

NHWC_ROW(depthwise_dgrad, "04h", "depthwise, fp16: two channels a thread", PASS_DGRAD, 53, plan_dgrad, launch_dgrad, plain_growth_dgrad);
