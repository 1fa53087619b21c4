/* 05e: the next stage is on its way while this one is multiplied.
 *
 * Terms:    double buffering; software pipelining; prologue and main loop.
 * Idea:     software pipelining, at two levels. While 16 elements of the reduction are multiplied from one buffer, cp.async brings the next 16 to the other;
 *           and while one element is multiplied, the values of the next are read from shared memory. Nobody waits for what he needs at once.
 * Change:   against 05d copies are asynchronous and a stage ahead, operands are read an element ahead, and the block meets once a stage, not twice.
 * Copies:   in four parts: after many at once a warp has to wait, and then all others for it at the barrier. They are made in the last stage, too, as
 *           zeros: a loop without branches is one block of instructions for the assembler, which assigns its registers better then.
 * Expect:   a warp's element of the reduction is 64 FMAs, 4 reads of 16 bytes and, with the copies, 6 instructions more. A read writes four registers,
 *           which keeps FMAs from starting for 1.5 clocks, as small loops have shown: 64 of 80 clocks, 80 % of the peak. Nothing else comes near its
 *           limit: shared memory is busy half the time (two passes a read, tile.h), L2 gives 2 TB/s of its 9.
 * Sizes:    R + S up to 30, as in 05d.
 * Passes:   fprop. Layout: NCHW, filters KCRS, fp32. */
#include <cuda_pipeline.h>
#include <cuda_runtime.h>

#include "05_im2col_gemm/gather.h"
#include "05_im2col_gemm/rows.h"
#include "05_im2col_gemm/tile.h"
#include "common/ptx/ptx.cuh"

enum { PARTS = COPY_ROWS };

/* A block of 2 BM threads: y[n, BM filters of a group, BN pixels], pixels counted over all images. ROWS: pixels are copied 16 bytes at a time. */
template <int BM, bool ROWS>
__global__ void __launch_bounds__(2 * BM, 256 / BM)
    pipelined_kernel(conv_problem p, const float *__restrict__ x, const float *__restrict__ w, float *__restrict__ y) {
  constexpr int THREADS = 2 * BM, PITCH = BM + 4, FLOATS = BK * (PITCH + BN), B_COPIES = BK * (ROWS ? BN / 4 : BN) / THREADS, B_PART = B_COPIES / PARTS;
  static_assert(BM % WARP_M == 0 && BN % WARP_N == 0 && THREADS == BM / TM * (BN / TN), "a thread has TM x TN sums");
  extern __shared__ float4 shared[];
  float *const buffers = (float *)shared; /* two of: [BK][PITCH] filters, turned; [BK][BN] pixels */
  int *const table = (int *)(buffers + 2 * FLOATS);
  const int group_k = p.K / p.groups, tiles_k = (group_k + BM - 1) / BM, filter = p.R * p.S, terms = p.C / p.groups * filter;
  const int group = blockIdx.x / tiles_k % p.groups, first_k = blockIdx.x % tiles_k * BM; /* neighbouring blocks read the same pixels */
  const int image = p.P * p.Q, plane = p.H * p.W, pixels = p.N * image, first_pixel = blockIdx.x / tiles_k / p.groups * BN;
  const int thread = threadIdx.x, my_row = tile_row(thread), my_col = tile_col(thread);

  gather g = gather_begin<BM, ROWS>(p, x, table, group, first_k, first_pixel);

  /* Starts one of PARTS of the copies of the next BK elements, to the buffer at `to`; past the last element zeros. */
  const ptx_shared stage = ptx_shared_address(buffers);
  const auto copy = [&](int to, int part) {
    const ptx_shared a_to = stage + 4 * (to + g.a_l * PITCH + g.a_k + part * (BM / PARTS)), b_to = stage + 4 * (to + BK * PITCH + g.b_l * BN + g.b_column);
    taps two[ROWS ? 1 : B_PART / 2];
    if constexpr (ROWS) {
      if (part < B_COPIES) ptx_cp_async<16>(b_to + 4 * part * BN, g.b_from + part * plane, g.b_left <= part);
    } else {
#pragma unroll
      for (int i = 0; i < B_PART / 2; i++) two[i] = *(const taps *)(table + 2 * (g.position + g.b_l + part * B_PART + 2 * i));
    }
    ptx_cp_async<4>(a_to, w + g.a_at[part], g.a_left <= 0);
    ptx_cp_async<4>(a_to + 4 * COPY_K * PITCH, w + g.a_at[part] + COPY_K, g.a_left <= COPY_K);
    g.a_at[part] += BK;
    if constexpr (!ROWS) {
#pragma unroll
      for (int i = 0; i < B_PART / 2; i++) {
        ptx_cp_async<4>(b_to + 4 * (part * B_PART + 2 * i) * BN, g.b_from + two[i].x, two[i].y & g.missing);
        ptx_cp_async<4>(b_to + 4 * (part * B_PART + 2 * i + 1) * BN, g.b_from + two[i].z, two[i].w & g.missing);
      }
    }
    if (part == PARTS - 1) gather_next<ROWS>(g, filter, plane);
  };

  float sum[TM][TN] = {};
  operands o[2]; /* of this element of the reduction and of the next */
#pragma unroll
  for (int part = 0; part < PARTS; part++) copy(0, part);
  __pipeline_commit();
  __pipeline_wait_prior(0);
  __syncthreads(); /* the first stage is there */
  read_operands(o[0], buffers + my_row, buffers + BK * PITCH + my_col);
  int now = 0; /* the buffer that is read */
  for (int left = (terms + BK - 1) / BK; left > 0; left--) {
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
  store_tile(sum, y, p.K, image, pixels, group * group_k + first_k + my_row, (group + 1) * group_k, first_pixel + my_col, image % 4 == 0);
}

/* ---------------------------------------------------------------- host */

typedef struct instance {
  bool rows; /* pixels are copied 16 bytes at a time */
  int bm;
  void (*kernel)(conv_problem p, const float *x, const float *w, float *y);
} instance;

static const instance instances[] = {{false, 64, pipelined_kernel<64, false>},
                                     {false, 128, pipelined_kernel<128, false>},
                                     {true, 64, pipelined_kernel<64, true>},
                                     {true, 128, pipelined_kernel<128, true>}};

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
           .shared = (size_t)(2 * BK * (bm + 4 + BN)) * sizeof(float) + table_bytes(p)};
  tile_words(plan, bm, BN, 1, mine->blocks);
  const cudaError_t status = plan_allow_shared((const void *)row->kernel, mine->shared);
  return status ? plan_failed(plan, status) : NULL;
}

static cudaError_t launch_fprop(const conv_plan *plan, const conv_buffers *b, cudaStream_t stream) {
  const gemm_plan *mine = plan_data<gemm_plan>(plan);
  mine->row->kernel<<<mine->blocks, 2 * mine->row->bm, mine->shared, stream>>>(plan->operation.problem, (const float *)b->x, (const float *)b->w,
                                                                               (float *)b->y);
  return cudaGetLastError();
}

GEMM_ROW(pipelined_fprop, "05e", "copies and reads run ahead of the products", PASS_FPROP, plan_fprop, launch_fprop, plain_growth_fprop);
