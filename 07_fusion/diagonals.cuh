/* A depthwise 3 x 3 by tensor cores: eight channels' filters on the diagonals of matrices. For 07g. */
#pragma once
#include "07_fusion/finish.cuh"

static constexpr int SIDE = 16 /* channels of a warp */, PIXELS = 64 /* of a tile */, TAPS = 9,
                     TABLE = 2 * TAPS + 8 /* bytes of a channel: filters, scale, bias */;

/* The depthwise layer's filters, scales and biases, as they lie in memory, one after the other. By one thread; full: the barrier that they complete. */
static __device__ __forceinline__ void load_table(const finish &f, const __half *w, int channels, ptx_shared table, ptx_shared full) {
  const int of_w = channels * TAPS * 2, of_floats = channels * 4; /* bytes: multiples of 16, as C is one of 8 */
  ptx_mbarrier_arrive_expect_tx(full, of_w + (f.scale ? of_floats : 0) + (f.bias ? of_floats : 0));
  ptx_bulk_load(table, w, of_w, full);
  if (f.scale) ptx_bulk_load(table + of_w, f.scale, of_floats, full);
  if (f.bias) ptx_bulk_load(table + of_w + of_floats, f.bias, of_floats, full);
}

/* A warp's diagonals, of two times 8 channels and 9 taps: of each matrix [8 channels][8 channels] a lane has at most one element that is not zero. And of each 8 the two channels whose
 * results the lane will have. */
typedef struct diagonals {
  unsigned of[2][TAPS];
  float2 scale[2], bias[2];
} diagonals;

static __device__ __forceinline__ diagonals load_diagonals(const finish &f, const unsigned char *table, int first, int channels) {
  const int lane = threadIdx.x % 32, column = lane / 4;
  const bool diagonal = column / 2 == lane % 4; /* the lane that has row `column` of column `column` */
  const unsigned short *const w = (const unsigned short *)table;
  const float *const floats = (const float *)(table + channels * TAPS * 2);
  diagonals d;
#pragma unroll
  for (int half = 0; half < 2; half++) {
    const int eight = first + 8 * half, c = eight + column, mine = eight + lane % 4 * 2;
    const bool inside = eight < channels; /* or none of the eight */
#pragma unroll
    for (int tap = 0; tap < TAPS; tap++) d.of[half][tap] = diagonal && inside ? (unsigned)w[c * TAPS + tap] << column % 2 * 16 : 0;
    d.scale[half] = f.scale && inside ? *(const float2 *)(floats + mine) : make_float2(1, 1);
    d.bias[half] = f.bias && inside ? *(const float2 *)(floats + channels + mine) : make_float2(0, 0);
  }
  return d;
}

/* Where a lane reads and writes, in bytes behind the halo tile's and the operand's begin, for the first unit. Of pixel `from` and those a multiple of eight behind it one and the same piece is
 * swizzled alike: so eight places are enough for all windows, and the rest are constants, which cost nothing in a load. */
typedef struct lane_places {
  unsigned from[CHUNKS] /* of pixels 0 to 7 further */, to;
} lane_places;

template <int STRIDE, int COLUMNS> static constexpr int wide_of = (COLUMNS - 1) * STRIDE + 3; /* of a halo tile */

template <int STRIDE, int COLUMNS> static __device__ __forceinline__ lane_places places_of(int group) {
  const int lane = threadIdx.x % 32, second = lane / 8 % 2 /* of two rows of results */, chunk = 2 * group + lane / 16;
  const int first = second * STRIDE * wide_of<STRIDE, COLUMNS> + lane % 8 * STRIDE;
  lane_places at;
#pragma unroll
  for (int i = 0; i < CHUNKS; i++) at.from[i] = swizzled_up(first + i, chunk) - i * ROW;
  at.to = swizzled_up(second * COLUMNS + lane % 8, chunk);
  return at;
}

/* By a worker: a unit of 16 channels, finished, to the operand. unit: the left or the upper half of the tile's pixels, or the other. x: the halo tile. Eight pixels of a row and eight of
 * another row, which are a result's row and the next one's for the same tap, are the 16 rows of a product. */
template <int STRIDE, int COLUMNS, limits_kind KIND>
static __device__ __forceinline__ void depthwise(const finish &f, const diagonals &d, const lane_places &at, int unit, ptx_shared x, ptx_shared to) {
  constexpr int WIDE = wide_of<STRIDE, COLUMNS>, UNIT = COLUMNS > 8 ? 8 * STRIDE : 4 * STRIDE * WIDE /* pixels from a unit to the next */;
  static_assert(UNIT % CHUNKS == 0, "places of a unit are those of the other");
  x += unit * UNIT * ROW, to += unit * (COLUMNS > 8 ? 8 : 4 * COLUMNS) * ROW;
  float sum[2][2][4] = {}; /* [two rows of results][eight channels] */
#pragma unroll
  for (int r = 0; r < 3; r++) /* of the window */
#pragma unroll
    for (int s = 0; s < 3; s++)
#pragma unroll
      for (int o = 0; o < 2; o++) {
        const int behind = (2 * o * STRIDE + r) * WIDE + s;
        unsigned pixels[4];
        ptx_ldmatrix_x4(pixels, x + at.from[behind % CHUNKS] + behind * ROW);
#pragma unroll
        for (int half = 0; half < 2; half++) {
          const unsigned a[4] = {pixels[2 * half], pixels[2 * half + 1]}, b[2] = {d.of[half][r * 3 + s]};
          ptx_mma_m16n8k8(sum[o][half], a, b);
        }
      }
#pragma unroll
  for (int o = 0; o < 2; o++) {
    unsigned part[4];
#pragma unroll
    for (int j = 0; j < 4; j++) {
      const float *const two = &sum[o][j / 2][j % 2 * 2];
      const float2 scale = d.scale[j / 2], bias = d.bias[j / 2];
      part[j] = activated<false, KIND>(make_float2(fmaf(two[0], scale.x, bias.x), fmaf(two[1], scale.y, bias.y)), f);
    }
    ptx_stmatrix_x4(to + at.to + 2 * o * COLUMNS * ROW, part);
  }
}

/* By a worker: a task, both units. */
template <int STRIDE, int COLUMNS, limits_kind KIND>
static __device__ __forceinline__ void both_units(const finish &f, const diagonals &d, const lane_places &at, ptx_shared x, ptx_shared to) {
#pragma unroll 1
  for (int unit = 0; unit < 2; unit++) depthwise<STRIDE, COLUMNS, KIND>(f, d, at, unit, x, to);
}

/* By a worker: zeros for 16 channels that are none. */
static __device__ __forceinline__ void put_zeros(int group, unsigned char *to) {
  for (int pixel = threadIdx.x % 32; pixel < PIXELS; pixel += 32)
    *(uint4 *)(to + swizzled(pixel, 2 * group)) = *(uint4 *)(to + swizzled(pixel, 2 * group + 1)) = uint4();
}
