/* Every stride-th pixel as an image of its own: what a tap of a strided convolution reads, or a residue class of its gradient writes. From 06u, for 06v, too. */
#pragma once
#include "06_tensorcore_fp16/maps.h"

enum { MOST_PLANES = 4, MOST_TAPS = 32 };
typedef struct plane_maps {
  CUtensorMap of[MOST_PLANES]; /* [row residue][column residue] */
} plane_maps;

/* A tensor [images][height][width][channels] in fp16, of which each plane has every stride-th row and column. */
typedef struct plane_tensor {
  int channels, width, height, images, stride_w, stride_h;
} plane_tensor;

/* Bytes before the first of plane (a, b). */
static inline int64_t plane_begin(const plane_tensor *t, int a, int b) { return 2 * ((int64_t)a * t->width + b) * t->channels; }

/* A map of `dims` dimensions, innermost first, in halves, that lie stride[] bytes apart, for boxes of so many; NULL or why not. */
static inline const char *map_apart(conv_plan *plan, CUtensorMap *map, const char *what, int dims, const cuuint64_t *size, const cuuint64_t *stride,
                                    const cuuint32_t *box) {
  const auto encode = driver_function<decltype(cuTensorMapEncodeTiled)>("cuTensorMapEncodeTiled");
  if (encode == NULL || map_replace() == NULL) return "the driver has no tensor maps";
  const cuuint32_t step[5] = {1, 1, 1, 1, 1};
  const CUresult status = encode(map, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, (cuuint32_t)dims, no_address, size, stride, box, step, CU_TENSOR_MAP_INTERLEAVE_NONE,
                                 CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  return status == CUDA_SUCCESS ? NULL : map_refused(plan, what, status);
}

/* Maps of all planes, for boxes of 64 channels; NULL or why not. */
static inline const char *map_planes(conv_plan *plan, plane_maps *maps, const char *what, const plane_tensor *t, int columns, int rows, int images) {
  const cuuint64_t pixel = 2 * (cuuint64_t)t->channels, row = pixel * t->width;
  const cuuint64_t stride[3] = {pixel * t->stride_w, row * t->stride_h, row * t->height}; /* bytes */
  const cuuint32_t box[4] = {64, (cuuint32_t)columns, (cuuint32_t)rows, (cuuint32_t)images};
  for (int a = 0; a < t->stride_h; a++)
    for (int b = 0; b < t->stride_w; b++) {
      const cuuint64_t size[4] = {(cuuint64_t)t->channels, (cuuint64_t)((t->width - b + t->stride_w - 1) / t->stride_w),
                                  (cuuint64_t)((t->height - a + t->stride_h - 1) / t->stride_h), (cuuint64_t)t->images};
      const char *why = map_apart(plan, &maps->of[a * t->stride_w + b], what, 4, size, stride, box);
      if (why) return why;
    }
  return NULL;
}

/* The maps for the tensor at this address. */
static inline cudaError_t planes_at(plane_maps *maps, const plane_maps *planned, const plane_tensor *t, void *address) {
  for (int a = 0; a < t->stride_h; a++)
    for (int b = 0; b < t->stride_w; b++) {
      const int i = a * t->stride_w + b;
      const cudaError_t status = map_at(&maps->of[i], &planned->of[i], (char *)address + plane_begin(t, a, b));
      if (status) return status;
    }
  return cudaSuccess;
}

/* Taps of an axis: tap r of a window is row `off` from the window's number on, of plane `residue`. In dgrad, with the windows' roles exchanged, the plane is the
 * result's, and some taps may be no one's. */
typedef struct tap_place {
  int residue, off;
} tap_place;

static inline tap_place tap_of(int r, int stride, int pad, int dil, bool dgrad) {
  const int at = dgrad ? pad - r * dil : r * dil - pad, residue = (dgrad ? stride - (at % stride + stride) % stride : at % stride + stride) % stride;
  return {residue, (dgrad ? at + residue : at - residue) / stride};
}

/* The lowest and the highest `off` of all taps. */
typedef struct tap_range {
  int low, high;
} tap_range;

static inline tap_range range_of(int taps, int stride, int pad, int dil, bool dgrad) {
  tap_range range = {INT_MAX, INT_MIN};
  for (int r = 0; r < taps; r++) {
    const int off = tap_of(r, stride, pad, dil, dgrad).off;
    if (off < range.low) range.low = off;
    if (off > range.high) range.high = off;
  }
  return range;
}

/* How many columns (rows) a halo tile has for `count` outputs, in a plane that has `size`. The zeros to the right of a row may be those to the left of the next, which
 * follow in shared memory; behind the last row there must be zeros. */
static inline int halo_of(tap_range range, int count, int size) {
  const int own = count + range.high - range.low;
  int common = count + range.high;                          /* what lies right of that is no more than zeros to the left */
  if (common < size - range.low) common = size - range.low; /* all that is no zero */
  if (common < count) common = count;
  return own < common ? own : common;
}
