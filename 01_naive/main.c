/* Step 01: every output of a convolution has its own GPU thread. */
#include "common/harness/step.h"

extern const conv_step step_01; /* kernels.c */

int main(int argc, char **argv) { return step_main(&step_01, argc, argv); }
