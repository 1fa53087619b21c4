/* Launching a kernel with what <<< >>> has no words for: clusters, and a beginning before the kernel before it has ended. */
#pragma once
#include <cuda_runtime.h>

typedef struct kernel_launch {
  dim3 grid, block;
  size_t shared = 0; /* dynamic bytes */
  cudaStream_t stream = nullptr;
  unsigned cluster = 0; /* blocks of a cluster, neighbours along x; grid.x is a multiple. Above 8 the plan must have asked: NonPortableClusterSizeAllowed.
                         * 0: a launch without clusters: its blocks cannot copy by bulk from shared memory to shared memory, not even to their own */
  bool early =
      false; /* blocks may begin while the kernel before in the stream ends: the kernel calls ptx_griddepcontrol_wait before it touches what that wrote */
#ifdef CUDA_EMULATOR
  const char *file = __builtin_FILE(); /* of the braces, for reports */
  int line = __builtin_LINE();
#endif
} kernel_launch;

/* launch_kernel({.grid = blocks, .block = threads}, kernel, its arguments ...) */
template <class... P, class... A> static cudaError_t launch_kernel(const kernel_launch &how, void (*kernel)(P...), A... arguments) {
  cudaLaunchAttribute attributes[2] = {};
  cudaLaunchConfig_t config = {};
  config.gridDim = how.grid, config.blockDim = how.block, config.dynamicSmemBytes = how.shared, config.stream = how.stream, config.attrs = attributes;
  if (how.early) {
    cudaLaunchAttribute *a = &attributes[config.numAttrs++];
    a->id = cudaLaunchAttributeProgrammaticStreamSerialization, a->val.programmaticStreamSerializationAllowed = 1;
  }
  if (how.cluster > 0) {
    cudaLaunchAttribute *a = &attributes[config.numAttrs++];
    a->id = cudaLaunchAttributeClusterDimension, a->val.clusterDim.x = how.cluster, a->val.clusterDim.y = a->val.clusterDim.z = 1;
  }
#ifdef CUDA_EMULATOR
  const cudaError_t status = cudaLaunchKernelEx(emu_config(&config, how.file, how.line), kernel, P(arguments)...);
#else
  const cudaError_t status = cudaLaunchKernelEx(&config, kernel, P(arguments)...);
#endif
  if (status) cudaGetLastError(); /* is returned here, and not to be found by the next launch */
  return status;
}

/* Whether the kernel does wait for the one before it, and may begin early: where it was compiled for 9.0 and up. */
static inline cudaError_t kernel_waits(const void *kernel, bool *waits) {
  cudaFuncAttributes about = {};
  const cudaError_t status = cudaFuncGetAttributes(&about, kernel);
  *waits = about.ptxVersion >= 90;
  return status;
}
