/* 04k: the filter gradient of depthwise layers in fp32 of any width, strides 1 and 2.
 *
 * Idea:     a lane keeps all R x S sums of a channel in registers, walks through strips of that channel's planes in all images, and the sums of
 *           the lanes are added up at the end: within a block through shared memory, those of several blocks by a second kernel. Everything
 *           is added in an order that depends on nothing: the result is the same in every run, bit for bit.
 * Change:   against 04j the roles turn, as in 04i: the filter's place in registers is that of the result. A row of x meets the rows of dy
 *           that it lies under; the lanes share out the planes as there.
 * Expect:   3x3 and 5x5 bound by memory: x and dy are read once. 64 images, 3x3, 32 channels of 112 x 112: 206 MB, 48 us; 58 us with the start and the
 *           second kernel. 7x7: 49 FMAs for 8 bytes, every other one with two registers in one bank (04e), and as many other instructions as a third
 *           of them: half the bandwidth. 96 channels of 56 x 56: 154 MB, 36 us; 75 us.
 * Sizes:    3x3, 5x5, 7x7 with stride 1 or 2, padding SIZE / 2 before the image, no dilation; others by a plain kernel. C == groups.
 * Passes:   wgrad. Layout: NCHW, filters KCRS, fp32. */
#include <cuda_runtime.h>

#include "04_constant_filter/planes.cuh"
#include "04_constant_filter/sum_parts.cuh"

enum { MOST_PARTS = 1024 };

static __host__ __device__ constexpr int resident_blocks(int size) { return size == 3 ? 6 : size == 5 ? 5 : 4; }

/* A block: every gridDim.x-th of a channel's tasks, WARPS times as many as a warp has segments at once. parts[k][tap][part], part = (blockIdx.y, .x).
 * WHOLE: as in 04j. The grid: shares of the tasks, groups, channels. */
template <int SIZE, int STRIDE, int COLS, bool WHOLE>
__global__ void __launch_bounds__(THREADS, resident_blocks(SIZE))
    planes_wgrad_kernel(conv_problem p, planes_walk walk, const float *__restrict__ x, const float *__restrict__ dy, float *__restrict__ parts) {
  constexpr int X_COLS = STRIDE * COLS, BEFORE = SIZE / 2, AFTER = SIZE / 2 - STRIDE + 1,
                ROWS = BEFORE + STRIDE * STRIP + AFTER; /* rows of x for a strip of dy */
  const planes_lane me = planes_find(walk, blockIdx.y);
  const int k = blockIdx.z, c = k / walk.filters, warp = threadIdx.x / 32;
  const int x_col = me.tile * X_COLS, y_col = me.tile * COLS;
  const bool reads_x = me.segment < walk.segments && x_col >= 0 && x_col < p.W, reads_dy = me.owns && y_col < p.Q;

  float sum[SIZE * SIZE] = {};
  const int at_once = WARPS * walk.segments;
#pragma unroll 1
  /* Uniform, so that the shuffles below need no second version for a divided warp. */
  for (int first = blockIdx.x * at_once; first < walk.tasks; first += gridDim.x * at_once) {
    const int task = first + warp * walk.segments + me.segment, n = (unsigned)task / walk.strips, strip = (unsigned)task % walk.strips;
    const int first_h = strip * (STRIDE * STRIP) - BEFORE, first_p = strip * STRIP;
    const int h_end = reads_x && task < walk.tasks ? p.H : 0, p_end = reads_dy && task < walk.tasks ? p.P : 0;
    const int first_x = ((n * p.C + c) * p.H + first_h) * p.W + x_col, first_y = ((n * p.K + k) * p.P + first_p) * p.Q + y_col;

    float gradient[STRIP][COLS], pixels[ROWS][X_COLS]; /* the compiler decides how many of them are on their way at a time */
#pragma unroll
    for (int i = 0; i < ROWS; i++) {
      const bool inside = (unsigned)(first_h + i) < (unsigned)h_end; /* neither negative nor too large */
      load_columns<X_COLS, WHOLE>(pixels[i], x + (first_x + i * p.W), inside, inside && x_col + 1 < p.W);
      if (i < STRIP) load_columns<COLS, true>(gradient[i], dy + (first_y + i * p.Q), first_p + i < p_end, false);
    }
#pragma unroll
    for (int i = 0; i < ROWS; i++) {
      float row[BEFORE + X_COLS + AFTER];
      widen_row<BEFORE, X_COLS, AFTER>(row, pixels[i], me.place, (int)walk.lanes);
#pragma unroll
      for (int o = 0; o < STRIP; o++) {
        const int r = i - STRIDE * o; /* row i of x lies under filter row r for row o of dy */
        if (r < 0 || r >= SIZE) continue;
#pragma unroll
        for (int j = 0; j < COLS; j++)
#pragma unroll
          for (int s = 0; s < SIZE; s++) sum[r * SIZE + s] += gradient[o][j] * row[STRIDE * j + s];
      }
    }
  }

  /* The block's sums: lanes leave theirs, and a warp adds up those of every WARPS-th tap. */
  __shared__ float found[SIZE * SIZE][THREADS];
#pragma unroll
  for (int i = 0; i < SIZE * SIZE; i++) found[i][threadIdx.x] = sum[i];
  __syncthreads();
  const int part = blockIdx.y * gridDim.x + blockIdx.x, part_count = gridDim.x * gridDim.y;
  for (int tap = warp; tap < SIZE * SIZE; tap += WARPS) {
    float total = 0;
#pragma unroll
    for (int j = 0; j < WARPS; j++) total += found[tap][j * 32 + threadIdx.x % 32];
#pragma unroll
    for (int lanes = 16; lanes > 0; lanes /= 2) total += __shfl_xor_sync(0xffffffff, total, lanes);
    if (threadIdx.x % 32 == 0) parts[(k * SIZE * SIZE + tap) * part_count + part] = total;
  }
}

/* Any other filter, stride, dilation and padding: a warp has one element of dw and part `blockIdx.y` of the rows of dy; its lanes have every 32nd
 * pixel of a row. */
__global__ void __launch_bounds__(THREADS) any_wgrad_kernel(conv_problem p, const float *x, const float *dy, float *parts) {
  const int element = blockIdx.x * WARPS + threadIdx.x / 32, s = element % p.S, r = element / p.S % p.R, k = element / p.S / p.R;
  if (k >= p.K) return;
  float sum = 0;
  for (int row = blockIdx.y; row < p.N * p.P; row += gridDim.y) {
    const int n = row / p.P, out_p = row % p.P, in_h = out_p * p.stride_h - p.pad_top + r * p.dil_h;
    if (in_h < 0 || in_h >= p.H) continue;
    const float *pixels = x + ((n * p.C + k / (p.K / p.C)) * p.H + in_h) * p.W, *gradient = dy + ((n * p.K + k) * p.P + out_p) * p.Q;
    for (int out_q = threadIdx.x % 32; out_q < p.Q; out_q += 32) {
      const int in_w = out_q * p.stride_w - p.pad_left + s * p.dil_w;
      if (in_w >= 0 && in_w < p.W) sum += gradient[out_q] * pixels[in_w];
    }
  }
#pragma unroll
  for (int lanes = 16; lanes > 0; lanes /= 2) sum += __shfl_xor_sync(0xffffffff, sum, lanes);
  if (threadIdx.x % 32 == 0) parts[element * (int)gridDim.y + blockIdx.y] = sum;
}

/* ---------------------------------------------------------------- host */

typedef void (*planes_wgrad_t)(conv_problem p, planes_walk walk, const float *x, const float *dy, float *parts);

/* The kernels. */
typedef struct planes_wgrad_row {
  planes_key key;
  planes_wgrad_t kernel;
} planes_wgrad_row;
#define ROW(SIZE, STRIDE, COLS, WHOLE) \
  { {SIZE, STRIDE, COLS, WHOLE}, planes_wgrad_kernel<SIZE, STRIDE, COLS, WHOLE> }
static const planes_wgrad_row table[] = {
    ROW(3, 1, 4, true), ROW(3, 1, 2, true), ROW(3, 1, 1, true), ROW(3, 2, 2, true), ROW(3, 2, 1, true), ROW(3, 2, 1, false),
    ROW(5, 1, 4, true), ROW(5, 1, 2, true), ROW(5, 1, 1, true), ROW(5, 2, 2, true), ROW(5, 2, 1, true), ROW(5, 2, 1, false),
    ROW(7, 1, 4, true), ROW(7, 1, 2, true), ROW(7, 1, 1, true), ROW(7, 2, 2, true), ROW(7, 2, 1, true), ROW(7, 2, 1, false),
};

/* What a launch needs. share: blocks that share a channel, or an element of dw. With one part only, that is the result. */
typedef struct planes_wgrad_launch {
  planes_wgrad_t kernel; /* NULL: the plain one */
  planes_walk walk;
  int parts;
  dim3 grid;
} planes_wgrad_launch;

static const char *plan_wgrad(const conv_operation *o, const conv_device *device, conv_plan *plan) {
  const conv_problem *p = &o->problem;
  if (p->C != p->groups) return "more than one input channel per output channel";
  const char *why = plain_plan(o, device, plan);
  if (why) return why;
  planes_wgrad_launch *l = plan_data<planes_wgrad_launch>(plan);
  const int elements = (int)problem_w_count(p);
  if (planes_have(p)) {
    const planes_wgrad_row *row = table;
    while (!planes_is_for(row->key, p)) row++;
    l->kernel = row->kernel;
    const planes_walk walk = l->walk = planes_plan(p, p->P, STRIP);
    /* Blocks that share a channel: enough for MOST_PARTS blocks in all, which is more than a GPU holds, but none with less than four rounds of work. It
     * does not depend on the GPU, as the result does on it. */
    const int rounds = (walk.tasks + WARPS * walk.segments - 1) / (WARPS * walk.segments),
              wanted = (MOST_PARTS + p->K * walk.groups - 1) / (p->K * walk.groups), most = (rounds + 3) / 4;
    const int share = wanted < most ? wanted : most;
    l->parts = share * walk.groups;
    l->grid = dim3(share, walk.groups, p->K);
    planes_words(plan, &walk, row->key.cols);
  } else {
    l->parts = p->N * p->P < 64 ? p->N * p->P : 64;
    l->grid = dim3((elements + WARPS - 1) / WARPS, l->parts);
    snprintf(plan->words, sizeof plan->words, "one element a warp, %d parts", l->parts);
  }
  if (elements > (INT_MAX - 1024) / l->parts) return "dw has 2^31 elements or more, in parts (indices are 32-bit)";
  plan->workspace_bytes = l->parts > 1 ? (size_t)elements * (size_t)l->parts * sizeof(float) : 0;
  return NULL;
}

static cudaError_t launch_wgrad(const conv_plan *plan, const conv_buffers *b, cudaStream_t stream) {
  const conv_problem &p = plan->operation.problem;
  const planes_wgrad_launch *l = plan_data<planes_wgrad_launch>(plan);
  float *found = l->parts > 1 ? (float *)b->workspace : (float *)b->w;
  if (l->kernel) l->kernel<<<l->grid, THREADS, 0, stream>>>(p, l->walk, (const float *)b->x, (const float *)b->y, found);
  else any_wgrad_kernel<<<l->grid, THREADS, 0, stream>>>(p, (const float *)b->x, (const float *)b->y, found);
  const cudaError_t status = cudaGetLastError();
  if (status) return status;
  return l->parts > 1 ? sum_parts((int)problem_w_count(&p), l->parts, found, (float *)b->w, stream) : cudaSuccess;
}

NCHW_ROW(planes_wgrad, "04k", "depthwise of any width: all sums of a filter in registers", PASS_WGRAD, plan_wgrad, launch_wgrad, plain_growth_wgrad);
