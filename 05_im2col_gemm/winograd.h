/* How Winograd's convolution (05l, 05m; winograd.cuh) cuts a problem: into launches, tiles, slices and pieces. */
#pragma once
#include <cuda_runtime.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>

#include "05_im2col_gemm/as_fprop.h"
#include "05_im2col_gemm/rows.h"
#include "05_im2col_gemm/tile.h"

/* How a problem is done. p: as fprop. A block of columns is BN of them. A tile of multiply_kernel is BM filters x a block of columns, of one point and group; a
 * part is part_steps * BK of its reduction. The parts are numbered slice by slice. Those from `whole` on, all in the last slice, are cut once more, into
 * pieces. */
typedef struct winograd {
  conv_problem p;
  int side, tiles_p, tiles_q;                                        /* points of a tile, down or across; tiles of an image, down and across */
  int short_p, short_q;                                              /* of these are shorter */
  int images, near;                                                  /* that are done at a time, and of these next to each other (winograd.cuh) */
  int columns, pitch;                                                /* their tiles; these rounded up to BN */
  int from[3];                                                       /* columns: where the second, third and fourth kind of tiles begin (winograd.cuh) */
  int depth, pitch_k;                                                /* channels of a group, rounded up to BK; filters of a group, rounded up to BM */
  int tiles_m, tiles_n, tiles;                                       /* of multiply_kernel: down and across for a point and group, and all of them */
  int bound[3], before[3];                                           /* the block of columns where others of the points are needed, and tiles before that */
  int bm, bn, slices, part_steps, whole, pieces, piece_steps, units; /* units: parts before `whole`, and pieces */
  int blocks, last_round; /* of multiply_kernel; parts from here on are the last of their blocks, the other blocks do the pieces */
  int resident;           /* blocks that a multiprocessor may have at a time, so that they lie evenly */
  bool early;             /* its blocks may begin early, and then lie in any order: they begin with whole rounds, or there are no pieces */
} winograd;

static const double end_steps = 0.3;    /* what the end of a unit takes, in steps (estimated) */
static const double small_tiles = 1.01; /* how much longer 64 x 64 takes, whose U and V are read more often (so that choices fit times of six layers) */
static const double gap_clocks = 2000;  /* between two kernels, if blocks may not begin early (estimated) */
static const double sums_clocks = 3000; /* what it takes output_kernel to look for parts of sums (estimated) */
enum { MOST_PIECES = 8, MOST_NEAR = 8 };

/* Of V and M, at most. The tests lower it: problems so large take an emulator too long. */
static inline double launch_bytes(void) {
  const char *lowered = getenv("WINOGRAD_LAUNCH_BYTES");
  return lowered ? atof(lowered) : 512e6;
}

static inline int ceil_div(int64_t a, int64_t b) { return (int)((a + b - 1) / b); }

/* The share of its peak that a multiprocessor reaches with so many warps a scheduler (estimated). */
static inline double efficiency(double warps) {
  return warps >= 4 ? 0.80 : warps >= 3 ? 0.78 : warps >= 2 ? 0.72 : warps >= 1.5 ? 0.60 : warps >= 1 ? 0.45 : 0.25;
}

/* Cuts the products into units of BM x BN, for `multiprocessors` of four schedulers with 32 FMAs a clock each. What is left when all have as many parts is
 * cut into pieces. Returns the clocks of the busiest one, by this model. */
static inline double cut(winograd *g, int bm, int bn, int slices, int pieces, int multiprocessors) {
  const int all = g->depth / BK, side = g->side;
  g->bm = bm, g->bn = bn, g->tiles_m = ceil_div(g->p.K / g->p.groups, bm), g->tiles_n = ceil_div(g->columns, bn);
  g->pitch_k = g->tiles_m * bm, g->pitch = g->tiles_n * bn;
  g->bound[0] = g->from[0] / bn, g->bound[1] = ceil_div(g->from[1], bn), g->bound[2] = ceil_div(g->from[2], bn);
  const int points[4] = {side * (side - 1), side * side, side * (side - 1), (side - 1) * (side - 1)};
  g->tiles = 0;
  for (int i = 0; i < 4; i++) {
    if (i) g->before[i - 1] = g->tiles;
    g->tiles += ((i < 3 ? g->bound[i] : g->tiles_n) - (i ? g->bound[i - 1] : 0)) * points[i] * g->p.groups * g->tiles_m;
  }
  g->part_steps = ceil_div(all, slices), g->slices = ceil_div(all, g->part_steps);
  const int parts = g->tiles * g->slices, rest = parts % multiprocessors, last_steps = all - (g->slices - 1) * g->part_steps;
  g->piece_steps = rest && rest <= g->tiles ? ceil_div(last_steps, pieces) : last_steps, g->pieces = ceil_div(last_steps, g->piece_steps);
  g->whole = g->pieces > 1 ? parts - rest : parts, g->units = g->whole + (parts - g->whole) * g->pieces;
  /* Rounds of as many parts as fit; then what is `left`, and beside it chains of pieces, one after the other. */
  const int threads = bm * bn / (TM * TN), resident = 512 / threads, grid = resident * multiprocessors;
  g->last_round = g->whole / grid * grid, g->blocks = g->units < grid ? g->units : grid;
  g->resident = ceil_div(g->blocks, multiprocessors), g->early = g->last_round || g->pieces == 1;
  const int left = ceil_div(g->whole - g->last_round, multiprocessors), more = ceil_div(g->units - g->whole, multiprocessors);
  const int chains = more < resident - left ? more : resident - left;
  const double warps = threads / 128.0, part = g->part_steps + end_steps;
  const double chain = chains ? ceil_div(more, chains) * (g->piece_steps + end_steps) : 0, both = chain < part ? chain : part;
  const double steps = g->last_round / multiprocessors * part / efficiency(resident * warps) + (left + chains) * both / efficiency((left + chains) * warps) +
                       left * (part - both) / efficiency(left * warps) + chains * (chain - both) / efficiency(chains * warps);
  const double parted = g->slices + g->pieces > 2 ? sums_clocks : 0;
  const double extra = ((double)g->tiles * (g->slices - 1) + (double)(parts - g->whole) * (g->pieces - 1)) * bm * bn * sizeof(float);
  const double moved = 2 * extra / (16.0 * multiprocessors); /* written and read, 16 bytes a clock */
  return (bm * bn == 64 * 64 ? small_tiles : 1) * steps * warps * (64 * BK) + parted + moved + (g->early ? 0 : gap_clocks);
}

/* Of an image's tiles, down or across, so many are one shorter, that fewer outputs hang over its edge. */
static inline int shorter(int outputs, int size) {
  const int tiles = ceil_div(outputs, size), over = tiles * size - outputs;
  return over < tiles ? over : tiles;
}

static const int winograd_tiles[][2] = {{128, 64}, {64, 128}, {128, 128}, {64, 64}};
enum { WINOGRAD_TILES = sizeof winograd_tiles / sizeof *winograd_tiles };

/* The cut of so many images at a time that takes the fewest clocks. */
static inline winograd cut_for(const conv_problem *f, int size, int images, int multiprocessors) {
  winograd best = {};
  best.p = *f, best.side = size + 2, best.tiles_p = ceil_div(f->P, size), best.tiles_q = ceil_div(f->Q, size), best.images = images;
  best.columns = images * best.tiles_p * best.tiles_q, best.depth = ceil_div(f->C / f->groups, BK) * BK;
  const winograd plain = best;
  double least = INFINITY;
  for (int with_short = 0; with_short < 2; with_short++) {
    winograd g = plain;
    if (with_short) g.short_p = shorter(f->P, size), g.short_q = shorter(f->Q, size);
    const int full_p = g.tiles_p - g.short_p, full_q = g.tiles_q - g.short_q;
    g.from[0] = images * full_p * g.short_q, g.from[1] = images * full_p * g.tiles_q, g.from[2] = g.from[1] + images * g.short_p * full_q;
    for (g.near = 1; with_short && g.near < MOST_NEAR && images % (2 * g.near) == 0;) g.near *= 2;
    for (int i = 0; i < WINOGRAD_TILES; i++)
      for (int slices = 1; slices <= 4; slices++)
        for (int pieces = 1; pieces <= MOST_PIECES; pieces++) {
          const double clocks = cut(&g, winograd_tiles[i][0], winograd_tiles[i][1], slices, pieces, multiprocessors);
          if (clocks < least) least = clocks, best = g;
        }
  }
  return best;
}

/* Floats of U, V and M; U and V in pairs of 64. */
static inline int64_t filter_count(const winograd *g) { return (int64_t)g->side * g->side * g->p.groups * g->depth * ceil_div(g->pitch_k, 128) * 128; }
static inline int64_t patch_count(const winograd *g) { return (int64_t)g->side * g->side * g->p.groups * g->depth * ceil_div(g->pitch, 128) * 128; }
static inline int64_t product_count(const winograd *g) {
  return (int64_t)(g->slices + g->pieces - 1) * g->side * g->side * g->p.groups * g->pitch_k * g->pitch;
}

/* How many images at a time: all, if their V and M are not too large; or else in as few launches as can be, each of as many images. */
static inline int images_of(const conv_problem *f, int size) {
  const double image = (double)(size + 2) * (size + 2) * (f->C + f->K) * ceil_div(f->P, size) * ceil_div(f->Q, size) * sizeof(float);
  const int most = image < launch_bytes() ? (int)(launch_bytes() / image) : 1;
  return ceil_div(f->N, ceil_div(f->N, most));
}

/* NULL and how it is cut, or why not. cuts: of so many images as are done at a time; of those that are left for the last launch, if they are fewer. */
static inline const char *winograd_cuts(const conv_problem *p, conv_pass pass, int size, const conv_device *device, winograd cuts[2]) {
  if (p->R != 3 || p->S != 3) return "only for 3x3 filters";
  if (p->stride_h != 1 || p->stride_w != 1 || p->dil_h != 1 || p->dil_w != 1) return "only for stride 1 without dilation";
  const char *why = plain_unsupported(p, device);
  if (why) return why;
  const conv_problem f = as_fprop(p, pass);
  const int images = images_of(&f, size), left = f.N % images, group_k = f.K / f.groups;
  if ((double)ceil_div(f.P, size) * ceil_div(f.Q, size) * images > INT_MAX / 64) return "too many tiles (indices are 32-bit)";
  const char *too_large = "transformed, a tensor has 2^31 elements or more (indices are 32-bit)";
  const int64_t columns = (int64_t)ceil_div(f.P, size) * ceil_div(f.Q, size) * images, most = INT_MAX - 1024;
  if ((double)(size + 2) * (size + 2) * f.groups * ceil_div(group_k, 64) * ceil_div(columns, 64) > INT_MAX / 16)
    return too_large; /* even the tiles are too many */
  int multiprocessors = device->sm_count;
#ifdef CUDA_EMULATOR
  if (!getenv("EMU_SMS")) multiprocessors = 132; /* the cuts of a GPU are tested without one, too */
#endif
  cuts[0] = cut_for(&f, size, images, multiprocessors);
  cuts[1] = left ? cut_for(&f, size, left, multiprocessors) : cuts[0];
  for (int i = 0; i < 2; i++)
    if (filter_count(&cuts[i]) > most || patch_count(&cuts[i]) > most || product_count(&cuts[i]) > most) return too_large;
  return NULL;
}

static inline size_t winograd_bytes(const winograd *g) { return (size_t)(filter_count(g) + patch_count(g) + product_count(g)) * sizeof(float); }

/* A row of the kernel table. Every output's error depends on all of its tile. */
#define WINOGRAD_ROW(variable, NAME, IDEA, PASS, PLAN, LAUNCH, GROWTH, FACTOR) \
  extern "C" const conv_kernel variable;                                       \
  const conv_kernel variable = {.name = NAME,                                  \
                                .idea = IDEA,                                  \
                                .place = ON_GPU,                               \
                                .pass = PASS,                                  \
                                .dtype = DTYPE_FP32,                           \
                                .layout = LAYOUT_NCHW,                         \
                                .min_arch = 0,                                 \
                                .plan = PLAN,                                  \
                                .launch = LAUNCH,                              \
                                .growth = GROWTH,                              \
                                .exact_factor = FACTOR,                        \
                                .shares_error = true}
