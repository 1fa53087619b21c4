/* 06b: fragments by hand: mma.sync, ldmatrix, a swizzle, and copies that run ahead.
 *
 * Terms:    mma.sync, ldmatrix, XOR swizzle, multistage pipeline (cp.async).
 * Idea:     four. A warp multiplies 64 pixels x 64 filters by mma.m16n8k16 on registers whose layout the manual draws, so that an 8 x 8 part that was loaded
 *           serves eight products. Copies to shared memory are asynchronous and STAGES - 1 stages ahead. Rows of a stage are 128 bytes without padding: chunk j of
 *           row i, 16 bytes, lies at place j ^ i % 8, so that both a copy's eight chunks of a row and ldmatrix's eight rows of a chunk are in eight
 *           different places of the banks. And the reduction counts chunks of 8 channels, tap after tap, so that a stage of 8 chunks is full however few
 *           channels there are; where they are no multiple of 8, the last chunk of a tap ends in zeros.
 * Change:   against 06a the fragments, the swizzle, the stages, and how the reduction is counted.
 * Expect:   a step of 16 channels is 8 ldmatrix of 512 bytes, 32 clocks of shared memory, for 32 mma, 50 clocks of the tensor cores at the rate of calibrate's
 *           mma.sync loop; two blocks of 4 warps hide each other's waits. 60 % of that rate: 360 TFLOP/s.
 * Passes:   fprop. Layout: NHWC, filters KRSC, fp16 with fp32 sums. Any channel count (not a multiple of 8: copied half by half). R + S up to 32. */
#include <cuda_fp16.h>
#include <cuda_pipeline.h>
#include <cuda_runtime.h>
#include <stdio.h>

#include "common/harness/plain.h"
#include "common/ptx/ptx.cuh"

enum { BM = 128, STAGES = 3, CHUNK = 8 /* halves of 16 bytes */, CHUNKS = 8 /* of a row */, ROW = 16 * CHUNKS, BK = CHUNK * CHUNKS, THREADS = 128 };
enum { WARP_M = 64, LANES = THREADS / CHUNKS, ROWS = BM / LANES, OUTSIDE = -1 }; /* a thread copies the same chunk of ROWS pixels */

/* Where the chunk of a row lies, in bytes. */
static __device__ __forceinline__ unsigned swizzled(int row, int chunk) { return row * ROW + (chunk ^ row % CHUNKS) * 16; }

/* Of one pixel: where its window begins in x, and which rows (bit r) and columns (bit R + s) of it lie outside the image. */
typedef struct window {
  int at;
  unsigned outside;
} window;

static __device__ __forceinline__ window window_of(const conv_problem &p, int pixel) {
  const int image = p.P * p.Q, n = pixel / image, in_h = pixel / p.Q % p.P * p.stride_h - p.pad_top, in_w = pixel % p.Q * p.stride_w - p.pad_left;
  if (n >= p.N) return {0, (unsigned)OUTSIDE};
  window v = {((n * p.H + in_h) * p.W + in_w) * p.C, 0};
  for (int r = 0; r < p.R; r++)
    if (in_h + r * p.dil_h < 0 || in_h + r * p.dil_h >= p.H) v.outside |= 1u << r;
  for (int s = 0; s < p.S; s++)
    if (in_w + s * p.dil_w < 0 || in_w + s * p.dil_w >= p.W) v.outside |= 1u << (p.R + s);
  return v;
}

/* A thread's chunk in the reduction: its tap and its first channel. */
typedef struct place {
  int r, s, c;
} place;

static __device__ __forceinline__ place next_stage(const conv_problem &p, place l, int padded_c) {
  for (l.c += BK; l.c >= padded_c && l.r < p.R; l.c -= padded_c) {
    l.s++;
    if (l.s == p.S) l.s = 0, l.r++;
  }
  return l;
}

/* A chunk to shared memory: whole and asynchronous; or half by half, `count` of them and zeros. */
template <bool WHOLE> static __device__ __forceinline__ void copy_chunk(unsigned char *to, const __half *from, int count) {
  if constexpr (WHOLE) {
    ptx_cp_async<16>(ptx_shared_address(to), from, count <= 0);
  } else {
    unsigned short half[CHUNK];
#pragma unroll
    for (int e = 0; e < CHUNK; e++) half[e] = e < count ? __half_as_ushort(from[e]) : 0;
    unsigned two[CHUNK / 2];
#pragma unroll
    for (int e = 0; e < CHUNK / 2; e++) two[e] = half[2 * e] | (unsigned)half[2 * e + 1] << 16;
    *(uint4 *)to = make_uint4(two[0], two[1], two[2], two[3]);
  }
}

/* A block: BM pixels, counted over all images, x BN filters of a group. A warp: 64 x BN / 2. */
template <int BN, bool WHOLE>
__global__ void __launch_bounds__(THREADS, 2) mma_kernel(conv_problem p, const __half *__restrict__ x, const __half *__restrict__ w, __half *__restrict__ y) {
  constexpr int WARP_N = BN / 2, STAGE = (BM + BN) * ROW, M = WARP_M / 16, N = WARP_N / 8;
  extern __shared__ __align__(128) unsigned char shared[];
  const int group_c = p.C / p.groups, padded_c = (group_c + CHUNK - 1) / CHUNK * CHUNK, group_k = p.K / p.groups, tiles_k = (group_k + BN - 1) / BN;
  const int group = blockIdx.x / tiles_k % p.groups, first_k = blockIdx.x % tiles_k * BN, first_pixel = blockIdx.x / tiles_k / p.groups * BM;
  const int chunk = threadIdx.x % CHUNKS, row = threadIdx.x / CHUNKS, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int my_pixel = warp / 2 * WARP_M, my_k = warp % 2 * WARP_N, taps = p.R * p.S;
  const int steps = (taps * padded_c + BK - 1) / BK;
  x += group * group_c;
  w += (group * group_k + first_k) * taps * group_c;

  window pixels[ROWS];
#pragma unroll
  for (int i = 0; i < ROWS; i++) pixels[i] = window_of(p, first_pixel + row + i * LANES);
  place to_copy = next_stage(p, {0, 0, chunk * CHUNK - BK}, padded_c);

  /* The next stage of the reduction, to stage `number` of shared memory. */
  auto copy_stage = [&](int number) {
    unsigned char *const a = shared + number * STAGE, *const b = a + BM * ROW;
    const int tap = to_copy.r * p.S + to_copy.s, left = to_copy.r < p.R ? group_c - to_copy.c : 0;
    const int step = (to_copy.r * p.dil_h * p.W + to_copy.s * p.dil_w) * p.C + to_copy.c;
#pragma unroll
    for (int i = 0; i < ROWS; i++) {
      const bool inside = left > 0 && ((pixels[i].outside >> to_copy.r | pixels[i].outside >> (p.R + to_copy.s)) & 1) == 0;
      copy_chunk<WHOLE>(a + swizzled(row + i * LANES, chunk), inside ? x + pixels[i].at + step : x, inside ? left : 0);
    }
#pragma unroll
    for (int i = 0; i < BN / LANES; i++) {
      const int k = row + i * LANES, count = first_k + k < group_k ? left : 0;
      copy_chunk<WHOLE>(b + swizzled(k, chunk), count > 0 ? w + (k * taps + tap) * group_c + to_copy.c : w, count);
    }
    to_copy = next_stage(p, to_copy, padded_c);
  };

  float sum[M][N][4] = {};
#pragma unroll
  for (int i = 0; i < STAGES - 1; i++) {
    copy_stage(i);
    __pipeline_commit();
  }
  for (int step = 0; step < steps; step++) {
    __pipeline_wait_prior(STAGES - 2);
    __syncthreads(); /* the stage is there; and nobody reads the one before it any more */
    copy_stage((step + STAGES - 1) % STAGES);
    __pipeline_commit();
    const ptx_shared a = ptx_shared_address(shared) + step % STAGES * STAGE, b = a + BM * ROW;
#pragma unroll
    for (int l = 0; l < CHUNKS; l += 2) { /* 16 channels */
      unsigned of_pixels[M][4], of_filters[N / 2][4];
#pragma unroll
      for (int i = 0; i < M; i++) ptx_ldmatrix_x4(of_pixels[i], a + swizzled(my_pixel + 16 * i + lane % 16, l + lane / 16));
#pragma unroll
      for (int j = 0; j < N / 2; j++) ptx_ldmatrix_x4(of_filters[j], b + swizzled(my_k + 16 * j + lane % 8 + lane / 16 * 8, l + lane / 8 % 2));
#pragma unroll
      for (int i = 0; i < M; i++)
#pragma unroll
        for (int j = 0; j < N; j++) {
          const unsigned two[2] = {of_filters[j / 2][j % 2 * 2], of_filters[j / 2][j % 2 * 2 + 1]};
          ptx_mma_m16n8k16(sum[i][j], of_pixels[i], two);
        }
    }
  }

  /* Results through shared memory, [pixel][BN] in rows of 2 BN bytes, chunks swizzled as before. */
  __pipeline_wait_prior(0);
  __syncthreads(); /* nobody reads or fills a stage any more */
#pragma unroll
  for (int i = 0; i < M; i++)
#pragma unroll
    for (int j = 0; j < N; j++)
#pragma unroll
      for (int half = 0; half < 2; half++) {
        const int pixel = my_pixel + 16 * i + 8 * half + lane / 4, of_row = (my_k / CHUNK + j) ^ pixel % CHUNKS;
        *(__half2 *)(shared + pixel * 2 * BN + of_row * 16 + lane % 4 * 4) = __floats2half2_rn(sum[i][j][2 * half], sum[i][j][2 * half + 1]);
      }
  __syncthreads();
  const bool whole = p.K % CHUNK == 0 && group_k % CHUNK == 0;
  for (int i = threadIdx.x; i < BM * BN / CHUNK; i += THREADS) {
    const int pixel = i / (BN / CHUNK), j = i % (BN / CHUNK), k = first_k + j * CHUNK;
    if (first_pixel + pixel >= p.N * p.P * p.Q || k >= group_k) continue;
    const unsigned char *const from = shared + pixel * 2 * BN + (j ^ pixel % CHUNKS) * 16;
    __half *const to = y + (first_pixel + pixel) * p.K + group * group_k + k;
    if (whole) *(uint4 *)to = *(const uint4 *)from;
    else
      for (int e = 0; e < CHUNK && k + e < group_k; e++) to[e] = ((const __half *)from)[e];
  }
}

/* ---------------------------------------------------------------- host */

typedef struct instance {
  int bn;
  bool whole;
  void (*kernel)(conv_problem p, const __half *x, const __half *w, __half *y);
} instance;

static const instance instances[] = {{64, true, mma_kernel<64, true>}, {128, true, mma_kernel<128, true>}, {64, false, mma_kernel<64, false>}};

typedef struct mma_plan {
  const instance *row;
  int blocks, shared;
} mma_plan;

static const char *plan_fprop(const conv_operation *o, const conv_device *device, conv_plan *plan) {
  const conv_problem *p = &o->problem;
  const char *why = plain_unsupported(p, device);
  if (why) return why;
  if (p->R + p->S > 32) return "R + S > 32 (the bits of a window)";
  const bool whole = p->C / p->groups % CHUNK == 0;
  const int group_k = p->K / p->groups, bn = whole && group_k > 64 ? 128 : 64, pixels = p->N * p->P * p->Q;
  const int shared = STAGES * (BM + bn) * ROW;
  if ((size_t)shared > device->shared_per_block) return "three stages do not fit in shared memory";
  const int64_t blocks = (int64_t)((pixels + BM - 1) / BM) * p->groups * ((group_k + bn - 1) / bn);
  if (blocks > INT_MAX) return "2^31 blocks or more";
  const instance *row = instances;
  while (row->bn != bn || row->whole != whole) row++; /* there is one */
  *plan_data<mma_plan>(plan) = {row, (int)blocks, shared};
  snprintf(plan->words, sizeof plan->words, "%d pixels x %d filters, %lld block%s", BM, bn, (long long)blocks, blocks == 1 ? "" : "s");
  const cudaError_t status = plan_allow_shared((const void *)row->kernel, (size_t)shared);
  return status ? plan_failed(plan, status) : NULL;
}

static cudaError_t launch_fprop(const conv_plan *plan, const conv_buffers *b, cudaStream_t stream) {
  const mma_plan *mine = plan_data<mma_plan>(plan);
  mine->row->kernel<<<mine->blocks, THREADS, mine->shared, stream>>>(plan->operation.problem, (const __half *)b->x, (const __half *)b->w, (__half *)b->y);
  return cudaGetLastError();
}

/* An accumulator takes one mma after the other, which adds 16 products and what it was; the last stage's zeros, too. */
static double growth_fprop(const conv_problem *p, bool random) {
  const int padded_c = (p->C / p->groups + CHUNK - 1) / CHUNK * CHUNK;
  const int steps = (p->R * p->S * padded_c + BK - 1) / BK;
  return growth_truncated((double)(steps * (BK / 16) * (16 + 1)), random);
}

NHWC_ROW(mma_fprop, "06b", "mma.sync: fragments by ldmatrix, swizzled stages of cp.async", PASS_FPROP, 80, plan_fprop, launch_fprop, growth_fprop);
