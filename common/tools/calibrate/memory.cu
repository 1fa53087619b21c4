/* How fast do bytes move? A copy and a read through main memory, a read out of the L2 cache. 16 bytes a thread at a time. */
#include <cuda_runtime.h>

#include "common/tools/calibrate/probe.h"
#include "common/tools/calibrate/report.cuh"

enum { THREADS = 256, LOADS = 4, READ_BYTES = THREADS * LOADS * 16, L2_ROUNDS = 255 };

/* One load and one store a thread. More loads a thread, and threads that stay and loop, were slower; hints to the caches changed nothing. */
__global__ void __launch_bounds__(THREADS) copy_kernel(const uint4 *from, uint4 *to, size_t count) {
  const size_t i = blockIdx.x * (size_t)THREADS + threadIdx.x;
  if (i < count) to[i] = from[i];
}

/* A block reads READ_BYTES; block `blocks` begins again where block 0 did. __ldcg goes past the L1 cache. */
__global__ void __launch_bounds__(THREADS) read_kernel(const uint4 *from, unsigned *report, unsigned blocks) {
  const uint4 *mine = from + blockIdx.x % blocks * (size_t)(THREADS * LOADS) + threadIdx.x;
  uint4 v[LOADS];
  unsigned sum = 0;
#pragma unroll
  for (int i = 0; i < LOADS; i++) v[i] = __ldcg(&mine[i * THREADS]);
#pragma unroll
  for (int i = 0; i < LOADS; i++) sum ^= v[i].x ^ v[i].y ^ v[i].z ^ v[i].w;
  report_xor(report, sum);
}

/* ---------------------------------------------------------------- what is checked against */

__global__ void fill_kernel(uint64_t *to, size_t count) {
  const size_t threads = gridDim.x * (size_t)blockDim.x;
  for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < count; i += threads) {
    uint64_t z = (i + 1) * 0x9E3779B97F4A7C15u; /* common/conv/random.h's generator */
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    to[i] = z ^ (z >> 31);
  }
}

__global__ void plain_xor_kernel(const unsigned *from, size_t count, size_t stride, unsigned *result) {
  const size_t threads = gridDim.x * (size_t)blockDim.x;
  unsigned sum = 0;
  for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < count; i += threads) sum ^= from[i * stride];
  atomicXor(result, sum);
}

__global__ void count_differences_kernel(const unsigned *a, const unsigned *b, size_t count, unsigned *result) {
  const size_t threads = gridDim.x * (size_t)blockDim.x;
  unsigned differences = 0;
  for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < count; i += threads) differences += a[i] != b[i];
  if (differences) atomicAdd(result, differences);
}

cudaError_t fill_random(void *to, size_t bytes) {
  fill_kernel<<<1024, 256>>>((uint64_t *)to, bytes / sizeof(uint64_t));
  return cudaGetLastError();
}

/* Runs `launch(result)` on a device word that starts as 0. */
template <typename F> static cudaError_t device_word(unsigned *result, F launch) {
  unsigned *word = NULL;
  cudaError_t status = cudaMalloc(&word, sizeof *word);
  if (!status) status = cudaMemset(word, 0, sizeof *word);
  if (!status) {
    launch(word);
    status = cudaGetLastError();
  }
  if (!status) status = cudaMemcpy(result, word, sizeof *word, cudaMemcpyDeviceToHost);
  cudaFree(word);
  return status;
}

cudaError_t plain_xor(const void *from, size_t count, size_t stride, unsigned *result) {
  return device_word(result, [=](unsigned *word) { plain_xor_kernel<<<1024, 256>>>((const unsigned *)from, count, stride, word); });
}

cudaError_t count_differences(const void *a, const void *b, size_t bytes, unsigned *result) {
  const size_t words = bytes / sizeof(unsigned);
  return device_word(result, [=](unsigned *word) { count_differences_kernel<<<1024, 256>>>((const unsigned *)a, (const unsigned *)b, words, word); });
}

/* ---------------------------------------------------------------- probes */

static cudaError_t launch_copy(const probe *p, const workbench *w, int set, cudaStream_t stream) {
  const size_t offset = set * p->bytes, count = p->bytes / sizeof(uint4);
  copy_kernel<<<(unsigned)((count + THREADS - 1) / THREADS), THREADS, 0, stream>>>((const uint4 *)(w->source + offset), (uint4 *)(w->target + offset), count);
  return cudaGetLastError();
}

static cudaError_t launch_memcpy(const probe *p, const workbench *w, int set, cudaStream_t stream) {
  return cudaMemcpyAsync(w->target + set * p->bytes, w->source + set * p->bytes, p->bytes, cudaMemcpyDeviceToDevice, stream);
}

static cudaError_t check_copy(const probe *p, const workbench *w, int set, bool *right, double *) {
  unsigned differences = 0;
  const cudaError_t status = count_differences(w->source + set * p->bytes, w->target + set * p->bytes, p->bytes, &differences);
  *right = differences == 0;
  return status;
}

/* p->number blocks' worth of memory, p->rounds times. */
static cudaError_t launch_read(const probe *p, const workbench *w, int set, cudaStream_t stream) {
  read_kernel<<<(unsigned)(p->number * p->rounds), THREADS, 0, stream>>>((const uint4 *)(w->source + set * p->bytes), (unsigned *)w->result,
                                                                         (unsigned)p->number);
  return cudaGetLastError();
}

static cudaError_t check_read(const probe *p, const workbench *w, int set, bool *right, double *) {
  unsigned want = 0, got = 0;
  cudaError_t status = plain_xor(w->source + set * p->bytes, p->number * (size_t)READ_BYTES / sizeof want, 1, &want);
  if (!status) status = plain_xor(w->result, p->number * (size_t)p->rounds * (THREADS / 32), 1, &got); /* an odd number of rounds leaves one */
  *right = got == want;
  return status;
}

void add_memory_probes(probe_list *list, const workbench *w) {
  const size_t half = w->bytes / 2;
  probe *p = add_probe(list, "copy", "GB/s");
  p->bytes = half, p->work = 2.0 * half, p->launch = launch_copy, p->check = check_copy;
  p = add_probe(list, "copy_memcpy", "GB/s"); /* not in a graph: there a copy engine does it, and takes half as long again */
  p->bytes = half, p->work = 2.0 * half, p->one_by_one = true, p->launch = launch_memcpy, p->check = check_copy;
  p = add_probe(list, "read", "GB/s");
  p->bytes = half, p->number = (int)(half / READ_BYTES), p->rounds = 1, p->work = half, p->launch = launch_read, p->check = check_read;
  p = add_probe(list, "read_l2", "GB/s"); /* a quarter of the L2 cache: it stays there, whichever half of the chip reads it */
  p->number = (int)(w->device->l2_bytes / 4 / READ_BYTES), p->rounds = L2_ROUNDS, p->work = (double)(L2_ROUNDS * (size_t)READ_BYTES * p->number);
  p->launch = launch_read, p->check = check_read;
}
