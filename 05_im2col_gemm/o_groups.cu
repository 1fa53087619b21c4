/* 05o: groups of few channels, and no matrix: windows out of a tile of x that lies in shared memory as it is.
 *
 * Terms:    direct convolution; register blocking; multi-stage copies.
 * Idea:     ResNeXt's 32 groups have 4 to 32 filters each, and a tile of the product has room for 32 to 128: most of its rows multiply nothing. Its other
 *           side is no better: nine columns of the matrix are the same pixels, copied nine times. With so few filters a tile of x with its halo is read
 *           where it lies, by all filters of its group. A thread has TK = 4 filters x TP rows x TQ = 2 columns of y, and reads its window once:
 *
 *               stride 1:   (TP + 2) x 4 pixels, by TP + 2 pairs of LDS.64       nine taps of four filters, by 9 LDS.128:   36 TP x 2 multiply-adds
 *
 *           So of 100 instructions 90 multiply. All lanes that have the same filters want the same 16 bytes: one read serves them all.
 * Threads:  (image, strip of TP rows, four filters, pair of columns), columns first: whatever an image's width is, lanes are full but for the last warp's.
 *           Images of 7 x 7 share a block with others.
 * Change:   against 05j stages are three, of two channels each, so that two are on their way; a thread copies one column
 *           of the tile, and a table says where its rows lie in x, or that they are padding. dgrad at stride 1 is the same kernel: dy for x, and filters that are
 *           turned when they are copied. Stride 2: even columns lie in front of the odd ones, so that neighbouring lanes read neighbouring words.
 * Expect:   ResNeXt-50's four layers have 231 million multiply-adds each at batch 16: 7.8 us of an H200's 16896 a clock. Counted for TP = 4: 288 of 320
 *           instructions a channel multiply, and about 13 in 100 more copy; of 7 warps 1 in 8 has no lanes. 11 us to issue; in us, with what waits:
 *           res2_3x3 18 (memory alone takes 12), res3 15, res4 15, res5 15 (of 4 schedulers the fullest has 16 % more than its share); res3a, stride 2,
 *           25 (memory 15).
 * Sizes:    3x3, stride 1 or 2, no dilation, any padding; up to 64 channels and 64 filters a group: an odd channel is followed by one of zeros, and
 *           filters are taken in fours.
 * Passes:   fprop, dgrad (stride 1). Layout: NCHW, filters KCRS, fp32. */
#include <cuda_pipeline.h>
#include <cuda_runtime.h>

#include "05_im2col_gemm/divisor.h"
#include "05_im2col_gemm/groups.h"
#include "common/ptx/ptx.cuh"

enum { TK = 4, TQ = 2, STAGE_C = 2, STAGES = 3, MOST_THREADS = 224, MOST_PARTS = 16, MOST_STRIPS = 16, MOST_IMAGES = 16 };

/* A convolution that a block's tile has a part of: from [N][channels of all groups][H][W] to [N][filters of all groups][P][Q], the way there by the
 * distances of channels and filters in w. A block: `parts` fours of filters x `strips` of TP rows x `pairs` of columns x `images`. */
typedef struct direct {
  int N, groups, channels, filters, H, W, P, Q, pad_top, pad_left; /* channels and filters of a group */
  int next_channel, next_filter;                                   /* elements of w */
  bool turned;                                                     /* taps from last to first */
  int parts, strips, pairs, images;
  int tiles_k, tiles_h, tiles_w;                                                                         /* of a group, of an image */
  divisor by_tiles, by_tiles_w, by_tiles_k, by_groups, by_pairs, by_parts, by_strips, by_rows, by_units; /* units: of VEC columns, in a row */
  int rows, cols, pitch, shift;            /* of an image's tile of x; its column where the first window begins */
  int all_rows, tile, filter_pitch, stage; /* rows of all images' tiles; floats of them, of a tap's filters, of a stage */
} direct;

/* VEC: columns that are copied at a time. Quads begin where x has them, so windows begin at an odd column: shift is 1 or 3. */
template <int TP, int STRIDE, int VEC>
__global__ void __launch_bounds__(MOST_THREADS, TP *STRIDE > 4 ? 2 : 3)
    groups_kernel(direct d, const float *__restrict__ x, const float *__restrict__ w, float *__restrict__ y) {
  static_assert(VEC == 1 || (VEC == 4 && STRIDE == 1), "columns of stride 2 are sorted when they are copied");
  constexpr int ROWS = (TP - 1) * STRIDE + 3, COLS = (TQ - 1) * STRIDE + 3;
  const int thread = threadIdx.x, threads = blockDim.x, block = quotient(blockIdx.x, d.by_tiles), tile = blockIdx.x - block * d.by_tiles.by;
  const int groups = quotient(block, d.by_tiles_k), first_k = (block - groups * d.tiles_k) * d.parts * TK, group = rest_of(groups, d.by_groups);
  const int tile_h = quotient(tile, d.by_tiles_w), first_p = tile_h * d.strips * TP, first_q = (tile - tile_h * d.tiles_w) * d.pairs * TQ;
  const int first_n = quotient(groups, d.by_groups) * d.images;
  const int plane = d.H * d.W, odd_columns = d.pairs * TQ + 2; /* stride 2: where they begin in a row */

  /* Shared memory: STAGES of { filters [STAGE_C][9][d.filter_pitch], pixels [STAGE_C][images][rows][pitch] }, and where each row lies in x: below 0 outside. */
  extern __shared__ float4 shared[];
  const int stages = min((d.channels + STAGE_C - 1) / STAGE_C, (int)STAGES);
  int *const table = (int *)((float *)shared + stages * d.stage);
#pragma unroll 1
  for (int i = thread; i < d.all_rows; i += threads) {
    const int n = quotient(i, d.by_rows), h = first_p * STRIDE - d.pad_top + i - n * d.rows;
    table[i] = first_n + n < d.N && h >= 0 && h < d.H ? n * d.groups * d.channels * plane + h * d.W : -1;
  }

  /* This thread copies VEC columns of every copy_rows rows. */
  const int copy_row = quotient(thread, d.by_units), copy_rows = quotient(threads, d.by_units), col = rest_of(thread, d.by_units) * VEC;
  const int at_col = first_q * STRIDE - d.pad_left - d.shift + col, first_row = copy_row < copy_rows ? copy_row : d.all_rows;
  const bool outside = at_col < 0 || at_col >= d.W;
  const int to_pixels = STAGE_C * 9 * d.filter_pitch + first_row * d.pitch + (STRIDE == 1 ? col : col / 2 + col % 2 * odd_columns);
  const float *from_x = x + (first_n * d.groups + group) * d.channels * plane + (outside ? 0 : at_col);
  const float *from_w = w + group * d.channels * d.filters * 9 + first_k * d.next_filter;
  __syncthreads(); /* the table is there */

  /* Starts the copies of the next STAGE_C channels, c and on, to the next stage. Past the last channel zeros. */
  ptx_shared to_w = ptx_shared_address(shared);
  const ptx_shared end = to_w + 4 * STAGES * d.stage;
  const auto copy = [&](int c) {
    ptx_shared to_x = to_w + 4 * to_pixels;
#pragma unroll 2
    for (int row = first_row; row < d.all_rows; row += copy_rows, to_x += 4 * copy_rows * d.pitch) {
      const int at = table[row];
#pragma unroll
      for (int j = 0; j < STAGE_C; j++) ptx_cp_async<4 * VEC>(to_x + 4 * j * d.tile, from_x + (at + j * plane), outside || at < 0 || c + j >= d.channels);
    }
#pragma unroll 1
    for (int i = thread; i < 9 * TK * d.parts; i += threads) {
      const int tap = i % 9, k = i / 9;
      const float *from = from_w + (k * d.next_filter + (d.turned ? 8 - tap : tap));
#pragma unroll
      for (int j = 0; j < STAGE_C; j++)
        ptx_cp_async<4>(to_w + 4 * ((j * 9 + tap) * d.filter_pitch + k), from + j * d.next_channel, first_k + k >= d.filters || c + j >= d.channels);
    }
    from_x += STAGE_C * plane, from_w += STAGE_C * d.next_channel, to_w += 4 * d.stage;
    if (to_w == end) to_w -= 4 * STAGES * d.stage;
  };

  /* Past the last lane: some work of others, whose results nobody stores. */
  const int quarter = quotient(thread, d.by_pairs), pair = thread - quarter * d.pairs, strips = quotient(quarter, d.by_parts),
            part = quarter - strips * d.parts;
  const int n = min(quotient(strips, d.by_strips), d.images - 1), strip = rest_of(strips, d.by_strips);
  float sum[TK][TP][TQ] = {};
  for (int i = 0; i < STAGES - 1; i++) {
    if (i < stages) copy(i * STAGE_C);
    __pipeline_commit();
  }
  const float *filters = (float *)shared + part * TK;
  const int to_window = STAGE_C * 9 * d.filter_pitch + (n * d.rows + strip * TP * STRIDE) * d.pitch + d.shift + pair * TQ - part * TK;
  int now = 0; /* the stage that is read */
  for (int c = 0; c < d.channels; c += STAGE_C) {
    __pipeline_wait_prior(STAGES - 2);
    __syncthreads(); /* this stage is there, and nobody reads the one before any more */
    if (c + (STAGES - 1) * STAGE_C < d.channels) copy(c + (STAGES - 1) * STAGE_C);
    __pipeline_commit();
    const float *window = filters + to_window;
#pragma unroll
    for (int i = 0; i < STAGE_C; i++, window += d.tile) {
      float pixel[ROWS][COLS + STRIDE % 2]; /* columns of x as they lie, side by side */
#pragma unroll
      for (int row = 0; row < ROWS; row++) {
        const float *at = window + row * d.pitch;
        if (VEC > 1) {
          const float2 middle = *(const float2 *)(at + 1);
          pixel[row][0] = at[0], pixel[row][1] = middle.x, pixel[row][2] = middle.y, pixel[row][3] = at[3];
        } else if (STRIDE == 1) {
          const float2 left = *(const float2 *)at, right = *(const float2 *)(at + 2);
          pixel[row][0] = left.x, pixel[row][1] = left.y, pixel[row][2] = right.x, pixel[row][3] = right.y;
        } else {
          const float2 even = *(const float2 *)at, odd = *(const float2 *)(at + odd_columns);
          pixel[row][0] = even.x, pixel[row][1] = odd.x, pixel[row][2] = even.y, pixel[row][3] = odd.y, pixel[row][COLS - 1] = at[2];
        }
      }
#pragma unroll
      for (int tap = 0; tap < 9; tap++) {
        const float4 four = *(const float4 *)(filters + (i * 9 + tap) * d.filter_pitch);
        const float f[TK] = {four.x, four.y, four.z, four.w};
#pragma unroll
        for (int k = 0; k < TK; k++)
#pragma unroll
          for (int p = 0; p < TP; p++)
#pragma unroll
            for (int q = 0; q < TQ; q++) sum[k][p][q] += f[k] * pixel[p * STRIDE + tap / 3][q * STRIDE + tap % 3];
      }
    }
    now = now == STAGES - 1 ? 0 : now + 1, filters += now == 0 ? -(STAGES - 1) * d.stage : d.stage;
  }

  if (thread >= d.pairs * d.parts * d.strips * d.images || first_n + n >= d.N) return;
  const int my_k = first_k + part * TK, my_p = first_p + strip * TP, my_q = first_q + pair * TQ;
  float *to = y + (((first_n + n) * d.groups + group) * d.filters + my_k) * d.P * d.Q + my_p * d.Q + my_q;
#pragma unroll
  for (int k = 0; k < TK; k++)
#pragma unroll
    for (int p = 0; p < TP; p++) {
      if (my_k + k >= d.filters || my_p + p >= d.P) continue;
      float *at = to + k * d.P * d.Q + p * d.Q;
      if (d.Q % 2 == 0 && my_q < d.Q) *(float2 *)at = make_float2(sum[k][p][0], sum[k][p][1]);
      else
#pragma unroll
        for (int q = 0; q < TQ; q++)
          if (my_q + q < d.Q) at[q] = sum[k][p][q];
    }
}

/* ---------------------------------------------------------------- host */

/* issue: instructions of a thread for two channels, as ptxas writes them; they decide which row it is. */
typedef struct instance {
  int tp, stride, vec, issue;
  void (*kernel)(direct d, const float *x, const float *w, float *y);
} instance;

#define ROW(TP, STRIDE, VEC, ISSUE) \
  { TP, STRIDE, VEC, ISSUE, groups_kernel<TP, STRIDE, VEC> }
static const instance instances[] = {ROW(7, 1, 4, 1190), ROW(7, 1, 1, 1160), ROW(4, 1, 4, 760), ROW(4, 1, 1, 745),
                                     ROW(2, 1, 4, 450),  ROW(2, 1, 1, 440),  ROW(4, 2, 1, 765), ROW(2, 2, 1, 490)};

typedef struct groups_plan {
  const instance *row;
  direct how;
  int blocks, threads;
  size_t shared; /* bytes */
} groups_plan;

static int ceil_div(int a, int b) { return (a + b - 1) / b; }

/* The rest of a cut that has parts, strips and images. */
static void finish_cut(direct *d, const instance *row) {
  const int all_pairs = ceil_div(d->Q, TQ), room = MOST_THREADS / d->parts / d->strips / d->images;
  d->tiles_w = ceil_div(all_pairs, room < 32 ? room : 32), d->pairs = ceil_div(all_pairs, d->tiles_w);
  d->tiles_k = ceil_div(ceil_div(d->filters, TK), d->parts), d->tiles_h = ceil_div(d->P, d->strips * row->tp);
  if (d->tiles_w > 1) d->pairs = ceil_div(d->pairs * TQ, row->vec) * row->vec / TQ;
  d->tiles_w = ceil_div(all_pairs, d->pairs), d->shift = (row->vec - 1) & -d->pad_left;
  d->rows = (d->strips * row->tp - 1) * row->stride + 3, d->cols = ceil_div(d->shift + (d->pairs * TQ - 1) * row->stride + 3, row->vec) * row->vec;
  d->pitch = row->stride == 1 ? d->cols : d->pairs * TQ * 2 + 2;
  /* Strips that follow each other in a warp read banks that follow each other, as far as banks come in eights. */
  while (row->tp * row->stride * d->pitch / 8 % 4 != d->pairs * TQ / 8 % 4 && d->pitch < d->cols + 8) d->pitch += row->vec == 1 ? 2 : 4;
  d->all_rows = d->images * d->rows, d->tile = d->all_rows * d->pitch;
  d->filter_pitch = TK * (d->parts | 1); /* taps, an odd number of quads apart, lie in all banks */
  d->stage = STAGE_C * (9 * d->filter_pitch + d->tile);
}

/* Tries every number of images, strips and fours of filters in a block, with all kernels, and takes what has least to issue. Of equals the first: fewer images, more strips. */
static const char *plan_groups(const direct *problem, int stride, const conv_device *device, conv_plan *plan) {
  groups_plan *mine = plan_data<groups_plan>(plan);
  double least = INFINITY;
  for (const instance *row = instances; row < instances + sizeof instances / sizeof *instances; row++)
    for (int parts = 1; (row->vec == 1 || (problem->W % 4 == 0 && problem->pad_left % 2)) && row->stride == stride && parts <= MOST_PARTS; parts++)
      for (int images = 1; images <= MOST_IMAGES && images <= problem->N; images *= 2)
        for (int strips = MOST_STRIPS; strips > 0; strips--) {
          direct d = *problem;
          d.parts = parts, d.strips = strips, d.images = images;
          if (parts > ceil_div(d.filters, TK) || strips > ceil_div(d.P, row->tp) || parts * strips * images > MOST_THREADS) continue;
          finish_cut(&d, row);
          const int lanes = d.pairs * parts * strips * images, threads = ceil_div(lanes > d.cols / row->vec ? lanes : d.cols / row->vec, 32) * 32,
                    steps = ceil_div(d.channels, STAGE_C);
          const size_t shared = (size_t)(steps < STAGES ? steps : STAGES) * d.stage * sizeof(float) + d.all_rows * sizeof(int);
          const double blocks = (double)d.tiles_w * d.tiles_h * d.tiles_k * d.groups * ceil_div(d.N, images);
          if (shared > device->shared_per_block / 2 || blocks > INT_MAX) continue;
          const double thread = steps * (row->issue + 18 * ceil_div(d.all_rows, threads / (d.cols / row->vec)) + 25 * ceil_div(9 * TK * parts, threads)) + 300;
          /* Warps of the fullest scheduler, and half a one for waiting. */
          const double cost = (ceil(ceil(blocks / device->sm_count) * (threads / 32) / 4) + 0.5) * thread;
          if (!(cost < least)) continue;
          least = cost;
          *mine = {.row = row, .how = d, .blocks = (int)blocks, .threads = threads, .shared = shared};
        }
  if (least == INFINITY) return "2^31 blocks or more";
  direct &d = mine->how;
  d.by_tiles = divisor_of(d.tiles_h * d.tiles_w), d.by_tiles_w = divisor_of(d.tiles_w), d.by_tiles_k = divisor_of(d.tiles_k),
  d.by_groups = divisor_of(d.groups);
  d.by_pairs = divisor_of(d.pairs), d.by_parts = divisor_of(d.parts), d.by_strips = divisor_of(d.strips), d.by_rows = divisor_of(d.rows);
  d.by_units = divisor_of(d.cols / mine->row->vec);
  snprintf(plan->words, sizeof plan->words, "%d filters x %d x %d pixels x %d image%s, %d threads, %d blocks", TK * d.parts, d.strips * mine->row->tp,
           d.pairs * TQ, d.images, d.images == 1 ? "" : "s", mine->threads, mine->blocks);
  const cudaError_t status = plan_allow_shared((const void *)mine->row->kernel, mine->shared);
  return status ? plan_failed(plan, status) : NULL;
}

static const char *plan_fprop(const conv_operation *o, const conv_device *device, conv_plan *plan) {
  const conv_problem *p = &o->problem;
  const char *why = groups_unsupported(p, device);
  if (why) return why;
  direct d = {};
  d.N = p->N, d.groups = p->groups, d.channels = p->C / p->groups, d.filters = p->K / p->groups;
  d.H = p->H, d.W = p->W, d.P = p->P, d.Q = p->Q, d.pad_top = p->pad_top, d.pad_left = p->pad_left;
  d.next_channel = 9, d.next_filter = d.channels * 9;
  return plan_groups(&d, p->stride_h, device, plan);
}

static const char *plan_dgrad(const conv_operation *o, const conv_device *device, conv_plan *plan) {
  const conv_problem *p = &o->problem;
  const char *why = groups_unsupported(p, device);
  if (why) return why;
  if (p->stride_h != 1) return "only for stride 1 without dilation";
  direct d = {};
  d.N = p->N, d.groups = p->groups, d.channels = p->K / p->groups, d.filters = p->C / p->groups;
  d.H = p->P, d.W = p->Q, d.P = p->H, d.Q = p->W, d.pad_top = 2 - p->pad_top, d.pad_left = 2 - p->pad_left;
  d.next_channel = d.filters * 9, d.next_filter = 9, d.turned = true;
  return plan_groups(&d, 1, device, plan);
}

static void launch(const conv_plan *plan, const void *x, const void *w, void *y, cudaStream_t stream) {
  const groups_plan *mine = plan_data<groups_plan>(plan);
  mine->row->kernel<<<mine->blocks, mine->threads, mine->shared, stream>>>(mine->how, (const float *)x, (const float *)w, (float *)y);
}
static cudaError_t launch_fprop(const conv_plan *plan, const conv_buffers *b, cudaStream_t stream) {
  launch(plan, b->x, b->w, b->y, stream);
  return cudaGetLastError();
}
static cudaError_t launch_dgrad(const conv_plan *plan, const conv_buffers *b, cudaStream_t stream) {
  launch(plan, b->y, b->w, b->x, stream);
  return cudaGetLastError();
}

GEMM_ROW(groups_fprop, "05o", "groups of few channels: windows of a tile of x as it lies", PASS_FPROP, plan_fprop, launch_fprop, plain_growth_fprop);
GEMM_ROW(groups_dgrad, "05o", "groups of few channels: windows of a tile of dy as it lies", PASS_DGRAD, plan_dgrad, launch_dgrad, plain_growth_dgrad);
