/* A step: a table of kernels and a title. step_main does the rest: reads the command line, makes data, runs, verifies, times, reports. */
#pragma once
#include "common/kernel.h"
#include "common/machine.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct conv_step {
  const char *number; /* "01" */
  const char *title;  /* one line */
  const conv_kernel *const *kernels;
  int kernel_count;
  void (*measure_peaks)(machine_peaks *peaks); /* for CPU kernels: this machine's limits, measured; else NULL */
  /* The kernel to take for a problem (--kernel auto), by the step's rule: its name. NULL: the step has one kernel a pass, or no rule.
   * random: so are the data. For others some kernels have no error bound, and cannot be verified. */
  const char *(*choose)(const conv_problem *p, conv_pass pass, const conv_device *device, bool random);
  const char *(*choose_fp16)(const conv_problem *p, conv_pass pass, const conv_device *device, bool random); /* the same in fp16; NULL: choose is for both */
  const char *choice_rule; /* the rule in one line, for the reader; NULL if choose is */
} conv_step;

/* Exit status: 0 all right, 1 a result was wrong or a CUDA call failed, 2 bad input. */
int step_main(const conv_step *step, int argc, char **argv);

#ifdef __cplusplus
}
#endif
