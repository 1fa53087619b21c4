/* How 05g's blocks share the work: whole tiles in rounds, and what does not make a round by stages of BK elements of the reduction. */
#pragma once
#include <cuda_runtime.h>
#include <limits.h>

#include "05_im2col_gemm/model.h"
#include "05_im2col_gemm/tile.h"
#include "common/conv/problem.h"

enum { LEAST_STAGES = 4 /* of a block's share */, NONE = -1 };

/* n / by for 0 <= n < 2^31: n * times / 2^shift, three instructions instead of thirty. */
typedef struct divisor {
  int by, shift;
  unsigned times;
} divisor;

static __device__ __forceinline__ int quotient(int n, divisor d) { return (int)((unsigned long long)(unsigned)n * d.times >> d.shift); }
static __device__ __forceinline__ int rest_of(int n, divisor d) { return n - quotient(n, d) * d.by; }

/* Who does what. Tiles below `whole` are done by one block each: block b does b, b + gridDim.x, ... The stages of the others, tile after tile, are
 * dealt out: `each` to a block, one more to the first `longer`, none to blocks from `workers` on. */
typedef struct schedule {
  int tiles, whole, stages, workers, each, longer; /* stages: of a tile */
  divisor tiles_k, groups, image, p, q;            /* tiles of a group; groups; P * Q; P; Q */
} schedule;

/* The dealt stages of block b begin here, and end where those of block b + 1 begin. */
static __device__ __forceinline__ int begin_of(const schedule &s, int b) { return min(b, s.workers) * s.each + min(b, s.longer); }

/* Of a tile block b does the stages from first_stage() on, stages_of() of them. */
static __device__ __forceinline__ int first_stage(const schedule &s, int b, int tile) {
  return tile < s.whole ? 0 : max(begin_of(s, b) - (tile - s.whole) * s.stages, 0);
}
static __device__ __forceinline__ int stages_of(const schedule &s, int b, int tile) {
  return (tile < s.whole ? s.stages : min(begin_of(s, b + 1) - (tile - s.whole) * s.stages, s.stages)) - first_stage(s, b, tile);
}

/* Its first tile, and the one after a tile or NONE. */
static __device__ __forceinline__ int first_tile(const schedule &s, int b) {
  return begin_of(s, b) < begin_of(s, b + 1) ? s.whole + begin_of(s, b) / s.stages : b;
}
static __device__ __forceinline__ int tile_after(const schedule &s, int b, int tile) {
  if (tile >= s.whole && (tile - s.whole + 1) * s.stages < begin_of(s, b + 1)) return tile + 1;
  const int next = tile < s.whole ? tile + (int)gridDim.x : b;
  return next < s.whole ? next : NONE;
}

/* The place of a part in the workspace, [2 * blocks][BM][BN]: a block has at most one that begins its tile and one that does not. */
static __device__ __forceinline__ int part_of(int b, bool begins) { return 2 * b + (begins ? 1 : 0); }

/* Whose this dealt stage is. */
static __device__ __forceinline__ int block_of(const schedule &s, int stage) {
  const int longer = s.longer * (s.each + 1);
  return stage < longer ? stage / (s.each + 1) : s.longer + (stage - longer) / s.each;
}

/* ---------------------------------------------------------------- host */

static inline divisor divisor_of(int by) {
  int log = 0;
  while ((int64_t)1 << log < by) log++;
  return {by, 31 + log, (unsigned)((((uint64_t)1 << (31 + log)) + (unsigned)by - 1) / (unsigned)by)};
}

/* Tiles of bm filters, and stages of a tile. */
static inline int tiles_of(const conv_problem *p, int bm) { return (p->N * p->P * p->Q + BN - 1) / BN * p->groups * ((p->K / p->groups + bm - 1) / bm); }
static inline int stages_of_tile(const conv_problem *p) { return (p->C / p->groups * p->R * p->S + BK - 1) / BK; }

/* How the work is done: tiles of bm filters, so many blocks. */
typedef struct share_out {
  int bm, blocks;
  schedule all;
} share_out;

/* A multiprocessor has room for 256 rows of tiles. `cut`: tiles that do not make a whole round are cut. */
static inline share_out share_with(const conv_problem *p, int multiprocessors, int bm, bool cut) {
  const int places = multiprocessors * (256 / bm), stages = stages_of_tile(p), tiles = tiles_of(p, bm), rest = tiles % places;
  share_out s = {bm, tiles < places ? tiles : places, {}};
  s.all.tiles = tiles, s.all.whole = tiles, s.all.stages = stages;
  s.all.tiles_k = divisor_of((p->K / p->groups + bm - 1) / bm), s.all.groups = divisor_of(p->groups);
  s.all.image = divisor_of(p->P * p->Q), s.all.p = divisor_of(p->P), s.all.q = divisor_of(p->Q);
  const int64_t dealt = (int64_t)rest * stages, most = dealt / LEAST_STAGES;
  if (!cut || most <= rest || dealt > INT_MAX) return s;
  const int workers = most < places ? (int)most : places;
  if (tiles < places) s.blocks = workers;
  s.all.whole = tiles - rest, s.all.workers = workers, s.all.each = (int)dealt / workers, s.all.longer = (int)dealt % workers;
  return s;
}

/* Clocks that it takes, about: whole rounds, what is left over, what is dealt out, and the parts, written and read. */
static inline double clocks_of(const share_out *s, int multiprocessors) {
  static const double share_64[4] = {0.47, 0.62, 0.7, 0.75}, share_128[4] = {0, 0.42, 0, 0.75}; /* of a multiprocessor's peak (model.h) */
  const double *share = s->bm == 128 ? share_128 : share_64;
  const double store = 4000, launch = 6000, bytes = 20; /* clocks to store sums and of the second launch; bytes of parts in a clock */
  const double stage = (s->bm == 128 ? 1 : 1.02) * (s->bm * BK * BN / 128);
  const schedule *all = &s->all;
  const int rest = all->tiles - all->whole;
  const double most = ceil((double)all->whole / multiprocessors), dealt = ceil((double)all->workers / multiprocessors);
  double clocks = rounds_clocks(most, s->bm, all->stages * stage, share) + store * rounds_of(most, s->bm);
  if (rest > 0) {
    clocks += rounds_clocks(dealt, s->bm, (all->each + 1) * stage, share) + 2 * store + launch;
    clocks += 2 * (double)((all->workers + rest) * s->bm * BN) * sizeof(float) / (bytes * multiprocessors);
  }
  return clocks;
}

static inline share_out share_for(const conv_problem *p, int multiprocessors) {
  share_out best = share_with(p, multiprocessors, 64, false);
  for (int bm = 64; bm <= (p->K / p->groups > 64 ? 128 : 64); bm *= 2)
    for (int cut = 0; cut < 2; cut++) {
      const share_out other = share_with(p, multiprocessors, bm, cut);
      if (clocks_of(&other, multiprocessors) < clocks_of(&best, multiprocessors)) best = other;
    }
  return best;
}
