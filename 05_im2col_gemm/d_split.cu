/* 05d: the reduction is split, where there are too few tiles to go round.
 *
 * Idea:     sixteen images of 7x7 pixels and 512 filters are 28 tiles of 128 x 128, and an H200 has 132 multiprocessors with room for two each.
 *           But every output is a sum of 4608 products. So several blocks share a tile: each adds up a slice of the reduction and leaves its
 *           sums in the workspace, and a second kernel adds the slices.
 * Change:   against 05c a block begins and ends where its slice does, and writes to its slice's part of the workspace. With one slice it is 05c.
 * Order:    the slices are added first to last, whichever was done first: the same sums in every run, to the bit. Atomic additions are not.
 * Model:    how many slices, and tiles of 64 or of 128 filters, is decided by split_of() in split.h: it estimates the clocks of the fullest multiprocessor, and
 *           those of writing, reading and adding the slices, for each choice, and takes the least.
 * Sizes:    R + S up to 30, as in 05c.
 * Passes:   fprop. Layout: NCHW, filters KCRS, fp32. */
#include <cuda_pipeline.h>
#include <cuda_runtime.h>

#include "05_im2col_gemm/split.h"
#include "05_im2col_gemm/tile.h"
#include "common/plain.h"

enum { PERIOD = 8, LAST_PERIOD = 30, ALL = -1, SUM_THREADS = 128, MOST_SLICES = 32 };

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

  /* What this thread copies of the filters: element a_l of every COPY_K, of filters a_k, a_k + BM / 4, ... (past the last filter: of the last). */
  const int a_l = thread % COPY_K, a_k = thread / COPY_K, a_first = min(first * BK + a_l, terms - 1);
  int a_at[4], a_left = terms - 1 - a_first; /* elements of a filter after this one */
#pragma unroll
  for (int i = 0; i < 4; i++) a_at[i] = (group * group_k + min(first_k + a_k + i * (BM / 4), group_k - 1)) * terms + a_first;

  /* And of the pixels: elements b_l, b_l + 1, ... of every COPY_K, of one pixel's window; or of a quad of pixels. */
  constexpr int B_LANES = ROWS ? BN / 4 : BN, B_COPIES = COPY_K * B_LANES / THREADS;
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

  /* Starts the copies of the next COPY_K elements, to rows `row` and on of the buffer at `to`. */
  const auto copy = [&](float *to, int row) {
    float *a_to = to + (row + a_l) * PITCH + a_k, *b_to = to + BK * PITCH + (row + b_l) * BN + b_column;
    if constexpr (ROWS) {
#pragma unroll
      for (int i = 0; i < B_COPIES; i++) __pipeline_memcpy_async(b_to + i * BN, b_from + i * plane, 16, i < b_left ? 0 : 16);
      b_from += COPY_K * plane, b_left -= COPY_K;
    } else {
      taps two[B_COPIES / 2];
#pragma unroll
      for (int i = 0; i < B_COPIES / 2; i++) two[i] = *(const taps *)(table + 2 * (position + b_l) + 4 * i);
#pragma unroll
      for (int i = 0; i < B_COPIES / 2; i++) {
        __pipeline_memcpy_async(b_to + 2 * i * BN, b_from + two[i].x, 4, two[i].y & missing ? 4 : 0);
        __pipeline_memcpy_async(b_to + (2 * i + 1) * BN, b_from + two[i].z, 4, two[i].w & missing ? 4 : 0);
      }
      position += COPY_K;
      if (position == PERIOD * filter) {
        position = 0, b_from += PERIOD * plane, b_left -= PERIOD * filter;
        if (b_left < PERIOD * filter) missing |= b_left > 0 ? 1 << LAST_PERIOD : ALL;
      }
    }
    const int move = min((int)COPY_K, a_left); /* past its last element a filter's last one again: the pixel is zero there */
    a_left -= move;
#pragma unroll
    for (int i = 0; i < 4; i++) {
      __pipeline_memcpy_async(a_to + i * (BM / 4), w + a_at[i], 4);
      a_at[i] += move;
    }
  };

  const int my_row = tile_row(thread), my_col = tile_col(thread);
  float sum[TM][TN] = {};
  operands o[2]; /* of this element of the reduction and of the next */
  copy(buffers, 0);
  copy(buffers, COPY_K);
  __pipeline_commit();
  __pipeline_wait_prior(0);
  __syncthreads(); /* the first stage is there */
  read_operands(o[0], buffers + my_row, buffers + BK * PITCH + my_col);
  int now = 0; /* the buffer that is read */
  for (int left = steps; left > 0; left--) {
#pragma unroll
    for (int l = 0; l < BK; l++) {
      if ((l == 3 || l == 7) && left > 1) copy(buffers + (FLOATS - now), l == 3 ? 0 : COPY_K);
      if (l == BK - 1) {
        __pipeline_commit();
        __pipeline_wait_prior(0);
        __syncthreads(); /* the next stage is there, and nobody reads this one any more */
        now = FLOATS - now;
      }
      const int next = (l + 1) % BK;
      if (next || left > 1) read_operands(o[next % 2], buffers + now + my_row + next * PITCH, buffers + now + BK * PITCH + my_col + next * BN);
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

static split split_of_problem(const conv_problem *p) {
  const matrix_product g = {.rows = p->K / p->groups,
                            .groups = p->groups,
                            .steps = (p->C / p->groups * p->R * p->S + BK - 1) / BK,
                            .columns = (int64_t)p->N * p->P * p->Q,
                            .sums = (int64_t)p->K * slice_row(p),
                            .most_slices = MOST_SLICES,
                            .wide_gain = pixels_are_rows(p) ? 1 : 1.06};
  return split_of(&g);
}

static size_t workspace_bytes(const conv_problem *p) {
  const split s = split_of_problem(p);
  return s.slices > 1 ? (size_t)s.slices * (size_t)p->K * (size_t)slice_row(p) * sizeof(float) : 0;
}

static cudaError_t launch_fprop(const conv_problem *p, const conv_buffers *b, cudaStream_t stream) {
  const split s = split_of_problem(p);
  const int bm = s.bm, pixels = p->N * p->P * p->Q, row = slice_row(p);
  const output out = s.slices > 1 ? output{(float *)b->workspace, row, row} : output{(float *)b->y, p->P * p->Q, pixels};
  const dim3 blocks((pixels + BN - 1) / BN * p->groups * ((p->K / p->groups + bm - 1) / bm), s.slices);
  const size_t bytes = (size_t)(2 * BK * (bm + 4 + BN)) * sizeof(float) + (size_t)(PERIOD * p->R * p->S / 2) * sizeof(taps);
  const auto kernel = pixels_are_rows(p) ? (bm == 128 ? split_kernel<128, true> : split_kernel<64, true>)
                                         : (bm == 128 ? split_kernel<128, false> : split_kernel<64, false>);
  kernel<<<blocks, 2 * bm, bytes, stream>>>(*p, s.slice_steps, (const float *)b->x, (const float *)b->w, out);
  if (s.slices > 1)
    add_slices_kernel<<<p->K * ((pixels + SUM_THREADS - 1) / SUM_THREADS), SUM_THREADS, 0, stream>>>(*p, s.slices, (const float *)b->workspace, (float *)b->y);
  return cudaGetLastError();
}

extern "C" const conv_kernel split_fprop;
const conv_kernel split_fprop = {.name = "05d",
                                 .idea = "the reduction split where tiles are few",
                                 .place = ON_GPU,
                                 .pass = PASS_FPROP,
                                 .dtype = DTYPE_FP32,
                                 .layout = LAYOUT_NCHW,
                                 .min_arch = 0,
                                 .unsupported = unsupported,
                                 .workspace_bytes = workspace_bytes,
                                 .launch = launch_fprop,
                                 .growth = plain_growth_fprop};
