/* Which source a kernel is of. See sources.h. */
#include "common/sources.h"

#include <string.h>

const char *source_hash(const char *kernel) {
  for (const kernel_source *s = kernel_sources; s && s->kernel; s++)
    if (strcmp(s->kernel, kernel) == 0) return s->hash;
  return "";
}
