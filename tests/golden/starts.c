/* Where a box of a tiled map may begin, as it is loaded, stored or added: the innermost coordinate in bytes, negative coordinates, coordinates beyond the tensor;
 * and what a load puts where nothing is, by type. A refusal is an answer: nothing of it is in the manual. */
#include <stdio.h>
#include <string.h>

#include "tests/golden/golden.h"

typedef struct type {
  const char *name;
  int bytes;
  CUtensorMapDataType type;
} type;
static const type bytes1 = {"u8", 1, CU_TENSOR_MAP_DATA_TYPE_UINT8}, bytes2 = {"u16", 2, CU_TENSOR_MAP_DATA_TYPE_UINT16},
                  half = {"f16", 2, CU_TENSOR_MAP_DATA_TYPE_FLOAT16}, single = {"f32", 4, CU_TENSOR_MAP_DATA_TYPE_FLOAT32};

enum { DIMS = 4, COLUMNS = 64, ROWS = 8, MOST = 1 << 16 };
static unsigned char before[MOST], after[MOST], box[MOST];
static unsigned words[MOST];

typedef enum { LOAD, STORE, ADD } direction;

/* crc of the bytes of a box that was loaded, or of the tensor that one was stored into. */
static void measure(direction what, const type *of, int dims, const int *size, const int *extent, const int *at, CUtensorMapSwizzle swizzle) {
  static const char *const names[] = {"load", "store", "add"};
  char place[64], shape[64];
  for (int i = 0, p = 0, s = 0; i < dims; i++) {
    p += snprintf(place + p, sizeof place - (size_t)p, "%s%d", i > 0 ? "." : "", at[i]);
    s += snprintf(shape + s, sizeof shape - (size_t)s, "%s%d", i > 0 ? "." : "", extent[i]);
  }
  static const char *const swizzles[] = {"", " swizzle 32B", " swizzle 64B", " swizzle 128B"};
  if (!golden_case("%s %s box %s at %s%s", names[what], of->name, shape, place, swizzles[swizzle])) return;
  golden_tensor t = {.dims = dims, .element_bytes = of->bytes};
  memcpy(t.size, size, (size_t)dims * sizeof *size);
  const int all = (int)golden_elements(&t) * of->bytes;
  int bytes = of->bytes;
  for (int i = 0; i < dims; i++) bytes *= extent[i];
  if (all > MOST || bytes > MOST) golden_fail("no such tensor");
  memset(before, 0, sizeof before);
  memset(box, 0, sizeof box);
  unsigned char *const numbered = what == LOAD ? before : box; /* sums are of zero and small floats: exact */
  for (int i = 0; i < (what == LOAD ? all : bytes); i++) numbered[i] = what == ADD && i % of->bytes != of->bytes - 1 ? 0 : (unsigned char)(1 + i * 7 % 61);
  void *tensor = golden_upload(before, all);
  const CUtensorMap map = golden_tiled_map(tensor, &t, extent, NULL, of->type, swizzle, 0);
  if (what == LOAD) golden_load(&map, dims, at, NULL, 0, bytes / 2, (unsigned short *)box);
  else golden_store(&map, dims, at, what == ADD, box, bytes);
  golden_download(after, tensor, all);
  const unsigned char *const found = what == LOAD ? box : after;
  const int count = what == LOAD ? bytes : all;
  for (int i = 0; i < count; i++) words[i] = found[i];
  golden_print("%s: crc32 %08x\n", golden_name(), golden_crc(words, count));
}

static void starts(direction what, const type *of, const int (*at)[2], int count) {
  const int size[2] = {COLUMNS, ROWS}, extent[2] = {32, 4};
  for (int i = 0; i < count; i++) measure(what, of, 2, size, extent, at[i], 0);
}
#define COUNT(x) ((int)(sizeof(x) / sizeof *(x)))

/* A box that begins past the end of its tensor: the first element's bits. */
static void fill(const type *of) {
  const int size = 64, extent = 16, at = 64;
  if (!golden_case("fill NaN %s", of->name)) return;
  const golden_tensor t = {.dims = 1, .element_bytes = of->bytes, .size = {size}};
  memset(before, 0, sizeof before);
  void *tensor = golden_upload(before, size * of->bytes);
  const CUtensorMap map = golden_tiled_map(tensor, &t, &extent, NULL, of->type, 0, CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA);
  golden_load(&map, 1, &at, NULL, 0, extent * of->bytes / 2, (unsigned short *)box);
  cudaFree(tensor);
  golden_print("%s: 0x", golden_name());
  for (int i = of->bytes; i-- > 0;) golden_print("%02x", box[i]);
  for (int i = of->bytes; i < extent * of->bytes; i++)
    if (box[i] != box[i % of->bytes]) golden_fail("not the same everywhere");
  golden_print("\n");
}

void golden_starts(void) {
  static const int columns[][2] = {{-16, 0}, {-8, 0}, {-4, 0}, {-2, 0}, {1, 0}, {2, 0}, {4, 0}, {8, 0}, {16, 0}, {48, 0}, {64, 0}};
  static const int rows[][2] = {{0, -4}, {0, -1}, {0, 6}, {0, 8}};
  static const int some[][2] = {{-16, 0}, {-8, 0}, {4, 0}, {8, 0}, {48, 0}, {64, 0}, {0, -4}, {0, -1}, {0, 6}, {0, 8}, {-8, -1}, {48, 6}};
  static const type *const loaded[] = {&bytes1, &bytes2, &single};
  for (int i = 0; i < COUNT(loaded); i++) starts(LOAD, loaded[i], columns, COUNT(columns));
  starts(LOAD, &bytes2, rows, COUNT(rows));
  starts(STORE, &bytes2, some, COUNT(some));
  starts(ADD, &half, some, COUNT(some));
  starts(ADD, &single, some, COUNT(some));
  static const int size[DIMS] = {16, 6, 5, 3}, extent[DIMS] = {8, 4, 2, 2};
  static const int outer[][DIMS] = {{0, -1, 0, 0}, {0, 0, -1, 0}, {0, 0, 0, -1}, {8, 4, 4, 2}};
  for (direction what = LOAD; what <= STORE; what++)
    for (int i = 0; i < COUNT(outer); i++) measure(what, &bytes2, DIMS, size, extent, outer[i], 0);
  static const int wide[2] = {16, 4}, too_wide[2] = {32, 6}, at[2] = {0, 0}; /* a box larger than its tensor */
  for (direction what = LOAD; what <= STORE; what++) measure(what, &bytes2, 2, wide, too_wide, at, 0);
  for (int swizzle = 1; swizzle <= 3; swizzle++)
    for (int column = 4; column <= 24; column += column < 8 ? 4 : 16)
      for (direction what = LOAD; what <= STORE; what++)
        measure(what, &bytes2, 2, (const int[2]){COLUMNS * 2, ROWS}, (const int[2]){8 << swizzle, 8}, (const int[2]){column, 0}, (CUtensorMapSwizzle)swizzle);
  static const type floating[] = {{"f16", 2, CU_TENSOR_MAP_DATA_TYPE_FLOAT16},   {"bf16", 2, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16},
                                  {"f32", 4, CU_TENSOR_MAP_DATA_TYPE_FLOAT32},   {"f32 ftz", 4, CU_TENSOR_MAP_DATA_TYPE_FLOAT32_FTZ},
                                  {"tf32", 4, CU_TENSOR_MAP_DATA_TYPE_TFLOAT32}, {"tf32 ftz", 4, CU_TENSOR_MAP_DATA_TYPE_TFLOAT32_FTZ},
                                  {"f64", 8, CU_TENSOR_MAP_DATA_TYPE_FLOAT64}};
  for (int i = 0; i < COUNT(floating); i++) fill(&floating[i]);
}
