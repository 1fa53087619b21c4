/* Warpgroups that walk down strips, and hand on rows: a 3 x 3 whose filters are in registers, and a 1 x 1 that widens. For 07e and 07j. */
#pragma once
#include "07_fusion/rows.cuh"

static constexpr int BETWEEN = 2 /* steps between the two */;

/* Shared memory, and who hands on what: barriers of a ring each. `room`: of what lies between and of boxes, before anything is there. */
typedef struct walk {
  ptx_shared kept, between, expand, boxes, filters_there, room_full, room_empty;
  ring rows, pixels, box; /* rows: what the 3 x 3 reads, two in a place; pixels: what it gives; box: residuals, and room for results */
} walk;

/* Of the filters of the 3 x 3 so many taps find room where so many boxes, and what lies between, will be. */
static __host__ __device__ constexpr int taps_taken(int n, int boxes) {
  return (BETWEEN + boxes) * ROWS * n * ROW / TAP < TAPS ? (BETWEEN + boxes) * ROWS * n * ROW / TAP : TAPS;
}

/* The 3 x 3: a row of results needs three of its input; of the four of two places, the first two are the step's before. PLACES: of rows. */
template <int N, int PLACES, int TAKEN, limits_kind KIND>
static __device__ __forceinline__ void convolve_rows(const strips &t, const walk &at, const finish &f, const CUtensorMap *filters) {
  unsigned a[TAPS * STEPS][4];
  take_filters<TAKEN>(a, at.between, at.room_full, 3, filters);
  if (threadIdx.x % THREADS == 0) ptx_mbarrier_arrive(at.room_empty);
  const channel_pair c = channels_of(f, 0, t.second_k);
  const bool tells = threadIdx.x % THREADS == 0, first_lane = threadIdx.x % 32 == 0;
  slot s = {0, 0}, to = {0, 0};
  for (int i = blockIdx.x; i < t.count; i += gridDim.x) {
    const strip of = strip_at(t, i);
    ptx_mbarrier_wait(at.rows.full + 8 * s.stage, s.parity);
    for (int step = of.first; step < of.end; step++, to = next_slot(to, BETWEEN)) {
      const int before = s.stage;
      s = next_slot(s, PLACES);
      ptx_mbarrier_wait(at.rows.full + 8 * s.stage, s.parity);
      float sum[ROWS][N / 2];
      multiply_windows<N>(sum, a, at.kept + before * pair_bytes(N), at.kept + s.stage * pair_bytes(N));
      const ptx_shared pixels = at.between + to.stage * ROWS * N * ROW;
      ptx_mbarrier_wait(at.pixels.empty + 8 * to.stage, to.parity ^ 1);
      ptx_wgmma_wait<1>();
      put_over<N, false, false, KIND>(sum[0], c, f, pixels);
      ptx_wgmma_wait<0>();
      if (first_lane) ptx_mbarrier_arrive(at.rows.empty + 8 * before); /* no window needs these rows any more */
      __syncwarp();
      put_over<N, false, false, KIND>(sum[1], c, f, pixels + N * ROW);
      ptx_fence_proxy_async();
      ptx_bar_sync(3, THREADS);
      if (tells) ptx_mbarrier_arrive(at.pixels.full + 8 * to.stage);
    }
    if (first_lane) ptx_mbarrier_arrive(at.rows.empty + 8 * s.stage);
    s = next_slot(s, PLACES);
  }
}

/* Of BY warpgroups that take 64 filters at a time in turns: step number `turn` begins for this one with ... */
template <int BY> static __device__ __forceinline__ int first_piece(int me, int turn, int pieces) { return BY == 1 ? 0 : (me + turn * pieces) % BY; }

/* The 1 x 1, 64 filters at a time: while a row of sums is finished, the tensor cores have the other's products. BOXES: of each of BY warpgroups. */
template <int N, int BY, int BOXES, limits_kind KIND>
static __device__ __forceinline__ void expand_rows(const strips &t, const walk &at, const finish &f, int me, const CUtensorMap *results) {
  constexpr int BOX = ROWS * N * ROW;
  const bool tells = threadIdx.x % THREADS == 0, first_lane = threadIdx.x % 32 == 0;
  const ptx_shared full = at.box.full + 8 * me * BOXES, empty = at.box.empty + 8 * me * BOXES;
  slot s = {0, 0}, from = {0, 0};
  int count = 0 /* of boxes */, turn = 0;
  ptx_mbarrier_wait(at.filters_there, 0);
  for (int i = blockIdx.x; i < t.count; i += gridDim.x) {
    const strip of = strip_at(t, i);
    for (int step = of.first; step < of.end; step++, turn++, from = next_slot(from, BETWEEN)) {
      const ptx_shared pixels = at.between + from.stage * BOX;
      int piece = first_piece<BY>(me, turn, t.pieces);
      ptx_mbarrier_wait(at.pixels.full + 8 * from.stage, from.parity);
      if (piece >= t.pieces && first_lane) ptx_mbarrier_arrive(at.pixels.empty + 8 * from.stage); /* all of this step is the others' */
      for (; piece < t.pieces; piece += BY, count++, s = next_slot(s, BOXES)) {
        const channel_pair c = channels_of(f, piece * WGMMA_M, t.third_k);
        const ptx_shared box = at.boxes + (me * BOXES + s.stage) * BOX;
        float sum[ROWS][1][N / 2];
#pragma unroll
        for (int row = 0; row < ROWS; row++) multiply<true>(sum[row], at.expand + piece * TAP, pixels + row * N * ROW);
        if (tells) ptx_bulk_wait_read<BOXES - 1>(); /* the box is on its way no more */
        if (f.residual) ptx_mbarrier_wait(full + 8 * s.stage, s.parity);
        ptx_bar_sync(4 + me, THREADS);
        ptx_wgmma_wait<1>();
        put_finished<N, false, KIND>(sum[0][0], c, f, box);
        ptx_wgmma_wait<0>();
        if (piece + BY >= t.pieces && first_lane) ptx_mbarrier_arrive(at.pixels.empty + 8 * from.stage);
        __syncwarp();
        put_finished<N, false, KIND>(sum[1][0], c, f, box + N * ROW);
        ptx_fence_proxy_async();
        ptx_bar_sync(4 + me, THREADS); /* the box is there */
        if (tells) {
          ptx_tensor_store(results, {piece * WGMMA_M, 0, step * ROWS, of.n}, box);
          ptx_bulk_commit();
          if (f.residual && count > 0) {
            ptx_bulk_wait_read<1>(); /* the box before has left */
            ptx_mbarrier_arrive(empty + 8 * (s.stage > 0 ? s.stage - 1 : BOXES - 1));
          }
        }
        __syncwarp();
      }
    }
  }
  if (tells) ptx_bulk_wait_read<0>(); /* shared memory may go; what is written is there when the grid ends */
}

/* Residuals of the pieces of warpgroup `me`, by one thread, into its boxes. */
template <int N, int BY, int BOXES>
static __device__ __forceinline__ void ask_residuals(const strips &t, const walk &at, int me, const CUtensorMap *residuals) {
  constexpr int BOX = ROWS * N * ROW;
  slot s = {0, 0};
  int turn = 0;
  ptx_mbarrier_wait(at.room_empty, 0); /* filters lay here */
  for (int i = blockIdx.x; i < t.count; i += gridDim.x) {
    const strip of = strip_at(t, i);
    for (int step = of.first; step < of.end; step++, turn++)
      for (int piece = first_piece<BY>(me, turn, t.pieces); piece < t.pieces; piece += BY, s = next_slot(s, BOXES)) {
        const int box = me * BOXES + s.stage;
        ptx_mbarrier_wait(at.box.empty + 8 * box, s.parity ^ 1);
        ptx_mbarrier_arrive_expect_tx(at.box.full + 8 * box, BOX);
        ptx_tensor_load(at.boxes + box * BOX, residuals, {piece * WGMMA_M, 0, step * ROWS, of.n}, at.box.full + 8 * box);
      }
  }
}
