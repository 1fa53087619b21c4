/* Step 00b: the CPU's best shot in plain C. Threads, SIMD and cache blocking around a matrix product whose big matrix is never stored.
 *
 * A core computes 32 FLOPs a cycle (two 256-bit FMA pipes; 64 with two of 512 bits), and the formula of step 00a asks for two floats, 8 bytes,
 * per FMA: 128 bytes a cycle, where L1 gives 64 to 128, L2 about 32 and memory 4 to 8. A float, once fetched, has to be used many times:
 *
 *                 holds (AVX-512; AVX2 has 4 x 24 sums)           traffic with the level below, for 8 x 48 x 2 = 768 FLOPs    bytes per FLOP
 *   registers     8 x 48 sums                                     48 pixels and 8 filter values from L1: 224 B                0.29
 *   L1, 32 KB     128 deep x 48 pixels of the source, 24 KB       8 filter values from L2: 32 B                               0.04
 *   L2, 1 MB      4 such panels, 104 KB, and 256 x 192 sums,      filters: each used for 192 pixels: 4 B per 384 FLOPs        0.01
 *                 192 KB                                          source: each used R x S x filters times, say 9 x 64         0.004
 *
 * fprop and dgrad are this product with different views (b_view.h); wgrad multiplies two matrices that both run along the pixels, so its tile
 * consists of inner products; depthwise layers have nothing to share and are no product (b_depthwise.h).
 * Method: K. Goto and R. van de Geijn, "Anatomy of High-Performance Matrix Multiplication", ACM TOMS 34(3), 2008. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "00_cpu_reference/b_depthwise.h"
#include "00_cpu_reference/b_view.h"
#include "common/conv/bound.h"
#include "common/harness/kernel.h"

/* With 8 tasks a thread, one that gets a task more than the others takes an eighth longer. */
enum { TASKS_PER_THREAD = 8 };

/* ---- fprop and dgrad: result[m][pixel] = filters[m][depth] * source[depth][pixel] ---- */

enum { BLOCK_M = 256 }; /* rows of sums a thread keeps: 256 x PIXELS x 4 bytes = 192 KB of L2 (96 KB with AVX2) */

/* Groups of few filters would leave most rows of the tile empty: lower tiles that are wider instead. Depthwise needs one row. */
static int tile_rows(const view *v) { return v->rows == 1 ? 1 : v->rows <= TILE_M / 2 ? TILE_M / 2 : TILE_M; }
static int tile_columns(int rows) { return (int)min64(TILE_N * (TILE_M / rows), PIXELS); }

static NOINLINE void run_tile(int rows, int depth, const float *a, const float *b, float *c) {
  if (rows == TILE_M) outer_tile(TILE_M, TILE_VECTORS, depth, a, b, c);
  else if (rows == TILE_M / 2) outer_tile(TILE_M / 2, 2 * TILE_VECTORS, depth, a, b, c);
  else outer_tile(1, PIXELS / LANES, depth, a, b, c);
}

/* Filters in the order the tile reads them: packed[depth][tile], for `tile` filters from `row` on, depth [first, first + depth).
 * filters: the group's first. Rows past the last filter are zeros. */
static NOINLINE void pack_filters(const view *v, const float *filters, int64_t row, int tile, int64_t first, int depth, float *packed) {
  int64_t offset[DEPTH]; /* of one filter's elements, in the order of the matrix */
  for (int d = 0; d < depth; d++) {
    const int64_t channel = (first + d) / view_taps(v), tap = (first + d) % view_taps(v);
    const int64_t r = v->h.tap_first + tap / v->w.taps * v->h.tap_step, s = v->w.tap_first + tap % v->w.taps * v->w.tap_step;
    offset[d] = channel * v->filter_channel + r * v->filter_width + s;
  }
  const float *filter[TILE_M];
  for (int m = 0; m < TILE_M; m++) filter[m] = filters + min64(row + m, v->rows - 1) * v->filter_row;
  if (row + TILE_M <= v->rows && tile == TILE_M) { /* side by side: as many streams, each read in order */
    for (int d = 0; d < depth; d++) { UNROLLED for (int m = 0; m < TILE_M; m++) packed[d * TILE_M + m] = filter[m][offset[d]]; }
  } else
    for (int d = 0; d < depth; d++) {
      for (int m = 0; m < tile; m++) packed[d * tile + m] = row + m < v->rows ? filter[m][offset[d]] : 0;
    }
}

/* `floats` for each of so many threads, 64-byte aligned, kept from call to call so that they stay in the threads' caches. 300 KB a thread would be too
 * much for a small stack. NULL: no memory. Calls must not overlap. */
static float *thread_scratch(int64_t floats, int64_t threads) {
  static float *buffer;
  static int64_t size;
  const int64_t wanted = floats * threads;
  if (size < wanted) {
    free(buffer);
    buffer = aligned_alloc(64, sizeof(float) * round_up(wanted, LINE));
    size = buffer ? wanted : 0;
  }
  return buffer;
}

/* A block of gathered source, and its sums. */
enum { BLOCK_FLOATS = DEPTH * PIXELS_STRIDE, MULTIPLY_SCRATCH = BLOCK_FLOATS + BLOCK_M * PIXELS };
_Static_assert((int)BAND_MOST <= (int)MULTIPLY_SCRATCH, "depthwise layers use the same scratch");

/* One task: `rows` filters x `count` pixels of one group, all of the depth. packed, result: at the first of these filters. */
static NOINLINE void multiply_block(const view *v, const float *packed, const float *source, float *result, int64_t rows, int64_t first, int count,
                                    float *scratch) {
  float *block = scratch, *sums = scratch + BLOCK_FLOATS;
  run runs[MAX_RUNS];
  const int tile = tile_rows(v), columns = tile_columns(tile), width = (int)round_up(count, columns);
  const int run_count = cut_runs(v, first, count, runs);
  const int64_t depth = view_depth(v);
  memset(sums, 0, sizeof(float) * round_up(rows, tile) * PIXELS);
  for (int64_t d = 0; d < depth; d += DEPTH) {
    const int now = (int)min64(DEPTH, depth - d);
    gather(v, source, d, now, runs, run_count, width, block, PIXELS_STRIDE);
    for (int column = 0; column < width; column += columns) { /* its panel of pixels enters L1 with the first tile and stays for the others */
      for (int64_t row = 0; row < rows; row += tile) run_tile(tile, now, packed + row * depth + d * tile, block + column, sums + row * PIXELS + column);
    }
  }
  store_rows(v, result, rows, runs, run_count, sums, PIXELS);
}

/* How a view's work is cut for so many threads: tiles of `tile` filters, tasks of `block` filters x PIXELS pixels. */
typedef struct multiply_cut {
  int threads, tile;
  int64_t block;
} multiply_cut;

static multiply_cut cut_multiply(const view *v, int threads) {
  multiply_cut cut = {.threads = threads, .tile = tile_rows(v)};
  const int64_t pixel_blocks = div_up(view_pixels(v), PIXELS);
  cut.block = round_up(div_up(v->rows, div_up(v->rows, BLOCK_M)), cut.tile);
  while (cut.block > cut.tile && pixel_blocks * v->groups * div_up(v->rows, cut.block) < TASKS_PER_THREAD * threads)
    cut.block = round_up(cut.block / 2, cut.tile);
  return cut;
}

/* All of a view. source: [images][groups * channels][source plane], result: [images][groups * rows][result plane],
 * packed: floats for all filters, in whole tiles, scratch: MULTIPLY_SCRATCH a thread. */
static void multiply(const view *v, const multiply_cut *cut, const float *filters, const float *source, float *result, float *packed, float *scratch_of_all) {
  const int tile = cut->tile;
  const int64_t depth = view_depth(v), pixels = view_pixels(v), panels = div_up(v->rows, tile), slices = div_up(depth, DEPTH);
  const int64_t packed_group = panels * tile * depth;
  const int64_t pixel_blocks = div_up(pixels, PIXELS), block = cut->block, row_blocks = div_up(v->rows, block);
  const bool by_bands = is_depthwise(v);
  const band_cut bands = cut_bands(v);

#pragma omp parallel num_threads(cut->threads)
  {
    float *scratch = scratch_of_all + (int64_t)thread_number() * MULTIPLY_SCRATCH;
#pragma omp for
    for (int64_t i = 0; i < (by_bands ? 0 : v->groups * panels * slices); i++) {
      const int64_t d = i % slices * DEPTH, row = i / slices % panels * tile, g = i / slices / panels;
      pack_filters(v, filters + g * v->filter_group, row, tile, d, (int)min64(DEPTH, depth - d), packed + g * packed_group + row * depth + d * tile);
    }
    if (by_bands) depthwise(v, &bands, cut->threads, filters, source, result, scratch);
    /* Neighbours in the result are not computed at the same time: two cores that write side by side take the next lines from each other. */
    const int64_t tasks = by_bands ? 0 : v->groups * pixel_blocks * row_blocks, share = tasks / cut->threads;
#pragma omp for schedule(dynamic)
    for (int64_t n = 0; n < tasks; n++) {
      const int64_t i = n < share * cut->threads ? n % cut->threads * share + n / cut->threads : n;
      const int64_t row = i % row_blocks * block, first = i / row_blocks % pixel_blocks * PIXELS, g = i / row_blocks / pixel_blocks;
      multiply_block(v, packed + g * packed_group + row * depth, source + g * v->channels * view_source_plane(v),
                     result + (g * v->rows + row) * view_result_plane(v), min64(block, v->rows - row), first, (int)min64(PIXELS, pixels - first), scratch);
    }
  }
}

/* What a launch needs. dgrad has a view for every residue of the stride; they follow from the problem, and the first, which has the most pixels, is cut
 * for all of them. */
typedef struct multiply_launch {
  view first;
  multiply_cut cut;
} multiply_launch;
_Static_assert(sizeof(multiply_launch) <= PLAN_BYTES, "raise PLAN_BYTES");

static const char *plan_multiply(const conv_operation *o, const conv_device *device, conv_plan *plan) {
  const conv_problem *p = &o->problem;
  multiply_launch *l = (multiply_launch *)plan->data;
  l->first = o->pass == PASS_DGRAD ? backward_view(p, 0, 0) : forward_view(p);
  const view *v = &l->first;
  l->cut = cut_multiply(v, device->sm_count);
  /* The views of dgrad share the filter taps out among them: none needs more than the whole filter. */
  plan->workspace_bytes = sizeof(float) * v->groups * round_up(v->rows, l->cut.tile) * v->channels * p->R * p->S;
  const band_cut bands = cut_bands(v);
  if (is_depthwise(v))
    snprintf(plan->words, sizeof plan->words, "%d threads, lanes %s, %d rows a task", l->cut.threads, bands.across ? "across planes" : "along rows",
             (int)bands.rows);
  else snprintf(plan->words, sizeof plan->words, "%d threads, %lld filters x %d pixels a task", l->cut.threads, (long long)l->cut.block, PIXELS);
  return NULL;
}

static cudaError_t fprop(const conv_plan *plan, const conv_buffers *b, cudaStream_t stream) {
  (void)stream;
  const multiply_launch *l = (const multiply_launch *)plan->data;
  float *scratch = thread_scratch(MULTIPLY_SCRATCH, l->cut.threads);
  if (!scratch) return cudaErrorMemoryAllocation;
  multiply(&l->first, &l->cut, b->w, b->x, b->y, b->workspace, scratch);
  return cudaSuccess;
}

static cudaError_t dgrad(const conv_plan *plan, const conv_buffers *b, cudaStream_t stream) {
  (void)stream;
  const conv_problem *p = &plan->operation.problem;
  const multiply_launch *l = (const multiply_launch *)plan->data;
  float *scratch = thread_scratch(MULTIPLY_SCRATCH, l->cut.threads);
  if (!scratch) return cudaErrorMemoryAllocation;
  for (int h = 0; h < p->stride_h && h < p->H; h++) {
    for (int w = 0; w < p->stride_w && w < p->W; w++) {
      const view v = backward_view(p, h, w);
      multiply(&v, &l->cut, b->w, b->y, b->x, b->workspace, scratch);
    }
  }
  return cudaSuccess;
}

/* ---- wgrad: dw[k][c, r, s] = dy[k][pixel] * source[c, r, s][pixel]^T ---- */

enum {
  WGRAD_M = 128, /* rows of dy a task holds: 128 x DOT_STRIDE x 4 bytes = 264 KB of L2, each float used for 48 columns from there */
  WGRAD_N = 48,  /* rows of the source matrix gathered at a time, 99 KB */
  WGRAD_SCRATCH = (WGRAD_M + WGRAD_N) * DOT_STRIDE, /* floats a thread needs for both */
  WGRAD_TASK_N = 480,                               /* and per task, if there are tasks enough: dy is fetched once for all of them */
};

/* How the work on dw is cut: rows (k) x columns (c, r, s) x pixels. Each slice of the pixels sums into a dw of its own, added up at the end,
 * always in the same order. */
typedef struct wgrad_cut {
  int64_t threads, row_blocks, columns, column_blocks, pixel_blocks, slices;
} wgrad_cut;

static wgrad_cut cut_wgrad(const conv_problem *p, const view *v, int threads) {
  const int64_t depth = view_depth(v), wanted = (int64_t)TASKS_PER_THREAD * threads;
  wgrad_cut cut = {.threads = threads, .row_blocks = div_up(v->rows, WGRAD_M), .columns = WGRAD_TASK_N, .pixel_blocks = div_up(view_pixels(v), DOT_DEPTH)};
  const int64_t tasks = v->groups * cut.row_blocks * div_up(depth, cut.columns);
  /* A slice costs one more dw written and read: all together no more than a quarter of what reading x and dy costs. */
  const int64_t affordable = (problem_x_count(p) + problem_y_count(p)) / 4 / (2 * problem_w_count(p));
  cut.slices = max64(1, min64(min64(div_up(wanted, tasks), affordable), cut.pixel_blocks));
  while (cut.columns > WGRAD_N && v->groups * cut.row_blocks * div_up(depth, cut.columns) * cut.slices < wanted) cut.columns -= WGRAD_N;
  cut.column_blocks = div_up(depth, cut.columns);
  return cut;
}

/* One task: dw[rows][columns] (row distance depth) from pixel blocks [begin, end). dy, dw: at the task's first row. source: of the group. */
static NOINLINE void correlate_block(const view *v, const float *source, const float *dy, float *dw, int64_t rows, int64_t first_column, int64_t columns,
                                     int64_t begin, int64_t end, float *scratch) {
  float *a = scratch, *b = scratch + WGRAD_M * DOT_STRIDE;
  run runs[MAX_RUNS];
  const int64_t depth = view_depth(v);
  for (int64_t m = 0; m < rows; m++) memset(dw + m * depth, 0, sizeof(float) * columns);
  for (int64_t block = begin; block < end; block++) {
    const int count = (int)min64(DOT_DEPTH, view_pixels(v) - block * DOT_DEPTH), width = (int)round_up(count, LANES);
    const int run_count = cut_runs(v, block * DOT_DEPTH, count, runs);
    fetch_rows(v, dy, rows, runs, run_count, width, a, DOT_STRIDE);
    for (int64_t n = 0; n < columns; n += WGRAD_N) {
      const int64_t now = min64(WGRAD_N, columns - n);
      gather(v, source, first_column + n, now, runs, run_count, width, b, DOT_STRIDE);
      for (int64_t j = 0; j < now; j += DOT_N) { /* DOT_N rows of the source stay in L1 while dy passes */
        const int tile_n = (int)min64(DOT_N, now - j);
        for (int64_t m = 0; m < rows; m += DOT_M) {
          const int tile_m = (int)min64(DOT_M, rows - m);
          float *c = dw + m * depth + n + j;
          if (tile_m == 1) inner_tile(1, DOT_N, width, a + m * DOT_STRIDE, b + j * DOT_STRIDE, c, depth, 1, tile_n);
          else inner_tile(DOT_M, DOT_N, width, a + m * DOT_STRIDE, b + j * DOT_STRIDE, c, depth, tile_m, tile_n);
        }
      }
    }
  }
}

typedef struct wgrad_launch {
  view v;
  wgrad_cut cut;
} wgrad_launch;
_Static_assert(sizeof(wgrad_launch) <= PLAN_BYTES, "raise PLAN_BYTES");

static const char *plan_wgrad(const conv_operation *o, const conv_device *device, conv_plan *plan) {
  wgrad_launch *l = (wgrad_launch *)plan->data;
  l->v = forward_view(&o->problem);
  l->cut = cut_wgrad(&o->problem, &l->v, device->sm_count);
  plan->workspace_bytes = l->cut.slices == 1 ? 0 : sizeof(float) * l->cut.slices * problem_w_count(&o->problem);
  snprintf(plan->words, sizeof plan->words, "%lld threads, %lld slices of the pixels, %d x %lld of dw a task", (long long)l->cut.threads,
           (long long)l->cut.slices, WGRAD_M, (long long)l->cut.columns);
  return NULL;
}

static cudaError_t wgrad(const conv_plan *plan, const conv_buffers *b, cudaStream_t stream) {
  (void)stream;
  const wgrad_launch *l = (const wgrad_launch *)plan->data;
  const view v = l->v;
  const wgrad_cut cut = l->cut;
  const int64_t depth = view_depth(&v), count = problem_w_count(&plan->operation.problem), column_blocks = cut.column_blocks, row_blocks = cut.row_blocks;
  const float *x = b->x, *dy = b->y;
  float *dw = b->w, *partial = cut.slices == 1 ? dw : b->workspace, *scratch_of_all = thread_scratch(WGRAD_SCRATCH, cut.threads);
  if (!scratch_of_all) return cudaErrorMemoryAllocation;
#pragma omp parallel num_threads((int)cut.threads)
  {
    float *scratch = scratch_of_all + (int64_t)thread_number() * WGRAD_SCRATCH;
#pragma omp for schedule(dynamic)
    for (int64_t i = 0; i < cut.slices * v.groups * row_blocks * column_blocks; i++) {
      const int64_t column = i % column_blocks * cut.columns, row = i / column_blocks % row_blocks * WGRAD_M;
      const int64_t g = i / column_blocks / row_blocks % v.groups, slice = i / column_blocks / row_blocks / v.groups;
      correlate_block(&v, x + g * v.channels * view_source_plane(&v), dy + (g * v.rows + row) * view_result_plane(&v),
                      partial + slice * count + (g * v.rows + row) * depth + column, min64(WGRAD_M, v.rows - row), column, min64(cut.columns, depth - column),
                      cut.pixel_blocks * slice / cut.slices, cut.pixel_blocks * (slice + 1) / cut.slices, scratch);
    }
    if (cut.slices > 1) {
#pragma omp for
      for (int64_t i = 0; i < count; i++) {
        float sum = 0;
        for (int64_t slice = 0; slice < cut.slices; slice++) sum += partial[slice * count + i];
        dw[i] = sum;
      }
    }
  }
  return cudaSuccess;
}

/* ---- the rows of the table ---- */

static double fprop_growth(const conv_problem *p, bool random) { return growth_chain_fp32((double)problem_terms(p, PASS_FPROP), random); }
static double dgrad_growth(const conv_problem *p, bool random) { return growth_chain_fp32((double)problem_terms(p, PASS_DGRAD), random); }
static double wgrad_growth(const conv_problem *p, bool random) { return growth_chain_fp32((double)problem_terms(p, PASS_WGRAD), random); }

const conv_kernel blocked_fprop = {.name = "00b",
                                   .idea = "all cores: implicit matrix product, tiles in vector registers, blocks in cache",
                                   .place = ON_CPU,
                                   .pass = PASS_FPROP,
                                   .dtype = DTYPE_FP32,
                                   .layout = LAYOUT_NCHW,
                                   .plan = plan_multiply,
                                   .launch = fprop,
                                   .growth = fprop_growth};
const conv_kernel blocked_dgrad = {.name = "00b",
                                   .idea = "the same product over dy, one per residue of the stride: no work on zeros",
                                   .place = ON_CPU,
                                   .pass = PASS_DGRAD,
                                   .dtype = DTYPE_FP32,
                                   .layout = LAYOUT_NCHW,
                                   .plan = plan_multiply,
                                   .launch = dgrad,
                                   .growth = dgrad_growth};
const conv_kernel blocked_wgrad = {.name = "00b",
                                   .idea = "tiles of inner products along the pixels, pixels shared out among threads",
                                   .place = ON_CPU,
                                   .pass = PASS_WGRAD,
                                   .dtype = DTYPE_FP32,
                                   .layout = LAYOUT_NCHW,
                                   .plan = plan_wgrad,
                                   .launch = wgrad,
                                   .growth = wgrad_growth};
