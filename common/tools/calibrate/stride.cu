/* What does it cost when neighbouring lanes read distant addresses? Lane i reads the float at stride x i; what lies between is never read.
 *
 *   stride 1   |0 1 2 3 4 5 6 7|8 ...             a request of 32 lanes is 4 sectors of 32 bytes, all of them used
 *   stride 2   |0 . 1 . 2 . 3 .|4 ...             8 sectors, half of them used
 *   stride 8   |0 . . . . . . .|1 . . . . . . .|  32 sectors, one float in eight; and no more than 32 for a larger stride */
#include <cuda_runtime.h>
#include <stdio.h>

#include "common/tools/calibrate/probe.h"
#include "common/tools/calibrate/report.cuh"

enum { THREADS = 256, LOADS = 8, MOST_STRIDE = 32 };

__global__ void __launch_bounds__(THREADS) stride_kernel(const unsigned *from, unsigned *report, int stride) {
  const size_t first = blockIdx.x * (size_t)(THREADS * LOADS) + threadIdx.x;
  unsigned v[LOADS], sum = 0;
#pragma unroll
  for (int i = 0; i < LOADS; i++) v[i] = from[(first + i * THREADS) * stride];
#pragma unroll
  for (int i = 0; i < LOADS; i++) sum ^= v[i];
  report_xor(report, sum);
}

static size_t floats_read(const probe *p) { return p->bytes / sizeof(float) / (size_t)p->number; }

static cudaError_t launch(const probe *p, const workbench *w, int set, cudaStream_t stream) {
  const unsigned *from = (const unsigned *)(w->source + set * p->bytes);
  stride_kernel<<<(unsigned)(floats_read(p) / (THREADS * LOADS)), THREADS, 0, stream>>>(from, (unsigned *)w->result, p->number);
  return cudaGetLastError();
}

static cudaError_t check(const probe *p, const workbench *w, int set, bool *right, double *) {
  unsigned want = 0, got = 0;
  cudaError_t status = plain_xor(w->source + set * p->bytes, floats_read(p), (size_t)p->number, &want);
  if (!status) status = plain_xor(w->result, floats_read(p) / (LOADS * 32), 1, &got);
  *right = got == want;
  return status;
}

void add_stride_probes(probe_list *list, const workbench *w) {
  for (int stride = 1; stride <= MOST_STRIDE; stride *= 2) {
    probe *p = add_probe(list, "read_stride", "GB/s");
    snprintf(p->parameter, sizeof p->parameter, "stride=%d", stride);
    p->number = stride, p->bytes = w->bytes / 2, p->work = (double)(w->bytes / 2 / stride); /* useful bytes */
    p->launch = launch, p->check = check;
  }
}
