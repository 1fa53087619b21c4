/* Not here, and whose header an installed toolkit would give does not know of the emulator. */
#pragma once
#error "cooperative groups are not emulated: expected __syncthreads, __syncwarp and __shfl_sync, or clusters and named barriers of common/ptx/"
