/* Launches that a GPU refuses fail here, too, with a line that says why; nothing runs, and the next launch works. */
#include <cuda_runtime.h>
#include <string.h>

#include "common/harness/launch.h"
#include "common/ptx/ptx.cuh"
#include "tests/capture.h"
#include "tests/tap.h"

typedef void (*kernel)(int *);

static int *scratch() {
  int *p = nullptr;
  cudaMalloc(&p, 4096 * sizeof(int));
  cudaMemset(p, 0, 4096 * sizeof(int));
  return p;
}

/* ---- launch bounds ---- */

template <int WARPS, typename... T> __global__ void __launch_bounds__(32 * WARPS, 1) bounded(int *p, T...) {
  if (threadIdx.x == 32 * WARPS) p[0] = 1;
}
static __global__ __launch_bounds__(64) void bounded_64(int *p) { p[threadIdx.x] = 1; }

/* The launch fails, with a line that has the words; nothing has run, and the next launch works. */
static void expect_refusal(kernel k, dim3 block, int limit, const char *what, const char *name, const char *words) {
  int *p = scratch(), h[1];
  cudaFuncAttributes attributes;
  ok(cudaFuncGetAttributes(&attributes, k) == cudaSuccess && attributes.maxThreadsPerBlock == limit, "%s: %d threads, say its attributes", what, limit);
  k<<<1, limit>>>(p);
  ok(cudaGetLastError() == cudaSuccess, "... so many are allowed");
  cudaMemset(p, 0, sizeof h);
  const char *const all[] = {"emulator: ", name, words, "launched at tests/emu_failures_refused.cu:"};
  capture_begin();
  k<<<1, block>>>(p);
  const cudaError_t error = cudaGetLastError();
  const char *report = capture_end();
  ok(error == cudaErrorInvalidValue && mentions(report, 4, all) && strchr(report, '\n')[1] == '\0', "... more are an error, and one line");
  ok(cudaMemcpy(h, p, sizeof h, cudaMemcpyDeviceToHost) == cudaSuccess && h[0] == 0, "... and nothing runs");

  cudaStream_t stream;
  cudaGraph_t graph;
  cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal);
  capture_begin();
  k<<<1, block, 0, stream>>>(p);
  ok(cudaGetLastError() == cudaErrorInvalidValue && mentions(capture_end(), 4, all), "... and so while a stream captures");
  cudaStreamEndCapture(stream, &graph);
  cudaDeviceReset();
}

static void test_bounds() {
  expect_refusal(bounded<3>, dim3(33, 3), 96, "launch bounds of a template", "bounded<3>", "(33,3,1), 99 threads, but its __launch_bounds__ says 96");
  expect_refusal(bounded<4>, 129, 128, "the same with other arguments", "bounded<4>", "129 threads, but its __launch_bounds__ says 128");
  expect_refusal(bounded_64, 1024, 64, "launch bounds of a static kernel", "bounded_64", "1024 threads, but its __launch_bounds__ says 64");
}

/* common/harness/launch.h: a refused launch is named by the caller's line, its error is returned and not left for the next one. */
static void test_launcher() {
  int *p = scratch(), got[64];
  capture_begin();
  const cudaError_t error = launch_kernel({.grid = 1, .block = 65}, bounded_64, p);
  const char *const words[] = {"bounded_64", "launched at tests/emu_failures_refused.cu:"};
  ok(mentions(capture_end(), 2, words) && error == cudaErrorInvalidValue && cudaGetLastError() == cudaSuccess, "launch_kernel: a launch that is refused");
  ok(launch_kernel({.grid = 1, .block = 64, .shared = 64}, bounded_64, p) == cudaSuccess && cudaMemcpy(got, p, sizeof got, cudaMemcpyDefault) == cudaSuccess &&
         got[0] == 1 && got[63] == 1,
     "... and one that is not");
  cudaFree(p);
}

/* ---- clusters ---- */

static __global__ void any(int *p) { p[threadIdx.x] = 1; }

/* Clusters that no GPU takes: a line each, too. */
static void test_clusters() {
  static const struct {
    unsigned grid;
    dim3 cluster;
    cudaError_t error;
    const char *words;
  } refused[] = {{6, 4, cudaErrorInvalidConfiguration, "a grid of (6,1,1): expected a multiple of its clusters of (4,1,1)"},
                 {16, 16, cudaErrorInvalidClusterSize, "a cluster of (16,1,1): expected 1 to 8 blocks, and above that cudaFuncAttributeNonPortable"},
                 {32, 32, cudaErrorInvalidClusterSize, "a cluster of (32,1,1): expected 1 to 8 blocks"},
                 {4, dim3(4, 0), cudaErrorInvalidClusterSize, "a cluster of (4,0,1): expected 1 to 8 blocks"},
                 {4, dim3(0, 1), cudaErrorInvalidClusterSize, "a cluster of (0,1,1): expected at least 1 block"}};
  int *p = scratch();
  for (const auto &r : refused) {
    cudaLaunchAttribute size = {};
    cudaLaunchConfig_t config = {};
    size.id = cudaLaunchAttributeClusterDimension;
    size.val.clusterDim.x = r.cluster.x, size.val.clusterDim.y = r.cluster.y, size.val.clusterDim.z = r.cluster.z;
    config.gridDim = r.grid, config.blockDim = 32, config.attrs = &size, config.numAttrs = 1;
    const char *const words[] = {"emulator: ", r.words};
    capture_begin();
    const cudaError_t error = cudaLaunchKernelEx(&config, any, p);
    const char *report = capture_end();
    ok(error == r.error && cudaGetLastError() == r.error && mentions(report, 2, words), "refused: %s", r.words);
  }
  cudaFuncSetAttribute(any, cudaFuncAttributeNonPortableClusterSizeAllowed, 1);
  ok(launch_kernel({.grid = 16, .block = 32, .cluster = 16}, any, p) == cudaSuccess, "... and 16 blocks where the kernel may have them");
  cudaFree(p);
}

static __constant__ float taps[16];

/* A copy that begins in device memory and goes too far. */
static void expect_refused_copy(cudaError_t (*copy)(int *), const char *what, const char *words) {
  int *p = scratch();
  capture_begin();
  const cudaError_t error = copy(p), left = cudaGetLastError();
  ok(mentions(capture_end(), 1, &words) && error == cudaErrorInvalidValue && left == error, "%s: %s", what, words);
  cudaDeviceReset();
}

static void test_copies() {
  expect_refused_copy([](int *p) { return cudaMemcpyToSymbol(taps, p + 4090, 32, 0, cudaMemcpyDeviceToDevice); }, "a variable, from behind the end",
                      "cudaMemcpyToSymbol: 32 bytes from allocation ");
  expect_refused_copy([](int *p) { return cudaMemcpyFromSymbol(p + 4090, taps, 32, 0, cudaMemcpyDefault); }, "a variable, to behind the end",
                      ", byte 16360: expected at most 24");
  expect_refused_copy([](int *p) { return cudaMemcpyToSymbol(taps, p, 64, 4, cudaMemcpyDeviceToDevice); }, "more than a variable has",
                      "cudaMemcpyToSymbol: 64 bytes from byte 4 of a variable on: it has 64");
  expect_refused_copy([](int *p) { return cudaMemcpy(p, p + 1, 4096 * sizeof *p, cudaMemcpyDeviceToDevice); }, "a copy", ", byte 4: expected at most 16380");
}

int main() {
  test_bounds();
  test_launcher();
  test_clusters();
  test_copies();
  return done_testing();
}
