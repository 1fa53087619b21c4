/* Step 00: what a convolution is, and how fast a CPU can be at it. */
#include "common/harness/step.h"

extern const conv_step step_00; /* kernels.c */

int main(int argc, char **argv) { return step_main(&step_00, argc, argv); }
