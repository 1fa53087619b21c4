/* How long does it take? See timing.h. */
#include "common/harness/timing.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { LEAST_LAUNCHES = 10, MOST_SETS = 2048, CLOCK_ROUNDS = 7, CLOCKS = 3 }; /* the clock is read in every seventh round, from the third on */
static const double most_seconds = 2.0, most_cpu_seconds = 0.5, most_sample_seconds = 0.04, warm_up_seconds = 0.13, long_launch_seconds = 1.0,
                    graph_launch_seconds = 5e-3; /* longer launches are enqueued one by one */

int timing_sets(size_t bytes, size_t cache_bytes) {
  const size_t sets = (2 * cache_bytes + bytes - 1) / bytes + 1;
  return sets < MOST_SETS ? (int)sets : MOST_SETS;
}

bool timing_is_cold(size_t bytes, int sets, size_t cache_bytes) { return (double)bytes * (sets - 1) >= 2.0 * (double)cache_bytes; }

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

/* How many launches of this contender make a sample, if `most` would be too long. */
static int launches_per_sample(const contender *c, int most) {
  const double affordable = most_sample_seconds / (c->first_seconds + 1e-9);
  return affordable < 1 ? 1 : affordable < most ? (int)affordable : most;
}

/* ---------------------------------------------------------------- GPU */

/* What one contender replays. */
typedef struct {
  cudaGraphExec_t cold, warm; /* NULL: its launches are enqueued one by one */
  int launches;               /* in a sample */
  int next;                   /* the set to go on with */
  double clock[CLOCKS];
  int clocks; /* read while a sample of this one ran */
} player;

/* What is read while a sample runs. */
typedef enum { READ_NOTHING, READ_POWER, READ_CLOCK } reading;

typedef struct {
  const machine *m;
  cudaStream_t stream;
  cudaEvent_t start, stop;
  int sets;
  void *flush; /* twice the L2 cache */
  size_t flush_bytes;
} stage;

static cudaError_t enqueue_all(const contender *c, int first, int launches, int sets, cudaStream_t stream) {
  cudaError_t status = cudaSuccess;
  for (int i = 0; i < launches && !status; i++) status = c->enqueue(c->context, (first + i) % sets, stream);
  return status;
}

#if CUDART_VERSION < 13000
#define cudaGraphGetEdges cudaGraphGetEdges_v2 /* as CUDA 12.3 to 12.9 call them */
#define cudaGraphAddDependencies cudaGraphAddDependencies_v2
#define cudaGraphRemoveDependencies cudaGraphRemoveDependencies_v2
#endif

/* Of a graph's edges those that are programmatic: of launches captured in a row, those that begin early (programmatic dependent launch). 0 where the driver
 * does not tell. in_order: they are made whole ones, and none is left; an error if that cannot be. */
static cudaError_t find_early_share(cudaGraph_t graph, bool in_order, double *share) {
  size_t count = 0, early = 0;
  cudaError_t status = cudaGraphGetEdges(graph, NULL, NULL, NULL, &count);
  if (status) count = 0;
  cudaGraphNode_t *nodes = malloc((2 * count + 1) * sizeof *nodes);
  cudaGraphEdgeData *edges = malloc((count + 1) * sizeof *edges);
  if (!status && (!nodes || !edges)) status = cudaErrorMemoryAllocation;
  if (!status && count > 0) status = cudaGraphGetEdges(graph, nodes, nodes + count, edges, &count);
  if (status) cudaGetLastError(), count = 0;
  if (!in_order) status = cudaSuccess; /* it is told, and no more */
  for (size_t i = 0; i < count && !status; i++) {
    if (edges[i].type != cudaGraphDependencyTypeProgrammatic) continue;
    const cudaGraphEdgeData whole = {0};
    early += !in_order;
    if (in_order) status = cudaGraphRemoveDependencies(graph, &nodes[i], &nodes[count + i], &edges[i], 1);
    if (in_order && !status) status = cudaGraphAddDependencies(graph, &nodes[i], &nodes[count + i], &whole, 1);
  }
  free(nodes), free(edges);
  *share = count > 0 ? (double)early / (double)count : 0;
  return status;
}

/* early_share: NULL or its result. */
static cudaError_t capture(cudaGraphExec_t *exec, const contender *c, int launches, int sets, cudaStream_t stream, double *early_share) {
  cudaGraph_t graph = NULL;
  double share;
  cudaError_t status = cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
  if (!status) status = enqueue_all(c, 0, launches, sets, stream);
  const cudaError_t ended = cudaStreamEndCapture(stream, &graph);
  if (!status) status = ended;
  if (!status && (early_share || c->in_order)) status = find_early_share(graph, c->in_order, early_share ? early_share : &share);
  if (!status) status = cudaGraphInstantiate(exec, graph, 0);
  if (graph) cudaGraphDestroy(graph);
  return status;
}

/* A clock is a contender's own if its sample still ran when the answer came. The emulator's has always ended. */
static void read_clock(const stage *s, player *p) {
  const double mhz = machine_clock_mhz(s->m);
  if (mhz > 0 && p->clocks < CLOCKS && (s->m->device.emulated || cudaEventQuery(s->stop) == cudaErrorNotReady)) p->clock[p->clocks++] = mhz;
}

/* One sample. warm: over the first set alone. */
static cudaError_t play(const stage *s, contender *c, player *p, bool warm, reading what, double *us) {
  float milliseconds = 0;
  cudaError_t status = cudaEventRecord(s->start, s->stream);
  if (!status && p->cold) status = cudaGraphLaunch(warm ? p->warm : p->cold, s->stream);
  if (!status && !p->cold) status = enqueue_all(c, warm ? 0 : p->next, p->launches, warm ? 1 : s->sets, s->stream);
  if (!status) status = cudaEventRecord(s->stop, s->stream);
  if (!status && what == READ_CLOCK) read_clock(s, p);
  if (!status && what == READ_POWER) c->power_watts = machine_power_watts(s->m);
  if (!status) status = cudaEventSynchronize(s->stop);
  if (!status) status = cudaEventElapsedTime(&milliseconds, s->start, s->stop);
  if (!warm && !p->cold) p->next = (p->next + p->launches) % s->sets;
  *us = 1e3 * milliseconds / p->launches;
  if (status) c->failed = true;
  return status;
}

static cudaError_t get_ready(const stage *s, contender *c, player *p) {
  cudaError_t status = cudaSuccess;
  double us = 0;
  if (c->first_seconds > graph_launch_seconds && !c->in_order) {
    p->launches = launches_per_sample(c, LEAST_LAUNCHES);
  } else {
    p->launches = (LEAST_LAUNCHES + s->sets - 1) / s->sets * s->sets;
    status = capture(&p->cold, c, p->launches, s->sets, s->stream, &c->early_share);
    if (!status) status = capture(&p->warm, c, p->launches, 1, s->stream, NULL);
    if (status) c->failed = true;
  }
  for (double spent = 0; spent < warm_up_seconds && !status; spent += 1e-6 * us * p->launches) status = play(s, c, p, false, READ_POWER, &us);
  return status;
}

/* The last sample, into poisoned outputs that are verified after it; then the warm figure. */
static cudaError_t finish(const stage *s, contender *c, player *p) {
  double us, warm[TIMING_LEAST_SAMPLES];
  cudaError_t status = c->poison(c->context);
  if (!status && s->flush) status = cudaMemset(s->flush, 0, s->flush_bytes); /* so that this sample finds the cache as the others did */
  if (!status) status = cudaDeviceSynchronize();
  const int first = p->next;
  if (!status) status = play(s, c, p, false, READ_NOTHING, &us);
  if (!status) c->samples[c->count++] = us;
  if (!status) status = c->check(c->context, first, p->launches);
  for (int k = 0; k < TIMING_LEAST_SAMPLES && !status; k++) status = play(s, c, p, true, READ_NOTHING, &warm[k]);
  if (!status) c->warm_us = quantile(warm, TIMING_LEAST_SAMPLES, 0.5);
  if (!status && p->clocks) c->clock_mhz = quantile(p->clock, p->clocks, 0.5);
  if (status) c->failed = true;
  return status;
}

static cudaError_t time_gpu(const stage *s, contender *contenders, int n, player *players) {
  cudaError_t status = cudaSuccess;
  double us = 0, spent = 0;
  for (int i = 0; i < n && !status; i++)
    if (contenders[i].first_seconds <= long_launch_seconds) status = get_ready(s, &contenders[i], &players[i]);
  for (int round = 0; round < TIMING_SAMPLES && !status; round++) {
    if (round >= TIMING_LEAST_SAMPLES && spent > most_seconds * n) break;
    for (int k = 0; k < n && !status; k++) {
      const int i = round % 2 ? n - 1 - k : k; /* there and back: nobody always follows the same one */
      contender *c = &contenders[i];
      if (c->first_seconds > long_launch_seconds) continue;
      status = play(s, c, &players[i], false, round % CLOCK_ROUNDS == TIMING_LEAST_SAMPLES - 1 ? READ_CLOCK : READ_NOTHING, &us);
      if (!status) c->samples[c->count++] = us;
      spent += 1e-6 * us * players[i].launches;
    }
  }
  for (int i = 0; i < n && !status; i++)
    if (contenders[i].first_seconds <= long_launch_seconds) status = finish(s, &contenders[i], &players[i]);
  return status;
}

static cudaError_t on_stage(contender *contenders, int n, int sets, const machine *m) {
  stage s = {.m = m, .sets = sets, .flush_bytes = 2 * m->device.l2_bytes};
  player *players = calloc((size_t)n, sizeof *players);
  cudaError_t status = players ? cudaSuccess : cudaErrorMemoryAllocation;
  if (!status && cudaMalloc(&s.flush, s.flush_bytes)) {
    s.flush = NULL; /* too little memory: the last sample may be a little warm */
    cudaGetLastError();
  }
  if (!status) status = cudaStreamCreate(&s.stream);
  if (!status) status = cudaEventCreate(&s.start);
  if (!status) status = cudaEventCreate(&s.stop);
  if (!status) status = time_gpu(&s, contenders, n, players);
  for (int i = 0; players && i < n; i++) {
    if (players[i].cold) cudaGraphExecDestroy(players[i].cold);
    if (players[i].warm) cudaGraphExecDestroy(players[i].warm);
  }
  if (s.start) cudaEventDestroy(s.start);
  if (s.stop) cudaEventDestroy(s.stop);
  if (s.stream) cudaStreamDestroy(s.stream);
  cudaFree(s.flush);
  free(players);
  return status;
}

/* ---------------------------------------------------------------- CPU */

static cudaError_t sweep(contender *c, int first, int launches, int sets, double *us) {
  cudaError_t status = cudaSuccess;
  const double start = now();
  for (int i = 0; i < launches && !status; i++) status = c->enqueue(c->context, (first + i) % sets, 0);
  *us = 1e6 * (now() - start) / launches;
  if (status) c->failed = true;
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
      const int launches = launches_per_sample(c, sets);
      const int first = (int)((int64_t)round * launches % sets);
      if (last) status = c->poison(c->context);
      if (!status) status = sweep(c, first, launches, sets, &us);
      if (last && !status) status = c->check(c->context, first, launches);
      if (round == 0) continue; /* warm-up: page faults, the thread pool */
      c->samples[c->count++] = us;
      spent += 1e-6 * us * launches;
    }
    if (last) break;
  }
  return status;
}

cudaError_t time_in_turns(contender *contenders, int n, conv_place place, int sets, const machine *m) {
  for (int i = 0; i < n; i++) contenders[i].count = 0;
  const cudaError_t status = place == ON_CPU ? time_cpu(contenders, n, sets) : on_stage(contenders, n, sets, m);
  for (int i = 0; i < n && !status; i++) {
    if (contenders[i].count == 0) contenders[i].samples[contenders[i].count++] = 1e6 * contenders[i].first_seconds;
    summarize(&contenders[i]);
  }
  return status;
}
