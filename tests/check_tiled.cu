/* Kernels that a checker has something to look at in: a convolution with a halo in shared memory, a transpose in dynamic shared memory, an
 * exchange within a warp, a float4 copy, a sum over blocks. As they stand here all are right. tests/check_planted.sh breaks copies of
 * this file, one line at a time, and wants each defect found. */
#include <cuda_runtime.h>
#include <stdlib.h>
#include <string.h>

#include "tests/tap.h"

enum { TILE_P = 8, TILE_Q = 16, R = 3, S = 3, PAD = 1, PITCH = TILE_Q + S - 1, SIDE = 16 };

/* y[k,p,q] = sum over c,r,s of x[c,h,w] * f[k,c,r,s]; a block computes TILE_P x TILE_Q outputs of one k. */
__global__ void tiled(int C, int H, int W, const float *x, const float *f, float *y) {
  __shared__ float tile[TILE_P + R - 1][PITCH];
  __shared__ float filter[R][S];
  const int p = blockIdx.y * TILE_P + threadIdx.y, q = blockIdx.x * TILE_Q + threadIdx.x, k = blockIdx.z;
  const int top = blockIdx.y * TILE_P - PAD, left = blockIdx.x * TILE_Q - PAD;
  float sum = 0;
  for (int c = 0; c < C; c++) {
    for (int row = threadIdx.y; row < TILE_P + R - 1; row += TILE_P)
      for (int column = threadIdx.x; column < PITCH; column += TILE_Q) {
        const int h = top + row, w = left + column;
        float value = 0;
        if (h >= 0 && h < H && w >= 0 && w < W) value = x[(c * H + h) * W + w];
        tile[row][column] = value;
      }
    if (threadIdx.y < R && threadIdx.x < S) filter[threadIdx.y][threadIdx.x] = f[((k * C + c) * R + threadIdx.y) * S + threadIdx.x];
    __syncthreads(); /* the tile is complete */
    for (int r = 0; r < R; r++)
      for (int s = 0; s < S; s++) sum += tile[threadIdx.y + r][threadIdx.x + s] * filter[r][s];
    __syncthreads(); /* nobody needs it any more */
  }
  if (p < H && q < W) y[(k * H + p) * W + q] = sum;
}

/* y = x transposed, n x n; the launch brings SIDE * (SIDE + 1) floats. */
__global__ void transpose(const float *x, float *y, int n) {
  extern __shared__ float side[];
  const int row = blockIdx.y * SIDE + threadIdx.y, column = blockIdx.x * SIDE + threadIdx.x;
  if (row < n && column < n) side[threadIdx.y * (SIDE + 1) + threadIdx.x] = x[row * n + column];
  __syncthreads();
  const int to_row = blockIdx.x * SIDE + threadIdx.y, to_column = blockIdx.y * SIDE + threadIdx.x;
  if (to_row < n && to_column < n) y[to_row * n + to_column] = side[threadIdx.x * (SIDE + 1) + threadIdx.y];
}

/* Every lane gets its right neighbour's value, round the warp, through shared memory. */
__global__ void neighbour(const float *x, float *y) {
  __shared__ float line[64];
  const int lane = threadIdx.x % 32, first = threadIdx.x - lane;
  line[threadIdx.x] = x[threadIdx.x];
  __syncwarp();
  y[threadIdx.x] = line[first + (lane + 1) % 32];
}

__global__ void copy4(const float *x, float *y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (4 * i < n) ((float4 *)y)[i] = ((const float4 *)x)[i];
}

/* *total += the sum of x */
__global__ void sum_blocks(const float *x, int n, float *total) {
  float sum = 0;
  for (int i = blockIdx.x; i < n; i += gridDim.x) sum += x[i];
  atomicAdd(total, sum);
}

/* ---- against loops on the host ---- */

static float *numbers(int n, unsigned seed) {
  float *h = (float *)malloc(n * sizeof(float));
  for (int i = 0; i < n; i++) h[i] = (float)((seed = seed * 1664525u + 1013904223u) >> 29);
  return h;
}

static float *on_device(const float *h, int n) {
  float *d = nullptr;
  cudaMalloc(&d, n * sizeof(float));
  if (h != nullptr) cudaMemcpy(d, h, n * sizeof(float), cudaMemcpyHostToDevice);
  return d;
}

/* Whether the device has these n numbers. */
static int equal(const float *d, const float *expected, int n) {
  float *h = (float *)malloc(n * sizeof(float));
  const cudaError_t error = cudaMemcpy(h, d, n * sizeof(float), cudaMemcpyDeviceToHost);
  if (error != cudaSuccess) diag("%s", cudaGetErrorString(error));
  const int same = error == cudaSuccess && memcmp(h, expected, n * sizeof(float)) == 0;
  free(h);
  return same;
}

static void test_tiled() {
  const int C = 3, K = 2, H = 19, W = 37;
  float *x = numbers(C * H * W, 1), *f = numbers(K * C * R * S, 2), *y = (float *)calloc(K * H * W, sizeof(float));
  for (int k = 0; k < K; k++)
    for (int i = 0; i < C * R * S * H * W; i++) {
      const int w = i % W, h = i / W % H, s = i / W / H % S, r = i / W / H / S % R, c = i / W / H / S / R, p = h + PAD - r, q = w + PAD - s;
      if (p >= 0 && p < H && q >= 0 && q < W) y[(k * H + p) * W + q] += x[(c * H + h) * W + w] * f[((k * C + c) * R + r) * S + s];
    }
  float *dx = on_device(x, C * H * W), *df = on_device(f, K * C * R * S), *dy = on_device(nullptr, K * H * W);
  const dim3 grid((W + TILE_Q - 1) / TILE_Q, (H + TILE_P - 1) / TILE_P, K);
  tiled<<<grid, dim3(TILE_Q, TILE_P)>>>(C, H, W, dx, df, dy);
  ok(equal(dy, y, K * H * W), "a convolution with a halo in shared memory");
}

static void test_others() {
  const int N = 40;
  float *x = numbers(N * N, 3), *y = (float *)malloc(N * N * sizeof(float));
  float *dx = on_device(x, N * N), *dy = on_device(nullptr, N * N), *total = on_device(nullptr, 1);
  for (int i = 0; i < N * N; i++) y[i] = x[i % N * N + i / N];
  transpose<<<dim3((N + SIDE - 1) / SIDE, (N + SIDE - 1) / SIDE), dim3(SIDE, SIDE), SIDE *(SIDE + 1) * sizeof(float)>>>(dx, dy, N);
  ok(equal(dy, y, N * N), "a transpose in dynamic shared memory");
  for (int i = 0; i < 64; i++) y[i] = x[i / 32 * 32 + (i + 1) % 32];
  neighbour<<<1, 64>>>(dx, dy);
  ok(equal(dy, y, 64), "an exchange within a warp");
  copy4<<<(N * N / 4 + 63) / 64, 64>>>(dx, dy, N * N);
  ok(equal(dy, x, N * N), "a float4 copy");
  float sum = 0;
  for (int i = 0; i < N * N; i++) sum += x[i];
  cudaMemset(total, 0, sizeof(float));
  sum_blocks<<<5, 1>>>(dx, N * N, total);
  ok(equal(total, &sum, 1), "a sum over blocks by atomics");
}

int main() {
  test_tiled();
  test_others();
  return done_testing();
}
