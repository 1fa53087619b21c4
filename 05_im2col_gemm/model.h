/* The model of a multiprocessor that the cuts of this step go by (split.h, stream.h): how long it takes for blocks of tiles of bm rows x BN columns. It has
 * room for 256 rows of them, that is what its registers hold, and does 128 FMAs a clock. */
#pragma once
#include <math.h>

/* Rounds of `blocks` blocks, as many at a time as there is room for. */
static inline double rounds_of(double blocks, int bm) { return ceil(blocks / (256 / bm)); }

/* What is reached of the peak with so many quarters of the room taken, half a quarter is a block of 32 rows. share: with one, two, three, all. */
static inline double share_of(double quarters, const double share[4]) {
  const int whole = (int)quarters;
  const double below = whole > 0 ? share[whole - 1] : 0;
  return quarters > whole ? below + (quarters - whole) * (share[whole] - below) : below;
}

/* Clocks for so many blocks, each `block` clocks of FMAs long if it had a multiprocessor for itself at its peak. share: what is reached of that peak with one,
 * two, three, all quarters of the room taken. */
static inline double rounds_clocks(double blocks, int bm, double block, const double share[4]) {
  const double resident = 256 / bm, full = floor(blocks / resident), rest = blocks - full * resident;
  return full * resident * block / share[3] + (rest > 0 ? rest * block / share_of(rest * bm / 64, share) : 0);
}
