/* Step 02: the same work, with neighbouring threads on neighbouring addresses. */
#include "common/harness/step.h"

extern const conv_step step_02; /* kernels.c */

int main(int argc, char **argv) { return step_main(&step_02, argc, argv); }
