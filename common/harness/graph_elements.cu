/* A graph's elements on the device. See graph_elements.h. */
#include <cuda_runtime.h>

#include "common/conv/gpu.h"
#include "common/harness/graph_elements.h"

__global__ void __launch_bounds__(GPU_THREADS) elements_kernel(element_work work) {
  for (int64_t i = blockIdx.x * (int64_t)GPU_THREADS + threadIdx.x; i < work.count; i += gridDim.x * (int64_t)GPU_THREADS) element_do(&work, i);
}

cudaError_t gpu_elements(const element_work *work) {
  elements_kernel<<<gpu_blocks(work->count), GPU_THREADS>>>(*work);
  return cudaGetLastError();
}
