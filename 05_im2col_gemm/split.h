/* How the split products of this step (05f, 05i, 05k) are cut: tiles of 32, 64 or 128 rows, and their reduction in how many slices.
 * `make cuts` compares its choice with all others. */
#pragma once
#include <cuda_runtime.h>
#include <limits.h>

#include "05_im2col_gemm/model.h"
#include "05_im2col_gemm/tile.h"
#include "common/harness/kernel.h"

enum { LEAST_STEPS = 4 /* of a slice */, MOST_LENGTHS = 225 };

/* Products of rows x columns, their reduction a number of steps of BK. 05f and 05k have one product, 05i one for every class of pixels. */
typedef struct matrix_product {
  int rows, groups, most_slices;
  int64_t columns, sums; /* sums: floats that a slice of a product leaves in the workspace, of all groups */
  int64_t products = 1;  /* of them, count[i] with steps[i] and the others with none */
  int lengths = 1, steps[MOST_LENGTHS];
  int64_t count[MOST_LENGTHS] = {1};
  bool looked_up = false; /* what is copied is looked up, element by element */
  bool scattered = false; /* neighbours of the result lie apart */
} matrix_product;

/* How it is cut: tiles of bm rows, slices of slice_steps times BK; slices: of the longest reduction. */
typedef struct split {
  int bm, slices, slice_steps;
} split;

/* What the model counts with. */
typedef struct prices {
  double share[4];         /* of a multiprocessor's peak (model.h) */
  double wide;             /* how much faster a tile of 128 rows is than two of 64 where elements are looked up: once for more rows */
  double block, launch;    /* clocks before a block's first FMA and after its last, with 64 rows; of a second launch */
  double bytes, scattered; /* of slices' sums, written and read in a clock; where neighbours lie apart */
} prices;

/* Those by which the choice comes closest to the best of all cuts, as timed on an H200 for the layers of ResNet-50 with 16 and with 64 images. */
static const prices h200_prices = {{0.48, 0.585, 0.70, 0.72}, 1.02, 2200, 2500, 24, 7};

/* Clocks that it takes: of the multiprocessor with most blocks, which are of the average length; or of the longest block alone; and of the slices. */
static inline double clocks_of(const matrix_product *g, const split *s, int multiprocessors, const prices *c) {
  const double tiles = (double)((g->columns + BN - 1) / BN * g->groups * ((g->rows + s->bm - 1) / s->bm));
  const double step = s->bm * (BN * BK / 128.0) / (s->bm == 128 && g->looked_up ? c->wide : 1);
  double blocks = 0, steps = 0, longest = 0, parts = 0;
  for (int i = 0; i < g->lengths; i++) {
    const int slices = (g->steps[i] + s->slice_steps - 1) / s->slice_steps, block = (g->steps[i] + slices - 1) / slices;
    blocks += (double)g->count[i] * tiles * slices, steps += (double)g->count[i] * tiles * slices * block, longest = fmax(longest, block);
    if (slices > 1) parts += (double)g->count[i] * (2 * slices + 1); /* written, read, added */
  }
  if (blocks == 0) return 0;
  const double most = ceil(blocks / multiprocessors);
  double clocks = fmax(rounds_clocks(most, s->bm, step * steps / blocks, c->share), longest * step / share_of(s->bm / 64.0, c->share));
  clocks += c->block * s->bm / 64 * rounds_of(most, s->bm);
  if (parts > 0) clocks += c->launch + parts * (double)g->sums * sizeof(float) / ((g->scattered ? c->scattered : c->bytes) * multiprocessors);
  return clocks;
}

static inline int longest_of(const matrix_product *g) {
  int steps = 1;
  for (int i = 0; i < g->lengths; i++)
    if (g->steps[i] > steps) steps = g->steps[i];
  return steps;
}

static inline bool can_cut(const matrix_product *g, int bm, int slices) {
  const bool few = slices == 1 || (slices <= g->most_slices && longest_of(g) / slices >= LEAST_STEPS && slices * g->products * g->sums <= INT_MAX);
  return few && (bm == 64 || (bm == 128 && g->rows > 64) || (bm == 32 && g->rows <= 32));
}

/* Into so many slices, or fewer: none is empty. */
static inline split cut_into(const matrix_product *g, int bm, int slices) {
  const int steps = longest_of(g), slice_steps = (steps + slices - 1) / slices;
  const split s = {bm, (steps + slice_steps - 1) / slice_steps, slice_steps};
  return s;
}

static inline size_t split_bytes(const matrix_product *g, const split *s) {
  return s->slices > 1 ? (size_t)(s->slices * g->products * g->sums) * sizeof(float) : 0;
}

/* The cut that takes the fewest clocks, with tiles of `lowest` rows or more. */
static inline split split_for(const matrix_product *g, int multiprocessors, const prices *c, int lowest = 32) {
  split best = cut_into(g, 64, 1);
  for (int bm = lowest; bm <= 128; bm *= 2)
    for (int slices = 1; can_cut(g, bm, slices); slices++) {
      const split s = cut_into(g, bm, slices);
      if (clocks_of(g, &s, multiprocessors, c) < clocks_of(g, &best, multiprocessors, c)) best = s;
    }
  return best;
}

/* A kernel with any cut, for `make cuts`: plan_cut finishes a plan that has its operation, of a problem that the kernel can do. Returns NULL, or what
 * failed. */
typedef struct cut_kernel {
  const conv_kernel *kernel;
  matrix_product (*product)(const conv_problem *p);
  const char *(*plan_cut)(conv_plan *plan, const matrix_product *g, split s);
} cut_kernel;
