/* Boxes of tensor copies as they arrive in shared memory, byte for byte: element strides, negative starts, swizzles, im2col windows with uneven padding,
 * dilation and tails; and tiles and im2col pixels stored back, clipped. Expected is what loops over coordinates say, so a GPU judges the emulator by the same test. */
#include <cuda.h>
#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/ptx/ptx.cuh"
#include "tests/on_device.cuh"
#include "tests/tap.h"

enum { ROOM = 96 << 10, THREADS = 128, BLANK = 0xEEEE }; /* shared memory that is looked at, bytes */
typedef unsigned short half_bits;

struct box_place {
  int at[4];
  unsigned short offset[2];
  int im2col, stores, start, bytes; /* in shared memory */
};

/* Loads the box, copies shared memory out, and stores the box to y. */
__global__ void __launch_bounds__(THREADS)
    box_kernel(const __grid_constant__ CUtensorMap x, const __grid_constant__ CUtensorMap y, const box_place p, unsigned *out) {
  extern __shared__ __align__(1024) unsigned room[];
  __shared__ unsigned long long there;
  const ptx_shared at = ptx_shared_address(room) + p.start, barrier = ptx_shared_address(&there);
  for (int i = threadIdx.x; i < ROOM / 4; i += THREADS) room[i] = BLANK * 0x10001u;
  if (threadIdx.x == 0) {
    ptx_mbarrier_init(barrier, 1);
    ptx_fence_mbarrier_init();
  }
  ptx_fence_proxy_async();
  __syncthreads();
  if (threadIdx.x == 0) {
    ptx_mbarrier_arrive_expect_tx(barrier, p.bytes);
    if (p.im2col) ptx_tensor_load_im2col(at, &x, p.at, p.offset, barrier);
    else ptx_tensor_load(at, &x, p.at, barrier);
  }
  ptx_mbarrier_wait(barrier, 0);
  for (int i = threadIdx.x; i < ROOM / 4; i += THREADS) out[i] = room[i];
  if (threadIdx.x == 0 && p.stores) {
    if (p.im2col) ptx_tensor_store_im2col(&y, p.at, at);
    else ptx_tensor_store(&y, p.at, at);
    ptx_bulk_commit();
    ptx_bulk_wait<0>();
  }
}

template <typename F> static F *driver(const char *name) {
  void *found = NULL;
  cudaDriverEntryPointQueryResult result;
  if (cudaGetDriverEntryPointByVersion(name, &found, 12000, cudaEnableDefault, &result) != cudaSuccess || found == NULL) {
    printf("Bail out! no %s\n", name);
    exit(2);
  }
  return (F *)found;
}

/* A tensor [N][H][W][C] of halves and a box of it. */
struct test_case {
  const char *name;
  int size[4];    /* C, W, H, N */
  int box[4];     /* tiled; im2col: channels, pixels */
  int step[4];    /* element strides */
  int start[4];   /* tiled: coordinates; im2col: channel and the number of the first window */
  int swizzle;    /* 0 to 3 */
  int shared;     /* where the box begins */
  int im2col = 0; /* then, W and H: */
  int filter[2] = {1, 1}, dilation[2] = {1, 1}, before[2] = {}, after[2] = {}, tap[2] = {};
};

static long swizzled(const test_case *t, long at) {
  const int rows = 1 << t->swizzle;
  return at / 128 * 128 + (at / 16 % 8 ^ at / 128 % rows) * 16 + at % 16;
}

/* A box with a negative coordinate can be loaded, not stored; nor can pixels with a stride, under a tap, or with corners outside of the tensor. */
static bool stores(const test_case *t) {
  for (int d = 0; d < 2 && t->im2col; d++)
    if (t->step[d + 1] != 1 || t->before[d] != 0 || t->tap[d] != 0 || t->after[d] > t->dilation[d] * (t->filter[d] - 1)) return false;
  return t->start[0] >= 0 && t->start[1] >= 0 && t->start[2] >= 0 && t->start[3] >= 0;
}

/* Element `place` of the box, from element (c, w, h, n) of x. */
static void expect(const test_case *t, half_bits *room, half_bits *y, const half_bits *x, long place, int c, int w, int h, int n) {
  const bool inside = c >= 0 && c < t->size[0] && w >= 0 && w < t->size[1] && h >= 0 && h < t->size[2] && n >= 0 && n < t->size[3];
  const long from = ((long)(n * t->size[2] + h) * t->size[1] + w) * t->size[0] + c;
  room[swizzled(t, t->shared + 2 * place) / 2] = inside ? x[from] : 0;
  if (inside && stores(t)) y[from] = x[from];
}

/* What should lie in shared memory and in y; returns the box's elements. */
static long expect_all(const test_case *t, half_bits *room, half_bits *y, const half_bits *x) {
  long place = 0;
  if (!t->im2col) {
    for (int n = 0; n < t->box[3]; n += t->step[3])
      for (int h = 0; h < t->box[2]; h += t->step[2])
        for (int w = 0; w < t->box[1]; w += t->step[1])
          for (int c = 0; c < t->box[0]; c++) expect(t, room, y, x, place++, t->start[0] + c, t->start[1] + w, t->start[2] + h, t->start[3] + n);
    return place;
  }
  int out[2];
  for (int d = 0; d < 2; d++) out[d] = (t->size[d + 1] + t->before[d] + t->after[d] - t->dilation[d] * (t->filter[d] - 1) - 1) / t->step[d + 1] + 1;
  for (int i = t->start[1]; i < t->start[1] + t->box[1]; i++)
    for (int c = 0; c < t->box[0]; c++)
      expect(t, room, y, x, place++, t->start[0] + c, i % out[0] * t->step[1] - t->before[0] + t->tap[0] * t->dilation[0],
             i / out[0] % out[1] * t->step[2] - t->before[1] + t->tap[1] * t->dilation[1], i / out[0] / out[1]);
  return place;
}

static CUtensorMap map_of(const test_case *t, void *base) {
  cuuint64_t size[4], stride[3];
  cuuint32_t box[4], step[4];
  for (int d = 0; d < 4; d++) size[d] = t->size[d], box[d] = t->box[d], step[d] = t->step[d];
  for (int d = 0; d < 3; d++) stride[d] = (d == 0 ? 2 : stride[d - 1]) * size[d];
  CUtensorMap map;
  CUresult status;
  if (t->im2col) {
    const int lower[2] = {-t->before[0], -t->before[1]};
    const int upper[2] = {t->after[0] - t->dilation[0] * (t->filter[0] - 1), t->after[1] - t->dilation[1] * (t->filter[1] - 1)};
    status = driver<decltype(cuTensorMapEncodeIm2col)>("cuTensorMapEncodeIm2col")(
        &map, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 4, base, size, stride, lower, upper, box[0], box[1], step, CU_TENSOR_MAP_INTERLEAVE_NONE,
        (CUtensorMapSwizzle)t->swizzle, CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    int version = 0;
    cudaDriverGetVersion(&version);
    if (version <= 13010 && stride[2] * size[3] < 131072) map.opaque[1] &= ~(1ull << 21); /* these drivers set it wrongly for small tensors */
  } else {
    status = driver<decltype(cuTensorMapEncodeTiled)>("cuTensorMapEncodeTiled")(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 4, base, size, stride, box, step,
                                                                                CU_TENSOR_MAP_INTERLEAVE_NONE, (CUtensorMapSwizzle)t->swizzle,
                                                                                CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  }
  if (status != CUDA_SUCCESS) {
    printf("Bail out! %s: tensor map: error %d\n", t->name, (int)status);
    exit(2);
  }
  return map;
}

static int differences(const half_bits *got, const half_bits *expected, int count, const char *what) {
  int wrong = 0;
  for (int i = 0; i < count; i++)
    if (got[i] != expected[i] && wrong++ == 0) diag("%s: half %d: expected 0x%04x, got 0x%04x", what, i, expected[i], got[i]);
  return wrong;
}

static void test(const test_case *t) {
  const int count = t->size[0] * t->size[1] * t->size[2] * t->size[3];
  half_bits *x = (half_bits *)malloc(2 * count), *y = (half_bits *)malloc(2 * count), *room = (half_bits *)malloc(ROOM);
  for (int i = 0; i < count; i++) x[i] = (half_bits)(1 + i % 60000), y[i] = BLANK;
  for (int i = 0; i < ROOM / 2; i++) room[i] = BLANK;
  half_bits *dx = on_device(count, x), *dy = on_device(count, y), *out = on_device<half_bits>(ROOM / 2);
  box_place p = {{t->start[0], t->start[1], t->start[2], t->start[3]}, {0, 0}, t->im2col, stores(t), t->shared, 0};
  p.bytes = (int)(2 * expect_all(t, room, y, x));
  if (t->im2col) {
    int out_size[2];
    for (int d = 0; d < 2; d++) {
      out_size[d] = (t->size[d + 1] + t->before[d] + t->after[d] - t->dilation[d] * (t->filter[d] - 1) - 1) / t->step[d + 1] + 1;
      p.offset[d] = (unsigned short)(t->tap[d] * t->dilation[d]);
    }
    const int first = t->start[1];
    p.at[1] = first % out_size[0] * t->step[1] - t->before[0];
    p.at[2] = first / out_size[0] % out_size[1] * t->step[2] - t->before[1];
    p.at[3] = first / out_size[0] / out_size[1];
  }
  cudaFuncSetAttribute(box_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, ROOM);
  box_kernel<<<1, THREADS, ROOM>>>(map_of(t, dx), map_of(t, dy), p, (unsigned *)out);
  const cudaError_t status = cudaDeviceSynchronize();
  half_bits *got = on_host(out, ROOM / 2), *got_y = on_host(dy, count);
  const int wrong = differences(got, room, ROOM / 2, "shared memory"), wrong_y = differences(got_y, y, count, "stored");
  ok(status == cudaSuccess && !wrong && !wrong_y, "%s, %s: %s, %d and %d halves wrong", t->im2col ? "im2col" : "tiled", t->name, cudaGetErrorString(status),
     wrong, wrong_y);
  free(x), free(y), free(room), free(got), free(got_y), cudaFree(dx), cudaFree(dy), cudaFree(out);
}

int main() {
  static const test_case cases[] = {
      {"a halo with padding", {64, 56, 8, 2}, {64, 58, 6, 1}, {1, 1, 1, 1}, {0, -1, -1, 0}, 3, 0},
      {"past the lower right corner", {64, 20, 8, 2}, {64, 16, 4, 2}, {1, 1, 1, 1}, {0, 10, 6, 1}, 3, 1024},
      {"far outside", {64, 20, 8, 2}, {64, 16, 4, 1}, {1, 1, 1, 1}, {0, 40, -9, 0}, 3, 0},
      {"begins between two swizzle patterns", {64, 20, 8, 2}, {64, 16, 2, 1}, {1, 1, 1, 1}, {0, 0, 0, 0}, 3, 1024 + 3 * 128},
      {"a swizzle of 64 bytes", {32, 20, 8, 2}, {32, 16, 2, 1}, {1, 1, 1, 1}, {0, -2, 0, 1}, 2, 128},
      {"a swizzle of 32 bytes", {16, 20, 8, 2}, {16, 16, 2, 1}, {1, 1, 1, 1}, {0, -2, 0, 1}, 1, 256},
      {"no swizzle", {40, 20, 8, 2}, {40, 7, 3, 2}, {1, 1, 1, 1}, {0, -2, -1, 0}, 0, 128},
      {"channels on both sides of the tensor", {24, 9, 4, 1}, {64, 4, 2, 1}, {1, 1, 1, 1}, {-16, 2, 1, 0}, 3, 0},
      {"every second pixel", {64, 21, 9, 2}, {64, 16, 7, 1}, {1, 2, 2, 1}, {0, -1, -1, 1}, 3, 0},
      {"every third column, every second image", {64, 21, 9, 4}, {64, 10, 2, 3}, {1, 3, 1, 2}, {0, 4, 0, 1}, 3, 0},
      {"3x3, padding 1, across images", {64, 6, 6, 3}, {64, 64}, {1, 1, 1, 1}, {0, 20}, 3, 0, 1, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {0, 2}},
      {"a tail past the last image", {64, 6, 6, 2}, {64, 128}, {1, 1, 1, 1}, {0, 30}, 3, 0, 1, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {2, 0}},
      {"5 wide, 3 high, stride 2, four pads", {64, 13, 11, 3}, {64, 96}, {1, 2, 2, 1}, {0, 9}, 3, 0, 1, {5, 3}, {1, 1}, {1, 2}, {3, 0}, {4, 1}},
      {"dilation 2", {64, 12, 12, 2}, {64, 128}, {1, 1, 1, 1}, {0, 50}, 3, 1024, 1, {3, 3}, {2, 2}, {2, 2}, {2, 2}, {1, 2}},
      {"7x7, stride 2, 8 channels", {8, 28, 28, 2}, {8, 256}, {1, 2, 2, 1}, {0, 3}, 0, 0, 1, {7, 7}, {1, 1}, {3, 3}, {3, 3}, {6, 5}},
      {"the last 8 of 72 channels", {72, 9, 9, 2}, {64, 64}, {1, 1, 1, 1}, {64, 7}, 3, 0, 1, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {0, 0}},
      {"stride 3, a swizzle of 64 bytes", {32, 14, 14, 2}, {32, 40}, {1, 3, 3, 1}, {0, 6}, 2, 0, 1, {3, 3}, {1, 1}, {1, 1}, {0, 0}, {2, 2}},
      {"pixels stored across images", {64, 14, 14, 2}, {64, 208}, {1, 1, 1, 1}, {0, 150}, 3, 1024, 1},
      {"pixels stored, a tail", {72, 7, 6, 3}, {64, 104}, {1, 1, 1, 1}, {64, 53}, 3, 0, 1},
      {"pixels stored but for the last row and column", {24, 7, 5, 3}, {64, 72}, {1, 1, 1, 1}, {0, 3}, 3, 0, 1, {2, 2}, {1, 1}, {0, 0}, {0, 0}},
      {"more pixels than the tensor has", {16, 5, 4, 1}, {16, 200}, {1, 1, 1, 1}, {0, 0}, 1, 0, 1, {1, 1}, {1, 1}, {0, 0}, {0, 0}, {0, 0}},
  };
  plan(0);
  for (const test_case &t : cases) test(&t);
  return done_testing();
}
