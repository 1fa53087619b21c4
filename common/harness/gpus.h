/* What known GPUs can sustain, measured (make calibrate), not off the data sheet. One row a GPU. Of memory two figures, for reads alone are faster than a
 * copy. fp16 is what a large matrix product reaches under the board's power limit; a loop of nothing but products reaches 3 % more, and a kernel too short to
 * come to that limit may, too. */
#pragma once

typedef struct gpu_limits {
  const char *name;        /* as the driver says it */
  const char *short_name;  /* as GPU=... says it */
  double fp32_flops;       /* FLOP/s of fp32 multiply-adds: SMs x units x 2 x clock */
  double fp16_flops;       /* FLOP/s of fp16 products with fp32 sums (tensor cores), measured */
  double copy_per_second;  /* bytes of main memory in a copy, read plus written */
  double read_per_second;  /* the same when it is only read */
  double l1_per_second;    /* bytes of all L1 caches and shared memories together: SMs x 128 x clock */
  const char *source;
} gpu_limits;

static const gpu_limits known_gpus[] = {
    {"NVIDIA H200", "h200", 66.9e12, 800e12, 4.30e12, 4.49e12, 132 * 128 * 1.98e9, "fp32: 132 SMs x 128 x 2 x 1.98 GHz; fp16 and memory: measured"},
};
enum { KNOWN_GPUS = sizeof known_gpus / sizeof *known_gpus };
