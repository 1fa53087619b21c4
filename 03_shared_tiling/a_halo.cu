/* 03a: the pixels under a block's windows, fetched once into shared memory.
 *
 * Terms:    shared-memory tiling; halo.
 * Idea:     neighbouring windows overlap. A block computes a tile of neighbouring outputs, so it first copies all the pixels that its
 *           windows touch (the tile and a rim around it, the halo) into shared memory, channel by channel, and then reads them there.
 * Change:   against 02a a block is a tile of one output channel instead of 256 outputs in a row, and x is read through shared memory.
 *           Whether a pixel lies outside the image is asked once, when it is copied, not once per product.
 * Expect:   of 3x3 windows every pixel is used 9 times, but the L1 cache served 8 of these 9 loads in 02a already: what can be won is the
 *           instructions per product, not the traffic.
 * Passes:   fprop, and dgrad at stride 1 (turned.h). Layout: NCHW, filters KCRS, fp32. */
#include <cuda_runtime.h>
#include <stdio.h>

#include "03_shared_tiling/turned.h"

enum { THREADS = 256, SHARED_LIMIT = 48 * 1024 };

/* The halo tile of tile_p x tile_q outputs: tile_h x tile_w pixels. */
static __host__ __device__ int64_t tile_h(const conv_problem &p, int tile_p) { return (tile_p - 1LL) * p.stride_h + (p.R - 1LL) * p.dil_h + 1; }
static __host__ __device__ int64_t tile_w(const conv_problem &p, int tile_q) { return (tile_q - 1LL) * p.stride_w + (p.S - 1LL) * p.dil_w + 1; }

/* A block of tile_q x tile_p threads: y[n, k, its tile]. */
__global__ void __launch_bounds__(THREADS) halo_kernel(turned_conv t, const float *x, const float *w, float *y) {
  extern __shared__ float tile[]; /* [height][width]: the pixels of one channel under the block's windows */
  const conv_problem &p = t.p;
  const int tiles_q = (p.Q + blockDim.x - 1) / blockDim.x, tiles_p = (p.P + blockDim.y - 1) / blockDim.y;
  const int k = blockIdx.x % p.K; /* neighbouring blocks read the same pixels */
  const int first_q = blockIdx.x / p.K % tiles_q * blockDim.x;
  const int first_p = blockIdx.x / p.K / tiles_q % tiles_p * blockDim.y;
  const int n = blockIdx.x / p.K / tiles_q / tiles_p;

  const int group_c = p.C / p.groups, group_k = p.K / p.groups, group = k / group_k;
  const int height = (int)tile_h(p, blockDim.y), width = (int)tile_w(p, blockDim.x);
  const int first_h = first_p * p.stride_h - p.pad_top, first_w = first_q * p.stride_w - p.pad_left;
  const float *filter = w + group * group_k * group_c * p.R * p.S;

  float sum = 0;
  for (int c = 0; c < group_c; c++) {
    const float *image = x + (n * p.C + group * group_c + c) * p.H * p.W;
    for (int i = threadIdx.y; i < height; i += blockDim.y)
      for (int j = threadIdx.x; j < width; j += blockDim.x) {
        const int in_h = first_h + i, in_w = first_w + j;
        const bool inside = in_h >= 0 && in_h < p.H && in_w >= 0 && in_w < p.W;
        tile[i * width + j] = inside ? image[in_h * p.W + in_w] : 0;
      }
    __syncthreads(); /* the tile is there */
    for (int r = 0; r < p.R; r++)
      for (int s = 0; s < p.S; s++)
        sum +=
            tile[(threadIdx.y * p.stride_h + r * p.dil_h) * width + threadIdx.x * p.stride_w + s * p.dil_w] * filter[TURNED_W(t, k % group_k, c, r * p.S + s)];
    __syncthreads(); /* nobody reads it any more */
  }
  const int out_p = first_p + threadIdx.y, out_q = first_q + threadIdx.x;
  if (out_p < p.P && out_q < p.Q) y[((n * p.K + k) * p.P + out_p) * p.Q + out_q] = sum;
}

/* ---------------------------------------------------------------- host */

/* What a launch needs. */
typedef struct halo_launch {
  turned_conv t;
  dim3 block; /* threads: a tile of outputs */
  int blocks;
  size_t bytes;
} halo_launch;

/* As wide as the image up to a warp, as high as 256 threads allow. */
static dim3 block_of(const conv_problem *p) {
  const int tile_q = p->Q > 16 ? 32 : p->Q > 8 ? 16 : 8;
  const int most = THREADS / tile_q;
  return dim3(tile_q, p->P < most ? p->P : most);
}

static const char *plan_halo(const conv_operation *o, const conv_device *device, conv_plan *plan) {
  const char *why = turned_unsupported(o, device);
  if (why) return why;
  halo_launch *l = plan_data<halo_launch>(plan);
  l->t = turned_pass(o);
  const conv_problem &p = l->t.p;
  l->block = block_of(&p);
  const int64_t height = tile_h(p, l->block.y), width = tile_w(p, l->block.x);
  if (height > SHARED_LIMIT / (int64_t)sizeof(float) / width) return "one channel's pixels under a block exceed 48 KiB of shared memory";
  l->bytes = (size_t)(height * width) * sizeof(float);
  l->blocks = p.N * p.K * ((p.P + l->block.y - 1) / l->block.y) * ((p.Q + l->block.x - 1) / l->block.x);
  snprintf(plan->words, sizeof plan->words, "%u x %u outputs a block", l->block.x, l->block.y);
  return NULL;
}

static cudaError_t launch(const conv_plan *plan, const conv_buffers *b, cudaStream_t stream) {
  const halo_launch *l = plan_data<halo_launch>(plan);
  halo_kernel<<<l->blocks, l->block, l->bytes, stream>>>(l->t, turned_image(plan, b), (const float *)b->w, turned_result(plan, b));
  return cudaGetLastError();
}

NCHW_ROW(halo_fprop, "03a", "halo tile in shared memory", PASS_FPROP, plan_halo, launch, plain_growth_fprop);
NCHW_ROW(halo_dgrad, "03a", "halo tile in shared memory", PASS_DGRAD, plan_halo, launch, plain_growth_dgrad);
