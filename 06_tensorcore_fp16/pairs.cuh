/* Images of up to four channels as rows of pairs: two neighbouring pixels of four channels each, zeros past the last, are 16 bytes. From 06s, for 06t, too.
 *
 * A position is a result, or with an odd stride two neighbours of a row, so that from one position to the next there is an even number of pixels: so many pairs.
 * Pairs that are so far apart lie next to each other, in a plane: eight positions' pairs are 128 bytes, a core matrix of wgmma without a swizzle, and the next pair
 * of a position's window begins 16 bytes further on (06s has the picture). */
#pragma once
#include <cuda_fp16.h>
#include <limits.h>

#include "06_tensorcore_fp16/tiles.cuh"

static constexpr int PAIR = 16 /* bytes */, PIXEL = 4 /* channels */, RAW_STAGES = 2, EXPANDERS = THREADS / 32 /* warps */;

/* How windows are cut into pairs, and the image into tiles of whole rows. */
typedef struct pair_cut {
  int fold, planes, pairs; /* results of a position; pairs from one position to the next; pairs of a window's row */
  int slots, row;          /* pairs of a plane's row; bytes of a row, all planes */
  int rows, halo, tiles;   /* of the result in a tile, and of x under them */
  int raw, stage;          /* bytes that x takes as it lies, and in pairs */
  divisor by_p;            /* by the tiles of an image */
} pair_cut;

/* What comes of a tile: the rows of x that lie in the image, whole pieces of 16 bytes around them. */
typedef struct raw_rows {
  int n, first, inside; /* image; row of the tile's first window, which may lie outside; the first that does not */
  int64_t from;         /* byte of x */
  int bytes, skip;      /* to be copied; of these, before row `inside` */
} raw_rows;

static __device__ __forceinline__ raw_rows raw_between(const conv_problem &p, int n, int first, int rows) {
  const int inside = max(first, 0), end = min(first + rows, p.H), row = p.W * p.C * 2;
  if (inside >= end) return {n, first, inside, 0, 0, 0};
  const int64_t from = ((int64_t)n * p.H + inside) * row, to = ((int64_t)n * p.H + end) * row;
  return {n, first, inside, from & ~15, (int)(((to + 15) & ~15) - (from & ~15)), (int)(from & 15)};
}
static __device__ __forceinline__ raw_rows raw_of(const conv_problem &p, const pair_cut &t, int tile) {
  const int n = divide(tile, t.by_p);
  return raw_between(p, n, (tile - n * t.by_p.by) * t.rows * p.stride_h - p.pad_top, t.halo);
}

/* By one thread. */
static __device__ __forceinline__ void load_rows(const raw_rows &r, const __half *x, ptx_shared to, ptx_shared full) {
  ptx_mbarrier_arrive_expect_tx(full, r.bytes);
  if (r.bytes > 0) ptx_bulk_load(to, (const char *)x + r.from, r.bytes, full);
}
static __device__ __forceinline__ void load_raw(const conv_problem &p, const pair_cut &t, const __half *x, int tile, ptx_shared to, ptx_shared full) {
  load_rows(raw_of(p, t, tile), x, to, full);
}

/* How the channels of a pixel lie in x, which begins with a word: from which word on, and which bytes of two words are theirs, zeros past the last. Up to three channels of any
 * pixel lie in two words, and so do four, since they begin with a word. */
typedef struct pixel_place {
  int word;
  unsigned low, high; /* __byte_perm's: of the two words, and of the second and zero */
  bool both;          /* or the first only */
} pixel_place;

/* at: the pixel's first half. */
static __device__ __forceinline__ pixel_place place_of(int at, int channels) {
  const bool odd = at & 1;
  const unsigned low = channels == 1 ? odd ? 0x7732 : 0x7710 : odd ? 0x5432 : 0x3210;
  const unsigned high = channels < 3 ? 0x4444 : channels == 3 ? odd ? 0x4432 : 0x4410 : 0x3210;
  return {at >> 1, low, high, (int)odd + channels > 2};
}

/* The pixel so many words further on; zeros outside of the image. */
static __device__ __forceinline__ uint2 pixel_of(const unsigned *x, const pixel_place &at, int further, bool inside) {
  unsigned first = 0, second = 0;
  if (inside) first = x[at.word + further];
  if (inside && at.both) second = x[at.word + further + 1];
  return make_uint2(__byte_perm(first, second, at.low), __byte_perm(second, 0, at.high));
}

/* By four warps: rows, as they came, to rows of pairs; from pixel `left` on, which may lie outside. The first becomes row `at` of a ring of so many. Lanes have neighbouring pairs; from one
 * of a lane's to the next there is an even number of pixels, so all lie alike in their words. */
static __device__ __forceinline__ void expand_rows(const conv_problem &p, const pair_cut &t, const raw_rows &r, int rows, int left, const unsigned char *raw,
                                                   unsigned char *to, int at, int ring) {
  const unsigned *const x = (const unsigned *)raw;
  const int lane = threadIdx.x % 32;
  for (int i = uniform(threadIdx.x / 32 % EXPANDERS); i < rows; i += EXPANDERS) {
    const int h = r.first + i, row = r.skip / 2 + (h - r.inside) * p.W * p.C;
    const bool inside = h >= 0 && h < p.H;
    for (int plane = 0; plane < t.planes; plane++) {
      const int first_w = left + 2 * (lane * t.planes + plane);
      const pixel_place low = place_of(row + first_w * p.C, p.C), high = place_of(row + (first_w + 1) * p.C, p.C);
      unsigned char *const pairs = to + (at + i < ring ? at + i : at + i - ring) * t.row + (plane * t.slots + lane) * PAIR;
#pragma unroll 4
      for (int first = 0; first < t.slots; first += 32) {
        const int w = first_w + 2 * first * t.planes, further = first * t.planes * p.C;
        const bool there = first + lane < t.slots; /* no branch: what several turns load comes at the same time */
        const uint2 left_one = pixel_of(x, low, further, inside && there && (unsigned)w < (unsigned)p.W);
        const uint2 right_one = pixel_of(x, high, further, inside && there && (unsigned)(w + 1) < (unsigned)p.W);
        if (there) *(uint4 *)(pairs + first * PAIR) = make_uint4(left_one.x, left_one.y, right_one.x, right_one.y);
      }
    }
    __syncwarp();
  }
}

/* A tile's rows. */
static __device__ __forceinline__ void expand(const conv_problem &p, const pair_cut &t, int tile, int left, const unsigned char *raw, unsigned char *to) {
  expand_rows(p, t, raw_of(p, t, tile), t.halo, left, raw, to, 0, INT_MAX);
}

/* ---------------------------------------------------------------- host */

/* Windows as pairs; NULL or why not. */
static inline const char *pair_windows(const conv_problem *p, pair_cut *t) {
  if (p->groups > 1) return "groups";
  if (p->C > PIXEL) return "more than four channels";
  if (p->K % CHUNK != 0) return "K is no multiple of 8";
  if (p->dil_w > 1) return "columns are dilated";
  if (problem_x_count(p) % CHUNK != 0) return "x is no multiple of 16 bytes";
  t->fold = p->stride_w % 2 == 1 ? 2 : 1;
  if (p->Q % t->fold != 0) return "an odd stride and an odd number of columns";
  t->planes = t->fold > 1 ? p->stride_w : p->stride_w / 2;
  t->pairs = (int)(((int64_t)p->S + (t->fold - 1) * p->stride_w + 1) / 2);
  return NULL;
}

/* Tiles of `rows` rows, with so many pairs in a plane's row; false: they are larger than shared memory can be. */
static inline bool pair_tiles(const conv_problem *p, int rows, int64_t slots, pair_cut *t) {
  const int64_t halo = (int64_t)(rows - 1) * p->stride_h + (int64_t)(p->R - 1) * p->dil_h + 1;
  if (halo > 1 << 16) return false;
  const int64_t row = slots * t->planes * PAIR, raw = halo * p->W * p->C * 2 + 32;
  if (row > 1 << 18 || halo * row > 1 << 18 || raw > 1 << 18) return false;
  t->slots = (int)slots, t->row = (int)row, t->rows = rows, t->halo = (int)halo;
  t->raw = ((int)raw + 15) / 16 * 16, t->stage = (int)(halo * row);
  t->by_p = divisor_of((p->P + rows - 1) / rows), t->tiles = t->by_p.by * p->N;
  return true;
}
