/* Boxes of a tensor into shared memory, out of L2: how fast the copy engine brings 64 channels of 128 pixels.
 *
 *   tensor_load  tiled     16 x 8 neighbouring pixels
 *                stride=2  16 x 8 pixels, every second one in both directions (element strides)
 *                im2col    128 windows in a row, one tap of a 3 x 3 filter
 *
 * The tensor, 32 images of 56 x 56 pixels, fits into L2. A block has four boxes under way; the first pixel of its last one is checked. */
#include <cuda.h>
#include <cuda_runtime.h>
#include <stdio.h>

#include "common/ptx/ptx.cuh"
#include "common/tools/calibrate/probe.h"

enum { CHANNELS = 64, SIDE = 56, IMAGES = 32, BOX_W = 16, BOX_H = 8, PIXELS = BOX_W * BOX_H, BOX = PIXELS * CHANNELS * 2, STAGES = 4, THREADS = 32 };
typedef enum { TILED, STRIDED, IM2COL, MODES } box_mode;

/* Where box number `box` begins, and which tap it is of. */
typedef struct box_place {
  int w, h, n, tap;
} box_place;

static __host__ __device__ box_place place_of(box_mode mode, int box) {
  if (mode == TILED) return {box % 3 * BOX_W, box / 3 % 7 * BOX_H, box / 21 % IMAGES, 0};
  if (mode == STRIDED) return {box % 2 * 24, box / 2 % 3 * 2 * BOX_H, box / 6 % IMAGES, 0};
  const int first = box * PIXELS % (IMAGES * SIDE * SIDE);
  return {first % SIDE - 1, first / SIDE % SIDE - 1, first / (SIDE * SIDE), box % 9};
}

__global__ void __launch_bounds__(THREADS) box_kernel(const __grid_constant__ CUtensorMap map, box_mode mode, int rounds, unsigned *report) {
  extern __shared__ __align__(1024) unsigned char buffer[];
  __shared__ unsigned long long full[STAGES];
  const ptx_shared stages = ptx_shared_address(buffer), full_at = ptx_shared_address(full);
  if (threadIdx.x != 0) return;
  for (int i = 0; i < STAGES; i++) ptx_mbarrier_init(full_at + 8 * i, 1);
  ptx_fence_mbarrier_init();
  for (int i = 0; i < rounds + STAGES - 1; i++) {
    if (i < rounds) {
      const int stage = i % STAGES;
      const box_place at = place_of(mode, blockIdx.x + i * gridDim.x);
      ptx_mbarrier_arrive_expect_tx(full_at + 8 * stage, BOX);
      if (mode == IM2COL)
        ptx_tensor_load_im2col(stages + stage * BOX, &map, {0, at.w, at.h, at.n}, {(unsigned short)(at.tap % 3), (unsigned short)(at.tap / 3)},
                               full_at + 8 * stage);
      else ptx_tensor_load(stages + stage * BOX, &map, {0, at.w, at.h, at.n}, full_at + 8 * stage);
    }
    const int done = i - (STAGES - 1);
    if (done >= 0) ptx_mbarrier_wait(full_at + 8 * (done % STAGES), done / STAGES & 1);
  }
  report[blockIdx.x] = *(const unsigned *)(buffer + (rounds - 1) % STAGES * BOX);
}

static CUtensorMap maps[MODES];

static void *driver(const char *name) {
  void *found = NULL;
  cudaDriverEntryPointQueryResult result;
  return cudaGetDriverEntryPointByVersion(name, &found, 12000, cudaEnableDefault, &result) == cudaSuccess ? found : NULL;
}

static cudaError_t prepare(const probe *p, const workbench *w) {
  const cuuint64_t size[4] = {CHANNELS, SIDE, SIDE, IMAGES}, stride[3] = {2 * CHANNELS, 2 * CHANNELS * SIDE, 2 * CHANNELS * SIDE * SIDE};
  const cuuint32_t by = p->number == STRIDED ? 2 : 1, box[4] = {CHANNELS, by * (BOX_W - 1) + 1, by * (BOX_H - 1) + 1, 1}, steps[4] = {1, by, by, 1};
  const int lower[2] = {-1, -1}, upper[2] = {-1, -1};
  CUresult status = CUDA_ERROR_NOT_FOUND;
  if (p->number == IM2COL) {
    const auto encode = (decltype(&cuTensorMapEncodeIm2col))driver("cuTensorMapEncodeIm2col");
    if (encode)
      status = encode(&maps[p->number], CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 4, w->source, size, stride, lower, upper, CHANNELS, PIXELS, steps,
                      CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  } else {
    const auto encode = (decltype(&cuTensorMapEncodeTiled))driver("cuTensorMapEncodeTiled");
    if (encode)
      status = encode(&maps[p->number], CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 4, w->source, size, stride, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
                      CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  }
  if (status != CUDA_SUCCESS) return cudaErrorInvalidValue;
  return cudaFuncSetAttribute(box_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, STAGES * BOX);
}

static cudaError_t launch(const probe *p, const workbench *w, int, cudaStream_t stream) {
  box_kernel<<<w->device->sm_count, THREADS, STAGES * BOX, stream>>>(maps[p->number], (box_mode)p->number, p->rounds, (unsigned *)w->result);
  return cudaGetLastError();
}

static cudaError_t check(const probe *p, const workbench *w, int, bool *right, double *) {
  unsigned got, want = 0;
  const int block = w->device->sm_count - 1;
  const box_place at = place_of((box_mode)p->number, block + (p->rounds - 1) * w->device->sm_count);
  const int x = at.w + at.tap % 3, y = at.h + at.tap / 3;
  cudaError_t status = cudaMemcpy(&got, (unsigned *)w->result + block, sizeof got, cudaMemcpyDeviceToHost);
  if (!status && x >= 0 && x < SIDE && y >= 0 && y < SIDE)
    status = cudaMemcpy(&want, w->source + ((size_t)(at.n * SIDE + y) * SIDE + x) * 2 * CHANNELS, sizeof want, cudaMemcpyDeviceToHost);
  *right = got == want;
  return status;
}

void add_box_probes(probe_list *list, const workbench *w) {
  static const char *const names[MODES] = {"tiled", "stride=2", "im2col"};
  if (w->device->arch != 90) return;
  for (int mode = 0; mode < MODES; mode++) {
    probe *p = add_probe(list, "tensor_load", "GB/s");
    snprintf(p->parameter, sizeof p->parameter, "%s", names[mode]);
    p->number = mode, p->rounds = 2000;
    p->work = (double)BOX * p->rounds * w->device->sm_count;
    p->prepare = prepare, p->launch = launch, p->check = check;
  }
}
