/* One problem, one pass, all kernels of one dtype and layout: data, reference, verification, timing, report. */
#pragma once
#include "common/harness/options.h"
#include "common/harness/report.h"

enum { TRIAL_KERNELS = 32 };

typedef struct trial {
  const conv_problem *problem;
  conv_pass pass;
  conv_epilogue epilogue;
  conv_dtype dtype;
  conv_layout layout;
  conv_place place;
  const conv_kernel *kernels[TRIAL_KERNELS];
  int kernel_count;
  const char *chosen; /* the kernel that the step's rule takes; NULL: no rule */
  const step_options *options;
  const machine *machine;
  bool gpu_reference; /* a real GPU is there to compute references of large problems */
} trial;

/* Runs it and reports one row per kernel. Returns 0 to go on; 1 when a CUDA call failed (nothing can be run after that); 2 on bad input. */
int trial_run(const trial *t, report *r);
