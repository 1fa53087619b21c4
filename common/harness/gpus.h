/* What known GPUs can sustain. One row a GPU. Of memory two figures, for reads alone are faster than a copy. fp16 is what a large matrix product reaches
 * under the board's power limit; a loop of nothing but products reaches 3 % more, and a kernel too short to come to that limit may, too.
 *
 * A GPU that was measured (make calibrate) has what was found. What its data sheet says of the H200: 67 and, dense, 989 TFLOP/s, 4.8 TB/s. So it was
 * found to sustain all of the first, 81 % of the second, 90 % of the third in a copy and 94 % in reads. The H100 SXM5
 * with 80 GB has the same SMs, clock and power limit, and memory of 3.35 TB/s, of which a copy sustains 90 % and reads 93 %, too. */
#pragma once
#include <string.h>

typedef struct gpu_limits {
  const char *name;       /* as the driver says it */
  const char *short_name; /* as GPU=... says it; its results are in docs/results/SHORT_NAME/ */
  double fp32_flops;      /* FLOP/s of fp32 multiply-adds: SMs x units x 2 x clock */
  double fp16_flops;      /* FLOP/s of fp16 products with fp32 sums (tensor cores) */
  double copy_per_second; /* bytes of main memory in a copy, read plus written */
  double read_per_second; /* the same when it is only read */
  double l1_per_second;   /* bytes of all L1 caches and shared memories together: SMs x 128 x clock */
  const char *source;
} gpu_limits;

static const gpu_limits known_gpus[] = {
    {"NVIDIA H200", "h200", 66.9e12, 800e12, 4.30e12, 4.49e12, 132 * 128 * 1.98e9, "fp32: 132 SMs x 128 x 2 x 1.98 GHz; fp16 and memory: measured"},
    {"NVIDIA H100 80GB HBM3", "h100", 66.9e12, 800e12, 3.03e12, 3.13e12, 132 * 128 * 1.98e9,
     "fp32: 132 SMs x 128 x 2 x 1.98 GHz; memory: measured; fp16: the H200's, under the same power limit"},
};
enum { KNOWN_GPUS = sizeof known_gpus / sizeof *known_gpus };

/* The GPU whose times decided which kernel a step takes, how step 05 cuts products, and the sizes of tiles and strips. */
#define FITTED_GPU "NVIDIA H200"

/* The row of a GPU by its driver's name; NULL: there is none. */
static inline const gpu_limits *gpu_limits_of(const char *name) {
  for (int i = 0; i < KNOWN_GPUS; i++)
    if (strcmp(known_gpus[i].name, name) == 0) return &known_gpus[i];
  return NULL;
}
