/* How many warps does it take? A warp that waits for memory, or for the sum before, costs nothing as long as another can go on.
 *
 * Copy: every thread has exactly LOADS loads of one T on their way, then stores them, then starts over.
 * Arithmetic: every thread has CHAINS chains of multiply-adds, each of which needs the one before. */
#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/conv/random.h"
#include "common/tools/calibrate/probe.h"

enum { MOST_THREADS = 1024, FMAS = 32 };

template <typename T, int LOADS> __global__ void __launch_bounds__(MOST_THREADS) copy_warps(const T *from, T *to, size_t count) {
  const size_t threads = gridDim.x * (size_t)blockDim.x;
#pragma unroll 1
  for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < count; i += LOADS * threads) {
    T v[LOADS];
#pragma unroll
    for (int k = 0; k < LOADS; k++)
      if (i + k * threads < count) v[k] = from[i + k * threads];
#pragma unroll
    for (int k = 0; k < LOADS; k++)
      if (i + k * threads < count) to[i + k * threads] = v[k];
  }
}

/* x -> B x + c swings around its fixed point and comes closer so slowly that all bits of x keep changing. B stands in the instruction: three
 * registers at once can meet in one of the register file's two banks, which would halve the rate. */
#define B -0.99999f
static const float c = 0.7f;

/* FMAS multiply-adds a chain and round. Chain k of a thread starts from the k-th of its words in `start`. */
template <int CHAINS> __global__ void __launch_bounds__(MOST_THREADS) fma_warps(const float *start, float *end, float c, int rounds) {
  const size_t thread = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
  float x[CHAINS];
#pragma unroll
  for (int k = 0; k < CHAINS; k++) x[k] = start[thread * CHAINS + k];
#pragma unroll 1
  for (int i = 0; i < rounds; i++) {
#pragma unroll
    for (int j = 0; j < FMAS; j++) {
#pragma unroll
      for (int k = 0; k < CHAINS; k++) x[k] = fmaf(x[k], B, c);
    }
  }
#pragma unroll
  for (int k = 0; k < CHAINS; k++) end[thread * CHAINS + k] = x[k];
}

/* `warps` per SM: in one block of each SM, or two if one block cannot hold them. */
static dim3 grid_of(const probe *p, const workbench *w) { return dim3((unsigned)(w->device->sm_count * (p->number > 32 ? 2 : 1))); }
static dim3 block_of(const probe *p) { return dim3((unsigned)(p->number > 32 ? p->number * 16 : p->number * 32)); }

/* An error if those blocks would not run at the same time, because the kernel takes too many registers. */
template <typename K> static cudaError_t all_resident(K kernel, const probe *p, const workbench *w) {
  int blocks = 0;
  const cudaError_t status = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, (int)block_of(p).x, 0);
  return status || blocks * w->device->sm_count >= (int)grid_of(p, w).x ? status : cudaErrorLaunchOutOfResources;
}

/* ---------------------------------------------------------------- copy */

template <typename T, int LOADS> static cudaError_t launch_copy(const probe *p, const workbench *w, int set, cudaStream_t stream) {
  const size_t offset = set * p->bytes;
  const cudaError_t status = all_resident(copy_warps<T, LOADS>, p, w);
  if (status) return status;
  copy_warps<T, LOADS><<<grid_of(p, w), block_of(p), 0, stream>>>((const T *)(w->source + offset), (T *)(w->target + offset), p->bytes / sizeof(T));
  return cudaGetLastError();
}

static cudaError_t check_copy(const probe *p, const workbench *w, int set, bool *right, double *) {
  unsigned differences = 0;
  const cudaError_t status = count_differences(w->source + set * p->bytes, w->target + set * p->bytes, p->bytes, &differences);
  *right = differences == 0;
  return status;
}

/* Few bytes on their way copy slowly: they get less to copy, so that every launch takes about as long. */
template <typename T, int LOADS> static void add_copies(probe_list *list, const workbench *w, const char *name) {
  for (int warps = 1; warps <= w->warps_per_sm; warps *= 2) {
    const size_t in_flight = warps * 32 * sizeof(T) * LOADS, most = w->bytes / 4;
    probe *p = add_probe(list, name, "GB/s");
    snprintf(p->parameter, sizeof p->parameter, "warps=%d", warps);
    p->number = warps, p->bytes = 4096 * 32 * in_flight < most ? 4096 * 32 * in_flight : most, p->work = 2.0 * p->bytes;
    p->launch = launch_copy<T, LOADS>, p->check = check_copy;
  }
}

/* ---------------------------------------------------------------- arithmetic */

template <int CHAINS> static cudaError_t prepare_fma(const probe *p, const workbench *w) {
  const size_t count = grid_of(p, w).x * (size_t)block_of(p).x * CHAINS;
  float *start = (float *)malloc(count * sizeof *start);
  if (!start) return cudaErrorMemoryAllocation;
  for (size_t i = 0; i < count; i++) start[i] = (float)random_normal(1, i);
  cudaError_t status = cudaMemcpy(w->target, start, count * sizeof *start, cudaMemcpyHostToDevice);
  if (!status) status = all_resident(fma_warps<CHAINS>, p, w);
  free(start);
  return status;
}

template <int CHAINS> static cudaError_t launch_fma(const probe *p, const workbench *w, int, cudaStream_t stream) {
  fma_warps<CHAINS><<<grid_of(p, w), block_of(p), 0, stream>>>((const float *)w->target, (float *)w->result, c, p->rounds);
  return cudaGetLastError();
}

/* The first and the last chain, once more on the CPU: fmaf rounds as the GPU does. */
template <int CHAINS> static cudaError_t check_fma(const probe *p, const workbench *w, int, bool *right, double *) {
  const size_t count = grid_of(p, w).x * (size_t)block_of(p).x * CHAINS, at[2] = {0, count - 1};
  cudaError_t status = cudaSuccess;
  *right = true;
  for (int i = 0; i < 2 && !status; i++) {
    float got = 0, want = (float)random_normal(1, at[i]);
    for (int k = 0; k < p->rounds * FMAS; k++) want = fmaf(want, B, c);
    status = cudaMemcpy(&got, w->result + at[i] * sizeof got, sizeof got, cudaMemcpyDeviceToHost);
    if (!(got == want)) *right = false;
  }
  return status;
}

template <int CHAINS> static void add_fma(probe_list *list, const workbench *w, const char *name, int warps, int rounds) {
  probe *p = add_probe(list, name, "TFLOP/s");
  p->number = warps, p->rounds = rounds, p->work = 2.0 * (FMAS * CHAINS) * rounds * 32 * warps * w->device->sm_count;
  p->prepare = prepare_fma<CHAINS>, p->launch = launch_fma<CHAINS>, p->check = check_fma<CHAINS>;
}

void add_warps_probes(probe_list *list, const workbench *w) {
  add_copies<float, 1>(list, w, "copy_4_bytes");
  add_copies<float4, 1>(list, w, "copy_16_bytes");
  add_copies<float4, 4>(list, w, "copy_64_bytes");
  for (int chains = 1; chains <= 4; chains *= 4)
    for (int warps = 1; warps <= w->warps_per_sm; warps *= 2) {
      if (chains == 1) add_fma<1>(list, w, "fma_1_chain", warps, 4096);
      else add_fma<4>(list, w, "fma_4_chains", warps, 2048);
      probe *p = &list->probe[list->count - 1];
      snprintf(p->parameter, sizeof p->parameter, "warps=%d", warps);
    }
  add_fma<8>(list, w, "fp32_fma", w->warps_per_sm / 2, 4096); /* the most arithmetic of all: no chain ever waits */
}
