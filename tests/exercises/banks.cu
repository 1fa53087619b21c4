/* A solution of exercise banks: rows of 33 and 36 floats, and a warp copies 8 channels of 4 filters. */
#include <cuda_runtime.h>

#include "common/exercise/exercise.h"

enum { THREADS = 256, PIXELS = 32, FILTERS = 32, CHANNELS = 32, EACH = 4 }; /* of a block; EACH: filters of a thread */
enum { PIXEL_PITCH = CHANNELS + 1, FILTER_PITCH = FILTERS + 4 };

/* y[n,p,q,k] = sum over r,s,c of x[n,h,w,c] * w[k,r,s,c]
 * x: [N][H][W][C]   w: [K][R][S][C / groups]   y: [N][P][Q][K] */
__global__ void __launch_bounds__(THREADS) my_fprop_kernel(conv_problem p, const float *x, const float *w, float *y) {
  __shared__ float pixels[PIXELS][PIXEL_PITCH];                 /* read by a warp: 4 pixels, banks 0 1 2 3 behind each other */
  __shared__ alignas(16) float filters[CHANNELS][FILTER_PITCH]; /* written by a warp: 8 channels, 4 banks apart, of 4 filters */
  const int group_c = p.C / p.groups, group_k = p.K / p.groups, tiles_k = (group_k + FILTERS - 1) / FILTERS;
  const int group = blockIdx.x / tiles_k % p.groups, first_k = blockIdx.x % tiles_k * FILTERS;
  const int all_pixels = p.N * p.P * p.Q, first_pixel = blockIdx.x / tiles_k / p.groups * PIXELS;
  const int my_k = threadIdx.x % (FILTERS / EACH) * EACH, my_pixel = threadIdx.x / (FILTERS / EACH);

  float sum[EACH] = {};
  for (int r = 0; r < p.R; r++)
    for (int s = 0; s < p.S; s++)
      for (int first_c = 0; first_c < group_c; first_c += CHANNELS) {
        for (int i = threadIdx.x; i < PIXELS * CHANNELS; i += THREADS) {
          const int c = i % CHANNELS, m = i / CHANNELS, pixel = first_pixel + m;
          const int in_h = pixel / p.Q % p.P * p.stride_h - p.pad_top + r * p.dil_h;
          const int in_w = pixel % p.Q * p.stride_w - p.pad_left + s * p.dil_w, n = pixel / p.Q / p.P;
          const bool inside = pixel < all_pixels && in_h >= 0 && in_h < p.H && in_w >= 0 && in_w < p.W && first_c + c < group_c;
          pixels[m][c] = inside ? x[((n * p.H + in_h) * p.W + in_w) * p.C + group * group_c + first_c + c] : 0;
        }
        for (int i = threadIdx.x; i < FILTERS * CHANNELS; i += THREADS) {
          const int c = i / 32 % (CHANNELS / 8) * 8 + i % 8, k = i / 32 / (CHANNELS / 8) * 4 + i / 8 % 4;
          const bool exists = first_k + k < group_k && first_c + c < group_c;
          filters[c][k] = exists ? w[(((group * group_k + first_k + k) * p.R + r) * p.S + s) * group_c + first_c + c] : 0;
        }
        __syncthreads(); /* pixels and filters are there */
        for (int c = 0; c < CHANNELS; c++) {
          const float pixel = pixels[my_pixel][c];
          const float4 filter = *(const float4 *)&filters[c][my_k];
          sum[0] += pixel * filter.x;
          sum[1] += pixel * filter.y;
          sum[2] += pixel * filter.z;
          sum[3] += pixel * filter.w;
        }
        __syncthreads(); /* nobody reads them any more */
      }
  for (int j = 0; j < EACH; j++)
    if (first_pixel + my_pixel < all_pixels && first_k + my_k + j < group_k) y[(first_pixel + my_pixel) * p.K + group * group_k + first_k + my_k + j] = sum[j];
}

cudaError_t exercise_launch(const conv_problem *p, const conv_buffers *b, cudaStream_t stream) {
  const int tiles_k = (p->K / p->groups + FILTERS - 1) / FILTERS, tiles = (p->N * p->P * p->Q + PIXELS - 1) / PIXELS;
  my_fprop_kernel<<<tiles * p->groups * tiles_k, THREADS, 0, stream>>>(*p, (const float *)b->x, (const float *)b->w, (float *)b->y);
  return cudaGetLastError();
}
