/* Memory of the emulator itself. What is missing is said, and ends the program. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "common/emu/run/internal.h"

/* Whoever comes first; workers that run out of memory beside it wait for the end. */
void emu_no_memory(size_t bytes, const char *what) {
  static pthread_mutex_t once = PTHREAD_MUTEX_INITIALIZER;
  pthread_mutex_lock(&once);
  fflush(stdout);
  fprintf(stderr, "emulator: no memory for %s: asked for %zu bytes\n", what, bytes);
  exit(2);
}

void *emu_take(size_t count, size_t size, const char *what) {
  void *memory = calloc(count, size);
  if (memory == NULL) emu_no_memory(count * size, what);
  return memory;
}

void *emu_grow(void *old, size_t count, size_t size, const char *what) {
  void *memory = realloc(old, count * size);
  if (memory == NULL) emu_no_memory(count * size, what);
  return memory;
}

void *emu_pages(size_t bytes) {
  void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return memory == MAP_FAILED ? NULL : memory;
}
