/* Tensor maps for a test's kernels: of fp16 tensors, swizzled by 128 bytes, zeros outside. */
#pragma once
#include <cuda.h>
#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>

/* size: elements, innermost first, one after the other in memory; box: the same of a box. Ends the program if the driver refuses it. */
static CUtensorMap tiled_map(const void *base, int dims, const unsigned long long *size, const unsigned *box,
                             CUtensorMapSwizzle swizzle = CU_TENSOR_MAP_SWIZZLE_128B) {
  typedef CUresult encode_tiled(CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *, const cuuint64_t *, const cuuint64_t *, const cuuint32_t *,
                                const cuuint32_t *, CUtensorMapInterleave, CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill);
  void *found = NULL;
  cudaDriverEntryPointQueryResult result;
  if (cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found, 12000, cudaEnableDefault, &result) != cudaSuccess || found == NULL) {
    printf("Bail out! no cuTensorMapEncodeTiled\n");
    exit(2);
  }
  cuuint64_t sizes[5], strides[4];
  cuuint32_t boxes[5], ones[5];
  for (int i = 0; i < dims; i++) sizes[i] = size[i], boxes[i] = box[i], ones[i] = 1;
  for (int i = 0; i + 1 < dims; i++) strides[i] = (i == 0 ? 2 : strides[i - 1]) * size[i];
  CUtensorMap map;
  const CUresult status =
      ((encode_tiled *)found)(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, (cuuint32_t)dims, (void *)base, sizes, strides, boxes, ones, CU_TENSOR_MAP_INTERLEAVE_NONE,
                              swizzle, CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (status != CUDA_SUCCESS) {
    printf("Bail out! cuTensorMapEncodeTiled: error %d\n", (int)status);
    exit(2);
  }
  return map;
}
