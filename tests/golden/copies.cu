/* Boxes to shared memory and back, for the tables of the copy engine. */
#include "common/ptx/ptx.cuh"
#include "tests/golden/golden.h"

enum { THREADS = 128, ALIGN = 1024 };

typedef struct place {
  int at[5];
  unsigned short offsets[3];
} place;

/* Shared memory from a multiple of 1024 on. */
static __device__ unsigned char *aligned(unsigned char *shared) {
  const ptx_shared address = ptx_shared_address(shared);
  return shared + ((address + ALIGN - 1) / ALIGN * ALIGN - address);
}

template <int D, bool IM2COL> __global__ void load_box(const __grid_constant__ CUtensorMap map, place where, int to, int halves, unsigned short *out) {
  extern __shared__ __align__(1024) unsigned char shared[];
  __shared__ unsigned long long barrier;
  unsigned short *box = (unsigned short *)(aligned(shared) + to);
  const ptx_shared barrier_at = ptx_shared_address(&barrier);
  for (int i = threadIdx.x; i < halves; i += THREADS) box[i] = GOLDEN_UNTOUCHED;
  if (threadIdx.x == 0) {
    ptx_mbarrier_init(barrier_at, 1);
    ptx_fence_mbarrier_init();
  }
  ptx_fence_proxy_async();
  __syncthreads();
  if (threadIdx.x == 0) {
    int at[D];
    for (int i = 0; i < D; i++) at[i] = where.at[i];
    ptx_mbarrier_arrive_expect_tx(barrier_at, 2 * halves);
    if constexpr (IM2COL) {
      unsigned short offsets[D - 2];
      for (int i = 0; i < D - 2; i++) offsets[i] = where.offsets[i];
      ptx_tensor_load_im2col(ptx_shared_address(box), &map, at, offsets, barrier_at);
    } else {
      ptx_tensor_load(ptx_shared_address(box), &map, at, barrier_at);
    }
  }
  ptx_mbarrier_wait(barrier_at, 0);
  for (int i = threadIdx.x; i < halves; i += THREADS) out[i] = box[i];
}

template <int D> __global__ void store_box(const __grid_constant__ CUtensorMap map, place where, bool add, const unsigned short *from, int halves) {
  extern __shared__ __align__(1024) unsigned char shared[];
  unsigned short *box = (unsigned short *)aligned(shared);
  for (int i = threadIdx.x; i < halves; i += THREADS) box[i] = from[i];
  ptx_fence_proxy_async();
  __syncthreads();
  if (threadIdx.x != 0) return;
  int at[D];
  for (int i = 0; i < D; i++) at[i] = where.at[i];
  if (add) ptx_tensor_reduce_add(&map, at, ptx_shared_address(box));
  else ptx_tensor_store(&map, at, ptx_shared_address(box));
  ptx_bulk_commit();
  ptx_bulk_wait<0>();
}

void *golden_upload(const void *host, long bytes) {
  void *device = NULL;
  if (cudaMalloc(&device, bytes) != cudaSuccess || cudaMemcpy(device, host, bytes, cudaMemcpyHostToDevice) != cudaSuccess) golden_fail("no device memory");
  return device;
}

void golden_download(void *host, void *device, long bytes) {
  if (cudaMemcpy(host, device, bytes, cudaMemcpyDeviceToHost) != cudaSuccess) golden_fail("nothing comes back");
  cudaFree(device);
}

static place place_of(int dims, const int *at, const int *offsets) {
  place where = {};
  for (int i = 0; i < dims; i++) where.at[i] = at[i];
  for (int i = 0; offsets != NULL && i < dims - 2; i++) where.offsets[i] = (unsigned short)offsets[i];
  return where;
}

typedef void load_kernel(CUtensorMap map, place where, int to, int halves, unsigned short *out);
typedef void store_kernel(CUtensorMap map, place where, bool add, const unsigned short *from, int halves);
static load_kernel *const tiled[] = {load_box<1, false>, load_box<2, false>, load_box<3, false>, load_box<4, false>, load_box<5, false>};
static load_kernel *const im2col[] = {load_box<3, true>, load_box<4, true>, load_box<5, true>};
static store_kernel *const store[] = {store_box<1>, store_box<2>, store_box<3>, store_box<4>, store_box<5>};

/* Dynamic shared memory for a box `to` bytes past a multiple of 1024. */
template <typename kernel> static int shared_bytes(kernel *k, int to, int bytes) {
  const int all = 2 * ALIGN + to + bytes;
  if (cudaFuncSetAttribute(k, cudaFuncAttributeMaxDynamicSharedMemorySize, all) != cudaSuccess) golden_fail("no %d bytes of shared memory", all);
  return all;
}

void golden_load(const CUtensorMap *map, int dims, const int *at, const int *offsets, int to, int halves, unsigned short *box) {
  unsigned short *out = (unsigned short *)golden_upload(box, 2l * halves);
  load_kernel *kernel = offsets != NULL ? im2col[dims - 3] : tiled[dims - 1];
  kernel<<<1, THREADS, shared_bytes(kernel, to, 2 * halves)>>>(*map, place_of(dims, at, offsets), to, halves, out);
  golden_launched();
  golden_download(box, out, 2l * halves);
}

void golden_store(const CUtensorMap *map, int dims, const int *at, bool add, const void *box, int bytes) {
  unsigned short *from = (unsigned short *)golden_upload(box, bytes);
  store_kernel *kernel = store[dims - 1];
  kernel<<<1, THREADS, shared_bytes(kernel, 0, bytes)>>>(*map, place_of(dims, at, NULL), add, from, bytes / 2);
  golden_launched();
  cudaFree(from);
}
