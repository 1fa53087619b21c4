/* A step: a table of kernels and a title. step_main does the rest: reads the command line, makes data, runs, verifies, times, reports. */
#pragma once
#include "common/kernel.h"
#include "common/machine.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One line of the rule by which a step chooses (--kernel auto): this kernel, if it can do the problem, and if `when` says so. */
typedef struct conv_choice {
  const conv_kernel *kernel;
  /* random: so are the data. For others some kernels have no error bound, and cannot be verified. NULL: always. */
  bool (*when)(const conv_problem *p, conv_pass pass, const conv_device *device, bool random);
  const char *words; /* when, for the reader */
} conv_choice;

typedef struct conv_step {
  const char *number; /* "01" */
  const char *title;  /* one line */
  const conv_kernel *const *kernels;
  int kernel_count;
  void (*measure_peaks)(machine_peaks *peaks); /* for CPU kernels: this machine's limits, measured; else NULL */
  const conv_choice *rule; /* the first line that fits decides; NULL: the step has one kernel a pass, or no rule */
  int rule_count;
} conv_step;

/* The line of the rule that decides; NULL: none does. */
const conv_choice *step_choose(const conv_step *step, const conv_problem *p, conv_pass pass, conv_dtype dtype, const conv_device *device, bool random);

/* Exit status: 0 all right, 1 a result was wrong or a CUDA call failed, 2 bad input. */
int step_main(const conv_step *step, int argc, char **argv);

#ifdef __cplusplus
}
#endif
