/* 05b: the matrix of windows is never written: its elements are looked up in the image when a block copies them to shared memory.
 *
 * Terms:    implicit GEMM.
 * Idea:     a block needs BK x BN elements of the columns at a time. Row and column of the matrix say which channel, filter tap and pixel an
 *           element is: so it is fetched from x itself. The buffer of 05a, and the kernel that filled it, are gone.
 * Change:   against 05a's matmul_kernel one line: what b is filled with.
 * Expect:   no 231 MB to move, but im2col_kernel's divisions are now done inside the loop, and once for every tile of filters that wants the
 *           element: a stage takes a thread a thousand instructions for its 256 FMAs, where 05a's product takes 600. Slower than 05a, until
 *           05d gets rid of the divisions.
 * Passes:   fprop. Layout: NCHW, filters KCRS, fp32. */
#include <cuda_runtime.h>

#include "05_im2col_gemm/rows.h"

enum { BM = 64, BN = 64, BK = 16, TM = 4, TN = 4, THREADS = BM / TM * (BN / TN), PITCH = BM + 2 };

/* The matrix's element: row l of a group (its channel and tap), column `pixel`; x: the group's first channel. */
static __device__ float window_element(const conv_problem &p, const float *x, int l, int pixel) {
  const int c = l / (p.R * p.S), r = l / p.S % p.R, s = l % p.S;
  const int n = pixel / (p.P * p.Q), in_h = pixel / p.Q % p.P * p.stride_h - p.pad_top + r * p.dil_h,
            in_w = pixel % p.Q * p.stride_w - p.pad_left + s * p.dil_w;
  const bool inside = in_h >= 0 && in_h < p.H && in_w >= 0 && in_w < p.W;
  return inside ? x[((n * p.C + c) * p.H + in_h) * p.W + in_w] : 0;
}

/* A block: BM filters of a group x BN pixels. */
__global__ void __launch_bounds__(THREADS) implicit_kernel(conv_problem p, const float *x, const float *w, float *y) {
  __shared__ float a[BK][PITCH]; /* filters, turned: a warp writes 16 neighbours of 2 filters, each 2 banks from the one before */
  __shared__ float b[BK][BN];    /* columns */
  const int group_k = p.K / p.groups, tiles_k = (group_k + BM - 1) / BM, terms = p.C / p.groups * p.R * p.S, image = p.P * p.Q, pixels = p.N * image;
  const int group = blockIdx.x / tiles_k % p.groups, first_k = blockIdx.x % tiles_k * BM, first_pixel = blockIdx.x / tiles_k / p.groups * BN;
  const int my_k = threadIdx.x / (BN / TN) * TM, my_pixel = threadIdx.x % (BN / TN) * TN;
  w += group * group_k * terms;
  x += group * (p.C / p.groups) * p.H * p.W;

  float sum[TM][TN] = {};
  for (int first = 0; first < terms; first += BK) {
    for (int i = threadIdx.x; i < BM * BK; i += THREADS) {
      const int l = i % BK, k = i / BK;
      a[l][k] = first + l < terms && first_k + k < group_k ? w[(first_k + k) * terms + first + l] : 0;
    }
    for (int i = threadIdx.x; i < BK * BN; i += THREADS) {
      const int l = i / BN, pixel = i % BN;
      b[l][pixel] = first + l < terms && first_pixel + pixel < pixels ? window_element(p, x, first + l, first_pixel + pixel) : 0;
    }
    __syncthreads(); /* the stage is there */
#pragma unroll
    for (int l = 0; l < BK; l++)
#pragma unroll
      for (int i = 0; i < TM; i++)
#pragma unroll
        for (int j = 0; j < TN; j++) sum[i][j] += a[l][my_k + i] * b[l][my_pixel + j];
    __syncthreads(); /* nobody reads it any more */
  }
#pragma unroll
  for (int j = 0; j < TN; j++) {
    const int pixel = first_pixel + my_pixel + j, n = pixel / image;
    if (pixel >= pixels) continue;
#pragma unroll
    for (int i = 0; i < TM; i++) {
      const int k = first_k + my_k + i;
      if (k < group_k) y[(n * p.K + group * group_k + k) * image + pixel % image] = sum[i][j];
    }
  }
}

/* ---------------------------------------------------------------- host */

static const char *plan_fprop(const conv_operation *o, const conv_device *device, conv_plan *plan) {
  const conv_problem *p = &o->problem;
  const char *why = plain_unsupported(p, device);
  if (why) return why;
  const int pixels = p->N * p->P * p->Q, group_k = p->K / p->groups;
  *plan_data<int>(plan) = (pixels + BN - 1) / BN * p->groups * ((group_k + BM - 1) / BM); /* blocks */
  return NULL;
}

static cudaError_t launch_fprop(const conv_plan *plan, const conv_buffers *b, cudaStream_t stream) {
  implicit_kernel<<<*plan_data<int>(plan), THREADS, 0, stream>>>(plan->operation.problem, (const float *)b->x, (const float *)b->w, (float *)b->y);
  return cudaGetLastError();
}

GEMM_ROW(implicit_fprop, "05b", "implicit product: windows looked up when copied", PASS_FPROP, plan_fprop, launch_fprop, plain_growth_fprop);
