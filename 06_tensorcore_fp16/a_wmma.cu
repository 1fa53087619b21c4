/* 06a: the implicit product by tensor cores, through the C++ interface.
 *
 * Terms:    WMMA (warp matrix multiply-accumulate), fragment, implicit GEMM.
 * Idea:     a warp multiplies matrices of 16 x 16 halves, with sums in fp32: 4096 multiply-adds an instruction or two, where a warp of plain FMAs needs 128.
 *           Which lane holds which element is the compiler's business: fragments are loaded from shared memory, multiplied and stored whole.
 * Layout:   with channels last, a pixel's channels are neighbours: a row of the matrix of windows is a run of channels at each tap, and a filter is the same
 *           run. So a stage is one tap and BK channels; a copy is 16 bytes, 8 channels; a pixel is taken apart by divisions once, a tap once a stage.
 * Change:   against 05b channels last and halves, the reduction's order (taps, then channels), tensor cores in place of FMAs.
 * Shared:   rows of BK + 8 halves. Of rows of 32 halves every second one would begin in the same bank; 80 bytes spread eight rows over all banks.
 * Expect:   a stage is 12 KiB copied and 128 x 64 x 32 products by 4 warps. Each waits for its copies and then for its products: tensor cores at a tenth.
 * Passes:   fprop. Layout: NHWC, filters KRSC, fp16 with fp32 sums. Channels of a group: a multiple of 8 (others: 06b). */
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <mma.h>
#include <stdio.h>

#include "common/harness/plain.h"

using namespace nvcuda;

enum {
  BM = 128,
  BN = 64,
  BK = 32,
  THREADS = 128,
  PITCH = BK + 8,
  WARP_M = 64,
  WARP_N = 32,
  FRAGMENT = 16,
  PATCH = FRAGMENT + 4,
  CHUNK = 8 /* halves of 16 bytes */
};
enum { CHUNKS = BK / CHUNK, LANES = THREADS / CHUNKS, ROWS = BM / LANES }; /* a thread copies the same chunk of ROWS pixels */

typedef wmma::fragment<wmma::matrix_a, FRAGMENT, FRAGMENT, FRAGMENT, __half, wmma::row_major> pixels_fragment;
typedef wmma::fragment<wmma::matrix_b, FRAGMENT, FRAGMENT, FRAGMENT, __half, wmma::col_major> filters_fragment;
typedef wmma::fragment<wmma::accumulator, FRAGMENT, FRAGMENT, FRAGMENT, float> sums_fragment;

/* 8 halves at once, from and to multiples of 16 bytes. */
static __device__ __forceinline__ uint4 load_chunk(const __half *from) { return *(const uint4 *)from; }
static __device__ __forceinline__ void store_chunk(__half *to, uint4 chunk) { *(uint4 *)to = chunk; }

/* A block: BM pixels, counted over all images, x BN filters of a group. */
__global__ void __launch_bounds__(THREADS) wmma_kernel(conv_problem p, const __half *__restrict__ x, const __half *__restrict__ w, __half *__restrict__ y) {
  __shared__ __align__(32) __half a[BM][PITCH];                         /* pixels */
  __shared__ __align__(32) __half b[BN][PITCH];                         /* filters */
  __shared__ __align__(32) float patch[THREADS / 32][FRAGMENT * PATCH]; /* each warp's, for its results */
  const int group_c = p.C / p.groups, group_k = p.K / p.groups, tiles_k = (group_k + BN - 1) / BN, image = p.P * p.Q, pixels = p.N * image;
  const int group = blockIdx.x / tiles_k % p.groups, first_k = blockIdx.x % tiles_k * BN, first_pixel = blockIdx.x / tiles_k / p.groups * BM;
  const int chunk = threadIdx.x % CHUNKS * CHUNK, row = threadIdx.x / CHUNKS, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int my_pixel = warp / (BN / WARP_N) * WARP_M, my_k = warp % (BN / WARP_N) * WARP_N;

  int n[ROWS], in_h[ROWS], in_w[ROWS]; /* where the windows of this thread's pixels begin */
#pragma unroll
  for (int i = 0; i < ROWS; i++) {
    const int pixel = first_pixel + row + i * LANES;
    n[i] = pixel / image, in_h[i] = pixel < pixels ? pixel / p.Q % p.P * p.stride_h - p.pad_top : -p.H - p.R * p.dil_h; /* past the last: outside */
    in_w[i] = pixel % p.Q * p.stride_w - p.pad_left;
  }

  sums_fragment sum[WARP_M / FRAGMENT][WARP_N / FRAGMENT];
#pragma unroll
  for (int i = 0; i < WARP_M / FRAGMENT; i++)
#pragma unroll
    for (int j = 0; j < WARP_N / FRAGMENT; j++) wmma::fill_fragment(sum[i][j], 0.0f);

  for (int tap = 0; tap < p.R * p.S; tap++)
    for (int first_c = 0; first_c < group_c; first_c += BK) {
      const int c = first_c + chunk;
#pragma unroll
      for (int i = 0; i < ROWS; i++) {
        const int h = in_h[i] + tap / p.S * p.dil_h, v = in_w[i] + tap % p.S * p.dil_w;
        const bool inside = h >= 0 && h < p.H && v >= 0 && v < p.W && c < group_c;
        store_chunk(&a[row + i * LANES][chunk], inside ? load_chunk(x + ((n[i] * p.H + h) * p.W + v) * p.C + group * group_c + c) : uint4());
      }
#pragma unroll
      for (int k = row; k < BN; k += LANES) {
        const bool inside = first_k + k < group_k && c < group_c;
        store_chunk(&b[k][chunk], inside ? load_chunk(w + ((group * group_k + first_k + k) * p.R * p.S + tap) * group_c + c) : uint4());
      }
      __syncthreads(); /* the stage is there */
#pragma unroll
      for (int l = 0; l < BK; l += FRAGMENT) {
        pixels_fragment of_pixels[WARP_M / FRAGMENT];
        filters_fragment of_filters[WARP_N / FRAGMENT];
#pragma unroll
        for (int i = 0; i < WARP_M / FRAGMENT; i++) wmma::load_matrix_sync(of_pixels[i], &a[my_pixel + i * FRAGMENT][l], PITCH);
#pragma unroll
        for (int j = 0; j < WARP_N / FRAGMENT; j++) wmma::load_matrix_sync(of_filters[j], &b[my_k + j * FRAGMENT][l], PITCH);
#pragma unroll
        for (int i = 0; i < WARP_M / FRAGMENT; i++)
#pragma unroll
          for (int j = 0; j < WARP_N / FRAGMENT; j++) wmma::mma_sync(sum[i][j], of_pixels[i], of_filters[j], sum[i][j]);
      }
      __syncthreads(); /* nobody reads it any more */
    }

  /* Fragment by fragment through shared memory: half a row of 16 filters is a lane's, 16 bytes of y. */
  const int patch_row = lane / 2, patch_k = lane % 2 * CHUNK;
  const bool whole = p.K % CHUNK == 0 && group_k % CHUNK == 0;
#pragma unroll
  for (int i = 0; i < WARP_M / FRAGMENT; i++)
#pragma unroll
    for (int j = 0; j < WARP_N / FRAGMENT; j++) {
      wmma::store_matrix_sync(patch[warp], sum[i][j], PATCH, wmma::mem_row_major);
      __syncwarp();
      const int pixel = first_pixel + my_pixel + i * FRAGMENT + patch_row, k = first_k + my_k + j * FRAGMENT + patch_k;
      const float *const from = patch[warp] + patch_row * PATCH + patch_k;
      __half *const to = y + (int64_t)pixel * p.K + group * group_k + k; /* of a pixel past the last as well */
      __align__(16) __half result[CHUNK];
#pragma unroll
      for (int e = 0; e < CHUNK; e++) result[e] = __float2half_rn(from[e]);
      if (pixel < pixels && k < group_k && whole) store_chunk(to, load_chunk(result));
      else if (pixel < pixels)
#pragma unroll
        for (int e = 0; e < CHUNK; e++)
          if (k + e < group_k) to[e] = result[e];
      __syncwarp(); /* the patch has been read */
    }
}

/* ---------------------------------------------------------------- host */

static const char *plan_fprop(const conv_operation *o, const conv_device *device, conv_plan *plan) {
  const conv_problem *p = &o->problem;
  if (p->C / p->groups % CHUNK != 0) return "channels of a group are no multiple of 8";
  const char *why = plain_unsupported(p, device);
  if (why) return why;
  const int pixels = p->N * p->P * p->Q, group_k = p->K / p->groups;
  const int64_t blocks = (int64_t)((pixels + BM - 1) / BM) * p->groups * ((group_k + BN - 1) / BN);
  if (blocks > INT_MAX) return "2^31 blocks or more";
  *plan_data<int>(plan) = (int)blocks;
  snprintf(plan->words, sizeof plan->words, "%d pixels x %d filters, %lld block%s", BM, BN, (long long)blocks, blocks == 1 ? "" : "s");
  return NULL;
}

static cudaError_t launch_fprop(const conv_plan *plan, const conv_buffers *b, cudaStream_t stream) {
  wmma_kernel<<<*plan_data<int>(plan), THREADS, 0, stream>>>(plan->operation.problem, (const __half *)b->x, (const __half *)b->w, (__half *)b->y);
  return cudaGetLastError();
}

/* An accumulator takes one product of matrices after the other, which adds 16 products and what it was; zeros of the channels' tail, too. */
static double growth_fprop(const conv_problem *p, bool random) {
  const double chunks = (double)p->R * p->S * ((p->C / p->groups + BK - 1) / BK) * (BK / FRAGMENT);
  return growth_truncated(chunks * (FRAGMENT + 1), random);
}

NHWC_ROW(wmma_fprop, "06a", "implicit product by tensor cores, fragments of 16 x 16", PASS_FPROP, 80, plan_fprop, launch_fprop, growth_fprop);
