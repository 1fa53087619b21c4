/* Exercise swizzle: a swizzle for rows of 64 bytes.
 *
 * Given:  06b in small: stages of 32 channels in shared memory, fragments by ldmatrix, results through shared memory. Nothing is permuted: ldmatrix reads eight
 *         rows, and they lie in the banks of two; so do the stores of results, in the banks of one.
 * Task:   permute the chunks of each row so that no access to shared memory has a bank conflict, without a byte more of it.
 * Layout: NHWC, filters KRSC, fp16 with fp32 sums. Channels and filters of a group: multiples of 8.
 * Level:  two of three stars, about 40 minutes.
 * Grade:  make exercise-swizzle       (docs/exercises.md has the text) */
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "common/exercise/exercise.h"
#include "common/ptx/ptx.cuh"

enum { CHUNK = 8 /* halves of 16 bytes */, BM = 64, BN = 64, BK = 32, THREADS = 128, WARP_M = 32, WARP_N = 32 };

/* ================================================================ your part begins here */

/* Bytes of a row of a stage, BK channels; and of a row of results, BN filters. */
static constexpr int STAGE_ROW = 2 * BK, RESULT_ROW = 2 * BN, SHARED = (BM + BN) * STAGE_ROW;

/* Where a chunk of 8 channels lies: `row` of the BM pixels or of the BN filters. */
static __device__ __forceinline__ int stage_place(int row, int chunk) { return row * STAGE_ROW + chunk * 16; }

/* Where a chunk of 8 filters' results lies. */
static __device__ __forceinline__ int result_place(int pixel, int chunk) { return pixel * RESULT_ROW + chunk * 16; }

/* ================================================================ your part ends here */

static_assert(BM * RESULT_ROW <= SHARED, "results take the place of the stage");

/* Of x, 8 channels of a window: of `pixel`, from the term l on; x: the group's first channel. */
static __device__ uint4 window_chunk(const conv_problem &p, const __half *x, int pixel, int l) {
  const int group_c = p.C / p.groups, c = l % group_c, s = l / group_c % p.S, r = l / group_c / p.S;
  const int n = pixel / (p.P * p.Q), in_h = pixel / p.Q % p.P * p.stride_h - p.pad_top + r * p.dil_h,
            in_w = pixel % p.Q * p.stride_w - p.pad_left + s * p.dil_w;
  const bool inside = in_h >= 0 && in_h < p.H && in_w >= 0 && in_w < p.W;
  return inside ? *(const uint4 *)&x[((n * p.H + in_h) * p.W + in_w) * p.C + c] : make_uint4(0, 0, 0, 0);
}

/* A block: BM pixels, counted over all images, x BN filters of a group. A warp: WARP_M x WARP_N.
 * x: [N][H][W][C]   w: [K][R][S][C / groups]   y: [N][P][Q][K] */
__global__ void __launch_bounds__(THREADS) my_fprop_kernel(conv_problem p, const __half *x, const __half *w, __half *y) {
  __shared__ __align__(128) unsigned char shared[SHARED];
  unsigned char *const of_w = shared + BM * STAGE_ROW;
  const int group_k = p.K / p.groups, tiles_k = (group_k + BN - 1) / BN, terms = p.C / p.groups * p.R * p.S, pixels = p.N * p.P * p.Q;
  const int group = blockIdx.x / tiles_k % p.groups, first_k = blockIdx.x % tiles_k * BN, first_pixel = blockIdx.x / tiles_k / p.groups * BM;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, my_pixel = warp / 2 * WARP_M, my_k = warp % 2 * WARP_N;
  x += group * (p.C / p.groups);
  w += group * group_k * terms;

  float sum[WARP_M / 16][WARP_N / 8][4] = {};
  for (int first = 0; first < terms; first += BK) {
    for (int i = threadIdx.x; i < BM * BK / CHUNK; i += THREADS) {
      const int row = i / (BK / CHUNK), chunk = i % (BK / CHUNK), l = first + chunk * CHUNK;
      const bool there = l < terms && first_pixel + row < pixels;
      *(uint4 *)(shared + stage_place(row, chunk)) = there ? window_chunk(p, x, first_pixel + row, l) : make_uint4(0, 0, 0, 0);
    }
    for (int i = threadIdx.x; i < BN * BK / CHUNK; i += THREADS) {
      const int row = i / (BK / CHUNK), chunk = i % (BK / CHUNK), l = first + chunk * CHUNK;
      const bool there = l < terms && first_k + row < group_k;
      *(uint4 *)(of_w + stage_place(row, chunk)) = there ? *(const uint4 *)&w[(first_k + row) * terms + l] : make_uint4(0, 0, 0, 0);
    }
    __syncthreads(); /* the stage is there */
#pragma unroll
    for (int l = 0; l < BK / CHUNK; l += 2) { /* 16 channels */
      unsigned a[WARP_M / 16][4], b[WARP_N / 16][4];
#pragma unroll
      for (int i = 0; i < WARP_M / 16; i++) ptx_ldmatrix_x4(a[i], ptx_shared_address(shared + stage_place(my_pixel + 16 * i + lane % 16, l + lane / 16)));
#pragma unroll
      for (int j = 0; j < WARP_N / 16; j++)
        ptx_ldmatrix_x4(b[j], ptx_shared_address(of_w + stage_place(my_k + 16 * j + lane % 8 + lane / 16 * 8, l + lane / 8 % 2)));
#pragma unroll
      for (int i = 0; i < WARP_M / 16; i++)
#pragma unroll
        for (int j = 0; j < WARP_N / 8; j++) {
          const unsigned two[2] = {b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]};
          ptx_mma_m16n8k16(sum[i][j], a[i], two);
        }
    }
    __syncthreads(); /* nobody reads it any more */
  }

#pragma unroll
  for (int i = 0; i < WARP_M / 16; i++)
#pragma unroll
    for (int j = 0; j < WARP_N / 8; j++)
#pragma unroll
      for (int half = 0; half < 2; half++) {
        const int place = result_place(my_pixel + 16 * i + 8 * half + lane / 4, my_k / CHUNK + j);
        *(__half2 *)(shared + place + lane % 4 * 4) = __floats2half2_rn(sum[i][j][2 * half], sum[i][j][2 * half + 1]);
      }
  __syncthreads(); /* the results are there */
  for (int i = threadIdx.x; i < BM * BN / CHUNK; i += THREADS) {
    const int pixel = i / (BN / CHUNK), chunk = i % (BN / CHUNK), k = first_k + chunk * CHUNK;
    if (first_pixel + pixel < pixels && k < group_k)
      *(uint4 *)&y[(first_pixel + pixel) * p.K + group * group_k + k] = *(const uint4 *)(shared + result_place(pixel, chunk));
  }
}

cudaError_t exercise_launch(const conv_problem *p, const conv_buffers *b, cudaStream_t stream) {
  const int tiles_k = (p->K / p->groups + BN - 1) / BN, tiles = (p->N * p->P * p->Q + BM - 1) / BM;
  my_fprop_kernel<<<tiles * p->groups * tiles_k, THREADS, 0, stream>>>(*p, (const __half *)b->x, (const __half *)b->w, (__half *)b->y);
  return cudaGetLastError();
}
