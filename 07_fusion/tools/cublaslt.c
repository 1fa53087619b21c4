/* cuBLASLt as a second yardstick: to step 07's program a kernel more. A 1x1 layer of stride 1 is one product of matrices, y [NPQ][K] = x [NPQ][C] by w [K][C] turned, and NVIDIA's
 * library for such products adds a bias and a residual and applies a ReLU before it stores.
 *
 *   make cublaslt SHAPE=mb32ic256ih56oc64oh56kh1 ARGS='--fuse bias,relu'
 *
 * All options are step 07's (make run-07 ARGS=--help). */
#include <stdio.h>

#include "common/harness/step.h"

#if defined(CUDA_EMULATOR) || !__has_include(<cublasLt.h>)

int main(void) {
#ifdef CUDA_EMULATOR
  fputs("cublaslt: needs a GPU\n", stderr);
#else
  fputs("cublaslt: no cuBLASLt: its header cublasLt.h was not found when this was built\n", stderr);
#endif
  return 2;
}

#else

#include <cublasLt.h>
#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/conv/bound.h"
#include "common/conv/gpu.h"
#include "common/harness/buffers.h"
#include "common/harness/library.h"
#include "common/harness/plan.h"

/* ---------------------------------------------------------------- the library */

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)
#define LIBRARY "libcublasLt.so." TEXT(CUBLAS_VER_MAJOR)
/* clang-format off */
#define FUNCTIONS(F) F(Create) F(Matmul) F(MatmulAlgoGetHeuristic) F(MatmulDescCreate) F(MatmulDescDestroy) F(MatmulDescSetAttribute) \
  F(MatmulPreferenceCreate) F(MatmulPreferenceDestroy) F(MatmulPreferenceSetAttribute) F(MatrixLayoutCreate) F(MatrixLayoutDestroy)
/* clang-format on */

static struct {
#define FIELD(name) __typeof__(cublasLt##name) *name;
  FUNCTIONS(FIELD)
#undef FIELD
  cublasLtHandle_t handle;
  void *workspace, *halves; /* the bias, as its epilogue wants it */
} lt;

enum { WORKSPACE = 64 << 20, MOST_BIAS = 1 << 16, ASKED = 64, ROUNDS = 5, FINAL_ROUNDS = 25, FINALISTS = 6 };

/* On the loader's path, or in the CUDA toolkit. Returns NULL, or what is missing. */
static const char *load(void) {
  void *library = library_open(LIBRARY);
  if (!library) return LIBRARY " was not found on the loader's path or in the CUDA toolkit ($CUDA_HOME can name its folder)";
#define BIND(name) \
  if (!(*(void **)&lt.name = dlsym(library, "cublasLt" #name))) return "its library has no cublasLt" #name;
  FUNCTIONS(BIND)
#undef BIND
  if (lt.Create(&lt.handle)) return "cublasLtCreate failed";
  return cudaMalloc(&lt.workspace, WORKSPACE) || cudaMalloc(&lt.halves, MOST_BIAS * sizeof(uint16_t)) ? "no device memory" : NULL;
}

/* ---------------------------------------------------------------- one product */

/* To cuBLASLt matrices are stored by columns: y [K][NPQ] = w [C][K], turned, by x [C][NPQ]. */
typedef struct product {
  cublasLtMatmulDesc_t what;
  cublasLtMatrixLayout_t w, x, y;
  float add; /* the residual's factor */
} product;

static void forget(product *m) {
  if (m->what) lt.MatmulDescDestroy(m->what);
  if (m->w) lt.MatrixLayoutDestroy(m->w);
  if (m->x) lt.MatrixLayoutDestroy(m->x);
  if (m->y) lt.MatrixLayoutDestroy(m->y);
}

static cublasStatus_t describe(const conv_operation *o, product *m) {
  const conv_problem *p = &o->problem;
  const conv_epilogue *e = &o->epilogue;
  const uint64_t pixels = (uint64_t)p->N * p->P * p->Q, C = p->C, K = p->K;
  const cublasOperation_t turned = CUBLAS_OP_T;
  const bool relu = e->activation == ACTIVATION_RELU;
  const cublasLtEpilogue_t after = e->bias ? relu ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_BIAS
                                   : relu  ? CUBLASLT_EPILOGUE_RELU
                                           : CUBLASLT_EPILOGUE_DEFAULT;
  *m = (product){.add = e->residual};
  cublasStatus_t status = lt.MatmulDescCreate(&m->what, CUBLAS_COMPUTE_32F, CUDA_R_32F);
  if (!status) status = lt.MatmulDescSetAttribute(m->what, CUBLASLT_MATMUL_DESC_TRANSA, &turned, sizeof turned);
  if (!status) status = lt.MatmulDescSetAttribute(m->what, CUBLASLT_MATMUL_DESC_EPILOGUE, &after, sizeof after);
  if (!status && e->bias) status = lt.MatmulDescSetAttribute(m->what, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &lt.halves, sizeof lt.halves);
  if (!status) status = lt.MatrixLayoutCreate(&m->w, CUDA_R_16F, C, K, p->C);
  if (!status) status = lt.MatrixLayoutCreate(&m->x, CUDA_R_16F, C, pixels, p->C);
  if (!status) status = lt.MatrixLayoutCreate(&m->y, CUDA_R_16F, K, pixels, p->K);
  return status;
}

static cublasStatus_t multiply(const product *m, const conv_buffers *b, const cublasLtMatmulAlgo_t *way, cudaStream_t stream) {
  const float one = 1;
  return lt.Matmul(lt.handle, m->what, &one, b->w, m->w, b->x, m->x, &m->add, m->add ? b->residual : b->y, m->y, b->y, m->y, way, lt.workspace, WORKSPACE,
                   stream);
}

/* ---------------------------------------------------------------- its fastest way */

static int by_float(const void *a, const void *b) { return (*(const float *)a > *(const float *)b) - (*(const float *)a < *(const float *)b); }

/* Median microseconds, each launch with a cold L2; infinite if it fails. */
static float time_way(const product *m, const conv_buffers *b, const cublasLtMatmulAlgo_t *way, int rounds, void *flush, size_t flush_bytes) {
  float ms[FINAL_ROUNDS];
  cudaEvent_t start, stop;
  if (cudaEventCreate(&start) || cudaEventCreate(&stop)) return INFINITY;
  bool failed = multiply(m, b, way, 0) || cudaDeviceSynchronize(); /* the first launch loads the code */
  for (int i = 0; i < rounds && !failed; i++) {
    failed = cudaMemsetAsync(flush, 0, flush_bytes, 0) || cudaEventRecord(start, 0) || multiply(m, b, way, 0) || cudaEventRecord(stop, 0) ||
             cudaEventSynchronize(stop) || cudaEventElapsedTime(&ms[i], start, stop);
  }
  cudaEventDestroy(start), cudaEventDestroy(stop);
  cudaGetLastError();
  if (failed) return INFINITY;
  qsort(ms, (size_t)rounds, sizeof *ms, by_float);
  return 1e3f * ms[rounds / 2];
}

typedef struct timed_way {
  float us;
  cublasLtMatmulHeuristicResult_t found;
} timed_way;
static int by_time(const void *a, const void *b) { return by_float(&((const timed_way *)a)->us, &((const timed_way *)b)->us); }

/* Of all that it proposes the one that takes the least time, with results added in fp32. Returns how many there were, the best first. */
static int search(const product *m, const conv_buffers *b, const conv_device *device, timed_way *best) {
  static cublasLtMatmulHeuristicResult_t found[ASKED];
  static timed_way way[ASKED];
  const uint64_t most = WORKSPACE;
  const uint32_t sums = CUBLASLT_REDUCTION_SCHEME_INPLACE | CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
  cublasLtMatmulPreference_t wish = NULL;
  const size_t flush_bytes = 2 * device->l2_bytes;
  void *flush = NULL;
  int count = 0;
  bool failed = lt.MatmulPreferenceCreate(&wish) || cudaMalloc(&flush, flush_bytes);
  failed = failed || lt.MatmulPreferenceSetAttribute(wish, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &most, sizeof most);
  failed = failed || lt.MatmulPreferenceSetAttribute(wish, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &sums, sizeof sums);
  failed = failed || lt.MatmulAlgoGetHeuristic(lt.handle, m->what, m->w, m->x, m->y, m->y, wish, ASKED, found, &count);
  for (int i = 0; i < count && !failed; i++) way[i] = (timed_way){time_way(m, b, &found[i].algo, ROUNDS, flush, flush_bytes), found[i]};
  qsort(way, (size_t)count, sizeof *way, by_time);
  for (int i = 0; i < count && i < FINALISTS && !failed; i++) way[i].us = time_way(m, b, &way[i].found.algo, FINAL_ROUNDS, flush, flush_bytes);
  qsort(way, (size_t)(count < FINALISTS ? count : FINALISTS), sizeof *way, by_time);
  if (wish) lt.MatmulPreferenceDestroy(wish);
  cudaFree(flush);
  *best = way[0];
  return failed || (count && isinf(way[0].us)) ? 0 : count;
}

/* ---------------------------------------------------------------- as a kernel */

/* A set of random numbers to search on. */
static cudaError_t random_set(const conv_operation *o, buffer_sets *one) {
  conv_tensor shape[3];
  for (int role = 0; role < 3; role++) shape[role] = operation_tensor(&o->problem, o->pass, &o->epilogue, (tensor_role)role, DTYPE_FP16, LAYOUT_NHWC);
  epilogue_data fused = epilogue_describe(&o->epilogue, &shape[TENSOR_Y]);
  *one = buffer_sets_plan_fused(ON_GPU, shape, &fused, 0);
  cudaError_t status = buffer_sets_alloc(one, 1);
  conv_tensor *const filled[] = {&shape[TENSOR_X], &shape[TENSOR_W], o->epilogue.residual ? &fused.residual : NULL};
  const int part[] = {TENSOR_X, TENSOR_W, PART_RESIDUAL};
  for (int i = 0; i < 3 && !status; i++) {
    if (!filled[i]) continue;
    filled[i]->data = buffer_address(one, 0, part[i]);
    status = gpu_fill(filled[i], (conv_source){.seed = (uint64_t)i + 1});
  }
  return status;
}

static const char *plan_product(const conv_operation *o, const conv_device *device, conv_plan *plan) {
  const conv_problem *p = &o->problem;
  const conv_epilogue *e = &o->epilogue;
  if (p->R != 1 || p->S != 1 || p->stride_h != 1 || p->stride_w != 1 || p->P != p->H || p->Q != p->W || p->groups > 1) return "no product of matrices";
  if (e->scale || e->fp32 || (e->activation != ACTIVATION_NONE && e->activation != ACTIVATION_RELU)) return "an epilogue that cuBLASLt has not";
  if (p->K > MOST_BIAS) return "more filters than there is room for";
  static const char *missing = "";
  static conv_operation last; /* verification and timing ask for the same one */
  static timed_way best;
  static int count;
  if (missing && !*missing) missing = load();
  if (missing) return missing;
  product m;
  if (memcmp(&last, o, sizeof last) != 0) {
    last = *o, count = 0;
    buffer_sets one;
    if (!random_set(o, &one)) {
      const conv_buffers b = buffer_view(&one, 0);
      if (!describe(o, &m)) count = search(&m, &b, device, &best);
      forget(&m);
    }
    buffer_sets_free(&one);
  }
  if (count == 0) return "cuBLASLt proposes nothing that runs, or no memory to find out";
  memcpy(plan->data, &best.found.algo, sizeof best.found.algo);
  snprintf(plan->words, sizeof plan->words, "the fastest of %d that it proposes, %.1f us alone", count, best.us);
  return NULL;
}

/* Outside of graphs the bias is made halves anew, for it may be another. */
static cudaError_t launch_product(const conv_plan *plan, const conv_buffers *b, cudaStream_t stream) {
  const conv_operation *o = &plan->operation;
  enum cudaStreamCaptureStatus capturing = cudaStreamCaptureStatusNone;
  cudaError_t status = cudaStreamIsCapturing(stream, &capturing);
  if (!status && o->epilogue.bias && capturing == cudaStreamCaptureStatusNone) status = buffer_halves(lt.halves, b->bias, (size_t)o->problem.K);
  if (status) return status;
  cublasLtMatmulAlgo_t way;
  memcpy(&way, plan->data, sizeof way);
  product m;
  const bool failed = describe(o, &m) || multiply(&m, b, &way, stream);
  forget(&m);
  return failed ? cudaErrorUnknown : cudaSuccess;
}

/* As 07a's, and slices of the reduction that are added in the end. */
static double growth(const conv_problem *p, bool random) { return growth_truncated((p->C + 15) / 16 * (16 + 1) + 64, random); }

static const conv_kernel product_row = {.name = "cublaslt",
                                        .idea = "NVIDIA's library for products of matrices, for 1x1 layers",
                                        .place = ON_GPU,
                                        .pass = PASS_FPROP,
                                        .dtype = DTYPE_FP16,
                                        .layout = LAYOUT_NHWC,
                                        .plan = plan_product,
                                        .launch = launch_product,
                                        .growth = growth,
                                        .fuses = FUSES_BIAS | FUSES_RESIDUAL | FUSES_ACTIVATION};

extern const conv_step step_07;

int main(int argc, char **argv) {
  const conv_kernel *kernels[16];
  conv_step step = step_07;
  int count = 0;
  while (count < step.kernel_count && count < 15) kernels[count] = step.kernels[count], count++;
  kernels[count++] = &product_row;
  step.kernels = kernels, step.kernel_count = count;
  return step_main(&step, argc, argv);
}

#endif
