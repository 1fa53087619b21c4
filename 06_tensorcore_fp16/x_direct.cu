/* 06x: depthwise layers with few outputs: the shortest way.
 *
 * Terms:    latency-bound kernels, thread-level parallelism, programmatic dependent launch.
 * Idea:     with one image a depthwise layer is over in 3 us, of which 2 are the launch, one way from memory and one way back. Whatever comes in between is too much: 06p's
 *           matrices and its ring of rows, 06u's diagonals, 04g's strips, on which a thread walks down the image and waits at every row. So no pixel is shared, and nobody walks:
 *           a thread has four channels of two neighbouring pixels, asks at once for all that lies under their windows, waits once, multiplies, and stores.
 * Filters:  of a channel all taps lie side by side: neighbouring threads would read them 72 or 200 bytes apart. The block copies its channels' filters as they lie, asynchronously, and
 *           threads read them from shared memory, where those strides meet no bank twice.
 * Cost:     what neighbours have in common is asked for by each of them: a pixel SIZE times from L1 or L2, or less, where a thread has several rows. Four channels are 8 bytes, and
 *           a warp's requests are 256 bytes side by side.
 * Change:   against 04g no strip; four channels for two, which are few registers for a 3 x 3 or 5 x 5 filter, but half as many requests; it begins early (docs/06_launch.md).
 * Expect:   (before anything ran, without the filters' way) 3 x 3, one image, 192 channels, 28 x 28: 18,816 threads, 0.7 us to launch, 0.9 for pixels from DRAM, 300 instructions of one or two warps a scheduler, 0.3, and
 *           0.6 to store: 2.5 us, where 06u takes 3.9 and 06p 4.9. 5 x 5: 3.2. With many images the requests decide: 12 of 8 bytes for two outputs, 36 with four rows for eight.
 * Passes:   fprop. Layout: NHWC, filters KRSC, fp16 with fp32 sums. 3 x 3 and 5 x 5, stride 1 or 2, no dilation; 7 x 7 with one result an image, an average say; C = K = groups, a multiple of 4. */
#include <cuda_fp16.h>
#include <cuda_pipeline.h>
#include <cuda_runtime.h>
#include <stdio.h>

#include "04_constant_filter/depthwise.h"
#include "06_tensorcore_fp16/divide.cuh"
#include "common/harness/launch.h"
#include "common/ptx/async_copy.cuh"
#include "common/ptx/grid.cuh"

enum { QUAD = 4 /* channels */ };

/* Threads of a block: as many as their filters have room for in 48 KiB. */
static __host__ __device__ constexpr int threads(int size) { return size == 7 ? 64 : 128; }

/* By the four channels of a thread, and by the tiles of a row and of a column of the result. */
typedef struct direct_cut {
  divisor quads, tiles_q, tiles_p;
} direct_cut;

/* Four channels of a pixel: eight bytes, which are one load. */
typedef uint2 quad;

static __device__ __forceinline__ float half_of(const quad &four, int c) {
  return __half2float(__ushort_as_half((unsigned short)((c < 2 ? four.x : four.y) >> c % 2 * 16)));
}

static __device__ __forceinline__ unsigned two_halves(float low, float high) {
  const __half2 pair = __floats2half2_rn(low, high);
  return __half_as_ushort(__low2half(pair)) | (unsigned)__half_as_ushort(__high2half(pair)) << 16;
}

/* A thread: ROWS rows of COLS columns of four channels of y. */
template <int SIZE, int STRIDE, int ROWS, int COLS>
__global__ void __launch_bounds__(threads(SIZE))
    direct_kernel(conv_problem p, direct_cut t, const quad *x /* not __restrict__: or pixels would be asked for where they are needed */, const quad *w,
                  quad *y) {
  constexpr int THREADS = threads(SIZE), TAPS = SIZE * SIZE, WIDTH = (COLS - 1) * STRIDE + SIZE,
                HEIGHT = (ROWS - 1) * STRIDE + SIZE;            /* what lies under my windows */
  if (threadIdx.x == 0) ptx_griddepcontrol_launch_dependents(); /* the next kernel may begin */
  const int quads = t.quads.by, first_task = blockIdx.x * THREADS, task = first_task + threadIdx.x;
  const int of_q = divide(task, t.quads), mine = task - of_q * quads, of_p = divide(of_q, t.tiles_q),
            n = divide(of_p, t.tiles_p); /* neighbouring threads: channels */
  const int first_q = (of_q - of_p * t.tiles_q.by) * COLS, first_p = (of_p - n * t.tiles_p.by) * ROWS;
  const int first_h = first_p * STRIDE - p.pad_top, first_w = first_q * STRIDE - p.pad_left;
  const int first = quads <= THREADS ? 0 : first_task - divide(first_task, t.quads) * quads; /* of the block's channels */
  __shared__ quad filters[THREADS * TAPS];                                                   /* as they lie in w: of each channel all taps */
  ptx_griddepcontrol_wait();                                                                 /* what the kernel before wrote is there */

  for (int i = threadIdx.x; i < min(THREADS, quads) * TAPS; i += THREADS) {
    const int at = first * TAPS + i; /* the channels begin again where a pixel ends */
    ptx_cp_async<sizeof(quad)>(ptx_shared_address(filters + i), w + (at < quads * TAPS ? at : at - quads * TAPS), false);
  }
  quad pixels[HEIGHT][WIDTH]; /* all are on their way at once */
#pragma unroll
  for (int h = 0; h < HEIGHT; h++)
#pragma unroll
    for (int j = 0; j < WIDTH; j++) {
      const int in_h = first_h + h, in_w = first_w + j;
      const bool inside = n < p.N && in_h >= 0 && in_h < p.H && in_w >= 0 && in_w < p.W;
      pixels[h][j] = inside ? x[((n * p.H + in_h) * p.W + in_w) * quads + mine] : quad();
    }
  __pipeline_commit();
  __pipeline_wait_prior(0);
  __syncthreads(); /* filters are there */
  if (n >= p.N) return;

  const quad *const filter = filters + (mine - first + (mine < first ? quads : 0)) * TAPS;
  float sum[ROWS][COLS][QUAD] = {};
#pragma unroll
  for (int i = 0; i < TAPS; i++) {
    const quad four = filter[i];
#pragma unroll
    for (int f = 0; f < QUAD; f++) {
      const int c = (i * QUAD + f) / TAPS, tap = (i * QUAD + f) % TAPS; /* what lies there */
#pragma unroll
      for (int k = 0; k < ROWS; k++)
#pragma unroll
        for (int q = 0; q < COLS; q++) sum[k][q][c] += half_of(pixels[k * STRIDE + tap / SIZE][q * STRIDE + tap % SIZE], c) * half_of(four, f);
    }
  }
#pragma unroll
  for (int k = 0; k < ROWS; k++)
#pragma unroll
    for (int q = 0; q < COLS; q++) {
      if (first_p + k >= p.P || first_q + q >= p.Q) continue;
      const float(&v)[QUAD] = sum[k][q];
      y[((n * p.P + first_p + k) * p.Q + first_q + q) * quads + mine] = make_uint2(two_halves(v[0], v[1]), two_halves(v[2], v[3]));
    }
}

/* ---------------------------------------------------------------- host */

typedef void (*direct_t)(conv_problem p, direct_cut t, const quad *x, const quad *w, quad *y);

/* The kernels: size of the filter, stride, rows and columns of a thread. */
typedef struct direct_row {
  int size, stride, rows, columns;
  direct_t kernel;
} direct_row;
#define ROW_OF(SIZE, STRIDE, ROWS, COLS) \
  { SIZE, STRIDE, ROWS, COLS, direct_kernel<SIZE, STRIDE, ROWS, COLS> }
static const direct_row table[] = {ROW_OF(3, 1, 1, 2), ROW_OF(3, 1, 4, 2), ROW_OF(3, 2, 1, 2), ROW_OF(3, 2, 2, 2), ROW_OF(5, 1, 1, 2),
                                   ROW_OF(5, 1, 2, 2), ROW_OF(5, 2, 1, 2), ROW_OF(5, 2, 2, 2), ROW_OF(7, 1, 1, 1)};

/* What a launch needs. */
typedef struct direct_launch {
  const direct_row *row;
  direct_cut cut;
  int blocks;
  bool early;
} direct_launch;

static int64_t threads_of(const conv_problem *p, const direct_row &r) {
  return (int64_t)p->N * ((p->P + r.rows - 1) / r.rows) * ((p->Q + r.columns - 1) / r.columns) * (p->C / QUAD);
}

static const char *plan_direct(const conv_operation *o, const conv_device *device, conv_plan *plan) {
  const conv_problem *p = &o->problem;
  if (p->C != p->groups || p->K != p->groups) return "not depthwise: C, K and groups differ";
  if (p->C % QUAD != 0) return "C is no multiple of 4";
  const char *why = plain_unsupported(p, device);
  if (why) return why;
  direct_launch *l = plan_data<direct_launch>(plan);
  for (const direct_row &row : table) /* several rows a thread where there are threads enough: as many as a multiprocessor holds at a time */
    if (is_square(p, row.size, row.stride) && (!l->row || threads_of(p, row) >= (int64_t)1024 * device->sm_count)) l->row = &row;
  if (l->row && l->row->size == 7 && p->P * p->Q > 1) l->row = NULL; /* others share more than a thread can keep */
  if (!l->row) return "not 3x3 or 5x5 with stride 1 or 2 and no dilation, nor 7x7 with one result";
  l->cut = {divisor_of(p->C / QUAD), divisor_of((p->Q + l->row->columns - 1) / l->row->columns), divisor_of((p->P + l->row->rows - 1) / l->row->rows)};
  l->blocks = (int)((threads_of(p, *l->row) + threads(l->row->size) - 1) / threads(l->row->size));
  snprintf(plan->words, sizeof plan->words, "%d row%s of %d pixels a thread", l->row->rows, l->row->rows > 1 ? "s" : "", l->row->columns);
  const cudaError_t status = kernel_waits((const void *)l->row->kernel, &l->early);
  return status ? plan_failed(plan, status) : NULL;
}

static cudaError_t launch_direct(const conv_plan *plan, const conv_buffers *b, cudaStream_t stream) {
  const direct_launch *l = plan_data<direct_launch>(plan);
  return launch_kernel({.grid = dim3(l->blocks), .block = dim3(threads(l->row->size)), .stream = stream, .early = l->early}, l->row->kernel,
                       plan->operation.problem, l->cut, (const quad *)b->x, (const quad *)b->w, (quad *)b->y);
}

NHWC_ROW(direct_fprop, "06x", "depthwise, fp16: few outputs, the shortest way", PASS_FPROP, 53, plan_direct, launch_direct, plain_growth_fprop);
