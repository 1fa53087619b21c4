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
#include <stdio.h>
#include <string.h>

#include "04_constant_filter/depthwise.h"
#include "common/ptx/ptx.cuh"

enum { TILES = 16 }; /* of a block */

/* The input is x or dy, the result y or dx: [N][height][width][C]. A result's row and column 0 of the walk lie `shift` before the image, its input's row
 * and column 0 `pad` before theirs. */
typedef struct sweep {
  int N, C, in_h, in_w, out_h, out_w;
  int pad_h, pad_w, shift_h, shift_w;
  int tiles, strip, slots;    /* tiles of a result's row; rows of a block; pixels that the ring keeps of a row */
} sweep;

/* Sizes that follow from the filter, and from the warps of a block and their channels. */
template <int SIZE, int DOWN, int UP, int CHANNELS, int WARPS> struct toeplitz {
  static constexpr int TILE = UP == 2 ? 8 : DOWN == 1 || SIZE == 3 ? 7 : SIZE == 5 ? 6 : 5; /* columns of the result, such that a tile needs at most 16 of the input */
  static constexpr int STEP = TILE * DOWN / UP;                                            /* columns of the input from tile to tile, */
  static constexpr int GAP = ((TILE - 1) * DOWN + SIZE - 1) / UP + 1 - STEP;               /* and how many more than that a tile needs */
  static constexpr int STAGED = SIZE == 5 && UP == 2 ? TILE : TILE | 1;                    /* slots of a tile of results: odd for the banks, where registers allow */
  static constexpr int FLIGHT = UP == 2 ? SIZE : (SIZE - 1) / DOWN + 1;                    /* rows of the result that a row of the input belongs to */
  static constexpr int SPREAD = STEP % 2 ? 1 : STEP % 4 ? 2 : 4;                           /* see column() */
  static constexpr int AT_ONCE = DOWN == 1 && UP == 1 && (SIZE == 3 ? CHANNELS == 8 : WARPS == 8) ? 2 : 1; /* steps between two barriers: a round */
  static constexpr int AHEAD = DOWN == 2 ? 2 : UP == 2 ? 6 : AT_ONCE == 1 ? 5 : SIZE == 3 ? 2 : 3;         /* rounds whose rows are on their way */
  static_assert(STEP + GAP <= 16 && TILE <= 8, "a tile is one product");
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
template <int CHANNELS> struct alignas(2 * CHANNELS) channels_of {
  unsigned pair[CHANNELS / 2];
};

/* Where a pixel's unit (8 channels, 16 bytes) lies in shared memory. Pixel after pixel, as it comes, would be in the way of who reads one unit of
 * several pixels; exchanging units within their 128 bytes puts that of eight neighbouring pixels in different banks. Eight slots on is 8 * UNITS on. */
template <int UNITS> static __device__ __forceinline__ int place(int slot, int unit) {
  const int i = slot * UNITS + unit;
  return i ^ (i >> 3 & (UNITS == 6 ? 1 : UNITS - 1));
}

/* A block: `strip` rows of 16 tiles of CHANNELS * WARPS channels. TURNED: the filter by 180 degrees. */
template <int SIZE, int DOWN, int UP, bool TURNED, int CHANNELS, int WARPS>
__global__ void __launch_bounds__(32 * WARPS, toeplitz_warps(SIZE, CHANNELS) / WARPS) toeplitz_kernel(sweep p, const __half *__restrict__ in, const __half *__restrict__ w, __half *__restrict__ out) {
  typedef toeplitz<SIZE, DOWN, UP, CHANNELS, WARPS> sizes;
  typedef channels_of<CHANNELS> part_of_unit;
  constexpr int TILE = sizes::TILE, STEP = sizes::STEP, GAP = sizes::GAP, STAGED = sizes::STAGED, FLIGHT = sizes::FLIGHT, AT_ONCE = sizes::AT_ONCE, AHEAD = sizes::AHEAD, RING = AHEAD + 1;
  constexpr int THREADS = 32 * WARPS, BC = CHANNELS * WARPS, UNITS = BC / 8, PARTS = 8 / CHANNELS; /* unit: 8 channels, 16 bytes, PARTS warps' */
  constexpr int APART = THREADS / UNITS, OUTS = (TILES * TILE + APART - 1) / APART;
  constexpr int HELD = WARPS == 12 ? 1 : CHANNELS == 8 && DOWN == 1 ? 2 : (TILES * STEP + 8 + APART - 1) / APART; /* slots whose pixel a thread keeps: as registers allow */
  static_assert(UNITS % 2 == 0 && THREADS % UNITS == 0 && APART % 8 == 0, "a thread copies the same unit of every pixel, to the same place");
  extern __shared__ uint4 shared[];
  const int row_units = p.slots * UNITS, round_units = AT_ONCE * DOWN * row_units;
  constexpr int STAGED_UNITS = TILES * STAGED * UNITS;
  uint4 *const ring = shared, *const stage = ring + RING * round_units; /* [RING][AT_ONCE][DOWN][slots][UNITS], [2][AT_ONCE][UP][TILES][STAGED][UNITS] */
  int *const from = (int *)(stage + 2 * AT_ONCE * UP * STAGED_UNITS);   /* [slots]: where a slot's pixel lies in row 0; -1: nowhere */

  const int chunks = (p.C + BC - 1) / BC, strips = (p.out_h + p.shift_h + p.strip - 1) / p.strip;
  const int first_c = blockIdx.x % chunks * BC, first_row = blockIdx.x / chunks % strips * p.strip, first_tile = blockIdx.x / chunks / strips * TILES;
  const int first_n = first_tile / p.tiles, tile = first_tile % p.tiles;
  const int rows = min(p.strip, p.out_h + p.shift_h - first_row), first_h = first_row * DOWN / UP - p.pad_h;
  const int first_step = min(max(-first_h, 0) / DOWN, (FLIGHT - UP) / UP), steps = (rows + FLIGHT - 2) / UP + 1; /* nothing but zeros before the first */
  const int rounds = (steps - first_step + AT_ONCE - 1) / AT_ONCE;

  /* As one who copies: one unit of every APART-th pixel. An image's tiles lie side by side, a slot a pixel, and after them GAP slots. */
  const int unit = threadIdx.x % UNITS, slot = threadIdx.x / UNITS, place_at = place<UNITS>(slot, unit);
  const bool copies = first_c + 8 * unit < p.C;
  const int first_run = (p.tiles - tile) * STEP + GAP, run = p.tiles * STEP + GAP, used = TILES * STEP + ((tile + TILES - 1) / p.tiles + 1) * GAP;
  for (int i = threadIdx.x; i < p.slots; i += THREADS) {
    const int n = first_n + (i < first_run ? 0 : 1 + (i - first_run) / run), in_w = (i < first_run ? tile * STEP + i : (i - first_run) % run) - p.pad_w;
    from[i] = i < used && n < p.N && in_w >= 0 && in_w < p.in_w ? (n * p.in_h * p.in_w + in_w) * p.C : -1;
  }
  in += first_c + 8 * unit, out += first_c + 8 * unit;
  int to[OUTS];
#pragma unroll
  for (int j = 0; j < OUTS; j++) {
    const int i = slot + j * APART, n = (first_tile + i / TILE) / p.tiles, out_w = (first_tile + i / TILE) % p.tiles * TILE + i % TILE - p.shift_w;
    to[j] = copies && i < TILES * TILE && n < p.N && out_w >= 0 && out_w < p.out_w ? (n * p.out_h * p.out_w + out_w) * p.C : -1;
  }
  __syncthreads();
  int held[HELD]; /* of the first of my slots; the others' stay in `from` */
#pragma unroll
  for (int j = 0; j < HELD; j++) held[j] = copies && slot + j * APART < p.slots ? from[slot + j * APART] : -1;

  int coming = place_at; /* my first unit in the round to be copied next */
  const auto load_round = [&](int round) {
    if (round < rounds && copies)
#pragma unroll
      for (int d = 0; d < AT_ONCE * DOWN; d++) {
        const int h = first_h + (first_step + round * AT_ONCE) * DOWN + d;
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

  /* As one who multiplies: T of all filter rows, for my channels. A lane has rows column(t, 0 .. 3), column g. */
  const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4, warp = threadIdx.x / 32, my_c = first_c + warp * CHANNELS;
  unsigned filter[SIZE][CHANNELS][2];
#pragma unroll
  for (int i = 0; i < 2; i++) {
    const int low = column(sizes::SPREAD, t, 2 * i) * UP - g * DOWN, high = column(sizes::SPREAD, t, 2 * i + 1) * UP - g * DOWN;
    const bool use_low = g < TILE && my_c < p.C && low >= 0 && low < SIZE, use_high = g < TILE && my_c < p.C && high >= 0 && high < SIZE;
    const __half *row_low = w + my_c * SIZE * SIZE + (TURNED ? SIZE - 1 - low : low), *row_high = w + my_c * SIZE * SIZE + (TURNED ? SIZE - 1 - high : high);
#pragma unroll
    for (int u = 0; u < SIZE; u++)
#pragma unroll
      for (int c = 0; c < CHANNELS; c++) {
        const int at = (c * SIZE + (TURNED ? SIZE - 1 - u : u)) * SIZE;
        filter[u][c][i] = (use_low ? __half_as_ushort(row_low[at]) : 0) | (use_high ? __half_as_ushort(row_high[at]) : 0) << 16;
      }
  }

  /* Tiles g and g + 8: where my channels of my first two columns lie in a row of the ring, and those of results in a staged one. */
  int start[2][2], result_at[2];
#pragma unroll
  for (int i = 0; i < 2; i++) {
#pragma unroll
    for (int m = 0; m < 2; m++)
      start[m][i] = place<UNITS>((g + 8 * m) * STEP + (tile + g + 8 * m) / p.tiles * GAP + column(sizes::SPREAD, t, i), warp / PARTS) * PARTS + warp % PARTS;
    result_at[i] = place<UNITS>(g * STAGED + 2 * t + i, warp / PARTS) * PARTS + warp % PARTS;
  }

  const auto copy_out = [&](int round) {
#pragma unroll
    for (int e = 0; e < AT_ONCE * UP; e++) {
      const int row = (first_step + round * AT_ONCE) * UP - (FLIGHT - 1) + e, out_h = first_row + row - p.shift_h;
      if (row < 0 || row >= rows || out_h < 0) continue;
      const uint4 *staged = stage + (round % 2 * AT_ONCE * UP + e) * STAGED_UNITS;
      __half *row_out = out + out_h * p.out_w * p.C;
#pragma unroll
      for (int j = 0; j < OUTS; j++) {
        const int i = slot + j * APART, at = STAGED == TILE ? place_at + j * APART * UNITS : place<UNITS>(i / TILE * STAGED + i % TILE, unit);
        if (to[j] >= 0) *(uint4 *)(row_out + to[j]) = staged[at];
      }
    }
  };

  int now = 0;
  float sum[FLIGHT][CHANNELS][4] = {}; /* sum[k]: row step * UP - k of mine */
#pragma unroll 1
  for (int round = 0; round < rounds; round++) {
    __pipeline_wait_prior(AHEAD - 1);
    __syncthreads();
    part_of_unit pixels[AT_ONCE * DOWN][2][4]; /* on their way to me while I copy others */
#pragma unroll
    for (int d = 0; d < AT_ONCE * DOWN; d++)
#pragma unroll
      for (int m = 0; m < 2; m++)
#pragma unroll
        for (int i = 0; i < 4; i++) pixels[d][m][i] = ((const part_of_unit *)(ring + now + d * row_units))[start[m][i % 2] + i / 2 * 8 * UNITS * PARTS];
    load_round(round + AHEAD);
    if (round > 0) copy_out(round - 1);
    if (my_c < p.C) {
#pragma unroll
      for (int d = 0; d < AT_ONCE * DOWN; d++) {
        unsigned a[CHANNELS][4];
#pragma unroll
        for (int i = 0; i < 4; i++) /* two columns of my channels become as many pairs of columns */
#pragma unroll
          for (int c = 0; c < CHANNELS; c++)
            a[c][i] = __byte_perm(pixels[d][i % 2][i / 2 * 2].pair[c / 2], pixels[d][i % 2][i / 2 * 2 + 1].pair[c / 2], c % 2 ? 0x7632 : 0x5410);
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
            if (2 * t + i % 2 < TILE) staged[result_at[i % 2] + i / 2 * 8 * STAGED * UNITS * PARTS] = result;
          }
        }
      }
    }
    now += now + round_units < RING * round_units ? round_units : -AHEAD * round_units;
  }
  __syncthreads();
  copy_out(rounds - 1);
}

/* ---------------------------------------------------------------- host */

typedef void (*toeplitz_t)(sweep p, const __half *in, const __half *w, __half *out);

/* What else a problem's C must be for a row: some rows are for multiples of 48, others for all but these. */
enum { ANY_C, BY_48, NOT_BY_48 };

/* A kernel and what the host must know of it. */
typedef struct toeplitz_row {
  int size, stride, c;
  toeplitz_t kernel;
  int channels, warps, tile, staged, step, gap, flight, down, up, at_once, ring;
} toeplitz_row;

template <int SIZE, int DOWN, int UP, bool TURNED, int CHANNELS, int WARPS> static constexpr toeplitz_row toeplitz_of(int c = ANY_C) {
  typedef toeplitz<SIZE, DOWN, UP, CHANNELS, WARPS> sizes;
  return {SIZE, DOWN * UP, c, toeplitz_kernel<SIZE, DOWN, UP, TURNED, CHANNELS, WARPS>, CHANNELS, WARPS, sizes::TILE, sizes::STAGED, sizes::STEP, sizes::GAP, sizes::FLIGHT, DOWN, UP, sizes::AT_ONCE, sizes::AHEAD + 1};
}

/* What a launch needs. */
typedef struct toeplitz_launch {
  toeplitz_t kernel;
  size_t shared;
  int blocks, threads;
  sweep s;
} toeplitz_launch;

/* Tiles of a row, and the slots that a block keeps of one: 16 tiles, a gap for every image they may lie in, and what the last tile reads beyond its own. */
static inline void toeplitz_tiles(const toeplitz_row *k, sweep *s) {
  s->tiles = (s->out_w + s->shift_w + k->tile - 1) / k->tile;
  const int images = TILES % s->tiles == 0 ? TILES / s->tiles : (TILES - 2) / s->tiles + 2;
  s->slots = TILES * k->step + images * k->gap + 16 - k->step - k->gap;
}

static inline size_t toeplitz_shared(const toeplitz_row *k, const sweep *s) {
  return (size_t)k->at_once * (size_t)(k->ring * k->down * s->slots + 2 * k->up * TILES * k->staged) * (size_t)(k->channels * k->warps) * 2 + (size_t)s->slots * sizeof(int);
}

static inline const char *toeplitz_unsupported(const conv_problem *p, const conv_device *device) {
  if (p->C != p->groups || p->K != p->groups) return "not depthwise: C, K and groups differ";
  if (p->C % 8 != 0) return "C is no multiple of 8";
  if (p->R != p->S || (p->S != 3 && p->S != 5 && p->S != 7)) return "the filter is not 3x3, 5x5 or 7x7";
  if (p->stride_h != p->stride_w || p->stride_h > 2 || p->dil_h != 1 || p->dil_w != 1) return "stride is not 1 or 2, or the filter is dilated";
  return plain_unsupported(p, device);
}

static inline bool toeplitz_is_for(const toeplitz_row *k, const conv_problem *p) {
  return is_square(p, k->size, k->stride) && (k->c == ANY_C || (k->c == BY_48) == (p->C % 48 == 0));
}

/* Rows of a strip such that the cost is lowest; returns it. A block's start costs as much as six steps, a step of a multiprocessor's blocks one
 * unit and another one for every 32 channels: a rough fit to times of several strips on an H200. */
static inline int64_t toeplitz_strip(const toeplitz_row *k, sweep *s, int multiprocessors, int resident) {
  const int rows = s->out_h + s->shift_h, chunk = k->channels * k->warps;
  const int64_t blocks = (int64_t)((s->N * s->tiles + TILES - 1) / TILES) * ((s->C + chunk - 1) / chunk);
  int64_t least = INT64_MAX;
  for (int strips = 1; strips <= rows; strips++) {
    const int strip = ((rows + strips - 1) / strips + k->up - 1) / k->up * k->up, steps = (strip + k->flight - 2) / k->up + 1;
    const int64_t each = (blocks * ((rows + strip - 1) / strip) + multiprocessors - 1) / multiprocessors, together = each < resident ? each : resident;
    const int64_t cost = (each + resident - 1) / resident * (steps + 6) * (32 + together * chunk);
    if (cost < least) least = cost, s->strip = strip;
  }
  return least;
}

/* Takes the first of the kernels that fits, or one that costs a seventh less. */
static inline const char *toeplitz_plan(const toeplitz_row *table, int count, const conv_problem *p, sweep s, const conv_device *device, conv_plan *plan) {
  toeplitz_launch *l = plan_data<toeplitz_launch>(plan);
  int64_t least = INT64_MAX;
  for (const toeplitz_row *k = table; k < table + count; k++) {
    if (!toeplitz_is_for(k, p)) continue;
    toeplitz_tiles(k, &s);
    const size_t shared = toeplitz_shared(k, &s);
    if (shared > device->shared_per_block) continue;
    int resident = 0;
    cudaError_t status = plan_allow_shared((const void *)k->kernel, shared);
    if (!status) status = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, (const void *)k->kernel, 32 * k->warps, shared);
    if (status) return plan_failed(plan, status);
    const int64_t cost = toeplitz_strip(k, &s, device->sm_count, resident > 0 ? resident : 1);
    if (l->kernel && 7 * cost >= 6 * least) continue;
    least = cost;
    const int chunk = k->channels * k->warps, rows = s.out_h + s.shift_h;
    l->kernel = k->kernel, l->shared = shared, l->threads = 32 * k->warps, l->s = s;
    l->blocks = (s.N * s.tiles + TILES - 1) / TILES * ((s.C + chunk - 1) / chunk) * ((rows + s.strip - 1) / s.strip);
    snprintf(plan->words, sizeof plan->words, "%d channels a block, strips of %d rows", chunk, s.strip);
  }
  return l->kernel ? NULL : "the rows on their way exceed the shared memory";
}

static inline cudaError_t toeplitz_run(const conv_plan *plan, const void *in, const void *w, void *out, cudaStream_t stream) {
  const toeplitz_launch *l = plan_data<toeplitz_launch>(plan);
  l->kernel<<<l->blocks, l->threads, l->shared, stream>>>(l->s, (const __half *)in, (const __half *)w, (__half *)out);
  return cudaGetLastError();
}

/* Each of the R products adds S terms to a sum and cuts what lies below the last bit of the largest. */
static inline double toeplitz_growth(const conv_problem *p, bool random) { return growth_truncated(p->R * (p->S + 1), random); }
