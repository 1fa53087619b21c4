/* 06k: the gradient of the image under a stride: a convolution for every residue.
 *
 * Terms:    transposed convolution, residue class, interleaved output.
 * Idea:     with a stride of 2, pixels of dx in even rows meet other taps than those in odd ones: tap r sees row h where stride divides h + pad - r dil. So dx is
 *           cut into classes by the residues of h and w, and each is 06j's problem with taps of its own: of a 3x3 filter 4, 2, 2 and 1. No product with a zero
 *           between dy's pixels is ever done. One map of dy serves all classes that have as many rows and
 *           columns: a class's windows begin where all do, and its taps, which lie further, have other offsets.
 * Order:    classes one after the other, those with most taps first, so that all multiprocessors have their share of each. A class without taps is only zeros:
 *           nothing is multiplied for it. A kernel of its own writes them first, whole rows where it can, as fast as memory takes them.
 * Bias:     as in 06j; a class without taps is the bias alone.
 * Stores:   neighbours of a class are not neighbours in dx. But a class by itself is a tensor: every second pixel of every second row, strides twice as long. Its tiles
 *           end in the middle of rows, where no box does, and windows do; so the copy engine stores in im2col mode, too, a map for each class.
 * Change:   against 06j the classes and their taps; the maps of the way out; the kernel that fills.
 * Expect:   06j's rate where taps are many. 3x3 with stride 2, 128 channels and filters, 56 x 56 to 28 x 28, 256 images: a tile of 192 pixels has 18 steps of 768
 *           clocks in its four classes and four ends of 1750, 165 thousand clocks a multiprocessor in all, 103 us. 1x1 with stride 2: memory's time, 145 us at
 *           256 channels from 28 x 28, and 2 for another launch. (Before, threads stored, zeros with the first class's tiles: 173 and 257 us.)
 * Passes:   dgrad. Layout: NHWC, filters KRSC, fp16 with fp32 sums. Channels and filters: multiples of 8. Strides up to 8, at most 16 classes, no groups. */
#include <math.h>

#include "06_tensorcore_fp16/bias.cuh"
#include "06_tensorcore_fp16/cut.cuh"
#include "common/harness/launch.h"

static constexpr int MOST_STRIDE = 8, MOST_CLASSES = 16 /* with taps */, FILLERS = 256 /* threads */;

/* Rows at, at + stride, ... of dx (or columns), and their taps: first, first + step, ... (step and apart are their axis's), of which the first lies at the
 * offset `from`, the next at from - apart. short_by: 1 if the last row is missing that other residues have. */
typedef struct residue {
  int at, taps, first, from, short_by;
} residue;

/* Residues, those with most taps first. Windows of dy begin at `low`. */
typedef struct axis {
  int low, residues, met /* with taps */, step, apart, reach /* the largest offset */, pixels /* of a residue */;
  residue of[MOST_STRIDE];
} axis;

typedef struct strided_cut {
  int classes;                 /* with taps */
  tile_cut in;                 /* of a class */
  divisor tiles, across;       /* by the tiles of a class; by the residues of columns that have taps */
  divisor row[2], image[2][2]; /* by the columns of a class; by its pixels of an image: by short_by of rows and columns */
  axis h, w;
} strided_cut;

/* dy as classes see it, by short_by of rows and columns; the classes of dx, each a tensor. */
typedef struct class_maps {
  CUtensorMap windows[2][2], results[MOST_CLASSES];
} class_maps;

/* Where a tile lies: its class, with its taps; its first pixel of these, counted over all images; its first channel. */
typedef struct strided_tile {
  int of_class;
  residue h, w;
  int pixel, c;
} strided_tile;

static __device__ __forceinline__ strided_tile tile_at(const strided_cut &t, int i) {
  const int of_class = divide(i, t.tiles), left = i - of_class * t.tiles.by, row = divide(of_class, t.across), of_k = divide(left, t.in.tiles_k);
  return {of_class, t.h.of[row], t.w.of[of_class - row * t.across.by], of_k * t.in.pixels, (left - of_k * t.in.tiles_k.by) * t.in.filters};
}

/* Such a pixel's image, and row and column among the class's. */
typedef struct class_pixel {
  int n, row, column;
} class_pixel;

static __device__ __forceinline__ class_pixel pixel_at(const strided_cut &t, const strided_tile &of, int pixel) {
  const divisor &image = t.image[of.h.short_by][of.w.short_by], &of_row = t.row[of.w.short_by];
  const int n = divide(pixel, image), of_image = pixel - n * image.by, row = divide(of_image, of_row);
  return {n, row, of_image - row * of_row.by};
}

/* The producer's: all steps of a tile, each a tap and 64 filters, as 06j's. */
static __device__ __forceinline__ slot load_tile(const conv_problem &p, const strided_cut &t, const strided_tile &from, const class_maps *maps,
                                                 const CUtensorMap *filter_tiles, ptx_shared stages, const ring &both, int *turn, slot s) {
  const class_pixel first = pixel_at(t, from, from.pixel);
  for (int r = 0; r < from.h.taps; r++)
    for (int q = 0; q < from.w.taps; q++)
      for (int k = 0; k < p.K; k += BK, s = next_slot(s, t.in.stages)) {
        if (!my_turn(turn)) continue;
        const int tap = (from.h.first + r * t.h.step) * p.S + from.w.first + q * t.w.step;
        const ptx_shared stage = stages + s.stage * t.in.stage, full = both.full + 8 * s.stage;
        ptx_mbarrier_wait(both.empty + 8 * s.stage, s.parity ^ 1);
        ptx_mbarrier_arrive_expect_tx(full, t.in.stage);
        ptx_tensor_load_im2col(stage + t.in.filters * ROW, &maps->windows[from.h.short_by][from.w.short_by],
                               {k, first.column + t.w.low, first.row + t.h.low, first.n},
                               {(unsigned short)(from.w.from - q * t.w.apart), (unsigned short)(from.h.from - r * t.h.apart)}, full);
        for (int c = 0; c < t.in.filters; c += WGMMA_M) ptx_tensor_load(stage + c * ROW, filter_tiles, {from.c + c, tap, k}, full);
      }
  return s;
}

/* N: pixels of a product. */
template <int N>
__global__ void __launch_bounds__(BLOCK, 1) strided_dgrad_kernel(conv_problem p, strided_cut t, const __grid_constant__ class_maps maps,
                                                                 const __grid_constant__ CUtensorMap filter_tiles, const float *bias) {
  extern __shared__ __align__(1024) unsigned char shared[];
  __shared__ unsigned long long barriers[2 * MOST_STAGES];
  const ptx_shared stages = ptx_shared_address(shared);
  const ring r = {ptx_shared_address(barriers), ptx_shared_address(barriers + MOST_STAGES)};
  const int role = uniform(threadIdx.x / THREADS), tiles = t.tiles.by * t.classes;
  if (threadIdx.x == 0) {
    ptx_griddepcontrol_launch_dependents(); /* the next kernel may begin */
    ptx_prefetch_tensormap(&maps.windows[0][0]), ptx_prefetch_tensormap(&filter_tiles);
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
    for (int i = blockIdx.x; i < tiles; i += gridDim.x) s = load_tile(p, t, tile_at(t, i), &maps, &filter_tiles, stages, r, &turn, s);
    return;
  }

  ptx_bar_sync(1, BLOCK);
  ptx_setmaxnreg_inc<224>();
  ptx_griddepcontrol_wait();
  const int me = role - 1; /* of the consumers */
  const ptx_shared a = stages + me * t.in.filters_apart * ROW, b = stages + (t.in.filters + me * t.in.pixels_apart) * ROW,
                   box = stages + t.in.stages * t.in.stage + me * N * ROW;
  const bool stores = threadIdx.x % THREADS == 0, first_lane = threadIdx.x % 32 == 0;
  slot s = {0, 0};
  for (int i = blockIdx.x; i < tiles; i += gridDim.x) {
    const strided_tile to = tile_at(t, i);
    const int c = to.c + me * t.in.filters_apart, steps = to.h.taps * to.w.taps * t.in.steps;
    float sum[1][N / 2];
    float2 of_rows = {};
    if (bias) of_rows = bias_of_rows(bias, c, p.C); /* there when it is needed */
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

    if (stores) ptx_bulk_wait_read<0>(); /* the tile before has left */
    ptx_bar_sync(2 + me, THREADS);
    put_turned<N>(sum[0], box);
    ptx_fence_proxy_async();
    ptx_bar_sync(2 + me, THREADS); /* the box is there */
    if (stores && c < p.C) {
      const class_pixel at = pixel_at(t, to, to.pixel + me * t.in.pixels_apart);
      ptx_tensor_store_im2col(&maps.results[to.of_class], {c, at.column, at.row, at.n}, box);
      ptx_bulk_commit();
    }
  }
  if (stores) ptx_bulk_wait_read<0>(); /* shared memory may go; what is written is there when the grid ends */
}

/* Which residues have taps, a bit for each; and how dx is counted, in pieces of 8 channels. */
typedef struct filling {
  unsigned h, w;
  divisor height, stride_h, stride_w, pieces /* of a pixel */;
  int row /* pieces */;
} filling;

/* The pixels of dx that no tap meets: zeros, or the bias. A block: a row. */
static __global__ void __launch_bounds__(FILLERS) fill_kernel(filling f, uint4 *__restrict__ dx, const float *bias) {
  const int h = blockIdx.x - divide(blockIdx.x, f.height) * f.height.by;
  const bool met = f.h >> (h - divide(h, f.stride_h) * f.stride_h.by) & 1;
  if (threadIdx.x == 0) ptx_griddepcontrol_launch_dependents(); /* the next kernel may begin */
  ptx_griddepcontrol_wait();
  for (int i = threadIdx.x; i < f.row; i += FILLERS) {
    const int w = divide(i, f.pieces), of_stride = w - divide(w, f.stride_w) * f.stride_w.by;
    if (!met || !(f.w >> of_stride & 1)) dx[(int64_t)blockIdx.x * f.row + i] = bias ? bias_alone(bias, (i - w * f.pieces.by) * CHUNK) : uint4();
  }
}

/* ---------------------------------------------------------------- host */

typedef void dgrad_kernel(conv_problem p, strided_cut t, class_maps maps, CUtensorMap filter_tiles, const float *bias);
typedef struct instance {
  int n;
  dgrad_kernel *kernel;
} instance;

#define ROW_OF(N) \
  { N, strided_dgrad_kernel<N> }
static const instance instances[] = {ROW_OF(64),  ROW_OF(80),  ROW_OF(96),  ROW_OF(112), ROW_OF(128),
                                     ROW_OF(144), ROW_OF(160), ROW_OF(176), ROW_OF(192), ROW_OF(208)};

typedef struct strided_plan {
  CUtensorMap windows[2][2], results[2][2] /* by short_by of rows and columns */, filter_tiles;
  dgrad_kernel *kernel;
  strided_cut cut;
  filling fill;
  int blocks, shared, filled /* rows; 0: every pixel has a tap */;
} strided_plan;

/* Of `size` rows of dx, or columns. */
static axis axis_of(int size, int stride, int pad, int dil, int taps) {
  axis a = {};
  a.low = INT_MAX, a.reach = INT_MIN, a.step = 1, a.residues = stride < size ? stride : size, a.pixels = (int)ceil_div(size, stride);
  while (a.step * (dil % stride) % stride != 0) a.step++;
  a.apart = (int)((int64_t)a.step * dil / stride);
  for (int at = 0; at < a.residues; at++) {
    residue of = {at, 0, 0, 0, size - at <= (a.pixels - 1) * stride};
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
    all += (double)of_first * (t->h.of[i / t->w.met].taps * t->w.of[i % t->w.met].taps * step + end);
  }
  const double heaviest = t->h.of[0].taps * t->w.of[0].taps * step + end;
  return fmax(all, problem_bytes(given, PASS_DGRAD, DTYPE_FP16) / 2000) + 0.1 * heaviest + 0.05 * all;
}

/* The maps of classes that are so much short of the largest in rows and columns: 64 filters of dy's windows, 64 channels of dx. */
static const char *map_classes(conv_plan *plan, strided_plan *mine, const conv_problem *given, const conv_problem *largest, int short_h, int short_w, int n) {
  conv_problem p = *largest;
  p.P -= short_h, p.Q -= short_w;
  if (p.P == 0 || p.Q == 0) return NULL; /* then there is no such class */
  const cuuint64_t size[4] = {(cuuint64_t)given->C, (cuuint64_t)p.Q, (cuuint64_t)p.P, (cuuint64_t)given->N}, row = 2 * size[0] * given->W; /* bytes */
  const cuuint64_t stride[3] = {2 * size[0] * given->stride_w, row * given->stride_h, row * given->H};
  const cuuint32_t step[4] = {1, 1, 1, 1};
  const int whole[2] = {0, 0}; /* a store outside of the tensor, though within such corners, is an illegal instruction */
  mine->cut.row[short_w] = divisor_of(p.Q), mine->cut.image[short_h][short_w] = divisor_of(p.P * p.Q);
  const char *why = map_windows(plan, &mine->windows[short_h][short_w], &p, BK, mine->cut.in.pixels);
  return why ? why : map_pixels(plan, &mine->results[short_h][short_w], "dx", size, stride, whole, whole, BK, n, step);
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
  const int classes = t->classes = t->h.met * t->w.met;
  if (classes > MOST_CLASSES) return "more than 16 classes with taps (tensor maps)";
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
  for (int i = 0; i < t->h.met; i++) mine->fill.h |= 1u << t->h.of[i].at;
  for (int i = 0; i < t->w.met; i++) mine->fill.w |= 1u << t->w.of[i].at;
  mine->fill.height = divisor_of(given->H), mine->fill.stride_h = divisor_of(given->stride_h), mine->fill.stride_w = divisor_of(given->stride_w);
  mine->fill.pieces = divisor_of(given->C / CHUNK), mine->fill.row = given->W * (given->C / CHUNK);
  if (classes < t->h.residues * t->w.residues) mine->filled = given->N * given->H;
  mine->blocks = tiles < device->sm_count ? tiles : device->sm_count;
  mine->shared = t->in.stages * t->in.stage + CONSUMERS * tile.n * ROW;
  why = map_filters(plan, &mine->filter_tiles, given, BK);
  for (int i = 0; !why && i < 4; i++) why = map_classes(plan, mine, given, &p, i / 2, i % 2, tile.n);
  if (why) return why;
  snprintf(plan->words, sizeof plan->words, "%d channels x %d pixels, %d class%s of %d tile%s, %d blocks, %d stages", t->in.filters, t->in.pixels, classes,
           classes == 1 ? "" : "es", t->in.tiles, t->in.tiles == 1 ? "" : "s", mine->blocks, t->in.stages);
  const cudaError_t status = plan_allow_shared((const void *)mine->kernel, (size_t)mine->shared);
  return status ? plan_failed(plan, status) : NULL;
}

static cudaError_t launch_dgrad(const conv_plan *plan, const conv_buffers *b, cudaStream_t stream) {
  const strided_plan *mine = plan_data<strided_plan>(plan);
  const conv_problem &p = plan->operation.problem;
  const strided_cut &t = mine->cut;
  const float *bias = plan->operation.epilogue.bias ? b->bias : NULL;
  if (mine->filled > 0) {
    const cudaError_t status =
        launch_kernel({.grid = dim3(mine->filled), .block = dim3(FILLERS), .stream = stream, .early = true}, fill_kernel, mine->fill, (uint4 *)b->x, bias);
    if (status || t.classes == 0) return status;
  }
  CUtensorMap filter_tiles;
  class_maps maps = {};
  cudaError_t status = map_at(&filter_tiles, &mine->filter_tiles, b->w);
  for (int i = 0; !status && i < t.classes; i++) {
    const residue &h = t.h.of[i / t.w.met], &w = t.w.of[i % t.w.met];
    status = map_at(&maps.windows[h.short_by][w.short_by], &mine->windows[h.short_by][w.short_by], b->y);
    if (!status && i == 0) maps.windows[0][0] = maps.windows[h.short_by][w.short_by]; /* the kernel asks for it ahead, also where no class is so large */
    if (!status) status = map_at(&maps.results[i], &mine->results[h.short_by][w.short_by], (__half *)b->x + ((int64_t)h.at * p.W + w.at) * p.C);
  }
  if (status) return status;
  return launch_kernel({.grid = dim3(mine->blocks), .block = dim3(BLOCK), .shared = (size_t)mine->shared, .stream = stream, .early = true}, mine->kernel, p, t,
                       maps, filter_tiles, bias);
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
