/* Inside a trial: what its verification (trial_verify.c) and its timing (trial_time.c) share. */
#pragma once
#include "common/harness/buffers.h"
#include "common/harness/plan.h"
#include "common/conv/reference.h"
#include "common/harness/trial.h"
#include "common/conv/verify.h"

/* What stays the same while the kernels of a trial take turns. */
typedef struct trial_state {
  const trial *t;
  FILE *log;           /* where mismatches are printed */
  conv_tensor host[3]; /* the inputs, and room to download the output */
  conv_tensor scratch; /* to download an input again */
  epilogue_data fused; /* what the epilogue reads, if there is one */
  conv_reference reference;
  tensor_role input_a, input_b, output;
  conv_plan plans[TRIAL_KERNELS]; /* of the trial's kernels, made once */
} trial_state;

/* Looks for damage around the buffers of a set, and inside the two that the kernel only reads. Returns false with a note, or with the
 * CUDA error that kept it from looking in *status. */
bool trial_untouched(trial_state *s, const buffer_sets *sets, int set, char *note, size_t note_size, cudaError_t *status);

/* Compares what was downloaded of a kernel's output with the reference. */
conv_verdict trial_verdict(const trial_state *s, const conv_kernel *kernel, compare_mode mode);

/* Copies the inputs into the first set. */
cudaError_t trial_upload(const trial_state *s, const buffer_sets *sets);

/* Times the kernels whose rows are right, in turns, on the same buffers, and on a GPU cuDNN's plans among them. Fills the rows' timing, their
 * contenders and what is to be said of cuDNN (its note is "" where it was not asked for). */
cudaError_t trial_time(trial_state *s, result_row rows[], contender contenders[], cudnn_figures *cudnn);
