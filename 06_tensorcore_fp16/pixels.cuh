/* dw as a product whose reduction are pixels: how it is cut, a step's products, and where sums go. From 06l, for 06n, too. */
#pragma once
#include "06_tensorcore_fp16/parts.cuh"
#include "06_tensorcore_fp16/tiles.cuh"

static constexpr int CONSUMERS = 2, BLOCK = (1 + CONSUMERS) * THREADS, MOST_STAGES = 8;
static constexpr int ADDED = MOST_LANES * THREADS * 16 /* bytes, of the second kernel */;
static constexpr int PIXELS = 64 /* of a step */, WIDE = 64 /* filters or channels of a box */, BOX = PIXELS * ROW, OCTETS = WIDE / 8;
static constexpr int NARROW = 32; /* channels of a box, too, where each block has a tile to itself */

/* How the problem is cut. A tile is what one block multiplies, or the two of a pair (06n). */
typedef struct pixel_cut {
  divisor steps, each, row, image;   /* by the steps of a tile; by those of a block; by Q; by P Q */
  divisor tiles_k, parts_c, columns; /* by the tiles of filters; by the boxes of a tap; by S */
  divisor party;                     /* by the tiles of a party */
  int filters, boxes;                /* of a block: filters, boxes of b */
  int filters_apart, boxes_apart;    /* from one consumer to the next */
  int filters_next, boxes_next;      /* from one block of a pair to the next */
  int pair, channels, n;             /* blocks of a tile; channels of a box of b; boxes of a product */
  int stages, stage;                 /* bytes of a stage */
  int parties, units, total, all;    /* total: steps of all parties; all: boxes of b */
} pixel_cut;

/* Nobody else has steps of a block's tile: it writes dw, and there is no second kernel. */
static __host__ __device__ __forceinline__ bool alone(const pixel_cut &t) { return t.each.by == t.steps.by; }

/* What a block's part of a tile is of dw. */
typedef struct corner {
  int k, box;
} corner;

static __device__ __forceinline__ corner corner_of(const pixel_cut &t, int tile, int rank) {
  const int of_b = divide(tile, t.tiles_k);
  return {(tile - of_b * t.tiles_k.by) * (t.filters + t.filters_next) + rank * t.filters_next, of_b * (t.boxes + t.boxes_next) + rank * t.boxes_next};
}

/* Tap and first channel of a box. */
static __device__ __forceinline__ place place_of(const conv_problem &p, const pixel_cut &t, int box) {
  const int tap = divide(box, t.parts_c), r = divide(tap, t.columns);
  return {r, tap - r * p.S, (box - tap * t.parts_c.by) * t.channels};
}

/* Asks for the products of a step: 64 filters, 2 SUMS columns, 64 pixels, which are rows of a box: the next 16 of them lie 16 rows on. */
template <bool FIRST, int CHANNELS, int SUMS> static __device__ __forceinline__ void multiply_pixels(float (&sum)[SUMS], ptx_shared a, ptx_shared b) {
  using X = box_row<CHANNELS>;
  ptx_wgmma_fence();
  const unsigned long long of_a = ptx_wgmma_descriptor(a, BOX, 8 * ROW, PTX_SWIZZLE_128);
  const unsigned long long of_b = ptx_wgmma_descriptor(b, PIXELS * X::BYTES, 8 * X::BYTES, X::SWIZZLE);
#pragma unroll
  for (int l = 0; l < PIXELS; l += 16) {
    if (FIRST && l == 0) ptx_wgmma<1, 1, 0>(sum, of_a, of_b);
    else ptx_wgmma<1, 1>(sum, of_a + l * CHUNKS, of_b + l * (X::BYTES / 16));
  }
  ptx_wgmma_commit();
}

/* A consumer's sums of 64 filters and N columns: to dw, or to parts[piece][octet of columns][thread], two neighbouring columns of two filters. */
template <int N, int CHANNELS>
static __device__ __forceinline__ void leave_sums(const conv_problem &p, const pixel_cut &t, const float (&sum)[N / 2], const corner &at, int me, int piece,
                                                  float4 *__restrict__ parts, __half *__restrict__ dw) {
  if (alone(t)) {
    const int lane = threadIdx.x % 32, k = at.k + me * t.filters_apart + threadIdx.x / 32 % 4 * 16 + lane / 4;
#pragma unroll
    for (int j = 0; j < N / 8; j++) {
      const int box = at.box + me * t.boxes_apart + j * 8 / CHANNELS;
      if (box >= t.all) continue;
      const place of_x = place_of(p, t, box);
      put_dw(p, of_x.r * p.S + of_x.s, of_x.c + j * 8 % CHANNELS + lane % 4 * 2, k, make_float4(sum[4 * j], sum[4 * j + 1], sum[4 * j + 2], sum[4 * j + 3]),
             dw);
    }
    return;
  }
  float4 *const to = parts + (int64_t)piece * (N / 8 * THREADS) + threadIdx.x % THREADS;
#pragma unroll
  for (int j = 0; j < N / 8; j++) to[j * THREADS] = make_float4(sum[4 * j], sum[4 * j + 1], sum[4 * j + 2], sum[4 * j + 3]);
}

/* The place of a consumer's sums in the workspace: going on is going on to the next unit, or to the next party, or both, so unit + party is a different number for
 * each. */
static __device__ __forceinline__ int piece_of(const pixel_cut &t, int unit, int party, int member, int rank, int me) {
  return (((unit + party) * t.party.by + member) * t.pair + rank) * CONSUMERS + me;
}

/* dw: of every tile what the blocks have left, from the first that had a step of it to the last. A block: an octet of a consumer's columns; its threads add as
 * many lanes of the sum as blockDim.y says, and then these. parts without __restrict__: it promises what does not change while the kernel runs, and this one
 * begins before they are written. */
static __global__ void __launch_bounds__(MOST_LANES *THREADS) add_parts_kernel(conv_problem p, pixel_cut t, const float4 *parts, __half *__restrict__ dw) {
  __shared__ float4 lanes[MOST_LANES][THREADS];
  if (threadIdx.x == 0 && threadIdx.y == 0) ptx_griddepcontrol_launch_dependents(); /* the next kernel may begin */
  const int octets = t.n * OCTETS, of_block = blockIdx.x / octets, octet = blockIdx.x - of_block * octets, me = of_block % CONSUMERS;
  const int tile = of_block / CONSUMERS / t.pair, rank = of_block / CONSUMERS - tile * t.pair;
  const corner at = corner_of(t, tile, rank);
  const int box = at.box + me * t.boxes_apart + octet / OCTETS;
  const place of_x = place_of(p, t, box);
  const int c = octet % OCTETS * 8 + threadIdx.x % 4 * 2, k = at.k + me * t.filters_apart + threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4;
  if (box >= t.all || of_x.c + c >= p.C) return; /* all threads or none: C is a multiple of 8 */

  const int party = divide(tile, t.party), member = tile - party * t.party.by, first = divide(party * t.steps.by, t.each),
            last = divide((party + 1) * t.steps.by - 1, t.each);
  float4 sum = make_float4(0, 0, 0, 0);
  ptx_griddepcontrol_wait(); /* the parts are there */
#pragma unroll 8
  for (int unit = first + threadIdx.y; unit <= last; unit += blockDim.y) {
    const float4 part = parts[((int64_t)piece_of(t, unit, party, member, rank, me) * octets + octet) * THREADS + threadIdx.x];
    sum.x += part.x, sum.y += part.y, sum.z += part.z, sum.w += part.w;
  }
  if (!sum_of_lanes(lanes, &sum)) return;
  put_dw(p, of_x.r * p.S + of_x.s, of_x.c + c, k, sum, dw);
}
