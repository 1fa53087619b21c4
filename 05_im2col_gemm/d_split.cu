/* 05d: the reduction is split, where there are too few tiles to go round.
 *
 * Idea:     sixteen images of 7x7 pixels and 512 filters are 28 tiles of 128 x 128, and an H200 has 132 multiprocessors with room for two each.
 *           But every output is a sum of 4608 products. So several blocks share a tile: each adds up a slice of the reduction and leaves its
 *           sums in the workspace, and a second kernel adds the slices.
 * Change:   against 05c a block begins and ends where its slice does, and writes to its slice's part of the workspace. With one slice it is 05c.
 * Order:    the slices are added first to last, whichever was done first: the same sums in every run, to the bit. Atomic additions are not.
 * Model:    how many slices, and tiles of 64 or of 128 filters, is decided by split_for() in split.h: it estimates the clocks of the fullest multiprocessor, and
 *           those of writing, reading and adding the slices, for each choice, and takes the least.
 * Sizes:    R + S up to 30, as in 05c.
 * Passes:   fprop. Layout: NCHW, filters KCRS, fp32. */
#include <cuda_pipeline.h>
#include <cuda_runtime.h>

#include "05_im2col_gemm/rows.h"
#include "05_im2col_gemm/split.h"
#include "05_im2col_gemm/tile.h"
#include "common/ptx/ptx.cuh"

enum { PERIOD = 16, PARTS = 4, LAST_PERIOD = 30, ALL = -1, SUM_THREADS = 128, MOST_SLICES = 32 };

/* Two elements of the reduction, each seen from its window: elements of x from the window's first pixel on, and the bits of which none may be
 * `missing`: filter row r is bit r, column s bit R + s, a channel that the last period does not have LAST_PERIOD. */
typedef int4 taps; /* { offset, bits, offset, bits } */

/* Where sums go: to[][K][image], `pixels` of them a filter. It is y[N][K][P*Q], or the workspace's [slices][K][N*P*Q, rounded up to 4]. */
typedef struct output {
  float *to;
  int image, pixels;
} output;

/* A block of 2 BM threads: BM filters of a group x BN pixels, counted over all images; slice blockIdx.y of their sums.
 * ROWS: pixels are copied 16 bytes at a time. */
template <int BM, bool ROWS>
__global__ void __launch_bounds__(2 * BM, 256 / BM) split_kernel(conv_problem p, int slice_steps, const float *__restrict__ x, const float *__restrict__ w, output out) {
  constexpr int THREADS = 2 * BM, PITCH = BM + 4, FLOATS = BK * (PITCH + BN);
  static_assert(BM % WARP_M == 0 && BN % WARP_N == 0 && THREADS == BM / TM * (BN / TN), "a thread has TM x TN sums");
  extern __shared__ float4 shared[];
  float *buffers = (float *)shared;           /* two of: [BK][PITCH] filters, [BK][BN] pixels */
  int *table = (int *)(buffers + 2 * FLOATS); /* [PERIOD][R][S] of { offset, bits } */

  const int group_c = p.C / p.groups, group_k = p.K / p.groups, tiles_k = (group_k + BM - 1) / BM, filter = p.R * p.S, terms = group_c * filter;
  const int group = blockIdx.x / tiles_k % p.groups, first_k = blockIdx.x % tiles_k * BM; /* neighbouring blocks read the same pixels */
  const int image = p.P * p.Q, plane = p.H * p.W, pixels = p.N * image, first_pixel = blockIdx.x / tiles_k / p.groups * BN;
  const int thread = threadIdx.x, first = blockIdx.y * slice_steps, steps = min((terms + BK - 1) / BK - first, slice_steps);

  /* What this thread copies of the filters: elements a_l and a_l + COPY_K of every BK, of filters a_k, a_k + BM / PARTS, ... (past the last: of the last). */
  const int a_l = thread % COPY_K, a_k = thread / COPY_K;
  int a_at[PARTS], a_left = terms - first * BK - a_l; /* elements of a filter from here on */
#pragma unroll
  for (int i = 0; i < PARTS; i++) a_at[i] = (group * group_k + min(first_k + a_k + i * (BM / PARTS), group_k - 1)) * terms + first * BK + a_l;

  /* And of the pixels: elements b_l, b_l + 1, ... of every BK, of one pixel's window; or of a quad of pixels. */
  constexpr int B_LANES = ROWS ? BN / 4 : BN, B_COPIES = BK * B_LANES / THREADS, B_PART = B_COPIES / PARTS;
  const int b_l = thread / B_LANES * B_COPIES, b_column = thread % B_LANES * (BN / B_LANES), b_pixel = first_pixel + b_column;
  const int n = b_pixel / image, in_h = b_pixel / p.Q % p.P * p.stride_h - p.pad_top, in_w = b_pixel % p.Q * p.stride_w - p.pad_left;
  const float *b_from = x + (n * p.C + group * group_c) * plane + in_h * p.W + in_w; /* may lie before x: then no copy is made from there */
  int b_left = terms, position = 0; /* elements from here (ROWS) or from this period on; where in the table we are */
  int missing = b_pixel < pixels ? 0 : ALL;
  if (ROWS) {
    b_from += (first * BK + b_l) * plane;
    b_left = missing ? 0 : terms - first * BK - b_l;
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
    const int period = first * BK / (PERIOD * filter);
    b_from += period * PERIOD * plane, b_left -= period * PERIOD * filter, position = first * BK % (PERIOD * filter);
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

  /* out[n][K][image], a quad of pixels at a time where it is aligned and so within one image. */
  const int my_k = group * group_k + first_k + my_row, end_k = (group + 1) * group_k, my_pixel = first_pixel + my_col;
#pragma unroll
  for (int j = 0; j < TN; j++) {
    const int pixel = my_pixel + quad_col(j);
    if (pixel >= out.pixels || (j % 4 && out.image % 4 == 0)) continue;
    float *to = out.to + ((int)blockIdx.y + pixel / out.image) * p.K * out.image + pixel % out.image;
#pragma unroll
    for (int i = 0; i < TM; i++) {
      const int k = my_k + quad_row(i);
      if (k >= end_k) continue;
      if (j % 4 == 0 && out.image % 4 == 0)
        store_quad(to + k * out.image, &sum[i][j]);
      else
        to[k * out.image] = sum[i][j];
    }
  }
}

/* y = the sum of all slices, first to last. A thread: one output. */
__global__ void __launch_bounds__(SUM_THREADS) add_slices_kernel(conv_problem p, int slices, const float *__restrict__ parts, float *__restrict__ y) {
  const int image = p.P * p.Q, pixels = p.N * image, row = (pixels + 3) / 4 * 4, blocks = (pixels + SUM_THREADS - 1) / SUM_THREADS;
  const int k = blockIdx.x / blocks, pixel = blockIdx.x % blocks * SUM_THREADS + threadIdx.x;
  if (pixel >= pixels) return;
  float sum = 0;
#pragma unroll 4
  for (int i = 0; i < slices; i++) sum += parts[(i * p.K + k) * row + pixel];
  y[(pixel / image * p.K + k) * image + pixel % image] = sum;
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

/* Floats of a filter in a slice. */
static int slice_row(const conv_problem *p) { return (p->N * p->P * p->Q + 3) / 4 * 4; }

static matrix_product product_of(const conv_problem *p) {
  return {.rows = p->K / p->groups,
          .groups = p->groups,
          .most_slices = MOST_SLICES,
          .columns = (int64_t)p->N * p->P * p->Q,
          .sums = (int64_t)p->K * slice_row(p),
          .steps = {(p->C / p->groups * p->R * p->S + BK - 1) / BK},
          .looked_up = !pixels_are_rows(p)};
}

typedef struct split_row {
  bool rows; /* pixels are copied 16 bytes at a time */
  int bm;
  void (*kernel)(conv_problem p, int slice_steps, const float *x, const float *w, output out);
} split_row;

static const split_row instances[] = {{false, 64, split_kernel<64, false>}, {false, 128, split_kernel<128, false>}, {true, 64, split_kernel<64, true>}, {true, 128, split_kernel<128, true>}};

typedef struct split_plan {
  const split_row *row;
  split cut;
  dim3 blocks;
  int adders;    /* blocks of add_slices_kernel */
  size_t shared; /* bytes */
} split_plan;

static const char *plan_cut(conv_plan *plan, const matrix_product *g, split s) {
  const conv_problem *p = &plan->operation.problem;
  const int pixels = p->N * p->P * p->Q;
  const split_row *row = instances;
  while (row->rows == g->looked_up || row->bm != s.bm) row++; /* there is one */
  split_plan *mine = plan_data<split_plan>(plan);
  *mine = {.row = row,
           .cut = s,
           .blocks = dim3((pixels + BN - 1) / BN * p->groups * ((g->rows + s.bm - 1) / s.bm), s.slices),
           .adders = p->K * ((pixels + SUM_THREADS - 1) / SUM_THREADS),
           .shared = (size_t)(2 * BK * (s.bm + 4 + BN)) * sizeof(float) + (size_t)(PERIOD * p->R * p->S / 2) * sizeof(taps)};
  plan->workspace_bytes = split_bytes(g, &s);
  tile_words(plan, s.bm, BN, s.slices, (int64_t)mine->blocks.x * s.slices);
  const cudaError_t status = allow_shared(row->kernel, mine->shared);
  return status ? plan_failed(plan, status) : NULL;
}

static const char *plan_fprop(const conv_operation *o, const conv_device *device, conv_plan *plan) {
  const char *why = unsupported(&o->problem, device);
  if (why) return why;
  const matrix_product g = product_of(&o->problem);
  return plan_cut(plan, &g, split_for(&g, device->sm_count, &h200_prices));
}

static cudaError_t launch_fprop(const conv_plan *plan, const conv_buffers *b, cudaStream_t stream) {
  const conv_problem *p = &plan->operation.problem;
  const split_plan *mine = plan_data<split_plan>(plan);
  const bool cut = mine->cut.slices > 1;
  const int row = slice_row(p);
  const output out = cut ? output{(float *)b->workspace, row, row} : output{(float *)b->y, p->P * p->Q, p->N * p->P * p->Q};
  mine->row->kernel<<<mine->blocks, 2 * mine->cut.bm, mine->shared, stream>>>(*p, mine->cut.slice_steps, (const float *)b->x, (const float *)b->w, out);
  if (cut) add_slices_kernel<<<mine->adders, SUM_THREADS, 0, stream>>>(*p, mine->cut.slices, (const float *)b->workspace, (float *)b->y);
  return cudaGetLastError();
}

GEMM_ROW(split_fprop, "05d", "the reduction split where tiles are few", PASS_FPROP, plan_fprop, launch_fprop, plain_growth_fprop);

extern const cut_kernel split_cuts;
const cut_kernel split_cuts = {&split_fprop, product_of, plan_cut};
