/* The emulator's runtime API behaves as CUDA documents: launch errors, shared-memory limits, memory, streams, events, graphs. */
#include <cuda.h>
#include <cuda_runtime.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/tap.h"

__global__ void nothing() {}
__global__ void add(int *x, int n, int value) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] += value;
}
__global__ void use_dynamic(int *out) {
  extern __shared__ int buffer[];
  __shared__ int fixed[1000];
  fixed[threadIdx.x] = 1;
  buffer[blockDim.x - 1] = fixed[threadIdx.x];
  *out = buffer[blockDim.x - 1];
}
__global__ void too_much_static(int *out) {
  __shared__ int huge[13000];
  huge[threadIdx.x] = 1;
  *out = huge[threadIdx.x];
}
namespace scoped {
template <typename T, int N> __global__ void fill(T *x, T value) { x[threadIdx.x % N] = value; }
} // namespace scoped
struct wide_argument {
  alignas(64) char bytes[128];
  float4 vector;
};
__global__ void take_struct(const __grid_constant__ wide_argument a, int *out) { *out = a.bytes[127] + (int)a.vector.w; }
__global__ void take_map(const __grid_constant__ CUtensorMap map, const __grid_constant__ CUtensorMap other, int *out) {
  atomicAdd(out, (uintptr_t)&map % 64 == 0 && (uintptr_t)&other % 64 == 0 && other.opaque[15] == 7 && map.opaque[0] == 35);
}

#define LAUNCH(kernel, blocks, ...) \
  do { kernel<<<blocks, 32>>>(__VA_ARGS__); } while (0)

static cudaError_t launch_error(dim3 grid, dim3 block) {
  nothing<<<grid, block>>>();
  return cudaGetLastError();
}

static void test_configuration() {
  ok(launch_error(1, 1024) == cudaSuccess, "1024 threads are allowed");
  ok(launch_error(1, 1025) == cudaErrorInvalidConfiguration && launch_error(1, dim3(32, 33)) == cudaErrorInvalidConfiguration, "more are not");
  ok(launch_error(1, dim3(1, 1, 65)) == cudaErrorInvalidConfiguration, "nor is a block deeper than 64");
  ok(launch_error(0, 32) == cudaErrorInvalidConfiguration && launch_error(dim3(1, 0), 32) == cudaErrorInvalidConfiguration &&
         launch_error(1, 0) == cudaErrorInvalidConfiguration,
     "nor an empty grid or block");
  ok(launch_error(dim3(1, 65536), 1) == cudaErrorInvalidConfiguration && launch_error(dim3(1, 1, 65536), 1) == cudaErrorInvalidConfiguration &&
         launch_error(dim3(1, 65535), 1) == cudaSuccess,
     "grids reach to 65535 in y and z");
  ok(launch_error(dim3(70000), 1) == cudaSuccess, "and further in x");
}

static void test_shared_limits() {
  int *out;
  cudaMalloc(&out, sizeof *out);
  cudaFuncAttributes attributes;
  use_dynamic<<<1, 32, 1024>>>(out);
  ok(cudaGetLastError() == cudaSuccess, "a little dynamic shared memory needs no permission");
  cudaFuncGetAttributes(&attributes, use_dynamic);
  ok(attributes.sharedSizeBytes == 4000 && attributes.maxThreadsPerBlock == 1024, "cudaFuncGetAttributes knows the static size after a launch");
  use_dynamic<<<1, 32, 49152 - 4000 + 4>>>(out);
  ok(cudaGetLastError() == cudaErrorInvalidValue, "static and dynamic together above 48 KB without the attribute fail");
  ok(cudaFuncSetAttribute(use_dynamic, cudaFuncAttributeMaxDynamicSharedMemorySize, 227 * 1024) == cudaErrorInvalidValue,
     "the attribute cannot exceed 227 KB less the static part");
  cudaGetLastError();
  ok(cudaFuncSetAttribute(use_dynamic, cudaFuncAttributeMaxDynamicSharedMemorySize, 200 * 1024) == cudaSuccess, "200 KB can be asked for");
  use_dynamic<<<1, 32, 200 * 1024>>>(out);
  ok(cudaGetLastError() == cudaSuccess, "and then be had");
  use_dynamic<<<1, 32, 228 * 1024>>>(out);
  ok(cudaGetLastError() == cudaErrorInvalidValue, "228 KB never");
  fflush(stderr);
  const int messages = dup(2); /* what it says is emu_failures.cu's business */
  if (!freopen("/dev/null", "w", stderr)) return;
  too_much_static<<<1, 32>>>(out);
  fflush(stderr);
  dup2(messages, 2);
  close(messages);
  ok(cudaGetLastError() == cudaErrorLaunchFailure, "more than 48 KB of static shared memory, which nvcc refuses, fails at run time");
  cudaDeviceReset();
}

static void test_arguments() {
  float *x, h[32];
  int *out, got, sums[32];
  cudaMalloc(&x, sizeof h);
  cudaMalloc(&out, sizeof *out);
  scoped::fill<float, 32><<<1, 32>>>(x, 7); /* an int for a float parameter */
  cudaMemcpy(h, x, sizeof h, cudaMemcpyDeviceToHost);
  ok(h[0] == 7 && h[31] == 7, "a template in a namespace; arguments convert to the parameters' types");
  const char *name = "";
  const cudaError_t named = cudaFuncGetName(&name, scoped::fill<float, 32>);
  ok(named == cudaSuccess && strcmp(name, "scoped::fill<float, 32>") == 0, "a kernel's name is as its launch spells it: %s", name);
  wide_argument a = {};
  a.bytes[127] = 40;
  a.vector = make_float4(0, 0, 0, 2);
  take_struct<<<1, 1>>>(a, out);
  cudaMemcpy(&got, out, sizeof got, cudaMemcpyDeviceToHost);
  ok(got == 42, "a struct aligned to 64 bytes arrives whole");
  CUtensorMap map = {{35}}, other = {};
  other.opaque[15] = 7;
  cudaStream_t stream;
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  cudaMemset(out, 0, sizeof *out);
  take_map<<<3, 40>>>(map, other, out);
  cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal);
  take_map<<<3, 40, 0, stream>>>(map, other, out);
  cudaStreamEndCapture(stream, &graph);
  cudaGraphInstantiate(&exec, graph, 0);
  cudaGraphLaunch(exec, stream);
  cudaStreamSynchronize(stream);
  cudaMemcpy(&got, out, sizeof got, cudaMemcpyDeviceToHost);
  ok(got == 240, "tensor maps arrive whole and aligned, in a launch and in a graph");
  cudaGraphExecDestroy(exec);
  cudaGraphDestroy(graph);
  cudaStreamDestroy(stream);
  cudaMemset(x, 0, sizeof h);
  LAUNCH(add, 1, (int *)x, 32, 3);
  cudaMemcpy(sums, x, sizeof sums, cudaMemcpyDeviceToHost);
  ok(sums[31] == 3, "a launch in a macro's body");
  int *p = (int *)x, n = 32, value = 4;
  void *arguments[] = {&p, &n, &value};
  ok(cudaLaunchKernel(add, dim3(1), dim3(32), arguments) == cudaSuccess, "cudaLaunchKernel");
  cudaMemcpy(sums, x, sizeof sums, cudaMemcpyDeviceToHost);
  ok(sums[31] == 7, "with arguments by address");
  cudaFree(x);
  cudaFree(out);
}

static void test_memory() {
  unsigned char *p, h[1000];
  void *bad = h;
  ok(cudaMalloc(&p, sizeof h) == cudaSuccess && (uintptr_t)p % 512 == 0, "allocations are aligned to 512 bytes");
  cudaMemcpy(h, p, sizeof h, cudaMemcpyDeviceToHost);
  int poisoned = 0;
  for (const unsigned char byte : h) poisoned += byte == 0xFF;
  ok(poisoned == 1000, "and start as NaN, not zero");
  ok(cudaMemcpy(p, h, 1001, cudaMemcpyHostToDevice) == cudaErrorInvalidValue, "copying past the end of an allocation is an error");
  ok(cudaMemcpy(bad, p, 10, cudaMemcpyDeviceToDevice) == cudaErrorInvalidValue, "so is a host pointer where a device pointer belongs");
  ok(cudaFree(p + 1) == cudaErrorInvalidValue && cudaFree(bad) == cudaErrorInvalidValue, "cudaFree takes only what cudaMalloc gave");
  ok(cudaFree(p) == cudaSuccess && cudaFree(p) == cudaErrorInvalidValue && cudaFree(nullptr) == cudaSuccess, "and only once; NULL is allowed");
  size_t free_bytes, total_bytes;
  ok(cudaMemGetInfo(&free_bytes, &total_bytes) == cudaSuccess && free_bytes > 0 && free_bytes <= total_bytes, "cudaMemGetInfo");
  ok(cudaMalloc(&p, total_bytes * 2) == cudaErrorMemoryAllocation && p == nullptr, "more than there is cannot be had");
  cudaGetLastError();
  cudaDeviceProp properties;
  ok(cudaGetDeviceProperties(&properties, 0) == cudaSuccess && strcmp(properties.name, "emulator") == 0 && properties.major == 9 &&
         properties.sharedMemPerBlockOptin == 227 * 1024 && properties.multiProcessorCount == (getenv("EMU_SMS") ? atoi(getenv("EMU_SMS")) : 8),
     "device properties");
  ok(cudaSetDevice(1) == cudaErrorInvalidDevice, "there is one device");
  ok(strcmp(cudaGetErrorName(cudaErrorInvalidValue), "cudaErrorInvalidValue") == 0 && strcmp(cudaGetErrorString(cudaSuccess), "no error") == 0,
     "errors have names");
  cudaGetLastError();
}

static void test_graphs() {
  enum { N = 100 };
  int *x, h[N];
  cudaStream_t stream, other;
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  cudaStreamCaptureStatus status;
  cudaMalloc(&x, sizeof h);
  cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking);
  cudaMemset(x, 0, sizeof h);
  ok(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal) == cudaSuccess, "capture begins");
  cudaStreamIsCapturing(stream, &status);
  ok(status == cudaStreamCaptureStatusActive, "and is known");
  int value = 5;
  add<<<4, 32, 0, stream>>>(x, N, value);
  value = 1000; /* must not matter: arguments are captured by value */
  cudaMemcpyAsync(h, x, sizeof h, cudaMemcpyDeviceToHost, stream);
  cudaEvent_t fork, join;
  cudaEventCreate(&fork);
  cudaEventCreate(&join);
  cudaEventRecord(fork, stream);
  cudaStreamWaitEvent(other, fork);
  add<<<4, 32, 0, other>>>(x, N, 1);
  cudaEventRecord(join, other);
  cudaStreamWaitEvent(stream, join);
  ok(cudaStreamEndCapture(stream, &graph) == cudaSuccess, "capture ends");
  cudaStreamIsCapturing(other, &status);
  ok(status == cudaStreamCaptureStatusNone, "also in the stream that joined it by an event");
  int first;
  cudaMemcpy(&first, x, sizeof first, cudaMemcpyDeviceToHost);
  ok(first == 0, "nothing ran while capturing");
  size_t count = 0;
  cudaGraphNode_t nodes[3];
  cudaGraphNodeType types[3];
  cudaGraphGetNodes(graph, nullptr, &count);
  ok(count == 3, "the graph has three nodes");
  cudaGraphGetNodes(graph, nodes, &count);
  for (int i = 0; i < 3; i++) cudaGraphNodeGetType(nodes[i], &types[i]);
  ok(types[0] == cudaGraphNodeTypeKernel && types[1] == cudaGraphNodeTypeMemcpy && types[2] == cudaGraphNodeTypeKernel, "of the right types");
  cudaGraphNode_t from[3], to[3];
  cudaGraphEdgeData edges[3];
  size_t edge_count = 0;
  cudaGraphGetEdges(graph, nullptr, nullptr, nullptr, &edge_count);
  ok(edge_count == 2 && cudaGraphGetEdges(graph, from, nullptr, edges, &edge_count) == cudaErrorInvalidValue, "and two edges");
  edge_count = 3, cudaGetLastError();
  ok(cudaGraphGetEdges(graph, from, to, edges, &edge_count) == cudaSuccess && edge_count == 2 && from[1] == nodes[1] && to[1] == nodes[2] && !from[2] &&
         edges[0].type == cudaGraphDependencyTypeDefault,
     "in a row, none of them programmatic");
  cudaGraphEdgeData programmatic = edges[0];
  programmatic.from_port = 1, programmatic.type = cudaGraphDependencyTypeProgrammatic;
  ok(cudaGraphRemoveDependencies(graph, from, to, &programmatic, 1) == cudaErrorInvalidValue &&
         cudaGraphRemoveDependencies(graph, from, to, edges, 1) == cudaSuccess && cudaGraphInstantiate(&exec, graph, 0) == cudaErrorNotSupported &&
         cudaGraphAddDependencies(graph, from, &to[1], edges, 1) == cudaErrorNotSupported && cudaGraphAddDependencies(graph, from, to, edges, 1) == cudaSuccess,
     "an edge can be taken away and put back");
  cudaGetLastError();
  cudaKernelNodeParams params;
  const char *name = "";
  cudaGraphKernelNodeGetParams(nodes[0], &params);
  cudaFuncGetName(&name, params.func);
  ok(params.gridDim.x == 4 && params.blockDim.x == 32 && strcmp(name, "add") == 0, "a kernel node tells its kernel's name and size");
  ok(cudaGraphInstantiate(&exec, graph, 0) == cudaSuccess && cudaGraphDestroy(graph) == cudaSuccess, "instantiated, the graph itself can go");
  for (int i = 0; i < 3; i++) cudaGraphLaunch(exec, stream);
  cudaStreamSynchronize(stream);
  ok(h[0] == 17 && h[N - 1] == 17, "three replays add up in order: %d", h[0]);
  cudaGraphExecDestroy(exec);

  cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal);
  ok(cudaStreamSynchronize(stream) == cudaErrorStreamCaptureUnsupported, "a capturing stream cannot be waited for");
  ok(cudaStreamEndCapture(stream, &graph) == cudaErrorStreamCaptureInvalidated && graph == nullptr, "and that spoils the capture");
  cudaGetLastError();

  float ms = -1;
  cudaEventRecord(fork, stream);
  add<<<1000, 100, 0, stream>>>(x, N, 1);
  cudaEventRecord(join, stream);
  ok(cudaEventElapsedTime(&ms, fork, join) == cudaSuccess && ms > 0 && ms < 60000, "events measure time: %g ms", (double)ms);
  ok(cudaEventDestroy(fork) == cudaSuccess && cudaEventDestroy(join) == cudaSuccess && cudaStreamDestroy(stream) == cudaSuccess &&
         cudaStreamDestroy(other) == cudaSuccess,
     "everything can be destroyed");
}

int main() {
  test_configuration();
  test_shared_limits();
  test_arguments();
  test_memory();
  test_graphs();
  ok(cudaDeviceSynchronize() == cudaSuccess && cudaGetLastError() == cudaSuccess, "no error is left over");
  return done_testing();
}
