/* 04b: a window of rows that rolls down the image in registers.
 *
 * Terms:    register window; thread coarsening; vectorized loads; warp shuffles.
 * Idea:     a thread owns 4 neighbouring columns and walks down the image. It reads every row once, four pixels in one load, gets the pixels
 *           left and right of its own from its neighbours' registers, and adds the row's part to all output rows whose windows it lies in;
 *           their unfinished sums live in registers. A sum that is complete is stored.
 * Change:   against 04a a thread has 4 columns x 6 rows (7x7: 8) instead of one output; the filter's size is a template parameter, so that all
 *           loops disappear, loads are started rows ahead, and the filter's elements stay put in registers. (Constant memory would serve
 *           as well, but filling it is a copy of its own.)
 * Expect:   04a asks the L1 for R x S pixels per output, this one for 1.4 (3x3) to 1.9. The memory becomes the limit: a picture of 4000 x 4000, read and
 *           written, takes 30 us.
 * Lanes:    the first and the last lane of a warp have one neighbour only: they load pixels and compute nothing of use, 2 lanes of 32.
 * Rows:     a block's warps lie below each other, so that the rows that two of them need are fetched once, into the L1. The fewer rows a warp has, the more
 *           warps there are to fill each other's gaps; the more, the fewer rows are read for two of them.
 * Whole:    a block whose pixels all lie in the image, as nearly all of a picture do, runs code without a test whether they do: a tenth fewer instructions.
 * Sizes:    3x3, 5x5, 7x7, stride 1, no dilation, padding S / 2 left and right, W a multiple of 4; else a plain kernel does it.
 *           One input channel per output channel (C == groups): pictures, and depthwise layers.
 * Passes:   fprop. Layout: NCHW, filters KCRS, fp32. */
#include <cuda_runtime.h>
#include <stdio.h>

#include "common/harness/plain.h"

enum { WARPS = 4, THREADS = 32 * WARPS, COLS = 4, BQ = 30 * COLS, MOST_BLOCKS = 65535 /* a grid's second and third dimension */ };

/* Rows of a warp, and of a block: the fastest that were tried on an H200. */
static __host__ __device__ constexpr int strip_of(int size) { return size == 7 ? 8 : 6; }
static __host__ __device__ constexpr int rows_of(int size) { return WARPS * strip_of(size); }

/* Rows from first_p on; x, w, y: my column of the first row under my windows, my filter, my first output.
 * WHOLE: everything lies in the image. Else: in_image, whether my column does; stores, whether I have outputs. */
template <int SIZE, bool WHOLE>
static __device__ __forceinline__ void roll_down(const conv_problem &p, int first_p, bool in_image, bool stores, const float *x, const float *w, float *y) {
  constexpr int PAD = SIZE / 2, STRIP = strip_of(SIZE);
  const int first_h = first_p - p.pad_top;
  float4 pixels[STRIP + SIZE - 1]; /* the rows under my windows; the compiler decides how many of them are on their way at a time */
#pragma unroll
  for (int i = 0; i < STRIP + SIZE - 1; i++) {
    const bool inside = WHOLE || (in_image && (unsigned)(first_h + i) < (unsigned)p.H); /* as unsigned, a negative number is a large one */
    pixels[i] = inside ? *(const float4 *)x : make_float4(0, 0, 0, 0);
    x += p.W;
  }
  float filter[SIZE * SIZE], sum[STRIP][COLS] = {}; /* of the sums, SIZE rows at a time are in use */
#pragma unroll
  for (int i = 0; i < SIZE * SIZE; i++) filter[i] = w[i];

#pragma unroll
  for (int i = 0; i < STRIP + SIZE - 1; i++) {
    const float mine[COLS] = {pixels[i].x, pixels[i].y, pixels[i].z, pixels[i].w};
    float row[PAD + COLS + PAD];
#pragma unroll
    for (int j = 0; j < COLS; j++) row[PAD + j] = mine[j];
#pragma unroll
    for (int j = 0; j < PAD; j++) {
      row[j] = __shfl_up_sync(0xffffffff, mine[COLS - PAD + j], 1);
      row[PAD + COLS + j] = __shfl_down_sync(0xffffffff, mine[j], 1);
    }
#pragma unroll
    for (int r = 0; r < SIZE; r++) {
      if (i - r < 0 || i - r >= STRIP) continue; /* my output row i - r has this row under its filter row r */
#pragma unroll
      for (int s = 0; s < SIZE; s++)
#pragma unroll
        for (int j = 0; j < COLS; j++) sum[i - r][j] += row[j + s] * filter[r * SIZE + s];
    }
    const int done = i - (SIZE - 1);
    if (done < 0) continue;
    const float *out = sum[done < 0 ? 0 : done];
    if (stores && (WHOLE || first_p + done < p.P)) *(float4 *)y = make_float4(out[0], out[1], out[2], out[3]);
    y += p.Q;
  }
}

/* SIZE x SIZE filters. A block: rows_of(SIZE) x BQ outputs of one plane y[n, k]; a warp: strip_of(SIZE) rows of them; a thread: COLS columns of these. */
template <int SIZE>
__global__ void __launch_bounds__(THREADS, SIZE == 7 ? 6 : 8)
    window_kernel(conv_problem p, unsigned first_plane, unsigned planes_of_c, const float *__restrict__ x, const float *__restrict__ w, float *__restrict__ y) {
  constexpr int STRIP = strip_of(SIZE), BP = rows_of(SIZE);
  const unsigned plane = first_plane + blockIdx.z; /* unsigned: a division takes half the instructions; a picture needs none */
  const unsigned k = p.K == 1 ? 0 : plane % p.K,
                 source = planes_of_c == 1 ? plane : plane / planes_of_c; /* planes_of_c = K / C planes of y come from x[n, c] */
  const int lane = threadIdx.x % 32;
  const int first_q = blockIdx.x * BQ + (lane - 1) * COLS;
  const int first_p = blockIdx.y * BP + threadIdx.x / 32 * STRIP, first_h = first_p - p.pad_top;
  const bool in_image = first_q >= 0 && first_q < p.W; /* W is a multiple of 4: all four columns or none */
  const bool stores = in_image && lane > 0 && lane < 31;
  const float *from = x + ((int)(source * p.H + first_h) * p.W + first_q);
  float *to = y + ((int)(plane * p.P + first_p) * p.Q + first_q);
  const int block_q = blockIdx.x * BQ, block_h = blockIdx.y * BP - p.pad_top;
  const bool whole = block_q > 0 && block_q + BQ + COLS <= p.W && block_h >= 0 && block_h + BP + SIZE - 1 <= p.H && block_h + p.pad_top + BP <= p.P;
  if (whole) roll_down<SIZE, true>(p, first_p, true, lane > 0 && lane < 31, from, w + k * SIZE * SIZE, to);
  else roll_down<SIZE, false>(p, first_p, in_image, stores, from, w + k * SIZE * SIZE, to);
}

/* Any other filter, stride, dilation, padding and width: one thread per output, as in 02a. */
__global__ void __launch_bounds__(THREADS) any_filter_kernel(conv_problem p, const float *x, const float *w, float *y) {
  const int i = blockIdx.x * THREADS + threadIdx.x;
  if (i >= p.N * p.K * p.P * p.Q) return;
  const int out_q = i % p.Q, out_p = i / p.Q % p.P, k = i / p.Q / p.P % p.K, n = i / p.Q / p.P / p.K;
  const float *image = x + (n * p.C + k / (p.K / p.groups)) * p.H * p.W;
  float sum = 0;
  for (int r = 0; r < p.R; r++)
    for (int s = 0; s < p.S; s++) {
      const int in_h = out_p * p.stride_h - p.pad_top + r * p.dil_h, in_w = out_q * p.stride_w - p.pad_left + s * p.dil_w;
      if (in_h >= 0 && in_h < p.H && in_w >= 0 && in_w < p.W) sum += image[in_h * p.W + in_w] * w[(k * p.R + r) * p.S + s];
    }
  y[i] = sum;
}

/* ---------------------------------------------------------------- host */

typedef void (*window_t)(conv_problem p, unsigned first_plane, unsigned planes_of_c, const float *x, const float *w, float *y);

/* The kernels: size of the filter, rows of a warp. */
typedef struct window_row {
  int size, strip;
  window_t kernel;
} window_row;
static const window_row table[] = {{3, strip_of(3), window_kernel<3>}, {5, strip_of(5), window_kernel<5>}, {7, strip_of(7), window_kernel<7>}};

/* What a launch needs. */
typedef struct window_launch {
  window_t kernel; /* NULL: the plain one */
  int planes;      /* of y, as many at a time as a grid has room for; the plain kernel knows none */
  dim3 grid;       /* for one plane; for all of y */
} window_launch;

/* The kernel for this filter; NULL: the plain one. */
static const window_row *row_of(const conv_problem *p) {
  const bool same = p->stride_h == 1 && p->stride_w == 1 && p->dil_h == 1 && p->dil_w == 1 && p->pad_left == p->S / 2 && p->Q == p->W;
  if (!same || p->R != p->S || p->W % 4 != 0) return NULL;
  for (const window_row &row : table)
    if (p->S == row.size && p->P <= WARPS * row.strip * MOST_BLOCKS) return &row;
  return NULL;
}

static const char *plan_fprop(const conv_operation *o, const conv_device *device, conv_plan *plan) {
  const conv_problem *p = &o->problem;
  if (p->C != p->groups) return "more than one input channel per output channel";
  const char *why = plain_plan(o, device, plan);
  if (why) return why;
  const window_row *row = row_of(p);
  window_launch *l = plan_data<window_launch>(plan);
  if (row) {
    l->kernel = row->kernel;
    l->planes = p->N * p->K;
    l->grid = dim3((p->Q + BQ - 1) / BQ, (p->P + WARPS * row->strip - 1) / (WARPS * row->strip));
    snprintf(plan->words, sizeof plan->words, "strips of %d rows", row->strip);
  } else {
    l->grid = dim3((problem_y_count(p) + THREADS - 1) / THREADS);
    snprintf(plan->words, sizeof plan->words, "one output a thread");
  }
  return NULL;
}

static cudaError_t launch_fprop(const conv_plan *plan, const conv_buffers *b, cudaStream_t stream) {
  const conv_problem &p = plan->operation.problem;
  const window_launch *l = plan_data<window_launch>(plan);
  const float *x = (const float *)b->x, *w = (const float *)b->w;
  float *y = (float *)b->y;
  if (!l->kernel) any_filter_kernel<<<l->grid, THREADS, 0, stream>>>(p, x, w, y);
  for (int first = 0; first < l->planes; first += MOST_BLOCKS) {
    const dim3 grid(l->grid.x, l->grid.y, l->planes - first < MOST_BLOCKS ? l->planes - first : MOST_BLOCKS);
    l->kernel<<<grid, THREADS, 0, stream>>>(p, first, p.K / p.C, x, w, y);
  }
  return cudaGetLastError();
}

NCHW_ROW(window_fprop, "04b", "a window of rows rolls down in registers", PASS_FPROP, plan_fprop, launch_fprop, plain_growth_fprop);
