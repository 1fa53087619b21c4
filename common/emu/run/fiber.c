/* New fibers for the assembly switch: a stack that looks as if emu_fiber_start had just called emu_fiber_switch. */
#include "common/emu/run/fiber.h"

#include <stdint.h>
#include <string.h>

#ifndef EMU_UCONTEXT

void emu_fiber_start(void);

#if defined(__x86_64__)
enum { FRAME_WORDS = 7, RUN_WORD = 4, START_WORD = 6 }; /* r15 r14 r13 r12 rbx rbp, address */
#elif defined(__aarch64__)
enum { FRAME_WORDS = 20, RUN_WORD = 0, START_WORD = 11 }; /* x19..x28, x29, x30, d8..d15 */
#else
#error "no fiber switch for this processor: compile the runtime with -DEMU_UCONTEXT"
#endif

void *emu_fiber_create(void *stack, size_t bytes, void (*run)(void)) {
  const uintptr_t top = ((uintptr_t)stack + bytes) & ~(uintptr_t)15;
  uintptr_t *frame = (uintptr_t *)top - FRAME_WORDS;
  memset(frame, 0, FRAME_WORDS * sizeof *frame);
  frame[RUN_WORD] = (uintptr_t)run;
  frame[START_WORD] = (uintptr_t)emu_fiber_start;
  return frame;
}

#endif
typedef int emu_fiber_not_empty; /* ISO C wants a declaration in every file */
