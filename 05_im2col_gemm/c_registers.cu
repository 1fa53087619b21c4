/* 05c: an 8 x 8 tile of the product in every thread's registers.
 *
 * Terms:    register tiling (thread tile, warp tile, block tile); thread coarsening.
 * Idea:     a value that was read from shared memory is used for a whole row or column of a register tile: 16 values read serve 64 FMAs. And in a
 *           larger block, 128 (or 64) filters x 128 pixels, an element that was looked up serves 128 filters, where 05b had 64.
 * Change:   against 05b the tile and how a block's threads divide it, and the order of its FMAs; reads and stores of 16 bytes.
 * Filters:  a warp takes 8 neighbours of 4 filters, whole sectors, and writes them to l * (BM + 4) + k: 4 banks from l to l, 1 from k to k, all different.
 * Expect:   a stage is 1024 FMAs of a thread and 64 reads of 16 bytes. But there are still 8 elements (with 64 filters 16) to be looked up, at about a
 *           hundred instructions each, divisions above all: half of the issue slots do FMAs at best. And all threads of a block wait for its copies,
 *           stage after stage, with two blocks a multiprocessor where 05b had four: a third of the peak.
 * Passes:   fprop. Layout: NCHW, filters KCRS, fp32.
 *
 * A block computes BM filters x BN pixels, a warp 32 x 64 of them, a thread TM x TN = 8 x 8: four quads of 4 x 4, so that it reads its values
 * 16 bytes at a time and neighbouring lanes read neighbouring 16 bytes.
 *
 *            pixels   0..3  4..7  ...  28..31 | 32..35 ...       Lanes in a warp: 4 down, 8 across. A request of 16 bytes a lane takes four
 *   filters 0..3     lane0  lane1 lane4 ...   | lane0            passes of shared memory, but two if lane pairs that differ in bit 0, or
 *           4..7     lane2  lane3 ...         | lane2            all that differ in bit 1, want the same bytes. So bit 0 of the lane goes
 *           8..15    lane16 ...               |                  across (it does not matter for filters), bit 1 down (nor that for pixels).
 *          16..31    the same once more       |                                                                                           */
#include <cuda_runtime.h>

#include "05_im2col_gemm/rows.h"

enum { TM = 8, TN = 8, BN = 128, BK = 16, COPY_K = 8, WARP_M = 32, WARP_N = 64 };

/* Where a thread's quads begin: filters row and row + 16, pixels col and col + 32 of the block's tile. */
static __device__ __forceinline__ int tile_row(int thread) {
  const int lane = thread % 32, warp = thread / 32;
  return warp / (BN / WARP_N) * WARP_M + ((lane >> 1 & 1) | (lane >> 3 & 2)) * 4;
}
static __device__ __forceinline__ int tile_col(int thread) {
  const int lane = thread % 32, warp = thread / 32;
  return warp % (BN / WARP_N) * WARP_N + ((lane & 1) | (lane >> 1 & 6)) * 4;
}
/* Filter i and pixel j of the thread's 8 x 8, counted from tile_row and tile_col. */
static __device__ __forceinline__ constexpr int quad_row(int i) { return i % 4 + i / 4 * 16; }
static __device__ __forceinline__ constexpr int quad_col(int j) { return j % 4 + j / 4 * 32; }

/* What a thread needs for one element of the reduction: a column of filters and a row of pixels. */
typedef struct operands {
  __align__(16) float filter[TM], pixel[TN];
} operands;

/* a: the element's filters from tile_row on; b: its pixels from tile_col on. */
static __device__ __forceinline__ void read_operands(operands &o, const float *a, const float *b) {
#pragma unroll
  for (int i = 0; i < TM; i += 4) *(float4 *)&o.filter[i] = *(const float4 *)(a + quad_row(i));
#pragma unroll
  for (int j = 0; j < TN; j += 4) *(float4 *)&o.pixel[j] = *(const float4 *)(b + quad_col(j));
}

/* sum += filter x pixel. There and back: from one FMA to the next either the pixel's or the filter's register stays, and the hardware keeps a register
 * that the next instruction reads again in the same place. Of the others as many must come from the even bank of registers as from the odd one, over
 * any two FMAs, or they wait (docs/gpu_speed.md). The assembler chooses the registers, and mixes the FMAs a little; by columns it chose better than by rows. */
static __device__ __forceinline__ void add_products(float (&sum)[TM][TN], const operands &o) {
#pragma unroll
  for (int t = 0; t < TM * TN; t++) {
    const int j = t / TM, i = j % 2 ? TM - 1 - t % TM : t % TM;
    sum[i][j] += o.filter[i] * o.pixel[j];
  }
}

/* Four sums to four neighbours of 16-byte alignment. A store of 16 bytes takes four registers from a multiple of four on, and then the assembler keeps
 * the sums there all the time: not free any more. So what is stored is copies of them; the addition of zero is an instruction that makes them. */
static __device__ __forceinline__ void store_quad(float *to, const float *sum) { *(float4 *)to = make_float4(sum[0] + 0, sum[1] + 0, sum[2] + 0, sum[3] + 0); }

/* Sums of filters k, ... below end_k and pixels pixel, ... to out[n][K][image]. quads: image is a multiple of 4; a quad of pixels is aligned, and in one
 * image. */
static __device__ __forceinline__ void store_tile(const float (&sum)[TM][TN], float *out, int K, int image, int pixels, int k, int end_k, int pixel,
                                                  bool quads) {
#pragma unroll
  for (int j = 0; j < TN; j++) {
    const int at = pixel + quad_col(j);
    if (at >= pixels || (j % 4 && quads)) continue;
    float *to = out + at / image * K * image + at % image;
#pragma unroll
    for (int i = 0; i < TM; i++) {
      if (k + quad_row(i) >= end_k) continue;
      if (j % 4 == 0 && quads) store_quad(to + (k + quad_row(i)) * image, &sum[i][j]);
      else to[(k + quad_row(i)) * image] = sum[i][j];
    }
  }
}

/* The matrix's element: row l of a group (its channel and tap), column `pixel`; x: the group's first channel. */
static __device__ float window_element(const conv_problem &p, const float *x, int l, int pixel) {
  const int c = l / (p.R * p.S), r = l / p.S % p.R, s = l % p.S;
  const int n = pixel / (p.P * p.Q), in_h = pixel / p.Q % p.P * p.stride_h - p.pad_top + r * p.dil_h,
            in_w = pixel % p.Q * p.stride_w - p.pad_left + s * p.dil_w;
  const bool inside = in_h >= 0 && in_h < p.H && in_w >= 0 && in_w < p.W;
  return inside ? x[((n * p.C + c) * p.H + in_h) * p.W + in_w] : 0;
}

/* A block of 2 BM threads: y[n, BM filters of a group, BN pixels], pixels counted over all images. */
template <int BM>
__global__ void __launch_bounds__(2 * BM, 256 / BM)
    register_tile_kernel(conv_problem p, const float *__restrict__ x, const float *__restrict__ w, float *__restrict__ y) {
  constexpr int THREADS = 2 * BM, PITCH = BM + 4;
  static_assert(BM % WARP_M == 0 && BN % WARP_N == 0 && THREADS == BM / TM * (BN / TN), "a thread has TM x TN sums");
  extern __shared__ float4 shared[];
  float *const a = (float *)shared, *const b = a + BK * PITCH; /* [BK][PITCH] filters, turned; [BK][BN] pixels */
  const int group_k = p.K / p.groups, tiles_k = (group_k + BM - 1) / BM, filter = p.R * p.S, terms = p.C / p.groups * filter;
  const int group = blockIdx.x / tiles_k % p.groups, first_k = blockIdx.x % tiles_k * BM; /* neighbouring blocks read the same pixels */
  const int image = p.P * p.Q, plane = p.H * p.W, pixels = p.N * image, first_pixel = blockIdx.x / tiles_k / p.groups * BN;
  const int thread = threadIdx.x, my_row = tile_row(thread), my_col = tile_col(thread);
  w += group * group_k * terms;
  x += group * (p.C / p.groups) * plane;

  float sum[TM][TN] = {};
  for (int first = 0; first < terms; first += BK) {
    for (int l = thread % COPY_K; l < BK; l += COPY_K)
      for (int k = thread / COPY_K; k < BM; k += THREADS / COPY_K)
        a[l * PITCH + k] = first + l < terms && first_k + k < group_k ? w[(first_k + k) * terms + first + l] : 0;
    for (int i = thread; i < BK * BN; i += THREADS) {
      const int l = i / BN, pixel = i % BN;
      b[i] = first + l < terms && first_pixel + pixel < pixels ? window_element(p, x, first + l, first_pixel + pixel) : 0;
    }
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

typedef struct instance {
  int bm;
  void (*kernel)(conv_problem p, const float *x, const float *w, float *y);
} instance;

static const instance instances[] = {{64, register_tile_kernel<64>}, {128, register_tile_kernel<128>}};

typedef struct gemm_plan {
  const instance *row;
  int blocks;
  size_t shared; /* bytes */
} gemm_plan;

static const char *plan_fprop(const conv_operation *o, const conv_device *device, conv_plan *plan) {
  const conv_problem *p = &o->problem;
  const char *why = plain_unsupported(p, device);
  if (why) return why;
  const int group_k = p->K / p->groups, bm = group_k > 64 ? 128 : 64, pixels = p->N * p->P * p->Q;
  const instance *row = instances;
  while (row->bm != bm) row++; /* there is one */
  gemm_plan *mine = plan_data<gemm_plan>(plan);
  *mine = {.row = row, .blocks = (pixels + BN - 1) / BN * p->groups * ((group_k + bm - 1) / bm), .shared = (size_t)(BK * (bm + 4 + BN)) * sizeof(float)};
  tile_words(plan, bm, BN, 1, mine->blocks);
  return NULL;
}

static cudaError_t launch_fprop(const conv_plan *plan, const conv_buffers *b, cudaStream_t stream) {
  const gemm_plan *mine = plan_data<gemm_plan>(plan);
  mine->row->kernel<<<mine->blocks, 2 * mine->row->bm, mine->shared, stream>>>(plan->operation.problem, (const float *)b->x, (const float *)b->w,
                                                                               (float *)b->y);
  return cudaGetLastError();
}

GEMM_ROW(register_tile_fprop, "05c", "8 x 8 sums in a thread's registers", PASS_FPROP, plan_fprop, launch_fprop, plain_growth_fprop);
