/* A solution of exercise dilated-halo: at stride 1 the rows of a tile lie as far apart as the taps, so its windows share rows. */
#include <cuda_runtime.h>

#include "common/exercise/exercise.h"

enum { TILE_Q = 32, TILE_P = 8, THREADS = TILE_Q * TILE_P };

/* A tile's output rows, and the pixel rows copied for them, lie `gap` apart; counted in these, its windows have this stride and dilation. */
typedef struct halo {
  int gap, stride, dil, height, width;
} halo;

static __host__ __device__ halo halo_of(const conv_problem &p) {
  const bool holes = p.stride_h == 1;
  halo h;
  h.gap = holes ? p.dil_h : 1;
  h.stride = p.stride_h;
  h.dil = holes ? 1 : p.dil_h;
  h.height = (TILE_P - 1) * h.stride + (p.R - 1) * h.dil + 1;
  h.width = (TILE_Q - 1) * p.stride_w + (p.S - 1) * p.dil_w + 1;
  return h;
}

/* y[n,k,p,q] = sum over c,r,s of x[n,c,h,w] * w[k,c,r,s]
 * x: [N][C][H][W]   w: [K][C / groups][R][S]   y: [N][K][P][Q] */
__global__ void __launch_bounds__(THREADS) my_fprop_kernel(conv_problem p, const float *x, const float *w, float *y) {
  extern __shared__ float tile[]; /* [height][width], one channel; then [R][S], its filter */
  const halo h = halo_of(p);
  float *filter = tile + h.height * h.width;
  const int tiles_q = (p.Q + TILE_Q - 1) / TILE_Q, tiles_p = (p.P + TILE_P * h.gap - 1) / (TILE_P * h.gap) * h.gap;
  const int tile_p = blockIdx.x / tiles_q % tiles_p;
  const int first_q = blockIdx.x % tiles_q * TILE_Q;
  const int first_p = tile_p / h.gap * TILE_P * h.gap + tile_p % h.gap;
  const int k = blockIdx.x / tiles_q / tiles_p % p.K;
  const int n = blockIdx.x / tiles_q / tiles_p / p.K;
  const int first_h = first_p * p.stride_h - p.pad_top, first_w = first_q * p.stride_w - p.pad_left;
  const int out_q = first_q + threadIdx.x, out_p = first_p + threadIdx.y * h.gap;

  const int group_c = p.C / p.groups, first_c = k / (p.K / p.groups) * group_c;
  float sum = 0;
  for (int c = 0; c < group_c; c++) {
    const float *image = x + (n * p.C + first_c + c) * p.H * p.W;
    for (int i = threadIdx.y; i < h.height; i += TILE_P)
      for (int j = threadIdx.x; j < h.width; j += TILE_Q) {
        const int in_h = first_h + i * h.gap, in_w = first_w + j;
        const bool inside = in_h >= 0 && in_h < p.H && in_w >= 0 && in_w < p.W;
        tile[i * h.width + j] = inside ? image[in_h * p.W + in_w] : 0;
      }
    for (int i = threadIdx.y * TILE_Q + threadIdx.x; i < p.R * p.S; i += THREADS) filter[i] = w[(k * group_c + c) * p.R * p.S + i];
    __syncthreads(); /* pixels and filter are there */
    for (int r = 0; r < p.R; r++)
      for (int s = 0; s < p.S; s++) sum += tile[(threadIdx.y * h.stride + r * h.dil) * h.width + threadIdx.x * p.stride_w + s * p.dil_w] * filter[r * p.S + s];
    __syncthreads(); /* nobody reads them any more */
  }
  if (out_p < p.P && out_q < p.Q) y[((n * p.K + k) * p.P + out_p) * p.Q + out_q] = sum;
}

cudaError_t exercise_launch(const conv_problem *p, const conv_buffers *b, cudaStream_t stream) {
  const halo h = halo_of(*p);
  const int tiles_q = (p->Q + TILE_Q - 1) / TILE_Q, tiles_p = (p->P + TILE_P * h.gap - 1) / (TILE_P * h.gap) * h.gap;
  const size_t bytes = (h.height * h.width + p->R * p->S) * sizeof(float);
  my_fprop_kernel<<<p->N * p->K * tiles_p * tiles_q, dim3(TILE_Q, TILE_P), bytes, stream>>>(*p, (const float *)b->x, (const float *)b->w, (float *)b->y);
  return cudaGetLastError();
}
