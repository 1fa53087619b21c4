/* A double-buffered kernel on cp.async, and three ways to get it wrong. Without an argument the right one runs; tests/check_late.sh runs
 * the others ("no-wait", "no-barrier", "early") in eager and late mode and under the checker. */
#include <cuda_pipeline.h>
#include <cuda_runtime.h>
#include <string.h>

#include "tests/tap.h"

enum { THREADS = 64, ROWS = 9, PITCH = THREADS + 2 };
enum { RIGHT, NO_WAIT, NO_BARRIER, EARLY };

/* y[row][i] = x[row][i] + x[row][i + 1] + x[row][i + 2], rows of PITCH; while one row is used the next one is on its way. */
template <int DEFECT> __global__ void rows(const float *x, float *y) {
  __shared__ float buffer[2][PITCH];
  const auto fetch = [&](int row) {
    if (row < ROWS)
      for (int i = threadIdx.x; i < PITCH; i += THREADS) __pipeline_memcpy_async(&buffer[row % 2][i], &x[row * PITCH + i], sizeof(float));
    __pipeline_commit();
  };
  fetch(0);
  for (int row = 0; row < ROWS; row++) {
    fetch(row + 1);
    __pipeline_wait_prior(DEFECT == NO_WAIT ? 2 : 1); /* all but the row that has just been asked for */
    if (DEFECT != NO_BARRIER) __syncthreads();        /* what the other threads have fetched */
    const float *now = buffer[row % 2];
    y[row * THREADS + threadIdx.x] = now[threadIdx.x] + now[threadIdx.x + 1] + now[threadIdx.x + 2];
    if (DEFECT != EARLY) __syncthreads(); /* nobody reads the row any more: its place is free */
  }
}

int main(int argc, char **argv) {
  const char *defect = argc > 1 ? argv[1] : "right";
  static float x[ROWS * PITCH], y[ROWS * THREADS];
  float *dx, *dy;
  for (int i = 0; i < ROWS * PITCH; i++) x[i] = (float)(i * 7 % 31);
  if (cudaMalloc(&dx, sizeof x) != cudaSuccess || cudaMalloc(&dy, sizeof y) != cudaSuccess) return 1;
  cudaMemcpy(dx, x, sizeof x, cudaMemcpyHostToDevice);
  if (strcmp(defect, "no-wait") == 0) rows<NO_WAIT><<<1, THREADS>>>(dx, dy);
  else if (strcmp(defect, "no-barrier") == 0) rows<NO_BARRIER><<<1, THREADS>>>(dx, dy);
  else if (strcmp(defect, "early") == 0) rows<EARLY><<<1, THREADS>>>(dx, dy);
  else rows<RIGHT><<<1, THREADS>>>(dx, dy);
  int wrong = cudaMemcpy(y, dy, sizeof y, cudaMemcpyDeviceToHost) != cudaSuccess;
  for (int i = 0; i < ROWS * THREADS; i++) {
    const float *from = &x[i / THREADS * PITCH + i % THREADS];
    wrong += y[i] != from[0] + from[1] + from[2];
  }
  ok(wrong == 0, "double buffering, %s: %d wrong", defect, wrong);
  return done_testing();
}
