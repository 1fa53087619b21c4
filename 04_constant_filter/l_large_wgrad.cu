/* 04l: the gradient of large depthwise filters: 16 taps of a filter row in a thread's registers.
 *
 * Idea:     an element of dw is a product of dy with x, shifted by the tap. A thread has TAPS = 16 neighbouring taps, and a window of TAPS + STEP
 *           pixels in registers that slides along a row of x, STEP = 8 columns at a time, with the row of dy above it: 128 FMAs for 2 quads of
 *           pixels and 2 of dy. The threads of a block have all taps of one channel: 31 x 31 are 62 threads.
 * Change:   against 04d what slides against the pixels is dy, 56 x 56 say, and the result is small; so the work is shared out by bands of
 *           dy and by images, and the parts are added up as in 04k.
 * Expect:   a tenth of the instructions are no FMAs, a quarter of these want two registers of one bank, and 62 of 64 threads have 961 of 992 taps
 *           of use: two thirds of the peak. 128 channels of 56 x 56, 32 images, 31 x 31: 24.7 GFLOP, 369 us at the peak: 580 us.
 * Banks:    neighbouring threads have the same taps of neighbouring filter rows. They read the same columns of neighbouring rows, whose pitch is
 *           an odd number of quads. What all threads read of dy is one address.
 * Sizes:    any R x S whose band fits in shared memory, stride 1, no dilation. One input channel per output channel.
 * Passes:   wgrad. Layout: NCHW, filters KCRS, fp32. */
#include <cuda_runtime.h>
#include <stdio.h>

#include "04_constant_filter/sum_parts.cuh"
#include "common/harness/plain.h"

enum { THREADS = 128, TAPS = 16, STEP = 8, BP = 8, BQ = 64, MOST_BLOCKS = 1024 };

/* How a block divides its work. A band: BP x BQ pixels of dy in one image. */
typedef struct layout {
  int group, tiles;            /* threads that have all taps, or that have them in so many blocks */
  int width, pitch, height;    /* pixels of x under a band: columns, floats from row to row, rows */
  int bands_q, bands_p, bands; /* in a row of dy, in a column, of all images */
} layout;

/* A block: every gridDim.x-th band of channel blockIdx.z. parts[k][r][s][blockIdx.x]. A block has several groups of threads, which take turns with the rows of
 * a band. */
__global__ void __launch_bounds__(THREADS, 6)
    large_wgrad_kernel(conv_problem p, layout l, const float *__restrict__ x, const float *__restrict__ dy, float *__restrict__ parts) {
  extern __shared__ float4 shared[];
  float *tile = (float *)shared, *gradient = tile + l.height * l.pitch; /* [height][pitch], [BP][BQ] */
  const int k = blockIdx.z, c = k / (p.K / p.C), lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int my_group = threadIdx.x / l.group, groups = THREADS / l.group, me = threadIdx.x % l.group, my_task = blockIdx.y * l.group + me;
  const bool works = my_task / p.R * TAPS < p.S; /* the others compute what nobody wants */
  const int r = works ? my_task % p.R : 0, first_s = works ? my_task / p.R * TAPS : 0;

  float sum[TAPS] = {};
  for (int band = blockIdx.x; band < l.bands; band += gridDim.x) {
    const int first_q = band % l.bands_q * BQ, first_p = band / l.bands_q % l.bands_p * BP, n = band / l.bands_q / l.bands_p;
    const float *image = x + (n * p.C + c) * p.H * p.W, *result = dy + (n * p.K + k) * p.P * p.Q;
    __syncthreads();
    for (int i = warp; i < l.height; i += THREADS / 32)
      for (int j = lane; j < l.width; j += 32) {
        const int in_h = first_p - p.pad_top + i, in_w = first_q - p.pad_left + j;
        tile[i * l.pitch + j] = in_h >= 0 && in_h < p.H && in_w >= 0 && in_w < p.W ? image[in_h * p.W + in_w] : 0;
      }
    for (int i = threadIdx.x; i < BP * BQ; i += THREADS) {
      const int out_p = first_p + i / BQ, out_q = first_q + i % BQ;
      gradient[i] = out_p < p.P && out_q < p.Q ? result[out_p * p.Q + out_q] : 0;
    }
    __syncthreads();

    const int rows = min(BP, p.P - first_p), columns = min(BQ, p.Q - first_q);
    for (int row = my_group; row < rows; row += groups) {
      const float4 *pixels = (const float4 *)(tile + (row + r) * l.pitch + first_s), *elements = (const float4 *)(gradient + row * BQ);
      __align__(16) float window[TAPS + BQ]; /* TAPS + STEP of them are in use at a time */
#pragma unroll
      for (int j = 0; j < TAPS; j += 4) *(float4 *)&window[j] = pixels[j / 4];
#pragma unroll
      for (int q = 0; q < BQ; q += STEP) {
        if (q >= columns) break;
#pragma unroll
        for (int j = 0; j < STEP; j += 4) *(float4 *)&window[q + TAPS + j] = pixels[(q + TAPS + j) / 4];
#pragma unroll
        for (int m = 0; m < STEP; m += 4) {
          const float4 four = elements[(q + m) / 4];
          const float element[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
          for (int e = 0; e < 4; e++)
#pragma unroll
            for (int s = 0; s < TAPS; s++) sum[s] += element[e] * window[q + m + e + s];
        }
      }
    }
  }

  /* The groups' sums, in shared memory: [groups][TAPS][group]. */
  __syncthreads();
#pragma unroll
  for (int s = 0; s < TAPS; s++) tile[(my_group * TAPS + s) * l.group + me] = sum[s];
  __syncthreads();
  for (int s = my_group; works && s < TAPS && first_s + s < p.S; s += groups) {
    float total = 0;
    for (int g = 0; g < groups; g++) total += tile[(g * TAPS + s) * l.group + me];
    parts[((k * p.R + r) * p.S + first_s + s) * (int)gridDim.x + blockIdx.x] = total;
  }
}

/* ---------------------------------------------------------------- host */

static layout layout_of(const conv_problem *p) {
  layout l;
  const int tasks = (p->S + TAPS - 1) / TAPS * p->R;
  l.group = tasks <= 32 ? 32 : tasks <= 64 ? 64 : THREADS;
  l.tiles = (tasks + l.group - 1) / l.group;
  l.width = BQ + (p->S + TAPS - 1) / TAPS * TAPS;
  l.pitch = (l.width + 3) / 8 * 8 + 4;
  l.height = BP + p->R - 1;
  l.bands_q = (p->Q + BQ - 1) / BQ;
  l.bands_p = (p->P + BP - 1) / BP;
  l.bands = p->N * l.bands_p * l.bands_q;
  return l;
}

static size_t shared_bytes(const layout *l) {
  const size_t band = (size_t)l->height * (size_t)l->pitch + BP * BQ, sums = THREADS * TAPS;
  return (band > sums ? band : sums) * sizeof(float);
}

/* What a launch needs. With one part only, that is the result. */
typedef struct large_wgrad_launch {
  size_t bytes;
  layout cut;
  int parts; /* blocks that share a channel's bands */
} large_wgrad_launch;

static const char *plan_wgrad(const conv_operation *o, const conv_device *device, conv_plan *plan) {
  const conv_problem *p = &o->problem;
  if (p->C != p->groups) return "more than one input channel per output channel";
  if (p->stride_h != 1 || p->stride_w != 1 || p->dil_h != 1 || p->dil_w != 1) return "stride or dilation is not 1";
  const char *why = plain_plan(o, device, plan);
  if (why) return why;
  if (p->K > 65535) return "more than 65535 channels (a grid's third dimension)";
  large_wgrad_launch *l = plan_data<large_wgrad_launch>(plan);
  l->cut = layout_of(p);
  const int wanted = (MOST_BLOCKS + p->K * l->cut.tiles - 1) / (p->K * l->cut.tiles);
  l->parts = wanted < l->cut.bands ? wanted : l->cut.bands; /* this does not depend on the GPU, as the result does on it */
  if (problem_w_count(p) > (INT_MAX - 1024) / l->parts) return "dw has 2^31 elements or more, in parts (indices are 32-bit)";
  l->bytes = shared_bytes(&l->cut);
  if (p->R > 1024 || p->S > 1024 || l->bytes > device->shared_per_block) return "the pixels under a block exceed the shared memory";
  plan->workspace_bytes = l->parts > 1 ? (size_t)problem_w_count(p) * (size_t)l->parts * sizeof(float) : 0;
  snprintf(plan->words, sizeof plan->words, "%d threads have a filter, %d parts", l->cut.group * l->cut.tiles, l->parts);
  const cudaError_t status = plan_allow_shared((const void *)large_wgrad_kernel, l->bytes);
  return status ? plan_failed(plan, status) : NULL;
}

static cudaError_t launch_wgrad(const conv_plan *plan, const conv_buffers *b, cudaStream_t stream) {
  const conv_problem &p = plan->operation.problem;
  const large_wgrad_launch *l = plan_data<large_wgrad_launch>(plan);
  float *found = l->parts > 1 ? (float *)b->workspace : (float *)b->w;
  large_wgrad_kernel<<<dim3(l->parts, l->cut.tiles, p.K), THREADS, l->bytes, stream>>>(p, l->cut, (const float *)b->x, (const float *)b->y, found);
  const cudaError_t status = cudaGetLastError();
  if (status) return status;
  return l->parts > 1 ? sum_parts((int)problem_w_count(&p), l->parts, found, (float *)b->w, stream) : cudaSuccess;
}

NCHW_ROW(large_wgrad, "04l", "large filters: 16 taps in registers, dy slides", PASS_WGRAD, plan_wgrad, launch_wgrad, plain_growth_wgrad);
