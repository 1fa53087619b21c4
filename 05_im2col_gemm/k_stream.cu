/* 05k: blocks stay to the end.
 *
 * Idea:     2048 filters of 7x7 pixels and 64 images are 400 tiles of 128 x 128 for the 264 places of an H200: two rounds, the second one half empty.
 *           So there are as many blocks as places, and each multiplies one tile after the other. The tiles that do not make a whole round are cut:
 *           their stages of BK elements, lined up tile after tile, are dealt out evenly, so that all blocks end at once.
 * Change:   against 05d the loop runs on from tile to tile: the copies are one stage ahead, also where a tile ends, so that its last stage is
 *           multiplied while the first of the next is on its way. Only the parts of a tile that was cut go through the workspace.
 * Dealt:    a block's share is at most one tile long: the end of one, the beginning of the next. It comes before the block's whole tiles, so that
 *           only its very first piece may begin in the middle of a tile.
 * Order:    a second kernel adds the parts of a tile, first to last, as in 05d: the same sums in every run, to the bit.
 * Stores:   where quads are not aligned, a warp exchanges its sums first: neighbouring lanes store neighbouring pixels, not every fourth one.
 * Model:    tiles of 64 or of 128 filters, cut or not, is decided by share_for() in stream.h, by estimated clocks.
 * Expect:   a fifth less time where the last of two rounds is half empty, a tenth where a tile has 4 stages.
 * Sizes:    R + S up to 30, as in 05c.
 * Passes:   fprop. Layout: NCHW, filters KCRS, fp32. */
#include <cuda_pipeline.h>
#include <cuda_runtime.h>
#include <string.h>

#include "05_im2col_gemm/rows.h"
#include "05_im2col_gemm/stream.h"
#include "05_im2col_gemm/tile.h"
#include "common/ptx/ptx.cuh"

enum { PERIOD = 16, PARTS = 4, LAST_PERIOD = 30, ALL = -1, SUM_ROWS = 16 };

/* Two elements of the reduction, each seen from its window: elements of x from the window's first pixel on, and the bits of which none may be
 * `missing`: filter row r is bit r, column s bit R + s, a channel that the last period does not have LAST_PERIOD. */
typedef int4 taps; /* { offset, bits, offset, bits } */

/* A block of 2 BM threads: tiles of BM filters of a group x BN pixels, counted over all images, or parts of them.
 * ROWS: pixels are copied 16 bytes at a time. */
template <int BM, bool ROWS>
__global__ void __launch_bounds__(2 * BM, 256 / BM) stream_kernel(conv_problem p, schedule all, const float *__restrict__ x,
                                                                  const float *__restrict__ w, float *__restrict__ y, float *__restrict__ parts) {
  constexpr int THREADS = 2 * BM, PITCH = BM + 4, FLOATS = BK * (PITCH + BN);
  static_assert(BM % WARP_M == 0 && BN % WARP_N == 0 && THREADS == BM / TM * (BN / TN), "a thread has TM x TN sums");
  extern __shared__ float4 shared[];
  float *buffers = (float *)shared; /* two of: [BK][PITCH] filters, [BK][BN] pixels */
  int4 *next = (int4 *)(buffers + 2 * FLOATS) + threadIdx.x / 32 * 64 + threadIdx.x % 32; /* [0], [32]: see prepare(); a warp's are 1 KiB */
  int *table = (int *)(buffers + 2 * FLOATS + 8 * THREADS);                               /* [PERIOD][R][S] of { offset, bits } */

  const int group_c = p.C / p.groups, group_k = p.K / p.groups, filter = p.R * p.S, terms = group_c * filter;
  const int image = p.P * p.Q, plane = p.H * p.W, pixels = p.N * image, thread = threadIdx.x;

  /* What this thread copies of the filters: elements a_l and a_l + COPY_K of every BK, of filters a_k, a_k + BM / PARTS, ... (past the last: of it). */
  const int a_l = thread % COPY_K, a_k = thread / COPY_K;
  int a_at[PARTS], a_left; /* elements of a filter from here on */

  /* And of the pixels: elements b_l, b_l + 1, ... of every BK, of one pixel's window; or of a quad of pixels. */
  constexpr int B_LANES = ROWS ? BN / 4 : BN, B_COPIES = BK * B_LANES / THREADS, B_PART = B_COPIES / PARTS;
  const int b_l = thread / B_LANES * B_COPIES, b_column = thread % B_LANES * (BN / B_LANES);
  const float *b_from;           /* may lie before x: then no copy is made from there */
  int b_left, position, missing; /* elements from here (ROWS) or from this period on; where in the table we are */

  /* Where the copies of a tile begin. It is kept in shared memory, where no other thread reads it: registers have no room for it until then. */
  const auto prepare = [&](int tile) {
    const int across = quotient(tile, all.tiles_k); /* neighbouring blocks read the same pixels */
    const int group = rest_of(across, all.groups), first_k = rest_of(tile, all.tiles_k) * BM;
    int at[PARTS];
#pragma unroll
    for (int i = 0; i < PARTS; i++) at[i] = (group * group_k + min(first_k + a_k + i * (BM / PARTS), group_k - 1)) * terms + a_l;
    const int pixel = quotient(across, all.groups) * BN + b_column, n = quotient(pixel, all.image);
    const int in_h = rest_of(quotient(pixel, all.q), all.p) * p.stride_h - p.pad_top, in_w = rest_of(pixel, all.q) * p.stride_w - p.pad_left;
    int bits = pixel < pixels ? 0 : ALL;
    if (!ROWS) {
#pragma unroll 1
      for (int r = 0; r < p.R; r++)
        if (in_h + r * p.dil_h < 0 || in_h + r * p.dil_h >= p.H) bits |= 1 << r;
#pragma unroll 1
      for (int s = 0; s < p.S; s++)
        if (in_w + s * p.dil_w < 0 || in_w + s * p.dil_w >= p.W) bits |= 1 << (p.R + s);
      if (terms < PERIOD * filter) bits |= 1 << LAST_PERIOD;
    }
    next[0] = {at[0], at[1], at[2], at[3]};
    if (ROWS) bits = bits ? 0 : terms - b_l;
    next[32] = {(n * p.C + group * group_c) * plane + in_h * p.W + in_w + (ROWS ? b_l * plane : 0), bits, terms - a_l,
                tile_row(thread) << 16 | tile_col(thread)};
  };
  const auto begin = [&] {
    const int4 a = next[0], b = next[32];
    a_at[0] = a.x, a_at[1] = a.y, a_at[2] = a.z, a_at[3] = a.w, a_left = b.z;
    b_from = x + b.x, b_left = ROWS ? b.y : terms, position = 0, missing = b.y;
  };
  const auto skip = [&](int elements) {
    const int period = elements / (PERIOD * filter);
#pragma unroll
    for (int i = 0; i < PARTS; i++) a_at[i] += elements;
    a_left -= elements, position = elements - period * PERIOD * filter;
    b_from += (ROWS ? elements : period * PERIOD) * plane, b_left -= ROWS ? elements : period * PERIOD * filter;
    if (b_left < PERIOD * filter) missing |= 1 << LAST_PERIOD;
  };

  /* Starts a part of the copies of the next BK elements, to the buffer at `to`; past the last element zeros. */
  const ptx_shared stage = ptx_shared_address(buffers);
  const auto copy = [&](int to, int part) {
    const ptx_shared a_to = stage + 4 * (to + a_l * PITCH + a_k + part * (BM / PARTS)), b_to = stage + 4 * (to + BK * PITCH + b_l * BN + b_column);
    if constexpr (ROWS) {
      ptx_cp_async<4>(a_to, w + a_at[part], a_left <= 0);
      ptx_cp_async<4>(a_to + 4 * COPY_K * PITCH, w + a_at[part] + COPY_K, a_left <= COPY_K);
      a_at[part] += BK;
      if (part < B_COPIES) ptx_cp_async<16>(b_to + 4 * part * BN, b_from + part * plane, b_left <= part);
    } else {
      taps two[B_PART / 2];
#pragma unroll
      for (int i = 0; i < B_PART / 2; i++) two[i] = *(const taps *)(table + 2 * (position + b_l + part * B_PART + 2 * i));
      ptx_cp_async<4>(a_to, w + a_at[part], a_left <= 0);
      ptx_cp_async<4>(a_to + 4 * COPY_K * PITCH, w + a_at[part] + COPY_K, a_left <= COPY_K);
      a_at[part] += BK;
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

  if (!ROWS)
    for (int i = thread; i < PERIOD * filter; i += THREADS) {
      const int c = i / filter, r = i / p.S % p.R, s = i % p.S;
      table[2 * i] = c * plane + r * p.dil_h * p.W + s * p.dil_w;
      table[2 * i + 1] = 1 << r | 1 << (p.R + s) | (c >= group_c % PERIOD ? 1 << LAST_PERIOD : 0);
    }
  __syncthreads(); /* the table is there */

  const int my_row = tile_row(thread), my_col = tile_col(thread);
  float sum[TM][TN];
  operands o[2]; /* of this element of the reduction and of the next */
  int tile = first_tile(all, blockIdx.x);
  prepare(tile);
  begin();
  if (const int first = first_stage(all, blockIdx.x, tile)) skip(first * BK);
#pragma unroll
  for (int part = 0; part < PARTS; part++) copy(0, part);
  __pipeline_commit();
  __pipeline_wait_prior(0);
  __syncthreads(); /* the first stage is there */
  int half = 0;    /* the buffer that is read */
  while (tile != NONE) {
    const int after = tile_after(all, blockIdx.x, tile);
    prepare(after != NONE ? after : tile); /* after the last one a stage is copied that nobody multiplies */
#pragma unroll
    for (int i = 0; i < TM * TN; i++) sum[i / TN][i % TN] = 0;
    read_operands(o[0], buffers + half + my_row, buffers + half + BK * PITCH + my_col);
    for (int left = stages_of(all, blockIdx.x, tile); left > 0; left--) {
      if (left == 1) begin();
#pragma unroll
      for (int l = 0; l < BK; l++) {
        if (l % 2 && l > 1 && l / 2 <= PARTS) copy(FLOATS - half, l / 2 - 1); /* spread, so that no warp is held up for long */
        if (l == BK - 1) {
          __pipeline_commit();
          __pipeline_wait_prior(0);
          __syncthreads(); /* the next stage is there, and nobody reads this one any more */
          half = FLOATS - half;
        }
        const int next_l = (l + 1) % BK;
        read_operands(o[next_l % 2], buffers + half + my_row + next_l * PITCH, buffers + half + BK * PITCH + my_col + next_l * BN);
        add_products(sum, o[l % 2]);
      }
    }

    /* y[n][K][image], or a part [BM][BN] of the workspace; a quad of pixels at a time where it is aligned and so within one image. */
    const bool whole = tile < all.whole;
    const int across = quotient(tile, all.tiles_k), group = rest_of(across, all.groups), first_k = rest_of(tile, all.tiles_k) * BM;
    float *const out = whole ? y : parts + part_of(blockIdx.x, first_stage(all, blockIdx.x, tile) == 0) * (BM * BN);
    const int first_pixel = whole ? quotient(across, all.groups) * BN : 0, out_pixels = whole ? pixels : BN, row = whole ? image : BN;
    const int k = whole ? group * group_k + first_k : 0, end_k = whole ? (group + 1) * group_k : BM, my_place = next[32].w,
              my_k = k + (my_place >> 16);
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

static bool pixels_are_rows(const conv_problem *p) {
  return p->R * p->S == 1 && p->stride_h == 1 && p->stride_w == 1 && p->P == p->H && p->Q == p->W && p->pad_top == 0 && p->pad_left == 0 &&
         p->P * p->Q % 4 == 0;
}

static const char *unsupported(const conv_problem *p, const conv_device *device) {
  if (p->R + p->S > LAST_PERIOD) return "R + S exceeds 30";
  const char *why = plain_unsupported(p, device);
  if (why) return why;
  const int64_t before = (int64_t)p->pad_top * p->W + p->pad_left; /* how far before x a window begins */
  return problem_x_count(p) + before > INT_MAX - 1024 ? "x and the padding before it have 2^31 elements or more (offsets are 32-bit)" : NULL;
}

typedef struct stream_row {
  bool rows; /* pixels are copied 16 bytes at a time */
  int bm;
  void (*kernel)(conv_problem p, schedule all, const float *x, const float *w, float *y, float *parts);
} stream_row;

static const stream_row instances[] = {
    {false, 64, stream_kernel<64, false>}, {false, 128, stream_kernel<128, false>}, {true, 64, stream_kernel<64, true>}, {true, 128, stream_kernel<128, true>}};

typedef struct stream_plan {
  const stream_row *row;
  share_out share;
  size_t shared; /* bytes */
} stream_plan;

static const char *plan_fprop(const conv_operation *o, const conv_device *device, conv_plan *plan) {
  const conv_problem *p = &o->problem;
  const char *why = unsupported(p, device);
  if (why) return why;
  const bool rows = pixels_are_rows(p);
  const share_out share = share_for(p, device->sm_count);
  const int bm = share.bm, rest = share.all.tiles - share.all.whole;
  const stream_row *row = instances;
  while (row->rows != rows || row->bm != bm) row++; /* there is one */
  stream_plan *mine = plan_data<stream_plan>(plan);
  *mine = {.row = row,
           .share = share,
           .shared = (size_t)(2 * BK * (bm + 4 + BN)) * sizeof(float) + (size_t)(4 * bm) * sizeof(int4) + (size_t)(PERIOD * p->R * p->S / 2) * sizeof(taps)};
  if (rest > 0) plan->workspace_bytes = (size_t)share.all.workers * 2 * bm * BN * sizeof(float);
  tile_words(plan, bm, BN, 1, share.blocks);
  if (rest > 0) snprintf(plan->words + strlen(plan->words), sizeof plan->words - strlen(plan->words), ", %d of %d tiles dealt out", rest, share.all.tiles);
  const cudaError_t status = allow_shared(row->kernel, mine->shared);
  return status ? plan_failed(plan, status) : NULL;
}

static cudaError_t launch_fprop(const conv_plan *plan, const conv_buffers *b, cudaStream_t stream) {
  const conv_problem *p = &plan->operation.problem;
  const stream_plan *mine = plan_data<stream_plan>(plan);
  const schedule *all = &mine->share.all;
  const int bm = mine->share.bm, rest = all->tiles - all->whole;
  mine->row->kernel<<<mine->share.blocks, 2 * bm, mine->shared, stream>>>(*p, *all, (const float *)b->x, (const float *)b->w, (float *)b->y, (float *)b->workspace);
  if (rest > 0) add_parts_kernel<<<dim3(bm / SUM_ROWS, rest), BN, 0, stream>>>(*p, *all, bm, (const float *)b->workspace, (float *)b->y);
  return cudaGetLastError();
}

GEMM_ROW(stream_fprop, "05k", "blocks stay to the end, the last tiles are dealt out by stages", PASS_FPROP, plan_fprop, launch_fprop, plain_growth_fprop);

/* Whether it takes less time than 05d, as timed on an H200 for the layers of ResNet-50: where tiles of 64 filters, one a multiprocessor, fill less than
 * 90 % of their rounds and there is enough to deal out, or where many tiles are so short that their beginnings and ends count. */
extern "C" bool stream_pays(const conv_problem *p, int multiprocessors) {
  const double rounds = (double)tiles_of(p, 64) / multiprocessors, stages = stages_of_tile(p);
  const bool uneven = rounds > 1 && rounds < 0.9 * ceil(rounds) && rounds * stages / 4 >= 13;
  return uneven || (rounds >= 8 && stages <= (pixels_are_rows(p) ? 4 : 10));
}
