/* The one device: its properties, which are those of a compute-capability 9.0 GPU where kernels depend on them. */
#include <stdio.h>
#include <unistd.h>

#include "common/emu/runtime/stream.h"

cudaError_t cudaGetDeviceCount(int *count) {
  if (count == NULL) return emu_error(cudaErrorInvalidValue);
  *count = 1;
  return cudaSuccess;
}

cudaError_t cudaGetDevice(int *device) {
  if (device == NULL) return emu_error(cudaErrorInvalidValue);
  *device = 0;
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) { return emu_error(device == 0 ? cudaSuccess : cudaErrorInvalidDevice); }

/* The same number on every machine: kernels cut their work by it, and a test should see the same cuts everywhere. */
static int multiprocessors(void) { return (int)emu_setting(EMU_SET_SMS, 8); }

/* Which GPU is played. Newer instructions are refused. */
int emu_arch(void) { return (int)emu_setting(EMU_SET_ARCH, 90); }

static int last_level_cache(void) {
  long bytes = sysconf(_SC_LEVEL3_CACHE_SIZE);
  if (bytes <= 0) bytes = sysconf(_SC_LEVEL2_CACHE_SIZE);
  return bytes <= 0 ? 8 << 20 : bytes > 1 << 30 ? 1 << 30 : (int)bytes;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp *properties, int device) {
  if (properties == NULL) return emu_error(cudaErrorInvalidValue);
  if (device != 0) return emu_error(cudaErrorInvalidDevice);
  size_t free_bytes, total_bytes;
  cudaMemGetInfo(&free_bytes, &total_bytes);
  *properties = (cudaDeviceProp){
      .name = "emulator",
      .totalGlobalMem = total_bytes,
      .sharedMemPerBlock = EMU_DEFAULT_SHARED,
      .regsPerBlock = 65536,
      .warpSize = EMU_WARP,
      .maxThreadsPerBlock = EMU_MAX_THREADS,
      .maxThreadsDim = {1024, 1024, 64},
      .maxGridSize = {0x7FFFFFFF, 65535, 65535},
      .totalConstMem = 64 << 10,
      .major = emu_arch() / 10,
      .minor = emu_arch() % 10,
      .multiProcessorCount = multiprocessors(),
      .integrated = 1,
      .concurrentKernels = 0,
      .unifiedAddressing = 1,
      .memoryBusWidth = 64,
      .l2CacheSize = last_level_cache(),
      .maxThreadsPerMultiProcessor = 2048,
      .sharedMemPerMultiprocessor = 228 << 10,
      .regsPerMultiprocessor = 65536,
      .sharedMemPerBlockOptin = EMU_MAX_SHARED,
      .maxBlocksPerMultiProcessor = 32,
      .reservedSharedMemPerBlock = EMU_RESERVED_SHARED,
  };
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device) {
  cudaDeviceProp p;
  if (value == NULL) return emu_error(cudaErrorInvalidValue);
  EMU_TRY(cudaGetDeviceProperties(&p, device));
  switch (attribute) {
    case cudaDevAttrMaxThreadsPerBlock: *value = p.maxThreadsPerBlock; break;
    case cudaDevAttrMaxBlockDimX: *value = p.maxThreadsDim[0]; break;
    case cudaDevAttrMaxBlockDimY: *value = p.maxThreadsDim[1]; break;
    case cudaDevAttrMaxBlockDimZ: *value = p.maxThreadsDim[2]; break;
    case cudaDevAttrMaxGridDimX: *value = p.maxGridSize[0]; break;
    case cudaDevAttrMaxGridDimY: *value = p.maxGridSize[1]; break;
    case cudaDevAttrMaxGridDimZ: *value = p.maxGridSize[2]; break;
    case cudaDevAttrMaxSharedMemoryPerBlock: *value = (int)p.sharedMemPerBlock; break;
    case cudaDevAttrTotalConstantMemory: *value = (int)p.totalConstMem; break;
    case cudaDevAttrWarpSize: *value = p.warpSize; break;
    case cudaDevAttrMaxRegistersPerBlock: *value = p.regsPerBlock; break;
    case cudaDevAttrClockRate: *value = 1000000; break; /* kHz; there is no device clock to ask */
    case cudaDevAttrMultiProcessorCount: *value = p.multiProcessorCount; break;
    case cudaDevAttrMemoryClockRate: *value = 1000000; break; /* kHz, likewise */
    case cudaDevAttrGlobalMemoryBusWidth: *value = p.memoryBusWidth; break;
    case cudaDevAttrL2CacheSize: *value = p.l2CacheSize; break;
    case cudaDevAttrMaxThreadsPerMultiProcessor: *value = p.maxThreadsPerMultiProcessor; break;
    case cudaDevAttrUnifiedAddressing: *value = p.unifiedAddressing; break;
    case cudaDevAttrComputeCapabilityMajor: *value = p.major; break;
    case cudaDevAttrComputeCapabilityMinor: *value = p.minor; break;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor: *value = (int)p.sharedMemPerMultiprocessor; break;
    case cudaDevAttrMaxRegistersPerMultiprocessor: *value = p.regsPerMultiprocessor; break;
    case cudaDevAttrCooperativeLaunch: *value = p.cooperativeLaunch; break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin: *value = (int)p.sharedMemPerBlockOptin; break;
    case cudaDevAttrMaxBlocksPerMultiprocessor: *value = p.maxBlocksPerMultiProcessor; break;
    case cudaDevAttrReservedSharedMemoryPerBlock: *value = (int)p.reservedSharedMemPerBlock; break;
    case cudaDevAttrClusterLaunch: *value = p.clusterLaunch; break;
    default: return emu_error(cudaErrorInvalidValue);
  }
  return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int *version) {
  if (version == NULL) return emu_error(cudaErrorInvalidValue);
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int *version) { return cudaDriverGetVersion(version); }

cudaError_t cudaDeviceSynchronize(void) {
  EMU_TRY(emu_sticky());
  if (emu_any_capture()) return emu_error(cudaErrorStreamCaptureUnsupported);
  emu_stream_settle(NULL);
  return cudaSuccess;
}
