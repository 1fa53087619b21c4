/* Clock and power of a GPU, from NVML, the library that comes with the driver. It is loaded at run time, so that nothing has to be there; and
 * these are its calls, so that a test can put others in their place. Every one returns 0 if it went well. */
#pragma once

/* nvmlFieldValue_t. */
typedef struct telemetry_field {
  unsigned id, scope;
  long long timestamp, latency;
  unsigned type; /* of the value */
  int status;    /* 0: the value is there */
  union {
    double real;
    unsigned natural;
  } value;
} telemetry_field;

enum {
  TELEMETRY_SM_CLOCK = 1,    /* NVML_CLOCK_SM */
  TELEMETRY_POWER_NOW = 186, /* NVML_FI_DEV_POWER_INSTANT */
  TELEMETRY_NATURAL = 1      /* NVML_VALUE_TYPE_UNSIGNED_INT */
};

typedef struct telemetry_calls {
  void *device;
  int (*clock)(void *device, int type, unsigned *mhz);             /* nvmlDeviceGetClockInfo */
  int (*power)(void *device, unsigned *milliwatts);                /* nvmlDeviceGetPowerUsage: from Ampere on (but for 8.0) the average of a second */
  int (*fields)(void *device, int count, telemetry_field *fields); /* nvmlDeviceGetFieldValues; NULL: an older driver */
} telemetry_calls;

/* Opens NVML for a CUDA device; NULL where there is none. Closed with the process. */
telemetry_calls *telemetry_open(int cuda_device);
