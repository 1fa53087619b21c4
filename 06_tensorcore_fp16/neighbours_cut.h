/* How a layer is cut into tiles of spans, and what that costs. For 06o. */
#pragma once
#include <math.h>

#include "06_tensorcore_fp16/cost.h"
#include "06_tensorcore_fp16/neighbours.h"
#include "06_tensorcore_fp16/tiles.cuh"

static constexpr int CONSUMERS = 2, MOST_STAGES = 4, MOST_N = 256;

/* A tile: `rows` rows of one image (of all classes of them), or `images` whole ones, or `columns` spans of a row of an image that is cut into strips; its halo has `pitch` spans and
 * `halo` rows an image, in each plane and chunk. */
typedef struct band_cut {
  divisor by_q, by_p, by_filter, by_c, by_s, by_stride;         /* by the strips; by the tiles of a strip; by R S C / 8; by C / 8; by S; by stride_w */
  int columns, rows, images, pitch, halo, tiles, stages, stage; /* stage: bytes */
  int planes, chunks, plane, low_h, low_w;                      /* plane: bytes of a chunk of a plane; low_h, low_w: where the halo begins */
  bool both;                                                    /* consumers have every second piece of each tile, not all of every second tile */
  int pieces, matrices, together, first[MOST_PIECES + 1];
  unsigned char place[MOST_PIECES], block[MOST_PIECES],
      row_class[MOST_PIECES]; /* of a piece: its place in a span, its block of 64 filters, its plane of the result */
  unsigned step[MOST_STEPS];  /* where its pixels begin, and from bit 16 on its matrix, in 16 bytes */
  int sets, beside;           /* 2 to the power of beside: filters that neighbours read at the same time */
  band_matrices set[MOST_PIECES];
} band_cut;

/* Where a tile begins. */
typedef struct band_tile {
  int span, row, n;
} band_tile;

static __device__ __forceinline__ band_tile tile_at(const band_cut &t, int i) {
  const int of_q = divide(i, t.by_q), of_p = divide(of_q, t.by_p);
  return {(i - of_q * t.by_q.by) * t.columns, (of_q - of_p * t.by_p.by) * t.rows, of_p * t.images};
}

/* Positions of a tile's spans, from the first to the last, those between rows and images included. */
static int positions(const band_cut *t) { return t->by_q.by > 1 ? t->columns : (t->images > 1 ? t->images * t->halo : t->rows) * t->pitch; }

/* The product that is enough for them. */
static int product_for(int positions) { return positions <= 32 ? 32 : positions <= 64 ? 64 : (positions + 15) / 16 * 16; }

/* The cut into strips of a row (or 1), `rows` rows of each class, or images if those are all; false: it fits into no product, or not twice into what shared memory is left. */
static bool try_cut(const band *b, const plane_tensor *result, tap_range h, int strips, int rows, int images, int64_t room, band_cut *t) {
  const int reach = b->high_w - b->low_w, classes = result->stride_h, class_rows = (result->height + classes - 1) / classes, boxes = t->planes * t->chunks;
  t->columns = (result->width + strips - 1) / strips, t->by_q = divisor_of((result->width + t->columns - 1) / t->columns);
  t->rows = rows, t->images = images, t->pitch = t->columns + reach, t->halo = rows + h.high - h.low;
  if (t->pitch > 256 || t->halo > 256 || positions(t) > MOST_N) return false;
  const int n = product_for(positions(t)), box = t->pitch * t->halo * images, read = n + (h.high - h.low) * t->pitch + reach;
  t->plane = (box + 7) / 8 * 8 * ROW, t->stage = (boxes - 1) * t->plane + ((read > box ? read : box) + 7) / 8 * 8 * ROW;
  room -= t->matrices * MATRIX + CONSUMERS * n * ROW;
  t->stages = room < 0 ? 0 : room / t->stage < MOST_STAGES ? (int)(room / t->stage) : MOST_STAGES;
  t->by_p = divisor_of((class_rows + rows - 1) / rows), t->tiles = t->by_q.by * t->by_p.by * ((result->images + images - 1) / images);
  return t->stages >= CONSUMERS;
}

/* Clocks: launch, bands and the first tile; of each tile the products (a and b are read at 128 bytes a clock; 35 at least), or the bytes of its boxes at 49 a clock, or what each of
 * two consumers has to do, with 570 for the end of a piece; memory's 2000 bytes a clock. The constants come from a fit to 508 cuts of 32 layers and their gradients
 * (docs/results/06_neighbours.md). */
static double clocks_of_cut(const conv_problem *p, const band *b, int sm_count, const band_cut *t) {
  const int n = product_for(positions(t)), tiles = (t->tiles + sm_count - 1) / sm_count, box = t->pitch * t->halo * t->images * ROW * t->planes * t->chunks;
  const double products = b->first[b->pieces] * fmax(1.34 * fmax(n / 2.0, (2048 + 32.0 * n) / 128), 35), end = 570;
  const double of_one = t->both ? tiles * ((b->pieces + 1) / 2) * (products / b->pieces + end) : (tiles + 1) / 2 * (products + b->pieces * end);
  const double all = fmax(tiles * fmax(products, box / 49.0), of_one), memory = problem_bytes(p, PASS_FPROP, DTYPE_FP16) / 2000.0;
  return 3300 + 0.23 * p->K * p->R * p->S * p->C + 45.0 * t->matrices + box / 37.0 + fmax(all, memory) + 0.4 * fmin(all, memory) + end;
}

/* The cut with the fewest clocks, into strips where nothing else fits; false: there is none. */
static bool best_cut(const conv_problem *p, const band *b, const plane_tensor *result, tap_range h, const conv_device *device, band_cut *best) {
  const band_cut all = *best;
  const int rows = (result->height + result->stride_h - 1) / result->stride_h;
  const int64_t room = (int64_t)device->shared_per_block - 1024;
  double least = INFINITY;
  for (int strips = 1; strips <= 16 && strips <= result->width && least == INFINITY; strips++)
    for (int both = 0; both < (b->pieces > 1 ? 2 : 1); both++)
      for (int most = strips > 1      ? 1
                      : rows < MOST_N ? rows
                                      : MOST_N;
           most > 0; most--) /* what lies between a strip's rows would be its neighbour's: such tiles have one */
        for (int images = 1; images <= (strips == 1 && most == rows ? result->images : 1); images++) {
          const int parts = (rows + most - 1) / most;
          band_cut t = all;
          t.both = both;
          if (!try_cut(b, result, h, strips, (rows + parts - 1) / parts, images, room, &t)) break;
          const double clocks = clocks_of_cut(p, b, device->sm_count, &t);
          if (clocks < least) least = clocks, *best = t;
        }
  return least < INFINITY;
}

/* The bands, and how the layer is cut for them; image, result: as tensors of spans. NULL or why not. */
static const char *cut_of(const conv_problem *p, bool dgrad, const conv_device *device, band *b, plane_tensor *image, plane_tensor *result, band_cut *t) {
  const char *why = band_of(p, dgrad, b);
  if (!why) why = plain_unsupported(p, device);
  if (why) return why;
  const plane_tensor x = {p->C, p->W, p->H, p->N, 1, p->stride_h}, y = {p->K, p->Q, p->P, p->N, 1, 1};
  const bool strided = p->stride_h > 1 || p->stride_w > 1;
  *image = dgrad ? y : x, *result = dgrad ? x : y;
  image->channels = b->chunks * BK, image->width /= b->span_in, result->channels = b->span_out * b->to, result->width /= b->span_out;
  if (image->height < image->stride_h || result->height < result->stride_h) return "an image smaller than the stride";
  const tap_range h = range_of(p->R, p->stride_h, p->pad_top, p->dil_h, dgrad);
  t->by_c = divisor_of(p->C / CHUNK), t->by_filter = divisor_of(p->R * p->S * p->C / CHUNK), t->by_s = divisor_of(p->S), t->by_stride = divisor_of(p->stride_w);
  t->planes = image->stride_h, t->chunks = b->chunks, t->low_h = h.low, t->low_w = b->low_w, t->beside = dgrad && strided ? 3 : 0;
  t->pieces = b->pieces, t->matrices = b->matrices, t->sets = b->sets, t->together = b->together;
  if (!best_cut(p, b, result, h, device, t)) return "filters and two tiles do not fit in shared memory";
  for (int i = 0; i < b->pieces; i++)
    t->place[i] = (unsigned char)(b->out[i] / b->together), t->block[i] = b->block[i], t->row_class[i] = b->row_class[i], t->first[i] = b->first[i];
  t->first[b->pieces] = b->first[b->pieces];
  for (int i = 0; i < b->first[b->pieces]; i++) {
    const band_step *step = &b->step[i];
    const int span = floor_div(step->number, b->chunks * BK), of_span = step->number - span * b->chunks * BK;
    const int at = (step->residue * b->chunks + of_span / BK) * t->plane + ((step->row - h.low) * t->pitch + span - b->low_w) * ROW + of_span % BK * 2;
    t->step[i] = (unsigned)(at / 16 + step->matrix * (MATRIX / 16 << 16));
  }
  for (int i = 0; i < b->sets; i++) t->set[i] = b->set[i];
  return NULL;
}
