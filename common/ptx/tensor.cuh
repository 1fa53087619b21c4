/* Tensor copies: one thread asks for a box of a tensor of up to 5 dimensions, the copy engine computes addresses, fills what lies outside and swizzles. The map
 * says how (cuTensorMapEncodeTiled, ...Im2col; a parameter `const __grid_constant__ CUtensorMap`). Coordinates are elements, innermost first; a load's may
 * be negative, a store's not.
 * All 9.0 and up, in Data Movement and Conversion Instructions: cp.async.bulk.tensor, cp.reduce.async.bulk.tensor, prefetch.tensormap. */
#pragma once
#include "common/ptx/shared.cuh"

/* Only pointed to here: cuda.h says what it is. */
typedef struct CUtensorMap_st CUtensorMap;

#define PTX_AT_1 "r"(at[0])
#define PTX_AT_2 PTX_AT_1, "r"(at[1])
#define PTX_AT_3 PTX_AT_2, "r"(at[2])
#define PTX_AT_4 PTX_AT_3, "r"(at[3])
#define PTX_AT_5 PTX_AT_4, "r"(at[4])

/* cp.async.bulk.tensor, a box of a tiled map to shared memory (128-byte aligned); `barrier` gets its bytes, those outside of the tensor too.
 * `at`: {c, w, h, n}, say. */
template <int D>
static __device__ __forceinline__ void ptx_tensor_load(ptx_shared to, const CUtensorMap *map, const int (&at)[D], ptx_shared barrier PTX_CALLER) {
  static_assert(D >= 1 && D <= 5, "dimensions of a tensor map");
#ifdef CUDA_EMULATOR
  emu_tensor_load(to, map, D, at, nullptr, barrier, 0, file, line);
#elif __CUDA_ARCH__ >= 900
  if constexpr (D == 1)
    asm volatile("cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3}], [%2];" ::"r"(to), "l"(map), "r"(barrier),
                 PTX_AT_1
                 : "memory");
  else if constexpr (D == 2)
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];" ::"r"(to), "l"(map), "r"(barrier),
                 PTX_AT_2
                 : "memory");
  else if constexpr (D == 3)
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5}], [%2];" ::"r"(to), "l"(map),
                 "r"(barrier), PTX_AT_3
                 : "memory");
  else if constexpr (D == 4)
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6}], [%2];" ::"r"(to), "l"(map),
                 "r"(barrier), PTX_AT_4
                 : "memory");
  else
    asm volatile("cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6, %7}], [%2];" ::"r"(to), "l"(map),
                 "r"(barrier), PTX_AT_5
                 : "memory");
#endif
}

/* The same with .multicast::cluster (9.0a: elsewhere ptxas warns of it): to the same place in every block of the cluster whose bit is set in `blocks`, each
 * time with the mbarrier at the same place there. */
template <int D>
static __device__ __forceinline__ void ptx_tensor_load_multicast(ptx_shared to, const CUtensorMap *map, const int (&at)[D], ptx_shared barrier,
                                                                 unsigned short blocks PTX_CALLER) {
  static_assert(D >= 1 && D <= 5, "dimensions of a tensor map");
#ifdef CUDA_EMULATOR
  emu_tensor_load(to, map, D, at, nullptr, barrier, blocks, file, line);
#elif defined(__CUDA_ARCH_FEAT_SM90_ALL)
  if constexpr (D == 1)
    asm volatile("cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%4}], [%2], %3;" ::"r"(to),
                 "l"(map), "r"(barrier), "h"(blocks), PTX_AT_1
                 : "memory");
  else if constexpr (D == 2)
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%4, %5}], [%2], %3;" ::"r"(to),
                 "l"(map), "r"(barrier), "h"(blocks), PTX_AT_2
                 : "memory");
  else if constexpr (D == 3)
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%4, %5, %6}], [%2], %3;" ::"r"(to),
                 "l"(map), "r"(barrier), "h"(blocks), PTX_AT_3
                 : "memory");
  else if constexpr (D == 4)
    asm volatile(
        "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%4, %5, %6, %7}], [%2], %3;" ::"r"(to),
        "l"(map), "r"(barrier), "h"(blocks), PTX_AT_4
        : "memory");
  else
    asm volatile(
        "cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%4, %5, %6, %7, %8}], [%2], %3;" ::"r"(to),
        "l"(map), "r"(barrier), "h"(blocks), PTX_AT_5
        : "memory");
#endif
}

/* cp.async.bulk.tensor with .im2col: pixels of an im2col map from window base `at` on, {c, w, h, n} of an image; `offsets` of the filter tap, {s, r} times the
 * dilation: D - 2 of them. */
template <int D>
static __device__ __forceinline__ void ptx_tensor_load_im2col(ptx_shared to, const CUtensorMap *map, const int (&at)[D], const unsigned short (&offsets)[D - 2],
                                                              ptx_shared barrier PTX_CALLER) {
  static_assert(D >= 3 && D <= 5, "dimensions of a tensor map");
#ifdef CUDA_EMULATOR
  emu_tensor_load(to, map, D, at, offsets, barrier, 0, file, line);
#elif __CUDA_ARCH__ >= 900
  if constexpr (D == 3)
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5}], [%2], {%6};" ::"r"(to), "l"(map),
                 "r"(barrier), PTX_AT_3, "h"(offsets[0])
                 : "memory");
  else if constexpr (D == 4)
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6}], [%2], {%7, %8};" ::"r"(to),
                 "l"(map), "r"(barrier), PTX_AT_4, "h"(offsets[0]), "h"(offsets[1])
                 : "memory");
  else
    asm volatile(
        "cp.async.bulk.tensor.5d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6, %7}], [%2], {%8, %9, %10};" ::"r"(to),
        "l"(map), "r"(barrier), PTX_AT_5, "h"(offsets[0]), "h"(offsets[1]), "h"(offsets[2])
        : "memory");
#endif
}

/* The same to several blocks of the cluster (9.0a). */
template <int D>
static __device__ __forceinline__ void ptx_tensor_load_im2col_multicast(ptx_shared to, const CUtensorMap *map, const int (&at)[D],
                                                                        const unsigned short (&offsets)[D - 2], ptx_shared barrier,
                                                                        unsigned short blocks PTX_CALLER) {
  static_assert(D >= 3 && D <= 5, "dimensions of a tensor map");
#ifdef CUDA_EMULATOR
  emu_tensor_load(to, map, D, at, offsets, barrier, blocks, file, line);
#elif defined(__CUDA_ARCH_FEAT_SM90_ALL)
  if constexpr (D == 3)
    asm volatile(
        "cp.async.bulk.tensor.3d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%4, %5, %6}], [%2], {%7}, %3;" ::"r"(
            to),
        "l"(map), "r"(barrier), "h"(blocks), PTX_AT_3, "h"(offsets[0])
        : "memory");
  else if constexpr (D == 4)
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%4, %5, %6, %7}], [%2], "
                 "{%8, %9}, %3;" ::"r"(to),
                 "l"(map), "r"(barrier), "h"(blocks), PTX_AT_4, "h"(offsets[0]), "h"(offsets[1])
                 : "memory");
  else
    asm volatile("cp.async.bulk.tensor.5d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%4, %5, %6, %7, %8}], "
                 "[%2], {%9, %10, %11}, %3;" ::"r"(to),
                 "l"(map), "r"(barrier), "h"(blocks), PTX_AT_5, "h"(offsets[0]), "h"(offsets[1]), "h"(offsets[2])
                 : "memory");
#endif
}

/* cp.async.bulk.tensor, a box of shared memory to a tiled map; what lies outside of the tensor is left out. ptx_bulk_commit and ptx_bulk_wait (bulk.cuh) close
 * a group and wait. */
template <int D> static __device__ __forceinline__ void ptx_tensor_store(const CUtensorMap *map, const int (&at)[D], ptx_shared from PTX_CALLER) {
  static_assert(D >= 1 && D <= 5, "dimensions of a tensor map");
#ifdef CUDA_EMULATOR
  emu_tensor_store(map, D, at, from, false, file, line);
#elif __CUDA_ARCH__ >= 900
  if constexpr (D == 1) asm volatile("cp.async.bulk.tensor.1d.global.shared::cta.bulk_group [%1, {%2}], [%0];" ::"r"(from), "l"(map), PTX_AT_1 : "memory");
  else if constexpr (D == 2)
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%1, {%2, %3}], [%0];" ::"r"(from), "l"(map), PTX_AT_2 : "memory");
  else if constexpr (D == 3)
    asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [%1, {%2, %3, %4}], [%0];" ::"r"(from), "l"(map), PTX_AT_3 : "memory");
  else if constexpr (D == 4)
    asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.bulk_group [%1, {%2, %3, %4, %5}], [%0];" ::"r"(from), "l"(map), PTX_AT_4 : "memory");
  else asm volatile("cp.async.bulk.tensor.5d.global.shared::cta.bulk_group [%1, {%2, %3, %4, %5, %6}], [%0];" ::"r"(from), "l"(map), PTX_AT_5 : "memory");
#endif
}

/* The same to an im2col map, .im2col_no_offs: pixels from `at` on, {c, w, h, n} of an image, which run as windows do: along W, then H, each within its corners, then to
 * the next image. */
template <int D> static __device__ __forceinline__ void ptx_tensor_store_im2col(const CUtensorMap *map, const int (&at)[D], ptx_shared from PTX_CALLER) {
  static_assert(D >= 3 && D <= 5, "dimensions of a tensor map");
#ifdef CUDA_EMULATOR
  emu_tensor_store_im2col(map, D, at, from, file, line);
#elif __CUDA_ARCH__ >= 900
  if constexpr (D == 3)
    asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.im2col_no_offs.bulk_group [%1, {%2, %3, %4}], [%0];" ::"r"(from), "l"(map), PTX_AT_3 : "memory");
  else if constexpr (D == 4)
    asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.im2col_no_offs.bulk_group [%1, {%2, %3, %4, %5}], [%0];" ::"r"(from), "l"(map), PTX_AT_4
                 : "memory");
  else
    asm volatile("cp.async.bulk.tensor.5d.global.shared::cta.im2col_no_offs.bulk_group [%1, {%2, %3, %4, %5, %6}], [%0];" ::"r"(from), "l"(map), PTX_AT_5
                 : "memory");
#endif
}

/* cp.reduce.async.bulk.tensor .add: the same, added to what is there. */
template <int D> static __device__ __forceinline__ void ptx_tensor_reduce_add(const CUtensorMap *map, const int (&at)[D], ptx_shared from PTX_CALLER) {
  static_assert(D >= 1 && D <= 5, "dimensions of a tensor map");
#ifdef CUDA_EMULATOR
  emu_tensor_store(map, D, at, from, true, file, line);
#elif __CUDA_ARCH__ >= 900
  if constexpr (D == 1)
    asm volatile("cp.reduce.async.bulk.tensor.1d.global.shared::cta.add.bulk_group [%1, {%2}], [%0];" ::"r"(from), "l"(map), PTX_AT_1 : "memory");
  else if constexpr (D == 2)
    asm volatile("cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.bulk_group [%1, {%2, %3}], [%0];" ::"r"(from), "l"(map), PTX_AT_2 : "memory");
  else if constexpr (D == 3)
    asm volatile("cp.reduce.async.bulk.tensor.3d.global.shared::cta.add.bulk_group [%1, {%2, %3, %4}], [%0];" ::"r"(from), "l"(map), PTX_AT_3 : "memory");
  else if constexpr (D == 4)
    asm volatile("cp.reduce.async.bulk.tensor.4d.global.shared::cta.add.bulk_group [%1, {%2, %3, %4, %5}], [%0];" ::"r"(from), "l"(map), PTX_AT_4 : "memory");
  else
    asm volatile("cp.reduce.async.bulk.tensor.5d.global.shared::cta.add.bulk_group [%1, {%2, %3, %4, %5, %6}], [%0];" ::"r"(from), "l"(map), PTX_AT_5
                 : "memory");
#endif
}

/* prefetch.tensormap: the map will be used soon. */
static __device__ __forceinline__ void ptx_prefetch_tensormap(const CUtensorMap *map PTX_CALLER) {
#ifdef CUDA_EMULATOR
  emu_tensor_prefetch(map, file, line);
#elif __CUDA_ARCH__ >= 900
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
#endif
}
