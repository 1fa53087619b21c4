/* An instruction that Hopper brought, and no word of what a GPU before it does. */
#include <cuda_runtime.h>

__global__ void too_new(int *y) {
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
  y[threadIdx.x] = 1;
}
