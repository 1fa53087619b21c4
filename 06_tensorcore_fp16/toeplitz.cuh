/* Depthwise filters as matrix products, for fprop (06p) and dgrad (06q): see 06p.
 *
 * A filter row sliding over columns is a product with a banded (Toeplitz) matrix. For one channel and one filter row
 *
 *   D [16 tiles][8 columns of the result] += A [16 tiles][16 columns under them] * T [16][8],   T[j][q] = w[r][j - q]
 *
 * Rows of A are places in the image, not channels: a block has 16 tiles of TILE columns, numbered through all images. One row further down is
 * another A; no value moves between lanes. A block walks down: its warps have four or eight channels each; a row of A is multiplied with the T of
 * every filter row, into the unfinished sums of as many rows of the result. Rows of pixels come through a ring in shared memory, results leave
 * through a stage there, so that the lanes that copy have whole pieces of memory, 8 channels each and neighbours side by side.
 *
 * A result's row lies under 1 / DOWN rows of the input (fprop with a stride), or UP results' rows under one of them (dgrad with a stride). */
#pragma once
#include <cuda_fp16.h>
#include <cuda_pipeline.h>
#include <cuda_runtime.h>
#include <string.h>

#include "common/ptx/ptx.cuh"

enum { TILES = 16 }; /* of a block */

/* The input is x or dy, the result y or dx: [N][height][width][C]. A result's row and column 0 of the walk lie `shift` before the image, its input's
 * row and column 0 `pad` before theirs. */
typedef struct sweep {
  int N, C, in_h, in_w, out_h, out_w;
  int pad_h, pad_w, shift_h, shift_w;
  int tiles, strip, slots; /* tiles of a result's row; rows of a block; pixels that the ring keeps of a row */
} sweep;

/* Sizes that follow from the filter, and from the warps of a block and their channels. TURNED: the filter by 180 degrees. */
template <int SIZE_, int DOWN_, int UP_, bool TURNED_, int CHANNELS_, int WARPS_> struct toeplitz_sizes {
  static constexpr int SIZE = SIZE_, DOWN = DOWN_, UP = UP_, CHANNELS = CHANNELS_, WARPS = WARPS_;
  static constexpr bool TURNED = TURNED_;
  /* Columns of the result, such that a tile needs at most 16 of the input. */
  static constexpr int TILE = UP == 2 ? 8 : DOWN == 1 || SIZE == 3 ? 7 : SIZE == 5 ? 6 : 5;
  static constexpr int STEP = TILE * DOWN / UP;                              /* columns of the input from tile to tile, */
  static constexpr int GAP = ((TILE - 1) * DOWN + SIZE - 1) / UP + 1 - STEP; /* and how many more than that a tile needs */
  static constexpr int STAGED = SIZE == 5 && UP == 2 ? TILE : TILE | 1;      /* slots of a tile of results: odd for the banks, where registers allow */
  static constexpr int FLIGHT = UP == 2 ? SIZE : (SIZE - 1) / DOWN + 1;      /* rows of the result that a row of the input belongs to */
  static constexpr int SPREAD = STEP % 2 ? 1 : STEP % 4 ? 2 : 4;             /* see column() */
  static constexpr int AT_ONCE = DOWN == 1 && UP == 1 && (SIZE == 3 ? CHANNELS == 8 : WARPS == 8) ? 2 : 1; /* steps between two barriers: a round */
  static constexpr int AHEAD = DOWN == 2 ? 2 : UP == 2 ? 6 : AT_ONCE == 1 ? 5 : SIZE == 3 ? 2 : 3;         /* rounds whose rows are on their way */
  static constexpr int RING = AHEAD + 1;
  static constexpr int THREADS = 32 * WARPS, BC = CHANNELS * WARPS;
  static constexpr int UNITS = BC / 8, PARTS = 8 / CHANNELS; /* a unit: 8 channels, 16 bytes, PARTS warps' */
  static constexpr int STAGED_UNITS = TILES * STAGED * UNITS;
  /* A thread copies the same unit of every APART-th pixel, OUTS results, and keeps the places of HELD pixels: as registers allow. */
  static constexpr int APART = THREADS / UNITS, OUTS = (TILES * TILE + APART - 1) / APART;
  static constexpr int HELD = WARPS == 12 ? 1 : CHANNELS == 8 && DOWN == 1 ? 2 : (TILES * STEP + 8 + APART - 1) / APART;
  static_assert(STEP + GAP <= 16 && TILE <= 8, "a tile is one product");
  static_assert(UNITS % 2 == 0 && THREADS % UNITS == 0 && APART % 8 == 0, "a thread copies the same unit of every pixel, to the same place");
};

/* Warps that a multiprocessor's registers hold, with T and the sums. */
static __host__ __device__ constexpr int toeplitz_warps(int size, int channels) { return size == 3 && channels == 4 ? 16 : size == 5 ? 12 : 8; }

/* Which column of a tile is a lane's i-th, t = lane % 4: any order will do that T has too. In this one the pixels that 8 lanes read at a time differ
 * modulo 8, whatever STEP is, which is what place() needs. (Lanes with four channels use half of a unit: 16 of them read, in two passes.) */
static __device__ __forceinline__ int column(int spread, int t, int i) { return t % spread + t / spread * 2 * spread + i % 2 * spread + i / 2 * 8; }

static __device__ __forceinline__ unsigned packed(float low, float high) {
  const __half2 pair = __floats2half2_rn(low, high);
  unsigned bits;
  memcpy(&bits, &pair, sizeof bits);
  return bits;
}

/* A lane's channels of one pixel or result, in shared memory. */
template <int CHANNELS> struct alignas(2 * CHANNELS) channels_of { unsigned pair[CHANNELS / 2]; };

/* Where a pixel's unit (8 channels, 16 bytes) lies in shared memory. Pixel after pixel, as it comes, would be in the way of who reads one unit of
 * several pixels; exchanging units within their 128 bytes puts that of eight neighbouring pixels in different banks. Eight slots on is 8 * UNITS on.
 */
template <int UNITS> static __device__ __forceinline__ int place(int slot, int unit) {
  const int i = slot * UNITS + unit;
  return i ^ (i >> 3 & (UNITS == 6 ? 1 : UNITS - 1));
}

/* Where a block is: its first channel, row and tile (number `tile` of image first_n); how many rows, from which row of the input; where its walk
 * begins, and how many rounds it has. */
typedef struct toeplitz_block {
  int first_c, first_row, first_tile, first_n, tile;
  int rows, first_h, first_step, rounds;
} toeplitz_block;

template <class sizes> static __device__ __forceinline__ toeplitz_block block_of(const sweep &p) {
  const int chunks = (p.C + sizes::BC - 1) / sizes::BC, strips = (p.out_h + p.shift_h + p.strip - 1) / p.strip;
  toeplitz_block b;
  b.first_c = blockIdx.x % chunks * sizes::BC;
  b.first_row = blockIdx.x / chunks % strips * p.strip;
  b.first_tile = blockIdx.x / chunks / strips * TILES;
  b.first_n = b.first_tile / p.tiles, b.tile = b.first_tile % p.tiles;
  b.rows = min(p.strip, p.out_h + p.shift_h - b.first_row);
  b.first_h = b.first_row * sizes::DOWN / sizes::UP - p.pad_h;
  const int steps = (b.rows + sizes::FLIGHT - 2) / sizes::UP + 1;
  b.first_step = min(max(-b.first_h, 0) / sizes::DOWN, (sizes::FLIGHT - sizes::UP) / sizes::UP); /* nothing but zeros before it */
  b.rounds = (steps - b.first_step + sizes::AT_ONCE - 1) / sizes::AT_ONCE;
  return b;
}

/* from[slot] = where the slot's pixel lies in row 0; -1: nowhere. An image's tiles lie side by side, a slot a pixel, and after them GAP slots. */
template <class sizes> static __device__ __forceinline__ void find_pixels(const sweep &p, const toeplitz_block &b, int *from) {
  const int first_run = (p.tiles - b.tile) * sizes::STEP + sizes::GAP, run = p.tiles * sizes::STEP + sizes::GAP;
  const int used = TILES * sizes::STEP + ((b.tile + TILES - 1) / p.tiles + 1) * sizes::GAP;
  for (int i = threadIdx.x; i < p.slots; i += sizes::THREADS) {
    const int n = b.first_n + (i < first_run ? 0 : 1 + (i - first_run) / run);
    const int in_w = (i < first_run ? b.tile * sizes::STEP + i : (i - first_run) % run) - p.pad_w;
    from[i] = i < used && n < p.N && in_w >= 0 && in_w < p.in_w ? (n * p.in_h * p.in_w + in_w) * p.C : -1;
  }
}

/* to[j] = where a thread's j-th result goes in row 0; -1: nowhere. */
template <class sizes>
static __device__ __forceinline__ void find_results(const sweep &p, const toeplitz_block &b, int (&to)[sizes::OUTS], int slot, bool copies) {
#pragma unroll
  for (int j = 0; j < sizes::OUTS; j++) {
    const int i = slot + j * sizes::APART, tile = b.first_tile + i / sizes::TILE;
    const int n = tile / p.tiles, out_w = tile % p.tiles * sizes::TILE + i % sizes::TILE - p.shift_w;
    to[j] = copies && i < TILES * sizes::TILE && n < p.N && out_w >= 0 && out_w < p.out_w ? (n * p.out_h * p.out_w + out_w) * p.C : -1;
  }
}

/* T of all filter rows, for channels c and on, of which there are C. A lane has rows column(t, 0 .. 3), column g. */
template <class sizes>
static __device__ __forceinline__ void build_t(unsigned (&filter)[sizes::SIZE][sizes::CHANNELS][2], const __half *w, int c, int C, int g, int t) {
  constexpr int SIZE = sizes::SIZE;
#pragma unroll
  for (int i = 0; i < 2; i++) {
    const int low = column(sizes::SPREAD, t, 2 * i) * sizes::UP - g * sizes::DOWN;
    const int high = column(sizes::SPREAD, t, 2 * i + 1) * sizes::UP - g * sizes::DOWN;
    const bool use_low = g < sizes::TILE && c < C && low >= 0 && low < SIZE;
    const bool use_high = g < sizes::TILE && c < C && high >= 0 && high < SIZE;
    const __half *row_low = w + c * SIZE * SIZE + (sizes::TURNED ? SIZE - 1 - low : low);
    const __half *row_high = w + c * SIZE * SIZE + (sizes::TURNED ? SIZE - 1 - high : high);
#pragma unroll
    for (int u = 0; u < SIZE; u++)
#pragma unroll
      for (int k = 0; k < sizes::CHANNELS; k++) {
        const int at = (k * SIZE + (sizes::TURNED ? SIZE - 1 - u : u)) * SIZE;
        filter[u][k][i] = (use_low ? __half_as_ushort(row_low[at]) : 0) | (use_high ? __half_as_ushort(row_high[at]) : 0) << 16;
      }
  }
}

/* Tiles g and g + 8: where a lane's channels of its first two columns lie in a row of the ring, and those of results in a staged one. */
template <class sizes>
static __device__ __forceinline__ void find_places(const sweep &p, int (&start)[2][2], int (&result_at)[2], int tile, int warp, int g, int t) {
  const int unit = warp / sizes::PARTS, part = warp % sizes::PARTS;
#pragma unroll
  for (int i = 0; i < 2; i++) {
#pragma unroll
    for (int m = 0; m < 2; m++) {
      const int first = (g + 8 * m) * sizes::STEP + (tile + g + 8 * m) / p.tiles * sizes::GAP;
      start[m][i] = place<sizes::UNITS>(first + column(sizes::SPREAD, t, i), unit) * sizes::PARTS + part;
    }
    result_at[i] = place<sizes::UNITS>(g * sizes::STAGED + 2 * t + i, unit) * sizes::PARTS + part;
  }
}

/* A lane's pixels of one row of the ring. */
template <class sizes>
static __device__ __forceinline__ void read_pixels(channels_of<sizes::CHANNELS> (&pixels)[2][4], const uint4 *row, const int (&start)[2][2]) {
#pragma unroll
  for (int m = 0; m < 2; m++)
#pragma unroll
    for (int i = 0; i < 4; i++) pixels[m][i] = ((const channels_of<sizes::CHANNELS> *)row)[start[m][i % 2] + i / 2 * 8 * sizes::UNITS * sizes::PARTS];
}

/* Two columns of a lane's channels become as many pairs of columns. */
template <int CHANNELS> static __device__ __forceinline__ void exchange(unsigned (&a)[CHANNELS][4], const channels_of<CHANNELS> (&pixels)[2][4]) {
#pragma unroll
  for (int i = 0; i < 4; i++)
#pragma unroll
    for (int c = 0; c < CHANNELS; c++)
      a[c][i] = __byte_perm(pixels[i % 2][i / 2 * 2].pair[c / 2], pixels[i % 2][i / 2 * 2 + 1].pair[c / 2], c % 2 ? 0x7632 : 0x5410);
}

/* Stores the rows of a round that are complete. */
template <class sizes>
static __device__ __forceinline__ void copy_out(const sweep &p, const uint4 *stage, __half *out, const int (&to)[sizes::OUTS], const toeplitz_block &b,
                                                int slot, int unit, int place_at, int round) {
#pragma unroll
  for (int e = 0; e < sizes::AT_ONCE * sizes::UP; e++) {
    const int row = (b.first_step + round * sizes::AT_ONCE) * sizes::UP - (sizes::FLIGHT - 1) + e, out_h = b.first_row + row - p.shift_h;
    if (row < 0 || row >= b.rows || out_h < 0) continue;
    const uint4 *staged = stage + (round % 2 * sizes::AT_ONCE * sizes::UP + e) * sizes::STAGED_UNITS;
    __half *row_out = out + out_h * p.out_w * p.C;
#pragma unroll
    for (int j = 0; j < sizes::OUTS; j++) {
      const int i = slot + j * sizes::APART;
      const int elsewhere = place<sizes::UNITS>(i / sizes::TILE * sizes::STAGED + i % sizes::TILE, unit);
      if (to[j] >= 0) *(uint4 *)(row_out + to[j]) = staged[sizes::STAGED == sizes::TILE ? place_at + j * sizes::APART * sizes::UNITS : elsewhere];
    }
  }
}

/* A block: `strip` rows of 16 tiles of CHANNELS * WARPS channels. */
template <int SIZE, int DOWN, int UP, bool TURNED, int CHANNELS, int WARPS>
__global__ void __launch_bounds__(32 * WARPS, toeplitz_warps(SIZE, CHANNELS) / WARPS)
    toeplitz_kernel(sweep p, const __half *__restrict__ in, const __half *__restrict__ w, __half *__restrict__ out) {
  typedef toeplitz_sizes<SIZE, DOWN, UP, TURNED, CHANNELS, WARPS> sizes;
  typedef channels_of<CHANNELS> part_of_unit;
  constexpr int FLIGHT = sizes::FLIGHT, AT_ONCE = sizes::AT_ONCE, AHEAD = sizes::AHEAD, RING = sizes::RING;
  constexpr int UNITS = sizes::UNITS, STAGED_UNITS = sizes::STAGED_UNITS, APART = sizes::APART, HELD = sizes::HELD;
  extern __shared__ uint4 shared[];
  const int row_units = p.slots * UNITS, round_units = AT_ONCE * DOWN * row_units;
  uint4 *const ring = shared;                                         /* [RING][AT_ONCE][DOWN][slots][UNITS] */
  uint4 *const stage = ring + RING * round_units;                     /* [2][AT_ONCE][UP][TILES][STAGED][UNITS] */
  int *const from = (int *)(stage + 2 * AT_ONCE * UP * STAGED_UNITS); /* [slots] */
  const toeplitz_block b = block_of<sizes>(p);

  /* As one who copies: one unit of every APART-th pixel. */
  const int unit = threadIdx.x % UNITS, slot = threadIdx.x / UNITS, place_at = place<UNITS>(slot, unit);
  const bool copies = b.first_c + 8 * unit < p.C;
  find_pixels<sizes>(p, b, from);
  in += b.first_c + 8 * unit, out += b.first_c + 8 * unit;
  int to[sizes::OUTS];
  find_results<sizes>(p, b, to, slot, copies);
  __syncthreads(); /* `from` is complete */
  int held[HELD];  /* of the first of my slots; the others' stay in `from` */
#pragma unroll
  for (int j = 0; j < HELD; j++) held[j] = copies && slot + j * APART < p.slots ? from[slot + j * APART] : -1;

  int coming = place_at; /* my first unit in the round to be copied next */
  const auto load_round = [&](int round) {
    if (round < b.rounds && copies)
#pragma unroll
      for (int d = 0; d < AT_ONCE * DOWN; d++) {
        const int h = b.first_h + (b.first_step + round * AT_ONCE) * DOWN + d;
        uint4 *row = ring + coming + d * row_units;
        if (h >= 0 && h < p.in_h) {
          const __half *source = in + (int64_t)h * p.in_w * p.C;
#pragma unroll
          for (int j = 0; j < HELD; j++)
            if (held[j] >= 0) __pipeline_memcpy_async(row + j * APART * UNITS, source + held[j], 16);
#pragma unroll 1
          for (int i = slot + HELD * APART; i < p.slots; i += APART)
            if (from[i] >= 0) __pipeline_memcpy_async(row + (i - slot) * UNITS, source + from[i], 16);
        } else {
#pragma unroll 1
          for (int i = slot; i < p.slots; i += APART) row[(i - slot) * UNITS] = make_uint4(0, 0, 0, 0);
        }
      }
    coming += coming + round_units < RING * round_units ? round_units : -AHEAD * round_units;
    __pipeline_commit();
  };
#pragma unroll 1
  for (int round = 0; round < AHEAD; round++) load_round(round);
  for (int i = slot; i < p.slots; i += APART) /* what no copy reaches */
    if (!copies || from[i] < 0)
      for (int row = 0; row < RING * AT_ONCE * DOWN; row++) ring[row * row_units + place_at + (i - slot) * UNITS] = make_uint4(0, 0, 0, 0);

  /* As one who multiplies: T of all filter rows, for my channels. */
  const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4, warp = threadIdx.x / 32, my_c = b.first_c + warp * CHANNELS;
  unsigned filter[SIZE][CHANNELS][2];
  build_t<sizes>(filter, w, my_c, p.C, g, t);

  int start[2][2], result_at[2];
  find_places<sizes>(p, start, result_at, b.tile, warp, g, t);

  int now = 0;
  float sum[FLIGHT][CHANNELS][4] = {}; /* sum[k]: row step * UP - k of mine */
#pragma unroll 1
  for (int round = 0; round < b.rounds; round++) {
    __pipeline_wait_prior(AHEAD - 1);
    __syncthreads();                           /* the round's rows are there, and nobody is in the round before */
    part_of_unit pixels[AT_ONCE * DOWN][2][4]; /* on their way to me while I copy others */
#pragma unroll
    for (int d = 0; d < AT_ONCE * DOWN; d++) read_pixels<sizes>(pixels[d], ring + now + d * row_units, start);
    load_round(round + AHEAD);
    if (round > 0) copy_out<sizes>(p, stage, out, to, b, slot, unit, place_at, round - 1);
    if (my_c < p.C) {
#pragma unroll
      for (int d = 0; d < AT_ONCE * DOWN; d++) {
        unsigned a[CHANNELS][4];
        exchange(a, pixels[d]);
#pragma unroll
        for (int k = FLIGHT - 1; k >= 0; k--) {
          const int u = k * DOWN + d % DOWN;
          if (u >= SIZE) continue;
#pragma unroll
          for (int c = 0; c < CHANNELS; c++) {
            float part[4];
#pragma unroll
            for (int i = 0; i < 4; i++) part[i] = d % DOWN > 0 ? sum[k][c][i] : k >= UP ? sum[k >= UP ? k - UP : 0][c][i] : 0;
            ptx_mma_m16n8k16(part, a[c], filter[u][c]);
#pragma unroll
            for (int i = 0; i < 4; i++) sum[k][c][i] = part[i];
          }
        }
        if (d % DOWN < DOWN - 1) continue;
#pragma unroll
        for (int e = 0; e < UP; e++) { /* no later row belongs to these */
          part_of_unit *staged = (part_of_unit *)(stage + ((round % 2 * AT_ONCE + d / DOWN) * UP + e) * STAGED_UNITS);
#pragma unroll
          for (int i = 0; i < 4; i++) {
            part_of_unit result;
#pragma unroll
            for (int c = 0; c < CHANNELS; c += 2) result.pair[c / 2] = packed(sum[FLIGHT - 1 - e][c][i], sum[FLIGHT - 1 - e][c + 1][i]);
            if (2 * t + i % 2 < sizes::TILE) staged[result_at[i % 2] + i / 2 * 8 * sizes::STAGED * UNITS * sizes::PARTS] = result;
          }
        }
      }
    }
    now += now + round_units < RING * round_units ? round_units : -AHEAD * round_units;
  }
  __syncthreads();
  copy_out<sizes>(p, stage, out, to, b, slot, unit, place_at, b.rounds - 1);
}
