/* 05p: the gradient of few filters for few channels: all of it in the registers of a few lanes, pixels go by.
 *
 *     dw[k, c, r, s] = sum over n, p, q of dy[n, k, p, q] * x[n, c, p * stride - pad + r, q * stride - pad + s]
 *
 * Terms:    direct convolution; register blocking; split-K.
 * Idea:     05k's tile has room for 32 filters x 128 columns of dw, and a group of four channels and four filters has 4 x 36 sums, each over 50176 pixels.
 *           But 72 sums fit into a thread: TK = 4 filters x TC = 2 channels x nine taps. So two lanes have a whole group of 4 x 4, 128 threads one of
 *           32 x 32, and all others the same sums over other pixels. At a time a thread takes four columns of a row of dy: 16 numbers, and three rows of six
 *           of each channel, 288 multiply-adds for 4 LDS.128 of dy and 18 reads of x. In the end the threads with the same sums add them up in
 *           shared memory, and a second kernel adds what blocks have found, as in 05k: in an order that depends on nothing.
 * Change:   against 05o the roles turn. A stage is a strip of rows of dy, of all filters and channels of a block, with the rows of x under it. A thread's
 *           filters lie k_parts apart, its channels c_parts: so neighbouring lanes read neighbouring planes, which are an odd number of quads of
 *           banks apart.
 * Expect:   ResNeXt-50's four layers at batch 16, 6.9 us of multiply-adds each: a patch of four columns takes 340 instructions, 288 of them multiply-adds, a
 *           strip of rows 170 and 17 for each row that is copied. The fullest scheduler's, half a warp's for waiting, and the second kernel: in us, 24 for
 *           res2_3x3 (a strip has two patches a thread, and nine copies), 20, 22, 24; at stride 2 33, 29, 26.
 * Sizes:    3x3, stride 1 or 2, no dilation, any padding; up to 64 channels and 64 filters a group, taken in fours and twos. Past the last column of dy an
 *           infinite x meets zeros, and is NaN.
 * Passes:   wgrad. Layout: NCHW, filters KCRS, fp32. */
#include <cuda_pipeline.h>
#include <cuda_runtime.h>

#include "05_im2col_gemm/groups.h"
#include "05_im2col_gemm/stream.h" /* divisor */
#include "common/ptx/ptx.cuh"

enum { TK = 4, TC = 2, TQ = 4, AT_ONCE = 2, VALUES = AT_ONCE * TC * 9, STAGES = 2, MOST_THREADS = 256, MOST_ROWS = 16, MOST_QUADS = 32, SUM_THREADS = 128 };

/* Planes of a stage, x's or dy's: `rows` of `pitch` floats, both odd (pitch in quads), of which `units` of VEC are copied; copy_rows at a time by all
 * threads, those are `step` bytes. */
typedef struct plane {
  int rows, pitch, copy_rows, step;
  int total, all, one, apart; /* rows, and floats, of all planes; floats of one; from one of a thread's planes to the next */
  divisor by_units, by_rows;
} plane;

/* How a problem is cut. Blocks: slices x groups x tiles of k_parts fours of filters x tiles of c_parts pairs of channels. Threads: `slots` times the parts. */
typedef struct cut {
  int k_parts, c_parts, parts, slots, rows, quads; /* of a block; rows and fours of columns of dy in a strip */
  int strips, each;                                /* of all images; of a slice */
  int odd_columns;                                 /* stride 2: where they begin in a row of x */
  int stage;                                       /* floats */
  plane x, dy;
  divisor by_tiles_k, by_tiles_c, by_groups, by_tiles_h, by_tiles_w, by_quads, by_parts, by_c_parts;
} cut;

/* VEC: columns that are copied at a time. In fours x begins three columns before the first window. out: [slices][K][C of a group][9] */
template <int STRIDE, int VEC>
__global__ void __launch_bounds__(MOST_THREADS, 2)
    groups_wgrad_kernel(conv_problem p, cut t, const float *__restrict__ x, const float *__restrict__ dy, float *__restrict__ out) {
  static_assert(VEC == 1 || (VEC == 4 && STRIDE == 1), "columns of stride 2 are sorted when they are copied");
  constexpr int SHIFT = VEC - 1, WINDOW = (TQ - 1) * STRIDE + 3;
  const int thread = threadIdx.x, threads = blockDim.x, group_c = p.C / p.groups, group_k = p.K / p.groups, x_plane = p.H * p.W, y_plane = p.P * p.Q;
  const int tiles = quotient(blockIdx.x, t.by_tiles_k), groups = quotient(tiles, t.by_tiles_c), slice = quotient(groups, t.by_groups);
  const int tile_k = blockIdx.x - tiles * t.by_tiles_k.by, tile_c = tiles - groups * t.by_tiles_c.by, group = groups - slice * t.by_groups.by;
  const int first_k = tile_k * t.k_parts * TK, first_c = tile_c * t.c_parts * TC, strip = slice * t.each, strips = min(t.each, t.strips - strip);

  /* Shared memory: STAGES of { dy [k_parts * TK][rows][pitch], x [c_parts * TC][rows][pitch] }; of each row of dy, and then of x, how far it lies
   * from the first, and the number of the row, beyond any image where there is no such filter or channel. */
  extern __shared__ float4 shared[];
  float *const stages = (float *)shared;
  int2 *const table = (int2 *)(stages + STAGES * t.stage);
  for (int i = thread; i < t.dy.total + t.x.total; i += threads) {
    const bool is_y = i < t.dy.total;
    const int at = is_y ? i : i - t.dy.total, channel = quotient(at, is_y ? t.dy.by_rows : t.x.by_rows), row = at - channel * (is_y ? t.dy.rows : t.x.rows);
    const bool there = is_y ? first_k + channel < group_k && row < t.rows : first_c + channel < group_c && row < (t.rows - 1) * STRIDE + 3;
    table[i] = make_int2(channel * (is_y ? y_plane : x_plane) + row * (is_y ? p.Q : p.W), there ? row : 1 << 30);
  }
  const int y_col = rest_of(thread, t.dy.by_units) * VEC, y_row = quotient(thread, t.dy.by_units);
  const int x_col = rest_of(thread, t.x.by_units) * VEC, x_row = quotient(thread, t.x.by_units);
  const int x_place = STRIDE == 1 ? x_col : x_col / 2 + x_col % 2 * t.odd_columns;
  const float *const y_group = dy + (group * group_k + first_k) * y_plane, *const x_group = x + (group * group_c + first_c) * x_plane;
  __syncthreads(); /* the table is there */

  /* Starts the copies of strip number i to the stage at `to`. */
  const auto copy = [&](float *to, int i) {
    const int row = quotient(i, t.by_tiles_w), n = quotient(row, t.by_tiles_h), first_p = (row - n * t.by_tiles_h.by) * t.rows,
              first_q = (i - row * t.by_tiles_w.by) * t.quads * TQ, first_h = first_p * STRIDE - p.pad_top, at_q = first_q + y_col,
              at_w = first_q * STRIDE - p.pad_left - SHIFT + x_col;
    const float *y_from = y_group + n * p.K * y_plane + first_p * p.Q + at_q, *x_from = x_group + n * p.C * x_plane + first_h * p.W + at_w;
    ptx_shared to_y = ptx_shared_address(to) + 4 * (y_row * t.dy.pitch + y_col), to_x = ptx_shared_address(to) + 4 * (t.dy.all + x_row * t.x.pitch + x_place);
    const bool beside_y = at_q >= p.Q, beside_x = at_w < 0 || at_w >= p.W;
#pragma unroll 2
    for (int i = y_row < t.dy.copy_rows ? y_row : t.dy.total; i < t.dy.total; i += t.dy.copy_rows, to_y += t.dy.step) {
      const int2 at = table[i];
      ptx_cp_async<4 * VEC>(to_y, y_from + at.x, beside_y || first_p + at.y >= p.P);
    }
#pragma unroll 2
    for (int i = x_row < t.x.copy_rows ? x_row : t.x.total; i < t.x.total; i += t.x.copy_rows, to_x += t.x.step) {
      const int2 at = table[t.dy.total + i];
      ptx_cp_async<4 * VEC>(to_x, x_from + at.x, beside_x || first_h + at.y < 0 || first_h + at.y >= p.H);
    }
  };

  const int slot = quotient(thread, t.by_parts), part = thread - slot * t.parts, k_part = quotient(part, t.by_c_parts), c_part = part - k_part * t.c_parts;
  const int patches = slot < t.slots ? t.rows * t.quads : 0; /* past the last slot: none */
  float sum[TK][TC][9] = {};
#pragma unroll 1
  for (int i = 0; i < STAGES - 1; i++) {
    if (i < strips) copy(stages + i * t.stage, strip + i);
    __pipeline_commit();
  }
  for (int i = 0, now = 0; i < strips; i++, now = now == STAGES - 1 ? 0 : now + 1) {
    __pipeline_wait_prior(STAGES - 2);
    __syncthreads(); /* this stage is there, and nobody reads the one before any more */
    if (i + STAGES - 1 < strips) copy(stages + (now == 0 ? STAGES - 1 : now - 1) * t.stage, strip + i + STAGES - 1);
    __pipeline_commit();
    const float *y_stage = stages + now * t.stage + k_part * t.dy.one;
    const float *x_stage = stages + now * t.stage + t.dy.all + c_part * t.x.one;
#pragma unroll 1
    for (int patch = slot; patch < patches; patch += t.slots) {
      const int row = quotient(patch, t.by_quads), quad = patch - row * t.quads;
      float gradient[TK][TQ];
#pragma unroll
      for (int k = 0; k < TK; k++) {
        const float4 g = *(const float4 *)(y_stage + k * t.dy.apart + row * t.dy.pitch + quad * TQ);
        gradient[k][0] = g.x, gradient[k][1] = g.y, gradient[k][2] = g.z, gradient[k][3] = g.w;
      }
#pragma unroll
      for (int c = 0; c < TC; c++)
#pragma unroll
        for (int r = 0; r < 3; r++) {
          const float *at = x_stage + c * t.x.apart + (row * STRIDE + r) * t.x.pitch + quad * TQ;
          float pixel[WINDOW];
          if (STRIDE == 2) {
            const float4 even = *(const float4 *)at, odd = *(const float4 *)(at + t.odd_columns);
            pixel[0] = even.x, pixel[1] = odd.x, pixel[2] = even.y, pixel[3] = odd.y, pixel[4] = even.z, pixel[5] = odd.z;
            pixel[WINDOW - 3] = even.w, pixel[WINDOW - 2] = odd.w, pixel[WINDOW - 1] = at[4];
          } else {
            const float4 four = *(const float4 *)(at + (VEC > 1 ? 4 : 0));
            const float2 two = VEC > 1 ? make_float2(at[3], at[8]) : *(const float2 *)(at + 4);
            const float inside[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
            for (int q = 0; q < 4; q++) pixel[q + VEC / 4] = inside[q];
            pixel[VEC > 1 ? 0 : 4] = two.x, pixel[5] = two.y;
          }
#pragma unroll
          for (int s = 0; s < 3; s++)
#pragma unroll
            for (int k = 0; k < TK; k++)
#pragma unroll
              for (int q = 0; q < TQ; q++) sum[k][c][r * 3 + s] += gradient[k][q] * pixel[q * STRIDE + s];
        }
    }
  }

  /* AT_ONCE filters after the others: all threads leave their sums, found[VALUES][threads + 1], and those of a part share out the adding, slot after slot. */
  float *const found = stages;
  const int my_k = first_k + k_part, my_c = first_c + c_part;
#pragma unroll
  for (int k = 0; k < TK; k += AT_ONCE) {
    __syncthreads(); /* nobody reads the stages, or the sums before, any more */
#pragma unroll
    for (int i = 0; i < VALUES; i++) found[i * (threads + 1) + thread] = sum[k + i / 9 / TC][i / 9 % TC][i % 9];
    __syncthreads(); /* the sums are there */
    for (int i = slot; i < VALUES && slot < t.slots; i += t.slots) {
      const int of_k = my_k + (k + i / 9 / TC) * t.k_parts, of_c = my_c + i / 9 % TC * t.c_parts;
      const float *from = found + i * (threads + 1) + part;
      float total = 0;
#pragma unroll 8
      for (int j = 0; j < t.slots; j++) total += from[j * t.parts];
      if (of_k < group_k && of_c < group_c) out[((slice * p.K + group * group_k + of_k) * group_c + of_c) * 9 + i % 9] = total;
    }
  }
}

/* dw = the sum of all slices, first to last. A thread: one element. */
__global__ void __launch_bounds__(SUM_THREADS) add_group_slices_kernel(int elements, int slices, const float *__restrict__ parts, float *__restrict__ dw) {
  const int i = blockIdx.x * SUM_THREADS + threadIdx.x;
  if (i >= elements) return;
  float sum = 0;
#pragma unroll 8
  for (int slice = 0; slice < slices; slice++) sum += parts[slice * elements + i];
  dw[i] = sum;
}

/* ---------------------------------------------------------------- host */

typedef struct instance {
  int stride, vec;
  void (*kernel)(conv_problem p, cut t, const float *x, const float *dy, float *out);
} instance;

static const instance instances[] = {{1, 4, groups_wgrad_kernel<1, 4>}, {1, 1, groups_wgrad_kernel<1, 1>}, {2, 1, groups_wgrad_kernel<2, 1>}};

typedef struct groups_plan {
  const instance *row;
  cut how;
  int slices, blocks, threads;
  size_t shared; /* bytes */
} groups_plan;

static int ceil_div(int a, int b) { return (a + b - 1) / b; }

/* parts: fours or pairs of the planes. */
static plane plane_of(int planes, int parts, int rows, int pitch, int units, int threads) {
  rows |= 1, pitch = pitch / 4 % 2 ? pitch : pitch + 4;
  const int copy_rows = threads / units, one = rows * pitch;
  return {rows, pitch, copy_rows, 4 * copy_rows * pitch, planes * rows, planes * one, one, parts * one, divisor_of(units), divisor_of(rows)};
}

/* A cut into blocks of k_parts x c_parts and strips of so many rows; false: it does not fit. */
static bool cut_of(const conv_problem *p, const conv_device *device, const instance *row, int k_parts, int c_parts, int rows, groups_plan *to) {
  cut *t = &to->how;
  const int all_quads = ceil_div(p->Q, TQ), tiles_w = ceil_div(all_quads, MOST_QUADS), quads = ceil_div(all_quads, tiles_w), parts = k_parts * c_parts;
  const int patches = rows * quads, passes = ceil_div(patches, MOST_THREADS / parts);
  *t = {k_parts, c_parts, parts, ceil_div(patches, passes), rows, quads, 0, 0, quads * TQ + 4, 0, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}};
  const int shift = row->vec - 1, cols = row->stride == 1 ? ceil_div(shift + quads * TQ + 2, row->vec) * row->vec : quads * TQ * 2 + 1;
  const int most_units = max(cols, quads * TQ) / row->vec, threads = ceil_div(max(t->slots * parts, most_units), 32) * 32;
  if (threads > MOST_THREADS) return false;
  t->dy = plane_of(k_parts * TK, k_parts, rows, quads * TQ, quads * TQ / row->vec, threads);
  t->x = plane_of(c_parts * TC, c_parts, (rows - 1) * row->stride + 3, row->stride == 1 ? ceil_div(cols, 4) * 4 : t->odd_columns + quads * TQ, cols / row->vec,
                  threads);
  t->stage = t->dy.all + t->x.all;
  t->strips = p->N * ceil_div(p->P, rows) * tiles_w;
  t->by_tiles_k = divisor_of(ceil_div(p->K / p->groups, TK * k_parts)), t->by_tiles_c = divisor_of(ceil_div(p->C / p->groups, TC * c_parts));
  t->by_groups = divisor_of(p->groups), t->by_tiles_h = divisor_of(ceil_div(p->P, rows)), t->by_tiles_w = divisor_of(tiles_w);
  t->by_quads = divisor_of(quads), t->by_parts = divisor_of(parts), t->by_c_parts = divisor_of(c_parts);
  const size_t floats = max(STAGES * t->stage, VALUES * (threads + 1));
  to->row = row, to->threads = threads;
  to->shared = (size_t)STAGES * t->stage * sizeof(float) + (size_t)(t->dy.total + t->x.total) * sizeof(int2);
  if (to->shared < floats * sizeof(float)) to->shared = floats * sizeof(float);
  return to->shared <= device->shared_per_block / 2;
}

/* Instructions of the fullest scheduler, as ptxas writes them, half a warp more for waiting, and what the second kernel takes. */
static double cost_of(const conv_problem *p, const conv_device *device, const groups_plan *g) {
  const cut *t = &g->how;
  const double copies = ceil_div(t->dy.total, t->dy.copy_rows) + ceil_div(t->x.total, t->x.copy_rows), passes = ceil_div(t->rows * t->quads, t->slots);
  const double adding = ceil_div(VALUES, t->slots) * (30 + 3 * t->slots) + 50 + 2 * (int)VALUES;
  const double thread = t->each * (passes * 340 + copies * 17 + 170) + 500 + (int)TK / (int)AT_ONCE * adding;
  const double sums = g->slices > 1 ? 4000 + 8.0 * (double)problem_w_count(p) * g->slices / 2000 : 0; /* clocks; bytes a clock */
  return (ceil(ceil((double)g->blocks / device->sm_count) * (g->threads / 32) / 4) + 0.5) * thread + sums;
}

static const char *plan_wgrad(const conv_operation *o, const conv_device *device, conv_plan *plan) {
  const conv_problem *p = &o->problem;
  const char *why = groups_unsupported(p, device);
  if (why) return why;
  const int all_k = ceil_div(p->K / p->groups, TK), all_c = ceil_div(p->C / p->groups, TC);
  const bool fours = p->W % 4 == 0 && p->Q % 4 == 0 && p->pad_left % 4 == 1;
  groups_plan *mine = plan_data<groups_plan>(plan);
  double least = INFINITY;
  for (const instance *row = instances; row < instances + sizeof instances / sizeof *instances; row++)
    for (int tiles_k = 1; row->stride == p->stride_h && (row->vec == 1 || fours) && tiles_k <= all_k; tiles_k *= 2)
      for (int tiles_c = 1; tiles_c <= all_c; tiles_c *= 2)
        for (int rows = 1; rows <= MOST_ROWS && rows <= p->P; rows++) {
          groups_plan g = {};
          const int k_parts = ceil_div(all_k, tiles_k), c_parts = ceil_div(all_c, tiles_c);
          if (k_parts * c_parts > MOST_THREADS || !cut_of(p, device, row, k_parts, c_parts, rows, &g)) continue;
          const double tiles = (double)p->groups * g.how.by_tiles_k.by * g.how.by_tiles_c.by;
          for (int wave = 0; wave <= 4; wave++) { /* one slice, or as many as fill every multiprocessor so often */
            const double most = device->sm_count * wave / tiles, slices = most < 1 ? 1 : most < g.how.strips ? floor(most) : g.how.strips;
            g.how.each = ceil_div(g.how.strips, (int)slices), g.slices = ceil_div(g.how.strips, g.how.each);
            if (tiles * g.slices > INT_MAX || (double)problem_w_count(p) * g.slices > INT_MAX - 1024) continue;
            g.blocks = (int)tiles * g.slices;
            const double cost = cost_of(p, device, &g);
            if (cost < least) least = cost, *mine = g;
          }
        }
  if (least == INFINITY) return "a strip of x and dy does not fit into shared memory";
  plan->workspace_bytes = mine->slices > 1 ? (size_t)problem_w_count(p) * (size_t)mine->slices * sizeof(float) : 0;
  const cut &t = mine->how;
  snprintf(plan->words, sizeof plan->words, "%d x %d filters x channels, %d rows x %d columns, %d threads, %d slices", t.k_parts * TK, t.c_parts * TC, t.rows,
           t.quads * TQ, mine->threads, mine->slices);
  const cudaError_t status = plan_allow_shared((const void *)mine->row->kernel, mine->shared);
  return status ? plan_failed(plan, status) : NULL;
}

static cudaError_t launch_wgrad(const conv_plan *plan, const conv_buffers *b, cudaStream_t stream) {
  const conv_problem *p = &plan->operation.problem;
  const groups_plan *mine = plan_data<groups_plan>(plan);
  const int elements = (int)problem_w_count(p);
  float *out = (float *)(mine->slices > 1 ? b->workspace : b->w);
  mine->row->kernel<<<mine->blocks, mine->threads, mine->shared, stream>>>(*p, mine->how, (const float *)b->x, (const float *)b->y, out);
  if (mine->slices > 1) add_group_slices_kernel<<<ceil_div(elements, SUM_THREADS), SUM_THREADS, 0, stream>>>(elements, mine->slices, out, (float *)b->w);
  return cudaGetLastError();
}

GEMM_ROW(few_groups_wgrad, "05p", "groups of few channels: all sums in registers, pixels go by", PASS_WGRAD, plan_wgrad, launch_wgrad, plain_growth_wgrad);
