/* Which GPU the listing's last line speaks of: GPU=name chooses; without it the first of the table. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/emu/count/count.h"

const gpu_limits *emu_count_gpu(void) {
  const char *name = getenv("GPU");
  if (name == NULL || *name == '\0') return &known_gpus[0];
  for (int i = 0; i < KNOWN_GPUS; i++)
    if (strcmp(known_gpus[i].short_name, name) == 0) return &known_gpus[i];
  fprintf(stderr, "emulator: GPU: expected a row of common/harness/gpus.h,");
  for (int i = 0; i < KNOWN_GPUS; i++) fprintf(stderr, "%s%s", i ? " or " : " ", known_gpus[i].short_name);
  fprintf(stderr, ", found '%s'\n", name);
  exit(2);
}
