/* 05h: the gradient of the image, spelled out: first the gradient of every window, then each pixel adds up the windows it lies in.
 *
 *     columns' [C*R*S][N*P*Q]  =  w [K][C*R*S], transposed  x  dy [K][N*P*Q]          dx[n,c,h,w] = the sum of its elements in columns'
 *
 * Terms:    col2im.
 * Idea:     05a copied a pixel to every window that it lies in, up to R * S places of the columns. Its gradient is the sum of theirs: col2im.
 * Change:   against 05a the product comes first and its result is the matrix of windows; w is read along its rows and need not be turned. col2im_kernel
 *           is im2col_kernel turned around: not every element of the columns adds itself to a pixel, which would take atomic additions and give
 *           other roundings in every run; every pixel fetches its elements, always in the same order.
 * Expect:   the same 231 MB as in 05a on its layer, and the same product: the same time.
 * Passes:   dgrad. Layout: NCHW, filters KCRS, fp32. */
#include <cuda_runtime.h>

#include "05_im2col_gemm/rows.h"

enum { BM = 64, BN = 64, BK = 16, TM = 4, TN = 4, THREADS = BM / TM * (BN / TN) };

/* A block: BM rows of columns' of a group x BN pixels of dy. */
__global__ void __launch_bounds__(THREADS) columns_kernel(conv_problem p, const float *w, const float *dy, float *columns) {
  __shared__ float a[BK][BM]; /* filters: BM neighbouring elements of each of BK */
  __shared__ float b[BK][BN]; /* dy */
  const int group_k = p.K / p.groups, rows = p.C / p.groups * p.R * p.S, tiles = (rows + BM - 1) / BM, image = p.P * p.Q, pixels = p.N * image;
  const int group = blockIdx.x / tiles % p.groups, first_row = blockIdx.x % tiles * BM, first_pixel = blockIdx.x / tiles / p.groups * BN;
  const int my_row = threadIdx.x / (BN / TN) * TM, my_pixel = threadIdx.x % (BN / TN) * TN;
  w += group * group_k * rows;
  columns += group * rows * pixels;

  float sum[TM][TN] = {};
  for (int first = 0; first < group_k; first += BK) {
    for (int i = threadIdx.x; i < BK * BM; i += THREADS) {
      const int l = i / BM, row = i % BM;
      a[l][row] = first + l < group_k && first_row + row < rows ? w[(first + l) * rows + first_row + row] : 0;
    }
    for (int i = threadIdx.x; i < BK * BN; i += THREADS) {
      const int l = i / BN, pixel = first_pixel + i % BN, n = pixel / image;
      b[l][i % BN] = first + l < group_k && pixel < pixels ? dy[(n * p.K + group * group_k + first + l) * image + pixel % image] : 0;
    }
    __syncthreads(); /* the stage is there */
#pragma unroll
    for (int l = 0; l < BK; l++)
#pragma unroll
      for (int i = 0; i < TM; i++)
#pragma unroll
        for (int j = 0; j < TN; j++) sum[i][j] += a[l][my_row + i] * b[l][my_pixel + j];
    __syncthreads(); /* nobody reads it any more */
  }
#pragma unroll
  for (int i = 0; i < TM; i++)
#pragma unroll
    for (int j = 0; j < TN; j++) {
      const int row = first_row + my_row + i, pixel = first_pixel + my_pixel + j;
      if (row < rows && pixel < pixels) columns[row * pixels + pixel] = sum[i][j];
    }
}

/* A thread: one element of dx. */
__global__ void __launch_bounds__(THREADS) col2im_kernel(conv_problem p, const float *columns, float *dx) {
  const int i = blockIdx.x * THREADS + threadIdx.x, pixels = p.N * p.P * p.Q;
  if (i >= p.N * p.C * p.H * p.W) return;
  const int w = i % p.W, h = i / p.W % p.H, c = i / p.W / p.H % p.C, n = i / p.W / p.H / p.C;
  float sum = 0;
  for (int r = 0; r < p.R; r++)
    for (int s = 0; s < p.S; s++) {
      const int from_h = h + p.pad_top - r * p.dil_h, from_w = w + p.pad_left - s * p.dil_w; /* the first pixel of the window that has (h, w) at (r, s) */
      if (from_h < 0 || from_w < 0 || from_h % p.stride_h != 0 || from_w % p.stride_w != 0) continue;
      const int out_p = from_h / p.stride_h, out_q = from_w / p.stride_w;
      if (out_p < p.P && out_q < p.Q) sum += columns[((c * p.R + r) * p.S + s) * pixels + (n * p.P + out_p) * p.Q + out_q];
    }
  dx[i] = sum;
}

/* ---------------------------------------------------------------- host */

/* Blocks of both kernels. */
typedef struct col2im_plan {
  int columns, col2im;
} col2im_plan;

static const char *plan_dgrad(const conv_operation *o, const conv_device *device, conv_plan *plan) {
  const conv_problem *p = &o->problem;
  const char *why = plain_unsupported(p, device);
  if (why) return why;
  const int64_t columns = (int64_t)p->C * p->R * p->S * p->N * p->P * p->Q;
  if (columns > INT_MAX - 1024) return "the columns have 2^31 elements or more (indices are 32-bit)";
  const int pixels = p->N * p->P * p->Q, rows = p->C / p->groups * p->R * p->S, count = p->N * p->C * p->H * p->W;
  *plan_data<col2im_plan>(plan) = {.columns = (pixels + BN - 1) / BN * p->groups * ((rows + BM - 1) / BM), .col2im = (count + THREADS - 1) / THREADS};
  plan->workspace_bytes = (size_t)columns * sizeof(float);
  return NULL;
}

static cudaError_t launch_dgrad(const conv_plan *plan, const conv_buffers *b, cudaStream_t stream) {
  const conv_problem *p = &plan->operation.problem;
  const col2im_plan *blocks = plan_data<col2im_plan>(plan);
  float *columns = (float *)b->workspace;
  columns_kernel<<<blocks->columns, THREADS, 0, stream>>>(*p, (const float *)b->w, (const float *)b->y, columns);
  col2im_kernel<<<blocks->col2im, THREADS, 0, stream>>>(*p, columns, (float *)b->x);
  return cudaGetLastError();
}

GEMM_ROW(col2im_dgrad, "05h", "a matrix product, then col2im", PASS_DGRAD, plan_dgrad, launch_dgrad, plain_growth_dgrad);
