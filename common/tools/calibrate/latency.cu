/* How long does one step take that needs the one before? One thread, so that nothing hides it: a pointer that leads to the next pointer, or
 * a multiply-add of the last one's sum. The SM's own clock counts beside the events. */
#include <cuda_runtime.h>
#include <stdlib.h>

#include "common/conv/random.h"
#include "common/tools/calibrate/probe.h"

enum { LINE = 128, SHARED_WORDS = 1024, UNROLL = 16 };
typedef unsigned long long address; /* a link of a list in global memory: where the next one is */

/* What a launch reports. */
typedef struct report {
  address end;
  float value;
  long long clocks;
} report;

/* PAST_L1: .cg goes past the L1 cache, .ca does not. */
template <bool PAST_L1> __global__ void chase_kernel(address start, int steps, report *r) {
  address at = start;
  const long long begin = clock64();
#pragma unroll UNROLL
  for (int i = 0; i < steps; i++) at = PAST_L1 ? __ldcg((const address *)at) : __ldca((const address *)at);
  r->end = at;
  r->clocks = clock64() - begin;
}

/* In shared memory a link is a byte offset. The list goes round: 33 words on, so that it meets every word. */
__global__ void chase_shared_kernel(int steps, report *r) {
  __shared__ unsigned next[SHARED_WORDS];
  for (unsigned i = 0; i < SHARED_WORDS; i++) next[i] = (i + 33) % SHARED_WORDS * (unsigned)sizeof(unsigned);
  unsigned at = 0;
  const long long begin = clock64();
#pragma unroll UNROLL
  for (int i = 0; i < steps; i++) at = *(const unsigned *)((const char *)next + at);
  r->end = at;
  r->clocks = clock64() - begin;
}

__global__ void fma_kernel(float x, float b, float c, int steps, report *r) {
  const long long begin = clock64();
#pragma unroll 16 * UNROLL
  for (int i = 0; i < steps; i++) x = fmaf(x, b, c);
  r->value = x;
  r->clocks = clock64() - begin;
}

/* ---------------------------------------------------------------- a list in random order */

static unsigned *order; /* the lines of the list as it visits them; a closed circle */

__global__ void link_kernel(unsigned char *lines, const unsigned *order, int count) {
  const int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < count) *(address *)(lines + order[i] * (size_t)LINE) = (address)(lines + order[i + 1 < count ? i + 1 : 0] * (size_t)LINE);
}

/* p->number lines in target. */
static cudaError_t prepare_list(const probe *p, const workbench *w) {
  const size_t bytes = p->number * sizeof *order;
  unsigned *device_order = NULL;
  free(order);
  order = (unsigned *)malloc(bytes);
  if (!order) return cudaErrorMemoryAllocation;
  for (int i = 0; i < p->number; i++) { /* shuffled while it grows */
    const int j = (int)random_below(1, i, (uint64_t)i + 1);
    order[i] = order[j];
    order[j] = (unsigned)i;
  }
  cudaError_t status = cudaMalloc(&device_order, bytes);
  if (!status) status = cudaMemcpy(device_order, order, bytes, cudaMemcpyHostToDevice);
  if (!status) {
    link_kernel<<<(unsigned)(p->number + 255) / 256, 256>>>(w->target, device_order, p->number);
    status = cudaGetLastError();
  }
  if (!status) status = cudaDeviceSynchronize();
  cudaFree(device_order);
  return status;
}

/* A launch goes on where the one of the set before stopped. */
static address line_after(const probe *p, const workbench *w, size_t steps) { return (address)(w->target + order[steps % p->number] * (size_t)LINE); }

template <bool PAST_L1> static cudaError_t launch_chase(const probe *p, const workbench *w, int set, cudaStream_t stream) {
  chase_kernel<PAST_L1><<<1, 1, 0, stream>>>(line_after(p, w, set * (size_t)p->rounds), p->rounds, (report *)w->result);
  return cudaGetLastError();
}

static cudaError_t launch_shared(const probe *p, const workbench *w, int, cudaStream_t stream) {
  chase_shared_kernel<<<1, 1, 0, stream>>>(p->rounds, (report *)w->result);
  return cudaGetLastError();
}

static const float x = 0.3f, b = -0.99999f, c = 0.7f;

static cudaError_t launch_fma(const probe *p, const workbench *w, int, cudaStream_t stream) {
  fma_kernel<<<1, 1, 0, stream>>>(x, b, c, p->rounds, (report *)w->result);
  return cudaGetLastError();
}

static cudaError_t read_report(const probe *p, const workbench *w, report *r, double *clocks) {
  const cudaError_t status = cudaMemcpy(r, w->result, sizeof *r, cudaMemcpyDeviceToHost);
  *clocks = (double)r->clocks / p->rounds;
  return status;
}

static cudaError_t check_chase(const probe *p, const workbench *w, int set, bool *right, double *clocks) {
  report r;
  const cudaError_t status = read_report(p, w, &r, clocks);
  *right = r.end == line_after(p, w, (set + 1) * (size_t)p->rounds);
  return status;
}

static cudaError_t check_shared(const probe *p, const workbench *w, int, bool *right, double *clocks) {
  report r;
  const cudaError_t status = read_report(p, w, &r, clocks);
  *right = r.end == p->rounds * 33ull % SHARED_WORDS * sizeof(unsigned);
  return status;
}

static cudaError_t check_fma(const probe *p, const workbench *w, int, bool *right, double *clocks) {
  report r;
  const cudaError_t status = read_report(p, w, &r, clocks);
  float want = x;
  for (int i = 0; i < p->rounds; i++) want = fmaf(want, b, c);
  *right = r.value == want;
  return status;
}

/* ---------------------------------------------------------------- probes */

static probe *add_steps(probe_list *list, const char *name, int steps) {
  probe *p = add_probe(list, name, "ns");
  p->rounds = steps, p->work = steps;
  return p;
}

static void add_chase(probe_list *list, const char *name, size_t bytes, int steps, bool past_l1, bool cold) {
  probe *p = add_steps(list, name, steps);
  p->number = (int)(bytes / LINE), p->bytes = cold ? (size_t)steps * LINE : 0;
  p->prepare = prepare_list, p->launch = past_l1 ? launch_chase<true> : launch_chase<false>, p->check = check_chase;
}

void add_latency_probes(probe_list *list, const workbench *w) {
  probe *p = add_steps(list, "latency_fma", 1 << 20);
  p->launch = launch_fma, p->check = check_fma;
  p = add_steps(list, "latency_shared", 1 << 17);
  p->launch = launch_shared, p->check = check_shared;
  add_chase(list, "latency_l1", 4096, 1 << 17, false, false);
  add_chase(list, "latency_l2", 2 << 20, 1 << 15, true, false);
  const size_t cold = 8 * w->device->l2_bytes;
  add_chase(list, "latency_dram", cold < w->bytes ? cold : w->bytes, 1 << 14, true, true);
}
