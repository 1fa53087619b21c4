/* Results of a window that slides, without the columns and rows that lie between the outputs: packed on their way to shared memory (06h). */
#pragma once
#include "06_tensorcore_fp16/tiles.cuh"

/* Where a tile's results lie: `columns` of every `pitch` positions are outputs, `rows` times for each of the images, whose halos are `halo` rows apart. */
typedef struct result_rows {
  int columns, rows, pitch, halo, images;
  unsigned of_pitch, of_halo; /* 2^16 / pitch and / halo, rounded up: exact, as a position times a pitch is below 2^16 */
} result_rows;

/* The output at a position, counted without what lies between; -1: none. */
static __device__ __forceinline__ int output_at(const result_rows &t, int position) {
  const int line = position * t.of_pitch >> 16, column = position - line * t.pitch, image = line * t.of_halo >> 16, row = line - image * t.halo;
  return column < t.columns && row < t.rows && image < t.images ? (image * t.rows + row) * t.columns + column : -1;
}

/* Sums [64 filters][N positions] to shared memory, [output][64 filters] of halves, swizzled. What is no output goes to the 16 rows at `nowhere`. */
template <int N> static __device__ __forceinline__ void put_outputs(const result_rows &t, const float (&sum)[N / 2], ptx_shared outputs, ptx_shared nowhere) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4, chunk = 2 * warp + lane / 8 % 2; /* 8 filters are 16 bytes */
#pragma unroll
  for (int j = 0; j + 1 < N / 8; j += 2) { /* two times eight positions, 16 filters */
    unsigned part[4];
#pragma unroll
    for (int i = 0; i < 4; i++) part[i] = two_halves(sum[4 * (j + i / 2) + 2 * (i % 2)], sum[4 * (j + i / 2) + 2 * (i % 2) + 1]);
    const int output = output_at(t, 8 * (j + lane / 16) + lane % 8);
    ptx_stmatrix_x4_trans(output < 0 ? nowhere + swizzled(lane % 8 + lane / 16 * 8, chunk) : outputs + swizzled(output, chunk), part);
  }
  if (N / 8 % 2 == 1) {
    constexpr int j = N / 8 - 1;
    unsigned part[2];
#pragma unroll
    for (int i = 0; i < 2; i++) part[i] = two_halves(sum[4 * j + 2 * i], sum[4 * j + 2 * i + 1]);
    const int output = output_at(t, 8 * j + lane % 8);
    ptx_stmatrix_x2_trans(output < 0 ? nowhere + swizzled(lane % 8, chunk) : outputs + swizzled(output, chunk), part);
  }
}
