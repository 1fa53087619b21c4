/* Which source a kernel is of: a hash of its file and the headers that it includes, worked out when the step is built (scripts/sources.pl). */
#pragma once

typedef struct kernel_source {
  const char *kernel; /* "02a"; NULL ends a table */
  const char *hash;   /* 12 hexadecimal digits */
} kernel_source;

/* A step's program has this table; others do not. */
extern const kernel_source kernel_sources[] __attribute__((weak));

/* The hash of a kernel of this program's step; "" where it is not known. */
const char *source_hash(const char *kernel);
