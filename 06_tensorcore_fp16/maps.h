/* Tensor maps: how the copy engine sees x and the filters. Made by plan(), for no address; launch() puts the tensors' addresses in. */
#pragma once
#include <cuda.h>
#include <cuda_runtime.h>
#include <stdio.h>

#include "common/harness/plan.h"

/* The driver's function of this name, found without linking the driver; NULL: it has none. */
template <typename F> static F *driver_function(const char *name) {
  void *found = NULL;
  cudaDriverEntryPointQueryResult result;
  return cudaGetDriverEntryPointByVersion(name, &found, 12000, cudaEnableDefault, &result) == cudaSuccess ? (F *)found : NULL;
}

static inline const char *map_refused(conv_plan *plan, const char *what, CUresult status) {
  snprintf(plan->why_not, sizeof plan->why_not, "the driver refuses a tensor map of %s: error %d", what, (int)status);
  return plan->why_not;
}

/* What puts an address into a map; asked for when the first plan is made. */
static inline decltype(&cuTensorMapReplaceAddress) map_replace(void) {
  static const auto replace = driver_function<decltype(cuTensorMapReplaceAddress)>("cuTensorMapReplaceAddress");
  return replace;
}

/* Any address that a map may have: the tensor's own comes at launch. */
static void *const no_address = (void *)512;

/* A row of 16, 32 or 64 channels is swizzled by as many bytes as it has. */
static inline CUtensorMapSwizzle swizzle_of(int channels) {
  return channels == 16 ? CU_TENSOR_MAP_SWIZZLE_32B : channels == 32 ? CU_TENSOR_MAP_SWIZZLE_64B : CU_TENSOR_MAP_SWIZZLE_128B;
}

/* A box of `channels` of `pixels` of a tensor {C, W, H, N}, im2col: pixels begin every step[1] columns and step[2] rows, from lower[] pixels past the first on to
 * upper[] past the last, run along W, then H, then N. stride: bytes. promotion: what L2 fetches where it has not got what is read. Returns NULL or why not. */
static inline const char *map_pixels(conv_plan *plan, CUtensorMap *map, const char *what, const cuuint64_t *size, const cuuint64_t *stride, const int *lower,
                                     const int *upper, int channels, int pixels, const cuuint32_t *step,
                                     CUtensorMapL2promotion promotion = CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                                     CUtensorMapSwizzle swizzle = CU_TENSOR_MAP_SWIZZLE_128B) {
  const auto encode = driver_function<decltype(cuTensorMapEncodeIm2col)>("cuTensorMapEncodeIm2col");
  if (encode == NULL || map_replace() == NULL) return "the driver has no tensor maps";
  const CUresult status = encode(map, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 4, no_address, size, stride, lower, upper, (cuuint32_t)channels, (cuuint32_t)pixels,
                                 step, CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle, promotion, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (status != CUDA_SUCCESS) return map_refused(plan, what, status);
  int version = 0;
  const cudaError_t asked = cudaDriverGetVersion(&version);
  if (asked) return plan_failed(plan, asked);
  if (version <= 13010 && stride[2] * size[3] < 128 << 10)
    map->opaque[1] &= ~(1ull << 21); /* bit 85, of addresses out of bounds: these drivers set it wrongly for small tensors; CUTLASS clears it as well */
  return NULL;
}

/* Windows of x [N][H][W][C], im2col: `channels` of `pixels` windows, which run along Q, then P, then N. Coordinates: channel, column and row of the window's
 * first pixel, image; offsets: column and row of the tap. What is outside is zero. Returns NULL or why not. */
static inline const char *map_windows(conv_plan *plan, CUtensorMap *map, const conv_problem *p, int channels, int pixels,
                                      CUtensorMapL2promotion promotion = CU_TENSOR_MAP_L2_PROMOTION_L2_256B) {
  const cuuint64_t size[4] = {(cuuint64_t)p->C, (cuuint64_t)p->W, (cuuint64_t)p->H, (cuuint64_t)p->N};
  const cuuint64_t stride[3] = {2 * size[0], 2 * size[0] * size[1], 2 * size[0] * size[1] * size[2]}; /* bytes */
  const cuuint32_t step[4] = {1, (cuuint32_t)p->stride_w, (cuuint32_t)p->stride_h, 1};
  /* The last window begins at upper past the last pixel. */
  const int lower[2] = {-p->pad_left, -p->pad_top};
  const int upper[2] = {(p->Q - 1) * p->stride_w - p->pad_left - (p->W - 1), (p->P - 1) * p->stride_h - p->pad_top - (p->H - 1)};
  for (int d = 0; d < 2; d++)
    if (lower[d] < -128 || upper[d] < -128 || upper[d] > 127) return "windows begin more than 128 pixels outside or end so far inside (tensor maps)";
  if ((p->S - 1) * p->dil_w > 255 || (p->R - 1) * p->dil_h > 255) return "a filter reaches over more than 256 pixels (tensor maps)";
  if (p->stride_w > 8 || p->stride_h > 8) return "a stride above 8 (tensor maps)";
  return map_pixels(plan, map, "x's windows", size, stride, lower, upper, channels, pixels, step, promotion, swizzle_of(channels));
}

/* A tensor as it lies, `dims` dimensions, innermost first, and a box of it, both in halves. */
static inline const char *map_tiles(conv_plan *plan, CUtensorMap *map, const char *what, int dims, const cuuint64_t *size, const cuuint32_t *box,
                                    CUtensorMapL2promotion promotion = CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                                    CUtensorMapSwizzle swizzle = CU_TENSOR_MAP_SWIZZLE_128B) {
  cuuint64_t stride[5] = {2 * size[0]};
  cuuint32_t step[5] = {1, 1, 1, 1, 1};
  for (int d = 1; d < dims; d++) stride[d] = stride[d - 1] * size[d];
  const auto encode = driver_function<decltype(cuTensorMapEncodeTiled)>("cuTensorMapEncodeTiled");
  if (encode == NULL || map_replace() == NULL) return "the driver has no tensor maps";
  const CUresult status = encode(map, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, (cuuint32_t)dims, no_address, size, stride, box, step, CU_TENSOR_MAP_INTERLEAVE_NONE,
                                 swizzle, promotion, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  return status == CUDA_SUCCESS ? NULL : map_refused(plan, what, status);
}

/* The filters [K][R * S][C / groups]: 64 channels of one tap of `filters` filters. Coordinates: channel, tap, filter. */
static inline const char *map_filters(conv_plan *plan, CUtensorMap *map, const conv_problem *p, int filters) {
  const cuuint64_t size[3] = {(cuuint64_t)(p->C / p->groups), (cuuint64_t)(p->R * p->S), (cuuint64_t)p->K};
  const cuuint32_t box[3] = {64, 1, (cuuint32_t)filters};
  return map_tiles(plan, map, "the filters", 3, size, box);
}

/* A map for the tensor at this address; what the plan holds stays. */
static inline cudaError_t map_at(CUtensorMap *map, const CUtensorMap *planned, void *address) {
  *map = *planned;
  return map_replace()(map, address) == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidValue;
}
