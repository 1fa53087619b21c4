/* What threads wait for. Linked with --wrap where an exercise has a goal for it: the reader's kernels call these. */
#include "common/emu/emu.h"

extern uint64_t exercise_barriers, exercise_waits, exercise_ahead;

emu_barrier *__real_emu_barrier_wait(int id, unsigned expected, int predicate, const char *what, const char *file, int line);
emu_barrier *__wrap_emu_barrier_wait(int id, unsigned expected, int predicate, const char *what, const char *file, int line);
void __real_emu_cp_async_wait(int n);
void __wrap_emu_cp_async_wait(int n);

emu_barrier *__wrap_emu_barrier_wait(int id, unsigned expected, int predicate, const char *what, const char *file, int line) {
  exercise_barriers++;
  return __real_emu_barrier_wait(id, expected, predicate, what, file, line);
}

/* n: groups of copies that may still be under way; empty ones do not count. */
void __wrap_emu_cp_async_wait(int n) {
  exercise_waits++;
  __real_emu_cp_async_wait(n);
  exercise_ahead += emu_cp_async_left();
}
