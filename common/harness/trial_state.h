/* Inside a trial: what its verification (trial_verify.c) and its timing (trial_time.c) share. */
#pragma once
#include "common/conv/reference.h"
#include "common/conv/verify.h"
#include "common/harness/buffers.h"
#include "common/harness/device_check.h"
#include "common/harness/plan.h"
#include "common/harness/trial.h"

/* What stays the same while the kernels of a trial take turns. */
typedef struct trial_state {
  const trial *t;
  FILE *log;      /* where mismatches are printed */
  bool on_device; /* data, reference and comparisons are: then `device` has the inputs, not `host` and `fused` */
  device_check device;
  conv_tensor host[3]; /* the inputs, and room to download the output */
  bool has_output;     /* it has been downloaded: what the last kernel wrote */
  conv_tensor scratch; /* to download an input again */
  epilogue_data fused; /* what the epilogue reads, if there is one */
  conv_reference reference;
  tensor_role input_a, input_b, output;
  conv_plan plans[TRIAL_KERNELS]; /* of the trial's kernels, made once */
  char no_room[256];              /* for what there was too little memory, and how much that needs; "": for nothing */
} trial_state;

/* trial_memory.c. Does the trial fit this machine's memory? If not, no_room says why. */
bool trial_fits_memory(trial_state *s);
/* Allocates what `host` and `scratch` still lack; false: no_room. */
bool trial_host_memory(trial_state *s);
/* Notes that there was no memory for buffers. */
void trial_no_buffers(trial_state *s, const buffer_sets *set);
/* There was no room. If the problem is the only one, says so on stderr and returns true: bad input. */
bool trial_refused(const trial_state *s);

/* An input as it was made, on the device if the trial is. */
const conv_tensor *trial_input(const trial_state *s, tensor_role role);

/* Copies the inputs into the first set. */
cudaError_t trial_upload(const trial_state *s, const buffer_sets *sets);

/* Looks for damage around the buffers of a set, and inside those that the kernel only reads. Returns false with a note, or with the
 * CUDA error that kept it from looking in *status. */
bool trial_untouched(trial_state *s, const buffer_sets *sets, int set, char *note, size_t note_size, cudaError_t *status);

/* Copies the output of a set to the host, where there is room for it. */
cudaError_t trial_download(trial_state *s, const buffer_sets *sets, int set);

/* What a kernel's result is judged by. */
error_rule trial_rule(const trial_state *s, const conv_kernel *kernel);

/* The largest magnitude that a right result of any of the trial's kernels may have. */
cudaError_t trial_largest_result(const trial_state *s, double *largest);

/* Compares the output of a set with the reference; mismatches are printed to log (NULL: nowhere). */
cudaError_t trial_judge(trial_state *s, const buffer_sets *sets, int set, compare_mode mode, error_rule rule, FILE *log, conv_verdict *verdict);

/* Times the kernels whose rows are right, in turns, on the same buffers, and on a GPU cuDNN's plans among them. Fills the rows' timing, their
 * contenders and what is to be said of cuDNN, of its bare plans and of those with a bias of zeros (a note is "" where they were not asked for). */
cudaError_t trial_time(trial_state *s, result_row rows[], contender contenders[], cudnn_figures *cudnn, cudnn_figures *fused);
