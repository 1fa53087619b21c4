/* 05j: the gradient of an image of few channels: the columns of the stride are rows of one product.
 *
 * Idea:     a photograph has three channels, and 05i's tile has room for 64: 61 of its rows multiply nothing. But a filter of stride 2 has two columns
 *           of dx for every column of dy. Taken as channels they are 6 rows, not 3, of a convolution of stride 1 over dy,
 *
 *               dx[n, c, h, stride * j + b] = sum over k, r and v of w'[(c,b), k, r, v] * dy[n, k, p, j + v]
 *
 *           where w' is w with its columns sorted by (b, v), and a zero where a b has no column for a v. Of a 7x7 filter of stride 2 that is one in
 *           eight. So a thread does as many products with one element of dy as there are rows, times its columns.
 * Change:   against 05i rows of dx are still taken in classes (blockIdx.z), columns are not. No gather: a warp has 16 x 16 pixels of a class in one
 *           image, and their part of dy with its edge in shared memory; a thread MB rows of w' x 8 neighbours j, and slides its window of dy over
 *           the v's in registers. All lanes want the same element of w' at the same time: one read serves them all.
 * Expect:   of the issue slots 80 % are FMAs, 7 in 8 of them useful; reads of shared memory keep it busy half of the time. With 12 warps (16 would fit) a
 *           multiprocessor 60 to 70 % of the peak: 95 us for resnet50's first layer at batch 16, whose products alone take 56.
 * Sizes:    up to 4 channels a group; the part of dy must fit into shared memory. An infinite dy times a zero of w' is NaN: it spreads further than its
 *           windows.
 * Passes:   dgrad. Layout: NCHW, filters KCRS, fp32. */
#include <cuda_pipeline.h>
#include <cuda_runtime.h>

#include "05_im2col_gemm/rows.h"

enum { MOST_C = 4, MOST_MB = 8, TN = 8, TILE = 16, WARPS = 4, THREADS = 32 * WARPS, STAGE_K = 4, MOST_MET = 1024, MOST_CLASSES = 65535 /* gridDim.z */ };

/* How a problem is cut: `rows` = (c, b)'s of a group, in `parts` of MB; v's from first_v on, in `quads` of up to 4; a warp's part of dy is
 * [dy_rows][pitch]; tiles of an image. */
typedef struct cut {
  int rows, parts, first_v, quads, dy_rows, pitch, tiles_h, tiles_w;
} cut;

/* A block of WARPS tiles, of one part of the rows of a group. VC: v's in a quad. */
template <int MB, int VC>
__global__ void __launch_bounds__(THREADS, 3)
    few_kernel(conv_problem p, cut t, int first_h, const float *__restrict__ dy, const float *__restrict__ w, float *__restrict__ dx) {
  const int group_c = p.C / p.groups, group_k = p.K / p.groups, classes_w = t.rows / group_c, thread = threadIdx.x, lane = thread % 32, warp = thread / 32;
  const int class_h = (blockIdx.z + first_h) % gridDim.z, part = blockIdx.x % t.parts, group = blockIdx.x / t.parts % p.groups;
  const int tile = blockIdx.x / t.parts / p.groups * WARPS + warp, n = tile / t.tiles_w / t.tiles_h;
  const int first_i = tile / t.tiles_w % t.tiles_h * TILE, first_j = tile % t.tiles_w * TILE;

  /* The r's of this class, and where they begin in dy: tap i lies `apart * i` rows above tap 0. */
  int taps = 0, first_r = 0, step = 1;
  for (int r = 0; r < p.R; r++) {
    if ((class_h + p.pad_top - r * p.dil_h) % p.stride_h) continue;
    if (taps == 0) first_r = r;
    if (taps == 1) step = r - first_r;
    taps++;
  }
  const int apart = step * p.dil_h / p.stride_h, below = (class_h + p.pad_top - first_r * p.dil_h) / p.stride_h;
  const int reach = max(0, (taps - 1) * apart), first_p = first_i + below - reach, dy_rows = TILE + reach;

  /* Shared memory: two stages of { dy [WARPS][STAGE_K][dy_rows][pitch], w' [STAGE_K][filter] }, filter = [taps][quads][MB][4], and where each lies in w. */
  extern __shared__ float4 shared[];
  const int dy_k = t.dy_rows * t.pitch, filter = taps * t.quads * MB * 4, stage = (WARPS * dy_k + p.R * t.quads * MB * 4) * STAGE_K;
  float *stages = (float *)shared;
  int *table = (int *)(stages + 2 * stage); /* [filter]; -1: zero */
  for (int i = thread; i < filter; i += THREADS) {
    const int r = first_r + i / 4 / MB / t.quads * step, v = t.first_v + i / 4 / MB % t.quads * VC + i % 4, row = part * MB + i / 4 % MB, c = row / classes_w,
              b = row % classes_w;
    const int64_t at = b + p.pad_left - (int64_t)v * p.stride_w, s = at / p.dil_w;
    table[i] = row < t.rows && i % 4 < VC && at >= 0 && at % p.dil_w == 0 && s < p.S ? (c * p.R + r) * p.S + (int)s : -1;
  }
  const bool mine = n < p.N && taps > 0; /* the last block may have tiles past the end */
  const float *image = dy + (min(n, p.N - 1) * p.K + group * group_k) * p.P * p.Q;
  __syncthreads(); /* the table is there */

  /* Starts the copies of STAGE_K filters from k on. Past the last filter the last one again: w' is zero there. */
  const auto copy = [&](float *to, int k) {
    if (mine)
      for (int col = lane; col < t.pitch; col += 32) {
        const int q = first_j + t.first_v + col;
        const float *from[STAGE_K];
#pragma unroll
        for (int i = 0; i < STAGE_K; i++) from[i] = image + min(k + i, group_k - 1) * p.P * p.Q + q;
        float *to_row = to + warp * STAGE_K * dy_k + col;
        for (int row = first_p; row < first_p + dy_rows; row++, to_row += t.pitch) {
          const bool there = row >= 0 && row < p.P && q >= 0 && q < p.Q;
          const int at = there ? row * p.Q : 0;
#pragma unroll
          for (int i = 0; i < STAGE_K; i++) __pipeline_memcpy_async(to_row + i * dy_k, from[i] + at, 4, there ? 0 : 4);
        }
      }
    float *to_w = to + WARPS * STAGE_K * dy_k;
    const float *from_w = w + (group * group_k + k) * group_c * p.R * p.S;
    for (int e = thread; e < filter; e += THREADS)
#pragma unroll
      for (int i = 0; i < STAGE_K; i++) {
        const bool copied = table[e] >= 0 && k + i < group_k;
        __pipeline_memcpy_async(to_w + i * filter + e, copied ? from_w + i * group_c * p.R * p.S + table[e] : w, 4, copied ? 0 : 4);
      }
    __pipeline_commit();
  };

  /* Lanes: 2 across, 16 down. Rows of dy are an odd number of quads apart, and 8 lanes that read at the same time have rows 0, 1, 4, 5 (or 2, 3, 6, 7) of
   * 8, two quads each: in all 8 different quads of banks. */
  const int my_row = (lane >> 1 & 1) | (lane >> 2 & 2) | (lane & 4) | (lane >> 1 & 8), my_col = lane % 2 * TN;
  float sum[MB][TN] = {};
  copy(stages, 0);
  for (int k = 0; k < group_k; k += STAGE_K) {
    float *now = stages + k / STAGE_K % 2 * stage;
    __pipeline_wait_prior(0);
    __syncthreads(); /* this stage is there, and nobody reads the other one any more */
    if (k + STAGE_K < group_k) copy(stages + (k / STAGE_K + 1) % 2 * stage, k + STAGE_K);
    if (!mine) continue;
    const float *a = now + WARPS * STAGE_K * dy_k;
#pragma unroll 1
    for (int i = 0; i < STAGE_K; i++)
#pragma unroll 1
      for (int tap = 0; tap < taps; tap++)
#pragma unroll 1
        for (int quad = 0; quad < t.quads; quad++, a += 4 * MB) {
          __align__(16) float window[TN + 4];
#pragma unroll
          for (int j = 0; j < TN + 4; j += 4)
            *(float4 *)&window[j] = *(const float4 *)(now + (warp * STAGE_K + i) * dy_k + (my_row + reach - tap * apart) * t.pitch + my_col + quad * VC + j);
#pragma unroll
          for (int m = 0; m < MB; m++) {
            __align__(16) float f[4];
            *(float4 *)f = *(const float4 *)(a + 4 * m);
#pragma unroll
            for (int v = 0; v < VC; v++)
#pragma unroll
              for (int j = 0; j < TN; j++) sum[m][j] += f[v] * window[j + v];
          }
        }
  }

  /* dx: at stride 2 the two columns of two neighbours j are 16 bytes. */
  if (n >= p.N || first_i + my_row > (p.H - 1 - class_h) / p.stride_h) return;
#pragma unroll
  for (int m = 0; m < MB; m++) {
    const int row = part * MB + m, c = row / classes_w, b = row % classes_w;
    if (row >= t.rows) break;
    float *to = dx + ((n * p.C + group * group_c + c) * p.H + (first_i + my_row) * p.stride_h + class_h) * p.W + b;
    const bool pairs = MB % 2 == 0 && p.stride_w == 2 && p.W % 4 == 0;
    if (pairs && m % 2) continue;
#pragma unroll
    for (int j = 0; j < TN; j++) {
      if (first_j + my_col + j > (p.W - 1 - b) / p.stride_w || (pairs && j % 2)) continue;
      const int column = (first_j + my_col + j) * p.stride_w;
      if (pairs) *(float4 *)(to + column) = make_float4(sum[m][j], sum[(m + 1) % MB][j], sum[m][(j + 1) % TN], sum[(m + 1) % MB][(j + 1) % TN]);
      else to[column] = sum[m][j];
    }
  }
}

/* ---------------------------------------------------------------- host */

/* By the rows of a thread, and the v's in a quad. */
typedef void (*few)(conv_problem p, cut t, int first_h, const float *dy, const float *w, float *dx);
#define FEW(MB) \
  { few_kernel<MB, 2>, few_kernel<MB, 3>, few_kernel<MB, 4> }
static const few instances[MOST_MB][3] = {FEW(1), FEW(2), FEW(3), FEW(4), FEW(5), FEW(6), FEW(7), FEW(8)};
#undef FEW

static int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }
static int64_t floor_divide(int64_t a, int64_t b) { return a / b - (a % b < 0); }
static int classes_of(int stride, int size) { return stride < size ? stride : size; }

/* Along an axis: the first element of dy that pixel 0's classes meet, and how many up to the last. */
static int64_t first_met(int stride, int pad, int dil, int taps) { return -floor_divide((int64_t)(taps - 1) * dil - pad, stride); }
static int64_t all_met(int stride, int size, int pad, int dil, int taps) {
  return floor_divide(classes_of(stride, size) - 1 + (int64_t)pad, stride) - first_met(stride, pad, dil, taps) + 1;
}
static int64_t met_w(const conv_problem *p) { return max((int64_t)1, all_met(p->stride_w, p->W, p->pad_left, p->dil_w, p->S)); }
static int64_t met_h(const conv_problem *p) { return max((int64_t)1, all_met(p->stride_h, p->H, p->pad_top, p->dil_h, p->R)); }

static int rows_of_part(const cut *t) { return (t->rows + t->parts - 1) / t->parts; } /* MB */

static cut cut_of(const conv_problem *p) {
  cut t;
  t.rows = p->C / p->groups * classes_of(p->stride_w, p->W), t.parts = (t.rows + MOST_MB - 1) / MOST_MB;
  t.first_v = (int)first_met(p->stride_w, p->pad_left, p->dil_w, p->S), t.quads = (int)(met_w(p) + 3) / 4;
  t.dy_rows = TILE + (int)met_h(p) - 1, t.pitch = TILE + (t.quads + !(t.quads % 2)) * 4;
  t.tiles_h = (int)divide_up(divide_up(p->H, p->stride_h), TILE), t.tiles_w = (int)divide_up(divide_up(p->W, p->stride_w), TILE);
  return t;
}

static int64_t blocks_of(const conv_problem *p, const cut *t) { return divide_up((int64_t)p->N * t->tiles_h * t->tiles_w, WARPS) * p->groups * t->parts; }

static int64_t shared_bytes(const conv_problem *p, const cut *t) {
  const int64_t filter = (int64_t)p->R * t->quads * rows_of_part(t) * 4, dy = (int64_t)WARPS * t->dy_rows * t->pitch;
  return (2 * STAGE_K * (dy + filter) + filter) * (int64_t)sizeof(float);
}

typedef struct few_plan {
  few kernel;
  cut how;
  int first_h; /* the row class with most taps: it comes first */
  dim3 blocks;
  size_t shared; /* bytes */
} few_plan;

static const char *plan_dgrad(const conv_operation *o, const conv_device *device, conv_plan *plan) {
  const conv_problem *p = &o->problem;
  if (p->C / p->groups > MOST_C) return "only for up to 4 channels a group";
  const char *why = plain_unsupported(p, device);
  if (why) return why;
  const int classes_h = classes_of(p->stride_h, p->H);
  if (classes_h > MOST_CLASSES || classes_of(p->stride_w, p->W) > MOST_CLASSES) return "more than 65535 classes of rows or of columns (a stride)";
  if (met_h(p) > MOST_MET || met_w(p) > MOST_MET || p->R > MOST_MET) return "a pixel's part of dy is more than 1024 rows or columns";
  const cut t = cut_of(p);
  const int mb = rows_of_part(&t), vc = min(max((int)met_w(p), 2), 4);
  const int64_t blocks = blocks_of(p, &t), shared = shared_bytes(p, &t);
  if (shared > (int64_t)device->shared_per_block) return "the parts of dy and w do not fit into shared memory";
  if (blocks > INT_MAX) return "2^31 blocks or more";
  few_plan *mine = plan_data<few_plan>(plan);
  *mine = {.kernel = instances[mb - 1][vc - 2], .how = t, .first_h = 0, .blocks = dim3((unsigned)blocks, 1, classes_h), .shared = (size_t)shared};
  for (int h = 0, most = 0; h < classes_h; h++) {
    int taps = 0;
    for (int r = 0; r < p->R; r++) taps += (h + p->pad_top - r * p->dil_h) % p->stride_h == 0;
    if (taps > most) most = taps, mine->first_h = h;
  }
  snprintf(plan->words, sizeof plan->words, "%d rows a thread, %d elements of a row of dy at a time, %lld blocks", mb, vc, (long long)blocks * classes_h);
  const cudaError_t status = plan_allow_shared((const void *)mine->kernel, mine->shared);
  return status ? plan_failed(plan, status) : NULL;
}

static cudaError_t launch_dgrad(const conv_plan *plan, const conv_buffers *b, cudaStream_t stream) {
  const few_plan *mine = plan_data<few_plan>(plan);
  mine->kernel<<<mine->blocks, THREADS, mine->shared, stream>>>(plan->operation.problem, mine->how, mine->first_h, (const float *)b->y, (const float *)b->w,
                                                                (float *)b->x);
  return cudaGetLastError();
}

GEMM_ROW(few_dgrad, "05j", "few channels: columns of the stride as rows of one product", PASS_DGRAD, plan_dgrad, launch_dgrad, plain_growth_dgrad);
