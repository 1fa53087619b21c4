/* Divisions without a division (05_im2col_gemm/stream.h) are exact up to 2^31 - 1, far beyond any problem that a test has time for. */
#include <cuda_runtime.h>
#include <limits.h>

#include "05_im2col_gemm/stream.h"
#include "tests/tap.h"

enum { DIVISORS = 4096, NUMBERS = 256 };

/* 1, 2, 3, ...; the neighbours of powers of 2; then any. */
static int divisor_number(int i) {
  if (i < 1024) return i + 1;
  if (i < 1024 + 3 * 21) return (1 << (10 + (i - 1024) / 3)) + (i - 1024) % 3 - 1;
  return 1 + (int)((unsigned)i * 2654435761u >> 1) % (INT_MAX >> i % 21);
}

/* A thread: one divisor; wrong[thread]: how many of the numbers it does not divide. They are those where the quotient steps, and any. */
__global__ void divide(const divisor *divisors, int *wrong) {
  const divisor d = divisors[blockIdx.x * blockDim.x + threadIdx.x];
  int bad = 0;
  for (int i = 0; i < NUMBERS; i++) {
    const int any = (int)((unsigned)(i * 7919 + d.by) * 2654435761u >> 1), largest = INT_MAX - i, step = INT_MAX / d.by > i ? (INT_MAX / d.by - i) * d.by : 0;
    const int numbers[4] = {any, largest, step, step > 0 ? step - 1 : 0};
    for (int j = 0; j < 4; j++) bad += quotient(numbers[j], d) != numbers[j] / d.by || rest_of(numbers[j], d) != numbers[j] % d.by;
  }
  wrong[blockIdx.x * blockDim.x + threadIdx.x] = bad;
}

int main(void) {
  static divisor divisors[DIVISORS];
  static int wrong[DIVISORS];
  for (int i = 0; i < DIVISORS; i++) divisors[i] = divisor_of(divisor_number(i));
  divisor *from;
  int *found, bad = 0;
  cudaMalloc((void **)&from, sizeof divisors);
  cudaMalloc((void **)&found, sizeof wrong);
  cudaMemcpy(from, divisors, sizeof divisors, cudaMemcpyHostToDevice);
  divide<<<DIVISORS / 128, 128>>>(from, found);
  const cudaError_t status = cudaMemcpy(wrong, found, sizeof wrong, cudaMemcpyDeviceToHost);
  for (int i = 0; i < DIVISORS; i++) {
    if (wrong[i] && bad < 3) diag("%d of the numbers are divided wrongly by %d", wrong[i], divisors[i].by);
    bad += wrong[i];
  }
  ok(status == cudaSuccess && bad == 0, "quotients and rests of %d numbers up to 2^31 - 1", 4 * DIVISORS * NUMBERS);
  return done_testing();
}
