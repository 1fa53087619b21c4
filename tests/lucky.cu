/* A race that nobody sees: a barrier is missing, and on the emulator, whose threads of a block run one after the other, the result is right all the same. The
 * front page shows what the checker says of it, tests/lucky.sh wants it. */
#include <cuda_runtime.h>

#include "tests/tap.h"

enum { THREADS = 256 };

/* y[i] = x[i] + x[i - 1], by way of shared memory. */
__global__ void add_neighbour(const float *x, float *y) {
  __shared__ float line[THREADS];
  const int i = threadIdx.x;
  line[i] = x[i];
  y[i] = line[i] + (i > 0 ? line[i - 1] : 0); /* without a __syncthreads() before it */
}

#ifdef CUDA_EMULATOR
int main(void) {
  static float x[THREADS], y[THREADS];
  float *dx = NULL, *dy = NULL;
  for (int i = 0; i < THREADS; i++) x[i] = (float)i;
  cudaError_t error = cudaMalloc((void **)&dx, sizeof x);
  if (error == cudaSuccess) error = cudaMalloc((void **)&dy, sizeof y);
  if (error == cudaSuccess) error = cudaMemcpy(dx, x, sizeof x, cudaMemcpyHostToDevice);
  add_neighbour<<<1, THREADS>>>(dx, dy);
  if (error == cudaSuccess) error = cudaGetLastError();
  if (error == cudaSuccess) error = cudaMemcpy(y, dy, sizeof y, cudaMemcpyDeviceToHost);
  int wrong = 0;
  for (int i = 0; i < THREADS; i++) wrong += y[i] != x[i] + (i > 0 ? x[i - 1] : 0);
  if (error != cudaSuccess) ok(false, "no sums came back: %s", cudaGetErrorString(error));
  else ok(wrong == 0, "%d sums, %d of them wrong", THREADS, wrong);
  return done_testing();
}
#else
int main(void) {
  printf("1..1\nok 1 # SKIP on a GPU such a result is a matter of luck\n");
  return 0;
}
#endif
