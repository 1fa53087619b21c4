/* Which source a kernel is of: a hash of its file and the headers that it includes, worked out when the step is built (scripts/sources.pl). */
#pragma once

typedef struct kernel_source {
  const char *kernel; /* "02a"; NULL ends a table */
  const char *hash;   /* 12 hexadecimal digits */
} kernel_source;

/* The hash of a kernel in such a table; "" where there is none, or no table (NULL). */
const char *source_hash(const kernel_source *table, const char *kernel);
