/* 04i: the filter gradient of depthwise layers.
 *
 * Terms:    two-pass, deterministic reduction.
 * Idea:     dw has few elements and each adds up all pixels of all images. A thread owns two channels again, walks down one strip after the
 *           other, and keeps all R x S sums of both channels in registers; at the end the threads' sums are added up.
 * Change:   against 04g the roles turn: the filter's place in registers is that of the result, and a row of x meets the rows of dy that are
 *           kept from before. A second kernel adds up what the threads found, in an order that depends on the number of
 *           multiprocessors alone: on a GPU the result is the same in every run, bit for bit.
 * Expect:   3x3: bound by memory, reading x and dy once; 7x7: by FMAs, like fprop.
 * Sizes:    3x3, 5x5, 7x7 with stride 1 or 2, no dilation; others by a plain kernel. C = K = groups, even.
 * Passes:   wgrad. Layout: NHWC, filters KRSC, fp16 with fp32 sums. */
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <stdio.h>

#include "04_constant_filter/depthwise.h"

enum { THREADS = 128, COLS = 4, SUM_LANES = 8, MOST_PARTS = 512 };

static __host__ __device__ constexpr int resident_blocks(int size) { return size == 3 ? 4 : size == 5 ? 3 : 2; }
/* Rows of dy, and STRIDE times as many of x, on their way: as in 04g. */
static __host__ __device__ constexpr int steps_ahead(int size, int stride) { return size == 3 && stride == 1 ? 2 : 1; }

/* parts[part][tap][channel]: the sums of all strips whose number is `part` modulo the number of parts. A thread: one part of two channels.
 * A strip: `strip` rows of COLS columns of dy. */
template <int SIZE, int STRIDE>
__global__ void __launch_bounds__(THREADS, resident_blocks(SIZE))
    depthwise_wgrad_kernel(conv_problem p, int strip, int part_count, const __half2 *__restrict__ x, const __half2 *__restrict__ dy,
                           float2 *__restrict__ parts) {
  constexpr int WIDTH = (COLS - 1) * STRIDE + SIZE, FLIGHT = (SIZE - 1) / STRIDE + 1; /* as in 04g */
  constexpr int AHEAD = steps_ahead(SIZE, STRIDE);
  const int pairs = p.C / 2, tiles_q = (p.Q + COLS - 1) / COLS, strips = (p.P + strip - 1) / strip;
  const int task = blockIdx.x * THREADS + threadIdx.x, pair = task % pairs, part = task / pairs; /* neighbouring threads: neighbouring channels */
  if (part >= part_count) return;

  float2 sum[SIZE * SIZE] = {};
  for (int walk = part; walk < p.N * strips * tiles_q; walk += part_count) {
    const int first_q = walk % tiles_q * COLS, first_p = walk / tiles_q % strips * strip, n = walk / tiles_q / strips;
    const int rows = min(strip, p.P - first_p), first_h = first_p * STRIDE - p.pad_top, first_w = first_q * STRIDE - p.pad_left;
    const int end_h = min(first_h + (rows - 1) * STRIDE + SIZE, p.H);
    bool in_image[WIDTH];
#pragma unroll
    for (int j = 0; j < WIDTH; j++) in_image[j] = first_w + j >= 0 && first_w + j < p.W;
    int x_h = first_h, x_at = ((n * p.H + first_h) * p.W + first_w) * pairs + pair, dy_t = 0, dy_at = ((n * p.P + first_p) * p.Q + first_q) * pairs + pair;
    const auto load_x = [&](__half2 *row) {
      const bool inside = x_h >= 0 && x_h < end_h;
#pragma unroll
      for (int j = 0; j < WIDTH; j++) row[j] = inside && in_image[j] ? x[x_at + j * pairs] : __float2half2_rn(0);
      x_h++, x_at += p.W * pairs;
    };
    const auto load_dy = [&](__half2 *row) {
#pragma unroll
      for (int j = 0; j < COLS; j++) row[j] = dy_t < rows && first_q + j < p.Q ? dy[dy_at + j * pairs] : __float2half2_rn(0);
      dy_t++, dy_at += p.Q * pairs;
    };

    __half2 next_x[AHEAD * STRIDE][WIDTH], next_dy[AHEAD][COLS];
    float2 kept[FLIGHT][COLS] = {}; /* kept[k]: row t - k of dy, zeros before the first and after the last of the strip */
#pragma unroll
    for (int i = 0; i < AHEAD * STRIDE; i++) load_x(next_x[i]);
#pragma unroll
    for (int i = 0; i < AHEAD; i++) load_dy(next_dy[i]);
    for (int first_t = 0; first_t < rows + FLIGHT - 1; first_t += AHEAD)
#pragma unroll
      for (int i = 0; i < AHEAD; i++) {
        if (first_t + i >= rows + FLIGHT - 1) break;
#pragma unroll
        for (int j = 0; j < COLS; j++) {
#pragma unroll
          for (int k = FLIGHT - 1; k > 0; k--) kept[k][j] = kept[k - 1][j];
          kept[0][j] = __half22float2(next_dy[i][j]);
        }
        load_dy(next_dy[i]);
#pragma unroll
        for (int d = 0; d < STRIDE; d++) { /* row t * STRIDE + d of x lies under filter row k * STRIDE + d for row t - k of dy */
          float2 row[WIDTH];
#pragma unroll
          for (int j = 0; j < WIDTH; j++) row[j] = __half22float2(next_x[i * STRIDE + d][j]);
          load_x(next_x[i * STRIDE + d]);
#pragma unroll
          for (int k = 0; k < FLIGHT; k++) {
            const int r = k * STRIDE + d;
            if (r >= SIZE) continue;
#pragma unroll
            for (int s = 0; s < SIZE; s++)
#pragma unroll
              for (int j = 0; j < COLS; j++) {
                sum[r * SIZE + s].x += kept[k][j].x * row[j * STRIDE + s].x;
                sum[r * SIZE + s].y += kept[k][j].y * row[j * STRIDE + s].y;
              }
          }
        }
      }
  }
#pragma unroll
  for (int i = 0; i < SIZE * SIZE; i++) parts[(part * SIZE * SIZE + i) * pairs + pair] = sum[i];
}

/* Any other filter, stride, dilation: a thread has one tap of two channels, and of the image rows n * P + p every part_count-th. */
__global__ void __launch_bounds__(THREADS) any_depthwise_wgrad_kernel(conv_problem p, int part_count, const __half2 *x, const __half2 *dy, float2 *parts) {
  const int pairs = p.C / 2, taps = p.R * p.S, task = blockIdx.x * THREADS + threadIdx.x;
  const int pair = task % pairs, tap = task / pairs % taps, part = task / pairs / taps;
  if (part >= part_count) return;
  float2 sum = make_float2(0, 0);
  for (int row = part; row < p.N * p.P; row += part_count) {
    const int n = row / p.P, in_h = row % p.P * p.stride_h - p.pad_top + tap / p.S * p.dil_h;
    if (in_h < 0 || in_h >= p.H) continue;
    for (int out_q = 0; out_q < p.Q; out_q++) {
      const int in_w = out_q * p.stride_w - p.pad_left + tap % p.S * p.dil_w;
      if (in_w < 0 || in_w >= p.W) continue;
      const float2 gradient = __half22float2(dy[((int64_t)row * p.Q + out_q) * pairs + pair]);
      const float2 pixel = __half22float2(x[(((int64_t)n * p.H + in_h) * p.W + in_w) * pairs + pair]);
      sum.x += gradient.x * pixel.x;
      sum.y += gradient.y * pixel.y;
    }
  }
  parts[(part * taps + tap) * pairs + pair] = sum;
}

/* dw[channel][tap]: a block adds up all parts of 32 channels of one tap, SUM_LANES parts at a time. */
__global__ void __launch_bounds__(32 * SUM_LANES) sum_parts_kernel(int channels, int taps, int part_count, const float *parts, __half *dw) {
  __shared__ float shared[SUM_LANES][32];
  const int tap = blockIdx.x % taps, channel = blockIdx.x / taps * 32 + threadIdx.x;
  float sum = 0;
  if (channel < channels)
    for (int part = threadIdx.y; part < part_count; part += SUM_LANES) sum += parts[((int64_t)part * taps + tap) * channels + channel];
  shared[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y > 0 || channel >= channels) return;
  for (int lane = 1; lane < SUM_LANES; lane++) sum += shared[lane][threadIdx.x];
  dw[channel * taps + tap] = __float2half_rn(sum);
}

/* ---------------------------------------------------------------- host */

typedef void (*depthwise_wgrad_t)(conv_problem p, int strip, int part_count, const __half2 *x, const __half2 *dy, float2 *parts);

/* The kernels: size of the filter, stride. */
typedef struct depthwise_wgrad_row {
  int size, stride;
  depthwise_wgrad_t kernel;
} depthwise_wgrad_row;
static const depthwise_wgrad_row table[] = {
    {3, 1, depthwise_wgrad_kernel<3, 1>}, {3, 2, depthwise_wgrad_kernel<3, 2>}, {5, 1, depthwise_wgrad_kernel<5, 1>},
    {5, 2, depthwise_wgrad_kernel<5, 2>}, {7, 1, depthwise_wgrad_kernel<7, 1>}, {7, 2, depthwise_wgrad_kernel<7, 2>},
};

/* The kernel for this filter; NULL: the plain one. */
static depthwise_wgrad_t kernel_of(const conv_problem *p) {
  for (const depthwise_wgrad_row &row : table)
    if (is_square(p, row.size, row.stride)) return row.kernel;
  return NULL;
}

/* What a launch needs. */
typedef struct depthwise_wgrad_launch {
  depthwise_wgrad_t kernel;
  int strip, parts, blocks;
} depthwise_wgrad_launch;

static const char *plan_wgrad(const conv_operation *o, const conv_device *device, conv_plan *plan) {
  const conv_problem *p = &o->problem;
  const char *why = depthwise_unsupported(p, device);
  if (why) return why;
  depthwise_wgrad_launch *l = plan_data<depthwise_wgrad_launch>(plan);
  l->kernel = kernel_of(p);
  const int pairs = p->C / 2, taps = p->R * p->S, tiles_q = (p->Q + COLS - 1) / COLS;
  const int64_t held = (int64_t)device->sm_count * THREADS * resident_blocks(p->S);
  l->strip = depthwise_strip((int64_t)p->N * pairs * tiles_q, p->P, 2 * p->S, held);

  /* As many parts as the GPU holds threads for, and no more than there are strips, than MOST_PARTS for 64 pairs, than an int counts, which indices are. */
  const int64_t walks = l->kernel ? (int64_t)p->N * ((p->P + l->strip - 1) / l->strip) * tiles_q : (int64_t)p->N * p->P;
  const int64_t limits[] = {walks, held / pairs > 0 ? held / pairs : 1, (int64_t)MOST_PARTS * 64 / (pairs > 64 ? 64 : pairs),
                            (INT_MAX - 1024) / ((int64_t)pairs * taps)};
  int64_t parts = INT_MAX;
  for (const int64_t limit : limits)
    if (limit < parts) parts = limit;
  l->parts = (int)parts;
  l->blocks = (l->parts * pairs * (l->kernel ? 1 : taps) + THREADS - 1) / THREADS;
  plan->workspace_bytes = (size_t)l->parts * (size_t)p->C * (size_t)taps * sizeof(float);
  if (l->kernel) snprintf(plan->words, sizeof plan->words, "strips of %d rows, %d parts", l->strip, l->parts);
  else snprintf(plan->words, sizeof plan->words, "rows one by one, %d parts", l->parts);
  return NULL;
}

static cudaError_t launch_wgrad(const conv_plan *plan, const conv_buffers *b, cudaStream_t stream) {
  const conv_problem &p = plan->operation.problem;
  const depthwise_wgrad_launch *l = plan_data<depthwise_wgrad_launch>(plan);
  float2 *found = (float2 *)b->workspace;
  if (l->kernel) l->kernel<<<l->blocks, THREADS, 0, stream>>>(p, l->strip, l->parts, (const __half2 *)b->x, (const __half2 *)b->y, found);
  else any_depthwise_wgrad_kernel<<<l->blocks, THREADS, 0, stream>>>(p, l->parts, (const __half2 *)b->x, (const __half2 *)b->y, found);
  const cudaError_t status = cudaGetLastError();
  if (status) return status;
  const int taps = p.R * p.S;
  sum_parts_kernel<<<taps *((p.C + 31) / 32), dim3(32, SUM_LANES), 0, stream>>>(p.C, taps, l->parts, (const float *)found, (__half *)b->w);
  return cudaGetLastError();
}

NHWC_ROW(depthwise_wgrad, "04i", "depthwise, fp16: two channels a thread", PASS_WGRAD, 53, plan_wgrad, launch_wgrad, plain_growth_wgrad);
