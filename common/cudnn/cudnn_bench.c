/* Running plans: memory bound to tensors, and quick timing for the search. */
#include "common/cudnn/cudnn_api.h"

#ifdef HAVE_CUDNN
#include "common/cudnn/cudnn_watch.h"
#include "common/harness/buffers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LEAST_LAUNCHES = 10, MOST_LAUNCHES = 512, SAMPLES = 3 };
static const double sample_us = 4000; /* a sample need not take longer */
static const double loading_us = 1e6; /* nor does loading a plan's kernels */
static const double most_running = 60,
                    most_building = 240; /* seconds, of a plan's samples, and of plans built side by side, of which some take 20: longer, it does not end */

/* The bias as fp16. */
static cudaError_t halve_bias(cudnn_bench *b) {
  const int channels =
      operation_tensor(b->task->problem, b->task->pass, &b->task->epilogue, pass_output(b->task->pass), b->task->dtype, b->task->layout).dim[1];
  const cudaError_t status = cudaMalloc(&b->halves, (size_t)channels * sizeof(uint16_t));
  return status ? status : buffer_halves(b->halves, b->views[0].bias, (size_t)channels);
}

int bench_open(cudnn_bench *b, const cudnn_task *task, const conv_buffers *views, int sets, char *error, size_t error_size) {
  *b = (cudnn_bench){.task = task, .views = views, .sets = sets};
  const cudnnStatus_t made = cudnn.Create(&b->handle);
  if (made) {
    b->handle = NULL;
    cudnn_failure(error, error_size, "cudnnCreate", made);
    return -1;
  }
  b->packs = calloc((size_t)sets * GRAPHS, sizeof *b->packs);
  cudaError_t status = b->packs ? cudaGetDevice(&b->device) : cudaErrorMemoryAllocation;
  if (!status) status = cudaStreamCreate(&b->stream);
  if (!status) status = cudaEventCreate(&b->start);
  if (!status) status = cudaEventCreate(&b->stop);
  const size_t zeros = task->zero_bias ? (size_t)task->problem->K * sizeof(float) : 0;
  if (!status && zeros) status = cudaMalloc(&b->zeros, zeros);
  if (!status && zeros) status = cudaMemset(b->zeros, 0, zeros);
  if (!status && task->epilogue.bias && task_halves(task)) status = halve_bias(b); /* zeros are the same in both types */
  if (status) snprintf(error, error_size, "a stream for cuDNN: %s", cudaGetErrorString(status));
  return status ? -1 : 0;
}

static void forget_packs(cudnn_bench *b) {
  for (int i = 0; b->packs && i < b->sets * GRAPHS; i++) {
    pool_free(&b->packs[i]);
    b->packs[i] = (cudnn_pool){0};
  }
}

int bench_workspace(cudnn_bench *b, size_t bytes) {
  forget_packs(b); /* they hold its address */
  cudaFree(b->workspace);
  b->workspace = NULL, b->workspace_bytes = 0;
  if (bytes == 0) return 0;
  if (cudaMalloc(&b->workspace, bytes)) {
    b->workspace = NULL;
    cudaGetLastError();
    return -1;
  }
  b->workspace_bytes = bytes;
  return 0;
}

void bench_free(cudnn_bench *b) {
  forget_packs(b);
  free(b->packs);
  cudaFree(b->workspace);
  cudaFree(b->zeros);
  cudaFree(b->halves);
  if (b->start) cudaEventDestroy(b->start);
  if (b->stop) cudaEventDestroy(b->stop);
  if (b->stream) cudaStreamDestroy(b->stream);
  if (b->handle) cudnn.Destroy(b->handle);
  for (int i = 0; i < BUILDERS; i++)
    if (b->builder[i]) cudnn.Destroy(b->builder[i]);
  *b = (cudnn_bench){0};
}

/* Of plans built side by side the first that is not. */
typedef struct building {
  const cudnn_bench *bench;
  const build_job *jobs;
  int count;
} building;
static void name_building(const void *context, char tag[CUDNN_TAG]) {
  const building *b = context;
  int i = 0;
  while (i + 1 < b->count && b->jobs[i].seconds > 0) i++;
  config_print(&b->jobs[i].config, b->bench->task->layout, tag);
}

void bench_build(cudnn_bench *b, build_job *jobs, int count) {
  const building all = {b, jobs, count};
  watch_begin(most_building, "be built", name_building, &all);
#pragma omp parallel for schedule(dynamic, 1) num_threads(count)
  for (int i = 0; i < count; i++) {
    build_job *job = &jobs[i];
    cudaSetDevice(b->device); /* every thread has its own */
    cudnnStatus_t status = CUDNN_STATUS_SUCCESS;
    if (count > 1 && !b->builder[i]) status = cudnn.Create(&b->builder[i]);
    if (status) b->builder[i] = NULL;
    const double start = search_clock();
    job->built = plan_build(job->plan, job->graph, b->builder[i] && count > 1 ? b->builder[i] : b->handle, &job->config) == 0;
    job->seconds = search_clock() - start;
  }
  watch_end();
}

/* The variant pack of a set: the graph's tensors at the harness's addresses. The graphs' UIDs are the same in every layout, but kept apart. */
static cudnn_pool *pack_of(cudnn_bench *b, const cudnn_graph *g, int set) {
  cudnn_pool *pool = &b->packs[set * GRAPHS + (int)g->layout * DTYPE_COUNT + (int)g->bias];
  if (pool->count > 0) return pool;
  const conv_buffers *view = &b->views[set];
  const void *const bias = b->task->zero_bias ? b->zeros : g->bias == DTYPE_FP16 ? b->halves : (const void *)view->bias;
  const void *const at[UID_COUNT] = {view->x, view->w, view->y, view->scale, bias, view->residual};
  const void *pointers[UID_COUNT];
  for (int i = 0; i < g->uids; i++) pointers[i] = at[g->uid[i] - UID_X];
  cudnnBackendDescriptor_t pack = pool_create(pool, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  pool_set(pool, pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, g->uids, g->uid);
  pool_set(pool, pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, g->uids, pointers);
  pool_set(pool, pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &b->workspace);
  pool_finalize(pool, pack, "variant pack");
  return pool;
}

cudnnStatus_t bench_enqueue(cudnn_bench *b, const cudnn_graph *g, const cudnn_plan *p, int set, cudaStream_t stream) {
  cudnn_pool *pool = pack_of(b, g, set);
  if (pool->status) return pool->status;
  const cudnnStatus_t status = cudnn.SetStream(b->handle, stream);
  return status ? status : cudnn.BackendExecute(b->handle, p->plan, pool->item[0]);
}

/* ---------------------------------------------------------------- quick timing */

/* An illegal access or the like leaves a context in which every call fails. */
static try_result failed(void) {
  const cudaError_t status = cudaDeviceSynchronize();
  cudaGetLastError();
  return status || cudaDeviceSynchronize() ? TRIED_DEVICE_LOST : TRIED_FAILED;
}

/* One launch between two events, the launch itself included; the device is idle before. */
static bool once(cudnn_bench *b, const cudnn_graph *g, const cudnn_plan *p, int set, double *us) {
  float milliseconds = 0;
  cudaError_t status = cudaEventRecord(b->start, b->stream);
  const cudnnStatus_t run = status ? CUDNN_STATUS_SUCCESS : bench_enqueue(b, g, p, set, b->stream);
  if (!status) status = cudaEventRecord(b->stop, b->stream);
  if (!status) status = cudaEventSynchronize(b->stop);
  if (!status) status = cudaEventElapsedTime(&milliseconds, b->start, b->stop);
  if (!status) status = cudaGetLastError();
  *us = 1e3 * milliseconds;
  return !status && !run;
}

static bool capture(cudnn_bench *b, const cudnn_graph *g, const cudnn_plan *p, int launches, cudaGraphExec_t *exec) {
  cudaGraph_t graph = NULL;
  *exec = NULL;
  if (cudaStreamBeginCapture(b->stream, cudaStreamCaptureModeThreadLocal)) return false;
  cudnnStatus_t run = CUDNN_STATUS_SUCCESS;
  for (int i = 0; i < launches && !run; i++) run = bench_enqueue(b, g, p, i % b->sets, b->stream);
  cudaError_t status = cudaStreamEndCapture(b->stream, &graph);
  if (!status && !run) status = cudaGraphInstantiate(exec, graph, 0);
  if (graph) cudaGraphDestroy(graph);
  if (status || run) {
    cudaGetLastError();
    if (*exec) cudaGraphExecDestroy(*exec);
    *exec = NULL;
  }
  return *exec != NULL;
}

static bool replay(cudnn_bench *b, cudaGraphExec_t exec, int launches, double *us) {
  float milliseconds = 0;
  cudaError_t status = cudaEventRecord(b->start, b->stream);
  if (!status) status = cudaGraphLaunch(exec, b->stream);
  if (!status) status = cudaEventRecord(b->stop, b->stream);
  if (!status) status = cudaEventSynchronize(b->stop);
  if (!status) status = cudaEventElapsedTime(&milliseconds, b->start, b->stop);
  *us = 1e3 * milliseconds / launches;
  return !status;
}

static double middle(double a, double b, double c) { return a > b ? (b > c ? b : a > c ? c : a) : (a > c ? a : b > c ? c : b); }

static try_result sample(cudnn_bench *b, const cudnn_graph *g, const cudnn_plan *p, double give_up_us, double *us) {
  double first, second, each[SAMPLES];
  if (!once(b, g, p, 0, &first)) return failed();                                       /* loads its kernels */
  if (give_up_us > 0 && first > 100 * give_up_us && first > loading_us) second = first; /* hopeless, however long loading took */
  else if (!once(b, g, p, b->sets > 1 ? 1 : 0, &second)) return failed();
  cudaGraphExec_t exec;
  const double host_us = 40; /* what the launch may take of it at most */
  if (give_up_us > 0 && second > give_up_us + host_us) {
    const bool can = capture(b, g, p, 1, &exec);
    if (can) cudaGraphExecDestroy(exec);
    *us = second;
    return can ? TRIED_TIMED : TRIED_NOT_CAPTURABLE;
  }
  int launches = (LEAST_LAUNCHES + b->sets - 1) / b->sets * b->sets;
  if (second * launches > sample_us) launches = b->sets;
  if (launches > MOST_LAUNCHES) launches = MOST_LAUNCHES;
  if (second * launches > 4 * sample_us) launches = second > sample_us ? 1 : (int)(4 * sample_us / second);
  if (!capture(b, g, p, launches, &exec)) return TRIED_NOT_CAPTURABLE;
  bool right = replay(b, exec, launches, &each[0]); /* warm-up */
  for (int i = 0; i < SAMPLES && right; i++) right = replay(b, exec, launches, &each[i]);
  cudaGraphExecDestroy(exec);
  if (!right) return failed();
  *us = middle(each[0], each[1], each[2]);
  return TRIED_TIMED;
}

typedef struct running {
  const cudnn_bench *bench;
  const cudnn_plan *plan;
} running;
static void name_running(const void *context, char tag[CUDNN_TAG]) {
  const running *r = context;
  config_print(&r->plan->config, r->bench->task->layout, tag);
}

try_result bench_time(cudnn_bench *b, const cudnn_graph *g, const cudnn_plan *p, double give_up_us, double *us) {
  const running one = {b, p};
  watch_begin(most_running, "run", name_running, &one);
  const try_result result = sample(b, g, p, give_up_us, us);
  watch_end();
  return result;
}
#endif
