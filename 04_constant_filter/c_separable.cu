/* 04c: separable filters, found out, not declared.
 *
 * Terms:    separable convolution.
 * Idea:     a filter whose rows are all multiples of one row, w[r][s] = u[r] * v[s], is two filters: R + S products instead of R * S.
 *           Gauss, box and Sobel filters are of that kind; a small kernel looks whether this one is.
 * Change:   against 04b two launches: factor_kernel tries u and v on every element; separable_kernel convolves a tile in shared memory
 *           with v along the rows, then with u down the columns, or, where a filter did not factor, with w as it is.
 * Expect:   31 x 31 is 62 products instead of 961: bound by memory again, or nearly.
 * Exact:    filters of small integers factor into integers (by the greatest common divisor of a row); others within four roundings.
 * Sizes:    any R x S whose tiles fit in shared memory, stride 1, no dilation. One input channel per output channel.
 * Passes:   fprop. Layout: NCHW, filters KCRS, fp32. */
#include <cuda_pipeline.h>
#include <cuda_runtime.h>

#include "common/harness/plain.h"

enum {
  THREADS = 256,
  BQ = 128,
  BP = 64, /* a block's outputs */
  COLS = 8,
  LANES_Q = BQ / COLS,              /* along the rows: outputs of a thread, threads of a row */
  ROWS = BP / (THREADS / (BQ / 4)), /* down the columns: a thread has 4 columns of ROWS rows */
};

/* What is known of one filter: { 1 if it factors, else 0 }, u[R], v[S]. */
static __host__ __device__ int factor_floats(const conv_problem &p) { return 1 + p.R + p.S; }

static __device__ int greatest_common_divisor(int a, int b) {
  while (b) {
    const int rest = a % b;
    a = b, b = rest;
  }
  return a;
}

/* A block: one filter. */
__global__ void __launch_bounds__(THREADS) factor_kernel(conv_problem p, const float *w, float *factors) {
  __shared__ float largest[THREADS];
  __shared__ int where[THREADS];
  __shared__ float divisor;
  const int taps = p.R * p.S, me = threadIdx.x;
  const float *filter = w + blockIdx.x * taps;
  float *found = factors + blockIdx.x * factor_floats(p), *u = found + 1, *v = u + p.R;

  /* The largest element, whose row and column are the most precise. */
  largest[me] = -1, where[me] = 0;
  bool integers = true;
  for (int i = me; i < taps; i += THREADS) {
    if (fabsf(filter[i]) > largest[me]) largest[me] = fabsf(filter[i]), where[me] = i;
    if (!(fabsf(filter[i]) < 0x1p24f && filter[i] == truncf(filter[i]))) integers = false;
  }
  integers = __syncthreads_and(integers);
  for (int half = THREADS / 2; half > 0; half /= 2) {
    if (me < half && largest[me + half] > largest[me]) largest[me] = largest[me + half], where[me] = where[me + half];
    __syncthreads();
  }
  const int pivot_r = where[0] / p.S, pivot_s = where[0] % p.S;
  if (me == 0) {
    int common = integers ? 0 : 1;
    for (int s = 0; integers && s < p.S; s++) common = greatest_common_divisor((int)fabsf(filter[pivot_r * p.S + s]), common);
    divisor = common ? (float)common : 1;
  }
  __syncthreads();

  const float pivot = filter[pivot_r * p.S + pivot_s] / divisor;
  for (int s = me; s < p.S; s += THREADS) v[s] = filter[pivot_r * p.S + s] / divisor;
  for (int r = me; r < p.R; r += THREADS) u[r] = pivot != 0 ? filter[r * p.S + pivot_s] / pivot : 0;
  __syncthreads();
  bool all = true;
  for (int i = me; i < taps; i += THREADS)
    if (!(fabsf(u[i / p.S] * v[i % p.S] - filter[i]) <= 0x1p-22f * fabsf(filter[i]))) all = false;
  all = __syncthreads_and(all);
  if (me == 0) found[0] = all ? 1 : 0;
}

/* Floats of v in shared memory: whole quads. */
static __host__ __device__ int row_pitch(int S) { return (S + 3) / 4 * 4; }
/* Quads of half a row of pixels (even quads, odd quads: 04d says why): an odd multiple of 4. */
static __host__ __device__ int half_quads(int S) { return (((BQ + row_pitch(S)) / 4 + 1) / 2 + 3) / 8 * 8 + 4; }
#define QUAD(row, quad) tile[(2 * (row) + (quad) % 2) * half + (quad) / 2]

/* A block: BP x BQ outputs of one plane y[n, k]. */
__global__ void __launch_bounds__(THREADS) separable_kernel(conv_problem p, const float *x, const float *w, const float *factors, float *y) {
  extern __shared__ float4 shared[];
  const int pitch = row_pitch(p.S), half = half_quads(p.S), height = BP + p.R - 1, width = BQ + pitch;
  float4 *along = shared;                            /* v: [pitch], the last ones zero */
  float4 *tile = along + pitch / 4;                  /* pixels: [height][2][half] */
  float4 *middle = tile + height * 2 * half;         /* pixels convolved with v: [height][BQ] */
  float *down = (float *)(middle + height * BQ / 4); /* u: [R] */

  const int tiles_q = (p.Q + BQ - 1) / BQ, tiles_p = (p.P + BP - 1) / BP;
  const int first_q = blockIdx.x % tiles_q * BQ, first_p = blockIdx.x / tiles_q % tiles_p * BP;
  const int plane = blockIdx.x / tiles_q / tiles_p, k = plane % p.K, n = plane / p.K;
  const float *image = x + (int64_t)(n * p.C + k / (p.K / p.groups)) * p.H * p.W;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;

  const float *found = factors + k * factor_floats(p);
  for (int i = threadIdx.x; i < pitch; i += THREADS) ((float *)along)[i] = i < p.S ? found[1 + p.R + i] : 0;
  for (int i = threadIdx.x; i < p.R; i += THREADS) down[i] = found[1 + i];
  for (int i = warp; i < height; i += THREADS / 32)
    for (int j = lane; j < width; j += 32) {
      const int in_h = first_p - p.pad_top + i, in_w = first_q - p.pad_left + j;
      const bool inside = in_h >= 0 && in_h < p.H && in_w >= 0 && in_w < p.W;
      __pipeline_memcpy_async((float *)&QUAD(i, j / 4) + j % 4, inside ? image + (int64_t)in_h * p.W + in_w : image, 4, inside ? 0 : 4);
    }
  __pipeline_commit();
  __pipeline_wait_prior(0);
  __syncthreads();

  if (found[0] == 0) { /* not separable: R * S products it is */
    for (int i = threadIdx.x; i < BP * BQ; i += THREADS) {
      const int my_p = i / BQ, my_q = i % BQ;
      if (first_p + my_p >= p.P || first_q + my_q >= p.Q) continue;
      float sum = 0;
      for (int r = 0; r < p.R; r++)
        for (int s = 0; s < p.S; s++) sum += ((const float *)&QUAD(my_p + r, (my_q + s) / 4))[(my_q + s) % 4] * w[(k * p.R + r) * p.S + s];
      y[((int64_t)plane * p.P + first_p + my_p) * p.Q + first_q + my_q] = sum;
    }
    return;
  }

  /* Along the rows: a thread has COLS neighbouring outputs; the window slides four columns at a time. */
  for (int i = threadIdx.x / LANES_Q; i < height; i += THREADS / LANES_Q) {
    const int quad = threadIdx.x % LANES_Q * 2;
    float sum[COLS] = {};
    __align__(16) float window[COLS + 4];
    *(float4 *)&window[4] = QUAD(i, quad);
    *(float4 *)&window[8] = QUAD(i, quad + 1);
    for (int s = 0; s < pitch; s += 4) {
#pragma unroll
      for (int j = 0; j < COLS; j++) window[j] = window[j + 4];
      *(float4 *)&window[8] = QUAD(i, quad + s / 4 + 2);
      const float4 four = along[s / 4];
#pragma unroll
      for (int j = 0; j < COLS; j++) {
        sum[j] += window[j] * four.x;
        sum[j] += window[j + 1] * four.y;
        sum[j] += window[j + 2] * four.z;
        sum[j] += window[j + 3] * four.w;
      }
    }
    middle[i * BQ / 4 + quad] = make_float4(sum[0], sum[1], sum[2], sum[3]);
    middle[i * BQ / 4 + quad + 1] = make_float4(sum[4], sum[5], sum[6], sum[7]);
  }
  __syncthreads();

  /* Down the columns: a thread has a quad of columns and ROWS rows. */
  const int my_q = threadIdx.x % (BQ / 4), my_p = threadIdx.x / (BQ / 4) * ROWS;
  float4 sum[ROWS] = {};
  for (int h = 0; h < ROWS + p.R - 1; h++) {
    const float4 four = middle[(my_p + h) * BQ / 4 + my_q];
#pragma unroll
    for (int i = 0; i < ROWS; i++) {
      const int r = h - i; /* this row lies under u[r] of my output row i */
      if (r < 0 || r >= p.R) continue;
      sum[i].x += four.x * down[r];
      sum[i].y += four.y * down[r];
      sum[i].z += four.z * down[r];
      sum[i].w += four.w * down[r];
    }
  }
#pragma unroll
  for (int i = 0; i < ROWS; i++) {
    const float out[4] = {sum[i].x, sum[i].y, sum[i].z, sum[i].w};
#pragma unroll
    for (int j = 0; j < 4; j++) {
      const int out_p = first_p + my_p + i, out_q = first_q + my_q * 4 + j;
      if (out_p < p.P && out_q < p.Q) y[((int64_t)plane * p.P + out_p) * p.Q + out_q] = out[j];
    }
  }
}

/* ---------------------------------------------------------------- host */

static size_t shared_bytes(const conv_problem *p) {
  const size_t height = (size_t)(BP + p->R - 1);
  return ((size_t)row_pitch(p->S) / 4 + height * 2 * (size_t)half_quads(p->S) + height * BQ / 4) * sizeof(float4) + (size_t)p->R * sizeof(float);
}

/* What a launch needs. */
typedef struct separable_launch {
  int blocks;
  size_t bytes;
} separable_launch;

static const char *plan_fprop(const conv_operation *o, const conv_device *device, conv_plan *plan) {
  const conv_problem *p = &o->problem;
  if (p->C != p->groups) return "more than one input channel per output channel";
  if (p->stride_h != 1 || p->stride_w != 1 || p->dil_h != 1 || p->dil_w != 1) return "stride or dilation is not 1";
  if (p->R > 1024 || p->S > 1024 || shared_bytes(p) > device->shared_per_block) return "the pixels under a block exceed the shared memory";
  const char *why = plain_plan(o, device, plan);
  if (why) return why;
  separable_launch *l = plan_data<separable_launch>(plan);
  l->bytes = shared_bytes(p);
  l->blocks = p->N * p->K * ((p->P + BP - 1) / BP) * ((p->Q + BQ - 1) / BQ);
  plan->workspace_bytes = (size_t)p->K * (size_t)factor_floats(*p) * sizeof(float);
  const cudaError_t status = plan_allow_shared((const void *)separable_kernel, l->bytes);
  return status ? plan_failed(plan, status) : NULL;
}

static cudaError_t launch_fprop(const conv_plan *plan, const conv_buffers *b, cudaStream_t stream) {
  const conv_problem &p = plan->operation.problem;
  const separable_launch *l = plan_data<separable_launch>(plan);
  float *factors = (float *)b->workspace;
  factor_kernel<<<p.K, THREADS, 0, stream>>>(p, (const float *)b->w, factors);
  separable_kernel<<<l->blocks, THREADS, l->bytes, stream>>>(p, (const float *)b->x, (const float *)b->w, factors, (float *)b->y);
  return cudaGetLastError();
}

/* One chain of S terms inside one of R, and factors off by up to four roundings; the plain chain where the filter does not factor. */
static double growth(const conv_problem *p, bool random) {
  const double factored = p->R + p->S + 4.0, plain = (double)problem_terms(p, PASS_FPROP);
  return growth_chain_fp32(factored > plain ? factored : plain, random);
}

NCHW_ROW(separable_fprop, "04c", "separable filters in two passes, if they are", PASS_FPROP, plan_fprop, launch_fprop, growth);
