/* Data that are made and compared where they are: 200 cuts of a large layer would take minutes to compare on the host. See cuts.h. */
#include <cuda_runtime.h>
#include <stdint.h>

enum { THREADS = 256 };

__global__ void __launch_bounds__(THREADS) fill_kernel(float *to, int64_t count, unsigned seed, int magnitude) {
  const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
  if (i >= count) return;
  unsigned bits = (unsigned)i * 2654435761u + seed;
  bits = (bits ^ bits >> 15) * 2246822519u, bits = (bits ^ bits >> 13) * 3266489917u, bits ^= bits >> 16;
  const int value = (int)(bits % (2u * (unsigned)magnitude)) - magnitude; /* -magnitude .. magnitude - 1 */
  to[i] = (float)(value < 0 ? value : value + 1);
}

__global__ void __launch_bounds__(THREADS) compare_kernel(const float *out, const double *reference, int64_t count, unsigned *different) {
  const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
  if (i < count && !(out[i] == (float)reference[i])) atomicAdd(different, 1u);
}

extern "C" cudaError_t fill_integers(float *to, int64_t count, unsigned seed, int magnitude) {
  fill_kernel<<<(unsigned)((count + THREADS - 1) / THREADS), THREADS>>>(to, count, seed, magnitude);
  return cudaGetLastError();
}

extern "C" cudaError_t count_different(const float *out, const double *reference, int64_t count, unsigned *counter, unsigned *different) {
  cudaError_t status = cudaMemset(counter, 0, sizeof *counter);
  if (status) return status;
  compare_kernel<<<(unsigned)((count + THREADS - 1) / THREADS), THREADS>>>(out, reference, count, counter);
  status = cudaGetLastError();
  return status ? status : cudaMemcpy(different, counter, sizeof *different, cudaMemcpyDeviceToHost);
}
