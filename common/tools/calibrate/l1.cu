/* The L1 cache hands out global memory as it does shared memory, by banks: stride.cu asks main memory, this asks L1. Lane i reads word stride x i:
 *
 *   stride 1       4 sectors, 32 banks: one wavefront
 *   stride 2       8 sectors, two words in each of 16 banks: two wavefronts
 *   stride 9, 33   32 sectors, but 32 banks: one wavefront. Here sectors and banks say different things
 *   stride 32      32 sectors, all in one bank: 32 wavefronts
 *
 * If banks are what counts, the figures are those of read_shared with as many ways (strides 9 and 33: one). */
#include <cuda_runtime.h>
#include <stdio.h>

#include "common/tools/calibrate/l1_stride.cuh"
#include "common/tools/calibrate/probe.h"

enum { THREADS = 1024, LANES = 32 };

static unsigned blocks(const workbench *w) { return (unsigned)(w->device->sm_count * w->warps_per_sm * 32 / THREADS); }

static cudaError_t launch(const probe *p, const workbench *w, int, cudaStream_t stream) {
  l1_stride_kernel<<<blocks(w), THREADS, 0, stream>>>((const unsigned *)w->source, (unsigned *)w->result, p->number, p->rounds);
  return cudaGetLastError();
}

/* The last warp's report. */
static cudaError_t check(const probe *p, const workbench *w, int, bool *right, double *) {
  static unsigned words[L1_WORDS];
  unsigned got[LANES];
  cudaError_t status = cudaMemcpy(words, w->source, sizeof words, cudaMemcpyDeviceToHost);
  if (!status) status = cudaMemcpy(got, w->result + (blocks(w) * THREADS - LANES) * sizeof *got, sizeof got, cudaMemcpyDeviceToHost);
  *right = true;
  for (int lane = 0; lane < LANES; lane++) {
    unsigned want = 0;
    for (int round = 0; round < p->rounds; round++)
      for (int i = 0; i < L1_LOADS; i++) want ^= words[lane * p->number + round % L1_PLACES * 32 + 32 * i];
    if (got[lane] != want) *right = false;
  }
  return status;
}

void add_l1_probes(probe_list *list, const workbench *w) {
  static const struct { int stride, wavefronts; } cases[] = {{1, 1}, {2, 2}, {4, 4}, {8, 8}, {9, 1}, {16, 16}, {32, 32}, {33, 1}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    probe *p = add_probe(list, "read_l1", "GB/s");
    snprintf(p->parameter, sizeof p->parameter, "stride=%d", cases[i].stride);
    p->number = cases[i].stride, p->rounds = 1024 / cases[i].wavefronts + 1; /* no multiple of L1_PLACES: a sum is left */
    const int words = (int)L1_LOADS * (int)THREADS;                          /* of a block in a round */
    p->work = 4.0 * words * p->rounds * blocks(w);
    p->launch = launch, p->check = check;
  }
}
