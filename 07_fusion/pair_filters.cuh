/* 07h's filters for windows of pairs, and a position's products: as 06s has them, but a filter row after the other. */
#pragma once
#include "06_tensorcore_fp16/pairs.cuh"

static constexpr int CONSUMERS = 2, MOST_STEPS = 64, STEP = WGMMA_M * 2 * PAIR /* bytes of 64 filters */;

/* Products of a position's window: two pairs of a filter row each. */
typedef struct pair_steps {
  pair_cut in;
  int steps, of_row;                                       /* of all filter rows, and of one */
  unsigned at[MOST_STEPS];                                 /* of a row's steps: what its descriptor differs by from the row's */
  unsigned char row[2 * MOST_STEPS], pair[2 * MOST_STEPS]; /* of the filter, and of its row; row R: none */
} pair_steps;

/* By the consumers: the filters, [step][2 pairs][64][16 bytes]. */
static __device__ __forceinline__ void put_pair_filters(const conv_problem &p, const pair_steps &t, const __half *w, unsigned char *filters) {
#pragma unroll 2
  for (int i = threadIdx.x - THREADS; i < t.steps * 2 * WGMMA_M; i += CONSUMERS * THREADS) {
    const int pair = i / WGMMA_M, k = i % WGMMA_M, r = t.row[pair], left = 2 * t.pair[pair];
    unsigned short part[2 * PIXEL] = {};
    if (k < p.K && r < p.R)
#pragma unroll
      for (int j = 0; j < 2 * PIXEL; j++) {
        const int s = left + j / PIXEL, c = j % PIXEL;
        if (s < p.S && c < p.C) part[j] = __half_as_ushort(w[((k * p.R + r) * p.S + s) * p.C + c]);
      }
    *(uint4 *)(filters + i * PAIR) = make_uint4(part[0] | part[1] << 16, part[2] | part[3] << 16, part[4] | part[5] << 16, part[6] | part[7] << 16);
  }
  __syncwarp();
}

/* A descriptor so many units further on: no carry leaves its low word. */
static __device__ __forceinline__ unsigned long long moved(unsigned long long descriptor, unsigned by) {
  return (descriptor & 0xffffffff00000000ull) | ((unsigned)descriptor + by);
}

/* Asks for all products of 64 filters and 2 SUMS positions, by the descriptors of the first filters and of a ring of rows; `position`: of the first of these, `apart`: from a filter row's to the next. */
template <int SUMS>
static __device__ __forceinline__ void multiply_pairs(float (&sum)[SUMS], const pair_steps &t, unsigned long long of_a, unsigned long long of_b, int position,
                                                      int apart, int ring) {
  ptx_wgmma_fence();
  ptx_wgmma<0, 0, 0>(sum, of_a, moved(of_b, position * (t.in.row / 16) + t.at[0]));
  ptx_wgmma_commit();
  int step_of_row = 0;
  for (int step = 1; step < t.steps; step++) {
    if (++step_of_row == t.of_row) step_of_row = 0, position += position + apart < ring ? apart : apart - ring;
    ptx_wgmma_fence();
    ptx_wgmma(sum, moved(of_a, step * (STEP / 16)), moved(of_b, position * (t.in.row / 16) + t.at[step_of_row]));
    ptx_wgmma_commit();
  }
}

/* ---------------------------------------------------------------- host */

/* Which pairs a step multiplies: of each filter row its planes' one after the other, so that a step's second lies behind its first; of an odd number the last again, times zero. */
static inline void put_steps(const conv_problem *p, pair_steps *t) {
  unsigned at[2 * MOST_STEPS];
  int count = 0;
  for (int r = 0; r < p->R; r++) {
    int of_row = 0;
    for (int plane = 0; plane < t->in.planes; plane++)
      for (int pair = plane; pair < t->in.pairs; pair += t->in.planes, count++) {
        at[of_row++] = (unsigned)((plane * t->in.slots + pair / t->in.planes) * PAIR);
        t->row[count] = (unsigned char)r, t->pair[count] = (unsigned char)pair;
      }
    if (of_row % 2 == 1) at[of_row] = at[of_row - 1], t->row[count++] = (unsigned char)p->R;
  }
  for (int step = 0; step < t->of_row; step++) t->at[step] = at[2 * step] >> 4 | (at[2 * step + 1] - at[2 * step]) >> 4 << 16;
}
