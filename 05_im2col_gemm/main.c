/* Step 05: convolution as a matrix product. */
#include "common/harness/step.h"

extern const conv_step step_05; /* kernels.c */

int main(int argc, char **argv) { return step_main(&step_05, argc, argv); }
