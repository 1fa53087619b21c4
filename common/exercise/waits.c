/* What threads wait for. Linked with --wrap where an exercise has a goal for it: the reader's kernels call these. */
#include <stdlib.h>
#include <string.h>

#include "common/emu/emu.h"

extern __thread const dim3 gridDim __attribute__((tls_model("initial-exec")));
extern uint64_t exercise_barriers, exercise_waits, exercise_ahead;

emu_barrier *__real_emu_barrier_wait(int id, unsigned expected, int predicate, const char *what, const char *file, int line);
emu_barrier *__wrap_emu_barrier_wait(int id, unsigned expected, int predicate, const char *what, const char *file, int line);
void __real_emu_mbarrier_wait(uint32_t barrier, uint32_t parity, const char *file, int line);
void __wrap_emu_mbarrier_wait(uint32_t barrier, uint32_t parity, const char *file, int line);
void __real_emu_cluster_wait(const char *file, int line);
void __wrap_emu_cluster_wait(const char *file, int line);
void __real_emu_cp_async_wait(int n);
void __wrap_emu_cp_async_wait(int n);

/* A barrier of whichever kind. exercise_barriers: those of the thread that has most. */
static void meet(void) {
  static uint64_t *of; /* a thread of the grid */
  static size_t threads;
  const emu_block *b = emu_self->block;
  const size_t block = ((size_t)b->index.z * gridDim.y + b->index.y) * gridDim.x + b->index.x, i = block * b->thread_count + emu_self->number;
  if (i >= threads) {
    of = realloc(of, 2 * (i + 1) * sizeof *of);
    if (!of) abort();
    memset(of + threads, 0, (2 * (i + 1) - threads) * sizeof *of);
    threads = 2 * (i + 1);
  }
  if (++of[i] > exercise_barriers) exercise_barriers = of[i];
}

void __wrap_emu_mbarrier_wait(uint32_t barrier, uint32_t parity, const char *file, int line) {
  meet();
  __real_emu_mbarrier_wait(barrier, parity, file, line);
}

void __wrap_emu_cluster_wait(const char *file, int line) {
  meet();
  __real_emu_cluster_wait(file, line);
}

emu_barrier *__wrap_emu_barrier_wait(int id, unsigned expected, int predicate, const char *what, const char *file, int line) {
  meet();
  return __real_emu_barrier_wait(id, expected, predicate, what, file, line);
}

/* n: groups of copies that may still be under way; empty ones do not count. */
void __wrap_emu_cp_async_wait(int n) {
  exercise_waits++;
  __real_emu_cp_async_wait(n);
  exercise_ahead += emu_cp_async_left();
}
