/* Boxes of tiled maps: which element of the tensor lies where, swizzled or not, inside of the tensor or not; what a store leaves. */
#include <stdio.h>
#include <stdlib.h>

#include "common/conv/half.h"
#include "tests/golden/golden.h"

enum { MOST = 16384 /* halves of a box */, CHUNK = 8 /* halves of 16 bytes */ };
static unsigned short box[MOST];
static unsigned ids[MOST];

/* A tensor whose every half is 1 + its index. */
static void *numbered(const golden_tensor *t) {
  const long n = golden_elements(t);
  unsigned short *host = malloc(2 * (size_t)n);
  if (host == NULL || n >= GOLDEN_UNTOUCHED) golden_fail("no such tensor");
  for (long i = 0; i < n; i++) host[i] = (unsigned short)(i + 1);
  void *device = golden_upload(host, 2 * n);
  free(host);
  return device;
}

/* ---------------------------------------------------------------- swizzles */

void golden_swizzles(void) {
  static const char *const names[] = {"none", "32B", "64B", "128B"};
  static const int to[] = {0, 128, 256, 512, 896};
  for (int swizzle = 0; swizzle < 4; swizzle++)
    for (unsigned i = 0; i < sizeof to / sizeof *to; i++) {
      const int width = swizzle == 0 ? 64 : CHUNK << swizzle, height = 16 * 64 / width; /* a row is at most what the swizzle permutes */
      if (!golden_case("swizzle %s box %d.%d at 1024 i + %d", names[swizzle], width, height, to[i])) continue;
      const golden_tensor t = {.dims = 2, .element_bytes = 2, .size = {width, height}};
      void *tensor = numbered(&t);
      const CUtensorMap map = golden_tiled_map(tensor, &t, t.size, NULL, CU_TENSOR_MAP_DATA_TYPE_UINT16, (CUtensorMapSwizzle)swizzle, 0);
      golden_load(&map, 2, (const int[2]){0, 0}, NULL, to[i], width * height, box);
      cudaFree(tensor);
      for (int line = 0; line < width * height / 64; line++) {
        golden_print("%s, 128 bytes %d, row.chunk of each 16:", golden_name(), line);
        for (int chunk = line * 8; chunk < line * 8 + 8; chunk++) {
          const int id = box[chunk * CHUNK] - 1;
          bool whole = id % CHUNK == 0;
          for (int k = 1; k < CHUNK; k++) whole = whole && box[chunk * CHUNK + k] == id + 1 + k;
          golden_print(" %d.%d%s", id / width, id % width / CHUNK, whole ? "" : "?");
        }
        golden_print("\n");
      }
    }
}

/* ---------------------------------------------------------------- loads */

typedef struct box_case {
  int dims, size[5], box[5], at[5], step[5];
  bool nan;
} box_case;

static const box_case loads[] = {
    {1, {100}, {64}, {0}, {1}, false},
    {1, {100}, {64}, {70}, {1}, false},
    {1, {100}, {64}, {-13}, {1}, false},
    {1, {100}, {64}, {72}, {1}, false},
    {1, {100}, {64}, {-16}, {1}, false},
    {1, {100}, {64}, {-64}, {1}, false},
    {2, {40, 20}, {16, 8}, {3, 2}, {1, 1}, false},
    {2, {40, 20}, {16, 8}, {8, 2}, {1, 1}, false},
    {2, {40, 20}, {16, 8}, {-4, -3}, {1, 1}, false},
    {2, {40, 20}, {16, 8}, {-8, -3}, {1, 1}, false},
    {2, {40, 20}, {16, 8}, {30, 15}, {1, 1}, false},
    {2, {40, 20}, {16, 8}, {32, 15}, {1, 1}, false},
    {2, {40, 20}, {16, 8}, {-8, -3}, {1, 1}, true},
    {2, {40, 20}, {16, 8}, {40, 20}, {1, 1}, true},
    {2, {13, 9}, {16, 4}, {0, 7}, {1, 1}, false},
    {2, {13, 9}, {16, 4}, {-8, -1}, {1, 1}, true},
    {2, {16, 40}, {16, 15}, {0, 1}, {1, 2}, false},
    {2, {16, 40}, {8, 16}, {8, -3}, {1, 3}, false},
    {2, {16, 40}, {8, 64}, {0, 0}, {1, 8}, false},
    {3, {8, 10, 6}, {8, 4, 3}, {0, -1, -1}, {1, 1, 1}, false},
    {3, {8, 10, 6}, {8, 4, 3}, {0, 8, 5}, {1, 1, 1}, false},
    {4, {64, 14, 14, 2}, {64, 16, 6, 1}, {0, -1, -1, 1}, {1, 1, 1, 1}, false},
    {4, {64, 14, 14, 2}, {64, 16, 6, 1}, {0, -1, 11, 0}, {1, 1, 1, 1}, false},
    {4, {32, 14, 14, 2}, {32, 16, 3, 1}, {0, -1, -1, 0}, {1, 2, 1, 1}, false},
    {4, {32, 14, 14, 2}, {32, 8, 8, 1}, {0, -1, -1, 0}, {1, 1, 2, 1}, false},
    {4, {32, 14, 14, 2}, {32, 16, 8, 1}, {0, -1, -1, 1}, {1, 2, 2, 1}, false},
    {4, {32, 14, 14, 2}, {32, 15, 7, 2}, {0, 2, 9, 0}, {1, 2, 2, 1}, false},
    {4, {32, 14, 14, 2}, {32, 16, 8, 1}, {0, -1, -1, 1}, {1, 2, 2, 1}, true},
    {5, {8, 5, 4, 3, 2}, {8, 3, 2, 2, 2}, {0, -1, 3, 1, 0}, {1, 1, 1, 1, 1}, false},
    {5, {8, 5, 4, 3, 2}, {8, 3, 2, 2, 2}, {-3, 3, -1, -1, 1}, {1, 1, 1, 1, 1}, false},
    {5, {16, 5, 4, 3, 2}, {16, 3, 2, 2, 2}, {-8, 3, -1, -1, 1}, {1, 1, 1, 1, 1}, false},
    {5, {8, 5, 4, 3, 2}, {8, 4, 2, 2, 2}, {0, -1, 0, 3, 0}, {1, 2, 1, 1, 1}, false},
};

static bool begin(const char *what, const box_case *c) {
  char text[4][64];
  const int *const of[4] = {c->size, c->box, c->at, c->step};
  for (int k = 0; k < 4; k++)
    for (int i = 0, at = 0; i < c->dims; i++) at += snprintf(text[k] + at, sizeof text[k] - (size_t)at, "%s%d", i > 0 ? "." : "", of[k][i]);
  return golden_case("%s tensor %s box %s at %s steps %s%s", what, text[0], text[1], text[2], text[3], c->nan ? " fill NaN" : "");
}

/* Elements of a box along dimension i. */
static int extent(const box_case *c, int i) { return (c->box[i] + c->step[i] - 1) / c->step[i]; }
static int box_elements(const box_case *c) {
  int n = c->box[0];
  for (int i = 1; i < c->dims; i++) n *= extent(c, i);
  return n;
}

static bool is_nan(unsigned short half) { return (half & 0x7c00) == 0x7c00 && (half & 0x3ff) != 0; }

static void load(const box_case *c) {
  if (!begin("load", c)) return;
  golden_tensor t = {.dims = c->dims, .element_bytes = 2};
  for (int i = 0; i < c->dims; i++) t.size[i] = c->size[i];
  const int n = box_elements(c);
  void *tensor = numbered(&t);
  const CUtensorMap map = golden_tiled_map(tensor, &t, c->box, c->step, c->nan ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16 : CU_TENSOR_MAP_DATA_TYPE_UINT16, 0,
                                           c->nan ? CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA : CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  golden_load(&map, c->dims, c->at, NULL, 0, n, box);
  cudaFree(tensor);
  unsigned nan = 0;
  for (int i = 0; i < n; i++) {
    ids[i] = box[i];
    if (c->nan && is_nan(box[i])) nan = box[i], ids[i] = 0;
  }
  golden_print("%s: crc32 %08x\n", golden_name(), golden_crc(ids, n));
  if (c->nan) golden_print("%s, what is outside: 0x%04x\n", golden_name(), nan);
  golden_print("%s, from where each row comes:", golden_name());
  for (int i = 0; i < n; i += c->box[0]) golden_print_row(&t, ids + i, c->box[0]);
  golden_print("\n");
}

/* ---------------------------------------------------------------- stores */

static const box_case stores[] = {
    {1, {100}, {64}, {72}, {1}, false},
    {2, {40, 20}, {16, 8}, {8, 2}, {1, 1}, false},
    {2, {40, 20}, {16, 8}, {32, 15}, {1, 1}, false},
    {2, {40, 20}, {16, 8}, {-8, -3}, {1, 1}, false},
    {2, {13, 9}, {16, 4}, {0, 7}, {1, 1}, false},
    {3, {8, 10, 6}, {8, 4, 3}, {0, 8, 4}, {1, 1, 1}, false},
    {4, {32, 14, 14, 2}, {32, 16, 4, 1}, {0, 0, 12, 1}, {1, 1, 1, 1}, false},
    {5, {8, 5, 4, 3, 2}, {8, 3, 2, 2, 2}, {0, 3, 3, 1, 1}, {1, 1, 1, 1, 1}, false},
};

typedef enum { STORE, ADD_F16, ADD_F32 } store_kind;

/* What the tensor holds afterwards: of a plain store 1 + the index in the box, or 0; of a sum i % 128 of element i + (index in the box) % 512 / 8. */
static void store(const box_case *c, store_kind kind) {
  static const char *const names[] = {"store", "reduce.add f16", "reduce.add f32"};
  static const CUtensorMapDataType types[] = {CU_TENSOR_MAP_DATA_TYPE_UINT16, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, CU_TENSOR_MAP_DATA_TYPE_FLOAT32};
  if (!begin(names[kind], c)) return;
  golden_tensor t = {.dims = c->dims, .element_bytes = kind == ADD_F32 ? 4 : 2};
  for (int i = 0; i < c->dims; i++) t.size[i] = c->size[i];
  const int n = box_elements(c), size = t.element_bytes;
  const long all = golden_elements(&t);
  unsigned char *from = calloc((size_t)n, (size_t)size), *host = calloc((size_t)all, (size_t)size);
  unsigned *after = calloc((size_t)all, sizeof *after);
  if (from == NULL || host == NULL || after == NULL) golden_fail("no memory");
  for (int i = 0; i < n; i++)
    if (kind == STORE) ((unsigned short *)from)[i] = (unsigned short)(i + 1);
    else if (kind == ADD_F16) ((unsigned short *)from)[i] = half_from_float((float)(i % 512) / 8);
    else ((float *)from)[i] = (float)(i % 512) / 8;
  for (long i = 0; i < all; i++)
    if (kind == ADD_F16) ((unsigned short *)host)[i] = half_from_float((float)(i % 128));
    else if (kind == ADD_F32) ((float *)host)[i] = (float)(i % 128);
  void *tensor = golden_upload(host, all * size);
  const CUtensorMap map = golden_tiled_map(tensor, &t, c->box, c->step, types[kind], 0, 0);
  golden_store(&map, c->dims, c->at, kind != STORE, from, n * size);
  golden_download(host, tensor, all * size);
  for (long i = 0; i < all; i++) after[i] = size == 4 ? ((unsigned *)host)[i] : ((unsigned short *)host)[i];
  golden_print("%s: crc32 %08x\n", golden_name(), golden_crc(after, (int)all));
  if (kind == STORE && all <= 1000) {
    golden_print("%s, what each element of the tensor holds:", golden_name());
    for (long i = 0; i < all; i++) golden_print(" %u", after[i]);
    golden_print("\n");
  }
  free(from), free(host), free(after);
}

void golden_boxes(void) {
  for (unsigned i = 0; i < sizeof loads / sizeof *loads; i++) load(&loads[i]);
  for (store_kind kind = STORE; kind <= ADD_F32; kind++)
    for (unsigned i = 0; i < sizeof stores / sizeof *stores; i++) store(&stores[i], kind);
}
