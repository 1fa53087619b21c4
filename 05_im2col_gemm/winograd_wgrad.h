/* How Winograd's gradient of the filters (05n) is cut: into patches, tiles of sums, and each block's share of them. */
#pragma once
#include <cuda_runtime.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>

#include "05_im2col_gemm/winograd.h"

constexpr int SIDE = 6, SIZE = 4, POINTS = SIDE * SIDE;
constexpr int EDGE = 64, SUMS = EDGE * EDGE, ROOM = 8; /* filters or channels of a tile; its sums; blocks that a multiprocessor has room for */

/* A patch is SIZE x SIZE of dy (or one less, down or across: winograd.h) and the SIDE x SIDE of x above it; the reduction of each point is over all patches,
 * sorted by kinds as in winograd.cuh, and BK of them are a step. A shorter patch has not the last point; so a point's patches are neighbours:
 *
 *   patches             | shorter across |   neither   | shorter down | both |
 *   all points but the last down and across   ========================= all of them
 *   the last point down | ============================ |              |      |
 *   the last point across                | ========================== |      |
 *   the last of both    |                | =========== |              |      |
 *
 * That is four kinds of points: 25, 5, 5 and 1. A tile is EDGE filters x EDGE channels of one point. Tiles are numbered kind by kind, and point by point. */
typedef struct gradient_cut {
  conv_problem p;
  int patches_p, patches_q, short_p, short_q, from[3], patches; /* patches of an image, down and across; shorter ones; where kinds begin; all */
  int tiles_k, tiles_c, places;                                 /* EDGEs of a group's filters and channels; tiles of a point */
  int steps;                                                    /* of all patches */
  int first[4], count[4];                                       /* by kinds of points: its steps */
  int tile[5], step[5];                                         /* tiles, and steps of tiles, before them; and of all */
  int blocks;                                                   /* of multiply_kernel */
  bool dealt;                                                   /* steps are dealt out, not whole tiles */
  int each, longer;                                             /* so many to a block, one more to the first `longer` */
} gradient_cut;

/* In memory points lie kind by kind. The first of a kind; the kind of point i down, j across, and where it lies. */
static __host__ __device__ inline constexpr int first_point(int kind) { return kind == 0 ? 0 : (SIDE - 1) * (SIDE - 2 + kind); }
static __host__ __device__ inline constexpr int kind_of(int i, int j) { return (i == SIDE - 1) + 2 * (j == SIDE - 1); }
static __host__ __device__ inline constexpr int point_of(int i, int j) {
  return kind_of(i, j) == 0 ? i * (SIDE - 1) + j : first_point(kind_of(i, j)) + (kind_of(i, j) == 1 ? j : i % (SIDE - 1));
}

/* The kind of a tile's point. */
static __host__ __device__ inline int kind_of_tile(const gradient_cut &g, int tile) { return (tile >= g.tile[1]) + (tile >= g.tile[2]) + (tile >= g.tile[3]); }

/* The first of block b's steps, if they are dealt out, and whose a step is. */
static __host__ __device__ inline int begin_of(const gradient_cut &g, int b) { return b * g.each + (b < g.longer ? b : g.longer); }
static __host__ __device__ inline int block_of(const gradient_cut &g, int step) {
  const int longer = g.longer * (g.each + 1);
  return step < longer ? step / (g.each + 1) : g.longer + (step - longer) / g.each;
}

/* Or else block b does one tile a round, back and forth: who had a long one has a short one next. */
static __host__ __device__ inline int tile_of(const gradient_cut &g, int b, int round) { return round * g.blocks + (round % 2 ? g.blocks - 1 - b : b); }

/* ---------------------------------------------------------------- host */

static const double part_uses = 1.5; /* how often a block's sums are written or read, at 16 bytes a clock (estimated: twice, but some beside multiply-adds) */

/* How long a multiprocessor takes for blocks of so many steps, in steps at its peak: those that are left when others have ended share it less well. */
static inline double together(double *steps, int blocks) {
  double time = 0, done = 0;
  for (int i = 0; i < blocks; i++) {
    for (int j = i + 1; j < blocks; j++)
      if (steps[j] < steps[i]) {
        const double larger = steps[i];
        steps[i] = steps[j], steps[j] = larger;
      }
    time += (steps[i] - done) * (blocks - i) / efficiency((blocks - i) * 0.5); /* a block: two warps for four schedulers */
    done = steps[i];
  }
  return time;
}

/* Shares the work among so many blocks a multiprocessor. Returns the clocks of the busiest one, by this model. */
static inline double share_out(gradient_cut *g, int resident, bool dealt, int multiprocessors) {
  const int most = resident * multiprocessors, all = dealt ? g->step[4] : g->tile[4];
  g->dealt = dealt, g->blocks = all < most ? all : most;
  g->each = g->step[4] / g->blocks, g->longer = g->step[4] % g->blocks;
  double time = 0;
  for (int first = 0; first < multiprocessors && first < (dealt ? 1 : g->blocks); first++) {
    double steps[ROOM] = {};
    int blocks = 0;
    for (int b = first; b < g->blocks; b += multiprocessors, blocks++) {
      if (dealt) steps[blocks] = g->each + (b < g->longer) + (1 + (double)g->tile[4] / g->blocks) * end_steps;
      for (int round = 0, tile; !dealt && (tile = tile_of(*g, b, round)) < g->tile[4]; round++) steps[blocks] += g->count[kind_of_tile(*g, tile)] + end_steps;
    }
    time = fmax(time, together(steps, blocks));
  }
  const double parts = dealt ? (double)g->blocks * SUMS * sizeof(float) * part_uses / (16.0 * multiprocessors) : 0;
  return time * (SUMS * BK / 128) + parts;
}

/* NULL and how it is cut, or why not. */
static inline const char *cut_gradient(const conv_problem *p, const conv_device *device, gradient_cut *cut) {
  if (p->R != 3 || p->S != 3) return "only for 3x3 filters";
  if (p->stride_h != 1 || p->stride_w != 1 || p->dil_h != 1 || p->dil_w != 1) return "only for stride 1 without dilation";
  const char *why = plain_unsupported(p, device);
  if (why) return why;
  gradient_cut g = {};
  g.p = *p, g.patches_p = ceil_div(p->P, SIZE), g.patches_q = ceil_div(p->Q, SIZE);
  const double most = INT_MAX - 1024, patches = (double)p->N * g.patches_p * g.patches_q;
  g.tiles_k = ceil_div(p->K / p->groups, EDGE), g.tiles_c = ceil_div(p->C / p->groups, EDGE);
  const double steps = ceil(patches / (int)BK), places = (double)p->groups * g.tiles_k * g.tiles_c;
  if (steps * (BK * POINTS * EDGE) * p->groups * (g.tiles_k > g.tiles_c ? g.tiles_k : g.tiles_c) > most)
    return "transformed, a tensor has 2^31 elements or more (indices are 32-bit)";
  int multiprocessors = device->sm_count;
#ifdef CUDA_EMULATOR
  if (!getenv("EMU_SMS")) multiprocessors = 132; /* the cuts of a GPU are tested without one, too */
#endif
  if ((places * POINTS + ROOM * multiprocessors) * SUMS > most) return "the sums of all points are 2^31 or more (indices are 32-bit)";
  g.patches = (int)patches, g.places = (int)places, g.steps = (int)steps;
  g.short_p = shorter(p->P, SIZE), g.short_q = shorter(p->Q, SIZE);
  const int full_p = g.patches_p - g.short_p, full_q = g.patches_q - g.short_q;
  g.from[0] = p->N * full_p * g.short_q, g.from[1] = p->N * full_p * g.patches_q, g.from[2] = g.from[1] + p->N * g.short_p * full_q;
  const int first[4] = {0, 0, g.from[0] / BK, g.from[0] / BK}, last[4] = {g.steps, ceil_div(g.from[1], BK), ceil_div(g.from[2], BK), ceil_div(g.from[1], BK)};
  const int points[4] = {(SIDE - 1) * (SIDE - 1), SIDE - 1, SIDE - 1, 1};
  for (int kind = 0; kind < 4; kind++) {
    g.first[kind] = first[kind], g.count[kind] = last[kind] > first[kind] ? last[kind] - first[kind] : 0;
    g.tile[kind + 1] = g.tile[kind] + (g.count[kind] ? points[kind] * g.places : 0);
    g.step[kind + 1] = g.step[kind] + points[kind] * g.places * g.count[kind];
  }
  double least = INFINITY;
  for (int resident = ROOM / 2; resident <= ROOM; resident++)
    for (int dealt = 0; dealt < 2; dealt++) {
      const double clocks = share_out(&g, resident, dealt, multiprocessors);
      if (clocks < least) least = clocks, *cut = g;
    }
  return NULL;
}

/* Floats of dy and of x, transformed, and of all parts of tiles. */
static inline int64_t transformed(const gradient_cut *g, int blocks) { return (int64_t)g->p.groups * blocks * g->steps * POINTS * BK * EDGE; }
static inline int64_t part_count(const gradient_cut *g) { return (int64_t)(g->tile[4] + (g->dealt ? g->blocks : 0)) * SUMS; }
