/* Errors: their names, the last one, and the sticky one that a failed kernel leaves behind. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "common/emu/run/internal.h"

static __thread cudaError_t last;
static cudaError_t sticky;

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
