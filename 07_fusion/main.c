/* Step 07: fusion. */
#include "common/harness/step.h"

extern const conv_step step_07; /* kernels.c */

int main(int argc, char **argv) { return step_main(&step_07, argc, argv); }
