/* What Hopper's own ways of doing things cost: a launch and what it begins and ends with, copies between blocks of a cluster, boxes of a tensor.
 *
 *   launch_us      a kernel of 384 threads, launch after launch: empty; with a word stored by each block; with an mbarrier set up; with a bulk copy of 44 KiB
 *                  from memory that is waited for; with a second one after it; with one and a bulk store of 28 KiB whose end is waited for; as a cluster with
 *                  one cluster barrier. Nothing but what is named is stored: what a launch has loaded is asked of another one, afterwards
 *   cluster_load   16 bytes a thread from a neighbour's shared memory (ld.shared::cluster); cluster_copy: bulk copies from one to the other
 *   device_clusters   what the driver says of how many clusters fit at once, a block to a multiprocessor */
#include <cuda_runtime.h>
#include <stdio.h>

#include "common/harness/launch.h"
#include "common/ptx/ptx.cuh"
#include "common/tools/calibrate/probe.h"

enum { THREADS = 384, LOAD = 44 << 10, STORE = 28 << 10 };
typedef enum { EMPTY, WORD, BARRIER, ONE_LOAD, TWO_LOADS, STORED, CLUSTER } cost;

/* ---------------------------------------------------------------- launches */

__global__ void __launch_bounds__(THREADS) cost_kernel(cost what, bool tell, const unsigned char *from, unsigned char *to, unsigned *report) {
  extern __shared__ __align__(128) unsigned char buffer[];
  __shared__ unsigned long long there;
  const ptx_shared barrier = ptx_shared_address(&there), shared = ptx_shared_address(buffer);
  unsigned found = 1;
  if (what >= BARRIER && what <= STORED) {
    if (threadIdx.x == 0) {
      ptx_mbarrier_init(barrier, 1);
      ptx_fence_mbarrier_init();
    }
    __syncthreads();
  }
  for (int i = 0; i < (what == TWO_LOADS ? 2 : what == ONE_LOAD || what == STORED ? 1 : 0); i++) {
    if (threadIdx.x == 0) {
      ptx_mbarrier_arrive_expect_tx(barrier, LOAD);
      ptx_bulk_load(shared, from + ((size_t)blockIdx.x + (size_t)i * gridDim.x) * LOAD, LOAD, barrier);
    }
    ptx_mbarrier_wait(barrier, i & 1);
    found = *(const unsigned *)buffer;
    __syncthreads();
  }
  if (what == STORED && threadIdx.x == 0) {
    ptx_bulk_store(to + (size_t)blockIdx.x * STORE, shared, STORE);
    ptx_bulk_commit();
    ptx_bulk_wait<0>();
  }
  if (what == CLUSTER) {
    ptx_cluster_arrive();
    ptx_cluster_wait();
  }
  if (tell && threadIdx.x == 0) report[blockIdx.x] = found;
}

/* number: cost; rounds: blocks, and 2^20 times the blocks of a cluster. */
static int blocks_of(const probe *p) { return p->rounds & 0xfffff; }
static int loads_of(const probe *p) { return p->number == TWO_LOADS ? 2 : p->number == ONE_LOAD || p->number == STORED ? 1 : 0; }

static cudaError_t launch(const probe *p, const workbench *w, int set, cudaStream_t stream, bool tell) {
  return launch_kernel({.grid = dim3(blocks_of(p)), .block = dim3(THREADS), .shared = LOAD, .stream = stream, .cluster = (unsigned)p->rounds >> 20},
                       cost_kernel, (cost)p->number, tell, (const unsigned char *)w->source + set * p->bytes, w->target + set * p->bytes,
                       (unsigned *)w->result);
}

static cudaError_t launch_cost(const probe *p, const workbench *w, int set, cudaStream_t stream) { return launch(p, w, set, stream, p->number == WORD); }

/* A launch that was timed has stored what it should and nothing else; then one that tells what it has loaded. */
static cudaError_t check_cost(const probe *p, const workbench *w, int set, bool *right, double *) {
  enum { POISON = ~0u };
  unsigned told = 0, got = 0, stored = 0, want = 1;
  const int last = blocks_of(p) - 1, loads = loads_of(p);
  cudaError_t status = cudaMemcpy(&told, (unsigned *)w->result + last, sizeof told, cudaMemcpyDeviceToHost);
  if (!status && p->number == STORED) status = cudaMemcpy(&stored, w->target + set * p->bytes + (size_t)last * STORE, sizeof stored, cudaMemcpyDeviceToHost);
  if (!status && loads > 0)
    status = cudaMemcpy(&want, w->source + set * p->bytes + ((size_t)last + (size_t)(loads - 1) * blocks_of(p)) * LOAD, sizeof want, cudaMemcpyDeviceToHost);
  if (!status) status = launch(p, w, set, 0, true);
  if (!status) status = cudaMemcpy(&got, (unsigned *)w->result + last, sizeof got, cudaMemcpyDeviceToHost);
  *right = got == want && told == (p->number == WORD ? want : POISON) && (p->number != STORED || stored == want);
  return status;
}

static cudaError_t prepare_cost(const probe *, const workbench *) {
  const cudaError_t status = cudaFuncSetAttribute(cost_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, LOAD);
  return status ? status : cudaFuncSetAttribute(cost_kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1);
}

static void add_cost(probe_list *list, cost what, const char *name, int blocks, int cluster) {
  probe *p = add_probe(list, "launch_us", "us");
  if (cluster > 0) snprintf(p->parameter, sizeof p->parameter, "%s=%d blocks=%d", name, cluster, blocks);
  else snprintf(p->parameter, sizeof p->parameter, "%s blocks=%d", name, blocks);
  p->number = what, p->rounds = blocks | cluster << 20, p->work = 1;
  p->bytes = (size_t)blocks * LOAD * (loads_of(p) > 1 ? 2 : loads_of(p));
  p->prepare = prepare_cost, p->launch = launch_cost, p->check = check_cost;
}

/* ---------------------------------------------------------------- between blocks */

enum { DSMEM_THREADS = 512, DSMEM_BYTES = 32 << 10 };

/* Each block reads its neighbour's DSMEM_BYTES, `rounds` times: by loads of its threads, or by bulk copies. */
__global__ void __launch_bounds__(DSMEM_THREADS) neighbour_kernel(bool by_copies, int rounds, unsigned *report) {
  extern __shared__ __align__(128) unsigned char buffer[]; /* mine, and what comes from there */
  __shared__ unsigned long long there;
  const unsigned rank = ptx_cluster_rank(), next = (rank + 1) % ptx_cluster_size();
  const ptx_shared mine = ptx_shared_address(buffer), barrier = ptx_shared_address(&there), its = ptx_mapa(mine, next);
  for (int i = threadIdx.x; i < DSMEM_BYTES / 4; i += DSMEM_THREADS) ((unsigned *)buffer)[i] = rank + 1;
  if (threadIdx.x == 0) {
    ptx_mbarrier_init(barrier, 1);
    ptx_fence_mbarrier_init();
  }
  ptx_fence_proxy_async();
  ptx_cluster_arrive();
  ptx_cluster_wait();
  unsigned sum = 0;
  if (by_copies) { /* mine goes to the next one's second half */
    for (int round = 0; round < rounds; round++) {
      if (threadIdx.x == 0) {
        ptx_mbarrier_arrive_expect_tx(barrier, DSMEM_BYTES);
        ptx_bulk_between(its + DSMEM_BYTES, mine, DSMEM_BYTES, ptx_mapa(barrier, next));
      }
      ptx_mbarrier_wait(barrier, round & 1);
      __syncthreads();
    }
    sum = *(const unsigned *)(buffer + DSMEM_BYTES);
  } else {
    for (int round = 0; round < rounds; round++)
#pragma unroll
      for (int i = 0; i < DSMEM_BYTES / (16 * DSMEM_THREADS); i++) {
        const uint4 four = ptx_ld_cluster_16(its + 16 * ((threadIdx.x + i * DSMEM_THREADS + 8 * round) % (DSMEM_BYTES / 16))); /* no two rounds alike */
        sum += four.x + four.y + four.z + four.w;
      }
  }
  ptx_cluster_arrive();
  ptx_cluster_wait(); /* nobody reads here any more */
  report[blockIdx.x * DSMEM_THREADS + threadIdx.x] = sum;
}

static cudaError_t prepare_neighbour(const probe *, const workbench *) {
  const cudaError_t status = cudaFuncSetAttribute(neighbour_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 2 * DSMEM_BYTES);
  return status ? status : cudaFuncSetAttribute(neighbour_kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1);
}

static int cluster_of(const probe *p) { return p->number & 0xff; }
static int cluster_blocks(const probe *p, const workbench *w) { return w->device->sm_count * 5 / 6 / cluster_of(p) * cluster_of(p); } /* all resident */

static cudaError_t launch_neighbour(const probe *p, const workbench *w, int, cudaStream_t stream) {
  return launch_kernel(
      {.grid = dim3(cluster_blocks(p, w)), .block = dim3(DSMEM_THREADS), .shared = 2 * DSMEM_BYTES, .stream = stream, .cluster = (unsigned)cluster_of(p)},
      neighbour_kernel, p->number >> 8 != 0, p->rounds, (unsigned *)w->result);
}

static cudaError_t check_neighbour(const probe *p, const workbench *w, int, bool *right, double *) {
  unsigned got;
  const cudaError_t status =
      cudaMemcpy(&got, w->result, sizeof got, cudaMemcpyDeviceToHost); /* of block 0, whose neighbour is 1, or the last one's copy came */
  const unsigned from = p->number >> 8 ? (unsigned)cluster_of(p) : 2u;
  *right = got == (p->number >> 8 ? from : from * p->rounds * 4 * (DSMEM_BYTES / (16 * DSMEM_THREADS)));
  return status;
}

static void add_neighbour(probe_list *list, const workbench *w, bool by_copies, int cluster) {
  probe *p = add_probe(list, by_copies ? "cluster_copy" : "cluster_load", "GB/s");
  snprintf(p->parameter, sizeof p->parameter, "blocks=%d", cluster);
  p->number = cluster | by_copies << 8, p->rounds = 200;
  p->work = (double)DSMEM_BYTES * p->rounds * cluster_blocks(p, w);
  p->prepare = prepare_neighbour, p->launch = launch_neighbour, p->check = check_neighbour;
}

cudaError_t resident_clusters(int blocks, int *clusters) {
  const int shared = 128 << 10; /* a multiprocessor has room for one such block */
  cudaLaunchAttribute size = {};
  size.id = cudaLaunchAttributeClusterDimension, size.val.clusterDim.x = (unsigned)blocks, size.val.clusterDim.y = size.val.clusterDim.z = 1;
  cudaLaunchConfig_t launch = {};
  launch.gridDim = dim3(blocks), launch.blockDim = dim3(THREADS), launch.dynamicSmemBytes = shared, launch.attrs = &size, launch.numAttrs = 1;
  cudaError_t status = cudaFuncSetAttribute(cost_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared);
  if (!status) status = cudaFuncSetAttribute(cost_kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1);
  return status ? status : cudaOccupancyMaxActiveClusters(clusters, cost_kernel, &launch);
}

void add_hopper_probes(probe_list *list, const workbench *w) {
  if (w->device->arch != 90) return;
  static const struct {
    cost what;
    const char *name;
  } costs[] = {{EMPTY, "empty"}, {WORD, "word"}, {BARRIER, "mbarrier"}, {ONE_LOAD, "load"}, {TWO_LOADS, "two loads"}, {STORED, "load+store"}};
  const int sms = w->device->sm_count;
  for (size_t i = 0; i < sizeof costs / sizeof *costs; i++)
    for (int blocks : {1, sms, 2 * sms}) add_cost(list, costs[i].what, costs[i].name, blocks, 0);
  for (int cluster = 2; cluster <= 16; cluster *= 2) add_cost(list, CLUSTER, "cluster", sms / cluster * cluster, cluster);
  for (int cluster = 2; cluster <= 16; cluster *= 2) add_neighbour(list, w, false, cluster), add_neighbour(list, w, true, cluster);
}
