/* 04f: 9x9 filters by Winograd's products along the row.
 *
 * Terms:    Winograd, F(2, 3) in one dimension.
 * Idea:     two outputs of a filter of three taps are six products; four do (05l draws the same in two dimensions):
 *
 *               m0 = (d0 - d2) g0     m1 = (d1 + d2) (g0 + g1 + g2) / 2     m2 = (d2 - d1) (g0 - g1 + g2) / 2     m3 = (d1 - d3) g2
 *               y0 = m0 + m1 + m2     y1 = m1 - m2 - m3
 *
 *           A row of nine taps is three such filters, over pixels 0, 3 and 6, and the products of all nine rows may be added up before y is made
 *           of them. So an output takes 54 multiply-adds instead of 81. Sums of pixels are made once for the nine output rows that need them.
 * Change:   against 04e's walk down the image, the unfinished sums are those of m, twice as many: a thread has 4 columns instead of 8. It takes two rows
 *           of pixels at a time, so that a constant serves four multiply-adds, not two. Rows are on their way in shared memory, not in registers;
 *           each warp has a ring of its own, and waits for no other. There is no test whether an output row is still the thread's own: at the
 *           ends of a strip some multiply-adds are for nothing, and are not stored.
 * Expect:   an output takes 54 multiply-adds, 7 or 8 additions and 11 other instructions, and a tenth more for the ends of strips: 80 where 04e has 104.
 *           So four fifths of its time.
 * Filter:   a kernel of one block makes the taps of m, and writes them where the next kernel sees constants.
 * Exact:    the halves are exact in binary: integers that are small enough stay exact.
 * Sizes:    9x9, stride 1, no dilation, padding 4 left and right, W a multiple of 4. One input channel per output channel. Two launches for every
 *           output channel: meant for pictures.
 * Passes:   fprop. Layout: NCHW, filters KCRS, fp32. */
#include <cuda_pipeline.h>
#include <cuda_runtime.h>
#include <stdio.h>

#include "common/harness/plain.h"
#include "common/ptx/ptx.cuh"

enum {
  SIZE = 9,
  PAD = SIZE / 2,
  GROUPS = SIZE / 3,
  POINTS = 4, /* groups of taps in a row; m0 .. m3 */
  THREADS = 128,
  WARPS = THREADS / 32,
  RESIDENT = 3, /* blocks of a multiprocessor */
  TILES = 2,
  COLS = 2 * TILES,
  BQ = THREADS * COLS, /* tiles: of two outputs */
  WINDOW = PAD + COLS + PAD,
  HALO = 2 * PAD / 4, /* quads of pixels that a warp needs beside those above its outputs */
  ROW = 64,
  STEP = 2 * ROW,
  RING = 4 * STEP,
  AHEAD = 3 /* quads of a row, of two, of a warp's ring; steps on their way */
};
static_assert(RING == (AHEAD + 1) * STEP && (RING & (RING - 1)) == 0, "the rows to be read follow those to be overwritten; a power of two needs no division");
static_assert(ROW >= 32 + HALO && 2 * HALO <= 32 && PAD % 4 == 0 && TILES == 2, "a row holds a warp's quads; a thread writes one");

static __constant__ float constant_u[SIZE * POINTS * GROUPS]; /* [SIZE][POINTS][GROUPS] */

/* w: [SIZE][SIZE], u: [SIZE][POINTS][GROUPS]. A thread: one group of three taps. */
__global__ void __launch_bounds__(32) filter_kernel(const float *w, float *u) {
  const int r = threadIdx.x / GROUPS, g = threadIdx.x % GROUPS;
  if (r >= SIZE) return;
  const float *taps = w + r * SIZE + 3 * g;
  const float outer = taps[0] + taps[2];
  float *to = u + r * POINTS * GROUPS + g;
  to[0] = taps[0], to[GROUPS] = 0.5f * (outer + taps[1]), to[2 * GROUPS] = 0.5f * (outer - taps[1]), to[3 * GROUPS] = taps[2];
}

/* Filter k, whose transform lies in constant_u. A thread: `strip` rows of COLS columns of y[n, k]; a warp: 32 times as many columns. */
__global__ void __launch_bounds__(THREADS, RESIDENT) rows_kernel(conv_problem p, int k, int strip, const float *x, float *y) {
  __shared__ float4 rings[WARPS][RING];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int tiles_q = (p.Q + BQ - 1) / BQ, strips = (p.P + strip - 1) / strip, n = blockIdx.x / tiles_q / strips;
  const int warp_q = blockIdx.x % tiles_q * BQ + warp * 32 * COLS, first_q = warp_q + lane * COLS;
  const int first_p = blockIdx.x / tiles_q % strips * strip, rows = min(strip, p.P - first_p);
  if (warp_q >= p.Q) return;
  const float *image = x + (int64_t)(n * p.C + k / (p.K / p.groups)) * p.H * p.W;
  float *out = y + ((int64_t)(n * p.K + k) * p.P + first_p) * p.Q + first_q;

  /* As one who copies: of two rows the quad PAD pixels left of my outputs; the first lanes one of the 2 x HALO quads right of the warp's, too. */
  const int my_w = first_q - PAD, halo_row = lane / HALO % 2, halo_w = warp_q - PAD + 4 * (32 + lane % HALO);
  const bool in_row = my_w >= 0 && my_w < p.W, copies_halo = lane < 2 * HALO, halo_in_row = halo_w < p.W; /* W is a multiple of 4: all of a quad or nothing */
  int next_h = first_p - p.pad_top, halo_h = next_h + halo_row;
  const float *from = image + (int64_t)next_h * p.W + my_w, *halo_from = image + (int64_t)halo_h * p.W + halo_w;
  const ptx_shared to = ptx_shared_address(&rings[warp][lane]), halo_to = ptx_shared_address(&rings[warp][halo_row * ROW + 32 + lane % HALO]);
  const auto copy_rows = [&](int slot) {
    ptx_cp_async_16(to + slot * 16, from, !(in_row && (unsigned)next_h < (unsigned)p.H));
    ptx_cp_async_16(to + (slot + ROW) * 16, from + p.W, !(in_row && (unsigned)(next_h + 1) < (unsigned)p.H));
    if (copies_halo) ptx_cp_async_16(halo_to + slot * 16, halo_from, !(halo_in_row && (unsigned)halo_h < (unsigned)p.H));
    __pipeline_commit();
    from += 2 * p.W, halo_from += 2 * p.W, next_h += 2, halo_h += 2;
  };
#pragma unroll
  for (int i = 0; i < AHEAD; i++) copy_rows(i * STEP);

  int slot = AHEAD * STEP;                 /* the next rows' */
  float sum[SIZE - 1][TILES][POINTS] = {}; /* m of the output rows under way, the oldest first */
#pragma unroll 1
  for (int row = 1 - SIZE; row < rows; row += 2) { /* the first of the two output rows that are complete after this step */
    __pipeline_wait_prior(AHEAD - 1);
    __syncwarp();
    const int now = (slot + STEP) % RING;
    __align__(16) float pixels[2][WINDOW];
#pragma unroll
    for (int d = 0; d < 2; d++)
#pragma unroll
      for (int j = 0; j < WINDOW; j += 4) *(float4 *)&pixels[d][j] = rings[warp][now + d * ROW + lane + j / 4];
    copy_rows(slot); /* over the rows of the step before, which all lanes have read */
    slot = now;

    float v[2][GROUPS][TILES][POINTS];
#pragma unroll
    for (int d = 0; d < 2; d++)
#pragma unroll
      for (int g = 0; g < GROUPS; g++)
#pragma unroll
        for (int t = 0; t < TILES; t++) {
          const float *four = &pixels[d][3 * g + 2 * t];
          v[d][g][t][0] = four[0] - four[2], v[d][g][t][1] = four[1] + four[2], v[d][g][t][2] = four[2] - four[1], v[d][g][t][3] = four[1] - four[3];
        }

    /* Filter row r lies above the upper row of pixels for output row j = SIZE - 1 - r of those under way, above the lower one for row j + 1. */
    float done[2][TILES][POINTS];
#pragma unroll
    for (int i = 0; i < POINTS; i++) {
      float between[TILES]; /* row j, with its part of the lower row of pixels */
#pragma unroll
      for (int t = 0; t < TILES; t++) between[t] = sum[0][t][i];
#pragma unroll
      for (int r = SIZE - 1; r >= 0; r--) {
        const int j = SIZE - 1 - r;
#pragma unroll
        for (int t = 0; t < TILES; t++) {
          float upper = between[t], lower = r > 1 ? sum[r > 1 ? j + 1 : 0][t][i] : 0;
#pragma unroll
          for (int g = 0; g < GROUPS; g++) {
            upper += v[0][g][t][i] * constant_u[(r * POINTS + i) * GROUPS + g];
            lower += v[1][g][t][i] * constant_u[(r * POINTS + i) * GROUPS + g];
          }
          *(j < 2 ? &done[j < 2 ? j : 0][t][i] : &sum[j < 2 ? 0 : j - 2][t][i]) = upper; /* rows move up by two */
          between[t] = lower;
        }
      }
#pragma unroll
      for (int t = 0; t < TILES; t++) sum[SIZE - 2][t][i] = between[t];
    }

    if (row < 0) continue;
#pragma unroll
    for (int d = 0; d < 2; d++) {
      const float *a = done[d][0], *b = done[d][1];
      const float4 four = make_float4(a[0] + a[1] + a[2], a[1] - a[2] - a[3], b[0] + b[1] + b[2], b[1] - b[2] - b[3]);
      if (first_q < p.Q && row + d < rows) *(float4 *)(out + d * p.Q) = four;
    }
    out += 2 * p.Q;
  }
}

/* ---------------------------------------------------------------- host */

/* What a launch needs. */
typedef struct rows_launch {
  float *u; /* the device's address of constant_u */
  int strip, blocks;
} rows_launch;

static const char *plan_fprop(const conv_operation *o, const conv_device *device, conv_plan *plan) {
  const conv_problem *p = &o->problem;
  if (p->C != p->groups) return "more than one input channel per output channel";
  if (p->R != SIZE || p->S != SIZE) return "the filter is not 9x9";
  if (p->stride_h != 1 || p->stride_w != 1 || p->dil_h != 1 || p->dil_w != 1) return "stride or dilation is not 1";
  if (p->pad_left != PAD || p->Q != p->W || p->W % 4 != 0) return "W is no multiple of 4, or the padding not 4";
  const char *why = plain_plan(o, device, plan);
  if (why) return why;
  rows_launch *l = plan_data<rows_launch>(plan);
  const int columns_of_blocks = p->N * ((p->Q + BQ - 1) / BQ), resident = device->sm_count * RESIDENT;
  const int strips = resident > columns_of_blocks ? resident / columns_of_blocks : 1;
  l->strip = (p->P + strips - 1) / strips;
  l->blocks = columns_of_blocks * ((p->P + l->strip - 1) / l->strip);
  snprintf(plan->words, sizeof plan->words, "strips of %d rows", l->strip);
  const cudaError_t status = cudaGetSymbolAddress((void **)&l->u, constant_u);
  return status ? plan_failed(plan, status) : NULL;
}

static cudaError_t launch_fprop(const conv_plan *plan, const conv_buffers *b, cudaStream_t stream) {
  const conv_problem &p = plan->operation.problem;
  const rows_launch *l = plan_data<rows_launch>(plan);
  for (int k = 0; k < p.K; k++) {
    filter_kernel<<<1, 32, 0, stream>>>((const float *)b->w + k * SIZE * SIZE, l->u);
    rows_kernel<<<l->blocks, THREADS, 0, stream>>>(p, k, l->strip, (const float *)b->x, (float *)b->y);
    const cudaError_t status = cudaGetLastError();
    if (status) return status;
  }
  return cudaSuccess;
}

/* Sums of pixels and of taps at the three points of an output have the norm 5^(1/2), where the formula has 3^(1/2) (05l says why); a window's sums round a
 * few times more. */
static double growth(const conv_problem *p, bool random) {
  (void)p;
  return random ? sqrt(5.0 / 3) * growth_chain_fp32(SIZE * GROUPS + 8, true) : INFINITY;
}

/* On integers: pixels' sums are at most 2 max|x|, taps' at most 3 max|w| in halves; the three points of an output have 2 * 2 + 2 * 3 + 2 * 3 = 16 halves
 * for every three taps, where the formula has 3. */
enum { EXACT_FACTOR = 6 };

extern "C" const conv_kernel rows_fprop;
const conv_kernel rows_fprop = {.name = "04f",
                                .idea = "9x9: Winograd's products along the row",
                                .place = ON_GPU,
                                .pass = PASS_FPROP,
                                .dtype = DTYPE_FP32,
                                .layout = LAYOUT_NCHW,
                                .min_arch = 80,
                                .plan = plan_fprop,
                                .launch = launch_fprop,
                                .growth = growth,
                                .exact_factor = EXACT_FACTOR,
                                .shares_error = true};
