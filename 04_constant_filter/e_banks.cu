/* 04e: filters from constant memory again, because a register file has two banks.
 *
 * Idea:     a multiply-add reads three registers. They lie in two banks, even and odd numbers, and a bank serves one of them at a time: three
 *           registers cost two cycles. Kernels get around it when neighbouring instructions share an operand, which the hardware keeps;
 *           matrix products share one always. A sliding window does not: as it slides by one, even becomes odd. With the filter's element
 *           from constant memory instead, through a uniform register, two registers are left.
 * Change:   up to 7x7, 04b with its filter in constant memory as in 04a, which leaves more registers, for more warps. From 9x9 on the same
 *           walk down the image with a loop over its rows, and unfinished sums of all SIZE rows: they move up by one with every row of
 *           pixels, which costs nothing, as a multiply-add may write its sum to another register than it read.
 * Expect:   of 04d's FMAs more than a third read two registers of one bank, so the FMA peak is out of reach by as much. Here almost none does
 *           (scripts/register_banks.sh counts them in the machine code).
 * Cache:    the constants that instructions name lie in a cache of about 2 KiB. 31 x 31 elements are 3.8 KiB: so a large filter is applied in two
 *           halves, and the first half's sums wait in y, in the L2 cache.
 * Sizes:    3x3, 5x5, 7x7, 9x9, 11x11, 13x13, 15x15, 31x31, stride 1, no dilation, padding S / 2 left and right, W a multiple of 4.
 *           One input channel per output channel. One launch, and one copy of a filter, for every output channel: meant for pictures.
 * Passes:   fprop. Layout: NCHW, filters KCRS, fp32. */
#include <cuda_runtime.h>

#include "common/plain.h"

enum { WARPS = 4, THREADS = 32 * WARPS, MOST_TAPS = 31 * 31 };

static __constant__ float constant_w[MOST_TAPS];

/* ---------------------------------------------------------------- small filters: 04b, but for where the filter lies */

enum { SMALL_COLS = 4, SMALL_STRIP = 8, SMALL_BP = WARPS * SMALL_STRIP, SMALL_BQ = 30 * SMALL_COLS };

/* Filter k, which lies in constant_w. A block: SMALL_BP x SMALL_BQ outputs of one plane y[n, k]; a warp: SMALL_STRIP rows of them. */
template <int SIZE>
__global__ void __launch_bounds__(THREADS, SIZE == 7 ? 5 : 8) small_kernel(conv_problem p, int k, int, const float *__restrict__ x, float *__restrict__ y) {
  constexpr int COLS = SMALL_COLS, STRIP = SMALL_STRIP, PAD = SIZE / 2;
  const int tiles_q = (p.Q + SMALL_BQ - 1) / SMALL_BQ, tiles_p = (p.P + SMALL_BP - 1) / SMALL_BP, lane = threadIdx.x % 32;
  const int first_q = blockIdx.x % tiles_q * SMALL_BQ + (lane - 1) * COLS;
  const int first_p = blockIdx.x / tiles_q % tiles_p * SMALL_BP + threadIdx.x / 32 * STRIP, first_h = first_p - p.pad_top, n = blockIdx.x / tiles_q / tiles_p;
  const bool in_image = first_q >= 0 && first_q < p.W; /* W is a multiple of 4: all four columns or none */
  const bool stores = in_image && lane > 0 && lane < 31;
  const float *column = x + (int64_t)(n * p.C + k / (p.K / p.groups)) * p.H * p.W + first_q;
  float *result = y + ((int64_t)(n * p.K + k) * p.P + first_p) * p.Q + first_q;

  float4 pixels[STRIP + SIZE - 1];
#pragma unroll
  for (int i = 0; i < STRIP + SIZE - 1; i++) {
    const bool inside = in_image && first_h + i >= 0 && first_h + i < p.H;
    pixels[i] = inside ? *(const float4 *)(column + (int64_t)(first_h + i) * p.W) : make_float4(0, 0, 0, 0);
  }
  float sum[STRIP][COLS] = {};
#pragma unroll
  for (int i = 0; i < STRIP + SIZE - 1; i++) {
    const float mine[COLS] = {pixels[i].x, pixels[i].y, pixels[i].z, pixels[i].w};
    float row[PAD + COLS + PAD];
#pragma unroll
    for (int j = 0; j < COLS; j++) row[PAD + j] = mine[j];
#pragma unroll
    for (int j = 0; j < PAD; j++) {
      row[j] = __shfl_up_sync(0xffffffff, mine[COLS - PAD + j], 1);
      row[PAD + COLS + j] = __shfl_down_sync(0xffffffff, mine[j], 1);
    }
#pragma unroll
    for (int r = 0; r < SIZE; r++) {
      if (i - r < 0 || i - r >= STRIP) continue; /* my output row i - r has this row under its filter row r */
#pragma unroll
      for (int s = 0; s < SIZE; s++)
#pragma unroll
        for (int j = 0; j < COLS; j++) sum[i - r][j] += row[j + s] * constant_w[r * SIZE + s];
    }
    const int done = i - (SIZE - 1);
    if (done >= 0 && stores && first_p + done < p.P) {
      const float *out = sum[done < 0 ? 0 : done];
      *(float4 *)(result + (int64_t)done * p.Q) = make_float4(out[0], out[1], out[2], out[3]);
    }
  }
}

/* ---------------------------------------------------------------- large filters: a loop over the rows */

/* Columns of a thread: the wider, the less counting per FMA; the registers are the limit. And blocks that a multiprocessor then holds. */
static __host__ __device__ constexpr int columns(int size) { return size == 9 ? 8 : 4; }
static constexpr int resident_blocks(int size) { return size > 15 ? 3 : size == 9 ? 3 : 4; }

/* What a thread works on. */
typedef struct walk {
  const float *column;  /* x[n, c, 0, first_q] */
  float *result;        /* y[n, k, 0, first_q] */
  int first_q, first_p, last_p;
} walk;

/* Adds filter rows FIRST_R to END_R - 1 to the outputs of a walk; the first of them begin at zero, later ones with what y holds. */
template <int SIZE, int FIRST_R, int END_R>
static __device__ __forceinline__ void add_filter_rows(const conv_problem &p, const walk &t) {
  constexpr int COLS = columns(SIZE), PAD = SIZE / 2, LEFT = (PAD + 3) / 4 * 4, WIDTH = LEFT + COLS + LEFT, ROWS = END_R - FIRST_R;
  constexpr int AHEAD = SIZE <= 15 ? 2 : 1; /* rows of pixels on their way */
  const int first_h = t.first_p - p.pad_top + FIRST_R, last_h = t.last_p - p.pad_top + END_R - 1;

  /* Four pixels at a time: W is a multiple of 4, so they lie inside the image together or outside. */
  const auto load_row = [&](float *row, int h) {
#pragma unroll
    for (int j = 0; j < WIDTH; j += 4) {
      const int in_w = t.first_q - LEFT + j;
      const bool inside = h >= 0 && h < p.H && h <= last_h && in_w >= 0 && in_w < p.W;
      const float4 four = inside ? *(const float4 *)(t.column + (int64_t)h * p.W + j - LEFT) : make_float4(0, 0, 0, 0);
      row[j] = four.x, row[j + 1] = four.y, row[j + 2] = four.z, row[j + 3] = four.w;
    }
  };
  float row[AHEAD][WIDTH], sum[ROWS][COLS] = {}; /* output rows to be completed, the oldest first */
#pragma unroll
  for (int d = 0; d < AHEAD; d++) load_row(row[d], first_h + d);

  for (int round_h = first_h; round_h <= last_h; round_h += AHEAD)
#pragma unroll
    for (int d = 0; d < AHEAD; d++) {
      const int h = round_h + d, newest = h + p.pad_top - FIRST_R; /* row h lies under filter row FIRST_R + r of output row newest - r */
      if (h > last_h) return;
#pragma unroll
      for (int r = ROWS - 1; r >= 0; r--) {
        if (newest - r < t.first_p || newest - r > t.last_p) continue; /* not mine */
        float part[COLS];
#pragma unroll
        for (int j = 0; j < COLS; j++) part[j] = r == 0 ? 0 : sum[ROWS - r][j];
        if (r == 0 && FIRST_R > 0) {
#pragma unroll
          for (int j = 0; j < COLS; j++) part[j] = t.result[(int64_t)newest * p.Q + j];
        }
#pragma unroll
        for (int m = 0; m < SIZE + COLS - 1; m++)
#pragma unroll
          for (int j = 0; j < COLS; j++)
            if (m - j >= 0 && m - j < SIZE) part[j] += row[d][LEFT - PAD + m] * constant_w[(FIRST_R + r) * SIZE + m - j];
#pragma unroll
        for (int j = 0; j < COLS; j++) sum[ROWS - 1 - r][j] = part[j];
      }
      load_row(row[d], h + AHEAD);
      const int done = newest - (ROWS - 1);
      if (done >= t.first_p)
#pragma unroll
        for (int j = 0; j < COLS; j += 4)
          if (t.first_q + j < p.Q) *(float4 *)(t.result + (int64_t)done * p.Q + j) = make_float4(sum[0][j], sum[0][j + 1], sum[0][j + 2], sum[0][j + 3]);
    }
}

/* Filter k, which lies in constant_w. A thread: `strip` rows of COLS columns of y[n, k]. */
template <int SIZE>
__global__ void __launch_bounds__(THREADS, resident_blocks(SIZE)) banks_kernel(conv_problem p, int k, int strip, const float *x, float *y) {
  constexpr int COLS = columns(SIZE), BQ = THREADS * COLS;
  const int tiles_q = (p.Q + BQ - 1) / BQ, strips = (p.P + strip - 1) / strip, n = blockIdx.x / tiles_q / strips;
  walk t;
  t.first_q = (blockIdx.x % tiles_q * THREADS + threadIdx.x) * COLS;
  t.first_p = blockIdx.x / tiles_q % strips * strip;
  t.last_p = min(t.first_p + strip, p.P) - 1;
  t.column = x + (int64_t)(n * p.C + k / (p.K / p.groups)) * p.H * p.W + t.first_q;
  t.result = y + (int64_t)(n * p.K + k) * p.P * p.Q + t.first_q;
  if (t.first_q >= p.Q) return;
  if constexpr (SIZE > 15) {
    add_filter_rows<SIZE, 0, SIZE / 2 + 1>(p, t);
    add_filter_rows<SIZE, SIZE / 2 + 1, SIZE>(p, t);
  } else {
    add_filter_rows<SIZE, 0, SIZE>(p, t);
  }
}

/* ---------------------------------------------------------------- host */

typedef void (*banks)(conv_problem p, int k, int strip, const float *x, float *y);

static banks kernel_of(int size) {
  switch (size) {
    case 3: return small_kernel<3>;
    case 5: return small_kernel<5>;
    case 7: return small_kernel<7>;
    case 9: return banks_kernel<9>;
    case 11: return banks_kernel<11>;
    case 13: return banks_kernel<13>;
    case 15: return banks_kernel<15>;
    case 31: return banks_kernel<31>;
    default: return NULL;
  }
}

static const char *unsupported(const conv_problem *p, const conv_device *device) {
  if (p->C != p->groups) return "more than one input channel per output channel";
  if (p->stride_h != 1 || p->stride_w != 1 || p->dil_h != 1 || p->dil_w != 1) return "stride or dilation is not 1";
  if (p->R != p->S || !kernel_of(p->S)) return "the filter is not 3x3, 5x5, 7x7, 9x9, 11x11, 13x13, 15x15 or 31x31";
  if (p->pad_left != p->S / 2 || p->Q != p->W || p->W % 4 != 0) return "W is no multiple of 4, or the padding not S / 2";
  return plain_unsupported(p, device);
}

/* Rows of a strip: so many that there is one strip for every block that the GPU holds at a time. */
static cudaError_t strip_of(const conv_problem *p, int *strip) {
  int device = 0, multiprocessors = 0;
  cudaError_t status = cudaGetDevice(&device);
  if (!status) status = cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device);
  const int bq = THREADS * columns(p->S), columns_of_blocks = p->N * ((p->Q + bq - 1) / bq), blocks = multiprocessors * resident_blocks(p->S);
  const int strips = blocks / columns_of_blocks > 0 ? blocks / columns_of_blocks : 1;
  *strip = (p->P + strips - 1) / strips;
  return status;
}

static cudaError_t launch_fprop(const conv_problem *p, const conv_buffers *b, cudaStream_t stream) {
  const banks kernel = kernel_of(p->S);
  int strip = 0;
  cudaError_t status = strip_of(p, &strip);
  const int bq = p->S < 9 ? SMALL_BQ : THREADS * columns(p->S), bp = p->S < 9 ? SMALL_BP : strip;
  const int blocks = p->N * ((p->Q + bq - 1) / bq) * ((p->P + bp - 1) / bp), taps = p->R * p->S;
  for (int k = 0; k < p->K && !status; k++) {
    status = cudaMemcpyToSymbolAsync(constant_w, (const float *)b->w + k * taps, taps * sizeof(float), 0, cudaMemcpyDeviceToDevice, stream);
    if (status) break;
    kernel<<<blocks, THREADS, 0, stream>>>(*p, k, strip, (const float *)b->x, (float *)b->y);
    status = cudaGetLastError();
  }
  return status;
}

FP32_ROW(banks_fprop, "04e", "filters from constant memory, for the register banks", PASS_FPROP, unsupported, launch_fprop, plain_growth_fprop);
