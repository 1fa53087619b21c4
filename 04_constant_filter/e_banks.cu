/* 04e: large filters from constant memory, because a register file has two banks.
 *
 * Terms:    register bank conflicts; uniform registers.
 * Idea:     a multiply-add reads three registers. They lie in two banks, even and odd numbers, and a bank serves one of them at a time: three
 *           registers cost two cycles. Kernels get around it when neighbouring instructions share an operand, which the hardware keeps;
 *           matrix products share one always. A sliding window does not: as it slides by one, even becomes odd. With the filter's element
 *           from constant memory instead, through a uniform register, two registers are left. (04b's filters fit into uniform registers.)
 * Change:   from 15x15 on, 04d with its filter in constant memory and the filter's size a template parameter: a row of it is unrolled, and nothing
 *           rounded up. A thread has 2 x 16 outputs instead of 4 x 16: the loop's body must fit the instruction cache, and fewer registers
 *           leave room for more warps. Up to 13x13 the tile's halo and its wait would cost too much: there a thread walks down the image as
 *           in 04b, with a loop over its rows and unfinished sums of all SIZE rows. They move up by one with every row of pixels,
 *           which costs nothing, as a multiply-add may write its sum to another register than it read.
 * Expect:   of 04d's FMAs more than a third read two registers of one bank, so the FMA peak is out of reach by as much. Here almost none does
 *           (scripts/register_banks.sh counts them in the machine code).
 * Cache:    the constants that instructions name lie in a cache of about 2 KiB, a filter of 31 x 31 takes 3.8. In the tile one fetch
 *           of two elements serves 32 FMAs, 16 each; with 8 columns instead of 16 the warps would wait for constants.
 * Sizes:    9x9, 11x11, 13x13, 15x15, 31x31, stride 1, no dilation, padding S / 2 left and right, W a multiple of 4.
 *           One input channel per output channel. One launch, and one copy of a filter, for every output channel: meant for pictures.
 * Passes:   fprop. Layout: NCHW, filters KCRS, fp32. */
#include <cuda_pipeline.h>
#include <cuda_runtime.h>
#include <stdio.h>

#include "common/harness/plain.h"

enum { MOST_TAPS = 31 * 31, LARGEST_WALK = 13, MOST_BLOCKS = 65535 /* a grid's second and third dimension */ };

static __constant__ float constant_w[MOST_TAPS];

/* ---------------------------------------------------------------- up to 13x13: a walk down the image */

enum { THREADS = 128 };

/* Columns of a thread: the wider, the less counting per FMA; the registers are the limit. And blocks that a multiprocessor then holds. */
static __host__ __device__ constexpr int columns(int size) { return size == 9 ? 8 : 4; }
static constexpr int resident_blocks(int size) { return size == 9 ? 3 : 4; }

/* Filter k, which lies in constant_w. A thread: `strip` rows of COLS columns of y[n, k]. */
template <int SIZE> __global__ void __launch_bounds__(THREADS, resident_blocks(SIZE)) walk_kernel(conv_problem p, int k, int strip, const float *x, float *y) {
  constexpr int COLS = columns(SIZE), PAD = SIZE / 2, LEFT = (PAD + 3) / 4 * 4, WIDTH = LEFT + COLS + LEFT;
  constexpr int AHEAD = 2; /* rows of pixels on their way */
  const int tiles_q = (p.Q + THREADS * COLS - 1) / (THREADS * COLS), strips = (p.P + strip - 1) / strip, n = blockIdx.x / tiles_q / strips;
  const int first_q = (blockIdx.x % tiles_q * THREADS + threadIdx.x) * COLS, first_p = blockIdx.x / tiles_q % strips * strip,
            last_p = min(first_p + strip, p.P) - 1;
  if (first_q >= p.Q) return;
  const float *column = x + (int64_t)(n * p.C + k / (p.K / p.groups)) * p.H * p.W + first_q;
  float *result = y + (int64_t)(n * p.K + k) * p.P * p.Q + first_q;
  const int first_h = first_p - p.pad_top, last_h = last_p - p.pad_top + SIZE - 1;

  /* Four pixels at a time: W is a multiple of 4, so they lie inside the image together or outside. */
  const auto load_row = [&](float *row, int h) {
#pragma unroll
    for (int j = 0; j < WIDTH; j += 4) {
      const int in_w = first_q - LEFT + j;
      const bool inside = h >= 0 && h < p.H && h <= last_h && in_w >= 0 && in_w < p.W;
      const float4 four = inside ? *(const float4 *)(column + (int64_t)h * p.W + j - LEFT) : make_float4(0, 0, 0, 0);
      row[j] = four.x, row[j + 1] = four.y, row[j + 2] = four.z, row[j + 3] = four.w;
    }
  };
  float row[AHEAD][WIDTH], sum[SIZE][COLS] = {}; /* output rows to be completed, the oldest first */
#pragma unroll
  for (int d = 0; d < AHEAD; d++) load_row(row[d], first_h + d);

  for (int round_h = first_h; round_h <= last_h; round_h += AHEAD)
#pragma unroll
    for (int d = 0; d < AHEAD; d++) {
      const int h = round_h + d, newest = h + p.pad_top; /* row h lies under filter row r of output row newest - r */
      if (h > last_h) return;
#pragma unroll
      for (int r = SIZE - 1; r >= 0; r--) {
        if (newest - r < first_p || newest - r > last_p) continue; /* not mine */
        float part[COLS];
#pragma unroll
        for (int j = 0; j < COLS; j++) part[j] = r == 0 ? 0 : sum[SIZE - r][j];
#pragma unroll
        for (int m = 0; m < SIZE + COLS - 1; m++)
#pragma unroll
          for (int j = 0; j < COLS; j++)
            if (m - j >= 0 && m - j < SIZE) part[j] += row[d][LEFT - PAD + m] * constant_w[r * SIZE + m - j];
#pragma unroll
        for (int j = 0; j < COLS; j++) sum[SIZE - 1 - r][j] = part[j];
      }
      load_row(row[d], h + AHEAD);
      const int done = newest - (SIZE - 1);
      if (done >= first_p)
#pragma unroll
        for (int j = 0; j < COLS; j += 4)
          if (first_q + j < p.Q) *(float4 *)(result + (int64_t)done * p.Q + j) = make_float4(sum[0][j], sum[0][j + 1], sum[0][j + 2], sum[0][j + 3]);
    }
}

/* ---------------------------------------------------------------- from 15x15 on: a tile, as in 04d */

enum { ROWS = 2, COLS = 16, PARTS = COLS / 4, LANES_Q = 8, BQ = LANES_Q * COLS };

/* What follows from the filter's size: of a filter row STEP taps at a time are unrolled, 16 of 31. */
template <int SIZE> struct tile_of {
  static constexpr int THREADS = SIZE > 15 ? 256 : 128, BP = ROWS * THREADS / LANES_Q, PAD = SIZE / 2,
                       SKIP = (4 - PAD % 4) % 4; /* SKIP: columns that a tile begins too early, for quads */
  static constexpr int STEP = SIZE > 15 ? 16 : SIZE, WINDOW = (SKIP + COLS + STEP - 1 + 3) / 4 * 4;
  static constexpr int HEIGHT = BP + SIZE - 1, QUADS = (BQ + SIZE - SIZE % STEP - (SIZE % STEP ? 0 : STEP) + WINDOW - COLS) / 4, PART = QUADS / PARTS + 1;
  static constexpr size_t BYTES = (size_t)HEIGHT * PARTS * PART * sizeof(float4);
};

/* Filter k, which lies in constant_w. A block: BP x BQ outputs of one plane y[n, k]; a thread: ROWS x COLS of them. */
template <int SIZE> __global__ void __launch_bounds__(tile_of<SIZE>::THREADS, SIZE > 15 ? 3 : 7) tile_kernel(conv_problem p, int k, const float *x, float *y) {
  using b = tile_of<SIZE>;
  extern __shared__ float4 tile[]; /* [HEIGHT][PARTS][PART], as in 04d */
  const int first_q = blockIdx.x * BQ, first_p = blockIdx.y * b::BP, n = blockIdx.z;
  const int first_h = first_p - p.pad_top, first_w = first_q - b::PAD - b::SKIP;
  const float *image = x + (int64_t)(n * p.C + k / (p.K / p.groups)) * p.H * p.W;
  for (int i = threadIdx.x; i < b::HEIGHT * b::QUADS; i += b::THREADS) {
    const int row = i / b::QUADS, quad = i % b::QUADS, in_h = first_h + row, in_w = first_w + 4 * quad;
    const bool inside = in_h >= 0 && in_h < p.H && in_w >= 0 && in_w < p.W; /* W is a multiple of 4: a quad lies inside or outside */
    float4 *to = &tile[(PARTS * row + quad % PARTS) * b::PART + quad / PARTS];
    __pipeline_memcpy_async(to, inside ? image + (int64_t)in_h * p.W + in_w : x, 16, inside ? 0 : 16);
  }
  __pipeline_commit();
  __pipeline_wait_prior(0);
  __syncthreads();

  const int my_q = threadIdx.x % LANES_Q, my_p = threadIdx.x / LANES_Q * ROWS;
  float sum[ROWS][COLS] = {};
  /* Row h of the pixels under my windows lies under filter row h - i of my output row i, for i from first_i to last_i. */
  const auto add_row = [&](int h, int first_i, int last_i) {
    const float4 *row = tile + PARTS * (my_p + h) * b::PART + my_q;
#pragma unroll
    for (int s = 0; s < SIZE; s += b::STEP) {
      __align__(16) float window[b::WINDOW];
#pragma unroll
      for (int j = 0; j < b::WINDOW; j += 4) *(float4 *)&window[j] = row[(s + j) / 4 % PARTS * b::PART + (s + j) / 4 / PARTS];
#pragma unroll
      for (int i = 0; i < ROWS; i++) {
        if (i < first_i || i > last_i) continue; /* known when compiling */
#pragma unroll
        for (int m = 0; m < b::STEP && s + m < SIZE; m++)
#pragma unroll
          for (int j = 0; j < COLS; j++) sum[i][j] += window[b::SKIP + j + m] * constant_w[(h - i) * SIZE + s + m];
      }
    }
  };
#pragma unroll
  for (int h = 0; h < ROWS - 1; h++) add_row(h, 0, h);
#pragma unroll 1
  for (int h = ROWS - 1; h < SIZE; h++) add_row(h, 0, ROWS - 1);
#pragma unroll
  for (int h = 0; h < ROWS - 1; h++) add_row(SIZE + h, h + 1, ROWS - 1);

#pragma unroll
  for (int i = 0; i < ROWS; i++) {
    const int out_p = first_p + my_p + i;
    if (out_p >= p.P) continue;
    float *out = y + ((int64_t)(n * p.K + k) * p.P + out_p) * p.Q + first_q;
#pragma unroll
    for (int j = 0; j < COLS; j += 4) {
      const int q = my_q * COLS + j;
      if (first_q + q < p.Q) *(float4 *)(out + q) = make_float4(sum[i][j], sum[i][j + 1], sum[i][j + 2], sum[i][j + 3]);
    }
  }
}

/* ---------------------------------------------------------------- host */

typedef void (*walk_t)(conv_problem p, int k, int strip, const float *x, float *y);
typedef void (*tile_t)(conv_problem p, int k, const float *x, float *y);

/* The kernels: a walk or a tile. Threads and columns of a block; the walk: blocks of a multiprocessor; the tile: rows of a block, its shared memory. */
typedef struct banks_row {
  int size;
  walk_t walk;
  tile_t tile;
  int threads, bq, resident, bp;
  size_t bytes;
} banks_row;
static const banks_row table[] = {
    {9, walk_kernel<9>, NULL, THREADS, columns(9) * THREADS, resident_blocks(9), 0, 0},
    {11, walk_kernel<11>, NULL, THREADS, columns(11) * THREADS, resident_blocks(11), 0, 0},
    {13, walk_kernel<13>, NULL, THREADS, columns(13) * THREADS, resident_blocks(13), 0, 0},
    {15, NULL, tile_kernel<15>, tile_of<15>::THREADS, BQ, 0, tile_of<15>::BP, tile_of<15>::BYTES},
    {31, NULL, tile_kernel<31>, tile_of<31>::THREADS, BQ, 0, tile_of<31>::BP, tile_of<31>::BYTES},
};

/* What a launch needs. */
typedef struct banks_launch {
  const banks_row *row;
  dim3 grid;
  int strip; /* rows of a walk */
} banks_launch;

static const char *plan_fprop(const conv_operation *o, const conv_device *device, conv_plan *plan) {
  const conv_problem *p = &o->problem;
  if (p->C != p->groups) return "more than one input channel per output channel";
  if (p->stride_h != 1 || p->stride_w != 1 || p->dil_h != 1 || p->dil_w != 1) return "stride or dilation is not 1";
  const banks_row *row = NULL;
  for (const banks_row &one : table)
    if (p->R == one.size && p->S == one.size) row = &one;
  if (!row) return "the filter is not 9x9, 11x11, 13x13, 15x15 or 31x31";
  if (p->pad_left != p->S / 2 || p->Q != p->W || p->W % 4 != 0) return "W is no multiple of 4, or the padding not S / 2";
  if (p->N > MOST_BLOCKS) return "more than 65535 images (a grid's third dimension)";
  if (row->tile && p->P > row->bp * MOST_BLOCKS) {
    snprintf(plan->why_not, sizeof plan->why_not, "more than 65535 blocks of %d rows (a grid's second dimension)", row->bp);
    return plan->why_not;
  }
  const char *why = plain_plan(o, device, plan);
  if (why) return why;
  banks_launch *l = plan_data<banks_launch>(plan);
  l->row = row;
  const int tiles_q = (p->Q + row->bq - 1) / row->bq;
  if (row->walk) { /* one strip for every block that the GPU holds at a time */
    const int strips = device->sm_count * row->resident / (p->N * tiles_q);
    l->strip = strips > 1 ? (p->P + strips - 1) / strips : p->P;
    l->grid = dim3(p->N * tiles_q * ((p->P + l->strip - 1) / l->strip));
    snprintf(plan->words, sizeof plan->words, "strips of %d rows", l->strip);
    return NULL;
  }
  l->grid = dim3(tiles_q, (p->P + row->bp - 1) / row->bp, p->N);
  snprintf(plan->words, sizeof plan->words, "%d x %d outputs a block", row->bq, row->bp);
  const cudaError_t status = plan_allow_shared((const void *)row->tile, row->bytes);
  return status ? plan_failed(plan, status) : NULL;
}

static cudaError_t launch_fprop(const conv_plan *plan, const conv_buffers *b, cudaStream_t stream) {
  const conv_problem &p = plan->operation.problem;
  const banks_launch *l = plan_data<banks_launch>(plan);
  const banks_row *row = l->row;
  const int taps = p.R * p.S;
  for (int k = 0; k < p.K; k++) {
    cudaError_t status = cudaMemcpyToSymbolAsync(constant_w, (const float *)b->w + k * taps, taps * sizeof(float), 0, cudaMemcpyDeviceToDevice, stream);
    if (status) return status;
    if (row->walk) row->walk<<<l->grid, row->threads, 0, stream>>>(p, k, l->strip, (const float *)b->x, (float *)b->y);
    else row->tile<<<l->grid, row->threads, row->bytes, stream>>>(p, k, (const float *)b->x, (float *)b->y);
    status = cudaGetLastError();
    if (status) return status;
  }
  return cudaSuccess;
}

NCHW_ROW(banks_fprop, "04e", "large filters from constant memory, for the register banks", PASS_FPROP, plan_fprop, launch_fprop, plain_growth_fprop);
