/* Neighbouring pixels as channels: how a row of a few channels is cut into rows of 64 numbers, and filters into bands that fit them. For 06o. */
#pragma once
#include "06_tensorcore_fp16/planes.h"
#include "06_tensorcore_fp16/stages.cuh"

enum { MOST_PIECES = 16, MOST_STEPS = 255, MOST_ROWS = 16, DEPTH = 16 /* of a product */, MATRIX = 64 * DEPTH * 2 /* bytes */ };
enum { AT_A_TIME = 3 /* steps */, NOBODY = 255 /* a filter row that a class has not; no matrix yet */ };

/* Matrices of a, 64 x 16: for each filter row, `count` that lie side by side, from number `begin` of a span on; rows: results from `out` on, or 64 filters of one, from 64
 * `block` on. row: which of its rows is filter row r. */
typedef struct band_matrices {
  short begin, count, first;
  unsigned char out, block, row_class, row[MOST_ROWS];
} band_matrices;

/* A product: its matrix; of what it reads the plane, the row in it from the tile's row on, and the number from the span's first on: a multiple of 16, which may be below 0. */
typedef struct band_step {
  unsigned char matrix, residue;
  short row, number;
} band_step;

/* span_in pixels of the image, `chunks` times 64 numbers, are under span_out results. A piece: 64 rows of a product, `together` results or 64 filters of one, of a class of
 * rows (dgrad with a stride); its steps are first[piece] to first[piece + 1]. */
typedef struct band {
  int from, to;                  /* channels of a pixel that is read, of one that is written */
  int span_in, span_out, chunks; /* pixels; of a span in */
  int together, blocks, pieces;  /* results of a piece; of 64 filters */
  int sets, matrices, zeros, low_w,
      high_w; /* zeros: the matrix of zeros, or NOBODY; low_w, high_w: the first and the last span under a span's windows, from its own on */
  int first[MOST_PIECES + 1];
  unsigned char out[MOST_PIECES], block[MOST_PIECES], row_class[MOST_PIECES];
  band_matrices set[MOST_PIECES];
  band_step step[MOST_STEPS];
} band;

static inline int floor_div(int a, int b) { return a >= 0 ? a / b : -((b - 1 - a) / b); }

/* The first and the last pixel that result `out` reads, or that of `together` from it on; false: none. */
static inline bool reach_of(const conv_problem *p, bool dgrad, int out, int together, int *low, int *high) {
  *low = INT_MAX, *high = INT_MIN;
  for (int i = out; i < out + together; i++)
    for (int s = 0; s < p->S; s++) {
      const int at = dgrad ? i + p->pad_left - s * p->dil_w : i * p->stride_w - p->pad_left + s * p->dil_w;
      if (dgrad && at % p->stride_w != 0) continue;
      const int pixel = dgrad ? at / p->stride_w : at;
      if (pixel < *low) *low = pixel;
      if (pixel > *high) *high = pixel;
    }
  return *low <= *high;
}

/* Spans for so many results together; false: rows are no whole spans. */
static inline bool spans_of(const conv_problem *p, bool dgrad, int together, band *b) {
  const int width = dgrad ? p->Q : p->W, results = dgrad ? p->W : p->Q;
  for (int n = together; n <= results && n <= 64; n += together) {
    if (dgrad && n % p->stride_w != 0) continue;
    b->span_out = n, b->span_in = dgrad ? n / p->stride_w : n * p->stride_w, b->together = together;
    if (b->span_in * (int64_t)b->from % BK != 0) continue;
    b->chunks = b->span_in * b->from / BK;
    return results % n == 0 && width % b->span_in == 0;
  }
  return false;
}

/* The matrices for a piece: those of an earlier one, if its windows are whole products further on; or new ones. NULL: too many. */
static inline const band_matrices *matrices_for(const conv_problem *p, bool dgrad, band *b, int row_class, int out, int block, int begin, int count) {
  for (int i = 0; i < b->sets; i++) {
    const band_matrices *m = &b->set[i];
    const int apart = out - m->out;
    if (m->row_class != row_class || m->block != block || m->count != count || (dgrad && apart % p->stride_w != 0)) continue;
    if (begin - m->begin == (dgrad ? apart / p->stride_w : apart * p->stride_w) * b->from) return m;
  }
  band_matrices *m = &b->set[b->sets++];
  *m = {(short)begin, (short)count, (short)b->matrices, (unsigned char)out, (unsigned char)block, (unsigned char)row_class, {}};
  for (int r = 0; r < MOST_ROWS; r++) {
    const bool own = r < p->R && (!dgrad || tap_of(r, p->stride_h, p->pad_top, p->dil_h, true).residue == row_class);
    m->row[r] = own ? (unsigned char)((b->matrices - m->first) / count) : (unsigned char)NOBODY;
    if (own) b->matrices += count;
  }
  return b->matrices < NOBODY ? m : NULL;
}

/* All steps of a piece; NULL or why not. */
static inline const char *add_piece(const conv_problem *p, bool dgrad, band *b, int row_class, int out, int block) {
  int low, high;
  if (b->pieces == MOST_PIECES) return "a span of more than 16 pieces of 64 results";
  if (!reach_of(p, dgrad, out, b->together, &low, &high)) return "pixels that no tap meets";
  const int begin = floor_div(low * b->from, DEPTH) * DEPTH, count = ((high + 1) * b->from - begin + DEPTH - 1) / DEPTH;
  const band_matrices *m = matrices_for(p, dgrad, b, row_class, out, block, begin, count);
  int steps = b->first[b->pieces];
  for (int r = 0; r < p->R && m; r++) {
    const tap_place row = tap_of(r, p->stride_h, p->pad_top, p->dil_h, dgrad);
    for (int i = 0; i < (m->row[r] == NOBODY ? 0 : count); i++) {
      const int number = begin + i * DEPTH, span = floor_div(number, b->chunks * BK);
      if (steps == MOST_STEPS) return "windows of too many numbers";
      b->step[steps++] = {(unsigned char)(m->first + m->row[r] * count + i), (unsigned char)(dgrad ? 0 : row.residue), (short)row.off, (short)number};
      if (span < b->low_w) b->low_w = span;
      if (span > b->high_w) b->high_w = span;
    }
  }
  if (!m) return "windows of too many numbers";
  if (steps == b->first[b->pieces]) return "pixels that no tap meets";
  for (; (steps - b->first[b->pieces]) % AT_A_TIME != 0; steps++) { /* and zeros, for all there are not */
    if (b->zeros == NOBODY) b->zeros = b->matrices++;
    if (b->matrices >= NOBODY) return "windows of too many numbers";
    b->step[steps] = b->step[steps - 1], b->step[steps].matrix = (unsigned char)b->zeros;
  }
  b->out[b->pieces] = (unsigned char)out, b->block[b->pieces] = (unsigned char)block, b->row_class[b->pieces] = (unsigned char)row_class;
  b->first[++b->pieces] = steps;
  return NULL;
}

/* The bands of a layer; NULL or why there are none. */
static inline const char *band_of(const conv_problem *p, bool dgrad, band *b) {
  *b = {};
  b->zeros = NOBODY;
  b->from = dgrad ? p->K : p->C, b->to = dgrad ? p->C : p->K;
  if (p->groups > 1) return "groups";
  if (p->C % CHUNK != 0 || p->K % CHUNK != 0) return "C or K is no multiple of 8";
  if (b->from > 4 * BK) return "more than 256 channels to read";
  if (p->stride_h > MOST_PLANES || p->stride_w > MOST_PLANES) return "a stride above 4";
  if (p->R > MOST_ROWS || p->S > MOST_ROWS || p->dil_h > 16 || p->dil_w > 16 || p->pad_top > 64 || p->pad_left > 64)
    return "filters of more than 16 rows or columns, a dilation above 16, or padding above 64";
  int together = b->to < BK ? BK / b->to : 1;
  while (together > 0 && !spans_of(p, dgrad, together, b)) together--;
  if (together == 0) return "rows that are no whole pieces of 64 numbers";
  b->blocks = (b->to + BK - 1) / BK;
  for (int row_class = 0; row_class < (dgrad ? p->stride_h : 1); row_class++)
    for (int out = 0; out < b->span_out; out += b->together)
      for (int block = 0; block < b->blocks; block++) {
        const char *why = add_piece(p, dgrad, b, row_class, out, block);
        if (why) return why;
      }
  return NULL;
}
