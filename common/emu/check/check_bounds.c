/* An index beyond the size of its array. Shadow memory sees only where an access lands: tile[y][x] with an x too large lands in the next
 * row, which is memory like any other; and behind a __constant__ array comes the next variable. The compiler knows the sizes: with
 * gcc's -fsanitize=bounds it compares every index with them and calls this function when one is too large. */
#include "common/emu/check/check.h"

/* What the compiler passes: where in the source, the array's type, the index's type. */
typedef struct type_text {
  uint16_t kind, info; /* of an integer: 0, and 2 * log2(bits) + whether it has a sign */
  char name[];         /* 'float [18]' */
} type_text;

typedef struct bounds_site {
  struct {
    const char *file;
    uint32_t line, column;
  } where;
  const type_text *array, *index;
} bounds_site;

/* The access itself comes next, and is judged by where it lands. */
void __ubsan_handle_out_of_bounds(const bounds_site *site, uintptr_t index) {
  if (emu_checking == NULL) return;
  const unsigned bits = 1u << (site->index->info >> 1);
  const bool is_signed = site->index->info & 1;
  const long long value = is_signed && bits < 64 ? (long long)((uint64_t)index << (64 - bits)) >> (64 - bits) : (long long)index;
  emu_check_note(EMU_OUT_OF_BOUNDS, __builtin_return_address(0), NULL, "index %lld of an array of type %s", value, site->array->name);
}
