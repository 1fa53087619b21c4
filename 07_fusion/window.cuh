/* Windows that slide by descriptors: how images are cut into halo tiles. From 06g, but that shared memory may be wanted for other things, too. */
#pragma once
#include "06_tensorcore_fp16/tiles.cuh"

static constexpr int CONSUMERS = 2, BLOCK = (1 + CONSUMERS) * THREADS, TAP = WGMMA_M * ROW /* bytes of a tap's filters */, MOST_STAGES = 4, MOST_N = 256;
static constexpr int MOST_TAPS = 32;
static constexpr int products[] = {64, 120, 176, 208, 232, 256}; /* what kernels are made for: fewer than 06g's, since each stands here with all epilogues */
static constexpr int HALF = 1, WHOLE = 5;                        /* of them, with an exponential behind it: long code */

/* A tile of y: `rows` rows of one image, or `images` whole ones; its halo tile has `pitch` columns and `halo` rows an image. */
typedef struct window_cut {
  divisor by_p;                                        /* by the tiles of an image */
  int rows, images, pitch, halo, tiles, stages, stage; /* stage: bytes */
} window_cut;

/* The number of the smallest product that is enough: there is one. */
static inline int product_number(int positions, bool smooth) {
  int i = smooth ? HALF : 0;
  while (products[i] < positions) i = smooth ? WHOLE : i + 1;
  return i;
}
static inline int product_for(int positions, bool smooth) { return products[product_number(positions, smooth)]; }

/* Positions of a tile's outputs, from the first to the last, those between rows and images included. */
static inline int positions(const conv_problem *p, const window_cut *t) { return ((t->images - 1) * t->halo + t->rows - 1) * t->pitch + p->Q; }

/* Pixels of a tile's results in shared memory: a box of the copy engine, or a product; whole swizzles of 8. */
static inline int box_pixels(const conv_problem *p, const window_cut *t, bool smooth) {
  const int box = t->pitch * (t->images > 1 ? t->halo : t->rows) * t->images, product = product_for(positions(p, t), smooth);
  return ((box > product ? box : product) + 7) / 8 * 8;
}

/* The cut into tiles of `rows` rows, or of images if those are all, with so many boxes of results beside them; false: it fits into no product of at most `most`, or not twice into
 * what shared memory is left. */
static inline bool try_cut(const conv_problem *p, int rows, int images, int64_t room, int boxes, bool smooth, int most, window_cut *t) {
  t->rows = rows, t->images = images, t->pitch = p->Q + (p->S - 1) * p->dil_w, t->halo = rows + (p->R - 1) * p->dil_h;
  if (t->halo > 256 || positions(p, t) > most) return false;
  /* A stage has room for the box, and for what the last tap reads from there. */
  const int box = t->pitch * t->halo * images, read = product_for(positions(p, t), smooth) + (p->R - 1) * p->dil_h * t->pitch + (p->S - 1) * p->dil_w;
  t->stage = ((read > box ? read : box) + 7) / 8 * 8 * ROW;
  room -= (int64_t)boxes * box_pixels(p, t, smooth) * ROW;
  t->stages = room < t->stage ? 0 : room / t->stage < MOST_STAGES ? (int)(room / t->stage) : MOST_STAGES;
  t->by_p = divisor_of((p->P + rows - 1) / rows), t->tiles = t->by_p.by * ((p->N + images - 1) / images);
  return t->stages >= CONSUMERS;
}

/* The cut whose fullest multiprocessor has the least to do: products, and a little for each tile's beginning. */
static inline bool best_cut(const conv_problem *p, int64_t room, int boxes, bool smooth, int sm_count, window_cut *best, int most = MOST_N) {
  int64_t least = INT64_MAX;
  for (int parts = 1; parts <= p->P; parts++)
    for (int images = 1; images <= (parts == 1 ? p->N : 1); images++) {
      window_cut t;
      if (!try_cut(p, (p->P + parts - 1) / parts, images, room, boxes, smooth, most, &t)) break;
      const int64_t cost = (int64_t)((t.tiles + sm_count - 1) / sm_count) * (p->R * p->S * 2 * product_for(positions(p, &t), smooth) + 300);
      if (cost < least) least = cost, *best = t;
    }
  return least < INT64_MAX;
}
