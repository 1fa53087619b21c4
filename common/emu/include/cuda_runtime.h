/* CUDA C++ for a host compiler: the qualifiers, the built-in variables, launches. The rewriter has already turned <<< >>> and __shared__
 * into calls of what is here. Device functions are in emu_device.h (threads, warps, atomics) and emu_math.h. */
#pragma once
#ifndef __cplusplus
#include "cuda_runtime_api.h"
#else
#include <initializer_list>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "common/emu/emu.h"

/* threadIdx.x < n with an int n is everyday CUDA, and nvcc says nothing either. */
#pragma GCC diagnostic ignored "-Wsign-compare"

/* Qualifiers. "unused" because a header may define functions that a file does not call. */
#define __host__ __attribute__((unused))
#define __device__ __attribute__((unused))
#define __global__ __attribute__((unused))
#define __constant__ __attribute__((unused))
#define __managed__
#define __grid_constant__
#define __launch_bounds__(...)
#define __cluster_dims__(...) \
  _Pragma("GCC error \"__cluster_dims__ is not emulated: expected a launch with a cluster size, by launch_kernel() of common/harness/launch.h\"")
#ifndef __forceinline__ /* make coverage wants functions whole */
#define __forceinline__ inline __attribute__((always_inline))
#endif
#define __noinline__ __attribute__((noinline))
#define __inline_hint__
#define __align__(n) __attribute__((aligned(n)))

/* Built-in variables, which the runtime sets before a thread goes on. To kernels they are constants: no thread sees its own change. */
extern "C" {
extern const __thread uint3 threadIdx __attribute__((tls_model("initial-exec")));
extern const __thread uint3 blockIdx __attribute__((tls_model("initial-exec")));
extern const __thread dim3 blockDim __attribute__((tls_model("initial-exec")));
extern const __thread dim3 gridDim __attribute__((tls_model("initial-exec")));
}
static constexpr int warpSize = 32;

constexpr size_t emu_greatest(std::initializer_list<size_t> values) {
  size_t greatest = 0;
  for (const size_t v : values) greatest = v > greatest ? v : greatest;
  return greatest;
}

/* What the rewriter puts into a kernel with __launch_bounds__(threads, ...): computed when the program starts. */
template <typename... T> constexpr unsigned emu_first(unsigned long long threads, T...) { return (unsigned)threads; }
template <auto kernel, unsigned threads> struct emu_bound {
  static const bool known;
  static const char *text() { return __PRETTY_FUNCTION__; }
};
template <auto kernel, unsigned threads> const bool emu_bound<kernel, threads>::known = emu_set_bound((const void *)kernel, threads, text());

/* kernel<<<grid, block, shared_bytes, stream>>> waiting for its arguments. */
template <typename... P> struct emu_pending_launch {
  void (*kernel)(P...);
  emu_call call;

  /* Arguments convert to the parameters' types here and are copied into a closure, which every thread calls. */
  void operator()(P... arguments) {
    const auto closure = [kernel = kernel, arguments...] { kernel(arguments...); };
    call.entry = [](const void *c) { (*static_cast<decltype(closure) *>(c))(); };
    call.closure = &closure;
    call.closure_bytes = sizeof closure;
    emu_launch_kernel(&call);
  }
};

/* What the rewriter makes of the part up to >>>. A template needs its arguments written out: kernel<float, 16><<<...>>>. */
template <typename T> constexpr bool emu_is_reference = false;
template <typename T> constexpr bool emu_is_reference<T &> = true;
template <typename T> constexpr bool emu_is_reference<T &&> = true;
template <typename... P>
emu_pending_launch<P...> emu_configure(const char *name, void (*kernel)(P...), dim3 grid, dim3 block, size_t shared_bytes = 0, cudaStream_t stream = nullptr,
                                       const char *file = __builtin_FILE(), int line = __builtin_LINE()) {
  static_assert(!(emu_is_reference<P> || ...),
                "a parameter of a kernel is a reference, expected a value or a pointer: on a GPU the host's variables are elsewhere");
  return {kernel, {(const void *)kernel, name, {file, line}, grid, block, shared_bytes, stream, nullptr, nullptr, 0, 0, dim3(0, 0, 0)}};
}

/* emu_numbers<n>::list is emu_list<0, 1, ... n - 1>. */
template <size_t... I> struct emu_list {};
template <size_t n, size_t... I> struct emu_numbers : emu_numbers<n - 1, n - 1, I...> {};
template <size_t... I> struct emu_numbers<0, I...> { typedef emu_list<I...> list; };

template <typename... P, size_t... I> void emu_launch_array(emu_pending_launch<P...> pending, void **arguments, emu_list<I...>) {
  pending((*static_cast<P *>(arguments[I]))...);
}

/* arguments[i] points to the i-th argument, which must have the parameter's type. */
template <typename... P>
cudaError_t cudaLaunchKernel(void (*kernel)(P...), dim3 grid, dim3 block, void **arguments, size_t shared_bytes = 0, cudaStream_t stream = nullptr,
                             const char *file = __builtin_FILE(), int line = __builtin_LINE()) {
  cudaGetLastError();
  emu_launch_array(emu_configure("cudaLaunchKernel", kernel, grid, block, shared_bytes, stream, file, line), arguments,
                   typename emu_numbers<sizeof...(P)>::list());
  return cudaPeekAtLastError();
}

template <typename... A> cudaError_t cudaLaunchKernel(const void *, A...) {
  static_assert(sizeof...(A) > 99, "cudaLaunchKernel with an address, expected the kernel by its name: the emulator takes the types of its parameters from it");
  return cudaErrorNotSupported;
}

/* A launch configuration, and the line that passes it on. */
struct emu_config {
  const cudaLaunchConfig_t *config;
  const char *file;
  int line;
  emu_config(const cudaLaunchConfig_t *c, const char *f = __builtin_FILE(), int l = __builtin_LINE()) : config(c), file(f), line(l) {}
};

/* The same with attributes; arguments convert to the parameters' types. */
template <typename... P, typename... A> cudaError_t cudaLaunchKernelEx(emu_config by, void (*kernel)(P...), A &&...arguments) {
  int early = 0;
  dim3 cluster(0, 0, 0);
  const cudaError_t status = emu_read_attributes(by.config, &early, &cluster);
  if (status != cudaSuccess) return status;
  cudaGetLastError();
  const cudaLaunchConfig_t &c = *by.config;
  emu_pending_launch<P...> pending = emu_configure("cudaLaunchKernelEx", kernel, c.gridDim, c.blockDim, c.dynamicSmemBytes, c.stream, by.file, by.line);
  pending.call.early = early;
  pending.call.cluster = cluster;
  pending(static_cast<A &&>(arguments)...);
  return cudaPeekAtLastError();
}

/* The API's forms for C++: typed pointers, kernels by name, symbols by reference. */
template <typename T> cudaError_t cudaMalloc(T **pointer, size_t bytes) { return cudaMalloc((void **)pointer, bytes); }
template <typename T> cudaError_t cudaMallocHost(T **pointer, size_t bytes, unsigned = 0) { return cudaMallocHost((void **)pointer, bytes); }
template <typename T> cudaError_t cudaHostAlloc(T **pointer, size_t bytes, unsigned flags) { return cudaHostAlloc((void **)pointer, bytes, flags); }
static inline cudaError_t cudaEventCreate(cudaEvent_t *event, unsigned flags) { return cudaEventCreateWithFlags(event, flags); }
template <typename... P> cudaError_t cudaFuncSetAttribute(void (*kernel)(P...), cudaFuncAttribute attribute, int value) {
  return cudaFuncSetAttribute((const void *)kernel, attribute, value);
}
template <typename... P> cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *attributes, void (*kernel)(P...)) {
  return cudaFuncGetAttributes(attributes, (const void *)kernel);
}
template <typename... P> cudaError_t cudaFuncGetName(const char **name, void (*kernel)(P...)) { return cudaFuncGetName(name, (const void *)kernel); }
template <typename... P> cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, void (*kernel)(P...), int block_size, size_t dynamic_bytes) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, (const void *)kernel, block_size, dynamic_bytes);
}
template <typename T>
cudaError_t cudaMemcpyToSymbol(const T &symbol, const void *src, size_t bytes, size_t offset = 0, cudaMemcpyKind kind = cudaMemcpyHostToDevice) {
  if (kind == cudaMemcpyHostToHost || kind == cudaMemcpyDeviceToHost) return cudaErrorInvalidMemcpyDirection;
  return emu_symbol_copy((void *)&symbol, sizeof symbol, (void *)src, bytes, offset, 1, kind, nullptr);
}
template <typename T>
cudaError_t cudaMemcpyToSymbolAsync(const T &symbol, const void *src, size_t bytes, size_t offset, cudaMemcpyKind kind, cudaStream_t stream = nullptr) {
  if (kind == cudaMemcpyHostToHost || kind == cudaMemcpyDeviceToHost) return cudaErrorInvalidMemcpyDirection;
  return emu_symbol_copy((void *)&symbol, sizeof symbol, (void *)src, bytes, offset, 1, kind, stream);
}
template <typename T>
cudaError_t cudaMemcpyFromSymbol(void *dst, const T &symbol, size_t bytes, size_t offset = 0, cudaMemcpyKind kind = cudaMemcpyDeviceToHost) {
  return emu_symbol_copy((void *)&symbol, sizeof symbol, dst, bytes, offset, 0, kind, nullptr);
}
template <typename T> cudaError_t cudaGetSymbolAddress(void **pointer, const T &symbol) {
  return emu_symbol_address(pointer, (const void *)&symbol, sizeof symbol);
}
template <typename T> cudaError_t cudaGetSymbolSize(size_t *bytes, const T &symbol) {
  *bytes = sizeof symbol;
  return cudaSuccess;
}

#include "emu_device.h"
#include "emu_math.h"
#ifdef __SANITIZE_THREAD__
#include "emu_copy.h"
#endif
#endif
