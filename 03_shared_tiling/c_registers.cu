/* 03c: an 8 x 8 tile of outputs in every thread's registers.
 *
 * Terms:    register tiling (register blocking); bank conflicts.
 * Idea:     a value that was read from shared memory is used for a whole row or column of a register tile. With TK = 8 channels x 8 pixels
 *           a thread reads 8 + 8 values for 64 FMAs; the FMA units become the limit, no longer the reads.
 * Change:   against 03b a thread has 8 pixels, not one; a block is 64 channels x 128 pixels; a stage holds several input channels, so
 *           that the block meets less often; filters and pixels are copied so that no two lanes want the same bank.
 * Expect:   a tap costs a warp 64 FMAs, 8 reads of 4 bytes, 2 of 16 bytes and some counting: 80 % of the issue slots do FMAs.
 * Banks:    a warp reads 16 neighbouring pixels (both half warps the same: a broadcast) at stride 1, and two different float4 of filters.
 *           Copying filters, a warp takes 8 taps of 4 channels, 8 taps = 32 bytes = one sector each, and writes them to
 *           tap * (64 + 4) + channel: 4 banks from tap to tap, 1 from channel to channel, all 32 of them different.
 * Passes:   fprop, and dgrad at stride 1 (turned.h). Layout: NCHW, filters KCRS, fp32. */
#include <cuda_runtime.h>
#include <stdio.h>

#include "03_shared_tiling/turned.h"

enum {
  TK = 8,
  TPIX = 8, /* a thread's outputs: channels x pixels */
  LANES_K = 8,
  LANES_Q = 16,      /* a block's threads: along the channels, along the columns */
  BK = TK * LANES_K, /* a block's channels */
  THREADS = LANES_K * LANES_Q,
  WARPS = THREADS / 32,
  COPY_K = THREADS / 8,
  FILTER_PITCH = BK + 4, /* floats from tap to tap in shared memory */
  SHARED_LIMIT = 48 * 1024,
};

/* What of the problem a block has in shared memory at a time: `channels` input channels, `rows` filter rows, and the pixels under them. */
typedef struct stage {
  int channels, rows, height, width;
  int64_t bytes;
} stage;

/* COLS: pixels of a thread in one row, LANES_Q columns apart; it has TPIX / COLS rows. TAPS: the filter's width S if it is known and the taps
 * and windows lie side by side (stride 1, no dilation), so that their offsets are constants; 0: any. A block: y[n, BK channels, BP x BQ pixels]. */
template <int COLS, int TAPS>
__global__ void __launch_bounds__(THREADS, 4) registers_kernel(turned_conv t, stage size, const float *x, const float *w, float *y) {
  constexpr int BQ = LANES_Q * COLS, BP = TPIX / COLS; /* BP: also the rows of a thread */
  extern __shared__ float4 shared[];
  float *filters = (float *)shared; /* [channels][rows][S][FILTER_PITCH] */
  const conv_problem &p = t.p;
  float *tile = filters + size.channels * size.rows * p.S * FILTER_PITCH; /* [channels][height][width] */

  const int group_c = p.C / p.groups, group_k = p.K / p.groups, tiles_k = (group_k + BK - 1) / BK;
  const int tiles_q = (p.Q + BQ - 1) / BQ, tiles_p = (p.P + BP - 1) / BP;
  const int tile_k = blockIdx.x % (p.groups * tiles_k); /* neighbouring blocks read the same pixels */
  const int first_q = blockIdx.x / (p.groups * tiles_k) % tiles_q * BQ;
  const int first_p = blockIdx.x / (p.groups * tiles_k) / tiles_q % tiles_p * BP;
  const int n = blockIdx.x / (p.groups * tiles_k) / tiles_q / tiles_p;
  const int group = tile_k / tiles_k, first_k = tile_k % tiles_k * BK;

  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int my_q = threadIdx.x % LANES_Q, my_k = threadIdx.x / LANES_Q * TK;
  const float *group_w = w + group * group_k * group_c * p.R * p.S;

  const int S = TAPS ? TAPS : p.S, dil_w = TAPS ? 1 : p.dil_w, stride_w = TAPS ? 1 : p.stride_w;
  const int parts_r = (p.R + size.rows - 1) / size.rows, stages = (group_c + size.channels - 1) / size.channels * parts_r;

  float sum[TK][TPIX] = {};
  for (int i = 0; i < stages; i++) {
    const int first_c = i / parts_r * size.channels, channels = min(size.channels, group_c - first_c);
    const int first_r = i % parts_r * size.rows, rows = min(size.rows, p.R - first_r), taps = rows * p.S;

    /* Pixels: a warp takes a row, its lanes the columns. */
    const int first_h = first_p * p.stride_h - p.pad_top + first_r * p.dil_h, first_w = first_q * p.stride_w - p.pad_left;
    for (int row = warp; row < channels * size.height; row += WARPS) {
      const int in_c = group * group_c + first_c + row / size.height, in_h = first_h + row % size.height;
      const bool row_inside = in_h >= 0 && in_h < p.H;
      for (int j = lane; j < size.width; j += 32) {
        const int in_w = first_w + j;
        const bool inside = row_inside && in_w >= 0 && in_w < p.W;
        tile[row * size.width + j] = inside ? x[((n * p.C + in_c) * p.H + in_h) * p.W + in_w] : 0;
      }
    }
    /* Filters: a warp takes 8 neighbouring taps of 4 channels at a time, the block of COPY_K channels. */
    const int k = threadIdx.x / 8;
    for (int j = lane % 8, c = j / taps, tap = j % taps; j < channels * taps; j += 8) {
      const float *from = &group_w[TURNED_W(t, first_k + k, first_c + c, first_r * p.S + tap)];
      float *to = &filters[j * FILTER_PITCH + k];
#pragma unroll
      for (int m = 0; m < BK; m += COPY_K) {
        const bool inside = first_k + k + m < group_k;
        to[m] = inside ? from[m * t.w_k] : 0;
      }
      for (tap += 8; tap >= taps; tap -= taps) c++;
    }
    __syncthreads(); /* pixels and filters are there */

    for (int c = 0; c < channels; c++)
      for (int r = 0; r < rows; r++) {
        const float *filter = filters + (c * taps + r * S) * FILTER_PITCH + my_k, *row[BP];
#pragma unroll
        for (int j = 0; j < BP; j++) row[j] = tile + (c * size.height + j * p.stride_h + r * p.dil_h) * size.width + my_q * stride_w;
#pragma unroll
        for (int s = 0; s < S; s++) {
          const float4 low = *(const float4 *)(filter + s * FILTER_PITCH), high = *(const float4 *)(filter + s * FILTER_PITCH + 4);
          const float a[TK] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
          float b[TPIX];
#pragma unroll
          for (int j = 0; j < TPIX; j++) b[j] = row[j / COLS][s * dil_w + j % COLS * LANES_Q * stride_w];
#pragma unroll
          for (int k = 0; k < TK; k++)
#pragma unroll
            for (int j = 0; j < TPIX; j++) sum[k][j] += a[k] * b[j];
        }
      }
    __syncthreads(); /* nobody reads them any more */
  }

#pragma unroll
  for (int j = 0; j < TPIX; j++) {
    const int out_p = first_p + j / COLS, out_q = first_q + my_q + j % COLS * LANES_Q;
    if (out_p >= p.P || out_q >= p.Q) continue;
#pragma unroll
    for (int k = 0; k < TK; k++)
      if (first_k + my_k + k < group_k) y[((n * p.K + group * group_k + first_k + my_k + k) * p.P + out_p) * p.Q + out_q] = sum[k][j];
  }
}

/* ---------------------------------------------------------------- host */

typedef void (*registers_t)(turned_conv t, stage size, const float *x, const float *w, float *y);

/* The kernels: columns of a thread; width of the filter whose taps lie side by side, 0: any filter. */
typedef struct registers_row {
  int cols, taps;
  registers_t kernel;
} registers_row;
static const registers_row table[] = {
    {2, 3, registers_kernel<2, 3>}, {2, 1, registers_kernel<2, 1>}, {2, 0, registers_kernel<2, 0>},
    {1, 3, registers_kernel<1, 3>}, {1, 1, registers_kernel<1, 1>}, {1, 0, registers_kernel<1, 0>},
};

/* What a launch needs. */
typedef struct registers_launch {
  registers_t kernel;
  stage size;
  turned_conv t;
  int blocks;
} registers_launch;

/* Tiles wider or higher than the limit do not fit either way. */
static int clamp(int64_t size) { return size < SHARED_LIMIT ? (int)size : (int)SHARED_LIMIT; }

static stage stage_with(const conv_problem *p, int cols, int channels, int rows) {
  const int bq = LANES_Q * cols, bp = TPIX / cols;
  const int height = clamp((bp - 1LL) * p->stride_h + (rows - 1LL) * p->dil_h + 1), width = clamp((bq - 1LL) * p->stride_w + (p->S - 1LL) * p->dil_w + 1);
  const int64_t filter = (int64_t)channels * rows * p->S * FILTER_PITCH, tile = (int64_t)channels * height * width;
  return stage{channels, rows, height, width, (filter + tile + 3) / 4 * 4 * (int64_t)sizeof(float)};
}

/* The largest stage that fits: up to 32 input channels, then as many filter rows as one channel allows. channels 0: not even one row fits. */
static stage stage_of(const conv_problem *p, int cols) {
  for (int channels = 32; channels > 0; channels /= 2) {
    const stage s = stage_with(p, cols, channels, p->R);
    if (s.bytes <= SHARED_LIMIT) return s;
  }
  for (int rows = p->R / 2; rows > 0; rows /= 2) {
    const stage s = stage_with(p, cols, 1, rows);
    if (s.bytes <= SHARED_LIMIT) return s;
  }
  return stage{};
}

static const char *plan_registers(const conv_operation *o, const conv_device *device, conv_plan *plan) {
  const char *why = turned_unsupported(o, device);
  if (why) return why;
  registers_launch *l = plan_data<registers_launch>(plan);
  l->t = turned_pass(o);
  const conv_problem &p = l->t.p;
  const int cols = p.Q > LANES_Q ? 2 : 1; /* wide images: 32 columns x 4 rows of pixels a block; narrow ones 16 x 8 */
  const int side_by_side = p.stride_w == 1 && p.dil_w == 1 ? p.S : 0;
  const registers_row *row = table;
  while (row->cols != cols || (row->taps && row->taps != side_by_side)) row++;
  l->kernel = row->kernel;
  l->size = stage_of(&p, cols);
  if (l->size.channels == 0) return "one filter row and the pixels under it exceed 48 KiB of shared memory";
  const int bq = LANES_Q * cols, bp = TPIX / cols, tiles_k = p.groups * ((p.K / p.groups + BK - 1) / BK);
  l->blocks = p.N * tiles_k * ((p.P + bp - 1) / bp) * ((p.Q + bq - 1) / bq);
  snprintf(plan->words, sizeof plan->words, "%d x %d pixels a block, stages of %d channels x %d filter rows, taps %s", bq, bp, l->size.channels, l->size.rows,
           row->taps ? "unrolled" : "in a loop");
  return NULL;
}

static cudaError_t launch(const conv_plan *plan, const conv_buffers *b, cudaStream_t stream) {
  const registers_launch *l = plan_data<registers_launch>(plan);
  l->kernel<<<l->blocks, THREADS, l->size.bytes, stream>>>(l->t, l->size, turned_image(plan, b), (const float *)b->w, turned_result(plan, b));
  return cudaGetLastError();
}

NCHW_ROW(registers_fprop, "03c", "8 x 8 outputs in a thread's registers", PASS_FPROP, plan_registers, launch, plain_growth_fprop);
NCHW_ROW(registers_dgrad, "03c", "8 x 8 outputs in a thread's registers", PASS_DGRAD, plan_registers, launch, plain_growth_dgrad);
