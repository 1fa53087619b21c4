/* NVML, where it is there. See telemetry.h. */
#include "common/harness/telemetry.h"

#include <dlfcn.h>
#include <stdlib.h>

#include <cuda_runtime_api.h>

#ifdef CUDA_EMULATOR

telemetry_calls *telemetry_open(int cuda_device) { return (void)cuda_device, NULL; }

#else

telemetry_calls *telemetry_open(int cuda_device) {
  telemetry_calls *n = calloc(1, sizeof *n);
  void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
  if (n && library) {
    int (*init)(void), (*by_bus)(const char *, void **);
    *(void **)&init = dlsym(library, "nvmlInit_v2");
    *(void **)&by_bus = dlsym(library, "nvmlDeviceGetHandleByPciBusId_v2");
    *(void **)&n->clock = dlsym(library, "nvmlDeviceGetClockInfo");
    *(void **)&n->power = dlsym(library, "nvmlDeviceGetPowerUsage");
    *(void **)&n->fields = dlsym(library, "nvmlDeviceGetFieldValues");
    char bus_id[32];
    if (init && by_bus && n->clock && n->power && init() == 0 && cudaDeviceGetPCIBusId(bus_id, sizeof bus_id, cuda_device) == cudaSuccess &&
        by_bus(bus_id, &n->device) == 0)
      return n;
  }
  if (library) dlclose(library);
  free(n);
  return NULL;
}

#endif
