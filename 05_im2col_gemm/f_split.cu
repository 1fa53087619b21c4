/* 05f: the reduction is split, where there are too few tiles to go round.
 *
 * Terms:    split-K; the second kernel is its reduction.
 * Idea:     sixteen images of 7x7 pixels and 512 filters are 28 tiles of 128 x 128, and an H200 has 132 multiprocessors with room for two each.
 *           But every output is a sum of 4608 products. So several blocks share a tile: each adds up a slice of the reduction and leaves its
 *           sums in the workspace, and a second kernel adds the slices.
 * Change:   against 05e a block begins and ends where its slice does, and writes to its slice's part of the workspace. With one slice it is 05e, whose
 *           copies and loop stand in pipeline.h.
 * Order:    the slices are added first to last, whichever was done first: the same sums in every run, to the bit. Atomic additions are not.
 * Model:    how many slices, and tiles of 32, 64 or 128 filters, is decided by split_for() in split.h: it estimates the clocks of the fullest multiprocessor,
 *           and those of writing, reading and adding the slices, for each choice, and takes the least.
 * Few:      up to 32 filters are half of a tile of 64, or less, and the rest of it computes nothing. Then there are tiles of 32, by two warps, of which a thread copies for two pixels.
 * Sizes:    R + S up to 30, as in 05d.
 * Passes:   fprop. Layout: NCHW, filters KCRS, fp32. */
#include <cuda_runtime.h>

#include "05_im2col_gemm/pipeline.h"
#include "05_im2col_gemm/rows.h"
#include "05_im2col_gemm/split.h"

enum { SUM_THREADS = 128, MOST_SLICES = 32 };

/* Where sums go: to[][K][image], `pixels` of them a filter. It is y[N][K][P*Q], or the workspace's [slices][K][N*P*Q, rounded up to 4]. */
typedef struct output {
  float *to;
  int image, pixels;
} output;

/* A block of 2 BM threads: BM filters of a group x BN pixels, counted over all images; slice blockIdx.y of their sums.
 * ROWS: pixels are copied 16 bytes at a time. */
template <int BM, bool ROWS>
__global__ void __launch_bounds__(2 * BM, 256 / BM)
    split_kernel(conv_problem p, int slice_steps, const float *__restrict__ x, const float *__restrict__ w, output out) {
  constexpr int THREADS = 2 * BM, PITCH = BM + 4, FLOATS = BK * (PITCH + BN);
  static_assert(BM % WARP_M == 0 && BN % WARP_N == 0 && THREADS == BM / TM * (BN / TN), "a thread has TM x TN sums");
  extern __shared__ float4 shared[];
  float *const buffers = (float *)shared; /* two of: [BK][PITCH] filters, turned; [BK][BN] pixels */
  int *const table = (int *)(buffers + 2 * FLOATS);
  const int group_k = p.K / p.groups, tiles_k = (group_k + BM - 1) / BM, filter = p.R * p.S, terms = p.C / p.groups * filter;
  const int group = blockIdx.x / tiles_k % p.groups, first_k = blockIdx.x % tiles_k * BM; /* neighbouring blocks read the same pixels */
  const int plane = p.H * p.W, first_pixel = blockIdx.x / tiles_k / p.groups * BN;
  const int thread = threadIdx.x, my_row = tile_row(thread), my_col = tile_col(thread);
  const int first = blockIdx.y * slice_steps, steps = min((terms + BK - 1) / BK - first, slice_steps);

  gather g = gather_begin<BM, ROWS>(p, x, table, group, first_k, first_pixel);
  gather_skip<ROWS, copies_two<BM, ROWS>>(g, first * BK, filter, plane);

  const ptx_shared stage = ptx_shared_address(buffers);
  float sum[TM][TN] = {};
  operands o[2]; /* of this element of the reduction and of the next */
#pragma unroll
  for (int part = 0; part < PARTS; part++) copy_part<BM, ROWS>(g, w, table, stage, filter, plane, 0, part);
  meet(); /* the first stage is there */
  read_operands(o[0], buffers + my_row, buffers + BK * PITCH + my_col);
  int now = 0; /* the buffer that is read */
  multiply_stages<PITCH, BN>(sum, o, buffers, my_row, my_col, now, steps, [&](int l, int now, int) {
    const int part = part_beside<ROWS>(l);
    if (part >= 0 && part < PARTS) copy_part<BM, ROWS>(g, w, table, stage, filter, plane, FLOATS - now, part);
  });
  store_tile(sum, out.to + (int)blockIdx.y * p.K * out.image, p.K, out.image, out.pixels, group * group_k + first_k + my_row, (group + 1) * group_k,
             first_pixel + my_col, out.image % 4 == 0);
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

typedef struct instance {
  bool rows; /* pixels are copied 16 bytes at a time */
  int bm;
  void (*kernel)(conv_problem p, int slice_steps, const float *x, const float *w, output out);
} instance;

static const instance instances[] = {{false, 32, split_kernel<32, false>},   {true, 32, split_kernel<32, true>}, {false, 64, split_kernel<64, false>},
                                     {false, 128, split_kernel<128, false>}, {true, 64, split_kernel<64, true>}, {true, 128, split_kernel<128, true>}};

typedef struct gemm_plan {
  const instance *row;
  split cut;
  dim3 blocks;
  int adders;    /* blocks of add_slices_kernel */
  size_t shared; /* bytes */
} gemm_plan;

static const char *plan_cut(conv_plan *plan, const matrix_product *g, split s) {
  const conv_problem *p = &plan->operation.problem;
  const int pixels = p->N * p->P * p->Q;
  const instance *row = instances;
  while (row->rows == g->looked_up || row->bm != s.bm) row++; /* there is one */
  gemm_plan *mine = plan_data<gemm_plan>(plan);
  *mine = {.row = row,
           .cut = s,
           .blocks = dim3((pixels + BN - 1) / BN * p->groups * ((g->rows + s.bm - 1) / s.bm), s.slices),
           .adders = p->K * ((pixels + SUM_THREADS - 1) / SUM_THREADS),
           .shared = (size_t)(2 * BK * (s.bm + 4 + BN)) * sizeof(float) + table_bytes(p)};
  plan->workspace_bytes = split_bytes(g, &s);
  tile_words(plan, s.bm, BN, s.slices, (int64_t)mine->blocks.x * s.slices);
  const cudaError_t status = plan_allow_shared((const void *)row->kernel, mine->shared);
  return status ? plan_failed(plan, status) : NULL;
}

static const char *plan_fprop(const conv_operation *o, const conv_device *device, conv_plan *plan) {
  const char *why = gather_unsupported(&o->problem, device);
  if (why) return why;
  const matrix_product g = product_of(&o->problem);
  return plan_cut(plan, &g, split_for(&g, device->sm_count, &h200_prices));
}

static cudaError_t launch_fprop(const conv_plan *plan, const conv_buffers *b, cudaStream_t stream) {
  const conv_problem *p = &plan->operation.problem;
  const gemm_plan *mine = plan_data<gemm_plan>(plan);
  const bool cut = mine->cut.slices > 1;
  const int row = slice_row(p);
  const output out = cut ? output{(float *)b->workspace, row, row} : output{(float *)b->y, p->P * p->Q, p->N * p->P * p->Q};
  mine->row->kernel<<<mine->blocks, 2 * mine->cut.bm, mine->shared, stream>>>(*p, mine->cut.slice_steps, (const float *)b->x, (const float *)b->w, out);
  if (cut) add_slices_kernel<<<mine->adders, SUM_THREADS, 0, stream>>>(*p, mine->cut.slices, (const float *)b->workspace, (float *)b->y);
  return cudaGetLastError();
}

GEMM_ROW(split_fprop, "05f", "the reduction split where tiles are few", PASS_FPROP, plan_fprop, launch_fprop, plain_growth_fprop);

extern const cut_kernel split_cuts;
const cut_kernel split_cuts = {&split_fprop, product_of, plan_cut};
