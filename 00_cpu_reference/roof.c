#define _DEFAULT_SOURCE /* sysconf's cache sizes, clock_gettime */
#include "00_cpu_reference/roof.h"

#include <stdint.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "00_cpu_reference/gemm_tile.h"
#include "common/harness/memory.h"

static double seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec + 1e-9 * t.tv_nsec;
}

/* As many chains as the matrix tile has sums: 12 or 24. One FMA takes 4 cycles and at most 4 start per cycle on any core with 32 registers
 * (2 with 16), so 16 (8) chains already keep every unit busy. */
enum { CHAINS = TILE_M * TILE_VECTORS, ROUNDS = 10000 };

/* ROUNDS steps of all chains. The factors come from memory, so that nothing can be computed at compile time; 0.5 x + 0.5 stays near 1. */
static float fma_chains(const float *factor) {
  vec sum[CHAINS], scale, shift;
  for (int i = 0; i < LANES; i++) scale[i] = shift[i] = *factor;
  UNROLLED for (int i = 0; i < CHAINS; i++) sum[i] = scale * (float)i;
  for (int round = 0; round < ROUNDS; round++) { UNROLLED for (int i = 0; i < CHAINS; i++) sum[i] = sum[i] * scale + shift; }
  vec total = scale;
  UNROLLED for (int i = 0; i < CHAINS; i++) total += sum[i];
  return lane_sum(total);
}

/* FLOP/s of all threads together: each counts what it gets done in a window of 40 ms, the best of five windows. Nobody waits for the slowest
 * thread (a matrix product with a shared queue of tiles does not either), and one interrupt spoils one window. */
static double measure_fma(void) {
  volatile float sink = 0.5f;
  const float factor = sink;
  double best = 0;
  for (int window = 0; window < 5; window++) {
    double rate = 0;
    float total = 0;
#pragma omp parallel reduction(+ : rate, total)
    {
      const double start = seconds();
      double flops = 0, took;
      do {
        total += fma_chains(&factor);
        flops += 2.0 * LANES * CHAINS * ROUNDS;
        took = seconds() - start;
      } while (took < 0.04);
      rate += flops / took;
    }
    sink = total;
    best = rate > best ? rate : best;
  }
  return best;
}

/* Floats of each of the two arrays. Together at least four times the last-level cache, so that a quarter of them at most could still be in it
 * from the round before: 64 MiB each at least, twice the cache if the system tells its size (where there are several, it tells one's), 8 MiB a
 * thread because there may be several (4 MB of cache per core is usual). And not more than 1/16 of the memory each. */
static int64_t copy_floats(int threads) {
  int64_t bytes = (int64_t)64 << 20, cache = 0;
#ifdef _SC_LEVEL3_CACHE_SIZE
  cache = sysconf(_SC_LEVEL3_CACHE_SIZE);
#endif
  if (bytes < 2 * cache) bytes = 2 * cache;
  if (bytes < ((int64_t)threads << 23)) bytes = (int64_t)threads << 23;
  const int64_t memory = (int64_t)memory_of_process("").total;
  if (memory > 0 && bytes > memory / 16) bytes = memory / 16;
  return bytes / 4 / LINE * LINE;
}

/* Bytes per second. Counted are the bytes the program reads and the bytes it writes: 8 per float. Where the processor fetches a line before
 * an ordinary store to it, a third stream crosses the bus uncounted. A convolution's stores are ordinary too, so this is the rate that is open
 * to it; non-temporal stores could show up to half as much again. The addition keeps compilers from calling memcpy, which may use those.
 * Returns 0 without memory. */
static double measure_copy(int threads) {
  const int64_t count = copy_floats(threads);
  float *from = aligned_alloc(64, sizeof(float) * count), *to = aligned_alloc(64, sizeof(float) * count);
  double best = 1e30;
  if (from && to) {
#pragma omp parallel for
    for (int64_t i = 0; i < count; i++) from[i] = to[i] = 1; /* each thread touches its own part first: that places the pages near it */
    volatile float sink = 0;
    const float shift = sink;
    const double begin = seconds();
    do {
      const double start = seconds();
#pragma omp parallel for
      for (int64_t i = 0; i < count; i += LANES) *(vec *)(to + i) = *(const vec *)(from + i) + shift;
      const double took = seconds() - start;
      best = took < best ? took : best;
      sink = to[count - 1];
    } while (seconds() - begin < 0.1);
  }
  free(from);
  free(to);
  return best < 1e30 ? 8.0 * count / best : 0;
}

cpu_roof cpu_measure_roof(void) {
  const int threads = thread_count();
  return (cpu_roof){.fma_flops = measure_fma(), .memory_bytes_per_second = measure_copy(threads), .threads = threads};
}
