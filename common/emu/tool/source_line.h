/* From program counters to lines of the source. */
#pragma once
#include <stddef.h>

typedef struct emu_line {
  const char *file; /* "?" if unknown */
  int line;
} emu_line;

/* Finds the line of each return address: where in the user's files the call happens, not where in our headers. Asks addr2line, once
 * for all that are new. EMU_ADDR2LINE names another program for it. */
void emu_source_lines(const void *const *pcs, size_t count, emu_line *lines);
