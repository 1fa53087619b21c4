/* How long does it take? See timing.h. */
#include "common/timing.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { LEAST_LAUNCHES = 10, MOST_SETS = 2048 };
static const double most_seconds = 2.0, most_cpu_seconds = 0.5, most_sweep_seconds = 0.1, warm_up_seconds = 0.02, long_launch_seconds = 1.0;

typedef struct {
  cudaGraphExec_t cold, warm;
  int launches; /* in either graph */
} graphs;

int timing_sets(size_t bytes, size_t cache_bytes) {
  const size_t sets = (2 * cache_bytes + bytes - 1) / bytes + 1; /* between two uses of a set, twice the cache goes through it */
  return sets < MOST_SETS ? (int)sets : MOST_SETS;
}

static int compare_doubles(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* The q-quantile, between the two neighbours it falls between. */
static double quantile(const double *values, int count, double q) {
  double sorted[TIMING_SAMPLES + 1];
  memcpy(sorted, values, (size_t)count * sizeof *values);
  qsort(sorted, (size_t)count, sizeof *sorted, compare_doubles);
  const double at = q * (count - 1);
  const int below = (int)at, above = below + 1 < count ? below + 1 : below;
  return sorted[below] + (at - below) * (sorted[above] - sorted[below]);
}

static void summarize(contender *c) {
  c->median_us = quantile(c->samples, c->count, 0.5);
  c->min_us = quantile(c->samples, c->count, 0);
  c->p90_us = quantile(c->samples, c->count, 0.9);
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---------------------------------------------------------------- GPU */

static cudaError_t capture(cudaGraphExec_t *exec, const contender *c, int launches, int sets, cudaStream_t stream) {
  cudaGraph_t graph = NULL;
  cudaError_t status = cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
  for (int i = 0; i < launches && !status; i++) status = c->enqueue(c->context, i % sets, stream);
  const cudaError_t ended = cudaStreamEndCapture(stream, &graph);
  if (!status) status = ended;
  if (!status) status = cudaGraphInstantiate(exec, graph, 0);
  if (graph) cudaGraphDestroy(graph);
  return status;
}

static cudaError_t replay(cudaGraphExec_t graph, int launches, cudaStream_t stream, cudaEvent_t start, cudaEvent_t stop, double *us, const machine *m,
                          contender *telemetry) {
  float milliseconds = 0;
  cudaError_t status = cudaEventRecord(start, stream);
  if (!status) status = cudaGraphLaunch(graph, stream);
  if (!status) status = cudaEventRecord(stop, stream);
  if (telemetry) machine_telemetry(m, &telemetry->clock_mhz, &telemetry->power_watts); /* while it runs */
  if (!status) status = cudaEventSynchronize(stop);
  if (!status) status = cudaEventElapsedTime(&milliseconds, start, stop);
  *us = 1e3 * milliseconds / launches;
  return status;
}

static cudaError_t time_gpu(contender *contenders, int n, int sets, const machine *m, graphs *g, cudaStream_t stream, cudaEvent_t start, cudaEvent_t stop) {
  cudaError_t status = cudaSuccess;
  double us = 0;
  for (int i = 0; i < n && !status; i++) {
    if (contenders[i].first_seconds > long_launch_seconds) continue;
    g[i].launches = (LEAST_LAUNCHES + sets - 1) / sets * sets;
    if (contenders[i].first_seconds * g[i].launches > most_seconds) g[i].launches = sets;
    status = capture(&g[i].cold, &contenders[i], g[i].launches, sets, stream);
    if (!status) status = capture(&g[i].warm, &contenders[i], g[i].launches, 1, stream);
    for (double spent = 0; spent < warm_up_seconds && !status; spent += 1e-6 * us * g[i].launches)
      status = replay(g[i].cold, g[i].launches, stream, start, stop, &us, m, NULL);
  }
  double spent = 0;
  for (int round = 0; round < TIMING_SAMPLES && !status; round++) {
    if (round >= TIMING_LEAST_SAMPLES && spent > most_seconds * n) break;
    for (int i = 0; i < n && !status; i++) {
      contender *c = &contenders[i];
      if (!g[i].cold) continue;
      status = replay(g[i].cold, g[i].launches, stream, start, stop, &us, m, round == TIMING_LEAST_SAMPLES - 1 ? c : NULL);
      c->samples[c->count++] = us;
      spent += 1e-6 * us * g[i].launches;
    }
  }
  for (int i = 0; i < n && !status; i++) {
    contender *c = &contenders[i];
    if (!g[i].cold) continue;
    double warm[TIMING_LEAST_SAMPLES];
    for (int k = 0; k < TIMING_LEAST_SAMPLES && !status; k++) status = replay(g[i].warm, g[i].launches, stream, start, stop, &warm[k], m, NULL);
    c->warm_us = quantile(warm, TIMING_LEAST_SAMPLES, 0.5);
    if (!status) status = c->poison(c->context);
    if (!status) status = cudaDeviceSynchronize();
    if (!status) status = replay(g[i].cold, g[i].launches, stream, start, stop, &us, m, NULL);
    c->samples[c->count++] = us;
    if (!status) status = c->check(c->context);
  }
  return status;
}

/* ---------------------------------------------------------------- CPU */

static cudaError_t sweep(const contender *c, int sets, double *us) {
  cudaError_t status = cudaSuccess;
  const double start = now();
  for (int set = 0; set < sets && !status; set++) status = c->enqueue(c->context, set, 0);
  *us = 1e6 * (now() - start) / sets;
  return status;
}

static cudaError_t time_cpu(contender *contenders, int n, int sets) {
  cudaError_t status = cudaSuccess;
  double us = 0, spent = 0;
  for (int round = 0; round <= TIMING_SAMPLES && !status; round++) {
    const bool last = round == TIMING_SAMPLES || (round >= TIMING_LEAST_SAMPLES && spent > most_cpu_seconds * n);
    for (int i = 0; i < n && !status; i++) {
      contender *c = &contenders[i];
      if (c->first_seconds > long_launch_seconds) continue;
      const double most_sets = most_sweep_seconds / (c->first_seconds + 1e-9);
      const int few = most_sets < 1 ? 1 : most_sets < sets ? (int)most_sets : sets;
      if (last) status = c->poison(c->context);
      if (!status) status = sweep(c, few, &us);
      if (last && !status) status = c->check(c->context);
      if (round == 0) continue; /* warm-up: page faults, the thread pool */
      c->samples[c->count++] = us;
      spent += 1e-6 * us * few;
    }
    if (last) break;
  }
  return status;
}

cudaError_t time_in_turns(contender *contenders, int n, conv_place place, int sets, const machine *m) {
  cudaError_t status = cudaSuccess;
  for (int i = 0; i < n; i++) contenders[i].count = 0;
  if (place == ON_CPU) {
    status = time_cpu(contenders, n, sets);
  } else {
    graphs *g = calloc((size_t)n, sizeof *g);
    cudaStream_t stream = 0;
    cudaEvent_t start = 0, stop = 0;
    if (!g) status = cudaErrorMemoryAllocation;
    if (!status) status = cudaStreamCreate(&stream);
    if (!status) status = cudaEventCreate(&start);
    if (!status) status = cudaEventCreate(&stop);
    if (!status) status = time_gpu(contenders, n, sets, m, g, stream, start, stop);
    for (int i = 0; g && i < n; i++) {
      if (g[i].cold) cudaGraphExecDestroy(g[i].cold);
      if (g[i].warm) cudaGraphExecDestroy(g[i].warm);
    }
    if (start) cudaEventDestroy(start);
    if (stop) cudaEventDestroy(stop);
    if (stream) cudaStreamDestroy(stream);
    free(g);
  }
  for (int i = 0; i < n; i++) {
    if (contenders[i].count == 0) contenders[i].samples[contenders[i].count++] = 1e6 * contenders[i].first_seconds;
    summarize(&contenders[i]);
  }
  return status;
}
