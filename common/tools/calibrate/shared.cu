/* Shared memory has 32 banks of 4 bytes: word i lies in bank i % 32, and a bank serves one word at a time. Lane i reads word stride x i:
 *
 *   stride 1   lanes 0 .. 31 in banks 0 .. 31                      one pass
 *   stride 2   lanes 0 and 16 in bank 0, 1 and 17 in bank 2, ...   two passes ("a two-way conflict")
 *   stride 32  all lanes in bank 0                                 32 passes */
#include <cuda_runtime.h>
#include <stdio.h>

#include "common/tools/calibrate/probe.h"

enum { THREADS = 1024, LANES = 32, MOST_STRIDE = 32, LOADS = 16, WORDS = LANES * MOST_STRIDE + 32 * LOADS };

/* Every load moves 32 words on, which is the same bank. volatile: the compiler must read again in every round. */
__global__ void __launch_bounds__(THREADS) shared_kernel(const unsigned *from, unsigned *report, int stride, int rounds) {
  __shared__ unsigned words[WORDS];
  for (int i = threadIdx.x; i < WORDS; i += THREADS) words[i] = from[i];
  __syncthreads();
  const volatile unsigned *mine = words + threadIdx.x % LANES * stride;
  unsigned sum = 0;
#pragma unroll 1
  for (int round = 0; round < rounds; round++) {
#pragma unroll
    for (int i = 0; i < LOADS; i++) sum ^= mine[32 * i];
  }
  report[blockIdx.x * THREADS + threadIdx.x] = sum;
}

static unsigned blocks(const workbench *w) { return (unsigned)(w->device->sm_count * w->warps_per_sm * 32 / THREADS); }

static cudaError_t launch(const probe *p, const workbench *w, int, cudaStream_t stream) {
  shared_kernel<<<blocks(w), THREADS, 0, stream>>>((const unsigned *)w->source, (unsigned *)w->result, p->number, p->rounds);
  return cudaGetLastError();
}

/* The last warp's report. An odd number of rounds leaves one. */
static cudaError_t check(const probe *p, const workbench *w, int, bool *right, double *) {
  static unsigned words[WORDS];
  unsigned got[LANES];
  cudaError_t status = cudaMemcpy(words, w->source, sizeof words, cudaMemcpyDeviceToHost);
  if (!status) status = cudaMemcpy(got, w->result + (blocks(w) * THREADS - LANES) * sizeof *got, sizeof got, cudaMemcpyDeviceToHost);
  *right = true;
  for (int lane = 0; lane < LANES; lane++) {
    unsigned want = 0;
    for (int i = 0; i < LOADS; i++) want ^= words[lane * p->number + 32 * i];
    if (got[lane] != want) *right = false;
  }
  return status;
}

void add_shared_probes(probe_list *list, const workbench *w) {
  for (int ways = 1; ways <= MOST_STRIDE; ways *= 2) {
    probe *p = add_probe(list, "read_shared", "GB/s");
    snprintf(p->parameter, sizeof p->parameter, "ways=%d", ways);
    p->number = ways, p->rounds = 1024 / ways + 1; /* even plus one */
    p->work = 4.0 * (LOADS * THREADS) * p->rounds * blocks(w);
    p->launch = launch, p->check = check;
  }
}
