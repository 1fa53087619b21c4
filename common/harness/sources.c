/* Which source a kernel is of. See sources.h. */
#include "common/harness/sources.h"

#include <string.h>

const char *source_hash(const kernel_source *table, const char *kernel) {
  for (const kernel_source *s = table; s && s->kernel; s++)
    if (strcmp(s->kernel, kernel) == 0) return s->hash;
  return "";
}
