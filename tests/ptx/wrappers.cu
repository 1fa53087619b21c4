/* Every wrapper of common/ptx/ in every form: to be compiled, never launched (tests/ptx_wrappers.sh). */
#include <cuda_runtime.h>

#include "common/ptx/convert.cuh"
#include "common/ptx/prefetch.cuh"
#include "common/ptx/ptx.cuh"
#include "common/ptx/st_async.cuh"

__global__ void matrices(float *y) {
  __shared__ alignas(128) unsigned char memory[1024];
  const ptx_shared row = ptx_shared_address(memory + threadIdx.x % 32 * 16);
  unsigned one[1], two[2], four[4];
  ptx_ldmatrix_x1(one, row);
  ptx_ldmatrix_x2(two, row);
  ptx_ldmatrix_x4(four, row);
  ptx_stmatrix_x1(row, one);
  ptx_stmatrix_x2(row, two);
  ptx_stmatrix_x4(row, four);
  ptx_ldmatrix_x1_trans(one, row);
  ptx_ldmatrix_x2_trans(two, row);
  ptx_ldmatrix_x4_trans(four, row);
  ptx_stmatrix_x1_trans(row, one);
  ptx_stmatrix_x2_trans(row, two);
  ptx_stmatrix_x4_trans(row, four);
  float sum[4] = {};
  ptx_mma_m16n8k16(sum, four, two);
  ptx_mma_m16n8k8(sum, four, two);
  y[threadIdx.x] = sum[0] + sum[1] + sum[2] + sum[3] + __low2float(ptx_half2_relu(sum[0], sum[1]));
}

__global__ void copies(float *y, const float *x) {
  __shared__ alignas(128) unsigned char memory[4096];
  __shared__ alignas(8) unsigned char barriers[16];
  const ptx_shared to = ptx_shared_address(memory), full = ptx_shared_address(barriers), empty = full + 8;
  ptx_griddepcontrol_wait();
  ptx_cp_async_16(to, x, false);
  ptx_cp_async<4>(to + 16, x, x == y);
  ptx_cp_async<16>(to + 32, x, x == y);
  ptx_bar_arrive(1, 64);
  ptx_bar_sync(2, 64);
  if (ptx_elect(0xffffffff)) {
    ptx_mbarrier_init(full, 1);
    ptx_mbarrier_init(empty, 2);
    ptx_fence_mbarrier_init();
    ptx_mbarrier_arrive_expect_tx(full, 1024);
    ptx_mbarrier_expect_tx(full, 2048);
    ptx_bulk_load(to, x, 1024, full);
    ptx_bulk_load_multicast(to, x, 1024, full, 3);
    ptx_bulk_between(ptx_mapa(to, 1), to, 1024, ptx_mapa(full, 1));
    ptx_mbarrier_arrive(empty);
  }
  ptx_mbarrier_wait(full, 0);
  ptx_mbarrier_wait(full, 1); /* two loops in one function */
  ptx_fence_proxy_async();
  ptx_bulk_store(y, to, 1024);
  ptx_bulk_reduce_add_f32(y, to, 1024);
  ptx_bulk_reduce_add_f16(y, to, 1024);
  ptx_bulk_commit();
  ptx_bulk_wait_read<1>();
  ptx_bulk_wait<0>();
  ptx_mbarrier_inval(full);
  ptx_griddepcontrol_launch_dependents();
}

__global__ void cluster(float *y) {
  __shared__ alignas(16) unsigned char memory[64];
  const unsigned rank = ptx_cluster_rank(), next = (rank + 1) % ptx_cluster_size();
  const ptx_shared there = ptx_mapa(ptx_shared_address(memory), next);
  ptx_st_cluster(there, rank);
  ptx_st_cluster_16(there + 16, make_uint4(0, 1, 2, 3));
  ptx_cluster_arrive();
  ptx_cluster_wait();
  ptx_cluster_arrive_relaxed();
  ptx_cluster_wait();
  y[threadIdx.x] = ptx_ld_cluster(there) + ptx_ld_cluster_16(there + 16).w;
  ptx_mbarrier_arrive_cluster(there + 32);
  ptx_st_async_16(there + 16, make_uint4(0, 1, 2, 3), there + 32);
}

template <int D> static __device__ void boxes(const CUtensorMap *map, const int (&at)[D], ptx_shared to, ptx_shared full) {
  ptx_tensor_load(to, map, at, full);
  ptx_tensor_load_multicast(to, map, at, full, 3);
  ptx_tensor_store(map, at, to);
  ptx_tensor_reduce_add(map, at, to);
}

__global__ void tensors(const CUtensorMap *map, int c, int w, int h) {
  __shared__ alignas(128) unsigned char memory[1024];
  const ptx_shared to = ptx_shared_address(memory), full = to + 1016;
  ptx_prefetch_tensormap(map);
  ptx_tensor_prefetch(map, {c, w, h, 0});
  boxes(map, {c}, to, full);
  boxes(map, {c, w}, to, full);
  boxes(map, {c, w, h}, to, full);
  boxes(map, {c, w, h, 0}, to, full);
  boxes(map, {c, w, h, 0, -1}, to, full);
  ptx_tensor_store_im2col(map, {c, w, 0}, to);
  ptx_tensor_store_im2col(map, {c, w, h, 0}, to);
  ptx_tensor_store_im2col(map, {c, w, h, 0, 0}, to);
  ptx_tensor_load_im2col(to, map, {c, w, 0}, {1}, full);
  ptx_tensor_load_im2col(to, map, {c, w, h, 0}, {1, 2}, full);
  ptx_tensor_load_im2col(to, map, {c, w, h, 0, 0}, {1, 2, 3}, full);
  ptx_tensor_load_im2col_multicast(to, map, {c, w, 0}, {1}, full, 3);
  ptx_tensor_load_im2col_multicast(to, map, {c, w, h, 0}, {1, 2}, full, 3);
  ptx_tensor_load_im2col_multicast(to, map, {c, w, h, 0, 0}, {1, 2, 3}, full, 3);
}

/* Groups of products between a fence and a wait; the operands lie where the arguments say. */
#define PRODUCTS(N)                                                                              \
  __global__ void __launch_bounds__(128, 1) products_##N(float *y, const unsigned *registers) {  \
    extern __shared__ unsigned char memory[];                                                    \
    const ptx_shared start = ptx_shared_address(memory);                                         \
    const unsigned long long k_major = ptx_wgmma_descriptor(start, 0, 1024, PTX_SWIZZLE_128);    \
    const unsigned long long mn_major = ptx_wgmma_descriptor(start, 128, 1024, PTX_SWIZZLE_128); \
    const unsigned a[4] = {registers[0], registers[1], registers[2], registers[3]};              \
    float d[N / 2] = {};                                                                         \
    ptx_wgmma_fence();                                                                           \
    ptx_wgmma_m64n##N##k16<0, 0, 0>(d, k_major, k_major);                                        \
    ptx_wgmma_m64n##N##k16<0, 1>(d, k_major, mn_major);                                          \
    ptx_wgmma(d, k_major, k_major);                                                              \
    ptx_wgmma_commit();                                                                          \
    ptx_wgmma_m64n##N##k16<1, 0>(d, mn_major, k_major);                                          \
    ptx_wgmma_m64n##N##k16<1, 1, 1>(d, mn_major, mn_major);                                      \
    ptx_wgmma_m64n##N##k16(d, k_major + 2, k_major + 2);                                         \
    ptx_wgmma_commit();                                                                          \
    ptx_wgmma_wait<1>();                                                                         \
    ptx_wgmma_wait<0>();                                                                         \
    ptx_wgmma_fence();                                                                           \
    ptx_wgmma_registers<0, 0>(d, a, k_major);                                                    \
    ptx_wgmma_registers<1>(d, a, mn_major);                                                      \
    ptx_wgmma_registers(d, a, k_major);                                                          \
    ptx_wgmma_commit();                                                                          \
    ptx_wgmma_wait<0>();                                                                         \
    for (int i = 0; i < N / 2; i++) y[i * 128 + threadIdx.x] = d[i];                             \
  }
PRODUCTS(8)
PRODUCTS(16)
PRODUCTS(24)
PRODUCTS(32)
PRODUCTS(40)
PRODUCTS(48)
PRODUCTS(56)
PRODUCTS(64)
PRODUCTS(72)
PRODUCTS(80)
PRODUCTS(88)
PRODUCTS(96)
PRODUCTS(104)
PRODUCTS(112)
PRODUCTS(120)
PRODUCTS(128)
PRODUCTS(136)
PRODUCTS(144)
PRODUCTS(152)
PRODUCTS(160)
PRODUCTS(168)
PRODUCTS(176)
PRODUCTS(184)
PRODUCTS(192)
PRODUCTS(200)
PRODUCTS(208)
PRODUCTS(216)
PRODUCTS(224)
PRODUCTS(232)
PRODUCTS(240)
PRODUCTS(248)
PRODUCTS(256)

/* The two roles of a block. */
__global__ void __launch_bounds__(256, 1) roles(float *y) {
  if (threadIdx.x < 128) {
    ptx_setmaxnreg_dec<40>();
    y[threadIdx.x] = 1;
  } else {
    ptx_setmaxnreg_inc<232>();
    y[threadIdx.x] = 2;
  }
}
