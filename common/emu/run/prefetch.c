/* prefetch.tensormap: here only a look at the map. */
#include "common/emu/hopper.h"
#include "common/emu/run/tensor_map.h"

void emu_tensor_prefetch(const void *map, const char *file, int line) {
  emu_tensor_map m;
  const char *why = emu_tensor_map_read(map, &m);
  if (why != NULL) emu_fail("prefetch.tensormap at %s:%d: %s", file, line, why);
}
