/* Tensors and their maps for the golden tables. */
#include <stdio.h>

#include "tests/golden/golden.h"

long golden_stride(const golden_tensor *t, int dim) {
  const int each = 16 / t->element_bytes;
  long stride = 1;
  for (int i = 0; i < dim; i++) stride *= i == 0 ? (t->size[0] + each - 1) / each * each : t->size[i];
  return stride;
}

long golden_elements(const golden_tensor *t) { return golden_stride(t, t->dims); }

/* The driver's function of this name, without linking the driver. */
static void *driver_function(const char *name) {
  void *found = NULL;
  enum cudaDriverEntryPointQueryResult result;
  if (cudaGetDriverEntryPointByVersion(name, &found, 12000, cudaEnableDefault, &result) != cudaSuccess || found == NULL) golden_fail("no %s", name);
  return found;
}

typedef struct arguments {
  cuuint64_t size[5], strides[5];
  cuuint32_t step[5], box[5];
} arguments;

static arguments arguments_of(const golden_tensor *t, const int *box, const int *step) {
  arguments a = {0};
  for (int i = 0; i < t->dims; i++) {
    a.size[i] = (cuuint64_t)t->size[i];
    a.step[i] = step != NULL && step[i] > 0 ? (cuuint32_t)step[i] : 1;
    if (box != NULL) a.box[i] = (cuuint32_t)box[i];
    if (i > 0) a.strides[i - 1] = (cuuint64_t)(golden_stride(t, i) * t->element_bytes);
  }
  return a;
}

CUtensorMap golden_tiled_map(void *base, const golden_tensor *t, const int *box, const int *step, CUtensorMapDataType type, CUtensorMapSwizzle swizzle,
                             CUtensorMapFloatOOBfill fill) {
  typedef CUresult encode_tiled(CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *, const cuuint64_t *, const cuuint64_t *, const cuuint32_t *,
                                const cuuint32_t *, CUtensorMapInterleave, CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill);
  encode_tiled *encode = (encode_tiled *)driver_function("cuTensorMapEncodeTiled");
  const arguments a = arguments_of(t, box, step);
  CUtensorMap map;
  const CUresult status = encode(&map, type, (cuuint32_t)t->dims, base, a.size, a.strides, a.box, a.step, CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle,
                                 CU_TENSOR_MAP_L2_PROMOTION_NONE, fill);
  if (status != CUDA_SUCCESS) golden_fail("cuTensorMapEncodeTiled: error %d", (int)status);
  return map;
}

CUtensorMap golden_im2col_map(void *base, const golden_tensor *t, const int *lower, const int *upper, int channels, int pixels, const int *step) {
  typedef CUresult encode_im2col(CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *, const cuuint64_t *, const cuuint64_t *, const int *, const int *,
                                 cuuint32_t, cuuint32_t, const cuuint32_t *, CUtensorMapInterleave, CUtensorMapSwizzle, CUtensorMapL2promotion,
                                 CUtensorMapFloatOOBfill);
  encode_im2col *encode = (encode_im2col *)driver_function("cuTensorMapEncodeIm2col");
  const arguments a = arguments_of(t, NULL, step);
  CUtensorMap map;
  const CUresult status =
      encode(&map, CU_TENSOR_MAP_DATA_TYPE_UINT16, (cuuint32_t)t->dims, base, a.size, a.strides, lower, upper, (cuuint32_t)channels, (cuuint32_t)pixels, a.step,
             CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (status != CUDA_SUCCESS) golden_fail("cuTensorMapEncodeIm2col: error %d", (int)status);
  /* Drivers up to 13.1 set a bit wrongly in maps of small tensors. */
  int driver = 0;
  cudaDriverGetVersion(&driver);
  if (driver <= 13010 && golden_elements(t) * t->element_bytes < 128 << 10) ((uint64_t *)&map)[1] &= ~(UINT64_C(1) << 21);
  return map;
}

void golden_print_row(const golden_tensor *t, const unsigned *ids, int n) {
  int from = 0, inside = 0;
  while (from < n && ids[from] == 0) from++;
  if (from == n) {
    golden_print(" -");
    return;
  }
  while (from + inside < n && ids[from + inside] == ids[from] + (unsigned)inside) inside++;
  bool neighbours = true;
  for (int i = from + inside; i < n; i++) neighbours = neighbours && ids[i] == 0;
  for (int i = 0; i < t->dims; i++) {
    const long stride = golden_stride(t, i), next = golden_stride(t, i + 1);
    golden_print("%c%ld", i == 0 ? ' ' : '.', ((long)ids[from] - 1) % next / stride);
  }
  if (from > 0) golden_print("@%d", from);
  if (from + inside < n) golden_print("x%d", inside);
  if (!neighbours) golden_print("?");
}
