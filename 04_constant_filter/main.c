/* Step 04: filters small enough to stay where the arithmetic is, while the image streams past. */
#include "common/harness/step.h"

extern const conv_step step_04; /* kernels.c */

int main(int argc, char **argv) { return step_main(&step_04, argc, argv); }
