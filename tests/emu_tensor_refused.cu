/* Tensor copies that a GPU answers with an illegal instruction or a fault: the emulator says what is wrong, and where. */
#include <cuda.h>
#include <cuda_runtime.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/ptx/ptx.cuh"
#include "tests/tap.h"

typedef enum {
  RIGHT,
  MISALIGNED,
  TILED_AS_IM2COL,
  IM2COL_AS_TILED,
  THREE_OF_FOUR,
  FAR_TAP,
  NOT_ENCODED,
  ON_ODD_ADDRESS,
  TOO_LARGE,
  ODD_START,
  ODD_CHANNEL,
  NEGATIVE_STORE,
  STORE_BEFORE,
  STORE_BEHIND,
  NO_CLUSTER
} mistake;

__global__ void load(const __grid_constant__ CUtensorMap tiled, const __grid_constant__ CUtensorMap im2col, const __grid_constant__ CUtensorMap empty,
                     mistake m) {
  __shared__ __align__(1024) unsigned char box[16384];
  __shared__ __align__(1024) unsigned char small[128];
  __shared__ unsigned long long there;
  const ptx_shared to = ptx_shared_address(box), barrier = ptx_shared_address(&there);
  ptx_mbarrier_init(barrier, 1);
  ptx_fence_mbarrier_init();
  ptx_mbarrier_arrive_expect_tx(barrier, 16384);
  const unsigned short near[2] = {2, 255}, far[2] = {2, 256};
  if (m == RIGHT) ptx_tensor_load_im2col(to, &im2col, {0, -1, -1, 0}, near, barrier);
  if (m == MISALIGNED) ptx_tensor_load(to + 64, &tiled, {0, 0, 0, 0}, barrier);
  if (m == TILED_AS_IM2COL) ptx_tensor_load_im2col(to, &tiled, {0, 0, 0, 0}, near, barrier);
  if (m == IM2COL_AS_TILED) ptx_tensor_load(to, &im2col, {0, 0, 0, 0}, barrier);
  if (m == THREE_OF_FOUR) ptx_tensor_load(to, &tiled, {0, 0, 0}, barrier);
  if (m == FAR_TAP) ptx_tensor_load_im2col(to, &im2col, {0, -1, -1, 0}, far, barrier);
  if (m == NOT_ENCODED) ptx_tensor_load(to, &empty, {0, 0, 0, 0}, barrier);
  if (m == ON_ODD_ADDRESS) ptx_tensor_load(to, (const CUtensorMap *)((const char *)&tiled + 32), {0, 0, 0, 0}, barrier);
  if (m == TOO_LARGE) ptx_tensor_load((256 << 10) - 128, &tiled, {0, 0, 0, 0}, barrier);
  if (m == ODD_START) ptx_tensor_load(to, &tiled, {4, 0, 0, 0}, barrier);
  if (m == ODD_CHANNEL) ptx_tensor_load_im2col(to, &im2col, {-4, -1, -1, 0}, near, barrier);
  if (m == NEGATIVE_STORE) ptx_tensor_store(&tiled, {0, -1, 0, 0}, to);
  if (m == STORE_BEFORE || m == STORE_BEHIND) ptx_tensor_store_im2col(&im2col, {0, 0, 0, 0}, to);
  if (m == NO_CLUSTER) ptx_bulk_between(to, to + 8192, 128, barrier);
  ptx_mbarrier_wait(barrier, 0);
  small[0] = box[0];
}

/* The launch's error, and what it says on stderr. */
static cudaError_t report(const CUtensorMap *maps, mistake m, char said[4096]) {
  FILE *file = tmpfile();
  fflush(stderr);
  const int messages = dup(2);
  dup2(fileno(file), 2);
  load<<<1, 1>>>(maps[0], maps[m == STORE_BEHIND ? 3 : 1], maps[2], m);
  const cudaError_t status = cudaDeviceSynchronize();
  fflush(stderr);
  dup2(messages, 2);
  close(messages);
  rewind(file);
  said[fread(said, 1, 4095, file)] = 0;
  fclose(file);
  return status;
}

int main() {
  static const struct {
    mistake m;
    const char *words;
    cudaError_t error = cudaErrorLaunchFailure;
  } rows[] = {
      {MISALIGNED, "expected a shared address that is a multiple of 128, got 0x"},
      {TILED_AS_IM2COL, "a map of tiled mode, an instruction of im2col mode"},
      {IM2COL_AS_TILED, "a map of im2col mode, an instruction of tiled mode"},
      {THREE_OF_FOUR, "expected coordinates of the map's 4 dimensions, got 3"},
      {FAR_TAP, "expected an offset 1 of 0 to 255, for 4 dimensions, got 256"},
      {NOT_ENCODED, "no tensor map: cuTensorMapEncodeTiled or cuTensorMapEncodeIm2col has not written it"},
      {ON_ODD_ADDRESS, "the tensor map's address is no multiple of 64"},
      {TOO_LARGE, "a box of 16384 bytes at 0x3ff80: past the end of shared memory"},
      {ODD_START, "expected a first coordinate that is a multiple of 16 bytes, got 4 of 2 bytes each", cudaErrorIllegalInstruction},
      {ODD_CHANNEL, "expected a first coordinate that is a multiple of 16 bytes, got -4 of 2 bytes each", cudaErrorIllegalInstruction},
      {NEGATIVE_STORE, "a store: expected coordinates that are not negative, got -1 in dimension 1", cudaErrorIllegalInstruction},
      {STORE_BEFORE, "expected lower corners from 0 on (others were never seen on a GPU), got -1 in dimension 1"},
      {STORE_BEHIND, "expected corners within the tensor, got 1 past its end in dimension 1", cudaErrorIllegalInstruction},
      {NO_CLUSTER, "expected a launch with a cluster size", cudaErrorIllegalInstruction},
  };
  for (int i = -1; i < (int)(sizeof rows / sizeof *rows); i++) {
    void *x;
    char said[4096];
    cudaMalloc(&x, 64 * 56 * 56 * 2);
    const cuuint64_t size[4] = {64, 56, 56, 1}, stride[3] = {128, 7168, 401408};
    const cuuint32_t box[4] = {64, 16, 8, 1}, step[4] = {1, 1, 1, 1};
    const int lower[2] = {-1, -1}, upper[2] = {-1, -1}, first[2] = {0, 0}, behind[2] = {1, 0};
    CUtensorMap maps[4] = {};
    cuTensorMapEncodeTiled(&maps[0], CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 4, x, size, stride, box, step, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                           CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    cuTensorMapEncodeIm2col(&maps[1], CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 4, x, size, stride, lower, upper, 64, 128, step, CU_TENSOR_MAP_INTERLEAVE_NONE,
                            CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    cuTensorMapEncodeIm2col(&maps[3], CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 4, x, size, stride, first, behind, 64, 128, step, CU_TENSOR_MAP_INTERLEAVE_NONE,
                            CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    const cudaError_t status = report(maps, i < 0 ? RIGHT : rows[i].m, said);
    if (i < 0) ok(status == cudaSuccess && !*said, "a right load says nothing");
    else if (!ok(status == rows[i].error && strstr(said, rows[i].words) && strstr(said, "emu_tensor_refused.cu:"), "%s", rows[i].words))
      diag("%s: %s", cudaGetErrorString(status), said);
    cudaDeviceReset();
  }
  return done_testing();
}
