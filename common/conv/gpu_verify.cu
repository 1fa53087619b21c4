/* A result beside the reference, both on the device: verify.c's loop as kernels. See gpu.h. */
#include <cuda_runtime.h>

#include "common/conv/gpu.h"
#include "common/conv/operation_reference.h"

/* Of all elements. Numbers that are 0 or more are in the order of their bits. */
struct totals {
  unsigned long long mismatches, worst_bits, plain_bits;
};

static __device__ int64_t first_element() { return blockIdx.x * (int64_t)GPU_THREADS + threadIdx.x; }
static __device__ int64_t next_element() { return gridDim.x * (int64_t)GPU_THREADS; }

/* Element i of the reference, as it lies in a result of the same or another layout. */
static HOST_DEVICE int64_t place_in(const conv_tensor *out, const conv_tensor *shape, int64_t i) {
  return out->layout == shape->layout ? i : tensor_offset(out, tensor_index(shape, i));
}

__global__ void __launch_bounds__(GPU_THREADS)
    compare_kernel(conv_tensor out, conv_tensor shape, const double *value, const float *scale, conv_judge judge, totals *all) {
  unsigned long long mismatches = 0;
  double worst = 0, plain = 0;
  for (int64_t i = first_element(); i < shape.count; i += next_element())
    mismatches += judge_wrong(&judge, (double)tensor_get(&out, place_in(&out, &shape, i)), value[i], scale[i], &worst, &plain);
  for (int lanes = 16; lanes > 0; lanes /= 2) {
    mismatches += __shfl_xor_sync(0xFFFFFFFFu, mismatches, lanes);
    worst = fmax(worst, __shfl_xor_sync(0xFFFFFFFFu, worst, lanes));
    plain = fmax(plain, __shfl_xor_sync(0xFFFFFFFFu, plain, lanes));
  }
  if (threadIdx.x % 32 != 0) return;
  if (mismatches) atomicAdd(&all->mismatches, mismatches);
  atomicMax(&all->worst_bits, (unsigned long long)__double_as_longlong(worst));
  atomicMax(&all->plain_bits, (unsigned long long)__double_as_longlong(plain));
}

cudaError_t gpu_compare(const conv_tensor *out, const conv_reference *ref, const conv_judge *judge, gpu_comparison *all) {
  totals t = {};
  *all = {};
  cudaError_t status = cudaMemset(ref->room, 0, sizeof t);
  if (status) return status;
  compare_kernel<<<gpu_blocks(ref->shape.count), GPU_THREADS>>>(*out, ref->shape, ref->value, ref->scale, *judge, (totals *)ref->room);
  status = cudaGetLastError();
  if (!status) status = cudaMemcpy(&t, ref->room, sizeof t, cudaMemcpyDeviceToHost);
  all->mismatches = (int64_t)t.mismatches;
  memcpy(&all->worst_share, &t.worst_bits, sizeof t.worst_bits);
  memcpy(&all->plain_share, &t.plain_bits, sizeof t.plain_bits);
  return status;
}

/* Threads stop at their first. */
__global__ void __launch_bounds__(GPU_THREADS) next_mismatch_kernel(conv_tensor out, conv_tensor shape, const double *value, const float *scale,
                                                                    conv_judge judge, int64_t from, unsigned long long *first) {
  double ignored = 0;
  for (int64_t i = from + first_element(); i < shape.count; i += next_element()) {
    if (!judge_wrong(&judge, (double)tensor_get(&out, place_in(&out, &shape, i)), value[i], scale[i], &ignored, &ignored)) continue;
    atomicMin(first, (unsigned long long)i);
    return;
  }
}

cudaError_t gpu_next_mismatch(const conv_tensor *out, const conv_reference *ref, const conv_judge *judge, int64_t from, gpu_mismatch *m) {
  unsigned long long *first = (unsigned long long *)ref->room;
  cudaError_t status = cudaMemset(first, 0xFF, sizeof *first);
  if (status) return status;
  next_mismatch_kernel<<<gpu_blocks(ref->shape.count - from), GPU_THREADS>>>(*out, ref->shape, ref->value, ref->scale, *judge, from, first);
  status = cudaGetLastError();
  if (!status) status = cudaMemcpy(&m->offset, first, sizeof m->offset, cudaMemcpyDeviceToHost);
  if (status) return status;
  if (m->offset < from || m->offset >= ref->shape.count) return cudaErrorUnknown; /* none, though one was counted */
  const int64_t at = place_in(out, &ref->shape, m->offset);
  alignas(float) unsigned char element[sizeof(float)];
  conv_tensor one = *out;
  one.data = element;
  status = cudaMemcpy(element, (const char *)out->data + (size_t)at * dtype_bytes(out->dtype), dtype_bytes(out->dtype), cudaMemcpyDeviceToHost);
  if (!status) status = cudaMemcpy(&m->value, ref->value + m->offset, sizeof m->value, cudaMemcpyDeviceToHost);
  if (!status) status = cudaMemcpy(&m->scale, ref->scale + m->offset, sizeof m->scale, cudaMemcpyDeviceToHost);
  m->got = tensor_get(&one, 0);
  return status;
}

/* ---------------------------------------------------------------- epilogues */

__global__ void __launch_bounds__(GPU_THREADS) fuse_kernel(conv_tensor shape, double *value, float *scale, conv_epilogue e, epilogue_data data) {
  for (int64_t i = first_element(); i < shape.count; i += next_element()) {
    int at[4];
    tensor_coordinates(&shape, i, at);
    const double s = e.scale ? (double)tensor_get(&data.scale, at[1]) : 1, b = e.bias ? (double)tensor_get(&data.bias, at[1]) : 0;
    const double r = e.residual ? (double)tensor_get(&data.residual, i) : 0;
    value[i] = epilogue_value(&e, value[i], s, b, r);
    scale[i] = epilogue_scale(&e, (double)scale[i], s, b, r);
  }
}

cudaError_t gpu_fuse(const conv_reference *ref, const conv_epilogue *e, const epilogue_data *data) {
  fuse_kernel<<<gpu_blocks(ref->shape.count), GPU_THREADS>>>(ref->shape, ref->value, ref->scale, *e, *data);
  return cudaGetLastError();
}

__global__ void __launch_bounds__(GPU_THREADS) reference_pixels_kernel(conv_tensor shape, double *value, float *scale, conv_operation o, conv_tensor x) {
  for (int64_t i = first_element(); i < shape.count; i += next_element()) {
    int at[4];
    tensor_coordinates(&shape, i, at);
    value[i] = operation_pixel(&o, &x, at);
    scale[i] = round_scale(fabs(value[i]));
  }
}

cudaError_t gpu_pixels(const conv_reference *ref, const conv_operation *o, const conv_tensor *x) {
  reference_pixels_kernel<<<gpu_blocks(ref->shape.count), GPU_THREADS>>>(ref->shape, ref->value, ref->scale, *o, *x);
  return cudaGetLastError();
}
