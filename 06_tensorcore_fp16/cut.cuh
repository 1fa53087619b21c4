/* How blocks that stay cut pixels and filters into tiles for two consumers. From 06f. */
#pragma once
#include "06_tensorcore_fp16/cost.h"
#include "06_tensorcore_fp16/tiles.cuh"

static constexpr int CONSUMERS = 2, BLOCK = (1 + CONSUMERS) * THREADS, MOST_STAGES = 8;

/* How the pixels and filters are cut into tiles. */
typedef struct tile_cut {
  divisor tiles_k, row, image;                      /* by the tiles of filters; by Q; by P Q */
  int filters, filters_apart, pixels, pixels_apart; /* of a tile; from one consumer to the next */
  int tiles, steps, stages, stage /* bytes of a stage */;
} tile_cut;

/* The problem cut into such tiles. */
static tile_cut cut_into(const conv_problem *p, persistent_tile tile, size_t most_shared) {
  tile_cut t = {};
  if (tile.beside) t.filters = WGMMA_M, t.pixels = CONSUMERS * tile.n, t.pixels_apart = tile.n;
  else t.filters = CONSUMERS * WGMMA_M, t.filters_apart = WGMMA_M, t.pixels = tile.n;
  const int tiles_k = (int)ceil_div(p->K, t.filters);
  t.tiles = (int)ceil_div(p->N * p->P * p->Q, t.pixels) * tiles_k;
  t.tiles_k = divisor_of(tiles_k), t.row = divisor_of(p->Q), t.image = divisor_of(p->P * p->Q);
  t.steps = (int)((int64_t)p->R * p->S * ceil_div(p->C, BK)), t.stage = (t.filters + t.pixels) * ROW;
  t.stages = ((int)most_shared - 1024 - CONSUMERS * tile.n * ROW) / t.stage;
  if (t.stages > MOST_STAGES) t.stages = MOST_STAGES;
  return t;
}
