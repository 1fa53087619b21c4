/* Data on the device: filled, copied into another layout, looked through. See gpu.h. */
#include <cuda_runtime.h>

#include "common/conv/gpu.h"

static __device__ int64_t first_element() { return blockIdx.x * (int64_t)GPU_THREADS + threadIdx.x; }
static __device__ int64_t next_element() { return gridDim.x * (int64_t)GPU_THREADS; }

__global__ void __launch_bounds__(GPU_THREADS) data_kernel(conv_tensor t, conv_source from) {
  for (int64_t i = first_element(); i < t.count; i += next_element()) tensor_set(&t, i, random_value(from, tensor_index(&t, i)));
}

cudaError_t gpu_fill(const conv_tensor *t, conv_source from) {
  data_kernel<<<gpu_blocks(t->count), GPU_THREADS>>>(*t, from);
  return cudaGetLastError();
}

__global__ void __launch_bounds__(GPU_THREADS) copy_kernel(conv_tensor to, conv_tensor from) {
  for (int64_t i = first_element(); i < to.count; i += next_element()) {
    const int64_t other = tensor_offset(&from, tensor_index(&to, i));
    if (to.dtype == DTYPE_FP16) ((uint16_t *)to.data)[i] = ((const uint16_t *)from.data)[other];
    else ((uint32_t *)to.data)[i] = ((const uint32_t *)from.data)[other];
  }
}

cudaError_t gpu_copy(const conv_tensor *to, const conv_tensor *from) {
  copy_kernel<<<gpu_blocks(to->count), GPU_THREADS>>>(*to, *from);
  return cudaGetLastError();
}

/* Floats that are 0 or more are in the order of their bits. */
__global__ void __launch_bounds__(GPU_THREADS) largest_kernel(const float *values, int64_t count, unsigned *bits) {
  float largest = 0;
  for (int64_t i = first_element(); i < count; i += next_element()) largest = fmaxf(largest, values[i]);
  for (int lanes = 16; lanes > 0; lanes /= 2) largest = fmaxf(largest, __shfl_xor_sync(0xFFFFFFFFu, largest, lanes));
  if (threadIdx.x % 32 == 0) atomicMax(bits, __float_as_uint(largest));
}

cudaError_t gpu_largest(const float *values, int64_t count, void *room, float *largest) {
  cudaError_t status = cudaMemset(room, 0, sizeof(float));
  if (status) return status;
  largest_kernel<<<gpu_blocks(count), GPU_THREADS>>>(values, count, (unsigned *)room);
  status = cudaGetLastError();
  return status ? status : cudaMemcpy(largest, room, sizeof *largest, cudaMemcpyDeviceToHost);
}

/* ---------------------------------------------------------------- byte for byte */

/* Both are found by the larger: 0 is nowhere. */
struct found_bytes {
  unsigned long long last_plus_1, count_minus_first;
};
static_assert(GPU_PAIRS * sizeof(found_bytes) <= GPU_ROOM, "raise GPU_ROOM");

__global__ void __launch_bounds__(GPU_THREADS) differences_kernel(const unsigned char *data, const unsigned char *want, int64_t bytes, found_bytes *found) {
  const int64_t word = sizeof(uint4);
  const bool aligned = ((uintptr_t)data | (uintptr_t)want) % sizeof(uint4) == 0;
  const int64_t words = aligned ? bytes / word : 0;
  int64_t first = bytes, last = -1;
  const auto look = [&](int64_t i) {
    if (data[i] == want[i]) return;
    if (i < first) first = i;
    if (i > last) last = i;
  };
  for (int64_t i = first_element(); i < words; i += next_element()) {
    const uint4 a = ((const uint4 *)data)[i], b = ((const uint4 *)want)[i];
    if (((a.x ^ b.x) | (a.y ^ b.y) | (a.z ^ b.z) | (a.w ^ b.w)) == 0) continue;
    for (int64_t k = i * word; k < (i + 1) * word; k++) look(k);
  }
  for (int64_t i = words * word + first_element(); i < bytes; i += next_element()) look(i);
  if (last < 0) return;
  atomicMax(&found->last_plus_1, (unsigned long long)(last + 1));
  atomicMax(&found->count_minus_first, (unsigned long long)(bytes - first));
}

cudaError_t gpu_differences(const gpu_pair pairs[], int count, void *room, gpu_difference found[]) {
  found_bytes bytes[GPU_PAIRS], *there = (found_bytes *)room;
  if (count > GPU_PAIRS) return cudaErrorInvalidValue;
  cudaError_t status = cudaMemset(room, 0, sizeof bytes);
  for (int i = 0; i < count && !status; i++) {
    if (pairs[i].bytes == 0) continue;
    differences_kernel<<<gpu_blocks((int64_t)(pairs[i].bytes / sizeof(uint4)) + 1), GPU_THREADS>>>(
        (const unsigned char *)pairs[i].data, (const unsigned char *)pairs[i].want, (int64_t)pairs[i].bytes, there + i);
    status = cudaGetLastError();
  }
  if (!status) status = cudaMemcpy(bytes, room, sizeof bytes, cudaMemcpyDeviceToHost);
  for (int i = 0; i < count && !status; i++) {
    found[i].last = (int64_t)bytes[i].last_plus_1 - 1;
    found[i].first = bytes[i].last_plus_1 ? (int64_t)pairs[i].bytes - (int64_t)bytes[i].count_minus_first : -1;
  }
  return status;
}
