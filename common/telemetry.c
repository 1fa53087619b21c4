/* Clock and power while a kernel is timed, from NVML, the library that comes with the driver. It is loaded at run time, so that nothing
 * has to be there. See machine.h. */
#include <dlfcn.h>
#include <stdlib.h>

#include "common/machine.h"

#ifdef CUDA_EMULATOR

void *telemetry_open(int cuda_device) { return (void)cuda_device, NULL; }

void machine_telemetry(const machine *m, double *clock_mhz, double *power_watts) {
  (void)m;
  *clock_mhz = *power_watts = 0;
}

#else

typedef struct {
  void *device;
  int (*clock)(void *device, int type, unsigned *mhz);
  int (*power)(void *device, unsigned *milliwatts);
} nvml;

void *telemetry_open(int cuda_device) {
  nvml *n = calloc(1, sizeof *n);
  void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
  if (n && library) {
    int (*init)(void), (*by_bus)(const char *, void **);
    *(void **)&init = dlsym(library, "nvmlInit_v2");
    *(void **)&by_bus = dlsym(library, "nvmlDeviceGetHandleByPciBusId_v2");
    *(void **)&n->clock = dlsym(library, "nvmlDeviceGetClockInfo");
    *(void **)&n->power = dlsym(library, "nvmlDeviceGetPowerUsage");
    char bus_id[32];
    if (init && by_bus && n->clock && n->power && init() == 0 && cudaDeviceGetPCIBusId(bus_id, sizeof bus_id, cuda_device) == cudaSuccess &&
        by_bus(bus_id, &n->device) == 0)
      return n;
  }
  if (library) dlclose(library);
  free(n);
  return NULL;
}

void machine_telemetry(const machine *m, double *clock_mhz, double *power_watts) {
  enum { NVML_CLOCK_SM = 1 };
  const nvml *n = m->telemetry;
  unsigned mhz = 0, milliwatts = 0;
  *clock_mhz = n && n->clock(n->device, NVML_CLOCK_SM, &mhz) == 0 ? mhz : 0;
  *power_watts = n && n->power(n->device, &milliwatts) == 0 ? milliwatts / 1000.0 : 0;
}

#endif
