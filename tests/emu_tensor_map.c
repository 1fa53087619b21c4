/* Tensor maps: every limit that cuda.h documents, by one violation each and the nearest value that is allowed. (Boxes: emu_box.c.) */
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/emu/run/tensor_map.h"
#include "tests/tap.h"

enum { NOTHING, DIM, STRIDES, BOX, STEPS, LOWER, UPPER };

/* The arguments of both functions as numbers, so that a row of a table can change any of them. */
typedef struct arguments {
  int64_t im2col, map /* bytes past a right one; -1: NULL */, type, rank, address, dim[5], strides[4], box[5], steps[5], lower[3], upper[3], channels, pixels;
  int64_t interleave, swizzle, promotion, fill, null /* this array is NULL */;
} arguments;

enum { TILED5, TILED1, HALF, INTEGER, SPAN32, SPAN64, SPAN128, IM2COL3, IM2COL4, IM2COL5, IM2COL_SPAN };
#define TENSOR_5D(of, n) \
  .type = CU_TENSOR_MAP_DATA_TYPE_##of, .rank = n, .address = 4096, .dim = {64, 56, 40, 8, 4}, .strides = {64, 3584, 143360, 1146880}, .steps = {1, 1, 1, 1, 1}
#define TILE(of) TENSOR_5D(of, 5), .box = {64, 8, 4, 2, 1}
#define PIXELS(n) TENSOR_5D(UINT8, n), .im2col = 1, .channels = 16, .pixels = 128
static const arguments bases[] = {
    [TILED5] = {TILE(UINT8)},
    [TILED1] = {.type = CU_TENSOR_MAP_DATA_TYPE_UINT8, .rank = 1, .address = 4096, .dim = {64}, .box = {16}, .steps = {1}},
    [HALF] = {TILE(FLOAT16), .fill = 1},
    [INTEGER] = {TILE(INT32)},
    [SPAN32] = {TENSOR_5D(UINT8, 5), .box = {32, 1, 1, 1, 1}, .swizzle = CU_TENSOR_MAP_SWIZZLE_32B},
    [SPAN64] = {TILE(UINT8), .swizzle = CU_TENSOR_MAP_SWIZZLE_64B},
    [SPAN128] = {TILE(UINT8), .swizzle = CU_TENSOR_MAP_SWIZZLE_128B},
    [IM2COL3] = {PIXELS(3)},
    [IM2COL4] = {PIXELS(4), .lower = {-1, -1}, .upper = {-1, -1}},
    [IM2COL5] = {PIXELS(5)},
    [IM2COL_SPAN] = {PIXELS(4), .swizzle = CU_TENSOR_MAP_SWIZZLE_64B},
};

/* With `field` at `bad` the base is refused with these words, at `good` it is not. */
#define F(field) #field, offsetof(arguments, field)
typedef struct limit {
  int base;
  const char *name;
  size_t field;
  int64_t bad, good;
  const char *words;
} limit;
static const limit limits[] = {
    {TILED5, F(map), -1, 0, "tensorMap: expected an address, got NULL"},
    {TILED5, F(map), 32, 64, "tensorMap: expected an address that is a multiple of 64, got "},
    {TILED5, F(type), -1, 0, "tensorDataType: expected 0 to 15, got -1"},
    {TILED5, F(type), 16, 12, "tensorDataType: expected 0 to 15, got 16"},
    {TILED5, F(rank), 0, 1, "tensorRank: expected 1 to 5, got 0"},
    {TILED5, F(rank), 6, 5, "tensorRank: expected 1 to 5, got 6"},
    {TILED5, F(address), 0, 16, "globalAddress: expected an address, got NULL"},
    {TILED5, F(address), 4104, 4112, "globalAddress: expected an address that is a multiple of 16, got 0x1008"},
    {TILED5, F(null), DIM, NOTHING, "globalDim: expected an address, got NULL"},
    {TILED5, F(dim[0]), 0, 1, "globalDim[0]: expected 1 to 4294967296, got 0"},
    {TILED5, F(dim[4]), 0, 1, "globalDim[4]: expected 1 to 4294967296, got 0"},
    {TILED5, F(dim[0]), (1ll << 32) + 1, 1ll << 32, "globalDim[0]: expected 1 to 4294967296, got 4294967297"},
    {TILED5, F(dim[4]), (1ll << 32) + 1, 1ll << 32, "globalDim[4]: expected 1 to 4294967296, got 4294967297"},
    {TILED5, F(null), STRIDES, NOTHING, "globalStrides: expected an address, got NULL"},
    {TILED5, F(strides[0]), 72, 80, "globalStrides[0]: expected a multiple of 16 below 2^40, got 72"},
    {TILED5, F(strides[3]), 1ll << 40, (1ll << 40) - 16, "globalStrides[3]: expected a multiple of 16 below 2^40, got 1099511627776"},
    {TILED5, F(null), BOX, NOTHING, "boxDim: expected an address, got NULL"},
    {TILED5, F(box[0]), 0, 16, "boxDim[0]: expected 1 to 256, got 0"},
    {TILED5, F(box[4]), 0, 1, "boxDim[4]: expected 1 to 256, got 0"},
    {TILED5, F(box[0]), 257, 256, "boxDim[0]: expected 1 to 256, got 257"},
    {TILED5, F(box[4]), 257, 256, "boxDim[4]: expected 1 to 256, got 257"},
    {TILED5, F(box[0]), 8, 16, "boxDim[0] in bytes: expected a multiple of 16, got 8"},
    {HALF, F(box[0]), 20, 24, "boxDim[0] in bytes: expected a multiple of 16, got 40"},
    {SPAN32, F(box[0]), 48, 32, "boxDim[0] in bytes: expected 16 to 32, got 48"},
    {SPAN64, F(box[0]), 80, 64, "boxDim[0] in bytes: expected 16 to 64, got 80"},
    {SPAN128, F(box[0]), 144, 128, "boxDim[0] in bytes: expected 16 to 128, got 144"},
    {TILED5, F(null), STEPS, NOTHING, "elementStrides: expected an address, got NULL"},
    {TILED5, F(steps[1]), 0, 1, "elementStrides[1]: expected 1 to 8, got 0"},
    {TILED5, F(steps[4]), 9, 8, "elementStrides[4]: expected 1 to 8, got 9"},
    {TILED5, F(interleave), 3, 0, "interleave: expected 0 to 2, got 3"},
    {TILED5, F(interleave), -1, 0, "interleave: expected 0 to 2, got -1"},
    {TILED5, F(swizzle), 7, 2, "swizzle: expected 0 to 6, got 7"},
    {TILED5, F(swizzle), -1, 3, "swizzle: expected 0 to 6, got -1"},
    {TILED5, F(promotion), 4, 3, "l2Promotion: expected 0 to 3, got 4"},
    {TILED5, F(promotion), -1, 0, "l2Promotion: expected 0 to 3, got -1"},
    {HALF, F(fill), 2, 1, "oobFill: expected 0 to 1, got 2"},
    {HALF, F(fill), -1, 0, "oobFill: expected 0 to 1, got -1"},
    {INTEGER, F(fill), 1, 0, "oobFill: expected no NaN for a type that is no floating-point type, got 1"},

    {IM2COL4, F(map), -1, 0, "tensorMap: expected an address, got NULL"},
    {IM2COL4, F(map), 32, 64, "tensorMap: expected an address that is a multiple of 64, got "},
    {IM2COL4, F(type), 16, 12, "tensorDataType: expected 0 to 15, got 16"},
    {IM2COL4, F(rank), 2, 3, "tensorRank: expected 3 to 5, got 2"},
    {IM2COL4, F(rank), 6, 5, "tensorRank: expected 3 to 5, got 6"},
    {IM2COL4, F(address), 0, 16, "globalAddress: expected an address, got NULL"},
    {IM2COL4, F(address), 4104, 4112, "globalAddress: expected an address that is a multiple of 16, got 0x1008"},
    {IM2COL4, F(null), DIM, NOTHING, "globalDim: expected an address, got NULL"},
    {IM2COL4, F(dim[3]), 0, 1, "globalDim[3]: expected 1 to 4294967296, got 0"},
    {IM2COL4, F(dim[3]), (1ll << 32) + 1, 1ll << 32, "globalDim[3]: expected 1 to 4294967296, got 4294967297"},
    {IM2COL4, F(null), STRIDES, NOTHING, "globalStrides: expected an address, got NULL"},
    {IM2COL4, F(strides[2]), 1ll << 40, (1ll << 40) - 16, "globalStrides[2]: expected a multiple of 16 below 2^40, got 1099511627776"},
    {IM2COL4, F(strides[1]), 3592, 3600, "globalStrides[1]: expected a multiple of 16 below 2^40, got 3592"},
    {IM2COL4, F(null), LOWER, NOTHING, "pixelBoxLowerCorner: expected an address, got NULL"},
    {IM2COL4, F(null), UPPER, NOTHING, "pixelBoxUpperCorner: expected an address, got NULL"},
    {IM2COL3, F(lower[0]), -32769, -32768, "pixelBoxLowerCorner[0]: expected -32768 to 32767, got -32769"},
    {IM2COL3, F(upper[0]), 32768, 32767, "pixelBoxUpperCorner[0]: expected -32768 to 32767, got 32768"},
    {IM2COL4, F(lower[0]), -129, -128, "pixelBoxLowerCorner[0]: expected -128 to 127, got -129"},
    {IM2COL4, F(lower[1]), -129, -128, "pixelBoxLowerCorner[1]: expected -128 to 127, got -129"},
    {IM2COL4, F(upper[0]), 128, 127, "pixelBoxUpperCorner[0]: expected -128 to 127, got 128"},
    {IM2COL4, F(upper[1]), 128, 127, "pixelBoxUpperCorner[1]: expected -128 to 127, got 128"},
    {IM2COL5, F(lower[0]), -17, -16, "pixelBoxLowerCorner[0]: expected -16 to 15, got -17"},
    {IM2COL5, F(lower[2]), -17, -16, "pixelBoxLowerCorner[2]: expected -16 to 15, got -17"},
    {IM2COL5, F(upper[2]), 16, 15, "pixelBoxUpperCorner[2]: expected -16 to 15, got 16"},
    {IM2COL4, F(upper[0]), -57, -56, "pixelBoxUpperCorner[0]: expected a box of window bases that is not empty, got -1 to -2"},
    {IM2COL4, F(upper[1]), -41, -40, "pixelBoxUpperCorner[1]: expected a box of window bases that is not empty, got -1 to -2"},
    {IM2COL4, F(channels), 0, 16, "channelsPerPixel: expected 1 to 256, got 0"},
    {IM2COL4, F(channels), 257, 256, "channelsPerPixel: expected 1 to 256, got 257"},
    {IM2COL4, F(channels), 24, 32, "channelsPerPixel in bytes: expected a multiple of 16, got 24"},
    {IM2COL_SPAN, F(channels), 80, 64, "channelsPerPixel in bytes: expected 16 to 64, got 80"},
    {IM2COL4, F(pixels), 0, 1, "pixelsPerColumn: expected 1 to 1024, got 0"},
    {IM2COL4, F(pixels), 1025, 1024, "pixelsPerColumn: expected 1 to 1024, got 1025"},
    {IM2COL4, F(null), STEPS, NOTHING, "elementStrides: expected an address, got NULL"},
    {IM2COL4, F(steps[1]), 0, 1, "elementStrides[1]: expected 1 to 8, got 0"},
    {IM2COL4, F(steps[2]), 9, 8, "elementStrides[2]: expected 1 to 8, got 9"},
    {IM2COL4, F(interleave), 3, 0, "interleave: expected 0 to 2, got 3"},
    {IM2COL4, F(swizzle), 7, 1, "swizzle: expected 0 to 6, got 7"},
    {IM2COL4, F(promotion), 4, 3, "l2Promotion: expected 0 to 3, got 4"},
    {IM2COL4, F(fill), 2, 0, "oobFill: expected 0 to 1, got 2"},
    {IM2COL4, F(fill), 1, 0, "oobFill: expected no NaN for a type that is no floating-point type, got 1"},
};

static _Alignas(128) unsigned char room[256];

static CUresult encode(const arguments *a) {
  cuuint64_t dim[5], strides[4];
  cuuint32_t box[5], steps[5];
  int lower[3], upper[3];
  for (int i = 0; i < 5; i++) dim[i] = (cuuint64_t)a->dim[i], box[i] = (cuuint32_t)a->box[i], steps[i] = (cuuint32_t)a->steps[i];
  for (int i = 0; i < 4; i++) strides[i] = (cuuint64_t)a->strides[i];
  for (int i = 0; i < 3; i++) lower[i] = (int)a->lower[i], upper[i] = (int)a->upper[i];
  CUtensorMap *map = a->map < 0 ? NULL : (CUtensorMap *)(void *)(room + a->map);
#define UNLESS(which, array) (a->null == which ? NULL : array)
#define MODES (CUtensorMapInterleave) a->interleave, (CUtensorMapSwizzle)a->swizzle, (CUtensorMapL2promotion)a->promotion, (CUtensorMapFloatOOBfill)a->fill
#define TENSOR map, (CUtensorMapDataType)a->type, (cuuint32_t)a->rank, (void *)(intptr_t)a->address, UNLESS(DIM, dim), UNLESS(STRIDES, strides)
  if (!a->im2col) return cuTensorMapEncodeTiled(TENSOR, UNLESS(BOX, box), UNLESS(STEPS, steps), MODES);
  return cuTensorMapEncodeIm2col(TENSOR, UNLESS(LOWER, lower), UNLESS(UPPER, upper), (cuuint32_t)a->channels, (cuuint32_t)a->pixels, UNLESS(STEPS, steps),
                                 MODES);
}

/* What is said on stderr between the two. */
static FILE *heard;
static int messages;
static void listen_begin(void) {
  heard = tmpfile();
  fflush(stderr);
  messages = dup(2);
  dup2(fileno(heard), 2);
}
static void listen_end(char said[512]) {
  fflush(stderr);
  dup2(messages, 2);
  close(messages);
  rewind(heard);
  said[fread(said, 1, 511, heard)] = 0;
  fclose(heard);
}
static CUresult encode_and_listen(const arguments *a, char said[512]) {
  listen_begin();
  const CUresult result = encode(a);
  listen_end(said);
  return result;
}

static void test_limits(void) {
  for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
    const limit *l = &limits[i];
    char line[512], said[512];
    arguments a = bases[l->base];
    snprintf(line, sizeof line, "cuTensorMapEncode%s: %s", a.im2col ? "Im2col" : "Tiled", l->words);
    memcpy((char *)&a + l->field, &l->bad, sizeof l->bad);
    const CUresult bad = encode_and_listen(&a, said);
    const char *end = strchr(said, '\n');
    const int one_line = end != NULL && end[1] == 0 && strncmp(said, line, strlen(line)) == 0;
    memcpy((char *)&a + l->field, &l->good, sizeof l->good);
    const CUresult good = encode(&a);
    if (!ok(bad == CUDA_ERROR_INVALID_VALUE && one_line && good == CUDA_SUCCESS, "%s; %s = %lld is allowed", line, l->name, (long long)l->good))
      diag("returned %d and %d, said %s", (int)bad, (int)good, said);
  }
}

/* Documented, but of another GPU than this, or not built. */
static void test_not_supported(void) {
  static const struct {
    const char *name;
    size_t field;
    int64_t first, last;
  } rows[] = {{F(type), 13, 15}, {F(swizzle), 4, 6}, {F(interleave), 1, 2}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    for (int64_t value = rows[i].first; value <= rows[i].last; value++)
      for (int base = TILED5; base <= IM2COL4; base += IM2COL4 - TILED5) {
        char said[512];
        arguments a = bases[base];
        memcpy((char *)&a + rows[i].field, &value, sizeof value);
        const CUresult result = encode_and_listen(&a, said);
        ok(result == CUDA_ERROR_NOT_SUPPORTED && strstr(said, "not supported by the emulator\n"), "%s %d: %.*s", rows[i].name, (int)value,
           (int)strcspn(said, "\n"), said);
      }
}

static void test_read(void) {
  emu_tensor_map m;
  CUtensorMap *map = (CUtensorMap *)(void *)room;
  arguments a = bases[HALF];
  a.steps[0] = 8;
  a.steps[2] = 2;
  encode(&a);
  map->opaque[1] &= ~(UINT64_C(1) << 21); /* what programs do to the maps of some drivers */
  ok(emu_tensor_map_read(map, &m) == NULL && !m.im2col && m.dims == 5 && m.element_bytes == 2 && m.base == (unsigned char *)4096 && m.size[4] == 4 &&
         m.stride[0] == 2 && m.stride[4] == 1146880 && m.box[1] == 8 && m.element_stride[0] == 1 && m.element_stride[2] == 2 && m.fill == EMU_FILL_NAN,
     "a tiled map is read as it was encoded; the innermost element stride is ignored");
  ok(cuTensorMapReplaceAddress(map, (void *)8192) == CUDA_SUCCESS && emu_tensor_map_read(map, &m) == NULL && m.base == (unsigned char *)8192,
     "another address");
  static const struct {
    int map;
    intptr_t address;
    const char *words;
  } wrong[] = {{0, 8200, "globalAddress: expected an address that is a multiple of 16, got 0x2008"},
               {0, 0, "globalAddress: expected an address, got NULL"},
               {32, 8192, "tensorMap: expected an address that is a multiple of 64, got "},
               {128, 8192, "tensorMap: expected a map that was encoded"}};
  for (int i = 0; i < 4; i++) {
    char said[512];
    listen_begin();
    const CUresult result = cuTensorMapReplaceAddress((CUtensorMap *)(void *)(room + wrong[i].map), (void *)wrong[i].address);
    listen_end(said);
    ok(result == CUDA_ERROR_INVALID_VALUE && strstr(said, wrong[i].words), "cuTensorMapReplaceAddress: %s", wrong[i].words);
  }
  a = bases[IM2COL4];
  a.dim[1] = 1ll << 32;
  encode(&a);
  ok(emu_tensor_map_read(map, &m) == NULL && m.im2col && m.dims == 4 && m.lower[1] == -1 && m.upper[0] == -1 && m.channels == 16 && m.pixels == 128 &&
         m.size[1] == UINT64_C(1) << 32 && m.fill == EMU_FILL_ZEROS,
     "an im2col map, too");
  ok(emu_tensor_map_read(room + 32, &m) != NULL, "not read: %s", emu_tensor_map_read(room + 32, &m));
  ok(emu_tensor_map_read(NULL, &m) != NULL, "not read: %s", emu_tensor_map_read(NULL, &m));
  memset(map, 0, sizeof *map);
  ok(emu_tensor_map_read(map, &m) != NULL, "not read: %s", emu_tensor_map_read(map, &m));
}

static void test_names(void) {
  static const char *const names[] = {"cuTensorMapEncodeTiled", "cuTensorMapEncodeIm2col", "cuTensorMapReplaceAddress"};
  void (*const functions[])(void) = {(void (*)(void))cuTensorMapEncodeTiled, (void (*)(void))cuTensorMapEncodeIm2col,
                                     (void (*)(void))cuTensorMapReplaceAddress};
  cudaDriverEntryPointQueryResult status;
  void *f;
  for (int i = 0; i < 3; i++)
    ok(cudaGetDriverEntryPointByVersion(names[i], &f, 12000, cudaEnableDefault, &status) == cudaSuccess && status == cudaDriverEntryPointSuccess &&
           memcmp(&f, &functions[i], sizeof f) == 0 && cudaGetDriverEntryPoint(names[i], &f, cudaEnableDefault, NULL) == cudaSuccess &&
           memcmp(&f, &functions[i], sizeof f) == 0,
       "%s is found by its name", names[i]);
  ok(cudaGetDriverEntryPointByVersion(names[0], &f, 11080, cudaEnableDefault, &status) == cudaSuccess && f == NULL &&
         status == cudaDriverEntryPointVersionNotSufficent,
     "not in CUDA 11.8");
  ok(cudaGetDriverEntryPointByVersion("cuTensorMap", &f, 12000, cudaEnableDefault, &status) == cudaSuccess && f == NULL &&
         status == cudaDriverEntryPointSymbolNotFound,
     "another name is not found");
  ok(cudaGetDriverEntryPointByVersion(names[0], NULL, 12000, cudaEnableDefault, &status) == cudaErrorInvalidValue &&
         cudaGetDriverEntryPointByVersion(names[0], &f, 12000, 3, &status) == cudaErrorInvalidValue,
     "no place for the function, and flags that do not exist, are refused");
  const char *text;
  ok(cuGetErrorName(CUDA_ERROR_INVALID_VALUE, &text) == CUDA_SUCCESS && strcmp(text, "CUDA_ERROR_INVALID_VALUE") == 0 &&
         cuGetErrorString(CUDA_ERROR_INVALID_VALUE, &text) == CUDA_SUCCESS && strcmp(text, "invalid argument") == 0 &&
         cuGetErrorName((CUresult)12345, &text) == CUDA_ERROR_INVALID_VALUE && text == NULL,
     "errors have names");
}

int main(void) {
  arguments one = bases[TILED1];
  one.null = STRIDES;
  ok(encode(&one) == CUDA_SUCCESS, "one dimension needs no strides");
  for (int i = 0; i <= IM2COL_SPAN; i++) ok(encode(&bases[i]) == CUDA_SUCCESS, "base %d of the table is allowed", i);
  test_limits();
  test_not_supported();
  test_read();
  test_names();
  return done_testing();
}
