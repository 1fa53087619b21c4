/* Which GPU the listing's last line speaks of: GPU=name chooses; without it the first of the table. */
#include <stdlib.h>
#include <string.h>

#include "common/emu/count/count.h"

const gpu_limits *emu_count_gpu(void) {
  const char *name = getenv("GPU");
  if (name == NULL || *name == '\0') return &known_gpus[0];
  for (int i = 0; i < KNOWN_GPUS; i++)
    if (strcmp(known_gpus[i].short_name, name) == 0) return &known_gpus[i];
  return NULL;
}
