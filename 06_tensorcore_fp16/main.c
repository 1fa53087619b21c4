/* Step 06: tensor cores in fp16. */
#include "common/harness/step.h"

extern const conv_step step_06; /* kernels.c */

int main(int argc, char **argv) { return step_main(&step_06, argc, argv); }
