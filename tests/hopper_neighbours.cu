/* A cluster's blocks in each other's shared memory by plain loads and stores: each block writes its numbers, reads its neighbour's and leaves its sums with the
 * neighbour after that. A cluster barrier orders global memory, too. On the emulator and on a GPU. */
#include <cuda_runtime.h>

#include "common/ptx/ptx.cuh"
#include "tests/on_device.cuh"
#include "tests/tap.h"

enum { THREADS = 96, WORDS = 4 * THREADS };

static __device__ __forceinline__ void cluster_sync() {
  ptx_cluster_arrive();
  ptx_cluster_wait();
}

/* y[block][i]: what block - 1 has left: its own number i + that of block + what block has passed on by global memory. */
__global__ void __launch_bounds__(THREADS) neighbours_kernel(unsigned *y, unsigned *passed) {
  __shared__ __align__(16) unsigned numbers[WORDS];
  __shared__ __align__(16) unsigned sums[WORDS];
  const unsigned next = (ptx_cluster_rank() + 1) % ptx_cluster_size(), i = 4 * threadIdx.x;
  for (unsigned j = i; j < i + 4; j++) numbers[j] = 1000 * blockIdx.x + j;
  passed[blockIdx.x * THREADS + threadIdx.x] = blockIdx.x;
  cluster_sync(); /* all numbers are there */

  const uint4 his = ptx_ld_cluster_16(ptx_mapa(ptx_shared_address(numbers + i), next));
  const unsigned one = ptx_ld_cluster(ptx_mapa(ptx_shared_address(numbers + i), next));
  const unsigned there = passed[(blockIdx.x - ptx_cluster_rank() + next) * THREADS + (threadIdx.x + 1) % THREADS];
  const uint4 sum = make_uint4(numbers[i] + one + there, numbers[i + 1] + his.y, numbers[i + 2] + his.z, numbers[i + 3] + his.w);
  ptx_st_cluster_16(ptx_mapa(ptx_shared_address(sums + i), next), sum);
  cluster_sync(); /* all sums are there, and nobody reads the numbers any more */

  numbers[i] = sums[(i + 4) % WORDS];
  for (unsigned j = i; j < i + 4; j++) y[blockIdx.x * WORDS + j] = sums[j];
}

static void test(int cluster, int clusters) {
  const int blocks = cluster * clusters;
  unsigned *dy = on_device<unsigned>(blocks * WORDS), *passed = on_device<unsigned>(blocks * THREADS);
  cudaMemset(dy, 0xFF, blocks * WORDS * 4);
  cudaLaunchAttribute size = {};
  size.id = cudaLaunchAttributeClusterDimension;
  size.val.clusterDim.x = cluster, size.val.clusterDim.y = 1, size.val.clusterDim.z = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(blocks), config.blockDim = dim3(THREADS), config.attrs = &size, config.numAttrs = 1;
  cudaError_t status = cudaLaunchKernelEx(&config, neighbours_kernel, dy, passed);
  if (status == cudaSuccess) status = cudaDeviceSynchronize();
  unsigned *y = on_host(dy, blocks * WORDS);
  int wrong = 0;
  for (int block = 0; block < blocks; block++)
    for (unsigned i = 0; i < WORDS; i++) {
      const unsigned first = block / cluster * cluster, before = first + (block - first + cluster - 1) % cluster;
      wrong += y[block * WORDS + i] != 1000 * before + i + 1000 * block + i + (i % 4 == 0 ? block : 0);
    }
  ok(status == cudaSuccess && wrong == 0, "%d clusters of %d: %s, %d of %d wrong", clusters, cluster, cudaGetErrorString(status), wrong, blocks * WORDS);
  free(y), cudaFree(dy), cudaFree(passed);
}

int main() {
  plan(0);
  test(2, 3);
  test(8, 2);
  return done_testing();
}
