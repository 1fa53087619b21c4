/* Errors: their names, the last one, and the sticky one that a failed kernel leaves behind. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "common/emu/run/internal.h"

static __thread cudaError_t last;
static cudaError_t sticky;

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

cudaError_t emu_error(cudaError_t error) {
  if (error != cudaSuccess) last = error;
  return error;
}

void emu_set_sticky(cudaError_t error) { __atomic_store_n(&sticky, error, __ATOMIC_RELAXED); }
cudaError_t emu_sticky(void) { return __atomic_load_n(&sticky, __ATOMIC_RELAXED); }

cudaError_t cudaPeekAtLastError(void) { return emu_sticky() != cudaSuccess ? emu_sticky() : last; }

cudaError_t cudaGetLastError(void) {
  const cudaError_t error = cudaPeekAtLastError();
  last = cudaSuccess;
  return error;
}

cudaError_t cudaDeviceReset(void) {
  emu_free_all();
  emu_set_sticky(cudaSuccess);
  last = cudaSuccess;
  return cudaSuccess;
}

#define EMU_CASE(name, value, text) \
  case name: return text;
const char *cudaGetErrorString(cudaError_t error) {
  switch (error) { EMU_ERRORS(EMU_CASE) }
  return "unrecognized error code";
}
#undef EMU_CASE

#define EMU_CASE(name, value, text) \
  case name: return #name;
const char *cudaGetErrorName(cudaError_t error) {
  switch (error) { EMU_ERRORS(EMU_CASE) }
  return "unrecognized error code";
}
