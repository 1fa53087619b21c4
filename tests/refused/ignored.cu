/* No __launch_bounds__: ptxas does not know how many registers a thread begins with, and leaves setmaxnreg out. */
#include "common/ptx/ptx.cuh"

__global__ void ignored(float *y) {
  if (threadIdx.x < 128) {
    ptx_setmaxnreg_dec<40>();
    y[threadIdx.x] = 1;
  } else {
    ptx_setmaxnreg_inc<232>();
    y[threadIdx.x] = 2;
  }
}
