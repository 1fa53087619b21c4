/* The first kernel that docs/gpu.md shows, line for line between the two marks: it copies, and leaves alone what is not its own. */
#include <cuda_runtime.h>

#include "tests/tap.h"

/* begin: docs/gpu.md */
__global__ void copy(int n, const float *from, float *to) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return; /* the last block has more threads than there is work */
  to[i] = from[i];
}

/* from, to: in the GPU's memory */
static cudaError_t launch_copy(int n, const float *from, float *to, cudaStream_t stream) {
  const int threads = 256, blocks = (n + threads - 1) / threads;
  copy<<<blocks, threads, 0, stream>>>(n, from, to);
  return cudaGetLastError();
}
/* end: docs/gpu.md */

enum { N = 1000, ROOM = 1024 }; /* four blocks of 256 threads, 24 threads too many */

int main(void) {
  static float host[ROOM], back[ROOM];
  float *from = NULL, *to = NULL;
  for (int i = 0; i < ROOM; i++) host[i] = (float)(i + 1);
  cudaError_t error = cudaMalloc((void **)&from, sizeof host);
  if (error == cudaSuccess) error = cudaMalloc((void **)&to, sizeof host);
  if (error == cudaSuccess) error = cudaMemcpy(from, host, sizeof host, cudaMemcpyHostToDevice);
  if (error == cudaSuccess) error = cudaMemset(to, 0, sizeof host);
  if (error == cudaSuccess) error = launch_copy(N, from, to, 0);
  if (error == cudaSuccess) error = cudaMemcpy(back, to, sizeof back, cudaMemcpyDeviceToHost);
  ok(error == cudaSuccess, "memory, launch and copies: %s", cudaGetErrorString(error));
  int wrong = 0, touched = 0;
  for (int i = 0; i < ROOM; i++) {
    wrong += i < N && back[i] != host[i];
    touched += i >= N && back[i] != 0;
  }
  ok(wrong == 0, "all %d floats are copied (%d are not)", N, wrong);
  ok(touched == 0, "none behind them is written (%d are)", touched);
  cudaFree(from);
  cudaFree(to);
  return done_testing();
}
