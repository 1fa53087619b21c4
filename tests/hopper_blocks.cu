/* Clusters, launched by common/harness/launch.h: blocks know their rank, write and read one another's shared memory, arrive at one another's mbarriers, copy in
 * bulk from one to the next and load once for all. On the emulator and, compiled by nvcc, on a GPU of compute capability 9.0. */
#include <cuda_runtime.h>
#include <stdlib.h>

#include "common/harness/launch.h"
#include "common/ptx/ptx.cuh"
#include "common/ptx/st_async.cuh"
#include "tests/capture.h"
#include "tests/on_device.cuh"
#include "tests/tap.h"

enum { THREADS = 64, WORDS = 16, BYTES = WORDS * 4, RESULTS = 6 };

/* y: [RESULTS][block][thread]: what the block before stored here; what this one stored in the next; four words at once; what came in bulk from the block
 * before; what one load brought to all; what the block before stored here, and an mbarrier told of. */
__global__ void __launch_bounds__(THREADS) exchange(const unsigned *x, unsigned *y) {
  __shared__ alignas(16) uint4 told_four[THREADS];
  __shared__ alignas(16) uint4 sent_four[THREADS];
  __shared__ unsigned told[THREADS];
  __shared__ alignas(16) unsigned mine[WORDS];
  __shared__ alignas(16) unsigned from_before[WORDS];
  __shared__ alignas(16) unsigned for_all[WORDS];
  __shared__ unsigned long long arrived;
  __shared__ unsigned long long brought;
  __shared__ unsigned long long all_asked;
  const unsigned rank = ptx_cluster_rank(), size = ptx_cluster_size(), next = (rank + 1) % size, thread = threadIdx.x;
  const ptx_shared in_next = ptx_mapa(ptx_shared_address(&told[thread]), next), barrier = ptx_shared_address(&arrived);
  if (thread == 0) {
    ptx_mbarrier_init(barrier, 1);
    ptx_mbarrier_init(ptx_shared_address(&brought), 1);
    ptx_mbarrier_init(ptx_shared_address(&all_asked), size);
    ptx_fence_mbarrier_init();
  }
  ptx_cluster_arrive();
  ptx_cluster_wait();

  ptx_st_cluster(in_next, 1000 * rank + thread);
  ptx_st_cluster_16(ptx_mapa(ptx_shared_address(&told_four[thread]), next), make_uint4(rank, thread, 2, 3));
  ptx_cluster_arrive();
  ptx_cluster_wait();
  const uint4 four = ptx_ld_cluster_16(ptx_mapa(ptx_shared_address(&told_four[thread]), next));
  unsigned *const to = y + blockIdx.x * THREADS + thread;
  const unsigned pitch = gridDim.x * THREADS;
  to[0] = told[thread];
  to[pitch] = ptx_ld_cluster(in_next);
  to[2 * pitch] = (four.x << 24) + (four.y << 16) + (four.z << 8) + four.w;

  if (thread == 0) {
    for (unsigned i = 0; i < WORDS; i++) mine[i] = 100 * rank + i;
    ptx_fence_proxy_async();
    ptx_mbarrier_arrive_expect_tx(barrier, BYTES);
    ptx_bulk_between(ptx_mapa(ptx_shared_address(from_before), next), ptx_shared_address(mine), BYTES, ptx_mapa(barrier, next));
    ptx_mbarrier_arrive_expect_tx(ptx_shared_address(&brought), BYTES);
    ptx_mbarrier_arrive_cluster(ptx_mapa(ptx_shared_address(&all_asked), 0));
    if (rank == 0) {
      ptx_mbarrier_wait(ptx_shared_address(&all_asked), 0);
      ptx_bulk_load_multicast(ptx_shared_address(for_all), x, BYTES, ptx_shared_address(&brought), (unsigned short)((1 << size) - 1));
    }
  }
  ptx_mbarrier_wait(barrier, 0);
  to[3 * pitch] = from_before[thread % WORDS];
  ptx_mbarrier_wait(ptx_shared_address(&brought), 0);
  to[4 * pitch] = for_all[thread % WORDS];
  if (thread == 0) ptx_mbarrier_arrive_expect_tx(barrier, THREADS * 16);
  ptx_cluster_arrive(); /* nobody is told of these before the bytes above have come */
  ptx_cluster_wait();
  ptx_st_async_16(ptx_mapa(ptx_shared_address(&sent_four[thread]), next), make_uint4(rank, thread, 4, 5), ptx_mapa(barrier, next));
  ptx_mbarrier_wait(barrier, 1);
  to[5 * pitch] = (sent_four[thread].x << 24) + (sent_four[thread].y << 16) + (sent_four[thread].z << 8) + sent_four[thread].w;
  ptx_cluster_arrive(); /* nobody ends while others still copy out of its memory */
  ptx_cluster_wait();
}

static void test(unsigned cluster, unsigned blocks, bool early) {
  unsigned x[WORDS];
  for (unsigned i = 0; i < WORDS; i++) x[i] = 7 * i + 1;
  unsigned *const device_x = on_device(WORDS, x), *const device_y = on_device<unsigned>(RESULTS * blocks * THREADS);
  cudaError_t status = cudaSuccess;
  if (cluster > 8) status = cudaFuncSetAttribute(exchange, cudaFuncAttributeNonPortableClusterSizeAllowed, 1);
  if (!status) status = launch_kernel({.grid = blocks, .block = THREADS, .cluster = cluster, .early = early}, exchange, device_x, device_y);
  if (!status) status = cudaDeviceSynchronize();
  unsigned *const y = on_host(device_y, RESULTS * blocks * THREADS);
  int wrong = 0;
  for (unsigned b = 0; b < blocks; b++)
    for (unsigned t = 0; t < THREADS; t++) {
      const unsigned rank = b % cluster, before = (rank + cluster - 1) % cluster;
      const unsigned want[RESULTS] = {1000 * before + t,        1000 * rank + t, (rank << 24) + (t << 16) + (2 << 8) + 3,
                                      100 * before + t % WORDS, x[t % WORDS],    (before << 24) + (t << 16) + (4 << 8) + 5};
      for (int r = 0; r < RESULTS; r++) wrong += y[(r * blocks + b) * THREADS + t] != want[r];
    }
  ok(status == cudaSuccess && wrong == 0, "%u blocks in clusters of %u%s: %s, %d wrong", blocks, cluster, early ? ", early" : "", cudaGetErrorString(status),
     wrong);
  free(y), cudaFree(device_x), cudaFree(device_y);
}

int main() {
  cudaDeviceProp device;
  if (cudaGetDeviceProperties(&device, 0) != cudaSuccess || device.major != 9) {
    ok(1, "# SKIP a GPU of compute capability 9.0 has these instructions");
    return done_testing();
  }
  for (const unsigned cluster : {1, 2, 4, 8, 16}) test(cluster, 2 * cluster, false);
  test(2, 6, true);
  capture_begin(); /* the emulator says why */
  const cudaError_t refused = launch_kernel({.grid = 6, .block = THREADS, .cluster = 4}, exchange, (const unsigned *)nullptr, (unsigned *)nullptr);
  capture_end();
  ok(refused != cudaSuccess && cudaGetLastError() == cudaSuccess, "a grid that is no multiple of the cluster: %s", cudaGetErrorString(refused));
  return done_testing();
}
