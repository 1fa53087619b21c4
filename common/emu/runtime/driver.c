/* The driver's functions by name, and its errors' names. */
#include <cuda.h>
#include <string.h>

#include "common/emu/run/internal.h"

static const struct {
  const char *name;
  unsigned since; /* CUDA 12.0 */
  void (*function)(void);
} entry_points[] = {
    {"cuTensorMapEncodeTiled", 12000, (void (*)(void))cuTensorMapEncodeTiled},
    {"cuTensorMapEncodeIm2col", 12000, (void (*)(void))cuTensorMapEncodeIm2col},
    {"cuTensorMapReplaceAddress", 12000, (void (*)(void))cuTensorMapReplaceAddress},
    {"cuGetErrorName", 6000, (void (*)(void))cuGetErrorName},
    {"cuGetErrorString", 6000, (void (*)(void))cuGetErrorString},
};

cudaError_t cudaGetDriverEntryPointByVersion(const char *symbol, void **function, unsigned int version, unsigned long long flags,
                                             enum cudaDriverEntryPointQueryResult *status) {
  if (symbol == NULL || function == NULL || flags > cudaEnablePerThreadDefaultStream) return emu_error(cudaErrorInvalidValue);
  enum cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
  *function = NULL;
  for (size_t i = 0; i < sizeof entry_points / sizeof *entry_points; i++) {
    if (strcmp(symbol, entry_points[i].name) != 0) continue;
    found = version < entry_points[i].since ? cudaDriverEntryPointVersionNotSufficent : cudaDriverEntryPointSuccess;
    if (version >= entry_points[i].since) memcpy(function, &entry_points[i].function, sizeof *function);
  }
  if (status != NULL) *status = found;
  return cudaSuccess;
}

cudaError_t cudaGetDriverEntryPoint(const char *symbol, void **function, unsigned long long flags, enum cudaDriverEntryPointQueryResult *status) {
  return cudaGetDriverEntryPointByVersion(symbol, function, CUDART_VERSION, flags, status);
}

#define EMU_CASE(name, value, text) \
  case name: *to = #name; return CUDA_SUCCESS;
CUresult cuGetErrorName(CUresult error, const char **to) {
  if (to == NULL) return CUDA_ERROR_INVALID_VALUE;
  switch (error) { EMU_DRIVER_ERRORS(EMU_CASE) }
  *to = NULL;
  return CUDA_ERROR_INVALID_VALUE;
}
#undef EMU_CASE

#define EMU_CASE(name, value, text) \
  case name: *to = text; return CUDA_SUCCESS;
CUresult cuGetErrorString(CUresult error, const char **to) {
  if (to == NULL) return CUDA_ERROR_INVALID_VALUE;
  switch (error) { EMU_DRIVER_ERRORS(EMU_CASE) }
  *to = NULL;
  return CUDA_ERROR_INVALID_VALUE;
}
