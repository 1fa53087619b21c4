/* 06k: the gradient of the image under a stride: a convolution for every residue.
 *
 * Terms:    transposed convolution, residue class, interleaved output.
 * Idea:     with a stride of 2, pixels of dx in even rows meet other taps than those in odd ones: tap r sees row h where stride divides h + pad - r dil. So dx is
 *           cut into classes by the residues of h and w, and each is 06j's problem with taps of its own: of a 3x3 filter 4, 2, 2 and 1. No product with a zero
 *           between dy's pixels is ever done. All classes have as many pixels, what is missing of the last row or column not stored; and one map of dy
 *           serves them all: a class's windows begin where all do, and its taps, which lie further, have other offsets.
 * Order:    classes one after the other, those with most taps first, so that all multiprocessors have their share of each. A class without taps is only zeros,
 *           for which nothing is loaded: they are stored with the first class's tiles, so that memory has its work while products are made.
 * Bias:     as in 06j; a class without taps is the bias alone.
 * Stores:   neighbours of a class are not neighbours in dx, and no box of a tensor map goes around the end of a row as windows do. So threads store: 64
 *           channels of a pixel are 128 bytes, whole lines.
 * Change:   against 06j the classes and their taps; the way out.
 * Expect:   (nothing has been timed) 06j's rate, less what stores cost: of a tile of 128 channels x 224 pixels 14 stores of 16 bytes a thread, some 500 clocks that
 *           only the other consumer's products overlap, against some 7000 of the products of two taps and 256 filters. 1x1 with stride 2: three of four
 *           classes are zeros; the time is that of writing dx.
 * Passes:   dgrad. Layout: NHWC, filters KRSC, fp16 with fp32 sums. Channels and filters: multiples of 8. Strides up to 8, no groups. */
#include <math.h>

#include "06_tensorcore_fp16/bias.cuh"
#include "06_tensorcore_fp16/cut.cuh"
#include "common/harness/launch.h"

static constexpr int MOST_STRIDE = 8;

/* Rows at, at + stride, ... of dx (or columns), and their taps: first, first + step, ... (step and apart are their axis's), of which the first lies at the
 * offset `from`, the next at from - apart. */
typedef struct residue {
  int at, taps, first, from;
} residue;

/* Residues, those with most taps first. Windows of dy begin at `low`. */
typedef struct axis {
  int low, residues, met /* with taps */, step, apart, reach /* the largest offset */, pixels /* of a residue */;
  residue of[MOST_STRIDE];
} axis;

typedef struct strided_cut {
  int classes;           /* with taps; at least one */
  tile_cut in;           /* of a class */
  divisor tiles, across; /* by the tiles of a class; by the residues of columns that have taps */
  axis h, w;
} strided_cut;

/* Where a tile lies: the rows and columns of its class, its first pixel of these, its first channel. */
typedef struct strided_tile {
  residue h, w;
  int pixel, c;
} strided_tile;

static __device__ __forceinline__ strided_tile tile_at(const strided_cut &t, int i) {
  const int of_class = divide(i, t.tiles), left = i - of_class * t.tiles.by, row = divide(of_class, t.across), of_k = divide(left, t.in.tiles_k);
  return {t.h.of[row], t.w.of[of_class - row * t.across.by], of_k * t.in.pixels, (left - of_k * t.in.tiles_k.by) * t.in.filters};
}

/* Pixels of a class, counted over all images: image, row and column among the class's. */
typedef struct class_pixel {
  int n, row, column;
} class_pixel;

static __device__ __forceinline__ class_pixel pixel_at(const tile_cut &t, int pixel) {
  const int n = divide(pixel, t.image), of_image = pixel - n * t.image.by, row = divide(of_image, t.row);
  return {n, row, of_image - row * t.row.by};
}

/* `far` pixels further on. Counted, not divided: there are many, and products wait. */
static __device__ __forceinline__ class_pixel further(const strided_cut &t, class_pixel at, int far) {
  at.column += far;
  while (at.column >= t.w.pixels) at.column -= t.w.pixels, at.row++;
  while (at.row >= t.h.pixels) at.row -= t.h.pixels, at.n++;
  return at;
}

/* The producer's: all steps of a tile, each a tap and 64 filters, as 06j's. */
static __device__ __forceinline__ slot load_tile(const conv_problem &p, const strided_cut &t, const strided_tile &from, const CUtensorMap *windows,
                                                 const CUtensorMap *filter_tiles, ptx_shared stages, const ring &both, int *turn, slot s) {
  const class_pixel first = pixel_at(t.in, from.pixel);
  for (int r = 0; r < from.h.taps; r++)
    for (int q = 0; q < from.w.taps; q++)
      for (int k = 0; k < p.K; k += BK, s = next_slot(s, t.in.stages)) {
        if (!my_turn(turn)) continue;
        const int tap = (from.h.first + r * t.h.step) * p.S + from.w.first + q * t.w.step;
        const ptx_shared stage = stages + s.stage * t.in.stage, full = both.full + 8 * s.stage;
        ptx_mbarrier_wait(both.empty + 8 * s.stage, s.parity ^ 1);
        ptx_mbarrier_arrive_expect_tx(full, t.in.stage);
        ptx_tensor_load_im2col(stage + t.in.filters * ROW, windows, {k, first.column + t.w.low, first.row + t.h.low, first.n},
                               {(unsigned short)(from.w.from - q * t.w.apart), (unsigned short)(from.h.from - r * t.h.apart)}, full);
        for (int c = 0; c < t.in.filters; c += WGMMA_M) ptx_tensor_load(stage + c * ROW, filter_tiles, {from.c + c, tap, k}, full);
      }
  return s;
}

/* Where in dx the 8 channels from c on of a class's pixel lie; NULL: the class has no such row or column, or there are no such channels. */
static __device__ __forceinline__ uint4 *place_of(const conv_problem &p, const residue &rows, const residue &columns, const class_pixel &at, int c,
                                                  __half *dx) {
  const int h = at.row * p.stride_h + rows.at, w = at.column * p.stride_w + columns.at;
  return at.n < p.N && h < p.H && w < p.W && c < p.C ? (uint4 *)(dx + ((at.n * p.H + h) * p.W + w) * p.C + c) : NULL;
}

/* A consumer's box [N pixels][64 channels] to dx. */
template <int N>
static __device__ __forceinline__ void store_class(const conv_problem &p, const strided_cut &t, const strided_tile &to, const unsigned char *box, __half *dx) {
  const int first = threadIdx.x % THREADS / CHUNKS, c = to.c + threadIdx.x % CHUNKS * CHUNK;
  class_pixel at = pixel_at(t.in, to.pixel + first);
#pragma unroll 4
  for (int i = first; i < N; i += LANES, at = further(t, at, LANES)) {
    uint4 *const place = place_of(p, to.h, to.w, at, c, dx);
    if (place) *place = *(const uint4 *)(box + swizzled(i, threadIdx.x % CHUNKS));
  }
  __syncwarp(); /* products are asked for by whole warps */
}

/* The same 8 channels at the tile's pixels of all classes without taps: there is nothing to add up. */
static __device__ __forceinline__ void store_alike(const conv_problem &p, const strided_cut &t, const strided_tile &to, int pixels, uint4 value, __half *dx) {
  const int first = threadIdx.x % THREADS / CHUNKS, c = to.c + threadIdx.x % CHUNKS * CHUNK;
  class_pixel at = pixel_at(t.in, to.pixel + first);
  for (int i = first; i < pixels; i += LANES, at = further(t, at, LANES))
    for (int row = 0; row < t.h.residues; row++)
      for (int column = 0; column < t.w.residues; column++) {
        if (t.h.of[row].taps * t.w.of[column].taps > 0) continue;
        uint4 *const place = place_of(p, t.h.of[row], t.w.of[column], at, c, dx);
        if (place) *place = value;
      }
  __syncwarp();
}

/* N: pixels of a product. */
template <int N>
__global__ void __launch_bounds__(BLOCK, 1) strided_dgrad_kernel(conv_problem p, strided_cut t, const __grid_constant__ CUtensorMap windows,
                                                                 const __grid_constant__ CUtensorMap filter_tiles, __half *__restrict__ dx, const float *bias) {
  extern __shared__ __align__(1024) unsigned char shared[];
  __shared__ unsigned long long barriers[2 * MOST_STAGES];
  const ptx_shared stages = ptx_shared_address(shared);
  const ring r = {ptx_shared_address(barriers), ptx_shared_address(barriers + MOST_STAGES)};
  const int role = uniform(threadIdx.x / THREADS), tiles = t.tiles.by * t.classes;
  if (threadIdx.x == 0) {
    ptx_griddepcontrol_launch_dependents(); /* the next kernel may begin */
    ptx_prefetch_tensormap(&windows), ptx_prefetch_tensormap(&filter_tiles);
    ring_begin(r, t.in.stages, CONSUMERS * THREADS / 32);
  }

  if (role == 0) { /* the producers, in turns */
    __syncwarp();
    int turn = uniform(threadIdx.x / 32); /* steps until this warp's next */
    producers_begin(turn, BLOCK);
    ptx_setmaxnreg_dec<56>();
    if (threadIdx.x % 32 != 0) return;
    slot s = {0, 0};
    ptx_griddepcontrol_wait(); /* what the kernel before wrote is there */
    for (int i = blockIdx.x; i < tiles; i += gridDim.x) s = load_tile(p, t, tile_at(t, i), &windows, &filter_tiles, stages, r, &turn, s);
    return;
  }

  ptx_bar_sync(1, BLOCK);
  ptx_setmaxnreg_inc<224>();
  ptx_griddepcontrol_wait();
  const int me = role - 1, box = t.in.stages * t.in.stage + me * N * ROW; /* of the consumers; in bytes */
  const ptx_shared a = stages + me * t.in.filters_apart * ROW, b = stages + (t.in.filters + me * t.in.pixels_apart) * ROW;
  const bool first_lane = threadIdx.x % 32 == 0;
  slot s = {0, 0};
  for (int i = blockIdx.x; i < tiles; i += gridDim.x) {
    strided_tile to = tile_at(t, i);
    to.pixel += me * t.in.pixels_apart, to.c += me * t.in.filters_apart;
    const int steps = to.h.taps * to.w.taps * t.in.steps;
    if (i < t.tiles.by && t.h.met * t.w.met < t.h.residues * t.w.residues) { /* while the first stages come */
      const int c = to.c + threadIdx.x % CHUNKS * CHUNK;
      store_alike(p, t, to, N, bias && c < p.C ? bias_alone(bias, c) : uint4(), dx);
    }
    if (steps == 0) continue; /* no class has a tap */
    float sum[1][N / 2];
    float2 of_rows = {};
    if (bias) of_rows = bias_of_rows(bias, to.c, p.C); /* there when it is needed */
    int before = 0;
    for (int step = 0; step < steps; step++, s = next_slot(s, t.in.stages)) {
      ptx_mbarrier_wait(r.full + 8 * s.stage, s.parity);
      if (step == 0) {
        multiply<true, true>(sum, a + s.stage * t.in.stage, b + s.stage * t.in.stage);
      } else {
        multiply<false, true>(sum, a + s.stage * t.in.stage, b + s.stage * t.in.stage);
        ptx_wgmma_wait<1>(); /* the step before is done */
        if (first_lane) ptx_mbarrier_arrive(r.empty + 8 * before);
      }
      before = s.stage;
    }
    ptx_wgmma_wait<0>();
    if (first_lane) ptx_mbarrier_arrive(r.empty + 8 * before);
    if (bias) add_bias(sum[0], of_rows);
    ptx_bar_sync(2 + me, THREADS); /* nobody reads the tile before any more */
    put_turned<N>(sum[0], stages + box);
    ptx_bar_sync(2 + me, THREADS); /* the box is there */
    store_class<N>(p, t, to, shared + box, dx);
  }
}

/* ---------------------------------------------------------------- host */

typedef void dgrad_kernel(conv_problem p, strided_cut t, CUtensorMap windows, CUtensorMap filter_tiles, __half *dx, const float *bias);
typedef struct instance {
  int n;
  dgrad_kernel *kernel;
} instance;

#define ROW_OF(N) \
  { N, strided_dgrad_kernel<N> }
static const instance instances[] = {ROW_OF(64),  ROW_OF(80),  ROW_OF(96),  ROW_OF(112), ROW_OF(128),
                                     ROW_OF(144), ROW_OF(160), ROW_OF(176), ROW_OF(192), ROW_OF(208)};

typedef struct strided_plan {
  CUtensorMap windows, filter_tiles;
  dgrad_kernel *kernel;
  strided_cut cut;
  int blocks, shared;
} strided_plan;

/* Of `size` rows of dx, or columns. */
static axis axis_of(int size, int stride, int pad, int dil, int taps) {
  axis a = {};
  a.low = INT_MAX, a.reach = INT_MIN, a.step = 1, a.residues = stride < size ? stride : size, a.pixels = (int)ceil_div(size, stride);
  while (a.step * (dil % stride) % stride != 0) a.step++;
  a.apart = (int)((int64_t)a.step * dil / stride);
  for (int at = 0; at < a.residues; at++) {
    residue of = {at, 0, 0, 0};
    for (int r = taps - 1; r >= 0; r--) {
      const int pixel = at + pad - r * dil;
      if (pixel % stride != 0) continue;
      of.taps++, of.first = r, of.from = pixel / stride;
      if (of.from < a.low) a.low = of.from;
      if (of.from > a.reach) a.reach = of.from;
    }
    int place = at;
    for (; place > 0 && a.of[place - 1].taps < of.taps; place--) a.of[place] = a.of[place - 1];
    a.of[place] = of;
  }
  if (a.low > a.reach) a.low = a.reach = 0; /* no tap at all */
  while (a.met < a.residues && a.of[a.met].taps > 0) a.met++;
  a.reach -= a.low;
  for (int i = 0; i < a.residues; i++) a.of[i].from -= a.low;
  return a;
}

/* As 06f's: the first block has the most of every class, if classes follow one another. */
static double clocks_of_strided(const conv_problem *given, const conv_problem *p, const strided_cut *t, int sm_count, persistent_tile shape) {
  const int filters = shape.beside ? 64 : 128, pixels = shape.beside ? 2 * shape.n : shape.n;
  const int64_t tiles = ceil_div((int64_t)p->N * p->P * p->Q, pixels) * ceil_div(p->K, filters);
  const double step = ceil_div(given->K, BK) * clocks_of_step(2 * shape.n, (filters + pixels) * 128), end = clocks_of_end(shape.n);
  double all = 0;
  for (int i = 0; i < t->classes; i++) {
    const int64_t of_first = ceil_div((i + 1) * tiles, sm_count) - ceil_div(i * tiles, sm_count);
    const int taps = t->h.met * t->w.met > 0 ? t->h.of[i / t->w.met].taps * t->w.of[i % t->w.met].taps : 0;
    all += (double)of_first * (taps * step + end);
  }
  const double heaviest = t->h.of[0].taps * t->w.of[0].taps * step + end;
  return fmax(all, problem_bytes(given, PASS_DGRAD, DTYPE_FP16) / 2000) + 0.1 * heaviest + 0.05 * all;
}

static const char *plan_dgrad(const conv_operation *o, const conv_device *device, conv_plan *plan) {
  const conv_problem *given = &o->problem;
  if (device->arch / 10 != 9) return "wgmma: only compute capability 9.0 has it";
  if (given->groups > 1) return "groups";
  if (given->stride_h > MOST_STRIDE || given->stride_w > MOST_STRIDE) return "a stride above 8 (classes)";
  if (given->C % CHUNK != 0 || given->K % CHUNK != 0) return "C or K is no multiple of 8";
  const char *why = plain_unsupported(given, device);
  if (why) return why;
  strided_plan *mine = plan_data<strided_plan>(plan);
  strided_cut *t = &mine->cut;
  t->h = axis_of(given->H, given->stride_h, given->pad_top, given->dil_h, given->R);
  t->w = axis_of(given->W, given->stride_w, given->pad_left, given->dil_w, given->S);
  const int classes = t->classes = t->h.met * t->w.met > 0 ? t->h.met * t->w.met : 1;
  if (t->h.low > 127 || t->w.low > 127) return "windows of dy begin more than 127 pixels inside (tensor maps)";

  /* A class as a convolution of dy, in fprop's letters: its filter reaches over all offsets. */
  conv_problem p = *given;
  p.C = given->K, p.H = given->P, p.W = given->Q, p.K = given->C, p.P = t->h.pixels, p.Q = t->w.pixels;
  p.R = t->h.reach + 1, p.S = t->w.reach + 1, p.stride_h = p.stride_w = p.dil_h = p.dil_w = 1, p.pad_top = -t->h.low, p.pad_left = -t->w.low;
  persistent_tile tile = {};
  double least = INFINITY;
  for (int i = 0; i < 2; i++)
    for (const instance *row = instances; row < instances + sizeof instances / sizeof *instances && row->n <= (i == 0 ? 208 : 128); row++) {
      const persistent_tile next = {row->n, i == 1};
      const double clocks = clocks_of_strided(given, &p, t, device->sm_count, next);
      if (clocks < least) least = clocks, tile = next, mine->kernel = row->kernel;
    }
  t->in = cut_into(&p, tile, device->shared_per_block);
  t->in.steps = (int)ceil_div(given->K, BK); /* of a tap */
  t->tiles = divisor_of(t->in.tiles), t->across = divisor_of(t->w.met > 0 ? t->w.met : 1);
  const int tiles = t->in.tiles * classes;
  mine->blocks = tiles < device->sm_count ? tiles : device->sm_count;
  mine->shared = t->in.stages * t->in.stage + CONSUMERS * tile.n * ROW;
  why = map_windows(plan, &mine->windows, &p, BK, t->in.pixels);
  if (!why) why = map_filters(plan, &mine->filter_tiles, given, BK);
  if (why) return why;
  snprintf(plan->words, sizeof plan->words, "%d channels x %d pixels, %d class%s of %d tile%s, %d blocks, %d stages", t->in.filters, t->in.pixels, classes,
           classes == 1 ? "" : "es", t->in.tiles, t->in.tiles == 1 ? "" : "s", mine->blocks, t->in.stages);
  const cudaError_t status = plan_allow_shared((const void *)mine->kernel, (size_t)mine->shared);
  return status ? plan_failed(plan, status) : NULL;
}

static cudaError_t launch_dgrad(const conv_plan *plan, const conv_buffers *b, cudaStream_t stream) {
  const strided_plan *mine = plan_data<strided_plan>(plan);
  CUtensorMap windows, filter_tiles;
  cudaError_t status = map_at(&windows, &mine->windows, b->y);
  if (!status) status = map_at(&filter_tiles, &mine->filter_tiles, b->w);
  if (status) return status;
  return launch_kernel({.grid = dim3(mine->blocks), .block = dim3(BLOCK), .shared = (size_t)mine->shared, .stream = stream, .early = true}, mine->kernel,
                       plan->operation.problem, mine->cut, windows, filter_tiles, (__half *)b->x, plan->operation.epilogue.bias ? b->bias : NULL);
}

/* As 06f's, of the class with most taps. */
static double growth_dgrad(const conv_problem *p, bool random) {
  const axis h = axis_of(p->H, p->stride_h, p->pad_top, p->dil_h, p->R), w = axis_of(p->W, p->stride_w, p->pad_left, p->dil_w, p->S);
  conv_problem heaviest = *p;
  heaviest.C = p->K, heaviest.R = h.of[0].taps, heaviest.S = w.of[0].taps;
  return growth_steps(&heaviest, random);
}

NHWC_FUSING_ROW(strided_dgrad, "06k", "dgrad with strides: a convolution for every residue", PASS_DGRAD, 90, plan_dgrad, launch_dgrad, growth_dgrad,
                FUSES_BIAS);
