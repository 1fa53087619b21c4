/* How dw is cut for 06l and 06n, and what that costs. */
#pragma once
#include "06_tensorcore_fp16/cost.h"
#include "06_tensorcore_fp16/pixels.cuh"

/* What L2 fetches of x and dy where it has not got what is read: a row of a wide box, two of a narrow one. With 256 bytes, as for other kernels, layers that memory limits took
 * longer (docs/results/06_training.md). */
static constexpr CUtensorMapL2promotion FETCH = CU_TENSOR_MAP_L2_PROMOTION_L2_128B;

/* Which tiles are a party: each alone, those of the same columns, all. */
enum { ONE_TILE, SAME_COLUMNS, ALL_TILES, PARTIES };

/* What the blocks of a pair share: the columns and so x, or the filters and so dy. */
enum { NO_PAIR, SHARED_X, SHARED_DY };

/* Up to four boxes a product, or two beside each other (both consumers with the same 64 filters): with more, a ring has fewer stages than producers. Of the narrow
 * boxes only where each block has a tile to itself: 160 columns fill more multiprocessors then, and nobody has sums to share. */
typedef struct pixel_shape {
  int channels, n; /* of a box; boxes of a product */
  bool beside;
} pixel_shape;
static const pixel_shape pixel_shapes[] = {{WIDE, 1, true},  {WIDE, 1, false}, {WIDE, 2, false},  {WIDE, 3, false},
                                           {WIDE, 4, false}, {WIDE, 2, true},  {NARROW, 5, false}};

/* In at most so many blocks; party, pair: of the above. False: more than can be counted, or a party has more tiles than there are blocks, or
 * narrow boxes would leave parts. */
static bool cut_into(const conv_problem *p, pixel_shape shape, int pair, int party, int blocks, pixel_cut *t) {
  const int parts_c = (int)ceil_div(p->C, shape.channels), steps = (int)ceil_div((int64_t)p->N * p->P * p->Q, PIXELS);
  *t = {};
  t->row = divisor_of(p->Q), t->image = divisor_of(p->P * p->Q), t->steps = divisor_of(steps);
  t->parts_c = divisor_of(parts_c), t->columns = divisor_of(p->S);
  t->channels = shape.channels, t->n = shape.n, t->pair = pair == NO_PAIR ? 1 : 2;
  if (shape.beside) t->filters = WIDE, t->boxes = CONSUMERS * t->n, t->boxes_apart = t->n;
  else t->filters = CONSUMERS * WIDE, t->filters_apart = WIDE, t->boxes = t->n;
  if (pair == SHARED_X) t->filters_next = t->filters;
  if (pair == SHARED_DY) t->boxes_next = t->boxes;
  const int tiles_k = (int)ceil_div(p->K, t->filters + t->filters_next);
  const int64_t all = (int64_t)p->R * p->S * parts_c, tiles = ceil_div(all, t->boxes + t->boxes_next) * tiles_k;
  const int64_t together = party == ONE_TILE ? 1 : party == SAME_COLUMNS ? tiles_k : tiles;
  if (together * t->pair > blocks || tiles / together * steps > INT_MAX / 2) return false;
  t->tiles_k = divisor_of(tiles_k), t->all = (int)all;
  t->party = divisor_of((int)together), t->parties = (int)(tiles / together), t->total = t->parties * steps;
  t->each = divisor_of((int)ceil_div(t->total, blocks / t->pair / (int)together)), t->units = (int)ceil_div(t->total, t->each.by);
  t->stage = t->filters * ROW + t->boxes * PIXELS * 2 * t->channels;
  return t->channels == WIDE || (pair == NO_PAIR && alone(*t));
}

static int columns_of(const pixel_cut *t) { return t->n * t->channels; } /* of a product */
static int tiles_of(const pixel_cut *t) { return t->parties * t->party.by; }
static int blocks_of(const pixel_cut *t) { return t->units * t->party.by * t->pair; }

/* Bytes of all parts: sums in fp32. */
static int64_t parts_bytes(const pixel_cut *t) {
  return alone(*t) ? 0 : (int64_t)(t->parties + t->units - 1) * t->party.by * t->pair * CONSUMERS * (columns_of(t) / 8) * THREADS * (int)sizeof(float4);
}

/* Of a byte that several blocks want at about the same time, what each of them waits for. */
static double wanted_by(int blocks) { return 0.68 + 0.32 / blocks; }

/* Clocks: a launch, a block's steps, its tiles' ends, and a second kernel, for which sums are written and read. The constants come from a fit: five cuts each of 15 layers
 * of ResNet-50 with 32 and with 256 images (docs/06_training.md). Products take 1.22 times their clocks: the waits between them, and the clock where power decides. A
 * multiprocessor gets 41 bytes a clock out of L2, and more of what its neighbours want; of what a pair shares, each block asks for half. Of what does not stay in L2,
 * memory brings 2000 bytes a clock: once, if all tiles are one party, or for every row and column of tiles. */
static double clocks_of_cut(const conv_problem *p, const pixel_cut *t) {
  const double x = 2.0 * p->N * p->H * p->W * p->C, dy = 2.0 * p->N * p->P * p->Q * p->K, ends = 1 + (double)t->each.by / t->steps.by;
  const int columns = tiles_of(t) / t->tiles_k.by, with_x = t->party.by > 1 ? t->tiles_k.by : 1, with_dy = t->parties == 1 ? columns : 1;
  const double memory = (x + dy < 40e6 || t->parties == 1 ? x + dy : x * t->tiles_k.by + dy * columns) / 2000;
  const double bytes_dy = t->filters * ROW * wanted_by(with_dy) * (t->boxes_next > 0 ? 0.5 : 1);
  const double bytes_x = t->boxes * PIXELS * 2 * t->channels * wanted_by(with_x) * (t->filters_next > 0 ? 0.5 : 1);
  const double steps = t->each.by * fmax(1.22 * 2 * CONSUMERS * columns_of(t), (bytes_x + bytes_dy) / 41);
  return 2500 + fmax(steps, memory) + 0.13 * fmin(steps, memory) + ends * clocks_of_end(columns_of(t)) + (alone(*t) ? 0 : parts_bytes(t) / 1350.0 + 1100) +
         (t->pair > 1 ? 500 : 0);
}

/* The cheapest of them with each kind of party, and with pairs that share x or dy or, first_pair being last_pair being NO_PAIR, without. Its clocks; INFINITY: none
 * can be counted. */
static double best_cut(const conv_problem *p, int sm_count, int first_pair, int last_pair, pixel_cut *best) {
  double least = INFINITY;
  for (int pair = first_pair; pair <= last_pair; pair++)
    for (int i = 0; i < PARTIES * (int)(sizeof pixel_shapes / sizeof *pixel_shapes); i++) {
      pixel_cut t;
      if (!cut_into(p, pixel_shapes[i / PARTIES], pair, i % PARTIES, sm_count, &t)) continue;
      const double clocks = clocks_of_cut(p, &t);
      if (clocks < least) least = clocks, *best = t;
    }
  return least;
}

/* A ring as long as there is room beside a block of the second kernel, which begins early. */
static int stages_of(const pixel_cut *t, const conv_device *device) {
  const int room = ((int)device->shared_per_block - 1024 - ADDED) / t->stage;
  return room < MOST_STAGES ? room : MOST_STAGES;
}

/* Lanes of the second kernel. */
static int lanes_of(const pixel_cut *t) {
  const int most = (int)ceil_div(t->steps.by, t->each.by) + 1; /* parts of a tile */
  return most < 4 ? 1 : most < 4 * MOST_LANES ? most / 4 : MOST_LANES;
}

/* An accumulator takes one product after the other, which adds 16 pixels and what it was, at most for all steps; then the parts, of which each has a step, in
 * lanes. */
static double growth_of_pixels(const conv_problem *p, bool random) {
  const double steps = (double)ceil_div((int64_t)p->N * p->P * p->Q, PIXELS);
  return growth_truncated(steps * (PIXELS / 16) * (16 + 1) + steps + MOST_LANES, random);
}
