/* 05g: blocks stay to the end.
 *
 * Terms:    persistent kernel; stream-K.
 * Idea:     2048 filters of 7x7 pixels and 64 images are 400 tiles of 128 x 128 for the 264 places of an H200: two rounds, the second one half empty.
 *           So there are as many blocks as places, and each multiplies one tile after the other. The tiles that do not make a whole round are cut:
 *           their stages of BK elements, lined up tile after tile, are dealt out evenly, so that all blocks end at once.
 * Change:   against 05f the loop runs on from tile to tile: the copies are one stage ahead, also where a tile ends, so that its last stage is
 *           multiplied while the first of the next is on its way. Only the parts of a tile that was cut go through the workspace.
 * Dealt:    a block's share is at most one tile long: the end of one, the beginning of the next. It comes before the block's whole tiles, so that
 *           only its very first piece may begin in the middle of a tile.
 * Order:    a second kernel adds the parts of a tile, first to last, as in 05f: the same sums in every run, to the bit.
 * Stores:   where quads are not aligned, a warp exchanges its sums first: neighbouring lanes store neighbouring pixels, not every fourth one.
 * Model:    tiles of 64 or of 128 filters, cut or not, is decided by share_for() in stream.h, by estimated clocks.
 * Expect:   a fifth less time where the last of two rounds is half empty, a tenth where a tile has 4 stages.
 * Sizes:    R + S up to 30, as in 05d.
 * Passes:   fprop. Layout: NCHW, filters KCRS, fp32. */
#include <cuda_runtime.h>
#include <string.h>

#include "05_im2col_gemm/pipeline.h"
#include "05_im2col_gemm/rows.h"
#include "05_im2col_gemm/stream.h"

enum { SUM_ROWS = 16 };

/* A block of 2 BM threads: tiles of BM filters of a group x BN pixels, counted over all images, or parts of them.
 * ROWS: pixels are copied 16 bytes at a time. */
template <int BM, bool ROWS>
__global__ void __launch_bounds__(2 * BM, 256 / BM)
    stream_kernel(conv_problem p, schedule all, const float *__restrict__ x, const float *__restrict__ w, float *__restrict__ y, float *__restrict__ parts) {
  constexpr int THREADS = 2 * BM, PITCH = BM + 4, FLOATS = BK * (PITCH + BN);
  static_assert(BM % WARP_M == 0 && BN % WARP_N == 0 && THREADS == BM / TM * (BN / TN), "a thread has TM x TN sums");
  extern __shared__ float4 shared[];
  float *buffers = (float *)shared;                                                       /* two of: [BK][PITCH] filters, [BK][BN] pixels */
  int4 *next = (int4 *)(buffers + 2 * FLOATS) + threadIdx.x / 32 * 64 + threadIdx.x % 32; /* [0], [32]: see prepare(); a warp's are 1 KiB */
  int *table = (int *)(buffers + 2 * FLOATS + 8 * THREADS);                               /* [PERIOD][R][S] of { offset, bits } */

  const int group_c = p.C / p.groups, group_k = p.K / p.groups, filter = p.R * p.S, terms = group_c * filter;
  const int image = p.P * p.Q, plane = p.H * p.W, pixels = p.N * image, thread = threadIdx.x, my_row = tile_row(thread), my_col = tile_col(thread);

  constexpr int B_LANES = ROWS ? BN / 4 : BN, B_COPIES = BK * B_LANES / THREADS;
  gather g;
  g.a_l = thread % COPY_K, g.a_k = thread / COPY_K, g.b_l = thread / B_LANES * B_COPIES, g.b_column = thread % B_LANES * (BN / B_LANES);

  /* Where the copies of a tile begin, as gather_begin() has it. It is kept in shared memory, where no other thread reads it: registers have no room for it
   * until then. */
  const auto prepare = [&](int tile) {
    const int across = quotient(tile, all.tiles_k); /* neighbouring blocks read the same pixels */
    const int group = rest_of(across, all.groups), first_k = rest_of(tile, all.tiles_k) * BM;
    int at[COPY_ROWS];
#pragma unroll
    for (int i = 0; i < COPY_ROWS; i++) at[i] = (group * group_k + min(first_k + g.a_k + i * (BM / COPY_ROWS), group_k - 1)) * terms + g.a_l;
    const int pixel = quotient(across, all.groups) * BN + g.b_column, n = quotient(pixel, all.image);
    const int in_h = rest_of(quotient(pixel, all.q), all.p) * p.stride_h - p.pad_top, in_w = rest_of(pixel, all.q) * p.stride_w - p.pad_left;
    int bits = pixel < pixels ? 0 : ALL;
    if (!ROWS) {
      bits |= outside<1>(p, in_h, in_w);
      if (terms < PERIOD * filter) bits |= 1 << LAST_PERIOD;
    }
    next[0] = {at[0], at[1], at[2], at[3]};
    if (ROWS) bits = bits ? 0 : terms - g.b_l;
    next[32] = {(n * p.C + group * group_c) * plane + in_h * p.W + in_w + (ROWS ? g.b_l * plane : 0), bits, terms - g.a_l, my_row << 16 | my_col};
  };
  const auto begin = [&] {
    const int4 a = next[0], b = next[32];
    g.a_at[0] = a.x, g.a_at[1] = a.y, g.a_at[2] = a.z, g.a_at[3] = a.w, g.a_left = b.z;
    g.b_from = x + b.x, g.b_left = ROWS ? b.y : terms, g.position = 0, g.missing = b.y;
  };

  if (!ROWS) fill_table<THREADS>(p, table);
  __syncthreads(); /* the table is there */

  const ptx_shared stage = ptx_shared_address(buffers);
  float sum[TM][TN];
  operands o[2]; /* of this element of the reduction and of the next */
  int tile = first_tile(all, blockIdx.x);
  prepare(tile);
  begin();
  if (const int first = first_stage(all, blockIdx.x, tile)) gather_skip<ROWS>(g, first * BK, filter, plane);
#pragma unroll
  for (int part = 0; part < PARTS; part++) copy_part<BM, ROWS>(g, w, table, stage, filter, plane, 0, part);
  meet();       /* the first stage is there */
  int half = 0; /* the buffer that is read */
  while (tile != NONE) {
    const int after = tile_after(all, blockIdx.x, tile);
    prepare(after != NONE ? after : tile); /* after the last one a stage is copied that nobody multiplies */
#pragma unroll
    for (int i = 0; i < TM * TN; i++) sum[i / TN][i % TN] = 0;
    read_operands(o[0], buffers + half + my_row, buffers + half + BK * PITCH + my_col);
    multiply_stages<PITCH, BN>(sum, o, buffers, my_row, my_col, half, stages_of(all, blockIdx.x, tile), [&](int l, int now, int left) {
      if (l == 0 && left == 1) begin();
      const int part = part_beside<ROWS>(l);
      if (part >= 0 && part < PARTS) copy_part<BM, ROWS>(g, w, table, stage, filter, plane, FLOATS - now, part);
    });

    /* y[n][K][image], or a part [BM][BN] of the workspace; a quad of pixels at a time where it is aligned and so within one image. */
    const bool whole = tile < all.whole;
    const int across = quotient(tile, all.tiles_k), group = rest_of(across, all.groups), first_k = rest_of(tile, all.tiles_k) * BM;
    float *const out = whole ? y : parts + part_of(blockIdx.x, first_stage(all, blockIdx.x, tile) == 0) * (BM * BN);
    const int first_pixel = whole ? quotient(across, all.groups) * BN : 0, out_pixels = whole ? pixels : BN, row = whole ? image : BN;
    const int k = whole ? group * group_k + first_k : 0, end_k = whole ? (group + 1) * group_k : BM, my_place = next[32].w, my_k = k + (my_place >> 16);
    if (row % 4 == 0) {
#pragma unroll
      for (int j = 0; j < TN; j += 4) {
        const int pixel = first_pixel + my_place % 65536 + quad_col(j), n = whole ? quotient(pixel, all.image) : 0;
        float *to = out + n * (p.K - 1) * image + pixel;
#pragma unroll
        for (int i = 0; i < TM; i++)
          if (pixel < out_pixels && my_k + quad_row(i) < end_k) store_quad(to + (my_k + quad_row(i)) * row, &sum[i][j]);
      }
    } else { /* 4 bytes at a time: each i is 4 filters x 64 pixels of the warp, exchanged where its `next` are */
      const int lane = thread % 32, warp_k = k + (my_place >> 16 & -WARP_M), pixel = first_pixel + (my_place % 65536 & -WARP_N) + lane;
      float *const warps = (float *)(next - lane), *const mine = warps + (my_place >> 18) % 4 * WARP_N + my_place % WARP_N;
      float *const to = y + quotient(pixel, all.image) * (p.K - 1) * image + pixel;
      float *const to_32 = y + quotient(pixel + 32, all.image) * (p.K - 1) * image + pixel + 32;
#pragma unroll
      for (int i = 0; i < TM; i++) {
        __syncwarp();
        store_quad(mine, &sum[i][0]);
        store_quad(mine + quad_col(4), &sum[i][4]);
        __syncwarp();
#pragma unroll
        for (int r = 0; r < 4; r++) {
          const int to_k = warp_k + 4 * r + quad_row(i);
          if (to_k < end_k && pixel < pixels) to[to_k * image] = warps[r * WARP_N + lane];
          if (to_k < end_k && pixel + 32 < pixels) to_32[to_k * image] = warps[r * WARP_N + lane + 32];
        }
      }
      __syncwarp();
    }
    tile = after;
  }
}

/* y = the sum of a tile's parts, first to last. A thread: one pixel, SUM_ROWS filters. */
__global__ void __launch_bounds__(BN) add_parts_kernel(conv_problem p, schedule all, int bm, const float *__restrict__ parts, float *__restrict__ y) {
  const int group_k = p.K / p.groups, image = p.P * p.Q, row = blockIdx.x * SUM_ROWS, tile = all.whole + (int)blockIdx.y;
  const int across = quotient(tile, all.tiles_k), first_k = rest_of(tile, all.tiles_k) * bm + row, group = rest_of(across, all.groups);
  const int pixel = quotient(across, all.groups) * BN + (int)threadIdx.x, n = quotient(pixel, all.image);
  if (pixel >= p.N * image) return;
  const int begin = (int)blockIdx.y * all.stages, last = block_of(all, begin + all.stages - 1);
  float sum[SUM_ROWS] = {};
  for (int b = block_of(all, begin); b <= last; b++) {
    const float *part = parts + (part_of(b, begin_of(all, b) <= begin) * bm + row) * BN + threadIdx.x;
#pragma unroll
    for (int i = 0; i < SUM_ROWS; i++) sum[i] += part[i * BN];
  }
  float *to = y + (n * (p.K - 1) + group * group_k + first_k) * image + pixel;
#pragma unroll
  for (int i = 0; i < SUM_ROWS; i++)
    if (first_k + i < group_k) to[i * image] = sum[i];
}

/* ---------------------------------------------------------------- host */

typedef struct instance {
  bool rows; /* pixels are copied 16 bytes at a time */
  int bm;
  void (*kernel)(conv_problem p, schedule all, const float *x, const float *w, float *y, float *parts);
} instance;

static const instance instances[] = {
    {false, 64, stream_kernel<64, false>}, {false, 128, stream_kernel<128, false>}, {true, 64, stream_kernel<64, true>}, {true, 128, stream_kernel<128, true>}};

typedef struct gemm_plan {
  const instance *row;
  share_out share;
  size_t shared; /* bytes */
} gemm_plan;

static const char *plan_fprop(const conv_operation *o, const conv_device *device, conv_plan *plan) {
  const conv_problem *p = &o->problem;
  const char *why = gather_unsupported(p, device);
  if (why) return why;
  const bool rows = pixels_are_rows(p);
  const share_out share = share_for(p, device->sm_count);
  const int bm = share.bm, rest = share.all.tiles - share.all.whole;
  const instance *row = instances;
  while (row->rows != rows || row->bm != bm) row++; /* there is one */
  gemm_plan *mine = plan_data<gemm_plan>(plan);
  *mine = {.row = row, .share = share, .shared = (size_t)(2 * BK * (bm + 4 + BN)) * sizeof(float) + (size_t)(4 * bm) * sizeof(int4) + table_bytes(p)};
  if (rest > 0) plan->workspace_bytes = (size_t)share.all.workers * 2 * bm * BN * sizeof(float);
  tile_words(plan, bm, BN, 1, share.blocks);
  if (rest > 0) snprintf(plan->words + strlen(plan->words), sizeof plan->words - strlen(plan->words), ", %d of %d tiles dealt out", rest, share.all.tiles);
  const cudaError_t status = plan_allow_shared((const void *)row->kernel, mine->shared);
  return status ? plan_failed(plan, status) : NULL;
}

static cudaError_t launch_fprop(const conv_plan *plan, const conv_buffers *b, cudaStream_t stream) {
  const conv_problem *p = &plan->operation.problem;
  const gemm_plan *mine = plan_data<gemm_plan>(plan);
  const schedule *all = &mine->share.all;
  const int bm = mine->share.bm, rest = all->tiles - all->whole;
  mine->row->kernel<<<mine->share.blocks, 2 * bm, mine->shared, stream>>>(*p, *all, (const float *)b->x, (const float *)b->w, (float *)b->y,
                                                                          (float *)b->workspace);
  if (rest > 0) add_parts_kernel<<<dim3(bm / SUM_ROWS, rest), BN, 0, stream>>>(*p, *all, bm, (const float *)b->workspace, (float *)b->y);
  return cudaGetLastError();
}

GEMM_ROW(stream_fprop, "05g", "blocks stay to the end, the last tiles are dealt out by stages", PASS_FPROP, plan_fprop, launch_fprop, plain_growth_fprop);

/* Whether it takes less time than 05f, as timed on an H200 for the layers of ResNet-50: where tiles of 64 filters, one a multiprocessor, fill less than
 * 90 % of their rounds and there is enough to deal out, or where many tiles are so short that their beginnings and ends count. */
extern "C" bool stream_pays(const conv_problem *p, int multiprocessors) {
  const double rounds = (double)tiles_of(p, 64) / multiprocessors, stages = stages_of_tile(p);
  const bool uneven = rounds > 1 && rounds < 0.9 * ceil(rounds) && rounds * stages / 4 >= 13;
  return uneven || (rounds >= 8 && stages <= (pixels_are_rows(p) ? 4 : 10));
}
