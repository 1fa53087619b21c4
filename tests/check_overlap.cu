/* Launches that may begin before the one before them in the stream has ended (programmatic dependent launch): where the wait is left out, or
 * comes too late, or is another thread's, or does not reach far enough back. The emulator runs launches one after the other, so all results
 * here are right; only the checker can tell. tests/check_overlap.sh says what it has to report.
 *
 * check_overlap [graph] [CASE]: without a case the right ones; graph: captured, and replayed twice. */
#include <cuda_runtime.h>
#include <string.h>

#include "common/harness/launch.h"
#include "common/ptx/ptx.cuh"
#include "tests/tap.h"

enum { THREADS = 64, BLOCKS = 3, N = THREADS * BLOCKS };
#define ME (blockIdx.x * THREADS + threadIdx.x)
#define NEXT ((ME + 1) % N)

struct arrays {
  float *x, *y, *z;
};

/* The first kernel: from z it makes x. */
__global__ void first(arrays a) {
  ptx_griddepcontrol_launch_dependents();
  a.x[ME] = a.z[ME] + 1;
}

/* The second kernel: from x it makes y, or touches other things only. */
__global__ void all_wait(arrays a) {
  ptx_griddepcontrol_launch_dependents();
  ptx_griddepcontrol_wait();
  a.y[ME] = a.x[NEXT];
}
__global__ void trigger_late(arrays a) {
  ptx_griddepcontrol_wait();
  ptx_griddepcontrol_launch_dependents();
  a.y[ME] = a.x[NEXT];
}
__global__ void one_waits(arrays a) {
  if (threadIdx.x == 40) ptx_griddepcontrol_wait();
  __syncthreads();
  a.y[ME] = a.x[NEXT];
}
__global__ void others_do_not_meet(arrays a) {
  if (threadIdx.x == 0) ptx_griddepcontrol_wait();
  a.y[ME] = a.x[NEXT]; /* of one who waits, others who do not */
}
__global__ void never_waits(arrays a) { a.y[ME] = a.x[NEXT]; /* without a wait */ }
__global__ void waits_late(arrays a) {
  const float before = a.x[NEXT];
  ptx_griddepcontrol_wait();
  a.y[ME] = before;
}
__global__ void overwrites(arrays a) {
  a.z[ME] = 5; /* which the kernel before reads */
  ptx_griddepcontrol_wait();
  a.y[ME] = 1;
}
template <bool WAITS> __global__ void adds(arrays a) {
  __shared__ __align__(16) float ones[THREADS];
  ones[threadIdx.x] = 1;
  ptx_fence_proxy_async();
  __syncthreads();
  if (threadIdx.x != 0) return;
  if (WAITS) ptx_griddepcontrol_wait();
  ptx_bulk_reduce_add_f32(a.x + ME, ptx_shared_address(ones), sizeof ones);
  ptx_bulk_commit();
  ptx_bulk_wait<0>();
}
__global__ void own_memory(arrays a) { a.y[ME] = 1; }

/* The third kernel: from x, which the first has made. */
__global__ void third(arrays a) {
  ptx_griddepcontrol_wait();
  a.z[N + ME] = a.x[NEXT]; /* after the wait for the second kernel */
}
__global__ void third_hurries(arrays a) {
  a.z[N + ME] = a.x[NEXT]; /* before the wait for the second kernel */
  ptx_griddepcontrol_wait();
}

typedef void (*kernel)(arrays);
enum between_them { NOTHING, SET, EVENT, SYNC };
static const struct test {
  const char *name;
  bool right, early;
  kernel second, third;
  between_them between;
} tests[] = {
    {"all-wait", true, true, all_wait, nullptr, NOTHING},
    {"one-waits", true, true, one_waits, nullptr, NOTHING},
    {"in-turn", true, false, never_waits, nullptr, NOTHING},
    {"set-between", true, true, never_waits, nullptr, SET},
    {"event-between", true, true, never_waits, nullptr, EVENT},
    {"sync-between", true, true, never_waits, nullptr, SYNC},
    {"chain", true, true, all_wait, third, NOTHING},
    {"chain-trigger-late", true, true, trigger_late, third_hurries, NOTHING},
    {"adds", true, true, adds<true>, nullptr, NOTHING},
    {"no-wait", false, true, never_waits, nullptr, NOTHING},
    {"late-wait", false, true, waits_late, nullptr, NOTHING},
    {"overwrite", false, true, overwrites, nullptr, NOTHING},
    {"adds-early", false, true, adds<false>, nullptr, NOTHING},
    {"no-barrier", false, true, others_do_not_meet, nullptr, NOTHING},
    {"chain-broken", false, true, own_memory, third, NOTHING},
    {"chain-hurry", false, true, all_wait, third_hurries, NOTHING},
};

static cudaError_t launch(kernel k, bool early, arrays a, cudaStream_t stream) {
  return launch_kernel({.grid = BLOCKS, .block = THREADS, .stream = stream, .early = early}, k, a);
}

static cudaError_t enqueue(const test *t, bool graph, arrays a, float *other, cudaStream_t stream) {
  cudaError_t status = launch(first, true, a, stream); /* nothing is before it */
  if (t->between == SET && !status) status = cudaMemsetAsync(other, 0, 64, stream);
  if (t->between == SYNC && !status && !graph) status = cudaStreamSynchronize(stream);
  if (t->between == EVENT || (t->between == SYNC && graph)) {
    cudaEvent_t event = nullptr;
    if (!status) status = cudaEventCreate(&event);
    if (!status) status = cudaEventRecord(event, stream);
    if (!status) status = cudaStreamWaitEvent(stream, event);
    if (!status) status = cudaEventDestroy(event);
  }
  if (!status) status = launch(t->second, t->early, a, stream);
  if (t->third && !status) status = launch(t->third, true, a, stream);
  return status;
}

static cudaError_t run(const test *t, bool graph) {
  arrays a = {};
  float *other = nullptr;
  cudaStream_t stream = nullptr;
  cudaError_t status = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  for (float **p : {&a.x, &a.y, &a.z, &other})
    if (!status) status = cudaMalloc(p, 2 * N * sizeof(float));
  if (!status) status = cudaMemset(a.z, 0, 2 * N * sizeof(float));
  if (!graph) return status ? status : enqueue(t, graph, a, other, stream);
  cudaGraph_t captured = nullptr;
  cudaGraphExec_t exec = nullptr;
  if (!status) status = cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal);
  if (!status) status = enqueue(t, graph, a, other, stream);
  if (!status) status = cudaStreamEndCapture(stream, &captured);
  if (!status) status = cudaGraphInstantiate(&exec, captured, 0);
  for (int i = 0; i < 2 && !status; i++) status = cudaGraphLaunch(exec, stream);
  return status ? status : cudaStreamSynchronize(stream);
}

int main(int argc, char **argv) {
  const bool graph = argc > 1 && strcmp(argv[1], "graph") == 0;
  const char *wanted = argc > 1 + graph ? argv[1 + graph] : nullptr;
  for (const test &t : tests)
    if (wanted ? strcmp(wanted, t.name) == 0 : t.right) ok(run(&t, graph) == cudaSuccess, "%s%s", t.name, graph ? ", from a graph" : "");
  for (int i = 0; i < 150 && !wanted; i++) run(&tests[i % 8], graph); /* more launches than the shadow can tell apart */
  ok(cudaGetLastError() == cudaSuccess || wanted, "and 150 times");
  return done_testing();
}
