/* What blocks that stay share: places in a ring of any length, and results that are turned on their way out. From 06f. */
#pragma once
#include "06_tensorcore_fp16/divide.cuh"
#include "06_tensorcore_fp16/ring.cuh"

/* A place in the ring, and the parity of its round. */
typedef struct slot {
  int stage;
  unsigned parity;
} slot;

static __device__ __forceinline__ slot next_slot(slot s, int stages) { return s.stage + 1 < stages ? slot{s.stage + 1, s.parity} : slot{0, s.parity ^ 1}; }

/* Where the chunk of a row lies, of a row that the compiler knows is not negative: the rest of a division by 8 is one instruction then, and not five. */
static __device__ __forceinline__ unsigned swizzled_up(unsigned row, unsigned chunk) { return row * ROW + (chunk ^ row % CHUNKS) * 16; }

/* Sums [64 filters][N pixels] as halves to shared memory, [pixel][64 filters], swizzled: what a store's box is. */
template <int N> static __device__ __forceinline__ void put_turned(const float (&sum)[N / 2], ptx_shared box) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4, chunk = 2 * warp + lane / 8 % 2; /* 8 filters are 16 bytes */
#pragma unroll
  for (int j = 0; j + 1 < N / 8; j += 2) { /* two times eight pixels, 16 filters */
    unsigned part[4];
#pragma unroll
    for (int i = 0; i < 4; i++) part[i] = two_halves(sum[4 * (j + i / 2) + 2 * (i % 2)], sum[4 * (j + i / 2) + 2 * (i % 2) + 1]);
    ptx_stmatrix_x4_trans(box + swizzled(8 * (j + lane / 16) + lane % 8, chunk), part);
  }
  if (N / 8 % 2 == 1) {
    constexpr int j = N / 8 - 1;
    unsigned part[2];
#pragma unroll
    for (int i = 0; i < 2; i++) part[i] = two_halves(sum[4 * j + 2 * i], sum[4 * j + 2 * i + 1]);
    ptx_stmatrix_x2_trans(box + swizzled(8 * j + lane % 8, chunk), part);
  }
}
