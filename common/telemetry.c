/* Clock and power while a kernel is timed. See telemetry.h and machine.h. */
#include "common/telemetry.h"

#include <dlfcn.h>
#include <stdlib.h>

#include "common/machine.h"

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

double machine_clock_mhz(const machine *m) {
  const telemetry_calls *n = m->telemetry;
  unsigned mhz = 0;
  return n && n->clock(n->device, TELEMETRY_SM_CLOCK, &mhz) == 0 ? mhz : 0;
}

double machine_power_watts(const machine *m) {
  const telemetry_calls *n = m->telemetry;
  telemetry_field now = {.id = TELEMETRY_POWER_NOW};
  unsigned milliwatts = 0;
  if (!n) return 0;
  if (n->fields && n->fields(n->device, 1, &now) == 0 && now.status == 0 && now.type == TELEMETRY_NATURAL) return now.value.natural / 1000.0;
  const bool averaged = m->device.arch > 80; /* over a second: of whoever ran in it */
  return !averaged && n->power(n->device, &milliwatts) == 0 ? milliwatts / 1000.0 : 0;
}
