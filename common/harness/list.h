/* What a kernel asks of the machine for a problem, read off the launch itself. */
#pragma once
#include <stdio.h>

#include "common/harness/kernel.h"

/* Prints one line per launch of the kernel for this problem: function, grid, block, dynamic and static shared memory, registers.
 * The launch is captured into a graph, not run, so the line cannot differ from what runs. Returns the first CUDA error. */
cudaError_t list_launches(FILE *out, const conv_kernel *kernel, const conv_plan *plan);
