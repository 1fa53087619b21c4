/* Neighbouring pixels as channels: how a row of a few channels is cut into rows of 64 numbers, and filters into bands that fit them. For 06o. */
#pragma once
#include "06_tensorcore_fp16/planes.h"
#include "06_tensorcore_fp16/stages.cuh"

enum { MOST_PIECES = 16, MOST_STEPS = 255, MOST_MATRICES = 96, DEPTH = 16 /* of a product */, MATRIX = 64 * DEPTH * 2 /* bytes */ };

/* 64 x 16 of a: of filter row r, rows for the results from number `out` of a span on (or 64 filters of one, from 64 `block` on), columns for the numbers from `begin`
 * on, counted from the first that the halo has. */
typedef struct band_matrix {
  short begin;
  unsigned char r, out, block;
} band_matrix;

/* A product: its matrix; the plane and the row, counted from a window's number on, of what it reads, and the number in the span, a multiple of 16. */
typedef struct band_step {
  unsigned char matrix, residue;
  short row, number;
} band_step;

/* span_in pixels of the image, `chunks` times 64 numbers, are under span_out results. A piece: 64 rows of a product, `together` results or 64 filters of one, of a class of
 * rows (dgrad with a stride); its steps are first[piece] to first[piece + 1]. */
typedef struct band {
  int from, to, span_in, span_out, chunks, together, blocks; /* channels read, written; ... */
  int pieces, matrices, low_w, high_w;                       /* low_w, high_w: the first and the last span under a window, from its own on */
  int first[MOST_PIECES + 1];
  unsigned char out[MOST_PIECES], block[MOST_PIECES], row_class[MOST_PIECES];
  band_matrix matrix[MOST_MATRICES];
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

/* The matrix for filter row r and these numbers: one that is there already, if it is for other results as far on as the numbers are. -1: too many. */
static inline int matrix_for(const conv_problem *p, bool dgrad, band *b, int number, int r, int out, int block) {
  for (int i = 0; i < b->matrices; i++) {
    const band_matrix *m = &b->matrix[i];
    const int apart = out - m->out;
    if (m->r != r || m->block != block || (dgrad && apart % p->stride_w != 0)) continue;
    if (number - m->begin == (dgrad ? apart / p->stride_w : apart * p->stride_w) * b->from) return i;
  }
  if (b->matrices == MOST_MATRICES) return -1;
  b->matrix[b->matrices] = {(short)number, (unsigned char)r, (unsigned char)out, (unsigned char)block};
  return b->matrices++;
}

/* All steps of a piece; NULL or why not. */
static inline const char *add_piece(const conv_problem *p, bool dgrad, band *b, int row_class, int out, int block) {
  int low, high;
  if (b->pieces == MOST_PIECES) return "a span of more than 16 pieces of 64 results";
  if (!reach_of(p, dgrad, out, b->together, &low, &high)) return "pixels that no tap meets";
  int count = b->first[b->pieces];
  const int begin = floor_div(low * b->from, DEPTH) * DEPTH;
  for (int r = 0; r < p->R; r++) {
    const tap_place row = tap_of(r, p->stride_h, p->pad_top, p->dil_h, dgrad);
    if (dgrad && row.residue != row_class) continue;
    for (int number = begin; number < (high + 1) * b->from; number += DEPTH) {
      const int matrix = matrix_for(p, dgrad, b, number, r, out, block), span = floor_div(number, b->chunks * BK);
      if (matrix < 0 || count == MOST_STEPS) return "windows of too many numbers";
      b->step[count++] = {(unsigned char)matrix, (unsigned char)(dgrad ? 0 : row.residue), (short)row.off, (short)number};
      if (span < b->low_w) b->low_w = span;
      if (span > b->high_w) b->high_w = span;
    }
  }
  if (count == b->first[b->pieces]) return "pixels that no tap meets";
  b->out[b->pieces] = (unsigned char)out, b->block[b->pieces] = (unsigned char)block, b->row_class[b->pieces] = (unsigned char)row_class;
  b->first[++b->pieces] = count;
  return NULL;
}

/* The bands of a layer; NULL or why there are none. */
static inline const char *band_of(const conv_problem *p, bool dgrad, band *b) {
  *b = {};
  b->from = dgrad ? p->K : p->C, b->to = dgrad ? p->C : p->K;
  if (p->groups > 1) return "groups";
  if (p->C % CHUNK != 0 || p->K % CHUNK != 0) return "C or K is no multiple of 8";
  if (b->from > BK) return "more than 64 channels to read";
  if (p->stride_h > MOST_PLANES || p->stride_w > MOST_PLANES) return "a stride above 4";
  if (p->R > 16 || p->S > 16 || p->dil_h > 16 || p->dil_w > 16 || p->pad_top > 64 || p->pad_left > 64 || p->pad_top < -64 || p->pad_left < -64)
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
  for (int i = 0; i < b->matrices; i++) b->matrix[i].begin = (short)(b->matrix[i].begin - b->low_w * b->chunks * BK);
  return NULL;
}
