/* A ring of stages that the copy engine fills, and the products of a stage. From 06d, but that a tile is a struct, and a warpgroup may multiply a part
 * of a stage; four producers in turns, and products of turned operands, are 06j's. */
#pragma once
#include "06_tensorcore_fp16/maps.h"
#include "06_tensorcore_fp16/stages.cuh"

static constexpr int WGMMA_M = 64;

/* Two mbarriers for each stage, one after the other: its bytes are there; nobody reads them any more. */
typedef struct ring {
  ptx_shared full, empty;
} ring;

/* What all threads of a warp have, taken from lane 0: now the compiler knows that they agree, and keeps in uniform registers what follows from it. */
static __device__ __forceinline__ int uniform(int value) { return __shfl_sync(0xffffffff, value, 0); }

/* By one thread; then the block must meet. readers: arrivals that empty a stage. */
static __device__ __forceinline__ void ring_begin(const ring &r, int stages, int readers) {
  for (int i = 0; i < stages; i++) ptx_mbarrier_init(r.full + 8 * i, 1), ptx_mbarrier_init(r.empty + 8 * i, readers);
  ptx_fence_mbarrier_init();
}

/* A step of several boxes keeps one thread longer than its products take (docs/06_training.md): so a thread of each of four warps asks for every fourth step. Rings of
 * four stages and more: then nobody is two rounds behind, where a parity would be taken for that of another round. */
static constexpr int PRODUCERS = 4;

/* At the begin, by all lanes: warp 0 made the barriers, and need not wait for them. A barrier of their own for the other three: compute-sanitizer takes two places that wait at
 * the same one for a divergent block. */
static __device__ __forceinline__ void producers_begin(int warp, int block) {
  ptx_bar_arrive(1, block);
  if (warp == 0) ptx_bar_arrive(15, PRODUCERS * 32);
  else ptx_bar_sync(15, PRODUCERS * 32);
}

/* Is this step a producer's own? turn: how many are others'. */
static __device__ __forceinline__ bool my_turn(int *turn) {
  const bool mine = *turn == 0;
  *turn = mine ? PRODUCERS - 1 : *turn - 1;
  return mine;
}

/* Where a tile's copies begin: its first channel and filter, and the first window's first pixel. */
typedef struct tile {
  int c, k, in_w, in_h, n;
} tile;

static __device__ __forceinline__ tile tile_of(const conv_problem &p, int group, int first_k, int first_pixel) {
  return {group * (p.C / p.groups), group * (p.K / p.groups) + first_k, first_pixel % p.Q * p.stride_w - p.pad_left,
          first_pixel / p.Q % p.P * p.stride_h - p.pad_top, first_pixel / (p.P * p.Q)};
}

/* The next step of the reduction: 64 channels more, or the next tap. Counted, not divided: one thread loads for all, and they wait. */
static __device__ __forceinline__ place next_step(const conv_problem &p, place at, int group_c, int channels = BK) {
  at.c += channels;
  if (at.c < group_c) return at;
  at.c = 0, at.s++;
  if (at.s == p.S) at.s = 0, at.r++;
  return at;
}

/* A step of the reduction, one tap and 64 channels: pixels to `a`, filters to `b`, `bytes` together, told to the mbarrier. TURNED (06j): filters for dgrad, whose
 * channels are rows: boxes of 64 channels under a tap of 64 filters, as many as `rows` takes, the last tap first. */
template <bool TURNED = false>
static __device__ __forceinline__ void load_step(const conv_problem &p, const tile &t, const CUtensorMap *windows, const CUtensorMap *filters, place at,
                                                 ptx_shared a, ptx_shared b, unsigned bytes, ptx_shared full, int rows = WGMMA_M) {
  ptx_mbarrier_arrive_expect_tx(full, bytes);
  ptx_tensor_load_im2col(a, windows, {t.c + at.c, t.in_w, t.in_h, t.n}, {(unsigned short)(at.s * p.dil_w), (unsigned short)(at.r * p.dil_h)}, full);
  const int tap = at.r * p.S + at.s;
  if (!TURNED) ptx_tensor_load(b, filters, {at.c, tap, t.k}, full);
  else
    for (int k = 0; k < rows; k += WGMMA_M) ptx_tensor_load(b + k * ROW, filters, {t.k + k, p.R * p.S - 1 - tap, at.c}, full);
}

/* Asks for the products of a step: 64 M rows of a, 2 SUMS of b. The first ones of a tile do not add to what was there. TURNED: a lies transposed, so that the next 16
 * to reduce are not two chunks further, but 16 rows. CHANNELS: all that the step has, a
 * multiple of 16. */
template <bool FIRST, bool TURNED = false, int CHANNELS = BK, int M, int SUMS>
static __device__ __forceinline__ void multiply(float (&sum)[M][SUMS], ptx_shared a, ptx_shared b) {
  constexpr int NEXT = TURNED ? CHUNK * CHUNKS : 1; /* from a chunk to the next, in a's descriptor */
  ptx_wgmma_fence();
  const unsigned long long of_a = ptx_wgmma_descriptor(a, TURNED ? WGMMA_M * ROW : 16, 8 * ROW, PTX_SWIZZLE_128);
  const unsigned long long of_b = ptx_wgmma_descriptor(b, 16, 8 * ROW, PTX_SWIZZLE_128);
#pragma unroll
  for (int l = 0; l < CHANNELS / CHUNK; l += 2) /* 16 channels */
#pragma unroll
    for (int i = 0; i < M; i++) {
      if (FIRST && l == 0) ptx_wgmma<TURNED, 0, 0>(sum[i], of_a + i * WGMMA_M * CHUNKS, of_b);
      else ptx_wgmma<TURNED>(sum[i], of_a + i * WGMMA_M * CHUNKS + l * NEXT, of_b + l);
    }
  ptx_wgmma_commit();
}

/* Of two floats, rounded. */
static __device__ __forceinline__ unsigned two_halves(float low, float high) {
  return __half_as_ushort(__float2half_rn(low)) | (unsigned)__half_as_ushort(__float2half_rn(high)) << 16;
}

/* A warpgroup's sums to shared memory, [64 M pixels][BN]. */
template <int BN, int M, int SUMS> static __device__ __forceinline__ void put_sums(unsigned char *shared, const float (&sum)[M][SUMS]) {
  const int warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32;
#pragma unroll
  for (int i = 0; i < M; i++)
#pragma unroll
    for (int j = 0; j < SUMS; j += 2) /* two neighbours; of row lane / 4, or 8 below */
      put_results<BN>(shared, i * WGMMA_M + 16 * warp + lane / 4 + j / 2 % 2 * 8, j / 4 * 8 + lane % 4 * 2, sum[i][j], sum[i][j + 1]);
}

/* An accumulator takes one product after the other, which adds 16 products and what it was; zeros past the channels, too. */
static inline double growth_steps(const conv_problem *p, bool random) {
  const int steps = p->R * p->S * ((p->C / p->groups + BK - 1) / BK);
  return growth_truncated((double)(steps * (BK / 16) * (16 + 1)), random);
}
