/* How long does it take? Contenders for the same problem take turns in one process, so that a clock drift hits all of them.
 *
 * On a GPU a sample is one replay of a CUDA graph that launches the contender over every buffer set, between two events; there are enough
 * sets that a set has left the L2 cache before it is used again. On a CPU it is a loop over the sets under a monotonic clock. */
#pragma once
#include "common/kernel.h"
#include "common/machine.h"

enum { TIMING_SAMPLES = 20, TIMING_LEAST_SAMPLES = 3 };

typedef struct contender {
  /* Enqueues one execution on buffer set `set`; `context` is the caller's. */
  cudaError_t (*enqueue)(void *context, int set, cudaStream_t stream);
  /* Called before the last sample: makes every output invalid; and after it: verifies what that sample wrote. */
  cudaError_t (*poison)(void *context);
  cudaError_t (*check)(void *context);
  void *context;
  double first_seconds; /* of one launch, measured by the caller; above 1 s it stays the only sample */

  /* results, in microseconds per execution */
  double samples[TIMING_SAMPLES + 1];
  int count;
  double median_us, min_us, p90_us;
  double warm_us;                /* median over one buffer set again and again: everything that fits stays in the cache; 0: not measured */
  double clock_mhz, power_watts; /* in the middle of the samples */
} contender;

/* Times n contenders over `sets` buffer sets. Returns the first CUDA error. */
cudaError_t time_in_turns(contender *contenders, int n, conv_place place, int sets, const machine *m);

/* How many sets keep the last-level cache cold when one execution touches `bytes`. */
int timing_sets(size_t bytes, size_t cache_bytes);
