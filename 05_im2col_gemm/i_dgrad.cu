/* 05i: the gradient of the image, as a matrix product for every residue of the stride.
 *
 *     dx[n,c,h,w] = sum over k,r,s of w[k,c,r,s] * dy[n,k,p,q]        where p * stride = h + pad - r*dil, and q likewise
 *
 * Terms:    implicit GEMM; strided dgrad by residue classes.
 * Idea:     with a stride of 2 half of the r's leave a remainder in that division, and which half depends on whether h is even. So the pixels are taken
 *           in classes, by h modulo the stride and w modulo the stride (classes.h). In a class h = stride * i + a the same r's count for all pixels,
 *           and p = i + (a + pad - r*dil) / stride: a convolution of stride 1 again, with fewer taps. No product is computed that is not needed, and no
 *           tap is tested in the loop. At stride 1 there is one class.
 * Change:   against 05f C and K change places, a block has a class and its taps, and the table says where a tap lies in w, too, as the elements of
 *           w that a class needs are no longer neighbours. A slice has as many steps in every class, so a class has as many slices as it needs.
 *           A class without taps is zeros: a 1x1 filter of stride 2 reaches a quarter of the pixels.
 * Stores:   a class's pixels lie apart: a lane that stored its own four would touch a sector of 32 bytes for each. So sums change lanes in shared
 *           memory, until neighbours store neighbours; the columns without taps to the right go along as zeros; and blocks of the same pixels'
 *           column classes are neighbours, so that their halves of a sector meet in L2.
 * Expect:   as 05f at stride 1, w read in smaller pieces; at stride 2 the four classes of a 3x3 filter have 4, 2, 2 and 1 taps, 9 in all, not 36.
 * Sizes:    R + S up to 30 (the bits), a vertical stride up to 65535 (gridDim.z).
 * Passes:   dgrad. Layout: NCHW, filters KCRS, fp32. */
#include <cuda_runtime.h>

#include "05_im2col_gemm/classes.h"
#include "05_im2col_gemm/pipeline.h"
#include "05_im2col_gemm/rows.h"
#include "05_im2col_gemm/split.h"

enum { SUM_THREADS = 128, MOST_SLICES = 32, ADDED_C = 8, MOST_CLASSES = 65535 /* gridDim.z */ };

/* Sums of BM channels of a class's pixels, to dx from their first channel on: half of the channels at a time through shared memory, sums[BM / 2][BN + 4], so
 * that neighbouring lanes store neighbouring pixels of the class, and the columns beside them that have no taps. */
template <int BM>
static __device__ __forceinline__ void store_class(const float (&sum)[TM][TN], float *shared, const conv_problem &p, const pixel_class &in, int class_h,
                                                   int class_w, float *dx, int first_pixel, int end_c) {
  constexpr int THREADS = 2 * BM, LANES = THREADS < BN ? THREADS : BN, PITCH = BN + 4;
  const int image = in.rows * in.cols, pixels = p.N * image, thread = threadIdx.x, my_row = tile_row(thread), my_col = tile_col(thread);
#pragma unroll
  for (int half = 0; half < 2; half++) {
    __syncthreads(); /* nobody reads what was there any more */
#pragma unroll
    for (int t = 0; t < TM * TN / 2; t += 4)
      store_quad(shared + (my_row / WARP_M * 16 + my_row % WARP_M + t / TN) * PITCH + my_col + quad_col(t % TN), &sum[half * 4 + t / TN][t % TN]);
    __syncthreads(); /* the sums are there */
    for (int e = thread % LANES; e < BN * in.wide; e += LANES) {
      const int column = e / in.wide, beside = e % in.wide, pixel = first_pixel + column;
      const int h = pixel / in.cols % in.rows * p.stride_h + class_h, at = pixel % in.cols * p.stride_w + class_w + beside;
      if (pixel >= pixels || at >= p.W) continue;
      float *to = dx + (pixel / image * p.C * p.H + h) * p.W + at;
#pragma unroll 4
      for (int row = thread / LANES; row < BM / 2; row += THREADS / LANES) {
        const int c = row / 16 * WARP_M + row % 16 + half * 16;
        if (c < end_c) to[c * p.H * p.W] = beside ? 0 : shared[row * PITCH + column];
      }
    }
  }
}

/* A block of 2 BM threads: BM channels of a group x BN pixels of a class, counted over all images; slice blockIdx.y of their sums. The row class
 * with most taps, first_h, comes first. */
template <int BM>
__global__ void __launch_bounds__(2 * BM, 256 / BM)
    dgrad_kernel(conv_problem p, int slice_steps, int first_h, const float *__restrict__ dy, const float *__restrict__ w, float *dx, float *parts) {
  constexpr bool TWO = copies_two<BM, false>;
  constexpr int THREADS = 2 * BM, LANES = TWO ? THREADS : BN, PITCH = BM + 4, FLOATS = BK * (PITCH + BN), B_COPIES = BK * LANES / THREADS,
                B_PART = B_COPIES / PARTS;
  static_assert(BM % WARP_M == 0 && BN % WARP_N == 0 && THREADS == BM / TM * (BN / TN), "a thread has TM x TN sums");
  extern __shared__ float4 shared[];
  float *buffers = (float *)shared;           /* two of: [BK][PITCH] filters, [BK][BN] pixels of dy; then sums */
  int *table = (int *)(buffers + 2 * FLOATS); /* [PERIOD][taps] of { offset, bits }; then, of offsets in w */

  const int classes_h = gridDim.z, classes_w = classes_of(p.stride_w, p.W);
  const int class_h = (blockIdx.z + first_h) % classes_h, class_w = blockIdx.x % classes_w, tile = blockIdx.x / classes_w;
  const pixel_class in = class_of(p, class_h, class_w, slice_steps);
  const int rows = in.rows, cols = in.cols, group_c = p.C / p.groups, group_k = p.K / p.groups, tiles_c = (group_c + BM - 1) / BM;
  const int group = tile / tiles_c % p.groups, first_c = tile % tiles_c * BM, first_pixel = tile / tiles_c / p.groups * BN;
  const int image = rows * cols, plane = p.P * p.Q, pixels = p.N * image, thread = threadIdx.x;
  if (first_pixel >= pixels || (int)blockIdx.y >= in.slices || in.wide == 0) return; /* some classes have fewer */
  const progression r = in.r, s = in.s;
  const int filter = r.count * s.count, terms = group_k * filter, first = blockIdx.y * in.slice_steps, steps = min(in.steps - first, in.slice_steps);

  const int my_row = tile_row(thread), my_col = tile_col(thread);
  float sum[TM][TN] = {};
  if (steps > 0) {
    int *w_table = table + 2 * PERIOD * filter;
    for (int i = thread; i < PERIOD * filter; i += THREADS) {
      const int k = i / filter, i_r = i / s.count % r.count, i_s = i % s.count, tap_r = r.first + i_r * r.step, tap_s = s.first + i_s * s.step;
      table[2 * i] = k * plane + (r.from - i_r * r.apart) * p.Q + s.from - i_s * s.apart;
      table[2 * i + 1] = 1 << tap_r | 1 << (p.R + tap_s) | (k >= group_k % PERIOD ? 1 << LAST_PERIOD : 0);
      w_table[i] = (k * group_c * p.R + tap_r) * p.S + tap_s;
    }

    /* What this thread copies of the filters: elements a_l and a_l + COPY_K of every BK, of channels a_c, a_c + BM / 4, ... (past the last channel: of the
     * last). */
    const int a_l = thread % COPY_K, a_c = thread / COPY_K, period = first * BK / (PERIOD * filter);
    const float *a_from = w + (group * group_k + period * PERIOD) * group_c * p.R * p.S;
    int a_row[4];
#pragma unroll
    for (int i = 0; i < 4; i++) a_row[i] = min(first_c + a_c + i * (BM / 4), group_c - 1) * p.R * p.S;

    /* And of dy: elements b_l, b_l + 1, ... of every BK, for one pixel of dx; in a tile of 32 channels for two, half a tile apart. */
    const int b_l = thread / LANES * B_COPIES, b_column = thread % LANES, b_pixel = first_pixel + b_column;
    const int n = b_pixel / image, i_h = b_pixel / cols % rows, i_w = b_pixel % cols;
    const float *b_from = dy + (n * p.K + group * group_k + period * PERIOD) * plane + i_h * p.Q + i_w;
    int left = terms - period * PERIOD * filter, position = first * BK % (PERIOD * filter); /* elements from this period on; where in the table we are */
    int missing = b_pixel < pixels ? 0 : ALL, missing_too = 0;
    for (int i = 0; i < r.count; i++) {
      const int row = i_h + r.from - i * r.apart;
      if (row < 0 || row >= p.P) missing |= 1 << (r.first + i * r.step);
    }
    for (int i = 0; i < s.count; i++) {
      const int col = i_w + s.from - i * s.apart;
      if (col < 0 || col >= p.Q) missing |= 1 << (p.R + s.first + i * s.step);
    }
    if (left < PERIOD * filter) missing |= 1 << LAST_PERIOD;
    const float *b_too = b_from;
    /* The same once more: a function for both would change the machine code of wider tiles, which is fast by luck of its registers (docs/05_gradients.md). */
    if constexpr (TWO) {
      const int too = b_pixel + THREADS, too_h = too / cols % rows, too_w = too % cols;
      b_too = dy + (too / image * p.K + group * group_k + period * PERIOD) * plane + too_h * p.Q + too_w;
      missing_too = too < pixels ? missing & 1 << LAST_PERIOD : ALL;
      for (int i = 0; i < r.count; i++)
        if (const int row = too_h + r.from - i * r.apart; row < 0 || row >= p.P) missing_too |= 1 << (r.first + i * r.step);
      for (int i = 0; i < s.count; i++)
        if (const int col = too_w + s.from - i * s.apart; col < 0 || col >= p.Q) missing_too |= 1 << (p.R + s.first + i * s.step);
    }
    __syncthreads(); /* the table is there */

    /* As copy_part(), but filters by table, too: one of the two elements, of two channels. */
    const ptx_shared stage = ptx_shared_address(buffers);
    const auto copy = [&](int to, int part) {
      const int a_element = a_l + part / 2 * COPY_K, b_element = b_l + part * B_PART;
      const ptx_shared a_to = stage + 4 * (to + a_element * PITCH + a_c), b_to = stage + 4 * (to + BK * PITCH + b_element * BN + b_column);
      taps two[B_PART / 2];
#pragma unroll
      for (int i = 0; i < B_PART / 2; i++) two[i] = *(const taps *)(table + 2 * (position + b_element + 2 * i));
      const float *a_tap = a_from + w_table[position + a_element];
#pragma unroll
      for (int i = part % 2 * 2; i < part % 2 * 2 + 2; i++) ptx_cp_async<4>(a_to + 4 * i * (BM / 4), a_tap + a_row[i], position + a_element >= left);
#pragma unroll
      for (int i = 0; i < B_PART / 2; i++) {
        ptx_cp_async<4>(b_to + 4 * 2 * i * BN, b_from + two[i].x, two[i].y & missing);
        ptx_cp_async<4>(b_to + 4 * (2 * i + 1) * BN, b_from + two[i].z, two[i].w & missing);
      }
      if constexpr (TWO) {
#pragma unroll
        for (int i = 0; i < B_PART / 2; i++) {
          ptx_cp_async<4>(b_to + 4 * (2 * i * BN + THREADS), b_too + two[i].x, two[i].y & missing_too);
          ptx_cp_async<4>(b_to + 4 * ((2 * i + 1) * BN + THREADS), b_too + two[i].z, two[i].w & missing_too);
        }
      }
      if (part < PARTS - 1) return;
      position += BK;
      if (position == PERIOD * filter) {
        position = 0, left -= PERIOD * filter, b_from += PERIOD * plane, a_from += PERIOD * group_c * p.R * p.S;
        if (left < PERIOD * filter) missing |= left > 0 ? 1 << LAST_PERIOD : ALL;
        if constexpr (TWO) {
          b_too += PERIOD * plane;
          if (left < PERIOD * filter) missing_too |= left > 0 ? 1 << LAST_PERIOD : ALL;
        }
      }
    };

    operands o[2]; /* of this element of the reduction and of the next */
#pragma unroll
    for (int part = 0; part < PARTS; part++) copy(0, part);
    meet(); /* the first stage is there */
    read_operands(o[0], buffers + my_row, buffers + BK * PITCH + my_col);
    int now = 0; /* the buffer that is read */
    multiply_stages<PITCH, BN>(sum, o, buffers, my_row, my_col, now, steps, [&](int l, int now, int) {
      if (l % 3 == 2 && l / 3 < PARTS) copy(FLOATS - now, l / 3); /* at 2, 5, 8, 11 */
    });
  }

  const int end_c = group_c - first_c, to_image = in.slices > 1 ? row_of(p) : image;
  if (in.slices > 1) dx = parts + (((int)blockIdx.y * classes_h + class_h) * classes_w + class_w) * p.C * to_image;
  if (in.slices > 1 || (p.stride_h == 1 && p.stride_w == 1 && image % 4 == 0))
    store_tile(sum, dx, p.C, to_image, pixels, group * group_c + first_c + my_row, (group + 1) * group_c, first_pixel + my_col, true);
  else store_class<BM>(sum, buffers, p, in, class_h, class_w, dx + (group * group_c + first_c) * p.H * p.W, first_pixel, end_c);
}

/* dx = the sum of all slices, first to last, of classes that have more than one: class (blockIdx.z, blockIdx.y). A thread: ADDED_C channels of a pixel. */
__global__ void __launch_bounds__(SUM_THREADS)
    add_image_slices_kernel(conv_problem p, int slice_steps, const float *__restrict__ parts, float *__restrict__ dx) {
  const int class_h = blockIdx.z, class_w = blockIdx.y, row = row_of(p), blocks = (row + SUM_THREADS - 1) / SUM_THREADS;
  const pixel_class in = class_of(p, class_h, class_w, slice_steps);
  const int first_c = blockIdx.x / blocks * ADDED_C, pixel = blockIdx.x % blocks * SUM_THREADS + threadIdx.x, image = in.rows * in.cols;
  if (in.slices == 1 || pixel >= p.N * image) return;
  const int h = pixel / in.cols % in.rows * p.stride_h + class_h, column = pixel % in.cols * p.stride_w + class_w;
  float *to = dx + (pixel / image * p.C * p.H + h) * p.W + column;
  const float *from = parts + ((class_h * (int)gridDim.y + class_w) * p.C + first_c) * row + pixel;
  float sum[ADDED_C] = {};
#pragma unroll 4
  for (int slice = 0; slice < in.slices; slice++, from += (int)(gridDim.z * gridDim.y) * p.C * row)
#pragma unroll
    for (int c = 0; c < ADDED_C; c++)
      if (first_c + c < p.C) sum[c] += from[c * row];
#pragma unroll
  for (int c = 0; c < ADDED_C; c++)
    for (int beside = 0; beside < in.wide && first_c + c < p.C && column + beside < p.W; beside++) to[(first_c + c) * p.H * p.W + beside] = beside ? 0 : sum[c];
}

/* ---------------------------------------------------------------- host */

/* Tiles of a class, as many as the largest has. */
static int64_t tiles_of(const conv_problem *p, int bm) { return ((int64_t)row_of(*p) + BN - 1) / BN * p->groups * ((p->C / p->groups + bm - 1) / bm); }

static const char *unsupported(const conv_problem *p, const conv_device *device) {
  if (p->R + p->S > LAST_PERIOD) return "R + S exceeds 30";
  const char *why = plain_unsupported(p, device);
  if (why) return why;
  if (classes_of(p->stride_h, p->H) > MOST_CLASSES || classes_of(p->stride_w, p->W) > MOST_CLASSES)
    return "more than 65535 classes of rows or of columns (a stride)";
  if (tiles_of(p, 64) * classes_of(p->stride_w, p->W) > INT_MAX) return "2^31 tiles or more (gridDim.x)";
  const int64_t rows = (p->H - 1) / p->stride_h + 1, cols = (p->W - 1) / p->stride_w + 1, beyond = (rows > p->P ? rows - p->P : 0) * p->Q + cols; /* dy's end */
  return problem_y_count(p) + beyond > INT_MAX - 1024 ? "dy and what windows of dx begin behind it have 2^31 elements or more (offsets are 32-bit)" : NULL;
}

/* A product for every class. */
static matrix_product product_of(const conv_problem *p) {
  const axis rows = count_rows(p), cols = count_cols(p);
  matrix_product g = {.rows = p->C / p->groups,
                      .groups = p->groups,
                      .most_slices = MOST_SLICES,
                      .columns = row_of(*p),
                      .sums = (int64_t)p->C * row_of(*p),
                      .products = classes(p),
                      .lengths = 0,
                      .steps = {},
                      .looked_up = true,
                      .scattered = p->stride_h > 1 || p->stride_w > 1};
  for (int r = 1; r <= rows.most; r++)
    for (int c = 1; c <= cols.most; c++) {
      if (rows.with[r] == 0 || cols.with[c] == 0) continue;
      g.count[g.lengths] = (int64_t)rows.with[r] * cols.with[c];
      g.steps[g.lengths++] = (p->K / p->groups * r * c + BK - 1) / BK;
    }
  return g;
}

typedef struct instance {
  int bm;
  void (*kernel)(conv_problem p, int slice_steps, int first_h, const float *dy, const float *w, float *dx, float *parts);
} instance;

static const instance instances[] = {{32, dgrad_kernel<32>}, {64, dgrad_kernel<64>}, {128, dgrad_kernel<128>}};

typedef struct gemm_plan {
  const instance *row;
  split cut;
  int first_h;         /* the row class with most taps */
  dim3 blocks, adders; /* of both kernels */
  size_t shared;       /* bytes */
} gemm_plan;

static const char *plan_cut(conv_plan *plan, const matrix_product *g, split s) {
  const conv_problem *p = &plan->operation.problem;
  const unsigned classes_h = classes_of(p->stride_h, p->H), classes_w = classes_of(p->stride_w, p->W);
  const size_t copies = (size_t)(2 * BK * (s.bm + 4 + BN)) * sizeof(float) + (size_t)(PERIOD * p->R * p->S * 3) * sizeof(int);
  const size_t sums = (size_t)(s.bm / 2 * (BN + 4)) * sizeof(float);
  const instance *row = instances;
  while (row->bm != s.bm) row++; /* there is one */
  gemm_plan *mine = plan_data<gemm_plan>(plan);
  *mine = {.row = row,
           .cut = s,
           .first_h = count_rows(p).heaviest,
           .blocks = dim3((unsigned)tiles_of(p, s.bm) * classes_w, s.slices, classes_h),
           .adders = dim3((row_of(*p) + SUM_THREADS - 1) / SUM_THREADS * ((p->C + ADDED_C - 1) / ADDED_C), classes_w, classes_h),
           .shared = copies > sums ? copies : sums};
  plan->workspace_bytes = split_bytes(g, &s);
  tile_words(plan, s.bm, BN, s.slices, (int64_t)mine->blocks.x * mine->blocks.y * mine->blocks.z);
  const cudaError_t status = plan_allow_shared((const void *)row->kernel, mine->shared);
  return status ? plan_failed(plan, status) : NULL;
}

static const char *plan_dgrad(const conv_operation *o, const conv_device *device, conv_plan *plan) {
  const char *why = unsupported(&o->problem, device);
  if (why) return why;
  const matrix_product g = product_of(&o->problem);
  return plan_cut(plan, &g, split_for(&g, device->sm_count, &h200_prices));
}

static cudaError_t launch_dgrad(const conv_plan *plan, const conv_buffers *b, cudaStream_t stream) {
  const conv_problem *p = &plan->operation.problem;
  const gemm_plan *mine = plan_data<gemm_plan>(plan);
  const int steps = mine->cut.slice_steps;
  mine->row->kernel<<<mine->blocks, 2 * mine->cut.bm, mine->shared, stream>>>(*p, steps, mine->first_h, (const float *)b->y, (const float *)b->w, (float *)b->x,
                                                                              (float *)b->workspace);
  if (mine->cut.slices > 1) add_image_slices_kernel<<<mine->adders, SUM_THREADS, 0, stream>>>(*p, steps, (const float *)b->workspace, (float *)b->x);
  return cudaGetLastError();
}

GEMM_ROW(classes_dgrad, "05i", "a product for every residue of the stride", PASS_DGRAD, plan_dgrad, launch_dgrad, plain_growth_dgrad);

extern const cut_kernel classes_cuts;
const cut_kernel classes_cuts = {&classes_dgrad, product_of, plan_cut};
