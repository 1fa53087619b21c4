/* The machine a run happens on: what kernels may ask about it, its limits, and what it felt like while it was timed. */
#pragma once
#include "common/harness/kernel.h"
#include "common/harness/telemetry.h"

/* The ceilings that a floor is computed from. */
typedef struct machine_peaks {
  double fp32_flops;      /* FLOP/s of fp32 multiply-adds */
  double fp16_flops;      /* FLOP/s of fp16 products with fp32 accumulation (tensor cores); 0: unknown */
  double read_per_second; /* main memory, when it is only read, in bytes */
  double copy_per_second; /* the same in a copy: bytes read plus bytes written */
  const char *source;     /* where the figures come from */
} machine_peaks;

typedef struct machine {
  conv_device device;
  machine_peaks peaks;
  int driver_version, runtime_version; /* as CUDA counts: 13000 for 13.0; 0 on a CPU */
  size_t host_bytes;                   /* memory of the host that this process can have */
  telemetry_calls *telemetry;          /* NULL: nothing is known */
} machine;

/* Fills *m for the current GPU (or the emulator). Returns 0, or -1 with one line in `error`. */
int machine_open_gpu(machine *m, char *error, size_t error_size);

/* Fills *m for the host's CPU; its peaks are left 0 (step 00 measures them). */
void machine_open_cpu(machine *m);

/* The GPU that choices of kernels and sizes of tiles were fitted to, if this is another one; NULL on that GPU, the emulator and a CPU. */
const char *machine_fitted_to(const machine *m);

/* Clock of the SMs at this moment, in MHz; 0 where the machine does not tell. */
double machine_clock_mhz(const machine *m);

/* Power of the board in W, as its sensor saw it last: on Hopper over 25 ms of the last 125 (Z. Yang, K. Adamek, W. Armour, "Part-time power
 * measurements", 2023). So it is a kernel's own if nothing else ran for so long. 0 where the driver has no more than the average of a second. */
double machine_power_watts(const machine *m);

/* Seconds to move these bytes: reads at the rate of reads, and writes at the rate that together with it makes a copy's. */
double machine_memory_seconds(const machine_peaks *peaks, conv_traffic bytes);

/* The least time in seconds that the operation can take on this machine: max(flops / peak, memory's seconds); 0 if peaks are unknown. */
double machine_floor(const machine *m, const conv_operation *o, conv_dtype dtype);
