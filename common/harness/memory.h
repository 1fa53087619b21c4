/* How much memory this process can have. */
#pragma once
#include <stddef.h>

typedef struct memory_bytes {
  size_t total;
  size_t available; /* now, with the caches that the system would give up */
} memory_bytes;

/* The machine's, or that of the control groups which the process is in (a container's limit), whichever is less. root: where /proc and /sys lie: "", but in a
 * test. */
memory_bytes memory_of_process(const char *root);
