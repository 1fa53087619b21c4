/* Step 03: every value that is fetched is used many times: by the threads of a block through shared memory, by a thread through its registers. */
#include "common/harness/step.h"

extern const conv_step step_03; /* kernels.c */

int main(int argc, char **argv) { return step_main(&step_03, argc, argv); }
