/* A GPU that is not here, for tests: cuDNN builds plans from a device's properties. */
#pragma once
#include "common/cudnn/cudnn_api.h"

#ifdef HAVE_CUDNN
/* An H200, as cuDNN 9.19 writes it. */
static const char h200[] =
    "{\"maxGridSize\":[2147483647,65535,65535],\"maxBlockSize\":[1024,1024,64],\"regsPerBlock\":65536,\"multiProcessorCount\":132,\"warpSize\":32,"
    "\"maxSharedMemoryPerBlock\":49152,\"maxSharedMemoryPerBlockOptin\":232448,\"reservedSharedMemoryPerBlock\":1024,\"maxRegistersPerSM\":65536,"
    "\"maxCtasPerSM\":32,\"maxThreadsPerBlock\":1024,\"maxThreadsPerSM\":2048,\"pciDeviceId\":6,\"isTccDriver\":0,\"supportCoopLaunch\":1,"
    "\"totalGlobalMem\":150109880320,\"smClockRateKHz\":1980000,\"memClockRateKHz\":3201000,\"l2CacheSize\":62914560,\"cudaDeviceId\":0,\"deviceVer\":900,"
    "\"driverVer\":13000,\"deviceName\":\"NVIDIA H200\"}";

/* Its properties as a descriptor of the pool. cuDNN 9.8 and later. */
static inline cudnnBackendDescriptor_t absent_device(cudnn_pool *pool) {
  enum { DEVICE_PROPERTIES = 38, AS_JSON = 2702 }; /* named in cuDNN's headers from 9.8 on */
  cudnnBackendDescriptor_t device = pool_create(pool, (cudnnBackendDescriptorType_t)DEVICE_PROPERTIES);
  pool_set(pool, device, (cudnnBackendAttributeName_t)AS_JSON, CUDNN_TYPE_CHAR, sizeof h200 - 1, h200);
  pool_finalize(pool, device, "device properties");
  return device;
}
#endif
