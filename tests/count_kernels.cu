/* Small kernels whose requests, sectors and wavefronts can be worked out by hand. Here their results are checked; tests/count_requests.sh
 * runs the same program in the count build and compares the counts. */
#include <cuda_pipeline.h>
#include <cuda_runtime.h>
#include <stdlib.h>
#include <string.h>

#include "common/tools/calibrate/l1_stride.cuh"
#include "tests/tap.h"

/* One warp column by column: a store of a row has the lanes in 32 banks; a load of a column in one bank with a pitch of 32, in 32 with 33. */
template <int PITCH> __global__ void transpose(const float *x, float *y) {
  __shared__ float tile[32][PITCH];
  for (int i = 0; i < 32; i++) tile[i][threadIdx.x] = x[i * 32 + threadIdx.x];
  __syncwarp();
  for (int i = 0; i < 32; i++) y[i * 32 + threadIdx.x] = tile[threadIdx.x][i];
}

/* 32 lanes x 16 bytes = 16 sectors; through shared memory four quarters of a warp. */
__global__ void copy4(const float4 *x, float4 *y) {
  __shared__ float4 line[64];
  line[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  y[threadIdx.x] = line[threadIdx.x];
}

__global__ void copy2(const float2 *x, float2 *y) {
  __shared__ float2 line[32];
  line[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  y[threadIdx.x] = line[threadIdx.x];
}

/* The same by asynchronous copies; the second warp's read nothing, zeros take their place. */
__global__ void copy_async(const float4 *x, float4 *y) {
  __shared__ float4 line[64];
  __pipeline_memcpy_async(&line[threadIdx.x], &x[threadIdx.x], 16, threadIdx.x < 32 ? 0 : 16);
  __pipeline_commit();
  __pipeline_wait_prior(0);
  __syncthreads();
  y[threadIdx.x] = line[threadIdx.x];
}

__global__ void strided(const float *x, float *y) { y[threadIdx.x] = x[2 * threadIdx.x]; }
__global__ void shifted(const float *x, float *y) { y[threadIdx.x] = x[threadIdx.x + 1]; }
__global__ void broadcast(const float *x, float *y) { y[threadIdx.x] = x[5]; }

/* Every second bank, so two lanes to a bank; then one word for all. */
__global__ void banks(const float *x, float *y) {
  __shared__ float line[64];
  line[2 * threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  y[threadIdx.x] = line[0];
}

/* Odd lanes in one branch, even lanes in the other: two requests of 16 lanes. Then all together again. */
__global__ void divergent(const float *x, float *y) {
  float value = 1;
  if (threadIdx.x % 2) value = x[threadIdx.x];
  else value -= x[threadIdx.x + 32];
  y[threadIdx.x] = value;
}

/* Lane i goes round i times: 31 requests, with 31 lanes, 30, ..., 1. */
__global__ void triangle(const float *x, float *y) {
  float sum = 0;
  for (unsigned i = 0; i < threadIdx.x; i++) sum += x[i];
  y[threadIdx.x] = sum;
}

/* Each lane leaves out one step, each another one: 32 requests of 31 lanes, not 31 of 32. */
__global__ void skipping(const float *x, float *y) {
  float sum = 0;
  for (unsigned i = 0; i < 32; i++)
    if (i != threadIdx.x) sum += x[32 * i + threadIdx.x];
  y[threadIdx.x] = sum;
}

/* Rows of 16 floats: a lane reads 8, 16 bytes of its row. */
__global__ void rows2(const float2 *x, float *y) { y[threadIdx.x] = x[8 * threadIdx.x].y; }
__global__ void rows4(const float4 *x, float *y) { y[threadIdx.x] = x[4 * threadIdx.x].w; }

__global__ void adding(float *total) { atomicAdd(total, 1.0f); }

/* 16 bytes that are aligned to 4: no load of a GPU takes them at once. */
typedef struct four {
  float of[4];
} four;
__global__ void taken_apart(const four *x, four *y) { y[threadIdx.x] = x[threadIdx.x]; }

/* ---- results ---- */

enum { N = 2048 };
static float x[N], y[N];
static float *dx, *dy;

static const float *result(cudaError_t error) {
  if (error != cudaSuccess || cudaMemcpy(y, dy, sizeof y, cudaMemcpyDeviceToHost) != cudaSuccess) exit(1);
  return y;
}

#define EXPECT(n, formula, text)                            \
  do {                                                      \
    int wrong = 0;                                          \
    result(cudaGetLastError());                             \
    for (int i = 0; i < n; i++) wrong += y[i] != (formula); \
    ok(wrong == 0, text);                                   \
  } while (0)

static float sum_to(int n) {
  float sum = 0;
  for (int i = 0; i < n; i++) sum += x[i];
  return sum;
}

static float column_sum(int lane) {
  float sum = 0;
  for (int i = 0; i < 32; i++) sum += i == lane ? 0 : x[32 * i + lane];
  return sum;
}

/* Whether the probe of L1 has found in this lane what it should: the bits of 16 floats, 32 apart, in one word. */
static bool has_each_32nd(int lane, int stride) {
  unsigned want = 0, word;
  for (int i = 0; i < L1_LOADS; i++) {
    memcpy(&word, &x[lane * stride + 32 * i], sizeof word);
    want ^= word;
  }
  return memcmp(&y[lane], &want, sizeof want) == 0;
}

int main() {
  for (int i = 0; i < N; i++) x[i] = (float)(i * 37 % 101);
  if (cudaMalloc(&dx, sizeof x) != cudaSuccess || cudaMalloc(&dy, sizeof y) != cudaSuccess) return 1;
  cudaMemcpy(dx, x, sizeof x, cudaMemcpyHostToDevice);
  cudaMemset(dy, 0, sizeof y);
#ifdef CUDA_EMULATOR
  emu_count_work(2048, "transpose"); /* as if the transpose computed something */
#endif
  transpose<32><<<1, 32>>>(dx, dy);
  EXPECT(1024, x[i % 32 * 32 + i / 32], "transpose, pitch 32");
  transpose<33><<<1, 32>>>(dx, dy);
  EXPECT(1024, x[i % 32 * 32 + i / 32], "transpose, pitch 33");
  copy4<<<1, 64>>>((const float4 *)dx, (float4 *)dy);
  EXPECT(256, x[i], "float4 copy");
  copy2<<<1, 32>>>((const float2 *)dx, (float2 *)dy);
  EXPECT(64, x[i], "float2 copy");
  strided<<<1, 32>>>(dx, dy);
  EXPECT(32, x[2 * i], "stride 2");
  shifted<<<1, 32>>>(dx, dy);
  EXPECT(32, x[i + 1], "shifted by one element");
  broadcast<<<1, 48>>>(dx, dy);
  EXPECT(48, x[5], "broadcast to a warp and a half");
  banks<<<1, 32>>>(dx, dy);
  EXPECT(32, x[0], "bank conflicts");
  divergent<<<1, 32>>>(dx, dy);
  EXPECT(32, i % 2 ? x[i] : 1 - x[i + 32], "two branches");
  triangle<<<1, 32>>>(dx, dy);
  EXPECT(32, sum_to(i), "loops of different length");
  skipping<<<1, 32>>>(dx, dy);
  EXPECT(32, column_sum(i), "a step left out");
  copy_async<<<1, 64>>>((const float4 *)dx, (float4 *)dy);
  EXPECT(256, i < 128 ? x[i] : 0, "asynchronous copies");
  rows2<<<1, 32>>>((const float2 *)dx, dy);
  EXPECT(32, x[16 * i + 1], "rows of 64 bytes, 8 of each");
  rows4<<<1, 32>>>((const float4 *)dx, dy);
  EXPECT(32, x[16 * i + 3], "rows of 64 bytes, 16 of each");
  static const int strides[] = {1, 2, 4, 8, 9, 16, 32, 33};
  for (size_t i = 0; i < sizeof strides / sizeof *strides; i++) {
    const int stride = strides[i]; /* so many bytes of shared memory, too: launches that are alike are counted once */
    l1_stride_kernel<<<1, 32, stride>>>((const unsigned *)dx, (unsigned *)dy, stride, 1);
    result(cudaGetLastError());
    int wrong = 0;
    for (int lane = 0; lane < 32; lane++) wrong += !has_each_32nd(lane, stride);
    ok(wrong == 0, "the probe of L1, stride %d", stride);
  }
  cudaMemset(dy, 0, sizeof y);
  adding<<<3, 32>>>(dy);
  EXPECT(1, 96, "atomics");
  taken_apart<<<1, 32>>>((const four *)dx, (four *)dy);
  EXPECT(128, x[i], "structs");
  return done_testing();
}
