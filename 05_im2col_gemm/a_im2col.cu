/* 05a: convolution as a matrix product, spelled out: first the windows are copied out of the image, then multiplied.
 *
 * Terms:    im2col; explicit GEMM.
 * Idea:     every output is the product of a filter, C * R * S numbers in a row, and a window, as many numbers. All filters are the rows of a
 *           matrix w[K][C*R*S], as they lie in memory; with all windows as columns of another, y is their product, and a matrix product is what
 *           GPUs are best understood for.
 *
 *               y [K][N*P*Q]  =  w [K][C*R*S]  x  columns [C*R*S][N*P*Q]          columns[c,r,s][n,p,q] = x[n, c, p*stride - pad + r*dil, ...]
 *
 * Change:   against step 03, two kernels: im2col_kernel writes the columns into the workspace, matmul_kernel knows nothing of convolutions.
 * Cost:     a 3x3 filter stores every pixel nine times. The layer mb16ic64ih56oc128oh56kh3ph1 has an x of 12.8 MB and columns of 116 MB, which are
 *           written and read again: 231 MB, 54 us at 4.28 TB/s, half of what the arithmetic needs at best, for nothing.
 * Expect:   matmul_kernel has 4 x 4 sums a thread, and reads 8 values for 16 FMAs; it waits for every stage of its copies. A quarter of the peak.
 * Passes:   fprop. Layout: NCHW, filters KCRS, fp32. */
#include <cuda_runtime.h>

#include "05_im2col_gemm/im2col.h"
#include "05_im2col_gemm/rows.h"

enum { BM = 64, BN = 64, BK = 16, TM = 4, TN = 4, THREADS = BM / TM * (BN / TN), PITCH = BM + 2 };

/* A thread: one element of columns[C*R*S][N*P*Q]. */
__global__ void __launch_bounds__(THREADS) im2col_kernel(conv_problem p, const float *x, float *columns) {
  const int pixels = p.N * p.P * p.Q, blocks = (pixels + THREADS - 1) / THREADS;
  const int row = blockIdx.x / blocks, pixel = blockIdx.x % blocks * THREADS + threadIdx.x;
  if (pixel >= pixels) return;
  const int c = row / (p.R * p.S), r = row / p.S % p.R, s = row % p.S;
  const int n = pixel / (p.P * p.Q), in_h = pixel / p.Q % p.P * p.stride_h - p.pad_top + r * p.dil_h,
            in_w = pixel % p.Q * p.stride_w - p.pad_left + s * p.dil_w;
  const bool inside = in_h >= 0 && in_h < p.H && in_w >= 0 && in_w < p.W;
  columns[row * pixels + pixel] = inside ? x[((n * p.C + c) * p.H + in_h) * p.W + in_w] : 0;
}

/* A block: BM filters of a group x BN pixels. The groups' filters and columns lie one after the other. */
__global__ void __launch_bounds__(THREADS) matmul_kernel(conv_problem p, const float *w, const float *columns, float *y) {
  __shared__ float a[BK][PITCH]; /* filters, turned: a warp writes 16 neighbours of 2 filters, each 2 banks from the one before */
  __shared__ float b[BK][BN];    /* columns */
  const int group_k = p.K / p.groups, tiles_k = (group_k + BM - 1) / BM, terms = p.C / p.groups * p.R * p.S, image = p.P * p.Q, pixels = p.N * image;
  const int group = blockIdx.x / tiles_k % p.groups, first_k = blockIdx.x % tiles_k * BM, first_pixel = blockIdx.x / tiles_k / p.groups * BN;
  const int my_k = threadIdx.x / (BN / TN) * TM, my_pixel = threadIdx.x % (BN / TN) * TN;
  w += group * group_k * terms;
  columns += group * terms * pixels;

  float sum[TM][TN] = {};
  for (int first = 0; first < terms; first += BK) {
    for (int i = threadIdx.x; i < BM * BK; i += THREADS) {
      const int l = i % BK, k = i / BK;
      a[l][k] = first + l < terms && first_k + k < group_k ? w[(first_k + k) * terms + first + l] : 0;
    }
    for (int i = threadIdx.x; i < BK * BN; i += THREADS) {
      const int l = i / BN, pixel = i % BN;
      b[l][pixel] = first + l < terms && first_pixel + pixel < pixels ? columns[(first + l) * pixels + first_pixel + pixel] : 0;
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

/* Blocks of both kernels. */
typedef struct im2col_plan {
  int im2col, matmul;
} im2col_plan;

static const char *plan_fprop(const conv_operation *o, const conv_device *device, conv_plan *plan) {
  const conv_problem *p = &o->problem;
  const char *why = plain_unsupported(p, device);
  if (why) return why;
  const int64_t columns = (int64_t)p->C * p->R * p->S * p->N * p->P * p->Q;
  if (columns > INT_MAX - 1024) return "the columns have 2^31 elements or more (indices are 32-bit)";
  const int pixels = p->N * p->P * p->Q, group_k = p->K / p->groups;
  *plan_data<im2col_plan>(plan) = {.im2col = p->C * p->R * p->S * ((pixels + THREADS - 1) / THREADS),
                                   .matmul = (pixels + BN - 1) / BN * p->groups * ((group_k + BM - 1) / BM)};
  plan->workspace_bytes = (size_t)columns * sizeof(float);
  return NULL;
}

cudaError_t launch_im2col(const conv_plan *plan, const float *x, float *columns, cudaStream_t stream) {
  im2col_kernel<<<plan_data<im2col_plan>(plan)->im2col, THREADS, 0, stream>>>(plan->operation.problem, x, columns);
  return cudaGetLastError();
}

cudaError_t launch_matmul(const conv_plan *plan, const float *w, const float *columns, float *y, cudaStream_t stream) {
  matmul_kernel<<<plan_data<im2col_plan>(plan)->matmul, THREADS, 0, stream>>>(plan->operation.problem, w, columns, y);
  return cudaGetLastError();
}

static cudaError_t launch_fprop(const conv_plan *plan, const conv_buffers *b, cudaStream_t stream) {
  const cudaError_t status = launch_im2col(plan, (const float *)b->x, (float *)b->workspace, stream);
  return status ? status : launch_matmul(plan, (const float *)b->w, (const float *)b->workspace, (float *)b->y, stream);
}

GEMM_ROW(im2col_fprop, "05a", "im2col into memory, then a matrix product", PASS_FPROP, plan_fprop, launch_fprop, plain_growth_fprop);
