/* 05c: the implicit product at the speed of the arithmetic.
 *
 * Idea:     everything that is not a multiply-add is made rare. A thread has 8 x 8 sums, so that 16 values read serve 64 FMAs; while 16 elements of
 *           the reduction are multiplied, cp.async brings the next 16; and the gather costs a table look-up, one addition and one test a pixel.
 * Change:   against 05b the register tile and the order of its FMAs (tile.h), a second buffer, and no division once the loop has begun.
 * Gather:   the reduction counts c, r, s, in the order in which w lies in memory. After 16 channels, R * S times BK = 16 elements, the taps repeat:
 *           a table of these 16 * R * S elements in shared memory holds how far each lies from the window's first pixel, and which filter row and
 *           column it belongs to, as bits. Every thread copies for one and the same pixel all the time; it knows which of that window's rows and
 *           columns lie outside the image, as bits too. One AND says whether to copy or to fill with zero.
 * Filters:  copied 4 bytes at a time, because they must be turned: a warp takes 8 neighbours of 4 filters, whole sectors, and writes them to
 *           l * (BM + 4) + k: 4 banks from l to l, 1 from k to k, all 32 different.
 * Copies:   in four parts: after many at once a warp has to wait, and then all others for it at the barrier. They are made in the last stage, too, as
 *           zeros: a loop without branches is one block of instructions for the assembler, which assigns its registers better then.
 * 1x1:      where pixels are rows of a matrix as they stand (1x1, stride 1, P * Q a multiple of 4), they are copied 16 bytes at a time.
 * Expect:   a warp's element of the reduction is 64 FMAs, 4 reads of 16 bytes and, with the copies, 6 instructions more. A read writes four registers,
 *           which keeps FMAs from starting for 1.5 clocks, as small loops have shown: 64 of 80 clocks, 80 % of the peak. Nothing else comes near its
 *           limit: shared memory is busy half the time (two passes a read, tile.h), L2 gives 2 TB/s of its 9.
 * Sizes:    R + S up to 30 (the bits).
 * Passes:   fprop. Layout: NCHW, filters KCRS, fp32. */
#include <cuda_pipeline.h>
#include <cuda_runtime.h>

#include "05_im2col_gemm/rows.h"
#include "05_im2col_gemm/tile.h"
#include "common/ptx/ptx.cuh"

enum { PERIOD = 16, PARTS = 4, LAST_PERIOD = 30, ALL = -1 };

/* Two elements of the reduction, each seen from its window: elements of x from the window's first pixel on, and the bits of which none may be
 * `missing`: filter row r is bit r, column s bit R + s, a channel that the last period does not have LAST_PERIOD. */
typedef int4 taps; /* { offset, bits, offset, bits } */

/* A block of 2 BM threads: y[n, BM filters of a group, BN pixels], pixels counted over all images. ROWS: pixels are copied 16 bytes at a time. */
template <int BM, bool ROWS>
__global__ void __launch_bounds__(2 * BM, 256 / BM) pipelined_kernel(conv_problem p, const float *__restrict__ x, const float *__restrict__ w, float *__restrict__ y) {
  constexpr int THREADS = 2 * BM, PITCH = BM + 4, FLOATS = BK * (PITCH + BN);
  static_assert(BM % WARP_M == 0 && BN % WARP_N == 0 && THREADS == BM / TM * (BN / TN), "a thread has TM x TN sums");
  extern __shared__ float4 shared[];
  float *buffers = (float *)shared;           /* two of: [BK][PITCH] filters, [BK][BN] pixels */
  int *table = (int *)(buffers + 2 * FLOATS); /* [PERIOD][R][S] of { offset, bits } */

  const int group_c = p.C / p.groups, group_k = p.K / p.groups, tiles_k = (group_k + BM - 1) / BM, filter = p.R * p.S, terms = group_c * filter;
  const int group = blockIdx.x / tiles_k % p.groups, first_k = blockIdx.x % tiles_k * BM; /* neighbouring blocks read the same pixels */
  const int image = p.P * p.Q, plane = p.H * p.W, pixels = p.N * image, first_pixel = blockIdx.x / tiles_k / p.groups * BN;
  const int thread = threadIdx.x, steps = (terms + BK - 1) / BK;

  /* What this thread copies of the filters: elements a_l and a_l + COPY_K of every BK, of filters a_k, a_k + BM / PARTS, ... (past the last: of the last). */
  const int a_l = thread % COPY_K, a_k = thread / COPY_K;
  int a_at[PARTS], a_left = terms - a_l; /* elements of a filter from here on */
#pragma unroll
  for (int i = 0; i < PARTS; i++) a_at[i] = (group * group_k + min(first_k + a_k + i * (BM / PARTS), group_k - 1)) * terms + a_l;

  /* And of the pixels: elements b_l, b_l + 1, ... of every BK, of one pixel's window; or of a quad of pixels. */
  constexpr int B_LANES = ROWS ? BN / 4 : BN, B_COPIES = BK * B_LANES / THREADS, B_PART = B_COPIES / PARTS;
  const int b_l = thread / B_LANES * B_COPIES, b_column = thread % B_LANES * (BN / B_LANES), b_pixel = first_pixel + b_column;
  const int n = b_pixel / image, in_h = b_pixel / p.Q % p.P * p.stride_h - p.pad_top, in_w = b_pixel % p.Q * p.stride_w - p.pad_left;
  const float *b_from = x + (n * p.C + group * group_c) * plane + in_h * p.W + in_w; /* may lie before x: then no copy is made from there */
  int b_left = terms, position = 0; /* elements from here (ROWS) or from this period on; where in the table we are */
  int missing = b_pixel < pixels ? 0 : ALL;
  if (ROWS) {
    b_from += b_l * plane;
    b_left = missing ? 0 : terms - b_l;
  } else {
    for (int i = thread; i < PERIOD * filter; i += THREADS) {
      const int c = i / filter, r = i / p.S % p.R, s = i % p.S;
      table[2 * i] = c * plane + r * p.dil_h * p.W + s * p.dil_w;
      table[2 * i + 1] = 1 << r | 1 << (p.R + s) | (c >= group_c % PERIOD ? 1 << LAST_PERIOD : 0);
    }
    for (int r = 0; r < p.R; r++)
      if (in_h + r * p.dil_h < 0 || in_h + r * p.dil_h >= p.H) missing |= 1 << r;
    for (int s = 0; s < p.S; s++)
      if (in_w + s * p.dil_w < 0 || in_w + s * p.dil_w >= p.W) missing |= 1 << (p.R + s);
    if (b_left < PERIOD * filter) missing |= 1 << LAST_PERIOD;
    __syncthreads(); /* the table is there */
  }

  /* Starts one of PARTS of the copies of the next BK elements, to the buffer at `to`; past the last element zeros. */
  const ptx_shared stage = ptx_shared_address(buffers);
  const auto copy = [&](int to, int part) {
    const ptx_shared a_to = stage + 4 * (to + a_l * PITCH + a_k + part * (BM / PARTS)), b_to = stage + 4 * (to + BK * PITCH + b_l * BN + b_column);
    taps two[ROWS ? 1 : B_PART / 2];
    if constexpr (ROWS) {
      if (part < B_COPIES) ptx_cp_async<16>(b_to + 4 * part * BN, b_from + part * plane, b_left <= part);
    } else {
#pragma unroll
      for (int i = 0; i < B_PART / 2; i++) two[i] = *(const taps *)(table + 2 * (position + b_l + part * B_PART + 2 * i));
    }
    ptx_cp_async<4>(a_to, w + a_at[part], a_left <= 0);
    ptx_cp_async<4>(a_to + 4 * COPY_K * PITCH, w + a_at[part] + COPY_K, a_left <= COPY_K);
    a_at[part] += BK;
    if constexpr (!ROWS) {
#pragma unroll
      for (int i = 0; i < B_PART / 2; i++) {
        ptx_cp_async<4>(b_to + 4 * (part * B_PART + 2 * i) * BN, b_from + two[i].x, two[i].y & missing);
        ptx_cp_async<4>(b_to + 4 * (part * B_PART + 2 * i + 1) * BN, b_from + two[i].z, two[i].w & missing);
      }
    }
    if (part < PARTS - 1) return;
    a_left -= BK;
    if constexpr (ROWS) {
      b_from += BK * plane, b_left -= BK;
    } else {
      position += BK;
      if (position == PERIOD * filter) {
        position = 0, b_from += PERIOD * plane, b_left -= PERIOD * filter;
        if (b_left < PERIOD * filter) missing |= b_left > 0 ? 1 << LAST_PERIOD : ALL;
      }
    }
  };

  const int my_row = tile_row(thread), my_col = tile_col(thread);
  float sum[TM][TN] = {};
  operands o[2]; /* of this element of the reduction and of the next */
#pragma unroll
  for (int part = 0; part < PARTS; part++) copy(0, part);
  __pipeline_commit();
  __pipeline_wait_prior(0);
  __syncthreads(); /* the first stage is there */
  read_operands(o[0], buffers + my_row, buffers + BK * PITCH + my_col);
  int now = 0; /* the buffer that is read */
  for (int left = steps; left > 0; left--) {
#pragma unroll
    for (int l = 0; l < BK; l++) {
      if (l % 2 && l > 1 && l / 2 <= PARTS) copy(FLOATS - now, l / 2 - 1); /* at 3, 5, 7, 9 */
      if (l == BK - 1) {
        __pipeline_commit();
        __pipeline_wait_prior(0);
        __syncthreads(); /* the next stage is there, and nobody reads this one any more */
        now = FLOATS - now;
      }
      const int next = (l + 1) % BK;
      read_operands(o[next % 2], buffers + now + my_row + next * PITCH, buffers + now + BK * PITCH + my_col + next * BN);
      add_products(sum, o[l % 2]);
    }
  }

  /* y[n][K][image], a quad of pixels at a time where it is aligned and so within one image. */
  const int my_k = group * group_k + first_k + my_row, end_k = (group + 1) * group_k, my_pixel = first_pixel + my_col;
#pragma unroll
  for (int j = 0; j < TN; j++) {
    const int pixel = my_pixel + quad_col(j);
    if (pixel >= pixels || (j % 4 && image % 4 == 0)) continue;
    float *to = y + pixel / image * p.K * image + pixel % image;
#pragma unroll
    for (int i = 0; i < TM; i++) {
      const int k = my_k + quad_row(i);
      if (k >= end_k) continue;
      if (j % 4 == 0 && image % 4 == 0)
        store_quad(to + k * image, &sum[i][j]);
      else
        to[k * image] = sum[i][j];
    }
  }
}

/* ---------------------------------------------------------------- host */

static bool pixels_are_rows(const conv_problem *p) {
  return p->R * p->S == 1 && p->stride_h == 1 && p->stride_w == 1 && p->P == p->H && p->Q == p->W && p->pad_top == 0 && p->pad_left == 0 && p->P * p->Q % 4 == 0;
}

static const char *unsupported(const conv_problem *p, const conv_device *device) {
  if (p->R + p->S > LAST_PERIOD) return "R + S exceeds 30";
  const char *why = plain_unsupported(p, device);
  if (why) return why;
  const int64_t before = (int64_t)p->pad_top * p->W + p->pad_left; /* how far before x a window begins */
  return problem_x_count(p) + before > INT_MAX - 1024 ? "x and the padding before it have 2^31 elements or more (offsets are 32-bit)" : NULL;
}

typedef struct pipelined_row {
  bool rows; /* pixels are copied 16 bytes at a time */
  int bm;
  void (*kernel)(conv_problem p, const float *x, const float *w, float *y);
} pipelined_row;

static const pipelined_row instances[] = {
    {false, 64, pipelined_kernel<64, false>}, {false, 128, pipelined_kernel<128, false>}, {true, 64, pipelined_kernel<64, true>}, {true, 128, pipelined_kernel<128, true>}};

typedef struct pipelined_plan {
  const pipelined_row *row;
  int blocks;
  size_t shared; /* bytes */
} pipelined_plan;

static const char *plan_fprop(const conv_operation *o, const conv_device *device, conv_plan *plan) {
  const conv_problem *p = &o->problem;
  const char *why = unsupported(p, device);
  if (why) return why;
  const int group_k = p->K / p->groups, bm = group_k > 64 ? 128 : 64;
  const bool rows = pixels_are_rows(p);
  const pipelined_row *row = instances;
  while (row->rows != rows || row->bm != bm) row++; /* there is one */
  pipelined_plan *mine = plan_data<pipelined_plan>(plan);
  *mine = {.row = row,
           .blocks = (p->N * p->P * p->Q + BN - 1) / BN * p->groups * ((group_k + bm - 1) / bm),
           .shared = (size_t)(2 * BK * (bm + 4 + BN)) * sizeof(float) + (size_t)(PERIOD * p->R * p->S / 2) * sizeof(taps)};
  tile_words(plan, bm, BN, 1, mine->blocks);
  const cudaError_t status = allow_shared(row->kernel, mine->shared);
  return status ? plan_failed(plan, status) : NULL;
}

static cudaError_t launch_fprop(const conv_plan *plan, const conv_buffers *b, cudaStream_t stream) {
  const pipelined_plan *mine = plan_data<pipelined_plan>(plan);
  mine->row->kernel<<<mine->blocks, 2 * mine->row->bm, mine->shared, stream>>>(plan->operation.problem, (const float *)b->x, (const float *)b->w, (float *)b->y);
  return cudaGetLastError();
}

GEMM_ROW(pipelined_fprop, "05c", "8 x 8 sums a thread, copies run ahead, gather by table", PASS_FPROP, plan_fprop, launch_fprop, plain_growth_fprop);
