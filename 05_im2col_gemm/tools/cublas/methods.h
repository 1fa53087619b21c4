/* cuBLAS, found at run time (only its header is needed to build), and the contenders. Private to 05_im2col_gemm/tools/cublas.c. */
#pragma once
#include <cublas_v2.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "05_im2col_gemm/im2col.h"
#include "common/conv/reference.h"
#include "common/harness/buffers.h"
#include "common/harness/library.h"
#include "common/harness/machine.h"
#include "common/harness/plan.h"

/* ---------------------------------------------------------------- the library */

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)
#define LIBRARY "libcublas.so." TEXT(CUBLAS_VER_MAJOR)
/* clang-format off */
#define CUBLAS_FUNCTIONS(F)                                                                                                                               \
  F(cublasCreate_v2)                                                                                                                                      \
  F(cublasDestroy_v2) F(cublasGetProperty) F(cublasGetStatusString) F(cublasSetMathMode) F(cublasSetStream_v2) F(cublasSetWorkspace_v2) F(cublasSgemm_v2) \
      F(cublasSgemmStridedBatched)
/* clang-format on */

static struct {
#define FIELD(name) __typeof__(name) *p_##name;
  CUBLAS_FUNCTIONS(FIELD)
#undef FIELD
} cublas;

/* On the loader's path, or in the CUDA toolkit. Returns NULL, or what is missing. */
static const char *load_cublas(void) {
  void *library = library_open(LIBRARY);
  if (!library) return "no cuBLAS: " LIBRARY " was not found on the loader's path or in the CUDA toolkit ($CUDA_HOME can name its folder)";
#define BIND(name) \
  if (!(*(void **)&cublas.p_##name = dlsym(library, #name))) return "no cuBLAS: its library has no " #name;
  CUBLAS_FUNCTIONS(BIND)
#undef BIND
  return NULL;
}

/* ---------------------------------------------------------------- the contenders */

extern const conv_kernel im2col_fprop, implicit_fprop, pipelined_fprop, split_fprop;

enum { SCRATCH = 32 << 20 }; /* bytes for cuBLAS itself: what its documentation wants for Hopper */

typedef struct bench {
  const machine *gpu;
  conv_problem p;
  conv_plan im2col;    /* of 05a, for its halves */
  conv_tensor host[3]; /* x, w, and room for a result */
  float *product;      /* room for a result as [K][N*P*Q] */
  conv_reference reference;
  buffer_sets sets; /* the workspace is the columns, and behind them the kernels' own */
  size_t columns_bytes;
  cublasHandle_t handle;
  void *scratch;
} bench;

typedef struct method method;
/* plan: of the method's kernel. */
typedef cudaError_t enqueue_method(const bench *b, const method *m, const conv_plan *plan, const conv_buffers *view, cudaStream_t stream);
struct method {
  const char *name, *what;
  enqueue_method *enqueue;
  bool reads_columns, transposed; /* transposed: its y is [K][N*P*Q], not [N][K][P*Q] */
  cublasMath_t math;
  const conv_kernel *kernel; /* a whole convolution; else NULL */
};

static cudaError_t by_im2col(const bench *b, const method *m, const conv_plan *plan, const conv_buffers *view, cudaStream_t stream) {
  (void)m, (void)plan;
  return launch_im2col(&b->im2col, view->x, view->workspace, stream);
}

static cudaError_t by_matmul(const bench *b, const method *m, const conv_plan *plan, const conv_buffers *view, cudaStream_t stream) {
  (void)m, (void)plan;
  return launch_matmul(&b->im2col, view->w, view->workspace, view->y, stream);
}

static cudaError_t by_kernel(const bench *b, const method *m, const conv_plan *plan, const conv_buffers *view, cudaStream_t stream) {
  conv_buffers own = *view;
  if (m->kernel != &im2col_fprop) own.workspace = (char *)view->workspace + b->columns_bytes;
  return m->kernel->launch(plan, &own, stream);
}

/* cuBLAS counts columns first: to it, our row-major matrices are turned, and the turned product is columns x w. */
static cudaError_t by_cublas(const bench *b, const method *m, const conv_plan *plan, const conv_buffers *view, cudaStream_t stream) {
  (void)plan;
  const conv_problem *p = &b->p;
  const int image = p->P * p->Q, pixels = p->N * image, terms = p->C * p->R * p->S;
  const float one = 1, zero = 0;
  cublasStatus_t status = cublas.p_cublasSetStream_v2(b->handle, stream);
  if (!status) status = cublas.p_cublasSetWorkspace_v2(b->handle, b->scratch, SCRATCH); /* a new stream forgets it */
  if (!status) status = cublas.p_cublasSetMathMode(b->handle, m->math);
  if (!status && m->transposed)
    status = cublas.p_cublasSgemm_v2(b->handle, CUBLAS_OP_N, CUBLAS_OP_N, pixels, p->K, terms, &one, view->workspace, pixels, view->w, terms, &zero, view->y,
                                     pixels);
  else if (!status) /* a product for each image, whose columns begin `image` further on: y comes out as the layer wants it */
    status = cublas.p_cublasSgemmStridedBatched(b->handle, CUBLAS_OP_N, CUBLAS_OP_N, image, p->K, terms, &one, view->workspace, pixels, image, view->w, terms,
                                                0, &zero, view->y, image, (long long)p->K * image, p->N);
  if (status) fprintf(stderr, "%s: %s\n", m->name, cublas.p_cublasGetStatusString(status));
  return status ? cudaErrorUnknown : cudaSuccess;
}

/* im2col comes last: before its last sample all columns are poisoned. */
static const method methods[] = {
    {"05a_matmul", "05a's matmul_kernel", by_matmul, true, false, 0, NULL},
    {"cublas", "cublasSgemm", by_cublas, true, true, CUBLAS_DEFAULT_MATH, NULL},
    {"cublas_pedantic", "cublasSgemm, CUBLAS_PEDANTIC_MATH", by_cublas, true, true, CUBLAS_PEDANTIC_MATH, NULL},
    {"cublas_batched", "cublasSgemmStridedBatched, a product an image", by_cublas, true, false, CUBLAS_DEFAULT_MATH, NULL},
    {"05a", "whole: im2col and product", by_kernel, false, false, 0, &im2col_fprop},
    {"05b", "whole: implicit", by_kernel, false, false, 0, &implicit_fprop},
    {"05e", "whole: pipelined", by_kernel, false, false, 0, &pipelined_fprop},
    {"05f", "whole: split", by_kernel, false, false, 0, &split_fprop},
    {"05a_im2col", "05a's im2col_kernel", by_im2col, false, false, 0, NULL},
};
enum { METHODS = sizeof methods / sizeof *methods };
