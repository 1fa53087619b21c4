/* 05d: windows are looked up in a table.
 *
 * Terms:    precomputed offsets; predication.
 * Idea:     the reduction counts c, r, s, in the order in which w lies in memory. After 16 channels, R * S times BK = 16 elements, the taps repeat: a table
 *           of these 16 * R * S elements in shared memory holds how far each lies from its window's first pixel, and its filter row and column as bits. A
 *           thread copies for one and the same pixel all the time; it knows which of that window's rows and columns lie outside the image, as bits too.
 *           One addition says where an element is, one AND whether to copy it. And where pixels are rows of a matrix as they stand (1x1, stride 1, P * Q
 *           a multiple of 4), no table is needed, and they are copied 16 bytes at a time.
 * Change:   against 05c no division once the loop has begun: window_element() is gone, and what a thread copies goes along with it ("gather").
 * Expect:   six instructions for an element instead of a hundred: a stage has some hundred beside 1024 FMAs and 64 reads. But every stage begins with
 *           loads from L2 or memory, hundreds of clocks that the other block of the multiprocessor covers in part: half of the peak.
 * Sizes:    R + S up to 30 (the bits).
 * Passes:   fprop. Layout: NCHW, filters KCRS, fp32. */
#include <cuda_runtime.h>

#include "05_im2col_gemm/rows.h"
#include "05_im2col_gemm/tile.h"

enum { PERIOD = 16, COPY_ROWS = 4, LAST_PERIOD = 30, ALL = -1 };

/* Two elements of the reduction, each seen from its window: elements of x from the window's first pixel on, and the bits of which none may be
 * `missing`: filter row r is bit r, column s bit R + s, a channel that the last period does not have LAST_PERIOD. */
typedef int4 taps; /* { offset, bits, offset, bits } */

/* What a thread copies of every BK elements, and from where. Of the filters: elements a_l and a_l + COPY_K, of filters a_k, a_k + BM / COPY_ROWS, ... of the
 * tile (past the last: of the last). Of the pixels: elements b_l, b_l + 1, ... of one pixel's window; or of a quad of pixels (ROWS). */
typedef struct gather {
  int a_l, a_k, a_at[COPY_ROWS], a_left;        /* a_left: elements of a filter from here on */
  int b_l, b_column, b_left, position, missing; /* b_left: elements from here (ROWS) or from this period on; position: where in the table we are */
  const float *b_from;                          /* may lie before x: then no copy is made from there */
} gather;

/* table: [PERIOD][R][S] of { offset, bits }. */
template <int THREADS> static __device__ __forceinline__ void fill_table(const conv_problem &p, int *table) {
  const int filter = p.R * p.S, plane = p.H * p.W, group_c = p.C / p.groups;
  for (int i = threadIdx.x; i < PERIOD * filter; i += THREADS) {
    const int c = i / filter, r = i / p.S % p.R, s = i % p.S;
    table[2 * i] = c * plane + r * p.dil_h * p.W + s * p.dil_w;
    table[2 * i + 1] = 1 << r | 1 << (p.R + s) | (c >= group_c % PERIOD ? 1 << LAST_PERIOD : 0);
  }
}

/* What of a window that begins at (in_h, in_w) lies outside the image, as bits. */
template <int UNROLLED> static __device__ __forceinline__ int outside(const conv_problem &p, int in_h, int in_w) {
  int bits = 0;
#pragma unroll UNROLLED
  for (int r = 0; r < p.R; r++)
    if (in_h + r * p.dil_h < 0 || in_h + r * p.dil_h >= p.H) bits |= 1 << r;
#pragma unroll UNROLLED
  for (int s = 0; s < p.S; s++)
    if (in_w + s * p.dil_w < 0 || in_w + s * p.dil_w >= p.W) bits |= 1 << (p.R + s);
  return bits;
}

/* For the tile of a block, whose table this is. */
template <int BM, bool ROWS>
static __device__ __forceinline__ gather gather_begin(const conv_problem &p, const float *x, int *table, int group, int first_k, int first_pixel) {
  constexpr int THREADS = 2 * BM, B_LANES = ROWS ? BN / 4 : BN, B_COPIES = BK * B_LANES / THREADS;
  const int group_c = p.C / p.groups, group_k = p.K / p.groups, filter = p.R * p.S, terms = group_c * filter, image = p.P * p.Q, plane = p.H * p.W,
            thread = threadIdx.x;
  gather g;
  g.a_l = thread % COPY_K, g.a_k = thread / COPY_K, g.a_left = terms - g.a_l;
#pragma unroll
  for (int i = 0; i < COPY_ROWS; i++) g.a_at[i] = (group * group_k + min(first_k + g.a_k + i * (BM / COPY_ROWS), group_k - 1)) * terms + g.a_l;
  g.b_l = thread / B_LANES * B_COPIES, g.b_column = thread % B_LANES * (BN / B_LANES), g.b_left = terms, g.position = 0;
  const int pixel = first_pixel + g.b_column, n = pixel / image, in_h = pixel / p.Q % p.P * p.stride_h - p.pad_top,
            in_w = pixel % p.Q * p.stride_w - p.pad_left;
  g.b_from = x + (n * p.C + group * group_c) * plane + in_h * p.W + in_w, g.missing = pixel < p.N * image ? 0 : ALL;
  if (ROWS) {
    g.b_from += g.b_l * plane, g.b_left = g.missing ? 0 : terms - g.b_l;
  } else {
    fill_table<THREADS>(p, table);
    g.missing |= outside<4>(p, in_h, in_w);
    if (g.b_left < PERIOD * filter) g.missing |= 1 << LAST_PERIOD;
    __syncthreads(); /* the table is there */
  }
  return g;
}

/* On to the next BK elements; a_at[] has gone there already. */
template <bool ROWS> static __device__ __forceinline__ void gather_next(gather &g, int filter, int plane) {
  g.a_left -= BK;
  if (ROWS) {
    g.b_from += BK * plane, g.b_left -= BK;
  } else {
    g.position += BK;
    if (g.position == PERIOD * filter) {
      g.position = 0, g.b_from += PERIOD * plane, g.b_left -= PERIOD * filter;
      if (g.b_left < PERIOD * filter) g.missing |= g.b_left > 0 ? 1 << LAST_PERIOD : ALL;
    }
  }
}

/* A block of 2 BM threads: y[n, BM filters of a group, BN pixels], pixels counted over all images. ROWS: pixels are copied 16 bytes at a time. */
template <int BM, bool ROWS>
__global__ void __launch_bounds__(2 * BM, 256 / BM)
    table_kernel(conv_problem p, const float *__restrict__ x, const float *__restrict__ w, float *__restrict__ y) {
  constexpr int THREADS = 2 * BM, PITCH = BM + 4, B_COPIES = BK * (ROWS ? BN / 4 : BN) / THREADS;
  static_assert(BM % WARP_M == 0 && BN % WARP_N == 0 && THREADS == BM / TM * (BN / TN), "a thread has TM x TN sums");
  extern __shared__ float4 shared[];
  float *const a = (float *)shared, *const b = a + BK * PITCH; /* [BK][PITCH] filters, turned; [BK][BN] pixels */
  int *const table = (int *)(b + BK * BN);
  const int group_k = p.K / p.groups, tiles_k = (group_k + BM - 1) / BM, filter = p.R * p.S, terms = p.C / p.groups * filter;
  const int group = blockIdx.x / tiles_k % p.groups, first_k = blockIdx.x % tiles_k * BM; /* neighbouring blocks read the same pixels */
  const int image = p.P * p.Q, plane = p.H * p.W, pixels = p.N * image, first_pixel = blockIdx.x / tiles_k / p.groups * BN;
  const int thread = threadIdx.x, my_row = tile_row(thread), my_col = tile_col(thread);

  gather g = gather_begin<BM, ROWS>(p, x, table, group, first_k, first_pixel);

  float sum[TM][TN] = {};
  for (int left = (terms + BK - 1) / BK; left > 0; left--) {
    float *const a_to = a + g.a_l * PITCH + g.a_k, *const b_to = b + g.b_l * BN + g.b_column;
#pragma unroll
    for (int i = 0; i < COPY_ROWS; i++) {
      a_to[i * (BM / COPY_ROWS)] = g.a_left > 0 ? w[g.a_at[i]] : 0;
      a_to[i * (BM / COPY_ROWS) + COPY_K * PITCH] = g.a_left > COPY_K ? w[g.a_at[i] + COPY_K] : 0;
      g.a_at[i] += BK;
    }
#pragma unroll
    for (int i = 0; i < B_COPIES; i += ROWS ? 1 : 2) {
      if (ROWS) {
        *(float4 *)(b_to + i * BN) = g.b_left > i ? *(const float4 *)(g.b_from + i * plane) : make_float4(0, 0, 0, 0);
      } else {
        const taps two = *(const taps *)(table + 2 * (g.position + g.b_l + i));
        b_to[i * BN] = two.y & g.missing ? 0 : g.b_from[two.x];
        b_to[(i + 1) * BN] = two.w & g.missing ? 0 : g.b_from[two.z];
      }
    }
    gather_next<ROWS>(g, filter, plane);
    __syncthreads(); /* the stage is there */
#pragma unroll
    for (int l = 0; l < BK; l++) {
      operands o;
      read_operands(o, a + l * PITCH + my_row, b + l * BN + my_col);
      add_products(sum, o);
    }
    __syncthreads(); /* nobody reads it any more */
  }
  store_tile(sum, y, p.K, image, pixels, group * group_k + first_k + my_row, (group + 1) * group_k, first_pixel + my_col, image % 4 == 0);
}

/* ---------------------------------------------------------------- host */

static inline bool pixels_are_rows(const conv_problem *p) {
  return p->R * p->S == 1 && p->stride_h == 1 && p->stride_w == 1 && p->P == p->H && p->Q == p->W && p->pad_top == 0 && p->pad_left == 0 &&
         p->P * p->Q % 4 == 0;
}

static inline const char *gather_unsupported(const conv_problem *p, const conv_device *device) {
  if (p->R + p->S > LAST_PERIOD) return "R + S exceeds 30";
  const char *why = plain_unsupported(p, device);
  if (why) return why;
  const int64_t before = (int64_t)p->pad_top * p->W + p->pad_left; /* how far before x a window begins */
  return problem_x_count(p) + before > INT_MAX - 1024 ? "x and the padding before it have 2^31 elements or more (offsets are 32-bit)" : NULL;
}

static inline size_t table_bytes(const conv_problem *p) { return (size_t)(PERIOD * p->R * p->S / 2) * sizeof(taps); }

typedef struct instance {
  bool rows; /* pixels are copied 16 bytes at a time */
  int bm;
  void (*kernel)(conv_problem p, const float *x, const float *w, float *y);
} instance;

static const instance instances[] = {
    {false, 64, table_kernel<64, false>}, {false, 128, table_kernel<128, false>}, {true, 64, table_kernel<64, true>}, {true, 128, table_kernel<128, true>}};

typedef struct gemm_plan {
  const instance *row;
  int blocks;
  size_t shared; /* bytes */
} gemm_plan;

static const char *plan_fprop(const conv_operation *o, const conv_device *device, conv_plan *plan) {
  const conv_problem *p = &o->problem;
  const char *why = gather_unsupported(p, device);
  if (why) return why;
  const int group_k = p->K / p->groups, bm = group_k > 64 ? 128 : 64, pixels = p->N * p->P * p->Q;
  const instance *row = instances;
  while (row->rows != pixels_are_rows(p) || row->bm != bm) row++; /* there is one */
  gemm_plan *mine = plan_data<gemm_plan>(plan);
  *mine = {.row = row,
           .blocks = (pixels + BN - 1) / BN * p->groups * ((group_k + bm - 1) / bm),
           .shared = (size_t)(BK * (bm + 4 + BN)) * sizeof(float) + table_bytes(p)};
  tile_words(plan, bm, BN, 1, mine->blocks);
  return NULL;
}

static cudaError_t launch_fprop(const conv_plan *plan, const conv_buffers *b, cudaStream_t stream) {
  const gemm_plan *mine = plan_data<gemm_plan>(plan);
  mine->row->kernel<<<mine->blocks, 2 * mine->row->bm, mine->shared, stream>>>(plan->operation.problem, (const float *)b->x, (const float *)b->w,
                                                                               (float *)b->y);
  return cudaGetLastError();
}

GEMM_ROW(table_fprop, "05d", "windows looked up in a table", PASS_FPROP, plan_fprop, launch_fprop, plain_growth_fprop);
