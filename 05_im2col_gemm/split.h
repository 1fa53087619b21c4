/* How the split products of this step (05d, 05g) are cut: tiles of 64 or of 128 rows, and in how many slices the reduction. */
#pragma once
#include <cuda_runtime.h>
#include <limits.h>

#include "05_im2col_gemm/tile.h"

enum { LEAST_STEPS = 4 /* of a slice */ };

/* `groups` products of rows x columns, their reduction `steps` times BK. */
typedef struct matrix_product {
  int rows, groups, steps;
  int64_t columns;
  int64_t sums;     /* that a slice leaves in the workspace, of all groups */
  int most_slices;
  double wide_gain; /* how much faster a tile of 128 rows is than two of 64, other things being equal */
} matrix_product;

/* How it is cut: tiles of bm rows, slices of slice_steps times BK. */
typedef struct split {
  int bm, slices, slice_steps;
} split;

/* The share of its peak that a multiprocessor reaches with so many warps of these kernels at a time. These four figures, and those of clocks_of(), are the
 * ones by which the choice comes closest to the best of all cuts, as timed on an H200 for the layers of ResNet-50 with 16 and with 64 images. */
static inline double efficiency(int warps) { return warps >= 16 ? 0.66 : warps >= 12 ? 0.65 : warps >= 8 ? 0.59 : 0.44; }

/* Clocks that a product takes. An fp32 multiprocessor does 128 FMAs a clock; a block needs 3000 clocks before its first FMA and after its last, which
 * the others on its multiprocessor hide in part; a slice's sums are written and read, at 24 bytes a clock and multiprocessor; a launch is 2000. */
static inline double clocks_of(const matrix_product *g, const split *s, int multiprocessors) {
  const int resident = 256 / s->bm;
  const int64_t tiles = (g->columns + BN - 1) / BN * g->groups * ((g->rows + s->bm - 1) / s->bm);
  const int64_t blocks = (tiles * s->slices + multiprocessors - 1) / multiprocessors, full = blocks / resident, rest = blocks % resident;
  const double block = (double)s->slice_steps * s->bm * (double)(BN * BK / 128) / (s->bm == 128 ? g->wide_gain : 1);
  double clocks = (double)full * resident * block / efficiency(16) + (rest ? (double)rest * block / efficiency((int)rest * s->bm / 16) : 0);
  clocks += 3000.0 * (double)(full + (rest > 0));
  if (s->slices > 1) clocks += 2000 + (2.0 * s->slices + 1) * (double)g->sums * sizeof(float) / (24.0 * multiprocessors);
  return clocks;
}

/* The cut that takes the fewest clocks. */
static inline split split_of(const matrix_product *g) {
  int device = 0, multiprocessors = 0;
  if (cudaGetDevice(&device) || cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device)) multiprocessors = 1;
  split best = {64, 1, g->steps};
  for (int bm = 64; bm <= (g->rows > 64 ? 128 : 64); bm *= 2)
    for (int slices = 1; slices <= g->most_slices && (slices == 1 || g->steps / slices >= LEAST_STEPS) && slices * g->sums <= INT_MAX; slices++) {
      const int slice_steps = (g->steps + slices - 1) / slices;
      const split s = {bm, (g->steps + slice_steps - 1) / slice_steps, slice_steps}; /* no slice is empty */
      if (clocks_of(g, &s, multiprocessors) < clocks_of(g, &best, multiprocessors)) best = s;
    }
  return best;
}
