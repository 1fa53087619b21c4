/* Arrays for a test's kernels. */
#pragma once
#include <cuda_runtime.h>
#include <stdlib.h>
#include <string.h>

/* Device memory of n elements, from a host array if there is one. */
template <typename T> static T *on_device(int n, const T *from = nullptr) {
  T *p = nullptr;
  if (cudaMalloc(&p, n * sizeof(T)) != cudaSuccess) exit(1);
  if (from != nullptr) cudaMemcpy(p, from, n * sizeof(T), cudaMemcpyHostToDevice);
  return p;
}

template <typename T> static T *on_host(const T *p, int n) {
  T *h = (T *)malloc(n * sizeof(T));
  if (cudaMemcpy(h, p, n * sizeof(T), cudaMemcpyDeviceToHost) != cudaSuccess) exit(1);
  return h;
}
