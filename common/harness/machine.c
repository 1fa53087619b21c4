/* The machine a run happens on. See machine.h. */
#include "common/harness/machine.h"

#include "common/conv/epilogue.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#ifdef _OPENMP
#include <omp.h>
#endif

#include "common/harness/gpus.h"
#include "common/harness/memory.h"

/* fp32 FMA units of one SM, by compute capability (CUDA C++ Programming Guide, "Arithmetic Instructions"). */
static int fp32_units(int arch) {
  switch (arch) {
    case 80: return 64;
    case 75: return 64;
    default: return 128;
  }
}

/* ---------------------------------------------------------------- opening */

int machine_open_gpu(machine *m, char *error, size_t error_size) {
  memset(m, 0, sizeof *m);
  int devices = 0, current = 0;
  cudaError_t status = cudaGetDeviceCount(&devices);
  if (status || devices == 0) {
    snprintf(error, error_size, "device: expected a CUDA device, found none (%s); `make BACKEND=emu` builds for the emulator", cudaGetErrorString(status));
    return -1;
  }
  struct cudaDeviceProp prop;
  size_t free_bytes = 0, total_bytes = 0;
  status = cudaGetDevice(&current);
  if (!status) status = cudaGetDeviceProperties(&prop, current);
  if (!status) status = cudaMemGetInfo(&free_bytes, &total_bytes);
  if (!status) status = cudaDriverGetVersion(&m->driver_version);
  if (!status) status = cudaRuntimeGetVersion(&m->runtime_version);
  if (status) {
    snprintf(error, error_size, "device %d: cannot be used: %s", current, cudaGetErrorString(status));
    return -1;
  }
  snprintf(m->device.name, sizeof m->device.name, "%s", prop.name);
  m->device.arch = prop.major * 10 + prop.minor;
  m->device.sm_count = prop.multiProcessorCount;
  m->device.memory_bytes = free_bytes;
  m->device.l2_bytes = (size_t)prop.l2CacheSize;
  m->device.shared_per_block = prop.sharedMemPerBlockOptin;
  m->host_bytes = memory_of_process("").total;
#ifdef CUDA_EMULATOR
  m->device.emulated = true;
  return 0;
#endif
  m->telemetry = telemetry_open(current);
  const gpu_limits *g = gpu_limits_of(prop.name);
  if (g) {
    m->peaks = (machine_peaks){.fp32_flops = g->fp32_flops,
                               .fp16_flops = g->fp16_flops,
                               .read_per_second = g->read_per_second,
                               .copy_per_second = g->copy_per_second,
                               .source = g->source};
  } else { /* a GPU without a row: its data-sheet rates, from what the driver tells */
    int sm_khz = 0, memory_khz = 0, bus_bits = 0;
    cudaDeviceGetAttribute(&sm_khz, cudaDevAttrClockRate, current);
    cudaDeviceGetAttribute(&memory_khz, cudaDevAttrMemoryClockRate, current);
    cudaDeviceGetAttribute(&bus_bits, cudaDevAttrGlobalMemoryBusWidth, current);
    m->peaks.fp32_flops = 2e3 * sm_khz * fp32_units(m->device.arch) * m->device.sm_count;
    m->peaks.read_per_second = m->peaks.copy_per_second = 2e3 * memory_khz * bus_bits / 8;
    m->peaks.source = "SMs x units x 2 x clock, memory clock x 2 x bus width, as the driver reports them";
  }
  return 0;
}

const char *machine_fitted_to(const machine *m) { return m->device.arch && !m->device.emulated && strcmp(m->device.name, FITTED_GPU) != 0 ? FITTED_GPU : NULL; }

void machine_open_cpu(machine *m) {
  memset(m, 0, sizeof *m);
  snprintf(m->device.name, sizeof m->device.name, "CPU");
  FILE *info = fopen("/proc/cpuinfo", "r");
  char line[256], model[200];
  while (info && fgets(line, sizeof line, info))
    if (sscanf(line, "model name : %199[^\n]", model) == 1) {
      snprintf(m->device.name, sizeof m->device.name, "%s", model);
      break;
    }
  if (info) fclose(info);
  m->device.sm_count = 1;
#ifdef _OPENMP
  m->device.sm_count = omp_get_max_threads();
#endif
  m->host_bytes = m->device.memory_bytes = memory_of_process("").total;
  const long cache = sysconf(_SC_LEVEL3_CACHE_SIZE) > 0 ? sysconf(_SC_LEVEL3_CACHE_SIZE) : sysconf(_SC_LEVEL2_CACHE_SIZE);
  m->device.l2_bytes = cache > 0 ? (size_t)cache : 32u << 20;
}

double machine_memory_seconds(const machine_peaks *peaks, conv_traffic bytes) {
  const double read = 1 / peaks->read_per_second, write = 2 / peaks->copy_per_second - read; /* a copy of n bytes: n (read + write) = 2 n / copy */
  return bytes.read * read + bytes.written * write;
}

double machine_floor(const machine *m, const conv_operation *o, conv_dtype dtype) {
  const double flops = dtype == DTYPE_FP16 ? m->peaks.fp16_flops : m->peaks.fp32_flops;
  if (flops <= 0 || m->peaks.copy_per_second <= 0) return 0;
  const double compute = 2 * problem_macs(&o->problem) / flops, memory = machine_memory_seconds(&m->peaks, operation_traffic(o, dtype));
  return compute > memory ? compute : memory;
}

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
