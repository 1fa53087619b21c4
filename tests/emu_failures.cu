/* What a GPU answers with a hang or garbage, the emulator reports: deadlocks, divergent barriers, bad shuffles, overwritten shared memory,
 * faults, stack overflow. Each check looks at the error that the launch leaves and at the report on stderr. And: a race shows under some
 * seeds, a correct kernel gives the same result under all. */
#include <cuda_runtime.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/files/output.h"
#include "common/ptx/ptx.cuh"
#include "tests/capture.h"
#include "tests/tap.h"

static int *scratch() {
  int *p = nullptr;
  cudaMalloc(&p, 4096 * sizeof(int));
  cudaMemset(p, 0, 4096 * sizeof(int));
  return p;
}

/* ---- kernels that go wrong ---- */

__global__ void barrier_in_branch(int *p) {
  if (threadIdx.x < 16) {
    __syncthreads();
  } else {
    p[threadIdx.x] = __shfl_sync(0xFFFFFFFFu, 1, 0); /* waits for lanes 0 to 15, which wait in the barrier */
  }
}
__global__ void two_barriers(int *p) {
  if (threadIdx.x % 64 < 32) {
    __syncthreads();
  } else {
    p[threadIdx.x] = 1;
    __syncthreads();
  }
}
__global__ void missing_lane(int *p) {
  if (threadIdx.x != 7) p[threadIdx.x] = __shfl_down_sync(0xFFFFFFFFu, (int)threadIdx.x, 1);
  __syncthreads();
}
__global__ void exited_source(int *p) {
  if (threadIdx.x == 31) return;
  p[threadIdx.x] = __shfl_xor_sync(0xFFFFFFFFu, (int)threadIdx.x, 1);
}
__global__ void not_in_mask(int *p) { p[threadIdx.x] = __shfl_xor_sync(0x0000FFFFu, 1, 1); }
__global__ void different_shuffles(int *p) {
  if (threadIdx.x % 2) p[threadIdx.x] = __shfl_sync(0xFFFFFFFFu, 1, 0);
  else p[threadIdx.x] = (int)__ballot_sync(0xFFFFFFFFu, 1);
}
__global__ void past_the_end(int *p) {
  __shared__ int row[40];
  row[threadIdx.x + 9] = 1; /* one too many for the last of 32 threads */
  __syncthreads();
  p[threadIdx.x] = row[threadIdx.x];
}
__global__ void address_of_global(int *p) { p[threadIdx.x] = (int)ptx_shared_address(p); }
__global__ void address_in_nowhere(int *p) {
  __shared__ unsigned row[64];
  row[threadIdx.x] = 1;
  p[threadIdx.x] = (int)ptx_ld_cluster(ptx_shared_address(&row[threadIdx.x]) + (threadIdx.x / 40 << 24));
}
/* Warp 1 hands something over twice, before warp 0 is there once. */
__global__ void ahead(int *p) {
  if (threadIdx.x >= 32) {
    ptx_bar_arrive(1, 64), ptx_bar_arrive(1, 64);
  } else {
    p[0] = __shfl_sync(0xFFFFFFFFu, 1, 0);
    ptx_bar_sync(1, 64), ptx_bar_sync(1, 64);
  }
}
/* The first round is over when the second arrival comes. */
__global__ void arrives_twice(int *) {
  ptx_cluster_arrive();
  ptx_cluster_arrive();
  ptx_cluster_wait();
}
__global__ void fine(int *p) {
  __shared__ int sum;
  if (threadIdx.x == 0) sum = 0;
  __syncthreads();
  atomicAdd(&sum, 1);
  __syncthreads();
  if (threadIdx.x == 0) p[blockIdx.x] = sum;
}

typedef void (*kernel)(int *);

/* Runs the kernel on 4 blocks of 64 threads: fails with the report, only that launch is harmed. */
static void expect_failure(kernel k, int threads, const char *what, int count, const char *const *words) {
  int *p = scratch();
  capture_begin();
  k<<<4, threads>>>(p);
  const cudaError_t error = cudaDeviceSynchronize();
  const char *report = capture_end();
  ok(error == cudaErrorLaunchFailure && mentions(report, count, words), "%s", what);
  ok(cudaMalloc(&p, 4) == cudaErrorLaunchFailure, "... the error stays");
  cudaDeviceReset();
  p = scratch();
  int sums[4];
  fine<<<4, 64>>>(p);
  cudaMemcpy(sums, p, sizeof sums, cudaMemcpyDeviceToHost);
  ok(cudaGetLastError() == cudaSuccess && sums[0] == 64 && sums[3] == 64, "... until a reset, after which launches work");
}
#define EXPECT(kernel, threads, what, ...)                                        \
  do {                                                                            \
    static const char *const words[] = {__VA_ARGS__};                             \
    expect_failure(kernel, threads, what, sizeof words / sizeof words[0], words); \
  } while (0)

static void test_reports() {
  EXPECT(barrier_in_branch, 32, "a barrier that some threads never reach: who waits where", "deadlock", "0 of 32 threads have exited",
         "in barrier_in_branch<<<(4,1,1), (32,1,1), 0>>>",
         "16 threads wait in __syncthreads at tests/emu_failures.cu:", "lanes 0xffff0000 wait in __shfl_sync at tests/emu_failures.cu:", "missing 0x0000ffff");
  EXPECT(two_barriers, 64, "two barriers in two branches", "divergent barrier", "__syncthreads at tests/emu_failures.cu:");
  EXPECT(missing_lane, 64, "a lane that stays away from a shuffle", "deadlock", "lanes 0xffffff7f wait in __shfl_down_sync", "missing 0x00000080");
  EXPECT(exited_source, 32, "a shuffle that reads from a lane that has returned", "thread (30,0,0)", "__shfl_xor_sync",
         "lane 30 reads from lane 31, which has exited");
  EXPECT(not_in_mask, 32, "a lane that leaves itself out of its mask", "lane 16 is not in its own mask 0x0000ffff");
  EXPECT(different_shuffles, 32, "different warp functions with the same mask", "divergent warp", "__ballot_sync", "__shfl_sync");
  EXPECT(past_the_end, 32, "a write past the end of a shared array", "wrote past the end of shared int [40] row, declared at tests/emu_failures.cu:");
  EXPECT(address_of_global, 32, "a shared address of what is not in shared memory", "thread (0,0,0)", "the address of a shared variable is asked for, but 0x",
         "lies in no shared memory of this block");
  EXPECT(ahead, 64, "an arrival at a barrier before others have come to the round before",
         "bar.arrive at tests/emu_failures.cu:", "barrier 1: this thread has arrived before", "of 64 threads");
  EXPECT(arrives_twice, 1, "an arrival at a cluster barrier, and another with no wait between",
         "barrier.cluster.arrive at tests/emu_failures.cu:", "this thread has arrived already, with no wait between");
  EXPECT(address_in_nowhere, 64, "a shared address where no memory is", "thread (40,0,0)", "shared address ", "no block of this cluster has it");
}

/* ---- faults end the process ---- */

__global__ void wild_pointer(int *p) {
  if (threadIdx.x == 5) p[threadIdx.x] = 1;
}
__global__ void divide(int *p) { p[threadIdx.x] = 100 / p[threadIdx.x]; }
__global__ void misaligned(float *p) { *(float4 *)(p + 1) = make_float4(1, 2, 3, 4); }
__device__ __noinline__ int deep(int n, int *p) {
  volatile char local[1024];
  local[n % 1024] = (char)n;
  return n == 0 ? 0 : deep(n - 1, p) + local[n % 1024] + p[0];
}
__global__ void overflow(int *p) { p[1] = deep(1 << 20, p); }
__global__ void large_frame(int *p) { /* nothing is touched near the stack's end */
  volatile int far[24000];
  far[p[0]] = 1;
  __syncthreads();
  p[1 + threadIdx.x] = far[p[0]];
}

/* Runs f in a child process; its report, and the exit status in *status. */
static const char *in_child(void (*f)(int *), int *status) {
  int *p = scratch();
  capture_begin();
  const pid_t child = fork();
  if (child == 0) {
    f(p);
    _exit(0);
  }
  waitpid(child, status, 0);
  cudaFree(p);
  return capture_end();
}

static void expect_fault(void (*f)(int *), int exit_status, const char *what, int count, const char *const *words) {
  int status = 0;
  const char *report = in_child(f, &status);
  ok(WIFEXITED(status) && WEXITSTATUS(status) == exit_status && mentions(report, count, words), "%s", what);
}
#define EXPECT_FAULT(f, status, what, ...)                                \
  do {                                                                    \
    static const char *const words[] = {__VA_ARGS__};                     \
    expect_fault(f, status, what, sizeof words / sizeof words[0], words); \
  } while (0)

static void raise_fault(int nothing) { *(int *)(size_t)(64 + nothing) = 1; } /* of the host */

static void test_faults() {
  EXPECT_FAULT([](int *) { wild_pointer<<<1, 32>>>((int *)64); }, 139, "a wild pointer: kernel, thread and address",
               "illegal access to address 0x54 in wild_pointer", "block (0,0,0), thread (5,0,0)", "launched at tests/emu_failures.cu:");
  EXPECT_FAULT([](int *p) { overflow<<<1, 1>>>(p); }, 139, "a stack overflow says so", "stack overflow", "in overflow");
  EXPECT_FAULT([](int *p) { large_frame<<<1, 64>>>(p); }, 139, "... and where one array reaches past the end", "stack overflow", "EMU_STACK_KB=n gives more",
               "in large_frame");
  int status = 0;
  static const char *const words[] = {"illegal access in the host's code, at tests/emu_failures.cu:", "no kernel was running"};
  const char *report = in_child([](int *p) { fine<<<1, 32>>>(p), raise_fault(p[0]); }, &status);
  ok(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV && mentions(report, 2, words), "a fault of the host's code says so");
#ifdef __x86_64__ /* elsewhere the processor allows both */
  EXPECT_FAULT([](int *p) { divide<<<1, 32>>>(p); }, 136, "an integer division by zero", "integer division by zero in divide");
  EXPECT_FAULT([](int *p) { misaligned<<<1, 1>>>((float *)p); }, 139, "a misaligned float4", "misaligned", "in misaligned");
#endif
}

/* rmdir() removes empty folders only. */
static void test_file() {
  static char folder[] = "/tmp/fault-XXXXXX", path[64];
  int status = 0;
  if (mkdtemp(folder) == nullptr) exit(1);
  snprintf(path, sizeof path, "%s/file", folder);
  in_child(
      [](int *) {
        if (output_open("FILE", path) != nullptr) wild_pointer<<<1, 32>>>((int *)64);
      },
      &status);
  ok(WEXITSTATUS(status) == 139 && rmdir(folder) == 0, "a fault leaves no file half written");
}

/* ---- seeds ---- */

/* Without the barrier it depends on the order whether a thread sees its neighbour's value. */
template <bool RACY> __global__ void neighbours(int *p) {
  __shared__ int x[64];
  x[threadIdx.x] = 0;
  __syncthreads();
  x[threadIdx.x] = threadIdx.x + 1;
  if (!RACY) __syncthreads();
  p[threadIdx.x] = x[(threadIdx.x + 1) % 64];
}

/* Which block comes last? */
__global__ void last_block(int *p) {
  if (threadIdx.x == 0) *p = blockIdx.x;
}

/* How many of 50 seeds give another result than the default order. */
template <typename F> static int seeds_that_differ(F launch) {
  int *p = scratch(), reference[64], got[64], differ = 0;
  for (int seed = 0; seed <= 50; seed++) {
    emu_set_seed(seed);
    launch(p);
    cudaMemcpy(got, p, sizeof got, cudaMemcpyDeviceToHost);
    if (seed == 0) memcpy(reference, got, sizeof got);
    differ += memcmp(got, reference, sizeof got) != 0;
  }
  emu_set_seed(0);
  cudaFree(p);
  return differ;
}

/* Warp 0 waits for a store; warp 1 has a thousand things to do. Who is done first? */
__global__ void slow_store(int *p) {
  __shared__ __align__(16) int box[4];
  if (threadIdx.x == 0) {
    for (int i = 0; i < 4; i++) box[i] = i;
    ptx_fence_proxy_async();
    ptx_bulk_store(p + 32, ptx_shared_address(box), sizeof box);
    ptx_bulk_commit();
    ptx_bulk_wait_read<0>();
  } else if (threadIdx.x >= 32) {
    for (int i = 0; i < 1000; i++) __syncwarp();
  }
  if (threadIdx.x % 32 == 0) p[threadIdx.x / 32] = atomicAdd(p + 2, 1);
}

static void test_seeds() {
  const int racy = seeds_that_differ([](int *p) { neighbours<true><<<1, 64>>>(p); });
  ok(racy > 40, "a missing barrier shows: %d of 50 seeds change the result", racy);
  ok(seeds_that_differ([](int *p) { neighbours<false><<<1, 64>>>(p); }) == 0, "with the barrier none does");
  const int order = seeds_that_differ([](int *p) { last_block<<<100, 32>>>(p); });
  ok(order > 40, "seeds shuffle the blocks too: %d of 50", order);
  ok(seeds_that_differ([](int *p) { fine<<<10, 64>>>(p); }) == 0, "a correct kernel gives the same under all 50");
  const int late = seeds_that_differ([](int *p) { cudaMemset(p, 0, 12), slow_store<<<1, 64>>>(p); });
  ok(late > 5 && late < 30, "a store reads as long as others have something to do: %d of 50", late);
  int *p = scratch(), first[64], again[64];
  for (int *const result : {first, again}) {
    emu_set_seed(7);
    neighbours<true><<<1, 64>>>(p);
    cudaMemcpy(result, p, sizeof first, cudaMemcpyDeviceToHost);
  }
  emu_set_seed(0);
  ok(memcmp(first, again, sizeof first) == 0, "the same seed gives the same order again");
}

int main() {
  test_faults();
  test_file();
  test_reports();
  test_seeds();
  return done_testing();
}
