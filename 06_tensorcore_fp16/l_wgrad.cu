/* 06l: the gradient of the filters: a matrix product whose reduction runs over all pixels, shared out evenly.
 *
 *     dw [K][R S C]  =  dy [N P Q][K], transposed  x  windows [N P Q][R S C]
 *
 * Terms:    implicit GEMM, MN-major operands, stream-K, deterministic reduction, programmatic dependent launch.
 * Idea:     three. Both operands lie with the reduction, the pixels, outside and with filters or channels next to each other: the tensor cores read such matrices
 *           as they lie (MN-major), so nothing is turned. A box is 64 pixels of 64 filters or of 64 channels under one tap; b's columns are up to four boxes, of
 *           any taps and channels, one after the other as dw has them. And tiles are few, pixels many: the steps of all tiles stand in one row, and every block
 *           takes an equal stretch of it, from the middle of a tile to the middle of another, if need be. For each tile that it meets it leaves its sums in the
 *           workspace, as they lie in registers; a second kernel adds what the blocks have left of a tile, in their order: the same bits on every run.
 * Place:    going on from one such piece to the next is going on to the next block, or to the next tile, or both: block + tile is a different number for each.
 * Outside:  a window's padding is zero, and so is all past the last pixel, in x and in dy.
 * Change:   against 06f a reduction over pixels and not over taps and channels, tiles that are shared, the second kernel. The ring, the roles and the
 *           early launch are the same; consumers need few registers, so none are handed over.
 * Expect:   (before anything ran on a GPU) mb16ic64ih56oc128oh56kh3ph1: three tiles of 128 filters x 3 taps, 18 steps a block of 40 KiB at 52 bytes a clock, 7.5 us;
 *           a launch and a first load 2 us, sums written 1 us, a second kernel that reads 13 MB out of L2 3 us: 13 to 14 us. Where x and dy are larger than L2, blocks
 *           that are in different places of different tiles read most of their boxes from memory: worse than 06f there.
 * Passes:   wgrad. Layout: NHWC, filters KRSC, fp16 with fp32 sums. Channels and filters: multiples of 8. No groups. */
#include "06_tensorcore_fp16/cost.h"
#include "06_tensorcore_fp16/parts.cuh"
#include "06_tensorcore_fp16/tiles.cuh"
#include "common/harness/launch.h"

static constexpr int CONSUMERS = 2, BLOCK = (1 + CONSUMERS) * THREADS, MOST_STAGES = 8;
static constexpr int ADDED = MOST_LANES * THREADS * 16 /* bytes, of the second kernel */;
static constexpr int PIXELS = 64 /* of a step */, WIDE = 64 /* filters or channels of a box */, BOX = PIXELS * ROW, OCTETS = WIDE / 8;

/* How the problem is cut. */
typedef struct pixel_cut {
  divisor steps, each, row, image;                  /* by the steps of a tile; by those of a block; by Q; by P Q */
  divisor tiles_k, parts_c, columns;                /* by the tiles of filters; by the boxes of a tap; by S */
  int filters, filters_apart, boxes, boxes_apart;   /* of a tile: filters, boxes of b; from one consumer to the next */
  divisor party;                                    /* by the tiles of a party */
  int parties, units, total, all, stages, stage, n; /* total: steps of all parties; all: boxes of b; bytes of a stage; n: boxes of a product */
} pixel_cut;

/* Which tiles are a party: each alone, those of the same columns, all. */
enum { ONE_TILE, SAME_COLUMNS, ALL_TILES, PARTIES };

/* A block for each tile: it writes dw, and there is no second kernel. */
static __host__ __device__ __forceinline__ bool alone(const pixel_cut &t) { return t.each.by == t.steps.by; }

/* What a tile is of dw. */
typedef struct corner {
  int k, box;
} corner;

static __device__ __forceinline__ corner corner_of(const pixel_cut &t, int tile) {
  const int of_b = divide(tile, t.tiles_k);
  return {(tile - of_b * t.tiles_k.by) * t.filters, of_b * t.boxes};
}

/* Tap and first channel of a box. */
static __device__ __forceinline__ place place_of(const conv_problem &p, const pixel_cut &t, int box) {
  const int tap = divide(box, t.parts_c), r = divide(tap, t.columns);
  return {r, tap - r * p.S, (box - tap * t.parts_c.by) * WIDE};
}

/* Asks for the products of a step: 64 filters, 2 SUMS columns, 64 pixels, which are rows of a box: the next 16 of them lie 16 rows on. */
template <bool FIRST, int SUMS> static __device__ __forceinline__ void multiply_pixels(float (&sum)[SUMS], ptx_shared a, ptx_shared b) {
  ptx_wgmma_fence();
  const unsigned long long of_a = ptx_wgmma_descriptor(a, BOX, 8 * ROW, PTX_SWIZZLE_128), of_b = ptx_wgmma_descriptor(b, BOX, 8 * ROW, PTX_SWIZZLE_128);
#pragma unroll
  for (int l = 0; l < PIXELS; l += 16) {
    if (FIRST && l == 0) ptx_wgmma<1, 1, 0>(sum, of_a, of_b);
    else ptx_wgmma<1, 1>(sum, of_a + l * CHUNKS, of_b + l * CHUNKS);
  }
  ptx_wgmma_commit();
}

/* parts[unit + party][member][consumer][octet of columns][thread]: two neighbouring columns of two filters. N: columns of a product. */
template <int N>
__global__ void __launch_bounds__(BLOCK, 1) pixels_kernel(conv_problem p, pixel_cut t, const __grid_constant__ CUtensorMap windows,
                                                          const __grid_constant__ CUtensorMap gradients, float4 *__restrict__ parts, __half *__restrict__ dw) {
  extern __shared__ __align__(1024) unsigned char shared[];
  __shared__ unsigned long long barriers[2 * MOST_STAGES];
  const ptx_shared stages = ptx_shared_address(shared);
  const ring r = {ptx_shared_address(barriers), ptx_shared_address(barriers + MOST_STAGES)};
  /* No minimum here: of the smallest of three numbers, one of them with another sign, nvcc 13.0 made a wrong instruction. */
  const int role = uniform(threadIdx.x / THREADS), unit = divide(blockIdx.x, t.party), member = blockIdx.x - unit * t.party.by, first = unit * t.each.by,
            end = unit + 1 < t.units ? first + t.each.by : t.total;
  if (threadIdx.x == 0) {
    ptx_griddepcontrol_launch_dependents(); /* the next kernel may begin */
    ptx_prefetch_tensormap(&windows), ptx_prefetch_tensormap(&gradients);
    ring_begin(r, t.stages, CONSUMERS * THREADS / 32);
  }

  slot s = {0, 0};
  if (role == 0) { /* the producers, in turns */
    __syncwarp();
    int turn = uniform(threadIdx.x / 32); /* steps until this warp's next */
    producers_begin(turn, BLOCK);
    if (threadIdx.x % 32 != 0) return;
    ptx_griddepcontrol_wait(); /* what the kernel before wrote is there */
    for (int party = divide(first, t.steps), i = first; i < end; party++) {
      const corner at = corner_of(t, party * t.party.by + member);
      const place first_place = place_of(p, t, at.box);
      for (const int stop = min(end, (party + 1) * t.steps.by); i < stop; i++, s = next_slot(s, t.stages)) {
        if (!my_turn(&turn)) continue;
        const int pixel = (i - party * t.steps.by) * PIXELS, n = divide(pixel, t.image), of_image = pixel - n * t.image.by, row = divide(of_image, t.row);
        const int in_w = (of_image - row * p.Q) * p.stride_w - p.pad_left, in_h = row * p.stride_h - p.pad_top;
        const ptx_shared full = r.full + 8 * s.stage;
        ptx_shared to = stages + s.stage * t.stage;
        ptx_mbarrier_wait(r.empty + 8 * s.stage, s.parity ^ 1);
        ptx_mbarrier_arrive_expect_tx(full, t.stage);
        for (int k = 0; k < t.filters; k += WIDE, to += BOX) ptx_tensor_load(to, &gradients, {at.k + k, pixel}, full);
        place of_x = first_place;
        for (int box = 0; box < t.boxes; box++, to += BOX) {
          ptx_tensor_load_im2col(to, &windows, {of_x.c, in_w, in_h, n}, {(unsigned short)(of_x.s * p.dil_w), (unsigned short)(of_x.r * p.dil_h)}, full);
          if (at.box + box + 1 < t.all) of_x = next_step(p, of_x, p.C); /* past the last box: the last again, for nobody */
        }
      }
    }
    return;
  }

  ptx_bar_sync(1, BLOCK);
  ptx_griddepcontrol_wait();
  const int me = role - 1; /* of the consumers */
  const ptx_shared a = stages + me * t.filters_apart * ROW, b = stages + t.filters * ROW + me * t.boxes_apart * BOX;
  const bool first_lane = threadIdx.x % 32 == 0;
  for (int party = divide(first, t.steps), i = first; i < end; party++) {
    float sum[N / 2];
    int before = s.stage;
    ptx_mbarrier_wait(r.full + 8 * s.stage, s.parity);
    multiply_pixels<true>(sum, a + s.stage * t.stage, b + s.stage * t.stage);
    i++, s = next_slot(s, t.stages);
    for (const int stop = min(end, (party + 1) * t.steps.by); i < stop; i++, s = next_slot(s, t.stages)) {
      ptx_mbarrier_wait(r.full + 8 * s.stage, s.parity);
      multiply_pixels<false>(sum, a + s.stage * t.stage, b + s.stage * t.stage);
      ptx_wgmma_wait<1>(); /* the step before is done */
      if (first_lane) ptx_mbarrier_arrive(r.empty + 8 * before);
      before = s.stage;
    }
    ptx_wgmma_wait<0>();
    if (first_lane) ptx_mbarrier_arrive(r.empty + 8 * before);

    if (alone(t)) { /* nobody else has steps of this tile */
      const corner at = corner_of(t, party * t.party.by + member);
      const int lane = threadIdx.x % 32, k = at.k + me * t.filters_apart + threadIdx.x / 32 % 4 * 16 + lane / 4;
#pragma unroll
      for (int j = 0; j < N / 8; j++) {
        const int box = at.box + me * t.boxes_apart + j / OCTETS;
        if (box >= t.all) continue;
        const place of_x = place_of(p, t, box);
        put_dw(p, of_x.r * p.S + of_x.s, of_x.c + j % OCTETS * 8 + lane % 4 * 2, k, make_float4(sum[4 * j], sum[4 * j + 1], sum[4 * j + 2], sum[4 * j + 3]),
               dw);
      }
      continue;
    }
    float4 *const to = parts + (int64_t)(((unit + party) * t.party.by + member) * CONSUMERS + me) * (N / 8 * THREADS) + threadIdx.x % THREADS;
#pragma unroll
    for (int j = 0; j < N / 8; j++) to[j * THREADS] = make_float4(sum[4 * j], sum[4 * j + 1], sum[4 * j + 2], sum[4 * j + 3]);
  }
}

/* dw: of every tile what the blocks have left, from the first that had a step of it to the last. A block: an octet of a consumer's columns; its threads add as
 * many lanes of the sum as blockDim.y says, and then these. parts without __restrict__: it promises what does not change while the kernel runs, and this one
 * begins before they are written. */
__global__ void __launch_bounds__(MOST_LANES *THREADS) add_parts_kernel(conv_problem p, pixel_cut t, const float4 *parts, __half *__restrict__ dw) {
  __shared__ float4 lanes[MOST_LANES][THREADS];
  if (threadIdx.x == 0 && threadIdx.y == 0) ptx_griddepcontrol_launch_dependents(); /* the next kernel may begin */
  const int octets = t.n * OCTETS, piece = blockIdx.x / octets, octet = blockIdx.x - piece * octets, me = piece % CONSUMERS, tile = piece / CONSUMERS;
  const corner at = corner_of(t, tile);
  const int box = at.box + me * t.boxes_apart + octet / OCTETS;
  const place of_x = place_of(p, t, box);
  const int c = octet % OCTETS * 8 + threadIdx.x % 4 * 2, k = at.k + me * t.filters_apart + threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4;
  if (box >= t.all || of_x.c + c >= p.C) return; /* all threads or none: C is a multiple of 8 */

  const int party = divide(tile, t.party), member = tile - party * t.party.by, first = divide(party * t.steps.by, t.each),
            last = divide((party + 1) * t.steps.by - 1, t.each);
  float4 sum = make_float4(0, 0, 0, 0);
  ptx_griddepcontrol_wait(); /* the parts are there */
#pragma unroll 8
  for (int unit = first + threadIdx.y; unit <= last; unit += blockDim.y) {
    const float4 part = parts[((int64_t)(((unit + party) * t.party.by + member) * CONSUMERS + me) * octets + octet) * THREADS + threadIdx.x];
    sum.x += part.x, sum.y += part.y, sum.z += part.z, sum.w += part.w;
  }
  if (!sum_of_lanes(lanes, &sum)) return;
  put_dw(p, of_x.r * p.S + of_x.s, of_x.c + c, k, sum, dw);
}

/* ---------------------------------------------------------------- host */

typedef struct pixels_plan {
  CUtensorMap windows, gradients;
  pixel_cut cut;
  int lanes;
} pixels_plan;

typedef void (*pixels_t)(conv_problem p, pixel_cut t, CUtensorMap windows, CUtensorMap gradients, float4 *parts, __half *dw);
static const pixels_t instances[] = {pixels_kernel<WIDE>, pixels_kernel<2 * WIDE>, pixels_kernel<3 * WIDE>, pixels_kernel<4 * WIDE>}; /* by n - 1 */

/* Products of n boxes, in at most so many blocks. beside: both consumers have the same 64 filters, and n boxes each. party: one of PARTIES. False: more than can be
 * counted, or a party has more tiles than there are blocks. */
static bool cut_into(const conv_problem *p, int n, bool beside, int party, int blocks, pixel_cut *t) {
  const int parts_c = (int)ceil_div(p->C, WIDE), steps = (int)ceil_div((int64_t)p->N * p->P * p->Q, PIXELS);
  *t = {};
  t->row = divisor_of(p->Q), t->image = divisor_of(p->P * p->Q), t->steps = divisor_of(steps);
  t->parts_c = divisor_of(parts_c), t->columns = divisor_of(p->S);
  if (beside) t->filters = WIDE, t->boxes = CONSUMERS * n, t->boxes_apart = n;
  else t->filters = CONSUMERS * WIDE, t->filters_apart = WIDE, t->boxes = n;
  const int tiles_k = (int)ceil_div(p->K, t->filters);
  const int64_t all = (int64_t)p->R * p->S * parts_c, tiles = ceil_div(all, t->boxes) * tiles_k;
  const int64_t together = party == ONE_TILE ? 1 : party == SAME_COLUMNS ? tiles_k : tiles;
  if (together > blocks || tiles / together * steps > INT_MAX / 2) return false;
  t->n = n, t->tiles_k = divisor_of(tiles_k), t->all = (int)all;
  t->party = divisor_of((int)together), t->parties = (int)(tiles / together), t->total = t->parties * steps;
  t->each = divisor_of((int)ceil_div(t->total, blocks / (int)together)), t->units = (int)ceil_div(t->total, t->each.by);
  t->stage = t->filters * ROW + t->boxes * BOX;
  return true;
}

static int blocks_of(const pixel_cut *t) { return t->units * t->party.by; }

/* Bytes of all parts: sums in fp32. */
static int64_t parts_bytes(const pixel_cut *t) {
  return alone(*t) ? 0 : (int64_t)(t->parties + t->units - 1) * t->party.by * CONSUMERS * t->n * OCTETS * THREADS * (int)sizeof(float4);
}

/* Clocks: a block's steps, its tiles' ends, and a second kernel, for which sums are written and read, 5000 bytes a clock (docs/gpu_hopper.md). A multiprocessor takes
 * in 60 bytes a clock if others want the same at the same time, and more of a box that its neighbours want, else 36. Of what does not stay in L2, memory brings 2000
 * bytes a clock: once, if all tiles are one party, or for every row and column of tiles; in part while products are made. */
static double clocks_of_cut(const conv_problem *p, const pixel_cut *t) {
  const double x = 2.0 * p->N * p->H * p->W * p->C, dy = 2.0 * p->N * p->P * p->Q * p->K, ends = 1 + (double)t->each.by / t->steps.by;
  const int tiles = t->parties * t->party.by;
  const bool together = t->party.by > 1, once = x + dy < 40e6 || t->parties == 1;
  const double memory = (once ? x + dy : x * t->tiles_k.by + dy * (tiles / t->tiles_k.by)) / 2000;
  const double bytes = t->filters * ROW + (together && t->tiles_k.by > 1 ? 0.8 : 1) * t->boxes * BOX;
  const double steps = t->each.by * fmax(2.0 * CONSUMERS * t->n * WIDE, bytes / (together ? 60 : 36));
  return fmax(steps, memory) + 0.4 * fmin(steps, memory) + ends * clocks_of_end(t->n * WIDE) + (alone(*t) ? 0 : parts_bytes(t) / 2500.0 + 3000);
}

/* Up to four boxes a product, or two beside each other: with more, a ring has fewer stages than producers. */
static const struct {
  int n;
  bool beside;
} shapes[] = {{1, false}, {2, false}, {3, false}, {4, false}, {1, true}, {2, true}};

/* The cheapest of them, with each kind of party. False: none can be counted. */
static bool best_cut(const conv_problem *p, int sm_count, pixel_cut *best) {
  double least = INFINITY;
  for (int i = 0; i < PARTIES * (int)(sizeof shapes / sizeof *shapes); i++) {
    pixel_cut t;
    if (!cut_into(p, shapes[i / PARTIES].n, shapes[i / PARTIES].beside, i % PARTIES, sm_count, &t)) continue;
    const double clocks = clocks_of_cut(p, &t);
    if (clocks < least) least = clocks, *best = t;
  }
  return least < INFINITY;
}

static const char *plan_wgrad(const conv_operation *o, const conv_device *device, conv_plan *plan) {
  const conv_problem *p = &o->problem;
  if (device->arch / 10 != 9) return "wgmma: only compute capability 9.0 has it";
  if (p->groups > 1) return "groups";
  if (p->C % CHUNK != 0 || p->K % CHUNK != 0) return "C or K is no multiple of 8";
  const char *why = plain_unsupported(p, device);
  if (why) return why;
  pixels_plan *mine = plan_data<pixels_plan>(plan);
  why = map_windows(plan, &mine->windows, p, WIDE, PIXELS);
  const cuuint64_t size[2] = {(cuuint64_t)p->K, (cuuint64_t)p->N * p->P * p->Q};
  const cuuint32_t box[2] = {WIDE, PIXELS};
  if (!why) why = map_tiles(plan, &mine->gradients, "dy", 2, size, box);
  if (why) return why;
  pixel_cut *t = &mine->cut;
  if (!best_cut(p, device->sm_count, t)) return "2^30 steps of 64 pixels or more, of all tiles together";
  t->stages = ((int)device->shared_per_block - 1024 - ADDED) / t->stage; /* room for a block of the second kernel, which begins early */
  if (t->stages > MOST_STAGES) t->stages = MOST_STAGES;
  const int of_a_tile = (int)ceil_div(t->steps.by, t->each.by) + 1; /* parts, at most */
  mine->lanes = of_a_tile < 4 ? 1 : of_a_tile < 4 * MOST_LANES ? of_a_tile / 4 : MOST_LANES;
  plan->workspace_bytes = (size_t)parts_bytes(t);
  snprintf(plan->words, sizeof plan->words, "%d filters x %d channels, %d part%s of %d tile%s, by %d blocks, %d stages", t->filters, t->boxes * WIDE,
           t->parties, t->parties == 1 ? "y" : "ies", t->party.by, t->party.by == 1 ? "" : "s", blocks_of(t), t->stages);
  const cudaError_t status = plan_allow_shared((const void *)instances[t->n - 1], (size_t)(t->stages * t->stage));
  return status ? plan_failed(plan, status) : NULL;
}

static cudaError_t launch_wgrad(const conv_plan *plan, const conv_buffers *b, cudaStream_t stream) {
  const pixels_plan *mine = plan_data<pixels_plan>(plan);
  const conv_problem &p = plan->operation.problem;
  const pixel_cut &t = mine->cut;
  CUtensorMap windows, gradients;
  cudaError_t status = map_at(&windows, &mine->windows, b->x);
  if (!status) status = map_at(&gradients, &mine->gradients, b->y);
  if (status) return status;
  status = launch_kernel({.grid = dim3(blocks_of(&t)), .block = dim3(BLOCK), .shared = (size_t)(t.stages * t.stage), .stream = stream, .early = true},
                         instances[t.n - 1], p, t, windows, gradients, (float4 *)b->workspace, (__half *)b->w);
  if (status || alone(t)) return status;
  return launch_kernel({.grid = dim3(t.parties * t.party.by * CONSUMERS * t.n * OCTETS), .block = dim3(THREADS, mine->lanes), .stream = stream, .early = true},
                       add_parts_kernel, p, t, (const float4 *)b->workspace, (__half *)b->w);
}

/* An accumulator takes one product after the other, which adds 16 pixels and what it was, at most for all steps; then the parts, of which each has a step, in
 * lanes. */
static double growth_wgrad(const conv_problem *p, bool random) {
  const double steps = (double)ceil_div((int64_t)p->N * p->P * p->Q, PIXELS);
  return growth_truncated(steps * (PIXELS / 16) * (16 + 1) + steps + MOST_LANES, random);
}

NHWC_ROW(dense_wgrad, "06l", "the reduction over all pixels, shared out evenly; both operands as they lie", PASS_WGRAD, 90, plan_wgrad, launch_wgrad,
         growth_wgrad);
