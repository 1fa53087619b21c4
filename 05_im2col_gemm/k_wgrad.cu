/* 05k: the gradient of the filters, as a matrix product whose reduction is over all pixels.
 *
 *     dw [K][C*R*S]  =  dy [K][N*P*Q]  x  columns [C*R*S][N*P*Q], transposed          the same columns as in 05a
 *
 * Terms:    implicit GEMM; split-K.
 * Idea:     filters and columns are few and pixels are many: on the layer mb16ic64ih56oc128oh56kh3ph1 five tiles of 128 x 128 and a reduction of 50176.
 *           So what was an emergency in 05f is the rule: the pixels are cut into slices, and a second kernel adds the slices, first to last.
 * Change:   against 05f the pixels count along the reduction. A thread copies for one column of the tile after the other, and walks over the
 *           pixels COPY_K at a time; both matrices have to be turned now, dy as w was.
 * Gather:   a pixel knows where its window begins, and which of the window's rows and columns lie outside the image: two tables, by p and by q.
 *           A column knows how far it lies from there, and its row and column, as bits: the table of 05d, for the BN columns of the tile.
 *           A word has 30 such bits, and the tables share a block's memory with the tiles. For larger filters and images a column knows its row and
 *           column as numbers, each added to where the window begins and compared with the image: some four instructions more a copy.
 * Expect:   as 05e, less the slices: on that layer 52 of them write and read 295 KB each, 30 MB, of which L2 keeps most.
 * Sizes:    any; tables for R + S up to 30 (the bits) and P + Q up to 2000 (the memory).
 * Passes:   wgrad. Layout: NCHW, filters KCRS, fp32. */
#include <cuda_runtime.h>

#include "05_im2col_gemm/pipeline.h"
#include "05_im2col_gemm/rows.h"
#include "05_im2col_gemm/split.h"

enum { NO_COLUMN = 30, B_PITCH = BN + 4, MOST_TABLE = 2000, SUM_THREADS = 128, MOST_SLICES = 512 };

/* Where sums go: to[][K][row]: dw, or the workspace's [slices][K][C*R*S of a group, rounded up to 4]. */
typedef struct output {
  float *to;
  int row;
} output;

/* A block of 2 BM threads: BM filters of a group x BN columns; slice blockIdx.y of their sums. TABLES: what of a window lies outside is looked up, else
 * worked out. */
template <int BM, bool TABLES>
static __device__ __forceinline__ void multiply(const conv_problem &p, int slice_steps, const float *__restrict__ x, const float *__restrict__ dy,
                                                const output &out) {
  constexpr int THREADS = 2 * BM, PITCH = BM + 4, FLOATS = BK * (PITCH + B_PITCH), LANES = THREADS / COPY_K, A_COPIES = BM / LANES, B_COPIES = BN / LANES,
                AT_ONCE = B_COPIES < 8 ? B_COPIES : 8;
  static_assert(BM % WARP_M == 0 && BN % WARP_N == 0 && THREADS == BM / TM * (BN / TN), "a thread has TM x TN sums");
  extern __shared__ float4 shared[];
  float *buffers = (float *)shared;                                   /* two of: [BK][PITCH] of dy, [BK][B_PITCH] of the columns */
  int2 *table = (int2 *)(buffers + 2 * FLOATS);                       /* [BN] of { offset, TABLES ? bits : row of the window } */
  int *row_bits = (int *)(table + BN), *column_bits = row_bits + p.P; /* [P], [Q]: what of a window lies outside */
  int *window_column = row_bits;                                      /* [BN], in their place: column of the window */

  const int group_c = p.C / p.groups, group_k = p.K / p.groups, tiles_k = (group_k + BM - 1) / BM, columns = group_c * p.R * p.S;
  const int group = blockIdx.x / tiles_k % p.groups, first_k = blockIdx.x % tiles_k * BM, first_column = blockIdx.x / tiles_k / p.groups * BN;
  const int image = p.P * p.Q, plane = p.H * p.W, pixels = p.N * image, thread = threadIdx.x;
  const int first = blockIdx.y * slice_steps, steps = min((pixels + BK - 1) / BK - first, slice_steps);

  for (int i = thread; i < BN; i += THREADS) {
    const int column = first_column + i, c = column / (p.R * p.S), r = column / p.S % p.R, s = column % p.S;
    const int offset = c * plane + r * p.dil_h * p.W + s * p.dil_w;
    if constexpr (TABLES) table[i] = make_int2(offset, column < columns ? 1 << r | 1 << (p.R + s) : 1 << NO_COLUMN);
    else table[i] = make_int2(offset, column < columns ? r * p.dil_h : p.H + p.pad_top /* below any image */), window_column[i] = s * p.dil_w;
  }
  for (int i = thread; TABLES && i < p.P + p.Q; i += THREADS) {
    int bits = 0;
    if (i < p.P) {
      for (int r = 0; r < p.R; r++)
        if (i * p.stride_h - p.pad_top + r * p.dil_h < 0 || i * p.stride_h - p.pad_top + r * p.dil_h >= p.H) bits |= 1 << r;
    } else {
      for (int s = 0; s < p.S; s++)
        if ((i - p.P) * p.stride_w - p.pad_left + s * p.dil_w < 0 || (i - p.P) * p.stride_w - p.pad_left + s * p.dil_w >= p.W) bits |= 1 << (p.R + s);
    }
    row_bits[i] = bits;
  }
  __syncthreads(); /* the tables are there */

  /* This thread copies pixel my_l of every COPY_K (past the last pixel: zeros), of filters and columns my_lane,
   * my_lane + LANES, ... of the tile (past the last filter: the last). */
  const int my_l = thread % COPY_K, my_lane = thread / COPY_K, my_pixel = min(first * BK + my_l, pixels - 1), n = my_pixel / image;
  int out_p = my_pixel / p.Q % p.P, out_q = my_pixel % p.Q, pixels_left = pixels - (first * BK + my_l), a_row[A_COPIES];
  const float *a_from = dy + (n * p.K + group * group_k) * image + my_pixel % image;
  const float *b_from = x + (n * p.C + group * group_c) * plane + (out_p * p.stride_h - p.pad_top) * p.W + out_q * p.stride_w - p.pad_left;
#pragma unroll
  for (int i = 0; i < A_COPIES; i++) a_row[i] = min(first_k + my_lane + i * LANES, group_k - 1) * image;

  /* Starts the copies of the next COPY_K pixels, to rows `row` and on of the buffer at `to`. */
  const ptx_shared stage = ptx_shared_address(buffers);
  const auto copy = [&](int to, int row) {
    const ptx_shared a_to = stage + 4 * (to + (row + my_l) * PITCH + my_lane), b_to = stage + 4 * (to + BK * PITCH + (row + my_l) * B_PITCH + my_lane);
    if constexpr (TABLES) {
      const int missing = pixels_left > 0 ? row_bits[out_p] | column_bits[out_q] | 1 << NO_COLUMN : -1;
#pragma unroll 1
      for (int first = 0; first < B_COPIES; first += AT_ONCE) {
        int2 column[AT_ONCE];
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) column[i] = table[my_lane + (first + i) * LANES];
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) ptx_cp_async<4>(b_to + 4 * (first + i) * LANES, b_from + column[i].x, column[i].y & missing);
      }
    } else {
      const unsigned h = out_p * p.stride_h - p.pad_top, w = out_q * p.stride_w - p.pad_left; /* negative: beyond any image */
#pragma unroll 2
      for (int i = 0; i < B_COPIES; i++) { /* all at once would take more registers than there are */
        const int2 column = table[my_lane + i * LANES];
        ptx_cp_async<4>(b_to + 4 * i * LANES, b_from + column.x,
                        pixels_left <= 0 || h + column.y >= (unsigned)p.H || w + window_column[my_lane + i * LANES] >= (unsigned)p.W);
      }
    }
#pragma unroll
    for (int i = 0; i < A_COPIES; i++) ptx_cp_async<4>(a_to + 4 * i * LANES, a_from + a_row[i], pixels_left <= 0);
    pixels_left -= COPY_K;
    if (pixels_left <= 0) return;
    a_from += COPY_K, b_from += COPY_K * p.stride_w, out_q += COPY_K;
    while (out_q >= p.Q) { /* the next row, or the next image */
      out_q -= p.Q, out_p++, b_from += p.stride_h * p.W - p.Q * p.stride_w;
      if (out_p == p.P) out_p = 0, a_from += (p.K - 1) * image, b_from += p.C * plane - p.P * p.stride_h * p.W;
    }
  };

  const int my_row = tile_row(thread), my_col = tile_col(thread);
  float sum[TM][TN] = {};
  operands o[2]; /* of this pixel and of the next */
  copy(0, 0);
  copy(0, COPY_K);
  meet(); /* the first stage is there */
  read_operands(o[0], buffers + my_row, buffers + BK * PITCH + my_col);
  int now = 0; /* the buffer that is read */
  multiply_stages<PITCH, B_PITCH, false>(sum, o, buffers, my_row, my_col, now, steps, [&](int l, int now, int left) {
    if ((l == 1 || l == 7) && left > 1) copy(FLOATS - now, l == 1 ? 0 : COPY_K);
  });

  /* out[slice][K][row], a quad of columns at a time where it is aligned. */
  const int my_k = group * group_k + first_k + my_row, end_k = (group + 1) * group_k, my_column = first_column + my_col;
  float *to = out.to + ((int)blockIdx.y * p.K + my_k) * out.row + my_column;
#pragma unroll
  for (int i = 0; i < TM; i++) {
    if (my_k + quad_row(i) >= end_k) continue;
#pragma unroll
    for (int j = 0; j < TN; j++) {
      if (my_column + quad_col(j) >= out.row || (j % 4 && out.row % 4 == 0)) continue;
      if (j % 4 == 0 && out.row % 4 == 0) store_quad(to + quad_row(i) * out.row + quad_col(j), &sum[i][j]);
      else to[quad_row(i) * out.row + quad_col(j)] = sum[i][j];
    }
  }
}

template <int BM>
__global__ void __launch_bounds__(2 * BM, 256 / BM)
    wgrad_kernel(conv_problem p, int slice_steps, const float *__restrict__ x, const float *__restrict__ dy, output out) {
  multiply<BM, true>(p, slice_steps, x, dy, out);
}

/* Any filter, any image. */
template <int BM>
__global__ void __launch_bounds__(2 * BM, 256 / BM)
    any_wgrad_kernel(conv_problem p, int slice_steps, const float *__restrict__ x, const float *__restrict__ dy, output out) {
  multiply<BM, false>(p, slice_steps, x, dy, out);
}

/* dw = the sum of all slices, first to last. A thread: one element. */
__global__ void __launch_bounds__(SUM_THREADS) add_filter_slices_kernel(conv_problem p, int slices, const float *__restrict__ parts, float *__restrict__ dw) {
  const int columns = p.C / p.groups * p.R * p.S, row = (columns + 3) / 4 * 4, i = blockIdx.x * SUM_THREADS + threadIdx.x, k = i / columns;
  if (k >= p.K) return;
  float sum = 0;
#pragma unroll 8
  for (int slice = 0; slice < slices; slice++) sum += parts[(slice * p.K + k) * row + i % columns];
  dw[i] = sum;
}

/* ---------------------------------------------------------------- host */

static const char *unsupported(const conv_problem *p, const conv_device *device) {
  const char *why = plain_unsupported(p, device);
  if (why) return why;
  const double before = (double)p->pad_top * p->W + p->pad_left, strides = (double)p->P * p->stride_h * p->W + ((double)p->Q + (int)COPY_K) * p->stride_w;
  return (double)problem_x_count(p) + before > INT_MAX - 1024 || strides > INT_MAX
             ? "x, with its padding or over all strides, has 2^31 elements or more (offsets are 32-bit)"
             : NULL;
}

static bool fits_tables(const conv_problem *p) { return p->R + p->S <= NO_COLUMN && p->P <= MOST_TABLE && p->Q <= MOST_TABLE - p->P; }

static int columns_of(const conv_problem *p) { return p->C / p->groups * p->R * p->S; }

/* Floats of a filter in a slice. */
static int slice_row(const conv_problem *p) { return (columns_of(p) + 3) / 4 * 4; }

static matrix_product product_of(const conv_problem *p) {
  return {.rows = p->K / p->groups,
          .groups = p->groups,
          .most_slices = MOST_SLICES,
          .columns = columns_of(p),
          .sums = (int64_t)p->K * slice_row(p),
          .steps = {(p->N * p->P * p->Q + BK - 1) / BK},
          .looked_up = true};
}

typedef struct instance {
  int bm;
  bool tables;
  void (*kernel)(conv_problem p, int slice_steps, const float *x, const float *dy, output out);
} instance;

static const instance instances[] = {{32, true, wgrad_kernel<32>},   {32, false, any_wgrad_kernel<32>}, {64, true, wgrad_kernel<64>},
                                     {128, true, wgrad_kernel<128>}, {64, false, any_wgrad_kernel<64>}, {128, false, any_wgrad_kernel<128>}};

typedef struct gemm_plan {
  const instance *row;
  split cut;
  dim3 blocks;
  int adders;    /* blocks of add_filter_slices_kernel */
  size_t shared; /* bytes */
} gemm_plan;

static const char *plan_cut(conv_plan *plan, const matrix_product *g, split s) {
  const conv_problem *p = &plan->operation.problem;
  const int columns = columns_of(p);
  const instance *row = instances;
  while (row->bm != s.bm || row->tables != fits_tables(p)) row++; /* there is one */
  gemm_plan *mine = plan_data<gemm_plan>(plan);
  *mine = {.row = row,
           .cut = s,
           .blocks = dim3((columns + BN - 1) / BN * p->groups * ((g->rows + s.bm - 1) / s.bm), s.slices),
           .adders = (p->K * columns + SUM_THREADS - 1) / SUM_THREADS,
           .shared = (size_t)(2 * BK * (s.bm + 4 + B_PITCH)) * sizeof(float) + BN * sizeof(int2) + (size_t)(row->tables ? p->P + p->Q : (int)BN) * sizeof(int)};
  plan->workspace_bytes = split_bytes(g, &s);
  tile_words(plan, s.bm, BN, s.slices, (int64_t)mine->blocks.x * s.slices);
  return NULL;
}

static const char *plan_wgrad(const conv_operation *o, const conv_device *device, conv_plan *plan) {
  const char *why = unsupported(&o->problem, device);
  if (why) return why;
  const matrix_product g = product_of(&o->problem);
  return plan_cut(plan, &g, split_for(&g, device->sm_count, &h200_prices));
}

static cudaError_t launch_wgrad(const conv_plan *plan, const conv_buffers *b, cudaStream_t stream) {
  const conv_problem *p = &plan->operation.problem;
  const gemm_plan *mine = plan_data<gemm_plan>(plan);
  const bool cut = mine->cut.slices > 1;
  const output out = cut ? output{(float *)b->workspace, slice_row(p)} : output{(float *)b->w, columns_of(p)};
  mine->row->kernel<<<mine->blocks, 2 * mine->cut.bm, mine->shared, stream>>>(*p, mine->cut.slice_steps, (const float *)b->x, (const float *)b->y, out);
  if (cut) add_filter_slices_kernel<<<mine->adders, SUM_THREADS, 0, stream>>>(*p, mine->cut.slices, (const float *)b->workspace, (float *)b->w);
  return cudaGetLastError();
}

GEMM_ROW(pixels_wgrad, "05k", "the reduction over all pixels, in slices", PASS_WGRAD, plan_wgrad, launch_wgrad, plain_growth_wgrad);

extern const cut_kernel pixels_cuts;
const cut_kernel pixels_cuts = {&pixels_wgrad, product_of, plan_cut};
