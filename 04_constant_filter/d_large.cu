/* 04d: large filters: pixels and filter in shared memory, 32 or 64 outputs in registers.
 *
 * Terms:    register window; thread coarsening.
 * Idea:     04b keeps the whole filter in registers; 15 x 15 elements do not fit. So the filter goes to shared memory, and a thread has ROWS = 4
 *           rows of COLS = 16 columns: an element that it reads serves 16 products, a pixel serves 4 rows and as many columns as fit its window.
 * Change:   against 04b the loops over the filter are loops again. For every row of pixels the window slides along it, STEP = 8 columns at
 *           a time; at each place the 8 filter elements of all 4 output rows above it are used on it: 512 FMAs for 10 reads of 16 bytes.
 * Expect:   those reads, 16 moves and some counting: 94 % of the instructions are FMAs.
 * Quads:    pixels are copied 4 at a time, from addresses that are multiples of 16 bytes. Where the padding is no multiple of 4, a tile begins
 *           up to 3 columns too early, and so does every filter row: with zeros. A row is rounded up to a multiple of STEP: 31 to 32.
 * Banks:    a thread's window is 16 columns from its neighbour's: every fourth quad for a quarter of a warp, all of them in the same banks.
 *           So a row is kept in PARTS = 4 parts, quads 0, 4, 8 ..., quads 1, 5, 9 ... and so on: neighbours again.
 * Sizes:    any R x S whose tile fits in shared memory (63 x 63 does), stride 1, no dilation. One input channel per output channel.
 *           9 x 9, where rounding up would cost most, has its row unrolled, 9 taps at COLS = 8.
 * Passes:   fprop, and dgrad of depthwise layers (03_shared_tiling/turned.h: the filter turned). Layout: NCHW, filters KCRS, fp32. */
#include <cuda_pipeline.h>
#include <cuda_runtime.h>
#include <stdio.h>

#include "03_shared_tiling/turned.h"

enum { THREADS = 128, ROWS = 4, BQ = 128, STEP = 8 };

/* How a block divides its work. taps: floats of a filter row in shared memory, the zeros before and after it included. */
typedef struct layout {
  int skip, taps, pitch, rows; /* zeros before a filter row; floats used of a row, floats from row to row; rows of the filter, at least ROWS - 1 */
  int height, quads, part;     /* the tile: rows, quads of a row, quads of a part */
  int w_tap, w_turn;           /* tap (r, s) lies at w_tap + w_turn * (r*S + s) */
} layout;

/* A block: BP x BQ outputs of one plane y[n, k]. TAPS: l.taps if it is known when compiling, else 0. */
template <int TAPS> __global__ void __launch_bounds__(THREADS, 4) large_kernel(conv_problem p, layout l, const float *x, const float *w, float *y) {
  constexpr int COLS = TAPS == 9 ? 8 : 16, PARTS = COLS / 4, LANES_Q = BQ / COLS, BP = ROWS * THREADS / LANES_Q;
  constexpr int SLIDE = TAPS == 9 ? 12 : STEP, WINDOW = TAPS == 9 ? COLS + 8 : COLS + STEP; /* taps at one place of the window, its floats */
  extern __shared__ float4 shared[];
  const int taps = TAPS ? TAPS : l.taps, pitch = TAPS ? (TAPS + 3) / 4 * 4 : l.pitch;
  float4 *filter = shared;                    /* [rows][pitch] */
  float4 *tile = shared + l.rows * pitch / 4; /* [height][PARTS][part] */

  const int tiles_q = (p.Q + BQ - 1) / BQ, tiles_p = (p.P + BP - 1) / BP;
  const int first_q = blockIdx.x % tiles_q * BQ, first_p = blockIdx.x / tiles_q % tiles_p * BP;
  const int plane = blockIdx.x / tiles_q / tiles_p, k = plane % p.K, n = plane / p.K;
  const float *image = x + (int64_t)(n * p.C + k / (p.K / p.groups)) * p.H * p.W;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;

  const int first_h = first_p - p.pad_top, first_w = first_q - p.pad_left - l.skip;
  if (p.W % 4 == 0) /* quads lie inside the image or outside */
    for (int quad = lane; quad < l.quads; quad += 32)
      for (int i = warp; i < l.height; i += THREADS / 32) {
        const int in_h = first_h + i, in_w = first_w + 4 * quad;
        const bool inside = in_h >= 0 && in_h < p.H && in_w >= 0 && in_w < p.W;
        float4 *to = &tile[(PARTS * i + quad % PARTS) * l.part + quad / PARTS];
        __pipeline_memcpy_async(to, inside ? image + (int64_t)in_h * p.W + in_w : x, 16, inside ? 0 : 16);
      }
  else
    for (int j = lane; j < 4 * l.quads; j += 32)
      for (int i = warp; i < l.height; i += THREADS / 32) {
        const int in_h = first_h + i, in_w = first_w + j, quad = j / 4;
        const bool inside = in_h >= 0 && in_h < p.H && in_w >= 0 && in_w < p.W;
        float *to = (float *)&tile[(PARTS * i + quad % PARTS) * l.part + quad / PARTS] + j % 4;
        __pipeline_memcpy_async(to, inside ? image + (int64_t)in_h * p.W + in_w : x, 4, inside ? 0 : 4);
      }
  __pipeline_commit();
  for (int i = threadIdx.x; i < l.rows * pitch; i += THREADS) {
    const int r = i / pitch, s = i % pitch - l.skip;
    ((float *)filter)[i] = r < p.R && s >= 0 && s < p.S ? w[k * p.R * p.S + l.w_tap + l.w_turn * (r * p.S + s)] : 0;
  }
  __pipeline_wait_prior(0);
  __syncthreads();

  const int my_q = threadIdx.x % LANES_Q, my_p = threadIdx.x / LANES_Q * ROWS;
  float sum[ROWS][COLS] = {};
  /* Row h of the pixels under my windows lies under filter row h - i of my output row i, for i from first_i to last_i. */
  const auto add_row = [&](int h, int first_i, int last_i) {
    const float4 *row = tile + PARTS * (my_p + h) * l.part + my_q, *elements = filter + h * pitch / 4;
    __align__(16) float window[WINDOW];
#pragma unroll 1
    for (int s = 0; s < taps; s += SLIDE, elements += SLIDE / 4) {
#pragma unroll
      for (int j = 0; j < WINDOW; j += 4) {
        const int quad = (s + j) / 4;
        if (s > 0 && j < WINDOW - SLIDE)
          window[j] = window[j + SLIDE], window[j + 1] = window[j + SLIDE + 1], window[j + 2] = window[j + SLIDE + 2], window[j + 3] = window[j + SLIDE + 3];
        else *(float4 *)&window[j] = row[quad % PARTS * l.part + quad / PARTS];
      }
#pragma unroll
      for (int i = 0; i < ROWS; i++) {
        if (i < first_i || i > last_i) continue; /* known when compiling */
#pragma unroll
        for (int m = 0; m < SLIDE; m += 4) {
          const float4 four = elements[(m - i * pitch) / 4];
          const float element[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
          for (int e = 0; e < 4; e++)
#pragma unroll
            for (int j = 0; j < COLS; j++)
              if (!TAPS || m + e < TAPS) sum[i][j] += window[j + m + e] * element[e];
        }
      }
    }
  };
#pragma unroll
  for (int h = 0; h < ROWS - 1; h++) add_row(h, 0, h);
  for (int h = ROWS - 1; h < l.rows; h++) add_row(h, 0, ROWS - 1);
#pragma unroll
  for (int h = 0; h < ROWS - 1; h++) add_row(l.rows + h, h + 1, ROWS - 1);

#pragma unroll
  for (int i = 0; i < ROWS; i++) {
    const int out_p = first_p + my_p + i;
    if (out_p >= p.P) continue;
    float *out = y + ((int64_t)plane * p.P + out_p) * p.Q;
#pragma unroll
    for (int j = 0; j < COLS; j++)
      if (first_q + my_q * COLS + j < p.Q) out[first_q + my_q * COLS + j] = sum[i][j];
  }
}

/* ---------------------------------------------------------------- host */

/* Outputs of a block, rows and columns of a thread: as in the kernel. */
static int cols_of(int taps) { return taps == 9 ? 8 : 16; }
static int bp_of(int taps) { return ROWS * THREADS / (BQ / cols_of(taps)); }

static layout layout_of(const turned_conv *t) {
  const conv_problem *p = &t->p;
  layout l;
  l.w_tap = t->w_tap, l.w_turn = t->w_turn;
  l.skip = (4 - p->pad_left % 4) % 4;
  const bool nine = l.skip == 0 && p->S == 9;
  l.taps = nine ? 9 : (l.skip + p->S + STEP - 1) / STEP * STEP;
  l.pitch = (l.taps + 3) / 4 * 4;
  l.rows = p->R > ROWS - 1 ? p->R : ROWS - 1;
  l.height = bp_of(l.taps) + l.rows - 1;
  l.quads = (BQ + l.pitch) / 4;
  l.part = l.quads / (cols_of(l.taps) / 4) + 1;
  return l;
}

static size_t shared_bytes(const layout *l) {
  return ((size_t)l->rows * (size_t)l->pitch / 4 + (size_t)l->height * (size_t)(cols_of(l->taps) / 4) * (size_t)l->part) * sizeof(float4);
}

typedef void (*large_t)(conv_problem p, layout l, const float *x, const float *w, float *y);

/* The kernels, by the floats of a filter row; 0: any. */
typedef struct large_row {
  int taps;
  large_t kernel;
} large_row;
static const large_row table[] = {{9, large_kernel<9>}, {16, large_kernel<16>}, {32, large_kernel<32>}, {0, large_kernel<0>}};

/* What a launch needs. */
typedef struct large_launch {
  large_t kernel;
  turned_conv t;
  layout cut;
  int blocks;
  size_t bytes;
} large_launch;

static const char *plan_large(const conv_operation *o, const conv_device *device, conv_plan *plan) {
  const conv_problem *in = &o->problem;
  if (o->pass == PASS_DGRAD && (in->C != in->groups || in->K != in->groups)) return "not depthwise: C, K and groups differ";
  if (in->C != in->groups) return "more than one input channel per output channel";
  if (in->stride_h != 1 || in->stride_w != 1 || in->dil_h != 1 || in->dil_w != 1) return "stride or dilation is not 1";
  large_launch *l = plan_data<large_launch>(plan);
  l->t = turned_pass(o);
  l->cut = layout_of(&l->t);
  l->bytes = shared_bytes(&l->cut);
  if (in->R > 1024 || in->S > 1024 || l->bytes > device->shared_per_block) return "the filter and the pixels under a block exceed the shared memory";
  const char *why = plain_plan(o, device, plan);
  if (why) return why;
  const conv_problem &p = l->t.p;
  const large_row *row = table;
  while (row->taps && row->taps != l->cut.taps) row++;
  l->kernel = row->kernel;
  const int bp = bp_of(l->cut.taps);
  l->blocks = p.N * p.K * ((p.P + bp - 1) / bp) * ((p.Q + BQ - 1) / BQ);
  snprintf(plan->words, sizeof plan->words, "filter rows of %d taps%s", l->cut.taps, row->taps ? ", unrolled" : "");
  const cudaError_t status = plan_allow_shared((const void *)l->kernel, l->bytes);
  return status ? plan_failed(plan, status) : NULL;
}

static cudaError_t launch(const conv_plan *plan, const conv_buffers *b, cudaStream_t stream) {
  const large_launch *l = plan_data<large_launch>(plan);
  l->kernel<<<l->blocks, THREADS, l->bytes, stream>>>(l->t.p, l->cut, turned_image(plan, b), (const float *)b->w, turned_result(plan, b));
  return cudaGetLastError();
}

NCHW_ROW(large_fprop, "04d", "large filters: up to 64 outputs in registers", PASS_FPROP, plan_large, launch, plain_growth_fprop);
NCHW_ROW(large_dgrad, "04d", "large filters: up to 64 outputs in registers", PASS_DGRAD, plan_large, launch, plain_growth_dgrad);
