/* When a wait at an mbarrier passes: by the phases that are over, by what is missing, by bytes that come before they are expected. */
#include "common/ptx/ptx.cuh"
#include "tests/golden/golden.h"
#include "tests/on_device.cuh"

enum { THREADS = 96, BYTES = 64, LONG = 1000 };

typedef enum { PHASES, ARRIVALS, EXPECTED, EARLY_BYTES } story;

/* Long enough for another warp to pass a wait that lets it. By two warps. */
static __device__ void pass_time(void) {
  for (int i = 0; i < LONG; i++) ptx_bar_sync(1, 64);
}

static __device__ void load(void *to, const void *from, unsigned long long *barrier) {
  ptx_bulk_load(ptx_shared_address(to), from, BYTES, ptx_shared_address(barrier));
}

/* Warp 1 waits for `parity` after warp 0 has done `steps` steps of a story. Later warp 0 takes a number; and warp 1 takes one when it has passed. At last warp 0
 * ends the phase. out: the numbers of warps 0 and 1. */
__global__ void watch(story what, int steps, unsigned parity, const unsigned char *bytes, unsigned *out) {
  __shared__ __align__(16) unsigned char to[BYTES];
  __shared__ __align__(16) unsigned char other_to[BYTES];
  __shared__ unsigned long long barrier;
  __shared__ unsigned long long other;
  __shared__ unsigned number;
  const bool over = what == ARRIVALS ? steps == 3 : what != PHASES && steps == 2; /* the story ends its first phase */
  const int warp = threadIdx.x / 32, first = threadIdx.x % 32 == 0;
  const ptx_shared at = ptx_shared_address(&barrier), other_at = ptx_shared_address(&other);
  if (threadIdx.x == 0) {
    number = 0;
    ptx_mbarrier_init(at, what == ARRIVALS ? 3 : 1);
    ptx_mbarrier_init(other_at, 1);
    ptx_fence_mbarrier_init();
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    if (what == PHASES)
      for (int i = 0; i < steps; i++) {
        ptx_mbarrier_arrive(at);
        ptx_mbarrier_wait(at, i & 1);
      }
    if (what == ARRIVALS)
      for (int i = 0; i < steps; i++) ptx_mbarrier_arrive(at);
    if (what == EXPECTED) { /* an arrival, and bytes that have not come */
      ptx_mbarrier_expect_tx(at, BYTES);
      if (steps > 0) ptx_mbarrier_arrive(at);
      if (steps > 1) {
        load(to, bytes, &barrier);
        ptx_mbarrier_wait(at, 0);
      }
    }
    if (what == EARLY_BYTES) { /* bytes, expected later; another copy's wait gives them time to come */
      load(to, bytes, &barrier);
      for (int i = 0; i < LONG; i++) {
        ptx_mbarrier_arrive_expect_tx(other_at, BYTES);
        load(other_to, bytes, &other);
        ptx_mbarrier_wait(other_at, i & 1);
      }
      if (steps > 0) ptx_mbarrier_expect_tx(at, BYTES);
      if (steps > 1) ptx_mbarrier_arrive(at), ptx_mbarrier_wait(at, 0); /* so that who asks for the next phase knows that this one is over */
    }
  }
  __syncthreads();
  if (warp == 1) {
    if (first) {
      ptx_mbarrier_wait(at, parity);
      out[1] = atomicAdd(&number, 1u);
    }
    return;
  }
  pass_time();
  if (threadIdx.x != 0) return;
  out[0] = atomicAdd(&number, 1u);
  if (over) { /* that phase, and the whole next one, for who waits for that */
    ptx_mbarrier_wait(at, 0);
    for (int i = 0; i < (what == ARRIVALS ? 3 : 1); i++) ptx_mbarrier_arrive(at);
  }
  if (what == PHASES) ptx_mbarrier_arrive(at);
  if (what == ARRIVALS)
    for (int i = steps; i < 3; i++) ptx_mbarrier_arrive(at);
  if (what == EXPECTED) {
    if (steps < 1) ptx_mbarrier_arrive(at);
    if (steps < 2) load(to, bytes, &barrier);
  }
  if (what == EARLY_BYTES) {
    if (steps < 1) ptx_mbarrier_expect_tx(at, BYTES);
    if (steps < 2) ptx_mbarrier_arrive(at);
  }
  ptx_mbarrier_wait(at, what == PHASES ? steps & 1 : over);
}

static void measure(story what, int steps, unsigned parity, const char *name) {
  if (!golden_case("mbarrier %s: a wait for parity %u", name, parity)) return;
  unsigned char *bytes = on_device<unsigned char>(BYTES);
  unsigned *out = on_device<unsigned>(2);
  cudaMemset(bytes, 0, BYTES);
  watch<<<1, THREADS>>>(what, steps, parity, bytes, out);
  golden_launched();
  unsigned *number = on_host(out, 2);
  golden_print("%s: %s\n", golden_name(), number[1] < number[0] ? "passes" : "waits");
  free(number), cudaFree(out), cudaFree(bytes);
}

static const struct {
  story what;
  int steps;
  const char *name;
} cases[] = {
    {PHASES, 0, "no phase over"},
    {PHASES, 1, "1 phase over"},
    {PHASES, 2, "2 phases over"},
    {PHASES, 3, "3 phases over"},
    {ARRIVALS, 2, "2 of 3 arrivals"},
    {ARRIVALS, 3, "3 of 3 arrivals"},
    {EXPECTED, 0, "64 bytes expected, no arrival"},
    {EXPECTED, 1, "64 bytes expected, 1 of 1 arrivals"},
    {EXPECTED, 2, "64 bytes expected, 1 of 1 arrivals, 64 bytes come"},
    {EARLY_BYTES, 0, "64 bytes come that nobody expects"},
    {EARLY_BYTES, 1, "64 bytes come, then they are expected, no arrival"},
    {EARLY_BYTES, 2, "64 bytes come, then they are expected, 1 of 1 arrivals"},
};

void golden_mbarriers(void) {
  for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++)
    for (unsigned parity = 0; parity < 2; parity++) measure(cases[i].what, cases[i].steps, parity, cases[i].name);
}
