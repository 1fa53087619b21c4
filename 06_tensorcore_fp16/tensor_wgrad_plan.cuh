/* How 06r divides its work: see there. */
#pragma once
#include <math.h>

#include "common/conv/problem.h"

enum { OCTET = 8, GROUP = 16, STAGES = 2, MOST_PIXELS = 64, MOST_COLUMNS = 58, SUM_LANES = 32, MOST_BLOCKS = 1024, FEW_BLOCKS = 2 * 132 };

/* How the work is divided. An "image" is a tile of `columns` columns of dy of one image; a block walks down `images` of them at a time, on
 * `octets` x 8 channels. A walk is `strip` rows of dy; a block has walks one after the other and writes one part of the sums. */
typedef struct wgrad_plan {
  int columns, tiles, images, octets, chunks;
  int strip, strips, walks, parts;
  int width, real, image_pitch; /* columns of x under an image's filters; those that can lie in x; slots in a row of the ring */
  int x_bytes, dy_bytes;        /* a row of all images in shared memory */
  int pixels, groups, shared;   /* of dy in a row of all images; of 16 of them; bytes */
} wgrad_plan;

/* Rows of dy that one row of x meets, at most: as FLIGHT in 04g. */
static __host__ __device__ constexpr int flight(int size, int stride) { return (size - 1) / stride + 1; }
/* Filter rows d, d + stride, ... */
static __host__ __device__ constexpr int filter_rows(int size, int stride, int d) { return (size - d + stride - 1) / stride; }
/* mmas for them: two rows at a time with every shift, then a last row with two shifts at a time. */
static __host__ __device__ constexpr int products(int size, int rows) { return rows / 2 * size + rows % 2 * ((size + 1) / 2); }
/* Blocks that a multiprocessor's registers shall hold. */
static __host__ __device__ constexpr int resident_blocks(int size, int stride, int octets) {
  if (size == 7) return 2;
  if (size == 5) return stride == 1 ? 4 : 3;
  return octets == 6 ? 3 : stride == 1 ? 5 : 4;
}
/* Bytes from a pixel to the next in shared memory: an odd multiple of 16, so that 8 neighbours lie in different banks. */
static __host__ __device__ constexpr int pitch_of(int octets) { return 16 * (octets | 1); }

/* Octets of a block: six fit the channels of some 3x3 layers better. */
static int octets_of(const conv_problem *p) { return p->S == 3 && p->C / OCTET % 4 != 0 && p->C / OCTET % 6 == 0 ? 6 : 4; }

/* Depends on the problem alone, so that the sums are added in the same order on every GPU; the number of blocks suits 132 multiprocessors. */
static wgrad_plan make_plan(const conv_problem *p) {
  const int size = p->S, stride = p->stride_h, steps_before = flight(size, stride) - 1;
  wgrad_plan t = {};
  t.octets = octets_of(p);
  t.chunks = (p->C / OCTET + t.octets - 1) / t.octets;
  t.tiles = (p->Q + MOST_COLUMNS - 1) / MOST_COLUMNS;
  t.columns = (p->Q + t.tiles - 1) / t.tiles;
  t.width = (t.columns - 1) * stride + size;
  t.real = t.width < p->W ? t.width : p->W;
  for (t.images = GROUP; t.images >= 1; t.images /= 2) {
    /* + 8: the next image's pixels lie in the banks that come next */
    t.image_pitch = stride == 2 ? t.columns + size / 2 : t.images > 1 ? t.columns + 8 : t.width;
    t.pixels = t.images * t.columns;
    t.groups = (t.pixels + GROUP - 1) / GROUP;
    t.x_bytes = t.images * t.image_pitch * stride * pitch_of(t.octets);
    t.dy_bytes = t.groups * GROUP * pitch_of(t.octets);
    t.shared = (STAGES + 1) * stride * t.x_bytes + (STAGES + steps_before + 1) * t.dy_bytes + t.groups * GROUP * (int)sizeof(int);
    const bool fits = t.pixels <= MOST_PIXELS && t.images * t.real <= stride * MOST_PIXELS && t.shared <= 74 * 1024;
    if (t.images == 1 || (fits && t.images < 2LL * p->N * t.tiles)) break;
  }

  /* Whole images, several a part, or one strip of an image a part: what ends first on 132 multiprocessors that hold `resident` blocks each, of which
   * `busy` keep one busy. More than 8 strips only where they are few blocks: every part is one more to be added up. */
  const int fit = 227 * 1024 / (t.shared + 1024), most = resident_blocks(size, stride, t.octets);
  const int resident = fit < 1 ? 1 : fit < most ? fit : most, busy = size == 3 && stride == 1 ? 3 : 2;
  const int image_walks = (int)(((int64_t)p->N * t.tiles + t.images - 1) / t.images);
  double least = INFINITY;
  for (int strips = 1; strips <= p->P; strips++)
    for (int each = 1; each <= (strips == 1 ? image_walks : 1); each++) {
      const int strip = (p->P + strips - 1) / strips, parts = (image_walks + each - 1) / each * strips;
      if (strips > 8 && (int64_t)parts * t.chunks > FEW_BLOCKS) continue;
      const bool many = (int64_t)parts * t.chunks > MOST_BLOCKS, first = strips == 1 && (int64_t)t.parts * t.chunks > MOST_BLOCKS;
      const int64_t blocks = ((int64_t)parts * t.chunks + 131) / 132, last = blocks % resident; /* of one multiprocessor; of its last round */
      const double time = (double)(blocks / resident * (resident > busy ? resident : busy) + (last > busy || last == 0 ? last : busy));
      const double cost = time * each * (strip + (strips == 1 ? 0 : strips == 2 ? steps_before / 2 : steps_before) + 3);
      if ((many || cost >= least) && !first && least < INFINITY) continue;
      least = cost;
      t.strip = strip;
      t.strips = (p->P + strip - 1) / strip;
      t.walks = image_walks * t.strips;
      t.parts = parts;
    }
  if (t.parts > t.walks) t.parts = t.walks;
  return t;
}
