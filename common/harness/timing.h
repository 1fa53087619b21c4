/* How long does it take? Contenders for the same problem take turns in one process, so that a clock drift hits all of them.
 *
 * There are enough buffer sets that a set has left the last-level cache before it is used again. On a GPU a sample is one replay of a CUDA
 * graph that launches the contender over every set, between two events (launches of 5 ms and more need no graph: their gaps do not count, and
 * a sample is a few of them). On a CPU it is a loop over sets under a monotonic clock. Samples that do not go over all sets go on with the
 * next one where the last sample stopped. */
#pragma once
#include "common/harness/kernel.h"
#include "common/harness/machine.h"

enum { TIMING_SAMPLES = 20, TIMING_LEAST_SAMPLES = 3 };

typedef struct contender {
  /* Enqueues one execution on buffer set `set`; `context` is the caller's. */
  cudaError_t (*enqueue)(void *context, int set, cudaStream_t stream);
  /* Called before the last sample: makes every output invalid; and after it: verifies what that sample wrote into the `count` sets from
   * `first` on (modulo all sets). */
  cudaError_t (*poison)(void *context);
  cudaError_t (*check)(void *context, int first, int count);
  void *context;
  bool in_order;        /* each kernel begins when the one before it has ended, even if it could earlier (programmatic dependent launch) */
  double first_seconds; /* of one launch, measured by the caller; above 1 s it stays the only sample */

  /* results, in microseconds per execution */
  double samples[TIMING_SAMPLES + 1];
  int count;
  double median_us, min_us, p90_us;
  double warm_us;     /* median over one buffer set again and again: everything that fits stays in the cache; 0: not measured */
  double clock_mhz;   /* median of the clocks read while a sample of its own ran; 0: unknown, or every sample had ended before the answer came */
  double power_watts; /* at the end of its own warm-up; 0: unknown */
  double early_share; /* of the kernels after the first of a sample's graph: may begin before the one before them has ended; 0: also where there is no graph */
  bool failed;        /* the call that returned the error was this one's */
} contender;

/* Times n contenders over `sets` buffer sets. Returns the first CUDA error. */
cudaError_t time_in_turns(contender *contenders, int n, conv_place place, int sets, const machine *m);

/* How many sets keep the last-level cache cold when one execution touches `bytes`: between two uses of a set, twice the cache goes through
 * it. At most 2048, so a tiny problem may stay warm: timing_is_cold tells. */
int timing_sets(size_t bytes, size_t cache_bytes);
bool timing_is_cold(size_t bytes, int sets, size_t cache_bytes);
