/* What a step offers: kernels as rows of a table. The harness does everything else with them. */
#pragma once
#include <cuda_runtime_api.h>

#include "common/conv/operation.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The tensors of one run, in the kernel's dtype and layout, on the device (CPU kernels: on the host).
 * A pass reads two of them and writes the third: fprop x, w -> y; dgrad w, y -> x; wgrad x, y -> w.
 * In dgrad and wgrad, y holds dy, and x or w receives dx or dw. Every one is 512-byte aligned. */
typedef struct conv_buffers {
  void *x;                   /* [N][C][H][W]          or [N][H][W][C] */
  void *w;                   /* [K][C/groups][R][S]   or [K][R][S][C/groups] */
  void *y;                   /* [N][K][P][Q]          or [N][P][Q][K] */
  void *workspace;           /* workspace_bytes of the plan, contents undefined; NULL if that is 0 */
  const float *scale, *bias; /* [channels of the result] for an epilogue that has them; else NULL */
  const void *residual;      /* like the result; else NULL */
} conv_buffers;

/* The machine a kernel would run on. */
typedef struct conv_device {
  char name[256];
  int arch;                /* compute capability times ten: 90 for 9.0; 0 on a CPU */
  int sm_count;            /* multiprocessors; CPU: threads */
  size_t memory_bytes;     /* free memory at start */
  size_t l2_bytes;         /* last-level cache */
  size_t shared_per_block; /* the largest a block can ask for, in bytes */
  bool emulated;           /* kernels run on the emulator: verified, never timed */
} conv_device;

typedef enum { ON_GPU, ON_CPU } conv_place;

/* What a kernel decided for an operation. Copied freely: it holds no pointers into itself, and no addresses of buffers. */
enum { PLAN_BYTES = 3072 };
typedef struct conv_plan {
  conv_operation operation; /* the harness's */
  size_t workspace_bytes;
  char words[96];     /* the choices, for the reader: "tiles of 128 x 64, 4 slices"; "": none */
  char why_not[160];  /* room for a reason that has numbers in it */
  cudaError_t failed; /* a CUDA call of the planning failed (plan_failed()); else success */
#ifdef __cplusplus
  alignas(128)
#else
  _Alignas(128)
#endif
      unsigned char data[PLAN_BYTES]; /* the kernel's own: plan_data<T>(plan) in common/harness/plan.h */
} conv_plan;

/* Parts of an epilogue that a kernel computes before it stores. */
enum { FUSES_SCALE = 1, FUSES_BIAS = 2, FUSES_RESIDUAL = 4, FUSES_ACTIVATION = 8 };

/* A field that a row may leave out without a warning. */
#ifdef __cplusplus
#define BY_DEFAULT(value) = value
#else
#define BY_DEFAULT(value)
#endif

typedef struct conv_kernel {
  const char *name; /* step and letter: "02b" */
  const char *idea; /* one line for the reader */
  conv_place place;
  conv_pass pass;
  conv_dtype dtype;
  conv_layout layout;
  int min_arch; /* lowest compute capability times ten; 0: any */

  /* NULL and a plan for launch(), or the reason why the kernel does not compute this, in words. Everything is decided here: tiles, grid, workspace,
   * parameters; attributes of functions are set here. The plan comes cleared but for its operation. */
  const char *(*plan)(const conv_operation *o, const conv_device *device, conv_plan *plan);

  /* Enqueues the work on the stream (CPU kernels: does it). Decides nothing. Returns the first error of its calls. */
  cudaError_t (*launch)(const conv_plan *plan, const conv_buffers *b, cudaStream_t stream);

  /* g of the error bound: how far the accumulation may stray, on random data or on any (common/conv/bound.h has the usual ones). */
  double (*growth)(const conv_problem *p, bool random);

  /* Small integers give the exact result as long as exact_factor * max|x| * max|w| * terms < 2^24. More than 1 (in C 0 means 1) for a kernel whose sums
   * on the way are larger than the result's, or in fractions. Where that does not hold, or with EXACT_NEVER, only its error bound is verified. */
  int exact_factor BY_DEFAULT(1);
  /* An output's error depends on more products than its own (a tile's, in a transform): the largest scale of all outputs stands for every one's. */
  bool shares_error BY_DEFAULT(false);
  unsigned fuses BY_DEFAULT(0); /* FUSES_... */
  operation_kind does BY_DEFAULT(OPERATION_CONVOLUTION);
  bool stores_fp32 BY_DEFAULT(false); /* the result is fp32, whatever dtype says */
} conv_kernel;

enum { EXACT_NEVER = -1 };

#ifdef __cplusplus
}
#endif
