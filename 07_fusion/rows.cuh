/* Strips of images, walked down two rows at a time; rows that stay in shared memory, with their padding; 3 x 3 filters that stay in registers. For 07e, 07f and 07j. */
#pragma once
#include "07_fusion/finish.cuh"

static constexpr int ROWS = 2 /* of a step */, KEPT = 2 /* steps whose rows are there */, TAPS = 9, STEPS = BK / 16 /* products of a tap */;
static constexpr int TAP = WGMMA_M * ROW /* bytes of 64 filters of 64 channels */;

/* A row in shared memory: padding, N pixels, padding. Results of a window need no others. A step's rows lie together, and begin where a swizzle does. */
static __host__ __device__ constexpr int pitch(int n) { return n + 2; }
static __host__ __device__ constexpr int pair_bytes(int n) { return (ROWS * pitch(n) + 7) / 8 * 8 * ROW; }

/* Strips of `length` steps, `each` to an image of rows x columns pixels; what a block needs besides: 64 channels at a time of x, and of y; stages of x; filters. */
typedef struct strips {
  divisor each;
  int length, count, rows, columns;
  int chunks, pieces, stages, first_k, second_k, third_k;
} strips;

/* Steps from first to end of image n. */
typedef struct strip {
  int n, first, end;
} strip;

static __device__ __forceinline__ strip strip_at(const strips &t, int i) {
  const int n = divide(i, t.each), first = (i - n * t.each.by) * t.length;
  return {n, first, min(first + t.length, (t.rows + ROWS - 1) / ROWS)};
}

/* Why an operation is no layer whose results are as large as its image: `side` x `side` with half of that as padding. */
static inline const char *rows_unsupported(const conv_operation *o, int side, const conv_device *device) {
  const conv_problem *p = &o->problem;
  if (o->kind != OPERATION_CONVOLUTION || o->epilogue.fp32) return "no convolution in fp16";
  if (is_smooth(o->epilogue.activation)) return "an activation with an exponential";
  if (p->groups > 1) return "groups";
  if (p->C % CHUNK != 0 || p->K % CHUNK != 0) return "C or K is no multiple of 8";
  if (p->stride_h > 1 || p->stride_w > 1 || p->P != p->H || p->Q != p->W) return "results are not as large as images";
  if (p->R != side || p->S != side || p->pad_top != side / 2 || p->pad_left != side / 2 || p->dil_h > 1 || p->dil_w > 1)
    return "filters of another size, or dilated";
  return plain_unsupported(p, device);
}

/* Strips for as many blocks as there are multiprocessors, or twice as many ..., such that the one with most steps has the fewest. A strip has a step more than it is long. */
static inline void choose_strips(int images, int sm_count, strips *t) {
  int64_t least = INT64_MAX;
  const int steps = (t->rows + ROWS - 1) / ROWS;
  for (int parts = 1; parts <= steps; parts++) {
    const int length = (steps + parts - 1) / parts, used = (steps + length - 1) / length;
    const int64_t count = (int64_t)images * used, cost = (count + sm_count - 1) / sm_count * (length + 1);
    if (cost < least) least = cost, t->length = length, t->count = (int)count, t->each = divisor_of(used);
  }
}

/* Steps of the block with most strips. */
static inline int steps_of(const strips *t, int blocks) { return (t->count + blocks - 1) / blocks * (t->length + 1); }

/* Sums [64 channels][N pixels] of two rows, finished, to where they are kept: rows `row` and following of the image. What lies outside of it is the next layer's padding:
 * zeros, and not what scale and bias make of zeros. */
template <int N, limits_kind KIND = LIMITS>
static __device__ __forceinline__ void put_rows(const float (&sum)[ROWS][N / 2], const channel_pair &c, const finish &f, ptx_shared to, int row,
                                                const strips &t) {
  static_assert(ROWS == 2 && N % 8 == 0, "an even number of times eight pixels, each in one row");
  constexpr int EIGHTS = N / 8;
  const int lane = threadIdx.x % 32, chunk = 2 * (threadIdx.x / 32 % 4) + lane / 8 % 2;
#pragma unroll
  for (int j = 0; j < ROWS * EIGHTS; j += 2) { /* two times eight pixels, 16 channels */
    unsigned part[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
      const int of_row = (j + i / 2) / EIGHTS, eight = (j + i / 2) % EIGHTS, s = 4 * eight + 2 * (i % 2), column = eight * 8 + lane % 4 * 2;
      const bool inside = row + of_row >= 0 && row + of_row < t.rows;
      const unsigned pair = finished<false, false, KIND>(make_float2(sum[of_row][s], sum[of_row][s + 1]), c.scale[i % 2], c.bias[i % 2], 0, f);
      part[i] = pair & ((inside && column < t.columns ? 0xffffu : 0) | (inside && column + 1 < t.columns ? 0xffff0000u : 0));
    }
    const int mine = j + lane / 16, of_row = mine >= EIGHTS;
    ptx_stmatrix_x4_trans(to + swizzled(of_row * pitch(N) + 1 + (mine - of_row * EIGHTS) * 8 + lane % 8, chunk), part);
  }
}

/* A warpgroup's filters of the 3 x 3 in registers: of each 16 channels of a tap a's fragment. From where they lie that would be 144 loads of 4 bytes a thread, 4 us. So the copy engine brings the
 * taps to shared memory, as many as there is room for, and ldmatrix takes them from there. TAKEN: taps at a time; full: an mbarrier for one arrival; bar: the warpgroup's barrier. */
template <int TAKEN>
static __device__ __forceinline__ void take_filters(unsigned (&a)[TAPS * STEPS][4], ptx_shared room, ptx_shared full, int bar, const CUtensorMap *filters) {
  const int lane = threadIdx.x % 32, row = threadIdx.x / 32 % 4 * 16 + lane % 16;
#pragma unroll
  for (int first = 0; first < TAPS; first += TAKEN) {
    const int end = first + TAKEN < TAPS ? first + TAKEN : TAPS;
    if (threadIdx.x % THREADS == 0) {
      ptx_mbarrier_arrive_expect_tx(full, (end - first) * TAP);
      for (int tap = first; tap < end; tap++) ptx_tensor_load(room + (tap - first) * TAP, filters, {0, tap, 0}, full);
    }
    __syncwarp();
    ptx_mbarrier_wait(full, first / TAKEN % 2);
    __syncwarp(); /* ldmatrix takes a row's address from each lane: all must be here */
#pragma unroll
    for (int tap = first; tap < end; tap++)
#pragma unroll
      for (int j = 0; j < STEPS; j++) ptx_ldmatrix_x4(a[tap * STEPS + j], room + (tap - first) * TAP + swizzled(row, 2 * j + lane / 16));
    ptx_fence_proxy_async(); /* read by threads, written by copies next */
    ptx_bar_sync(bar, THREADS);
  }
}

/* Two rows of results, a group of products each, from four rows of pixels: those of the step before, and this step's. */
template <int N>
static __device__ __forceinline__ void multiply_windows(float (&sum)[ROWS][N / 2], const unsigned (&a)[TAPS * STEPS][4], ptx_shared before, ptx_shared now) {
#pragma unroll
  for (int row = 0; row < ROWS; row++) {
    ptx_wgmma_fence();
#pragma unroll
    for (int j = 0; j < TAPS * STEPS; j++) {
      const int r = row + j / STEPS / 3, column = j / STEPS % 3; /* of the four rows; of a row */
      const ptx_shared pixels = (r < ROWS ? before : now) + (r % ROWS * pitch(N) + column) * ROW;
      const unsigned long long b = ptx_wgmma_descriptor(pixels, 16, 8 * ROW, PTX_SWIZZLE_128) + 2 * (j % STEPS);
      if (j == 0) ptx_wgmma_registers<0, 0>(sum[row], a[j], b);
      else ptx_wgmma_registers(sum[row], a[j], b);
    }
    ptx_wgmma_commit();
  }
}
