/* Fibers without assembly, for other processors: the C library's contexts. Some sixty times slower, as every switch is a system call. */
#include "common/emu/run/fiber.h"

#ifdef EMU_UCONTEXT

#include <stdint.h>
#include <ucontext.h>

void emu_fiber_switch(void **from, void *to) {
  ucontext_t here; /* lies on the stack that is left, so it lives until somebody comes back */
  *from = &here;
  swapcontext(&here, to);
}

void *emu_fiber_create(void *stack, size_t bytes, void (*run)(void)) {
  const uintptr_t top = ((uintptr_t)stack + bytes - sizeof(ucontext_t)) & ~(uintptr_t)63;
  ucontext_t *context = (ucontext_t *)top;
  getcontext(context);
  context->uc_stack.ss_sp = stack;
  context->uc_stack.ss_size = top - (uintptr_t)stack;
  context->uc_link = NULL;
  makecontext(context, run, 0);
  return context;
}

#endif
typedef int emu_fiber_ucontext_not_empty; /* ISO C wants a declaration in every file */
