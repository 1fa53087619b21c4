/* Sums that the copy engine adds to global memory (cp.reduce.async.bulk): element by element, each addition whole. */
#include <string.h>

#include "common/conv/half.h"
#include "common/emu/run/hopper.h"

void emu_reduce_add(unsigned char *to, const unsigned char *from, unsigned bytes, emu_bulk_reduce type) {
  if (type == EMU_REDUCE_ADD_F32)
    for (unsigned i = 0; i < bytes; i += 4) {
      float a, b;
      memcpy(&b, from + i, 4);
      uint32_t old, new;
      do {
        old = __atomic_load_n((uint32_t *)(void *)(to + i), __ATOMIC_RELAXED);
        memcpy(&a, &old, 4);
        a += b;
        memcpy(&new, &a, 4);
      } while (!__atomic_compare_exchange_n((uint32_t *)(void *)(to + i), &old, new, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    }
  else
    for (unsigned i = 0; i < bytes; i += 2) {
      uint16_t b, old, new;
      memcpy(&b, from + i, 2);
      do {
        old = __atomic_load_n((uint16_t *)(void *)(to + i), __ATOMIC_RELAXED);
        new = half_from_float(half_to_float(old) + half_to_float(b));
      } while (!__atomic_compare_exchange_n((uint16_t *)(void *)(to + i), &old, new, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    }
}
