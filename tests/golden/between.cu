/* Copies from a block's shared memory to a block's of its cluster: to another, to itself, and in a launch without clusters, by an address that names the block
 * (mapa) or by a plain one. And plain loads and stores by such addresses. */
#include "common/ptx/ptx.cuh"
#include "tests/golden/golden.h"
#include "tests/on_device.cuh"

enum { WORDS = 16, BYTES = 4 * WORDS, BLOCKS = 2 };
typedef enum { COPY, STORE, LOAD } transfer;

/* Every block sends its words to the block of rank `to`, or by plain addresses to itself, and reports what it finds afterwards. */
__global__ void send(transfer how, unsigned to, bool mapped, unsigned *out) {
  __shared__ __align__(16) unsigned mine[WORDS];
  __shared__ __align__(16) unsigned theirs[WORDS];
  __shared__ unsigned long long there;
  const unsigned rank = ptx_cluster_rank();
  const ptx_shared barrier = ptx_shared_address(&there), target = ptx_shared_address(theirs);
  for (unsigned i = threadIdx.x; i < WORDS; i += blockDim.x) mine[i] = 100 * rank + i, theirs[i] = 7777;
  if (threadIdx.x == 0) {
    ptx_mbarrier_init(barrier, 1);
    ptx_fence_mbarrier_init();
  }
  ptx_fence_proxy_async();
  ptx_cluster_arrive();
  ptx_cluster_wait();
  const unsigned other = to == 2 ? 1 - rank : rank;
  const ptx_shared remote = mapped ? ptx_mapa(target, other) : target;
  if (how == COPY) {
    if (threadIdx.x == 0) {
      ptx_mbarrier_arrive_expect_tx(barrier, BYTES);
      ptx_bulk_between(remote, ptx_shared_address(mine), BYTES, mapped ? ptx_mapa(barrier, other) : barrier);
    }
    ptx_mbarrier_wait(barrier, 0);
  } else if (how == STORE) {
    if (threadIdx.x < WORDS) ptx_st_cluster(remote + 4 * threadIdx.x, mine[threadIdx.x]);
  } else {
    if (threadIdx.x < WORDS)
      theirs[threadIdx.x] = ptx_ld_cluster((mapped ? ptx_mapa(ptx_shared_address(mine), other) : ptx_shared_address(mine)) + 4 * threadIdx.x);
  }
  ptx_cluster_arrive();
  ptx_cluster_wait();
  if (threadIdx.x < WORDS) out[blockIdx.x * WORDS + threadIdx.x] = theirs[threadIdx.x];
}

static void measure(transfer how, int cluster, bool other, bool mapped) {
  static const char *const names[] = {"copy", "store", "load"}, *const launches[] = {"no cluster", "a cluster of 1", "a cluster of 2"};
  if (!golden_case("%s in %s, %s, %s", names[how], launches[cluster], other ? "the other block" : "the own block", mapped ? "mapa" : "a plain address")) return;
  unsigned *const out = on_device<unsigned>(BLOCKS * WORDS);
  cudaLaunchAttribute size = {};
  size.id = cudaLaunchAttributeClusterDimension, size.val.clusterDim.x = (unsigned)cluster, size.val.clusterDim.y = size.val.clusterDim.z = 1;
  cudaLaunchConfig_t launch = {};
  launch.gridDim = dim3(BLOCKS), launch.blockDim = dim3(32), launch.attrs = &size, launch.numAttrs = cluster > 0;
  cudaLaunchKernelEx(&launch, send, how, other ? 2u : 0u, mapped, out);
  golden_launched();
  unsigned *const found = on_host(out, BLOCKS * WORDS);
  golden_print("%s:", golden_name());
  for (int i = 0; i < BLOCKS; i++) golden_print(" %u..%u", found[i * WORDS], found[i * WORDS + WORDS - 1]);
  golden_print("\n");
  free(found), cudaFree(out);
}

void golden_between(void) {
  for (const transfer how : {COPY, STORE, LOAD})
    for (int cluster = 0; cluster <= 2; cluster++)
      for (const bool mapped : {true, false}) {
        measure(how, cluster, false, mapped);
        if (cluster == 2 && mapped) measure(how, cluster, true, mapped);
      }
}
