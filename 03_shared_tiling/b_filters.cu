/* 03b: the filters in shared memory too, and eight output channels a thread.
 *
 * Terms:    thread coarsening; vectorized reads.
 * Idea:     all filters look at the same pixels. A thread that computes 8 output channels at its pixel reads the pixel once for 8 products,
 *           and the 8 filter elements lie next to each other in shared memory: two reads of 16 bytes, the same for the whole warp.
 * Change:   against 03a a block has TK = 8 output channels instead of one, and their filters, turned so that k runs fastest, are copied to
 *           shared memory beside the pixels. Very large filters are copied in parts, ROWS filter rows at a time.
 * Expect:   03a issues two loads for every FMA, this one three for eight.
 * Passes:   fprop, and dgrad at stride 1 (turned.h). Layout: NCHW, filters KCRS, fp32. */
#include <cuda_runtime.h>
#include <stdio.h>

#include "03_shared_tiling/turned.h"

enum { THREADS = 256, TK = 8, SHARED_LIMIT = 48 * 1024 };

/* The halo tile of tile_p x tile_q outputs under `rows` filter rows: tile_h x tile_w pixels. */
static __host__ __device__ int64_t tile_h(const conv_problem &p, int tile_p, int rows) { return (tile_p - 1LL) * p.stride_h + (rows - 1LL) * p.dil_h + 1; }
static __host__ __device__ int64_t tile_w(const conv_problem &p, int tile_q) { return (tile_q - 1LL) * p.stride_w + (p.S - 1LL) * p.dil_w + 1; }

/* A block of tile_q x tile_p threads: y[n, TK channels, its tile]; `rows` filter rows at a time. */
__global__ void __launch_bounds__(THREADS) filters_kernel(turned_conv t, int rows, const float *x, const float *w, float *y) {
  extern __shared__ float4 shared[];
  float *filters = (float *)shared; /* [rows][S][TK]: one channel's taps of the block's filters */
  const conv_problem &p = t.p;
  float *tile = filters + rows * p.S * TK; /* [height][width]: the pixels of one channel under these taps */

  const int group_c = p.C / p.groups, group_k = p.K / p.groups, tiles_k = (group_k + TK - 1) / TK;
  const int tiles_q = (p.Q + blockDim.x - 1) / blockDim.x, tiles_p = (p.P + blockDim.y - 1) / blockDim.y;
  const int tile_k = blockIdx.x % (p.groups * tiles_k); /* neighbouring blocks read the same pixels */
  const int first_q = blockIdx.x / (p.groups * tiles_k) % tiles_q * blockDim.x;
  const int first_p = blockIdx.x / (p.groups * tiles_k) / tiles_q % tiles_p * blockDim.y;
  const int n = blockIdx.x / (p.groups * tiles_k) / tiles_q / tiles_p;
  const int group = tile_k / tiles_k, first_k = tile_k % tiles_k * TK, thread = threadIdx.y * blockDim.x + threadIdx.x;

  const int width = (int)tile_w(p, blockDim.x), first_w = first_q * p.stride_w - p.pad_left;
  const float *group_w = w + group * group_k * group_c * p.R * p.S;

  float sum[TK] = {};
  for (int c = 0; c < group_c; c++) {
    const float *image = x + (n * p.C + group * group_c + c) * p.H * p.W;
    for (int first_r = 0; first_r < p.R; first_r += rows) {
      const int stage_rows = min(rows, p.R - first_r), height = (int)tile_h(p, blockDim.y, stage_rows);
      const int first_h = first_p * p.stride_h - p.pad_top + first_r * p.dil_h;
      for (int i = threadIdx.y; i < height; i += blockDim.y)
        for (int j = threadIdx.x; j < width; j += blockDim.x) {
          const int in_h = first_h + i, in_w = first_w + j;
          const bool inside = in_h >= 0 && in_h < p.H && in_w >= 0 && in_w < p.W;
          tile[i * width + j] = inside ? image[in_h * p.W + in_w] : 0;
        }
      for (int i = thread; i < stage_rows * p.S * TK; i += blockDim.x * blockDim.y) {
        const int k = first_k + i % TK, tap = first_r * p.S + i / TK;
        filters[i] = k < group_k ? group_w[TURNED_W(t, k, c, tap)] : 0;
      }
      __syncthreads(); /* pixels and filters are there */
      for (int r = 0; r < stage_rows; r++)
        for (int s = 0; s < p.S; s++) {
          const float pixel = tile[(threadIdx.y * p.stride_h + r * p.dil_h) * width + threadIdx.x * p.stride_w + s * p.dil_w];
          const float4 *f = (const float4 *)(filters + (r * p.S + s) * TK);
#pragma unroll
          for (int k = 0; k < TK; k += 4) {
            sum[k + 0] += pixel * f[k / 4].x;
            sum[k + 1] += pixel * f[k / 4].y;
            sum[k + 2] += pixel * f[k / 4].z;
            sum[k + 3] += pixel * f[k / 4].w;
          }
        }
      __syncthreads(); /* nobody reads them any more */
    }
  }
  const int out_p = first_p + threadIdx.y, out_q = first_q + threadIdx.x;
  if (out_p >= p.P || out_q >= p.Q) return;
#pragma unroll
  for (int k = 0; k < TK; k++)
    if (first_k + k < group_k) y[((n * p.K + group * group_k + first_k + k) * p.P + out_p) * p.Q + out_q] = sum[k];
}

/* ---------------------------------------------------------------- host */

/* What a launch needs. */
typedef struct filters_launch {
  turned_conv t;
  dim3 block; /* threads: a tile of outputs */
  int rows;   /* of the filter at a time */
  int blocks;
  size_t bytes;
} filters_launch;

/* As wide as the image up to a warp, as high as 256 threads allow. */
static dim3 block_of(const conv_problem *p) {
  const int tile_q = p->Q > 16 ? 32 : p->Q > 8 ? 16 : 8;
  const int most = THREADS / tile_q;
  return dim3(tile_q, p->P < most ? p->P : most);
}

/* Shared memory of a stage of `rows` filter rows, in bytes. A tile's width beyond INT_MAX counts as that: it does not fit either way. */
static int64_t stage_bytes(const conv_problem *p, dim3 block, int rows) {
  const int64_t width = tile_w(*p, block.x), height = tile_h(*p, block.y, rows);
  return ((int64_t)rows * p->S * TK + (width < INT_MAX ? width : INT_MAX) * (height < INT_MAX ? height : INT_MAX)) * (int64_t)sizeof(float);
}

static const char *plan_filters(const conv_operation *o, const conv_device *device, conv_plan *plan) {
  const char *why = turned_unsupported(o, device);
  if (why) return why;
  filters_launch *l = plan_data<filters_launch>(plan);
  l->t = turned_pass(o);
  const conv_problem &p = l->t.p;
  l->block = block_of(&p);
  l->rows = p.R; /* as many at a time as fit */
  while (l->rows > 0 && stage_bytes(&p, l->block, l->rows) > SHARED_LIMIT) l->rows /= 2;
  if (l->rows == 0) return "one filter row and the pixels under it exceed 48 KiB of shared memory";
  l->bytes = (size_t)stage_bytes(&p, l->block, l->rows);
  const int tiles_k = p.groups * ((p.K / p.groups + TK - 1) / TK);
  l->blocks = p.N * tiles_k * ((p.P + l->block.y - 1) / l->block.y) * ((p.Q + l->block.x - 1) / l->block.x);
  snprintf(plan->words, sizeof plan->words, "%u x %u pixels a block, %d filter rows at a time", l->block.x, l->block.y, l->rows);
  return NULL;
}

static cudaError_t launch(const conv_plan *plan, const conv_buffers *b, cudaStream_t stream) {
  const filters_launch *l = plan_data<filters_launch>(plan);
  filters_kernel<<<l->blocks, l->block, l->bytes, stream>>>(l->t, l->rows, turned_image(plan, b), (const float *)b->w, turned_result(plan, b));
  return cudaGetLastError();
}

NCHW_ROW(filters_fprop, "03b", "filters in shared memory, 8 channels a thread", PASS_FPROP, plan_filters, launch, plain_growth_fprop);
NCHW_ROW(filters_dgrad, "03b", "filters in shared memory, 8 channels a thread", PASS_DGRAD, plan_filters, launch, plain_growth_dgrad);
