/* What the GPUs of the listing's last line can do at best: GPU=name chooses. */
#include <stdlib.h>
#include <string.h>

#include "count.h"

/* flops: fp32. The L1 cache and shared memory of an SM are one memory, which moves 128 bytes a clock. */
static const emu_gpu gpus[] = {
    {"h200", "132 SMs at 1.98 GHz: x 256 flops, x 128 bytes of L1; memory as measured", 66.9e12, 4.28e12, 132 * 128 * 1.98e9},
};

const emu_gpu *emu_count_gpu(void) {
  const char *name = getenv("GPU");
  if (name == NULL || *name == '\0') return &gpus[0];
  for (size_t i = 0; i < sizeof gpus / sizeof *gpus; i++)
    if (strcmp(gpus[i].name, name) == 0) return &gpus[i];
  return NULL;
}
