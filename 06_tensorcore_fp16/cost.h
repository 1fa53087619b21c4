/* What a tile costs, in clocks of a multiprocessor: by this 06f, 06h and 06i choose how to cut a problem, and the step's rule chooses among them. The constants come
 * from traces and from a fit (docs/06_pipeline.md): a product of 64 filters x n pixels x 16 channels takes n / 2 clocks; a multiprocessor takes in 70 bytes a clock,
 * and sends 8 to a neighbour's shared memory; all together get 2000 from memory; and a tile ends with products that nothing overlaps, rounding, a store. */
#pragma once
#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/conv/problem.h"
#include "common/harness/kernel.h"

static inline int64_t ceil_div(int64_t all, int part) { return (all + part - 1) / part; }

/* Steps of 64 channels: `columns` of 64 filters x one pixel, of all consumers; bytes of pixels and filters. */
static inline double clocks_of_step(int columns, int bytes) { return fmax(2.0 * columns, bytes / 70.0); }
static inline double clocks_of_end(int columns) { return 600 + 6.0 * columns; }

/* What the copy engine takes for a pixel's part of up to 64 channels, in im2col mode: more where it may lie across two lines of 128 bytes, most where it begins in the middle of
 * a sector. */
static inline int clocks_of_row(int channels) { return channels % 16 != 0 ? 12 : channels == 48 ? 6 : channels == 64 ? 3 : 4; }

/* All steps of a tap, of so many pixels' rows; windows: whole rows count, too. A 1x1 without a stride has none: its rows are those of a matrix. */
static inline double clocks_of_tap(const conv_problem *p, int columns, int bytes, int rows, bool windows) {
  const double step = clocks_of_step(columns, bytes);
  windows &= (int64_t)p->R * p->S > 1 || (int64_t)p->stride_h * p->stride_w > 1;
  const int rest = p->C % 64;
  return p->C / 64 * fmax(step, windows ? rows * clocks_of_row(64) : 0) + (rest > 0 ? fmax(step, windows || rest % 16 ? rows * clocks_of_row(rest) : 0) : 0);
}

/* Rounds of such tiles. Not all of a tile overlaps what memory brings; and where memory decides, the fewer clocks the better: they draw power. */
static inline double clocks_of_rounds(const conv_problem *p, int64_t rounds, double tile) {
  return fmax(rounds * tile, problem_bytes(p, PASS_FPROP, DTYPE_FP16) / 2000.0) + 0.1 * tile + 0.05 * rounds * tile;
}

/* 06h (h_stream.cu): of its cheapest cut; INFINITY: it cannot. */
#ifdef __cplusplus
extern "C"
#endif
    double
    stream_window_clocks(const conv_problem *p, const conv_device *device);

/* 06f: two consumers with 64 filters each and the same n pixels; beside: both with the same filters, and n pixels each. */
typedef struct persistent_tile {
  int n;
  bool beside;
} persistent_tile;

static inline double clocks_of_persistent(const conv_problem *p, int sm_count, persistent_tile t, bool windows) {
  const int filters = t.beside ? 64 : 128, pixels = t.beside ? 2 * t.n : t.n;
  const int64_t all = (int64_t)p->N * p->P * p->Q, rounds = ceil_div(ceil_div(all, pixels) * ceil_div(p->K, filters), sm_count);
  return clocks_of_rounds(p, rounds, p->R * p->S * clocks_of_tap(p, 2 * t.n, (filters + pixels) * 128, pixels, windows) + clocks_of_end(t.n));
}

/* The cheapest of what 06f has: multiples of 16 from 64 to 208, with which there is room for four stages, beside each other up to 128. It is chosen as if whole rows cost nothing:
 * with them 192 channels of 17 x 17 pixels under 1 x 7 taps would get a tile that takes 1.2 times as long. */
static inline double best_persistent(const conv_problem *p, int sm_count, persistent_tile *best) {
  double least = INFINITY;
  *best = (persistent_tile){64, false};
  for (int i = 0; i < 2; i++)
    for (int n = 64; n <= (i == 0 ? 208 : 128); n += 16) {
      const persistent_tile t = {n, i == 1};
      const double clocks = clocks_of_persistent(p, sm_count, t, false);
      if (clocks < least) least = clocks, *best = t;
    }
  return clocks_of_persistent(p, sm_count, *best, true);
}

/* 06i: `consumers` with 64 filters each and the same n pixels, in each of `blocks` blocks of a cluster, which have a part of the steps. */
typedef struct split_tile {
  int consumers, n, blocks;
} split_tile;

static const split_tile split_tiles[] = {{1, 32, 1}, {1, 64, 1}, {1, 32, 2}, {1, 32, 4},  {1, 64, 2}, {1, 64, 4},
                                         {1, 64, 8}, {2, 64, 2}, {2, 96, 2}, {2, 112, 2}, {2, 128, 2}};

static inline double clocks_of_split(const conv_problem *p, int sm_count, split_tile t) {
  /* Of 132 multiprocessors clusters of 4 and of 8 reach 120. */
  const int resident = t.blocks <= 2 ? sm_count / t.blocks : sm_count * 10 / 11 / t.blocks;
  const int all_steps = p->R * p->S * (int)ceil_div(p->C, 64);
  const double share = (double)ceil_div(all_steps, t.blocks) / all_steps; /* of the steps, that a block has */
  const int64_t tiles = ceil_div((int64_t)p->N * p->P * p->Q, t.n) * ceil_div(p->K, 64 * t.consumers);
  const double sent = (double)(t.blocks - 1) / t.blocks * t.consumers * 64 * t.n * 4;
  /* They begin together and each has few steps: 52 bytes a clock. */
  const double tile =
      share * p->R * p->S * clocks_of_tap(p, t.consumers * t.n, (64 * t.consumers + t.n) * 128 * 70 / 52, t.n, true) + clocks_of_end(t.n) + sent / 8;
  return clocks_of_rounds(p, ceil_div(tiles, resident > 1 ? resident : 1), tile);
}

/* The cheapest of what 06i has; a cluster has no more blocks than the reduction steps. */
static inline double best_split(const conv_problem *p, int sm_count, int *best) {
  double least = INFINITY;
  for (int i = 0; i < (int)(sizeof split_tiles / sizeof *split_tiles); i++) {
    const double clocks = split_tiles[i].blocks > p->R * p->S * ceil_div(p->C, 64) ? INFINITY : clocks_of_split(p, sm_count, split_tiles[i]);
    if (clocks < least) least = clocks, *best = i;
  }
  return least;
}
