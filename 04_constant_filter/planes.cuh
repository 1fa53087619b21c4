/* What 04j and 04k share: how the planes of a depthwise layer in fp32 NCHW are dealt out to the lanes of warps.
 *
 * A convolution with stride T has a fine image, x, and a coarse one, y: column q of y belongs to columns T*q ... T*q + T-1 of x. A lane has a tile,
 * COLS columns of the coarse image and the same part of the fine one. Lanes beside each other have tiles beside each other. A row of both
 * images that takes 32 tiles or fewer is a segment, and a warp has as many segments as fit: of as many images, or further down in the same.
 *
 *   14 columns, T = 1, COLS = 2:   |-1-0-1-2-3-4-5-6-|  7 lanes a segment, 4 segments a warp
 *
 * Pixels beside a lane's own come from its neighbours' registers; beyond a segment's end there are zeros, the padding. A row of more tiles is cut
 * into groups of 32 lanes, of which the first and the last `margin` only load. */
#pragma once
#include <cuda_runtime.h>
#include <stdio.h>

#include "common/harness/plain.h"

enum { WARPS = 4, THREADS = 32 * WARPS, STRIP = 7 /* rows of the coarse image that a segment has: many images have 7, 14, 28 or 56 */ };

typedef struct planes_walk {
  int tiles, margin; /* a segment's tiles; lanes before and after them that only load */
  unsigned lanes;    /* of a segment. unsigned: a division takes half the instructions */
  int segments;      /* of a warp */
  int groups;        /* segments that a row is cut into */
  unsigned strips;   /* of a plane */
  int tasks;         /* of a channel: images * strips */
  unsigned filters;  /* of a channel of x: K / C */
} planes_walk;

/* Which lane I am. place: in my segment, 0 to lanes - 1; tile: of my row, may lie outside. owns: the tile is mine, not only loaded. */
typedef struct planes_lane {
  int segment, place, tile;
  bool owns;
} planes_lane;

static __device__ __forceinline__ planes_lane planes_find(planes_walk walk, int group) {
  planes_lane me;
  const unsigned lane = threadIdx.x % 32;
  me.segment = lane / walk.lanes;
  me.place = lane % walk.lanes;
  me.tile = group * walk.tiles + me.place - walk.margin;
  me.owns = me.segment < walk.segments && me.place >= walk.margin && me.place < walk.margin + walk.tiles;
  return me;
}

/* COUNT neighbouring columns in one load if `whole`; then the last column is inside if the first is. */
template <int COUNT, bool WHOLE>
static __device__ __forceinline__ void load_columns(float (&columns)[COUNT], const float *from, bool inside, bool last_inside) {
  if constexpr (COUNT == 4) {
    const float4 four = inside ? *(const float4 *)from : make_float4(0, 0, 0, 0);
    columns[0] = four.x, columns[1] = four.y, columns[2] = four.z, columns[3] = four.w;
  } else if constexpr (COUNT == 2 && WHOLE) {
    const float2 two = inside ? *(const float2 *)from : make_float2(0, 0);
    columns[0] = two.x, columns[1] = two.y;
  } else {
    columns[0] = inside ? from[0] : 0;
    if constexpr (COUNT == 2) columns[1] = last_inside ? from[1] : 0;
  }
}

/* A lane's columns of a row, and BEFORE and AFTER more from its neighbours. All 32 lanes of a warp call it together. */
template <int BEFORE, int COUNT, int AFTER>
static __device__ __forceinline__ void widen_row(float (&row)[BEFORE + COUNT + AFTER], const float (&mine)[COUNT], int place, int lanes) {
#pragma unroll
  for (int j = 0; j < BEFORE + COUNT + AFTER; j++) {
    const int away = (j - BEFORE + 32 * COUNT) / COUNT - 32, column = (j - BEFORE + 32 * COUNT) % COUNT; /* lanes to the right; which of its columns */
    row[j] = away < 0   ? __shfl_up_sync(0xffffffff, mine[column], -away)
             : away > 0 ? __shfl_down_sync(0xffffffff, mine[column], away)
                        : mine[column]; /* away is known when compiling */
    if (away != 0 && (place + away < 0 || place + away >= lanes)) row[j] = 0;
  }
}

/* ---------------------------------------------------------------- host */

/* 3x3, 5x5 or 7x7, padding SIZE / 2 before the image, no dilation, one stride of 1 or 2; sizes that a grid has room for. */
static inline bool planes_have(const conv_problem *p) {
  const bool square = p->R == p->S && (p->S == 3 || p->S == 5 || p->S == 7) && p->pad_top == p->S / 2 && p->pad_left == p->S / 2;
  const bool in_a_grid =
      p->K <= 65535 && p->N * (p->P / STRIP + p->H / STRIP + 1) <= 65535 && p->W <= 1 << 20 && p->Q <= 1 << 20; /* its second and third dimension */
  return square && in_a_grid && p->dil_h == 1 && p->dil_w == 1 && p->stride_h == p->stride_w && p->stride_h <= 2;
}

/* COLS: as many columns as one load takes, and both images' widths divide by. */
static inline int planes_cols(const conv_problem *p) {
  const int most = 4 / p->stride_w;
  for (int cols = most; cols > 1; cols /= 2)
    if (p->Q % cols == 0 && p->W % (p->stride_w * cols) == 0) return cols;
  return 1;
}

/* What a row of 04j's and 04k's tables of kernels is for: the first template parameters of its kernel. */
typedef struct planes_key {
  int size, stride, cols;
  bool whole;
} planes_key;

static inline bool planes_is_for(planes_key key, const conv_problem *p) {
  return key.size == p->S && key.stride == p->stride_w && key.cols == planes_cols(p) && key.whole == (p->W % p->stride_w == 0);
}

static inline void planes_words(conv_plan *plan, const planes_walk *walk, int cols) {
  snprintf(plan->words, sizeof plan->words, "%d columns a lane, %d planes or strips side by side in a warp", cols, walk->segments);
}

/* `rows`: of the image whose rows the strips divide, `strip` of them each. */
static inline planes_walk planes_plan(const conv_problem *p, int rows, int strip) {
  const int cols = planes_cols(p), fine = p->stride_w * cols, in_y = (p->Q + cols - 1) / cols, in_x = (p->W + fine - 1) / fine,
            tiles = in_y > in_x ? in_y : in_x;
  planes_walk walk;
  walk.margin = tiles <= 32 ? 0 : (p->S / 2 + fine - 1) / fine;
  walk.groups = (tiles + 31 - 2 * walk.margin) / (32 - 2 * walk.margin);
  walk.tiles = (tiles + walk.groups - 1) / walk.groups;
  walk.segments = 32 / (walk.tiles + 2 * walk.margin);
  walk.lanes = (unsigned)(walk.tiles + 2 * walk.margin);
  walk.strips = (unsigned)((rows + strip - 1) / strip);
  walk.tasks = p->N * ((rows + strip - 1) / strip);
  walk.filters = (unsigned)(p->K / p->C);
  return walk;
}
