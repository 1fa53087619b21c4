/* Private to 05_im2col_gemm/tools/cuts.c: cuts of the split products of step 05, their times, and the model that chooses one. */
#pragma once
#include <stdio.h>

#include "common/harness/machine.h"
#include "common/harness/plan.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SLOW 1.1 /* times the best: what is slower does not go to a file */
enum { CUT_KERNELS = 3, MOST_CUTS = 128, ROUNDS = 5 };

/* Tiles of bm rows, so many slices. */
typedef struct cut {
  int bm, slices;
  size_t workspace; /* bytes */
  bool chosen;      /* by the model */
  bool right;
  double first_us;           /* of a launch on its own */
  double us, us_min, us_max; /* median of ROUNDS samples; 0: not timed */
} cut;

/* A problem, and the cuts of one kernel that were tried on it. */
typedef struct cut_trial {
  char suite[64];
  conv_problem p;
  int kernel; /* 0 .. CUT_KERNELS - 1 */
  int multiprocessors, tried, count;
  bool read; /* from a file: only cuts that were timed */
  cut cuts[MOST_CUTS];
} cut_trial;

/* model.cu */
const conv_kernel *cut_kernel_of(int kernel); /* 05f, 05i, 05k */
/* The cuts to try, the model's choice first. Fills cuts, tried and count. */
void list_cuts(cut_trial *t);
/* The plan of one of them: for the kernel's launch(). */
cudaError_t plan_cut(const cut_trial *t, const cut *c, conv_plan *plan);
/* What the model takes now, and its time over the best cut's. A choice that is not in a file has SLOW times the best's time if it was tried, else the
 * time of the one with most nearly as many slices; then choice->right is false. */
double model_loss(const cut_trial *t, cut *choice);
/* Is it this suite, with any number of images? "resnet50:64" is one of resnet50. */
bool is_suite(const char *suite, const char *name);
/* Other prices for which the model does better on the trials of a suite: three at a time are changed at random, and stay so if that helps. */
void fit_prices(const cut_trial *trials, int count, const char *suite, FILE *out);

/* data.cu: device memory */
cudaError_t fill_integers(float *to, int64_t count, unsigned seed, int magnitude); /* -magnitude .. magnitude without 0 */
/* How many elements are not the reference's, to the bit. `counter`: room for one unsigned. */
cudaError_t count_different(const float *out, const double *reference, int64_t count, unsigned *counter, unsigned *different);

/* measure.c: verifies every cut, and on a GPU times those that may be among the fastest. Returns 0, 1 if a cut was wrong, 2 after a failed CUDA call
 * (one line on stderr). */
int measure_cuts(const machine *gpu, cut_trial *t);

#ifdef __cplusplus
}
#endif
