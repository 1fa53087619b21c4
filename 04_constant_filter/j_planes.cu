/* 04j: depthwise layers in fp32 of any width, strides 1 and 2: fprop, and dgrad as the same kernel.
 *
 * Idea:     in both passes an image is read and another is written, and a tap connects a row `in` of one with a row `out` of the other:
 *             fprop  in  = stride * out - pad + tap
 *             dgrad  out = stride * in  - pad + tap      (stride 1: the filter turned by 180 degrees)
 *           and so for columns. All four are known when compiling, counted from where a lane's tile begins: which products there are is decided
 *           there, and dgrad with stride 2 computes no product with a zero between two pixels of dy.
 * Change:   against 04b narrow planes lie side by side in a warp (planes.cuh): of rows of 7, 14, 28, 56 and 112 pixels, 28 lanes of 32 have work,
 *           where 04b has 7, 14 and 28 in the last three and its plain kernel for the others. A block keeps to one channel, so that the filter is
 *           the same in all lanes and may go to uniform registers; the planes of a warp are those of several images.
 * Expect:   bound by memory. 64 images, 3x3: 32 channels of 112 x 112 move 206 MB, 48 us at 4.28 TB/s: 55 us. 96 channels with stride 2: 385 MB,
 *           90 us: 100 us. 960 channels of 7 x 7: 24 MB, 5.6 us; 320 instructions for 196 results take as long: 9 us.
 * Sizes:    3x3, 5x5, 7x7 with stride 1 or 2, padding SIZE / 2 before the image, no dilation; others by a plain kernel. C == groups.
 * Passes:   fprop, dgrad (04k: wgrad). Layout: NCHW, filters KCRS, fp32. */
#include <cuda_runtime.h>

#include "04_constant_filter/planes.cuh"

/* The tap between row (or column) `in` and `out`; outside 0 to SIZE - 1: none. */
template <int SIZE, int STRIDE, bool DGRAD> static __device__ constexpr int tap_of(int in, int out) {
  return (DGRAD ? out - STRIDE * in : in - STRIDE * out) + SIZE / 2;
}

/* A lane: a strip of COLS columns of the coarse image, and the rows and columns of the fine one that belong to it. from: x or dy, to: y or dx.
 * WHOLE: a tile's columns of the fine image are all inside or all outside. The grid: groups, tasks, channels. */
template <int SIZE, int STRIDE, int COLS, bool WHOLE, bool DGRAD>
__global__ void __launch_bounds__(THREADS, SIZE == 7 ? 5 : 8)
    planes_kernel(conv_problem p, planes_walk walk, const float *__restrict__ from, const float *__restrict__ w, float *__restrict__ to) {
  constexpr int IN = DGRAD ? 1 : STRIDE, OUT = DGRAD ? STRIDE : 1; /* rows, per row of the coarse image */
  constexpr int IN_COLS = IN * COLS, OUT_COLS = OUT * COLS, OUT_ROWS = OUT * STRIP;
  constexpr int BEFORE = DGRAD ? SIZE / 2 / STRIDE : SIZE / 2,
                AFTER = DGRAD ? (SIZE / 2 + STRIDE - 1) / STRIDE : SIZE / 2 - STRIDE + 1; /* what else my outputs need */
  constexpr int IN_ROWS = BEFORE + IN * STRIP + AFTER;
  const int in_height = DGRAD ? p.P : p.H, in_width = DGRAD ? p.Q : p.W, out_height = DGRAD ? p.H : p.P, out_width = DGRAD ? p.W : p.Q;

  const planes_lane me = planes_find(walk, blockIdx.x);
  const int first_task = (blockIdx.y * WARPS + threadIdx.x / 32) * walk.segments, task = first_task + me.segment;
  if (first_task >= walk.tasks) return; /* the whole warp */
  const int k = blockIdx.z, n = (unsigned)task / walk.strips, strip = (unsigned)task % walk.strips;
  const int in_plane = DGRAD ? n * p.K + k : n * p.C + k / walk.filters, out_plane = n * p.K + k; /* dgrad: C == K */
  const int first_in = strip * (IN * STRIP) - BEFORE, first_out = strip * OUT_ROWS, in_col = me.tile * IN_COLS, out_col = me.tile * OUT_COLS;
  const int first_from = (in_plane * in_height + first_in) * in_width + in_col, first_to = (out_plane * out_height + first_out) * out_width + out_col;
  const bool works = me.segment < walk.segments && task < walk.tasks;
  const int in_rows = works && in_col >= 0 && in_col < in_width ? in_height : 0; /* rows that I may read: all or none */
  const int out_rows = works && me.owns && out_col < out_width ? out_height - first_out : 0;

  float pixels[IN_ROWS][IN_COLS]; /* the compiler decides how many of them are on their way at a time */
#pragma unroll
  for (int i = 0; i < IN_ROWS; i++) {
    const bool inside = (unsigned)(first_in + i) < (unsigned)in_rows; /* neither negative nor too large */
    load_columns<IN_COLS, WHOLE>(pixels[i], from + (first_from + i * in_width), inside, inside && in_col + 1 < in_width);
  }
  float filter[SIZE * SIZE], sum[OUT_ROWS][OUT_COLS] = {}; /* of the sums, few rows at a time are in use */
#pragma unroll
  for (int i = 0; i < SIZE * SIZE; i++) filter[i] = w[k * SIZE * SIZE + i];

#pragma unroll
  for (int i = 0; i < IN_ROWS; i++) {
    float row[BEFORE + IN_COLS + AFTER];
    widen_row<BEFORE, IN_COLS, AFTER>(row, pixels[i], me.place, (int)walk.lanes);
#pragma unroll
    for (int o = 0; o < OUT_ROWS; o++) {
      const int r = tap_of<SIZE, STRIDE, DGRAD>(i - BEFORE, o);
      if (r < 0 || r >= SIZE) continue;
#pragma unroll
      for (int j = 0; j < OUT_COLS; j++)
#pragma unroll
        for (int a = 0; a < BEFORE + IN_COLS + AFTER; a++) {
          const int s = tap_of<SIZE, STRIDE, DGRAD>(a - BEFORE, j);
          if (s >= 0 && s < SIZE) sum[o][j] += row[a] * filter[r * SIZE + s];
        }
      const bool last = DGRAD ? r < STRIDE : r == SIZE - 1; /* no later row belongs to output row o */
      if (!last || o >= out_rows) continue;
      float *out = to + (first_to + o * out_width);
      if constexpr (OUT_COLS == 4) {
        *(float4 *)out = make_float4(sum[o][0], sum[o][1], sum[o][2], sum[o][3]);
      } else if constexpr (OUT_COLS == 2 && WHOLE) {
        *(float2 *)out = make_float2(sum[o][0], sum[o][1]);
      } else {
        out[0] = sum[o][0];
        if (OUT_COLS == 2 && out_col + 1 < out_width) out[1] = sum[o][OUT_COLS - 1];
      }
    }
  }
}

/* Any other filter, stride, dilation and padding: one thread per output, as in 02a. */
__global__ void __launch_bounds__(THREADS) any_fprop_kernel(conv_problem p, const float *x, const float *w, float *y) {
  const int i = blockIdx.x * THREADS + threadIdx.x;
  if (i >= p.N * p.K * p.P * p.Q) return;
  const int out_q = i % p.Q, out_p = i / p.Q % p.P, k = i / p.Q / p.P % p.K, n = i / p.Q / p.P / p.K;
  const float *image = x + (n * p.C + k / (p.K / p.C)) * p.H * p.W;
  float sum = 0;
  for (int r = 0; r < p.R; r++)
    for (int s = 0; s < p.S; s++) {
      const int in_h = out_p * p.stride_h - p.pad_top + r * p.dil_h, in_w = out_q * p.stride_w - p.pad_left + s * p.dil_w;
      if (in_h >= 0 && in_h < p.H && in_w >= 0 && in_w < p.W) sum += image[in_h * p.W + in_w] * w[(k * p.R + r) * p.S + s];
    }
  y[i] = sum;
}

__global__ void __launch_bounds__(THREADS) any_dgrad_kernel(conv_problem p, const float *dy, const float *w, float *dx) {
  const int i = blockIdx.x * THREADS + threadIdx.x, filters = p.K / p.C; /* of a channel */
  if (i >= p.N * p.C * p.H * p.W) return;
  const int in_w = i % p.W, in_h = i / p.W % p.H, c = i / p.W / p.H % p.C, n = i / p.W / p.H / p.C;
  float sum = 0;
  for (int k = c * filters; k < (c + 1) * filters; k++)
    for (int r = 0; r < p.R; r++)
      for (int s = 0; s < p.S; s++) {
        const int down = in_h + p.pad_top - r * p.dil_h, right = in_w + p.pad_left - s * p.dil_w, out_p = down / p.stride_h, out_q = right / p.stride_w;
        if (down < 0 || right < 0 || out_p * p.stride_h != down || out_q * p.stride_w != right || out_p >= p.P || out_q >= p.Q) continue;
        sum += dy[((n * p.K + k) * p.P + out_p) * p.Q + out_q] * w[(k * p.R + r) * p.S + s];
      }
  dx[i] = sum;
}

/* ---------------------------------------------------------------- host */

typedef void (*planes_t)(conv_problem p, planes_walk walk, const float *from, const float *w, float *to);

/* The kernels of fprop and dgrad. */
typedef struct planes_row {
  planes_key key;
  planes_t fprop, dgrad;
} planes_row;
#define ROW(SIZE, STRIDE, COLS, WHOLE) \
  { {SIZE, STRIDE, COLS, WHOLE}, planes_kernel<SIZE, STRIDE, COLS, WHOLE, false>, planes_kernel<SIZE, STRIDE, COLS, WHOLE, true> }
static const planes_row table[] = {
    ROW(3, 1, 4, true), ROW(3, 1, 2, true), ROW(3, 1, 1, true), ROW(3, 2, 2, true), ROW(3, 2, 1, true), ROW(3, 2, 1, false),
    ROW(5, 1, 4, true), ROW(5, 1, 2, true), ROW(5, 1, 1, true), ROW(5, 2, 2, true), ROW(5, 2, 1, true), ROW(5, 2, 1, false),
    ROW(7, 1, 4, true), ROW(7, 1, 2, true), ROW(7, 1, 1, true), ROW(7, 2, 2, true), ROW(7, 2, 1, true), ROW(7, 2, 1, false),
};

/* What a launch needs. */
typedef struct planes_launch {
  planes_t kernel; /* NULL: the plain one */
  planes_walk walk;
  dim3 grid;
} planes_launch;

static const char *plan_planes(const conv_operation *o, const conv_device *device, conv_plan *plan) {
  const conv_problem *p = &o->problem;
  const bool dgrad = o->pass == PASS_DGRAD;
  if (p->C != p->groups) return "more than one input channel per output channel";
  const char *why = plain_plan(o, device, plan);
  if (why) return why;
  planes_launch *l = plan_data<planes_launch>(plan);
  if (!planes_have(p) || (dgrad && p->K != p->C)) {
    l->grid = dim3(((dgrad ? problem_x_count(p) : problem_y_count(p)) + THREADS - 1) / THREADS);
    snprintf(plan->words, sizeof plan->words, "one element a thread");
    return NULL;
  }
  const planes_row *row = table;
  while (!planes_is_for(row->key, p)) row++;
  l->kernel = dgrad ? row->dgrad : row->fprop;
  l->walk = planes_plan(p, dgrad ? p->H : p->P, dgrad ? p->stride_h * STRIP : STRIP);
  l->grid = dim3(l->walk.groups, (l->walk.tasks + WARPS * l->walk.segments - 1) / (WARPS * l->walk.segments), p->K);
  planes_words(plan, &l->walk, row->key.cols);
  return NULL;
}

static cudaError_t launch_fprop(const conv_plan *plan, const conv_buffers *b, cudaStream_t stream) {
  const conv_problem &p = plan->operation.problem;
  const planes_launch *l = plan_data<planes_launch>(plan);
  if (l->kernel) l->kernel<<<l->grid, THREADS, 0, stream>>>(p, l->walk, (const float *)b->x, (const float *)b->w, (float *)b->y);
  else any_fprop_kernel<<<l->grid, THREADS, 0, stream>>>(p, (const float *)b->x, (const float *)b->w, (float *)b->y);
  return cudaGetLastError();
}

static cudaError_t launch_dgrad(const conv_plan *plan, const conv_buffers *b, cudaStream_t stream) {
  const conv_problem &p = plan->operation.problem;
  const planes_launch *l = plan_data<planes_launch>(plan);
  if (l->kernel) l->kernel<<<l->grid, THREADS, 0, stream>>>(p, l->walk, (const float *)b->y, (const float *)b->w, (float *)b->x);
  else any_dgrad_kernel<<<l->grid, THREADS, 0, stream>>>(p, (const float *)b->y, (const float *)b->w, (float *)b->x);
  return cudaGetLastError();
}

NCHW_ROW(planes_fprop, "04j", "depthwise of any width: planes side by side in a warp", PASS_FPROP, plan_planes, launch_fprop, plain_growth_fprop);
NCHW_ROW(planes_dgrad, "04j", "depthwise of any width: planes side by side in a warp", PASS_DGRAD, plan_planes, launch_dgrad, plain_growth_dgrad);
