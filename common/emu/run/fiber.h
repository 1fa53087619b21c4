/* Fibers: contexts that take turns on one OS thread. A context is a pointer to what its stack looks like while it is away. */
#pragma once
#include <stddef.h>

/* Leaves the running context, whose pointer goes to *from, and goes on where `to` left. */
void emu_fiber_switch(void **from, void *to);

/* A context that calls run() on the given stack when it is first switched to. run must not return. */
void *emu_fiber_create(void *stack, size_t bytes, void (*run)(void));
