/* What the files with the instrumentation's functions share (check_hooks.c, check_atomics.c). */
#pragma once
#include "common/emu/check/check.h"

/* An access of any size and alignment, seen by whichever tool is at work. */
void emu_hook_access(const void *address, size_t bytes, emu_access_kind kind, const void *pc);

/* An atomic operation that the checker has been told of has been done. */
void emu_hook_atomic_done(const void *address);

/* The counter's eyes; NULL unless the program was built for counting. */
extern void (*emu_count_access)(const void *address, size_t bytes, emu_access_kind kind, const void *pc);
