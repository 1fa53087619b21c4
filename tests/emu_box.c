/* The copy engine's boxes, byte for byte, beside loops over coordinates: tiled boxes as cuda.h describes them, im2col boxes by a convolution's windows. */
#include <cuda.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/conv/random.h"
#include "common/emu/run/tensor_map.h"
#include "tests/tap.h"

enum { SHARED = 1 << 18, MEMORY = 1 << 20, CASES = 4000 };
enum { UNTOUCHED = -2, OUTSIDE = -1 }; /* else: an offset into memory */
static unsigned char memory[MEMORY] __attribute__((aligned(128)));
static int32_t expected[SHARED], found[SHARED]; /* what each byte of shared memory gets */
static int strange;                             /* pieces that are none: too long, across a 16-byte line, a byte written twice */

static uint64_t state;
static int below(int n) { return (int)random_below(4711, state++, (uint64_t)n); }
static int between(int low, int high) { return low + below(high - low + 1); }

static void note(void *context, uint32_t shared, unsigned char *global, unsigned bytes) {
  (void)context;
  if (bytes < 1 || bytes > 16 || shared % 16 + bytes > 16 || shared + bytes > SHARED) {
    strange++;
    return;
  }
  for (unsigned i = 0; i < bytes; i++) {
    strange += found[shared + i] != UNTOUCHED;
    found[shared + i] = global == NULL ? OUTSIDE : (int32_t)(global + i - memory);
  }
}

/* As the programming guide draws it: 16-byte chunk x of the 128-byte row y lies at chunk x ^ (y mod 2, 4 or 8). */
static int64_t swizzled(int swizzle, int64_t at) {
  static const int rows[] = {1, 2, 4, 8};
  const int64_t y = at / 128, x = at / 16 % 8;
  return y * 128 + (x ^ y % rows[swizzle]) * 16 + at % 16;
}

static void expect(int swizzle, int64_t at, int bytes, int64_t from) {
  for (int i = 0; i < bytes; i++) expected[swizzled(swizzle, at + i)] = from == OUTSIDE ? OUTSIDE : (int32_t)(from + i);
}

static void clear(void) {
  for (int i = 0; i < SHARED; i++) expected[i] = found[i] = UNTOUCHED;
  strange = 0;
}

/* Walks the box; true if every byte of shared memory got what it should. */
static bool compare(const CUtensorMap *map, const int32_t *start, const uint16_t *offsets, int dims, bool store, uint32_t shared, int64_t bytes) {
  emu_tensor_map m;
  const char *why = emu_tensor_map_read(map, &m);
  if (why == NULL) why = emu_box_refused(&m, dims, offsets != NULL, shared);
  if (why == NULL && offsets != NULL) why = emu_box_offsets_refused(&m, offsets);
  if (why == NULL) why = emu_box_start_refused(&m, start, store);
  if (why != NULL) return diag("%s", why), false;
  emu_box_walk(&m, start, offsets, store, shared, note, NULL);
  for (int i = 0; i < SHARED; i++)
    if (expected[i] != found[i]) return diag("shared byte %d: expected %d, found %d", i, expected[i], found[i]), false;
  if (strange) diag("%d pieces that are none", strange);
  if (emu_box_bytes(&m) != bytes) diag("expected %lld bytes, got %u", (long long)bytes, emu_box_bytes(&m));
  return !strange && emu_box_bytes(&m) == bytes;
}

static const struct {
  CUtensorMapDataType type;
  int bytes;
} kinds[] = {
    {CU_TENSOR_MAP_DATA_TYPE_UINT8, 1}, {CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 2}, {CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 4}, {CU_TENSOR_MAP_DATA_TYPE_FLOAT64, 8}};

/* Rows of a multiple of 16 bytes within the swizzle's span (none: up to 256 bytes); returns elements. */
static int row_elements(int swizzle, int bytes) { return between(1, swizzle ? 1 << swizzle : 16) * 16 / bytes; }

static bool random_tile(bool store) {
  const int rank = between(1, 5), kind = below(4), swizzle = below(4), e = kinds[kind].bytes;
  int64_t size[5] = {1, 1, 1, 1, 1}, stride[5] = {e}, many = 1;
  int box[5] = {1, 1, 1, 1, 1}, step[5] = {1, 1, 1, 1, 1}, start[5] = {0};
  for (int d = 0; d < rank; d++) {
    size[d] = between(1, d == 0 ? 100 : 9);
    if (d > 0) stride[d] = (size[d - 1] * stride[d - 1] + 15) / 16 * 16 + 16 * below(3);
    step[d] = below(2) ? 1 : between(1, 8);
    box[d] = d == 0 ? row_elements(swizzle, e) : between(1, below(8) ? 12 : 40);
    while (many * ((box[d] + step[d] - 1) / step[d]) > 600 && d > 0) box[d] = (box[d] + 1) / 2;
    if (d > 0) many *= (box[d] + step[d] - 1) / step[d];
    const int each = d == 0 ? 16 / e : 1; /* elements of the innermost coordinate's 16 bytes */
    start[d] = each * between(store ? 0 : (-box[d] - 2) / each, ((int)size[d] + 2) / each);
  }
  step[0] = 1;
  const int64_t base = 16 * below(8);
  const uint32_t shared = 128 * (uint32_t)below(200);
  cuuint64_t dims[5], strides[4] = {0};
  cuuint32_t boxes[5], steps[5];
  for (int d = 0; d < rank; d++) dims[d] = (cuuint64_t)size[d], boxes[d] = (cuuint32_t)box[d], steps[d] = (cuuint32_t)step[d];
  for (int d = 1; d < rank; d++) strides[d - 1] = (cuuint64_t)stride[d];
  steps[0] = (cuuint32_t)between(1, 8); /* ignored */
  CUtensorMap map;
  if (cuTensorMapEncodeTiled(&map, kinds[kind].type, (cuuint32_t)rank, memory + base, dims, strides, boxes, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
                             (CUtensorMapSwizzle)swizzle, CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE))
    return false;
  clear();
  int64_t at = shared;
  for (int v = 0; v < box[4]; v += step[4])
    for (int w = 0; w < box[3]; w += step[3])
      for (int z = 0; z < box[2]; z += step[2])
        for (int y = 0; y < box[1]; y += step[1])
          for (int x = 0; x < box[0]; x++, at += e) {
            const int64_t c[5] = {start[0] + x, start[1] + y, start[2] + z, start[3] + w, start[4] + v};
            const int64_t end = store ? (size[0] * e + 15) / 16 * 16 / e : size[0]; /* a store writes 16 bytes where one is inside */
            int64_t from = base;
            for (int d = 0; d < 5 && from != OUTSIDE; d++) from = c[d] < 0 || c[d] >= (d == 0 ? end : size[d]) ? OUTSIDE : from + c[d] * stride[d];
            expect(swizzle, at, e, from);
          }
  return compare(&map, start, NULL, rank, store, shared, at - shared);
}

/* A convolution of 1 to 3 dimensions: W, H, D. x: [N][D][H][W][C]. */
typedef struct windows {
  const char *name;
  int dims, C, N, channels, swizzle;
  int size[3], filter[3], stride[3], dilation[3], before[3], after[3]; /* padding */
} windows;

/* The box of one tap from window `first` on, `count` windows. */
static bool im2col_box(const windows *p, const int tap[3], int first, int count, int channel, uint32_t shared) {
  int out[3] = {1, 1, 1}, lower[3], upper[3];
  int64_t stride[5] = {2};
  cuuint64_t dims[5] = {(cuuint64_t)p->C}, strides[4];
  cuuint32_t steps[5] = {1, 1, 1, 1, 1};
  uint16_t offsets[3];
  const int rank = p->dims + 2;
  for (int d = 0; d < p->dims; d++) {
    out[d] = (p->size[d] + p->before[d] + p->after[d] - p->dilation[d] * (p->filter[d] - 1) - 1) / p->stride[d] + 1;
    lower[d] = -p->before[d];
    upper[d] = p->after[d] - p->dilation[d] * (p->filter[d] - 1);
    dims[d + 1] = (cuuint64_t)p->size[d];
    steps[d + 1] = (cuuint32_t)p->stride[d];
    offsets[d] = (uint16_t)(tap[d] * p->dilation[d]);
  }
  dims[rank - 1] = (cuuint64_t)p->N;
  for (int d = 1; d < rank; d++) strides[d - 1] = (cuuint64_t)(stride[d] = d == 1 ? (p->C * 2 + 15) / 16 * 16 : (int64_t)dims[d - 1] * stride[d - 1]);
  CUtensorMap map;
  if (cuTensorMapEncodeIm2col(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, (cuuint32_t)rank, memory, dims, strides, lower, upper, (cuuint32_t)p->channels,
                              (cuuint32_t)count, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, (CUtensorMapSwizzle)p->swizzle, CU_TENSOR_MAP_L2_PROMOTION_NONE,
                              CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE))
    return false;
  /* Window `first` is output pixel (n, o, p, q); its base is where its tap (0, 0, 0) lies. */
  const int each = out[0] * out[1] * out[2];
  const int place[3] = {first % out[0], first / out[0] % out[1], first / out[0] / out[1] % out[2]};
  int32_t start[5] = {channel};
  for (int d = 0; d < p->dims; d++) start[d + 1] = place[d] * p->stride[d] - p->before[d];
  start[rank - 1] = first / each;
  clear();
  for (int i = 0; i < count; i++) {
    const int window = first + i, n = window / each;
    const int o[3] = {window % out[0], window / out[0] % out[1], window / out[0] / out[1] % out[2]};
    int64_t pixel = n < p->N ? n * stride[rank - 1] : OUTSIDE;
    for (int d = 0; d < p->dims; d++) {
      const int x = o[d] * p->stride[d] - p->before[d] + tap[d] * p->dilation[d];
      pixel = x < 0 || x >= p->size[d] || pixel == OUTSIDE ? OUTSIDE : pixel + x * stride[d + 1];
    }
    for (int c = 0; c < p->channels; c++)
      expect(p->swizzle, shared + 2 * ((int64_t)i * p->channels + c), 2, pixel == OUTSIDE || channel + c >= p->C ? OUTSIDE : pixel + 2 * (channel + c));
  }
  return compare(&map, start, offsets, rank, false, shared, 2 * (int64_t)count * p->channels);
}

/* Every tap, several starts. */
static void test_windows(const windows *p) {
  int right = 0, boxes = 0;
  for (int t = 0; t < p->filter[0] * p->filter[1]; t++)
    for (int first = 0; first < 300; first += 37) {
      const int tap[3] = {t % p->filter[0], t / p->filter[0], 0};
      right += im2col_box(p, tap, first, 128, boxes % 2 ? p->channels : 0, 1024 * (uint32_t)(boxes % 3) + 128 * (uint32_t)(boxes % 8));
      boxes++;
    }
  ok(right == boxes, "im2col: %s: %d of %d boxes", p->name, right, boxes);
}

static bool random_windows(void) {
  windows p = {.dims = between(1, 3), .N = between(1, 3), .swizzle = below(4)};
  int tap[3] = {0}, windows_all = p.N;
  p.C = between(1, 150);
  p.channels = row_elements(p.swizzle, 2);
  for (int d = 0; d < p.dims; d++) {
    do {
      p.size[d] = between(1, p.dims == 1 ? 60 : 12);
      p.filter[d] = between(1, 5);
      p.stride[d] = below(2) ? 1 : between(1, 8);
      p.dilation[d] = between(1, 3);
      p.before[d] = below(6);
      p.after[d] = below(6);
    } while (p.size[d] + p.before[d] + p.after[d] < p.dilation[d] * (p.filter[d] - 1) + 1);
    tap[d] = below(p.filter[d]);
    windows_all *= (p.size[d] + p.before[d] + p.after[d] - p.dilation[d] * (p.filter[d] - 1) - 1) / p.stride[d] + 1;
  }
  return im2col_box(&p, tap, below(windows_all), between(1, 256), below((p.C + 7) / 8) * 8, 128 * (uint32_t)below(300));
}

static void test_refusals(void) {
  const cuuint64_t dims[4] = {64, 56, 56, 16}, strides[3] = {128, 7168, 401408};
  const cuuint32_t box[4] = {64, 58, 6, 1}, steps[4] = {1, 1, 1, 1};
  const int lower[2] = {-1, -1}, upper[2] = {-1, -1};
  CUtensorMap tiled, im2col;
  emu_tensor_map t, i;
#define MODES CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE
  cuTensorMapEncodeTiled(&tiled, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 4, memory, dims, strides, box, steps, MODES);
  cuTensorMapEncodeIm2col(&im2col, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 4, memory, dims, strides, lower, upper, 64, 128, steps, MODES);
  ok(emu_tensor_map_read(&tiled, &t) == NULL && emu_tensor_map_read(&im2col, &i) == NULL && emu_box_bytes(&t) == 44544 && emu_box_bytes(&i) == 16384,
     "a halo of 58 x 6 pixels of 128 bytes is 44544 bytes, a column of 128 pixels 16384");
  struct {
    const emu_tensor_map *map;
    int dims, offsets;
    uint32_t bad, good;
    const char *words;
  } rows[] = {
      {&t, 3, 0, 0, 0, "expected coordinates of the map's 4 dimensions, got 3"},
      {&t, 4, 1, 0, 0, "a map of tiled mode, an instruction of im2col mode"},
      {&i, 4, 0, 0, 0, "a map of im2col mode, an instruction of tiled mode"},
      {&t, 4, 0, 1088, 1152, "expected a shared address that is a multiple of 128, got 0x440"},
      {&t, 4, 0, SHARED - 44544 + 128, SHARED - 44544, "a box of 44544 bytes at 0x35280: past the end of shared memory"},
      {&i, 4, 1, 3 * SHARED - 128, 3 * SHARED - 16384, "a box of 16384 bytes at 0xbff80: past the end of shared memory"},
  };
  for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
    const char *why = emu_box_refused(rows[k].map, rows[k].dims, rows[k].offsets, rows[k].bad);
    ok(why && strcmp(why, rows[k].words) == 0 && !emu_box_refused(rows[k].map, 4, rows[k].map == &i, rows[k].good), "refused: %s", rows[k].words);
    if (why && strcmp(why, rows[k].words) != 0) diag("%s", why);
  }
  static const struct {
    int32_t at[4];
    bool store;
    const char *words;
  } starts[] = {
      {{8, -1, -1, 0}, false, NULL},
      {{4, 0, 0, 0}, false, "expected a first coordinate that is a multiple of 16 bytes, got 4 of 2 bytes each"},
      {{-3, 0, 0, 0}, false, "expected a first coordinate that is a multiple of 16 bytes, got -3 of 2 bytes each"},
      {{8, 0, 0, 15}, true, NULL},
      {{0, 0, -1, 0}, true, "a store: expected coordinates that are not negative, got -1 in dimension 2"},
      {{-8, 0, 0, 0}, true, "a store: expected coordinates that are not negative, got -8 in dimension 0"},
  };
  for (size_t k = 0; k < sizeof starts / sizeof *starts; k++) {
    const char *why = emu_box_start_refused(&t, starts[k].at, starts[k].store), *wanted = starts[k].words;
    if (!ok(wanted ? why && strcmp(why, wanted) == 0 : !why, "%s", wanted ? wanted : "a start that may be") && why) diag("%s", why);
  }
  const uint16_t far[] = {255, 256}, near[] = {255, 255};
  const char *why = emu_box_offsets_refused(&i, far);
  ok(why && strcmp(why, "expected an offset 1 of 0 to 255, for 4 dimensions, got 256") == 0 && !emu_box_offsets_refused(&i, near), "refused: %s", why);
  const cuuint32_t huge[4] = {256, 256, 256, 256};
  cuTensorMapEncodeTiled(&tiled, CU_TENSOR_MAP_DATA_TYPE_FLOAT64, 4, memory, dims, strides, huge, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
                         CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  ok(emu_tensor_map_read(&tiled, &t) == NULL && emu_box_refused(&t, 4, 0, 0), "a box of 32 GB is too large");
}

/* By hand, so that both sides of the comparisons above cannot be wrong in the same way. */
static void test_by_hand(void) {
  static const int chunk_of[8][4] = {/* where chunk 5 of the 128-byte rows 0 to 7 lies: no swizzle, 32, 64, 128 bytes */
                                     {5, 5, 5, 5}, {5, 4, 4, 4}, {5, 5, 7, 7}, {5, 4, 6, 6}, {5, 5, 5, 1}, {5, 4, 4, 0}, {5, 5, 7, 3}, {5, 4, 6, 2}};
  int right = 0;
  for (int row = 0; row < 8; row++)
    for (int swizzle = 0; swizzle < 4; swizzle++)
      right += emu_swizzle(swizzle, 4096 + (uint32_t)row * 128 + 5 * 16 + 3) == 4096 + (uint32_t)row * 128 + (uint32_t)chunk_of[row][swizzle] * 16 + 3;
  ok(right == 32, "a chunk's place under the four swizzles");
  /* A picture of 3 x 3 pixels of 8 halves, 3 x 3 windows with padding 1: the first four windows' upper left taps are outside, outside, outside; then (0, -1). */
  const windows p = {.dims = 2,
                     .C = 8,
                     .N = 1,
                     .channels = 8,
                     .size = {3, 3, 1},
                     .filter = {3, 3, 1},
                     .stride = {1, 1, 1},
                     .dilation = {1, 1, 1},
                     .before = {1, 1},
                     .after = {1, 1}};
  static const int from[9] = {-1, -1, -1, -1, 0, 1, -1, 3, 4}; /* of the nine windows: which pixel the tap (0, 0) is */
  int same = im2col_box(&p, (int[3]){0, 0, 0}, 0, 9, 0, 0);
  for (int i = 0; i < 9; i++) same += found[16 * i] == (from[i] < 0 ? OUTSIDE : 16 * from[i]);
  ok(same == 10, "the upper left taps of nine windows");
}

int main(void) {
  static const windows known[] = {
      {"3x3, padding 1", 2, 64, 2, 64, 3, {14, 10, 1}, {3, 3, 1}, {1, 1, 1}, {1, 1, 1}, {1, 1}, {1, 1}},
      {"5 wide, 3 high, stride 2, four different pads", 2, 64, 3, 64, 3, {13, 11, 1}, {5, 3, 1}, {2, 2, 1}, {1, 1, 1}, {1, 2}, {3, 0}},
      {"dilation 2", 2, 64, 2, 64, 3, {12, 12, 1}, {3, 3, 1}, {1, 1, 1}, {2, 2, 1}, {2, 2}, {2, 2}},
      {"7x7, stride 2", 2, 8, 2, 8, 0, {28, 28, 1}, {7, 7, 1}, {2, 2, 1}, {1, 1, 1}, {3, 3}, {3, 3}},
      {"72 channels, 64 at a time", 2, 72, 2, 64, 3, {9, 9, 1}, {3, 3, 1}, {1, 1, 1}, {1, 1, 1}, {1, 1}, {1, 1}},
      {"32 channels, swizzle of 64 bytes", 2, 32, 2, 32, 2, {9, 9, 1}, {3, 3, 1}, {1, 1, 1}, {1, 1, 1}, {1, 1}, {1, 1}},
      {"16 channels, swizzle of 32 bytes", 2, 16, 2, 16, 1, {9, 9, 1}, {3, 3, 1}, {1, 1, 1}, {1, 1, 1}, {1, 1}, {1, 1}},
      {"1x1, stride 2", 2, 64, 4, 64, 3, {15, 15, 1}, {1, 1, 1}, {2, 2, 1}, {1, 1, 1}, {0, 0}, {0, 0}},
  };
  test_by_hand();
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) test_windows(&known[i]);
  int tiles = 0, columns = 0;
  for (int i = 0; i < CASES; i++) tiles += random_tile(false);
  ok(tiles == CASES, "tiled: %d of %d random boxes of 1 to 5 dimensions", tiles, CASES);
  int stored = 0;
  for (int i = 0; i < CASES; i++) stored += random_tile(true);
  ok(stored == CASES, "stored: %d of %d random boxes of 1 to 5 dimensions", stored, CASES);
  for (int i = 0; i < CASES; i++) columns += random_windows();
  ok(columns == CASES, "im2col: %d of %d random boxes of 3 to 5 dimensions", columns, CASES);
  test_refusals();
  return done_testing();
}
