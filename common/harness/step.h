/* The program that every step is: reads the command line, makes data, runs the kernels of its table, verifies, times, reports. */
#pragma once
#include "common/harness/registry.h"

/* Exit status: 0 all right, 1 a result was wrong or a CUDA call failed, 2 bad input. */
int step_main(const conv_step *step, int argc, char **argv);
