/* cuTensorMapEncodeTiled and its like: every limit that cuda.h documents is checked, for a map that a GPU's driver would refuse must not work here.
 * What is refused is named on stderr. Needs nothing of the emulator's runtime: tools use it as it is, on any machine. */
#include "common/emu/run/tensor_map.h"

#include <cuda.h>
#include <stdio.h>
#include <string.h>

/* What a CUtensorMap holds here. The second word stays empty: of real maps, programs clear a bit there for drivers that set it wrongly. */
typedef struct encoded {
  uint64_t magic, empty;
  uint64_t base, stride[EMU_TENSOR_DIMS - 1];
  uint32_t last[EMU_TENSOR_DIMS]; /* size - 1 */
  uint16_t box[EMU_TENSOR_DIMS], channels, pixels;
  int16_t lower[3], upper[3];
  uint8_t im2col, dims, type, interleave, swizzle, fill, element_stride[EMU_TENSOR_DIMS];
} encoded;
_Static_assert(sizeof(encoded) <= sizeof(CUtensorMap), "a map has 128 bytes");
static const uint64_t magic = 0x70616d2072736e74;

enum { TYPES = CU_TENSOR_MAP_DATA_TYPE_TFLOAT32_FTZ + 1, MAP_ALIGN = 64, ADDRESS_ALIGN = 16, MAX_BOX = 256, MAX_PIXELS = 1024, MAX_ELEMENT_STRIDE = 8 };
static const struct {
  int bytes;
  bool floating;
} types[TYPES] = {
    [CU_TENSOR_MAP_DATA_TYPE_UINT8] = {1, false},       [CU_TENSOR_MAP_DATA_TYPE_UINT16] = {2, false},     [CU_TENSOR_MAP_DATA_TYPE_UINT32] = {4, false},
    [CU_TENSOR_MAP_DATA_TYPE_INT32] = {4, false},       [CU_TENSOR_MAP_DATA_TYPE_UINT64] = {8, false},     [CU_TENSOR_MAP_DATA_TYPE_INT64] = {8, false},
    [CU_TENSOR_MAP_DATA_TYPE_FLOAT16] = {2, true},      [CU_TENSOR_MAP_DATA_TYPE_FLOAT32] = {4, true},     [CU_TENSOR_MAP_DATA_TYPE_FLOAT64] = {8, true},
    [CU_TENSOR_MAP_DATA_TYPE_BFLOAT16] = {2, true},     [CU_TENSOR_MAP_DATA_TYPE_FLOAT32_FTZ] = {4, true}, [CU_TENSOR_MAP_DATA_TYPE_TFLOAT32] = {4, true},
    [CU_TENSOR_MAP_DATA_TYPE_TFLOAT32_FTZ] = {4, true},
};
/* im2col: what a corner's coordinate may be, by dimensions. */
static const struct { int low, high; } corner_range[EMU_TENSOR_DIMS + 1] = {[3] = {-32768, 32767}, [4] = {-128, 127}, [5] = {-16, 15}};

/* The arguments of either function. */
typedef struct request {
  const char *function;
  bool im2col;
  CUtensorMap *map;
  int type, rank;
  void *address;
  const cuuint64_t *dim, *strides;
  const cuuint32_t *box, *element_strides;
  const int *lower, *upper;
  int64_t channels, pixels;
  int interleave, swizzle, promotion, fill;
} request;

static bool is(bool right, const request *r, const char *what, const char *expected, long long got) {
  if (!right) fprintf(stderr, "%s: %s: expected %s, got %lld\n", r->function, what, expected, got);
  return right;
}
static bool in_range(const request *r, const char *what, long long got, long long low, long long high) {
  const bool right = got >= low && got <= high;
  if (!right) fprintf(stderr, "%s: %s: expected %lld to %lld, got %lld\n", r->function, what, low, high, got);
  return right;
}
static bool is_there(const request *r, const char *what, const void *pointer) {
  if (pointer == NULL) fprintf(stderr, "%s: %s: expected an address, got NULL\n", r->function, what);
  return pointer != NULL;
}
static bool is_aligned(const request *r, const char *what, const void *pointer, unsigned to) {
  const bool right = (uintptr_t)pointer % to == 0;
  if (!right) fprintf(stderr, "%s: %s: expected an address that is a multiple of %u, got %p\n", r->function, what, to, pointer);
  return is_there(r, what, pointer) && right;
}
/* what[index] */
static const char *element(char text[32], const char *what, int index) { return snprintf(text, 32, "%s[%d]", what, index), text; }

static bool tensor_is_right(const request *r) {
  char text[32];
  if (!is_aligned(r, "globalAddress", r->address, ADDRESS_ALIGN) || !is_there(r, "globalDim", r->dim)) return false;
  if (r->rank > 1 && !is_there(r, "globalStrides", r->strides)) return false;
  for (int i = 0; i < r->rank; i++)
    if (!is(r->dim[i] >= 1 && r->dim[i] <= UINT64_C(1) << 32, r, element(text, "globalDim", i), "1 to 4294967296", (long long)r->dim[i])) return false;
  /* Strides that let rows overlap are no error: windows that slide are such tensors. */
  for (int i = 0; i < r->rank - 1; i++)
    if (!is(r->strides[i] % 16 == 0 && r->strides[i] < UINT64_C(1) << 40, r, element(text, "globalStrides", i), "a multiple of 16 below 2^40",
            (long long)r->strides[i]))
      return false;
  return true;
}

static bool modes_are_right(const request *r) {
  return in_range(r, "interleave", r->interleave, 0, CU_TENSOR_MAP_INTERLEAVE_32B) &&
         in_range(r, "swizzle", r->swizzle, 0, CU_TENSOR_MAP_SWIZZLE_128B_ATOM_64B) &&
         in_range(r, "l2Promotion", r->promotion, 0, CU_TENSOR_MAP_L2_PROMOTION_L2_256B) &&
         in_range(r, "oobFill", r->fill, 0, CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA) &&
         is(r->fill == 0 || types[r->type].floating, r, "oobFill", "no NaN for a type that is no floating-point type", r->fill);
}

/* The bytes of a row of the box: `what` of them were asked for. */
static bool inner_is_right(const request *r, const char *what, int64_t elements) {
  const long long bytes = elements * types[r->type].bytes;
  char text[64];
  snprintf(text, sizeof text, "%s in bytes", what);
  if (!is(bytes % 16 == 0, r, text, "a multiple of 16", bytes)) return false;
  return r->swizzle == CU_TENSOR_MAP_SWIZZLE_NONE || in_range(r, text, bytes, 16, 16 << r->swizzle);
}

static bool steps_are_right(const request *r) {
  char text[32];
  if (!is_there(r, "elementStrides", r->element_strides)) return false;
  for (int i = 0; i < r->rank; i++)
    if (!in_range(r, element(text, "elementStrides", i), r->element_strides[i], 1, MAX_ELEMENT_STRIDE)) return false;
  return true;
}

static bool tile_is_right(const request *r) {
  char text[32];
  if (!is_there(r, "boxDim", r->box)) return false;
  for (int i = 0; i < r->rank; i++)
    if (!in_range(r, element(text, "boxDim", i), r->box[i], 1, MAX_BOX)) return false;
  return inner_is_right(r, "boxDim[0]", r->box[0]);
}

static bool pixels_are_right(const request *r) {
  char text[32];
  if (!is_there(r, "pixelBoxLowerCorner", r->lower) || !is_there(r, "pixelBoxUpperCorner", r->upper)) return false;
  const int low = corner_range[r->rank].low, high = corner_range[r->rank].high;
  for (int i = 0; i < r->rank - 2; i++)
    if (!in_range(r, element(text, "pixelBoxLowerCorner", i), r->lower[i], low, high) ||
        !in_range(r, element(text, "pixelBoxUpperCorner", i), r->upper[i], low, high))
      return false;
  for (int i = 0; i < r->rank - 2; i++) {
    const long long last = (long long)r->dim[i + 1] - 1 + r->upper[i];
    if (last < r->lower[i]) {
      fprintf(stderr, "%s: pixelBoxUpperCorner[%d]: expected a box of window bases that is not empty, got %d to %lld\n", r->function, i, r->lower[i], last);
      return false;
    }
  }
  return in_range(r, "channelsPerPixel", r->channels, 1, MAX_BOX) && in_range(r, "pixelsPerColumn", r->pixels, 1, MAX_PIXELS) &&
         inner_is_right(r, "channelsPerPixel", r->channels);
}

/* What is documented, but not for the GPU that the emulator is like, or not built here. */
static bool is_supported(const request *r) {
  const char *what = r->type >= TYPES                                 ? "tensorDataType: the packed types, which a GPU of compute capability 9.0 lacks, are"
                     : r->swizzle > CU_TENSOR_MAP_SWIZZLE_128B        ? "swizzle: atoms of 32 or 64 bytes, which a GPU of compute capability 9.0 lacks, are"
                     : r->interleave != CU_TENSOR_MAP_INTERLEAVE_NONE ? "interleave: other layouts than CU_TENSOR_MAP_INTERLEAVE_NONE are"
                                                                      : NULL;
  if (what != NULL) fprintf(stderr, "%s: %s not supported by the emulator\n", r->function, what);
  return what == NULL;
}

static void store(const request *r) {
  encoded e = {.magic = magic,
               .base = (uintptr_t)r->address,
               .channels = (uint16_t)r->channels,
               .pixels = (uint16_t)r->pixels,
               .im2col = r->im2col,
               .dims = (uint8_t)r->rank,
               .type = (uint8_t)r->type,
               .interleave = (uint8_t)r->interleave,
               .swizzle = (uint8_t)r->swizzle,
               .fill = (uint8_t)r->fill};
  for (int i = 0; i < r->rank; i++) {
    e.last[i] = (uint32_t)(r->dim[i] - 1);
    e.element_stride[i] = i == 0 ? 1 : (uint8_t)r->element_strides[i]; /* the innermost one's is ignored, as documented */
    if (i > 0) e.stride[i - 1] = r->strides[i - 1];
    if (!r->im2col) e.box[i] = (uint16_t)r->box[i];
  }
  for (int i = 0; r->im2col && i < r->rank - 2; i++) {
    e.lower[i] = (int16_t)r->lower[i];
    e.upper[i] = (int16_t)r->upper[i];
  }
  memset(r->map, 0, sizeof *r->map);
  memcpy(r->map, &e, sizeof e);
}

static CUresult encode(const request *r) {
  if (!is_aligned(r, "tensorMap", r->map, MAP_ALIGN) || !in_range(r, "tensorDataType", r->type, 0, CU_TENSOR_MAP_DATA_TYPE_16U6_ALIGN16B) ||
      !in_range(r, "tensorRank", r->rank, r->im2col ? 3 : 1, EMU_TENSOR_DIMS))
    return CUDA_ERROR_INVALID_VALUE;
  if (r->type >= TYPES) return is_supported(r), CUDA_ERROR_NOT_SUPPORTED;
  if (!modes_are_right(r)) return CUDA_ERROR_INVALID_VALUE;
  if (!is_supported(r)) return CUDA_ERROR_NOT_SUPPORTED;
  if (!tensor_is_right(r) || !steps_are_right(r) || !(r->im2col ? pixels_are_right(r) : tile_is_right(r))) return CUDA_ERROR_INVALID_VALUE;
  store(r);
  return CUDA_SUCCESS;
}

CUresult cuTensorMapEncodeTiled(CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank, void *address, const cuuint64_t *dim, const cuuint64_t *strides,
                                const cuuint32_t *box, const cuuint32_t *element_strides, CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill) {
  return encode(&(request){.function = "cuTensorMapEncodeTiled",
                           .map = map,
                           .type = (int)type,
                           .rank = (int)rank,
                           .address = address,
                           .dim = dim,
                           .strides = strides,
                           .box = box,
                           .element_strides = element_strides,
                           .interleave = (int)interleave,
                           .swizzle = (int)swizzle,
                           .promotion = (int)promotion,
                           .fill = (int)fill});
}

CUresult cuTensorMapEncodeIm2col(CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank, void *address, const cuuint64_t *dim, const cuuint64_t *strides,
                                 const int *lower, const int *upper, cuuint32_t channels, cuuint32_t pixels, const cuuint32_t *element_strides,
                                 CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill) {
  return encode(&(request){.function = "cuTensorMapEncodeIm2col",
                           .im2col = true,
                           .map = map,
                           .type = (int)type,
                           .rank = (int)rank,
                           .address = address,
                           .dim = dim,
                           .strides = strides,
                           .lower = lower,
                           .upper = upper,
                           .channels = channels,
                           .pixels = pixels,
                           .element_strides = element_strides,
                           .interleave = (int)interleave,
                           .swizzle = (int)swizzle,
                           .promotion = (int)promotion,
                           .fill = (int)fill});
}

CUresult cuTensorMapReplaceAddress(CUtensorMap *map, void *address) {
  const request r = {.function = "cuTensorMapReplaceAddress"};
  if (!is_aligned(&r, "tensorMap", map, MAP_ALIGN) || !is_aligned(&r, "globalAddress", address, ADDRESS_ALIGN)) return CUDA_ERROR_INVALID_VALUE;
  encoded e;
  memcpy(&e, map, sizeof e);
  if (e.magic != magic) return fprintf(stderr, "%s: tensorMap: expected a map that was encoded\n", r.function), CUDA_ERROR_INVALID_VALUE;
  e.base = (uintptr_t)address;
  memcpy(map, &e, sizeof e);
  return CUDA_SUCCESS;
}

const char *emu_tensor_map_read(const void *map, emu_tensor_map *out) {
  encoded e;
  if (map == NULL) return "the tensor map's address is NULL";
#ifndef __aarch64__ /* where a parameter is passed by value, aligned to 16 bytes whatever its type says */
  if ((uintptr_t)map % MAP_ALIGN != 0) return "the tensor map's address is no multiple of 64";
#endif
  memcpy(&e, map, sizeof e);
  if (e.magic != magic) return "no tensor map: cuTensorMapEncodeTiled or cuTensorMapEncodeIm2col has not written it";
  *out = (emu_tensor_map){.im2col = e.im2col,
                          .dims = e.dims,
                          .element_bytes = types[e.type].bytes,
                          .type = e.type,
                          .base = (unsigned char *)(uintptr_t)e.base,
                          .channels = e.channels,
                          .pixels = e.pixels,
                          .interleave = e.interleave,
                          .swizzle = e.swizzle,
                          .fill = e.fill == CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE ? EMU_FILL_ZEROS : EMU_FILL_NAN};
  for (int i = 0; i < e.dims; i++) {
    out->size[i] = (uint64_t)e.last[i] + 1;
    out->stride[i] = i == 0 ? (uint64_t)out->element_bytes : e.stride[i - 1];
    out->box[i] = e.box[i];
    out->element_stride[i] = e.element_stride[i];
  }
  for (int i = 0; i < 3; i++) {
    out->lower[i] = e.lower[i];
    out->upper[i] = e.upper[i];
  }
  return NULL;
}
