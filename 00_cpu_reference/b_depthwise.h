/* Depthwise convolution: one filter and one channel per group, R x S products for a pixel and nothing to share with other channels. As a
 * matrix product it would copy each pixel R x S times to use each copy once. Here each is copied once, into a block in L1 with zeros where
 * padding is, so that every tap exists and nothing inside asks where the image ends. What the lanes of a vector are depends on the image:
 *
 *   along:  LANES neighbours in a row of one plane. For wide images. A stride deals a row out into `step` lines (even columns, odd columns), in
 *           which neighbours lie side by side again.
 *   across: one pixel of LANES planes. For narrow ones, of which a row fills no vector: 7 x 7 pixels of 16 channels are 49 full vectors. To get
 *           there and back, 16 pixels of 16 planes are transposed in registers.
 *
 * Either way neighbouring results of one direction (rows; columns) are summed at a time, so that a vector, once loaded, is used by several. */
#pragma once
#include <string.h>

#include "00_cpu_reference/b_view.h"

enum {
  AT_ONCE = REGISTERS == 32 ? 7 : 4, /* results summed at a time: as many chains of additions; images are 7, 14, 28, ... pixels high */
  ALONG_COLUMNS = 256,               /* at most so many columns in a block */
  BAND_FLOATS = 5 * 512,             /* of L1 for a block: 10 KB along rows, where source and result stream through L1 too, 20 KB across */
  BAND_MOST = 32 * 1024,             /* with its factors and sums: a wide filter may need more than L1, but not more than a thread's scratch */
};

/* Pixels [first, first + count) of an axis. */
static inline axis axis_part(axis a, int64_t first, int64_t count) {
  a.result_first += first * a.result_step;
  a.source_first += first * a.source_step;
  a.pixels = min64(count, a.pixels - first);
  return a;
}

/* What an axis reads: `window` source positions from `lowest` on, of which [begin, end) exist, counted from `lowest`. */
typedef struct reading {
  int64_t lowest, window, begin, end;
} reading;

static inline reading axis_reading(const axis *a) {
  const int64_t reach = (a->taps - 1) * a->source_tap;
  reading r = {.lowest = a->source_first + min64(0, reach), .window = (a->pixels - 1) * a->source_step + max64(reach, -reach) + 1};
  r.begin = min64(max64(0, -r.lowest), r.window);
  r.end = max64(r.begin, min64(r.window, a->source_size - r.lowest));
  return r;
}

/* How planes are cut into blocks. */
typedef struct band_cut {
  bool across;
  int64_t rows, columns;   /* of the result, in a block */
  int64_t line, row;       /* floats of the block: along: from even to odd columns; across: LANES. From row to row */
  int64_t floats, scratch; /* of the block; with its factors and sums */
} band_cut;

static inline band_cut band_of(const view *v, bool across, int64_t rows) {
  band_cut c = {.across = across, .rows = min64(rows, v->h.pixels), .columns = across ? v->w.pixels : min64(v->w.pixels, ALONG_COLUMNS)};
  const axis h = axis_part(v->h, 0, c.rows), w = axis_part(v->w, 0, c.columns);
  const reading columns = axis_reading(&w);
  if (across) {
    c.line = LANES;
    c.row = LANES * (max64(w.source_size, columns.lowest + columns.window) - min64(0, columns.lowest)); /* whole rows, and the padding */
  } else {
    c.line = (div_up(div_up(columns.window, w.source_step) + LANES, LINE) | 1) * LINE;
    c.row = c.line * w.source_step;
  }
  c.floats = c.row * axis_reading(&h).window;
  c.scratch = c.floats + LANES * (view_taps(v) + (across ? c.rows * c.columns : AT_ONCE));
  return c;
}

/* As many rows as L1 has room for. Along rows a vector of n pixels costs some 9 multiply-adds and 4 accesses for its copy, across planes 9 and
 * 8 steps of transposing; lanes may stay empty in both. */
static inline band_cut cut_bands(const view *v) {
  const double along = 13 * (double)round_up(v->w.pixels, LANES) / (double)v->w.pixels, across = 17 * (double)round_up(v->groups, LANES) / (double)v->groups;
  const bool is_across = v->w.pixels < LANES || across < along;
  int64_t rows = v->h.pixels;
  band_cut c = band_of(v, is_across, rows);
  while (rows > 1 && (c.floats > (is_across ? 2 : 1) * BAND_FLOATS || c.scratch > BAND_MOST)) rows = div_up(rows, 2), c = band_of(v, is_across, rows);
  return c;
}

static inline bool is_depthwise(const view *v) {
  return v->rows == 1 && v->channels == 1 && view_taps(v) > 0 && view_taps(v) <= MAX_RUNS && cut_bands(v).scratch <= BAND_MOST;
}

/* What is summed: results whose sources lie `step` lines apart. Tap (outer, inner) of one is `tap` * outer lines and at[inner] floats farther. */
typedef struct taps {
  int64_t line, step, tap, outer, inner;
  int at[MAX_RUNS];
  const float *factors; /* [outer][inner][LANES] */
} taps;

static inline taps block_taps(const band_cut *c, const view *v, const float *factors) {
  const axis *h = &v->h, *w = &v->w;
  const int64_t down = max64(h->source_tap, -h->source_tap), right = max64(w->source_tap, -w->source_tap);
  taps t = {.factors = factors};
  if (c->across) t.line = c->line, t.step = w->source_step, t.tap = right, t.outer = w->taps, t.inner = h->taps;
  else t.line = c->row, t.step = h->source_step, t.tap = down, t.outer = h->taps, t.inner = w->taps;
  for (int64_t i = 0; i < t.inner; i++) t.at[i] = (int)(c->across ? i * down * c->row : i * right % w->source_step * c->line + i * right / w->source_step);
  return t;
}

/* Sums of `count` results (a constant), LANES of each. */
INLINE void sum_any(const int count, const taps *t, const float *source, float *to, int64_t to_line) {
  vec sum[AT_ONCE];
  UNROLLED for (int i = 0; i < count; i++) sum[i] = (vec){0};
  const float *factor = t->factors;
  for (int64_t o = 0; o < t->outer; o++, source += t->tap * t->line) {
    for (int64_t n = 0; n < t->inner; n++, factor += LANES) {
      const vec f = *(const vec *)factor;
      UNROLLED for (int i = 0; i < count; i++) sum[i] += f * *(const vec_anywhere *)(source + i * t->step * t->line + t->at[n]);
    }
  }
  UNROLLED for (int i = 0; i < count; i++) * (vec_anywhere *)(to + i * to_line) = sum[i];
}

/* The same for filters of 3 x 3 without gaps and a constant step: factors in registers, each vector of the source loaded once. */
INLINE void sum_3x3(const int count, const int step, const taps *t, const float *source, float *to, int64_t to_line) {
  vec sum[AT_ONCE], factor[9];
  UNROLLED for (int n = 0; n < 9; n++) factor[n] = *(const volatile vec *)(t->factors + n * LANES);
  UNROLLED for (int i = 0; i < count; i++) sum[i] = (vec){0};
  UNROLLED for (int line = 0; line < (count - 1) * step + 3; line++) {
    UNROLLED for (int n = 0; n < 3; n++) {
      const vec pixels = *(const volatile vec_anywhere *)(source + line * t->line + t->at[n]);
      UNROLLED for (int i = 0; i < count; i++) {
        const int outer = line - i * step; /* the tap at which result i reads this line */
        if (outer >= 0 && outer < 3) sum[i] += factor[outer * 3 + n] * pixels;
      }
    }
  }
  UNROLLED for (int i = 0; i < count; i++) * (vec_anywhere *)(to + i * to_line) = sum[i];
}

/* Results [0, count) of one direction. */
#define SUM_ALL(sum)                                                                                                       \
  for (; count >= AT_ONCE; count -= AT_ONCE, source += AT_ONCE * t->step * t->line, to += AT_ONCE * to_line) sum(AT_ONCE); \
  for (; count >= 2; count -= 2, source += 2 * t->step * t->line, to += 2 * to_line) sum(2);                               \
  if (count) sum(1)

static NOINLINE void sum_lines(const taps *t, int64_t count, const float *source, float *to, int64_t to_line) {
#define ANY(n) sum_any(n, t, source, to, to_line)
#define EVERY(n) sum_3x3(n, 1, t, source, to, to_line)
#define SECOND(n) sum_3x3(n, 2, t, source, to, to_line)
  const bool square = t->outer == 3 && t->inner == 3 && t->tap == 1;
  if (square && t->step == 1) {
    SUM_ALL(EVERY);
  } else if (square && t->step == 2) {
    SUM_ALL(SECOND);
  } else {
    SUM_ALL(ANY);
  }
#undef ANY
#undef EVERY
#undef SECOND
}

/* factors[outer][inner][LANES] of groups [first, first + LANES), in the order in which taps lie in the source: along, all lanes have one group's. */
static inline void spread_factors(const band_cut *c, const view *v, const float *filters, int64_t first, float *factors) {
  const axis *h = &v->h, *w = &v->w;
  for (int64_t i = 0; i < h->taps; i++) {
    for (int64_t j = 0; j < w->taps; j++) {
      const int64_t r = h->tap_first + (h->source_tap < 0 ? h->taps - 1 - i : i) * h->tap_step,
                    s = w->tap_first + (w->source_tap < 0 ? w->taps - 1 - j : j) * w->tap_step;
      float *to = factors + (c->across ? j * h->taps + i : i * w->taps + j) * LANES;
      for (int64_t k = 0; k < LANES; k++) to[k] = filters[(c->across ? min64(first + k, v->groups - 1) : first) * v->filter_group + r * v->filter_width + s];
    }
  }
}

/* ---- along rows ---- */

/* Pairs of neighbours: the first of each to `even`, the second to `odd`. lanes: a constant. */
INLINE void deal_pairs(const int lanes, float *restrict even, float *restrict odd, const float *restrict from, int64_t count) {
  for (int64_t j = 0;; j = min64(j + lanes, count - lanes)) {
    for (int k = 0; k < lanes; k++) even[j + k] = from[2 * (j + k)], odd[j + k] = from[2 * (j + k) + 1];
    if (j == count - lanes) break;
  }
}

/* to[j % step][j / step] = from[j] for j in [first, end); lines of `to` are `line` apart. */
INLINE void deal_row(float *to, int64_t line, const float *from, int64_t first, int64_t end, int64_t step) {
  if (step == 1) copy_run(to + first, from + first, end - first, 1);
  else {
    const int64_t pairs = (end - first) / 2;
    if (step == 2 && pairs >= LANES) {
      deal_pairs(LANES, to + first % 2 * line + first / 2, to + (first + 1) % 2 * line + (first + 1) / 2, from + first, pairs);
      first += 2 * pairs;
    }
    for (; first < end; first++) to[first % step * line + first / step] = from[first];
  }
}

/* One block of a plane. block: its zeros are there already. */
static NOINLINE void along_rows(const band_cut *c, const taps *t, const axis *h, const axis *w, const float *source, float *result, float *block, float *sums) {
  const reading rows = axis_reading(h), columns = axis_reading(w);
  const bool direct = w->result_step == 1 && w->pixels >= LANES;
  const int64_t to_row = h->result_step * w->result_size;
  float *to = result + h->result_first * w->result_size + w->result_first;
  int64_t next = rows.begin; /* to be copied */
  for (int64_t i = 0; i < h->pixels; i += AT_ONCE, to += AT_ONCE * to_row, block += AT_ONCE * t->step * t->line) {
    const int64_t now = min64(AT_ONCE, h->pixels - i), last = (i + now - 1) * h->source_step + (h->taps - 1) * t->tap;
    for (; next <= min64(last, rows.end - 1) && columns.begin < columns.end; next++)
      deal_row(block + (next - i * t->step) * c->row, c->line, source + (rows.lowest + next) * w->source_size + columns.lowest, columns.begin, columns.end,
               w->source_step);
    for (int64_t j = 0; j < w->pixels; j += LANES) {
      const int64_t at = direct ? min64(j, w->pixels - LANES) : j; /* the last one overlaps */
      sum_lines(t, now, block + at, direct ? to + at : sums, direct ? to_row : LANES);
      for (int64_t k = 0; k < (direct ? 0 : now); k++) {
        for (int64_t lane = 0; lane < min64(LANES, w->pixels - j); lane++) to[k * to_row + (j + lane) * w->result_step] = sums[k * LANES + lane];
      }
    }
  }
}

/* ---- across planes ---- */

/* Lane k of low becomes a[k] or, where k has bit d, b[k - d]; of high a[k + d] or b[k]. d: a constant. */
INLINE void exchange(const int d, vec *low, vec *high) {
  const vec a = *low, b = *high;
#ifdef __clang__ /* makes shuffles of these itself */
  UNROLLED for (int k = 0; k < LANES; k++)(*low)[k] = k & d ? b[k - d] : a[k], (*high)[k] = k & d ? b[k] : a[k + d];
#else
  typedef int lanes __attribute__((vector_size(4 * LANES), may_alias));
#define LOW(k, d) (k & d ? LANES + k - d : k)
#define HIGH(k, d) (k & d ? LANES + k : k + d)
#define ALL(F, d) \
  { F(0, d), F(1, d), F(2, d), F(3, d), F(4, d), F(5, d), F(6, d), F(7, d), F(8, d), F(9, d), F(10, d), F(11, d), F(12, d), F(13, d), F(14, d), F(15, d) }
  static const int from[4][2][16]
      __attribute__((aligned(64))) = {{ALL(LOW, 1), ALL(HIGH, 1)}, {ALL(LOW, 2), ALL(HIGH, 2)}, {ALL(LOW, 4), ALL(HIGH, 4)}, {ALL(LOW, 8), ALL(HIGH, 8)}};
  const int bit = d == 1 ? 0 : d == 2 ? 1 : d == 4 ? 2 : 3;
  *low = __builtin_shuffle(a, b, *(const lanes *)from[bit][0]), *high = __builtin_shuffle(a, b, *(const lanes *)from[bit][1]);
#endif
}

INLINE void transpose(vec *v) {
  UNROLLED for (int d = 1; d < LANES; d *= 2) { UNROLLED for (int i = 0; i < LANES; i++) if (!(i & d)) exchange(d, &v[i], &v[i + d]); }
}

/* Pixels [0, count) of LANES planes to block[pixel][LANES], and back. In the block rows of `columns` pixels are `row` floats apart; sums have no gaps.
 * What is left over is a tile that overlaps the one before, or one by one. */
INLINE int64_t in_tiles(int64_t count) { return count < LANES || count % LANES <= 2 ? count - count % LANES : count; }

static NOINLINE void to_lanes(const float *const *planes, int64_t count, int64_t columns, int64_t row, float *block) {
  const int64_t tiled = in_tiles(count);
  for (int64_t i = 0; i < tiled; i += LANES) {
    const int64_t first = min64(i, count - LANES);
    vec v[LANES];
    UNROLLED for (int k = 0; k < LANES; k++) v[k] = *(const vec_anywhere *)(planes[k] + first);
    transpose(v);
    int64_t column = first % columns;
    float *to = block + first / columns * row + column * LANES;
    UNROLLED for (int k = 0; k < LANES; k++) {
      *(vec *)to = v[k];
      to += ++column == columns ? row - (columns - 1) * LANES : LANES;
      column = column == columns ? 0 : column;
    }
  }
  for (int64_t i = tiled; i < count; i++) {
    for (int k = 0; k < LANES; k++) block[i / columns * row + i % columns * LANES + k] = planes[k][i];
  }
}

static NOINLINE void from_lanes(const float *sums, int64_t count, float *const *planes) {
  const int64_t tiled = in_tiles(count);
  for (int64_t i = 0; i < tiled; i += LANES) {
    const int64_t first = min64(i, count - LANES);
    vec v[LANES];
    UNROLLED for (int k = 0; k < LANES; k++) v[k] = *(const vec *)(sums + (first + k) * LANES);
    transpose(v);
    UNROLLED for (int k = 0; k < LANES; k++) * (vec_anywhere *)(planes[k] + first) = v[k];
  }
  for (int64_t i = tiled; i < count; i++) {
    for (int k = 0; k < LANES; k++) planes[k][i] = sums[i * LANES + k];
  }
}

/* One block of `planes` planes of an image. */
static NOINLINE void across_planes(const band_cut *c, const taps *t, const view *v, const axis *h, const axis *w, const float *source, int64_t planes,
                                   float *result, float *block, float *sums) {
  const reading rows = axis_reading(h), columns = axis_reading(w);
  const int64_t origin = min64(0, columns.lowest);
  const float *from[LANES];
  float *to[LANES];
  for (int64_t k = 0; k < LANES; k++) { /* lanes without a plane do the last one's work again */
    from[k] = source + min64(k, planes - 1) * view_source_plane(v) + (rows.lowest + rows.begin) * w->source_size;
    to[k] = result + min64(k, planes - 1) * view_result_plane(v) + h->result_first * w->result_size + w->result_first;
  }
  to_lanes(from, (rows.end - rows.begin) * w->source_size, w->source_size, c->row, block + rows.begin * c->row - origin * LANES);
  const float *first = block + (columns.lowest - origin) * LANES;
  for (int64_t i = 0; i < h->pixels; i++) sum_lines(t, w->pixels, first + i * h->source_step * c->row, sums + i * w->pixels * LANES, LANES);
  if (h->result_step == 1 && w->result_step == 1 && w->pixels == w->result_size) from_lanes(sums, h->pixels * w->pixels, to);
  else
    for (int64_t i = 0; i < h->pixels * w->pixels; i++) {
      const int64_t at = i / w->pixels * h->result_step * w->result_size + i % w->pixels * w->result_step;
      for (int k = 0; k < LANES; k++) to[k][at] = sums[i * LANES + k];
    }
}

/* All of a view, shared out among the threads of the parallel region that calls. */
static inline void depthwise(const view *v, const band_cut *c, int threads, const float *filters, const float *source, float *result, float *scratch) {
  enum { TASKS_MANY = 32 }; /* for a thread */
  const int64_t planes = c->across ? LANES : 1, sets = div_up(v->groups, planes);
  const int64_t bands = div_up(v->h.pixels, c->rows), parts = div_up(v->w.pixels, c->columns), tasks = v->images * sets * bands * parts;
  float *block = scratch, *factors = block + c->floats, *sums = factors + view_taps(v) * LANES;
  const taps t = block_taps(c, v, factors);
  int64_t zeros_of = -1, factors_of = -1;
#pragma omp for schedule(dynamic, (int)max64(1, tasks / (TASKS_MANY * threads)))
  for (int64_t i = 0; i < tasks; i++) {
    /* Across, the images are innermost: they share factors. Along, one plane after the other, as they lie. */
    const int64_t place = i % (bands * parts), rest = i / (bands * parts);
    const int64_t set = c->across ? rest / v->images : rest % sets, image = c->across ? rest % v->images : rest / sets;
    const axis h = axis_part(v->h, place / parts * c->rows, c->rows), w = axis_part(v->w, place % parts * c->columns, c->columns);
    const int64_t plane = image * v->groups + set * planes;
    const float *from = source + plane * view_source_plane(v);
    float *to = result + plane * view_result_plane(v);
    if (zeros_of != place % parts) memset(block, 0, sizeof(float) * c->floats), zeros_of = place % parts;
    const reading rows = axis_reading(&h); /* columns of zeros stay from block to block, rows come and go */
    memset(block, 0, sizeof(float) * rows.begin * c->row);
    memset(block + rows.end * c->row, 0, sizeof(float) * (rows.window - rows.end) * c->row);
    if (factors_of != set) spread_factors(c, v, filters, set * planes, factors), factors_of = set;
    if (c->across) across_planes(c, &t, v, &h, &w, from, min64(planes, v->groups - set * planes), to, block, sums);
    else along_rows(c, &t, &h, &w, from, to, block, sums);
  }
}
