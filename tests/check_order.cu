/* Order between the blocks of one launch: each block leaves partial sums, and the one that arrives last adds them all up. Right in several
 * ways, and wrong in every way that drops one of the things that make the order. Without an argument the right ones run; with a name, that
 * one. tests/check_order.sh says what the checker has to report. */
#include <cuda_runtime.h>
#include <string.h>

#include "common/ptx/ptx.cuh"
#include "tests/tap.h"

enum { THREADS = 64, BLOCKS = 12, GROUP = 4, TILES = 3 };
enum way {
  ONE_FENCE, /* barrier, then a fence and the atomic by thread 0 */
  ALL_FENCE, /* a fence by everybody, barrier, then the atomic by thread 0 */
  NO_FENCE,
  EARLY_FENCE,       /* thread 0 fences before the barrier: what the others wrote is not in it */
  NO_BARRIER,        /* thread 0 fences, but no barrier comes before */
  NO_BARRIER_ATOMIC, /* all fence, but thread 0 counts without knowing whether they have */
  WRITE_LATE,        /* thread 0 writes once more between its fence and its atomic */
  PLAIN_COUNTER,     /* two blocks may both count to the same number */
  NO_BARRIER_AFTER   /* the others read as soon as a shuffle has told them, which orders nothing */
};

static __device__ bool arrive(way w, unsigned *counter) { return (w == PLAIN_COUNTER ? (*counter)++ : atomicAdd(counter, 1u)) == gridDim.x - 1; }

/* y = the sum of all parts, of which each thread of each block has one; the sum is made by 64 threads of the last block. */
template <int WAY> __global__ void last_block(float *y, float *parts, unsigned *counter) {
  __shared__ bool last;
  parts[blockIdx.x * THREADS + threadIdx.x] = 1;
  if (WAY == ALL_FENCE || WAY == NO_BARRIER_ATOMIC) __threadfence();
  if (WAY == EARLY_FENCE && threadIdx.x == 0) __threadfence();
  if (WAY != NO_BARRIER && WAY != NO_BARRIER_ATOMIC) __syncthreads();
  if (threadIdx.x == 0) {
    if (WAY == ONE_FENCE || WAY == NO_BARRIER || WAY == WRITE_LATE || WAY == PLAIN_COUNTER) __threadfence();
    if (WAY == WRITE_LATE) parts[blockIdx.x * THREADS] = 2;
    last = arrive((way)WAY, counter);
  }
  __syncthreads();
  if (!last) return;
  float sum = 0;
  for (unsigned i = 0; i < gridDim.x; i++) sum += parts[i * THREADS + threadIdx.x];
  y[threadIdx.x] = sum;
  if (threadIdx.x == 0) *counter = 0; /* for the next launch */
}

/* The same by single warps. */
template <int WAY> __global__ void last_warp(float *y, float *parts, unsigned *counter) {
  parts[blockIdx.x * 32 + threadIdx.x] = 1;
  __syncwarp();
  unsigned before = 0;
  if (threadIdx.x == 0) {
    __threadfence();
    before = atomicAdd(counter, 1u);
  }
  before = __shfl_sync(0xffffffffu, before, 0);
  if (WAY != NO_BARRIER_AFTER) __syncwarp();
  if (before != gridDim.x - 1) return;
  float sum = 0;
  for (unsigned i = 0; i < gridDim.x; i++) sum += parts[i * 32 + (threadIdx.x + 1) % 32];
  y[threadIdx.x] = sum;
}

/* In two steps: the last of a group of blocks counts for its group. What it learned of the others it passes on. */
template <int WAY> __global__ void two_steps(float *y, float *parts, unsigned *counter) {
  __shared__ bool last;
  parts[blockIdx.x * THREADS + threadIdx.x] = 1;
  __syncthreads();
  if (threadIdx.x == 0) {
    if (WAY != NO_FENCE) __threadfence();
    last = atomicAdd(&counter[1 + blockIdx.x / GROUP], 1u) == GROUP - 1;
    if (last) {
      __threadfence();
      last = atomicAdd(counter, 1u) == gridDim.x / GROUP - 1;
    }
  }
  __syncthreads();
  if (!last) return;
  float sum = 0;
  for (unsigned i = 0; i < gridDim.x; i++) sum += parts[i * THREADS + (threadIdx.x + 40) % THREADS];
  y[threadIdx.x] = sum;
}

/* Sums by atomics, from all blocks; the last one makes the result of them. */
template <int WAY> __global__ void atomic_sums(float *y, float *parts, unsigned *counter) {
  __shared__ bool last;
  atomicAdd(&parts[threadIdx.x], 1.0f);
  if (WAY != NO_FENCE) __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) last = atomicAdd(counter, 1u) == gridDim.x - 1;
  __syncthreads();
  if (last) y[threadIdx.x] = parts[threadIdx.x] * 2;
}

/* Blocks that go from tile to tile; each tile has a counter. EARLY_FENCE: the fence of the tile before is too early for this one. */
template <int WAY> __global__ void tiles(float *y, float *parts, unsigned *counter) {
  __shared__ bool last;
  for (int tile = 0; tile < TILES; tile++) {
    float *mine = parts + tile * BLOCKS * THREADS;
    mine[blockIdx.x * THREADS + threadIdx.x] = 1;
    if (WAY == ALL_FENCE || (WAY == EARLY_FENCE && tile < 1)) __threadfence();
    __syncthreads(); /* nobody needs `last` any more, and the parts are there */
    if (threadIdx.x == 0) {
      if (WAY == ONE_FENCE) __threadfence();
      last = atomicAdd(&counter[tile], 1u) == gridDim.x - 1;
    }
    __syncthreads();
    if (last) {
      float sum = 0;
      for (unsigned i = 0; i < gridDim.x; i++) sum += mine[i * THREADS + THREADS - 1 - threadIdx.x];
      y[tile * THREADS + threadIdx.x] = sum;
    }
    __syncthreads();
  }
}

typedef void (*kernel)(float *, float *, unsigned *);
static const struct test {
  const char *name;
  bool right;
  kernel run;
  unsigned threads;
  int results;
  float expected;
} tests[] = {
    {"one-fence", true, last_block<ONE_FENCE>, THREADS, THREADS, BLOCKS},
    {"all-fence", true, last_block<ALL_FENCE>, THREADS, THREADS, BLOCKS},
    {"warps", true, last_warp<ONE_FENCE>, 32, 32, BLOCKS},
    {"two-steps", true, two_steps<ONE_FENCE>, THREADS, THREADS, BLOCKS},
    {"atomic-sums", true, atomic_sums<ALL_FENCE>, THREADS, THREADS, 2 * BLOCKS},
    {"tiles-one-fence", true, tiles<ONE_FENCE>, THREADS, TILES *THREADS, BLOCKS},
    {"tiles-all-fence", true, tiles<ALL_FENCE>, THREADS, TILES *THREADS, BLOCKS},
    {"no-fence", false, last_block<NO_FENCE>, THREADS, 0, 0},
    {"early-fence", false, last_block<EARLY_FENCE>, THREADS, 0, 0},
    {"no-barrier", false, last_block<NO_BARRIER>, THREADS, 0, 0},
    {"no-barrier-atomic", false, last_block<NO_BARRIER_ATOMIC>, THREADS, 0, 0},
    {"write-late", false, last_block<WRITE_LATE>, THREADS, 0, 0},
    {"plain-counter", false, last_block<PLAIN_COUNTER>, THREADS, 0, 0},
    {"no-barrier-after", false, last_warp<NO_BARRIER_AFTER>, 32, 0, 0},
    {"two-steps-no-fence", false, two_steps<NO_FENCE>, THREADS, 0, 0},
    {"atomic-sums-no-fence", false, atomic_sums<NO_FENCE>, THREADS, 0, 0},
    {"tiles-early-fence", false, tiles<EARLY_FENCE>, THREADS, 0, 0},
};

static bool run(const test *t) {
  float *y = nullptr, *parts = nullptr, h[TILES * THREADS];
  unsigned *counter = nullptr;
  if (cudaMalloc(&y, sizeof h) || cudaMalloc(&parts, TILES * BLOCKS * THREADS * sizeof(float)) || cudaMalloc(&counter, 64)) return false;
  if (cudaMemset(counter, 0, 64) || cudaMemset(parts, 0, TILES * BLOCKS * THREADS * sizeof(float))) return false;
  t->run<<<BLOCKS, t->threads>>>(y, parts, counter);
  if (cudaDeviceSynchronize() || cudaMemcpy(h, y, sizeof h, cudaMemcpyDeviceToHost)) return false;
  for (int i = 0; i < t->results; i++)
    if (h[i] != t->expected) return false;
  cudaFree(y), cudaFree(parts), cudaFree(counter);
  return true;
}

int main(int argc, char **argv) {
  for (const test &t : tests)
    if (argc > 1 ? strcmp(argv[1], t.name) == 0 : t.right) ok(run(&t), "%s", t.name);
  return done_testing();
}
