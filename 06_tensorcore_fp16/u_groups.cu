/* 06u: a few channels a group: as many groups as 64 channels hold in one product, zeros between them.
 *
 * Terms:    grouped convolution, block-diagonal filters, residue class, parity plane.
 * Idea:     a group of 4 channels and 4 filters is 4 of 16 in depth and 4 of 64 rows of a product. But 16 such groups side by side are 64 channels of x and 64 of y,
 *           and a tap's filters a matrix of 64 x 64 with the groups' along its diagonal and zeros elsewhere. Of the products 1 in 16 counts; and still memory binds
 *           before the tensor cores do, or soon after: a layer of few channels a group has few products for its bytes.
 *
 *               tap of 64 filters  [ 0 . . . ]       [channels of group 0]
 *                                  [ . 1 . . ]   x   [channels of group 1]      one 06g for each 64 channels
 *                                  [ . . 2 . ]       [         ...        ]
 *
 * Strides:  with a stride of 2 the pixels that a tap reads are every second one: a plane. A tensor map makes an image of it, since strides of a map may be any;
 *           of a tile the halos of four planes come, together each pixel once, and a tap's descriptor begins in its plane. In dgrad it is the result whose pixels
 *           fall into four classes, by the taps that meet them (06k): each is a product of its own taps over the same halo, and leaves by a plane's map.
 * Roles:    06g's. A block stays with the same 64 channels, whose filters the consumers lay out first: while they come from memory, zeros are written.
 * Turns:    a tile's end is half as long as its products. Two consumers that begin together share the tensor cores, end together, and then nobody multiplies. So one
 *           asks for its products when the other's are nearly done, and rounds and stores under them.
 * Halo:     the zeros to the right of a row are those to the left of the next, and those below an image those above the next: one column of 15 not multiplied, and
 *           with 14 x 14 pixels 7 rows fit 104 columns of a product exactly. Results of strided layers leave by memory of their own: their large stages fall free sooner.
 * Infinity: an infinite pixel times a zero of another group is NaN.
 * Change:   against 06g filters with zeros, planes; results of classes go out by a box of their own; turns.
 * Expect:   (after a first version had been timed) ResNeXt, 64 images, at 1980 MHz: 56 x 56 and 128 channels 14 tiles of 4176 clocks of products and one end, 31 us; with 28, 14 and 7 pixels 16, 9 and 6; to each 2
 *           us for the launch, the filters and the first tile. With a stride DRAM decides, at three quarters of its rate: 39, 20 and 11.
 * Passes:   fprop, dgrad. Layout: NHWC, filters KRSC, fp16 with fp32 sums. C and K: multiples of 8; up to 64 channels and filters a group, which fill 64 of the
 *           result; strides of 1 and 2. */
#include <math.h>

#include "06_tensorcore_fp16/planes.h"
#include "06_tensorcore_fp16/tiles.cuh"
#include "common/harness/launch.h"

static constexpr int CONSUMERS = 2, BLOCK = (1 + CONSUMERS) * THREADS, TAP = WGMMA_M * ROW /* bytes of a tap's filters */, MOST_STAGES = 8, MOST_N = 256;
static constexpr int MY_TURN = 5 /* and 6: barriers of the consumers' turns */;
static constexpr int AT_ONCE = 9; /* loads of a thread on their way */

/* A tile: `rows` rows of one image of a class of the result, or `images` whole ones; its halo in each plane has `pitch` columns and `halo` rows an image. */
typedef struct group_cut {
  divisor by_p, chunks;                                  /* by the tiles of an image; by the pieces of 64 channels */
  int rows, images, pitch, halo, tiles, stages, stage;   /* stage: bytes */
  int planes, plane, low_h, low_w;                       /* bytes of a plane; where the halo begins */
  int classes, first[MOST_PLANES + 1], out[MOST_PLANES]; /* their taps; their planes of the result */
  bool own;                                              /* results go out from memory of the consumer's own, not from the stage */
  unsigned at[MOST_TAPS];                                /* of a tap, by class: where its pixels begin, in bytes */
  unsigned char filter[MOST_TAPS];                       /* which tap of the filter it is */
  divisor by_w_row, by_w_tap, by_group;                  /* units of a filter, of a tap; filters of a group */
  int unit, groups;                                      /* halves that are copied at once; of a chunk */
} group_cut;

/* By the consumers: the filters of a chunk's groups, [tap][64 filters][64 channels], zeros between groups. UNIT: what is copied at once. The zeros are written while
 * filters are on their way. */
template <typename UNIT>
static __device__ __forceinline__ void put_diagonal(const conv_problem &p, const group_cut &t, int chunk, const __half *w, unsigned char *filters) {
  const int me = threadIdx.x - THREADS, taps = p.R * p.S, group_c = p.C / p.groups, group_k = p.K / p.groups;
  const int groups = min(t.groups, p.groups - chunk * t.groups), all = groups * group_k * t.by_w_row.by;
  const UNIT *const from = (const UNIT *)(w + (int64_t)chunk * t.groups * group_k * taps * group_c);
  for (int first = me; first - me < all; first += AT_ONCE * CONSUMERS * THREADS) {
    UNIT part[AT_ONCE];
    int to[AT_ONCE];
#pragma unroll
    for (int j = 0; j < AT_ONCE; j++)
      if (first + j * CONSUMERS * THREADS < all) part[j] = from[first + j * CONSUMERS * THREADS];
#pragma unroll
    for (int j = 0; j < AT_ONCE; j++) {
      const int i = first + j * CONSUMERS * THREADS, k = divide(i, t.by_w_row), of_k = i - k * t.by_w_row.by, tap = divide(of_k, t.by_w_tap);
      const int c = divide(k, t.by_group) * group_c + (of_k - tap * t.by_w_tap.by) * (int)(sizeof(UNIT) / 2);
      to[j] = tap * TAP + swizzled(k, c / CHUNK) + c % CHUNK * 2;
    }
    if (first == me) {
      for (int i = me; i < taps * TAP / 16; i += CONSUMERS * THREADS) ((uint4 *)filters)[i] = uint4();
      ptx_bar_sync(4, CONSUMERS * THREADS); /* zeros before filters */
    }
#pragma unroll
    for (int j = 0; j < AT_ONCE; j++)
      if (first + j * CONSUMERS * THREADS < all) *(UNIT *)(filters + to[j]) = part[j];
  }
  __syncwarp();
}

/* N: pixels of a product, those between the rows included. */
template <int N, bool TURNED>
__global__ void __launch_bounds__(BLOCK, 1)
    group_kernel(conv_problem p, group_cut t, const __half *w, const __grid_constant__ plane_maps halos, const __grid_constant__ plane_maps results) {
  extern __shared__ __align__(1024) unsigned char shared[];
  __shared__ unsigned long long barriers[2 * MOST_STAGES];
  const int box = t.pitch * t.halo * t.images * ROW, role = uniform(threadIdx.x / THREADS);
  const int place = divide(blockIdx.x, t.chunks), chunk = blockIdx.x - place * t.chunks.by, apart = gridDim.x / t.chunks.by;
  const int first_in = chunk * t.groups * ((TURNED ? p.K : p.C) / p.groups), first_out = chunk * t.groups * ((TURNED ? p.C : p.K) / p.groups);
  const ptx_shared filters = ptx_shared_address(shared), stages = filters + p.R * p.S * TAP;
  const ring r = {ptx_shared_address(barriers), ptx_shared_address(barriers + MOST_STAGES)};
  if (threadIdx.x == 0) {
    ptx_griddepcontrol_launch_dependents(); /* the next kernel may begin */
    for (int i = 0; i < t.planes; i++) ptx_prefetch_tensormap(&halos.of[i]);
    ring_begin(r, t.stages, 1 + THREADS / 32); /* who multiplied it, and each warp of the other consumer */
  }

  if (role == 0) { /* the producer */
    __syncwarp();
    ptx_bar_arrive(1, BLOCK); /* barriers are there; who made them need not wait */
    ptx_setmaxnreg_dec<56>();
    if (threadIdx.x != 0) return;
    slot s = {0, 0};
    ptx_griddepcontrol_wait(); /* what the kernel before wrote is there */
    for (int i = place; i < t.tiles; i += apart, s = next_slot(s, t.stages)) {
      const int of_p = divide(i, t.by_p), row = (i - of_p * t.by_p.by) * t.rows + t.low_h;
      ptx_mbarrier_wait(r.empty + 8 * s.stage, s.parity ^ 1);
      ptx_mbarrier_arrive_expect_tx(r.full + 8 * s.stage, box * t.planes);
      for (int plane = 0; plane < t.planes; plane++)
        ptx_tensor_load(stages + s.stage * t.stage + plane * t.plane, &halos.of[plane], {first_in, t.low_w, row, of_p * t.images}, r.full + 8 * s.stage);
    }
    return;
  }

  for (int stage = 0; stage < t.stages; stage++) /* what lies behind a box is read; it must not be NaN, or even be zero */
    for (int plane = 0; plane < t.planes; plane++) {
      unsigned char *const at = shared + p.R * p.S * TAP + stage * t.stage + plane * t.plane;
      const int end = plane < t.planes - 1 ? t.plane : t.stage - plane * t.plane;
      for (int i = box + (threadIdx.x - THREADS) * 16; i < end; i += CONSUMERS * THREADS * 16) *(uint4 *)(at + i) = uint4();
    }
  __syncwarp();
  ptx_griddepcontrol_wait();
  if (t.unit == CHUNK) put_diagonal<uint4>(p, t, chunk, w, shared);
  else if (t.unit == 4) put_diagonal<uint2>(p, t, chunk, w, shared);
  else put_diagonal<__half>(p, t, chunk, w, shared);
  ptx_fence_proxy_async();
  ptx_bar_sync(1, BLOCK); /* barriers, zeros and filters are there */
  ptx_setmaxnreg_inc<224>();
  const int me = role - 1; /* of the consumers */
  const ptx_shared own = stages + t.stages * t.stage + me * N * ROW;
  slot s = {0, 0};
  int turn = 0;
  for (int i = place; i < t.tiles; i += apart, turn++, s = next_slot(s, t.stages)) {
    const int of_p = divide(i, t.by_p), row = (i - of_p * t.by_p.by) * t.rows;
    const ptx_shared pixels = stages + s.stage * t.stage, out = t.own ? own : pixels;
    ptx_mbarrier_wait(r.full + 8 * s.stage, s.parity); /* the other's tiles, too: who asks for a round's parity must know that the round before is over */
    if (turn % CONSUMERS != me) {
      __syncwarp(); /* all lanes do */
      if (threadIdx.x % 32 == 0) ptx_mbarrier_arrive(r.empty + 8 * s.stage);
      continue;
    }
    for (int c = 0; c < t.classes; c++) {
      const bool last = c == t.classes - 1;
      float sum[1][N / 2];
      if (t.classes == 1 && turn > 0) ptx_bar_sync(MY_TURN + me, CONSUMERS * THREADS); /* the tile before is multiplied, but for its last tap */
      int tap = t.first[c];
      multiply<true, TURNED>(sum, filters + t.filter[tap] * TAP, pixels + t.at[tap]);
      for (tap++; tap < t.first[c + 1]; tap++) multiply<false, TURNED>(sum, filters + t.filter[tap] * TAP, pixels + t.at[tap]);
      ptx_wgmma_wait<1>();
      if (t.classes == 1 && i + apart < t.tiles) ptx_bar_arrive(MY_TURN + (me ^ 1), CONSUMERS * THREADS);
      if (t.own && threadIdx.x % THREADS == 0) ptx_bulk_wait_read<0>(); /* what was there before has left */
      __syncwarp();
      ptx_wgmma_wait<0>();
      ptx_bar_sync(2 + me, THREADS); /* nobody reads the pixels any more, if it was the last class */
      if (t.own && last && threadIdx.x % THREADS == 0) ptx_mbarrier_arrive(r.empty + 8 * s.stage);
      __syncwarp();
      put_turned<N>(sum[0], out);
      ptx_fence_proxy_async();
      ptx_bar_sync(2 + me, THREADS); /* the sums are there */
      if (threadIdx.x % THREADS == 0) {
        ptx_tensor_store(&results.of[t.out[c]], {first_out, 0, row, of_p * t.images}, out);
        ptx_bulk_commit();
        if (!t.own) ptx_bulk_wait_read<0>(), ptx_mbarrier_arrive(r.empty + 8 * s.stage);
      }
      __syncwarp();
    }
  }
  if (threadIdx.x % THREADS == 0) ptx_bulk_wait_read<0>(); /* shared memory may go; what is written is there when the grid ends */
}

/* ---------------------------------------------------------------- host */

typedef struct instance {
  int n;
  void (*kernel[2])(conv_problem p, group_cut t, const __half *w, plane_maps halos, plane_maps results); /* as they lie, turned */
} instance;

/* The first that is enough. */
#define ROW_OF(N)                                        \
  {                                                      \
    N, { group_kernel<N, false>, group_kernel<N, true> } \
  }
static const instance instances[] = {ROW_OF(56), ROW_OF(64), ROW_OF(96), ROW_OF(104), ROW_OF(120), ROW_OF(128), ROW_OF(208), ROW_OF(232), ROW_OF(256)};

static const instance *instance_for(int positions) {
  const instance *row = instances;
  while (row->n < positions) row++; /* there is one */
  return row;
}

typedef struct group_plan {
  plane_maps halos, results;
  plane_tensor image, result;
  group_cut cut;
  int rows, columns; /* of a class of the result */
  const instance *row;
  int blocks, shared;
} group_plan;

static int ceil_of(int all, int part) { return (all + part - 1) / part; }

/* Positions of a tile's outputs, from the first to the last, those between rows and images included; with planes all that the box of results takes. */
static int positions(const group_cut *t, int columns) {
  if (t->classes > 1 || t->planes > 1) return (t->images > 1 ? t->images * t->halo : t->rows) * t->pitch;
  return ((t->images - 1) * t->halo + t->rows - 1) * t->pitch + columns;
}

/* The cut into tiles of `rows` rows, or of images if those are all; false: it fits into no product, or not twice into what shared memory is left. */
static bool try_cut(const group_plan *mine, tap_range h, tap_range w, int rows, int images, int64_t room, group_cut *t) {
  const plane_tensor *image = &mine->image;
  t->rows = rows, t->images = images, t->pitch = halo_of(w, mine->columns, ceil_of(image->width, image->stride_w));
  t->halo = rows < mine->rows ? rows + h.high - h.low : halo_of(h, rows, ceil_of(image->height, image->stride_h));
  if (t->halo > 256 || positions(t, mine->columns) > MOST_N) return false;
  const int n = instance_for(positions(t, mine->columns))->n;
  /* The last plane has room for what the last tap reads behind the box, too; so have the others, if it must be zeros. */
  const int box = t->pitch * t->halo * images, read = n + (h.high - h.low) * t->pitch + w.high - w.low, most = read > box ? read : box;
  const bool zeros = t->pitch < mine->columns + w.high - w.low || t->halo < rows + h.high - h.low;
  t->plane = ceil_of(zeros ? most : box, 8) * 8 * ROW, t->stage = (t->planes - 1) * t->plane + ceil_of(most, 8) * 8 * ROW;
  t->own = t->classes > 1 || t->planes > 1 || n > box;
  if (t->own) room -= CONSUMERS * n * ROW;
  t->stages = room / t->stage < MOST_STAGES ? (int)(room / t->stage) : MOST_STAGES;
  t->by_p = divisor_of(ceil_of(mine->rows, rows)), t->tiles = t->by_p.by * ceil_of(image->images, images);
  return t->stages >= CONSUMERS;
}

/* Clocks of the multiprocessor that has most: the first tile on its way, and then of each tile its products (or what they, the copies and the results take of shared
 * memory's 128 bytes a clock), or what a consumer, the producer or a stage is taken by it. 16: bytes a clock of DRAM when all ask, 36: of L2. */
static double clocks_of_cut(const group_plan *mine, int taps, int blocks, const group_cut *t) {
  const int n = instance_for(positions(t, mine->columns))->n;
  const double of_shared = (taps * 4 * (2048.0 + 32 * n) + t->stage + t->classes * 2 * n * ROW) / 128;
  const double products = fmax(taps * 2.0 * n, of_shared), end = t->classes * (600 + 6.0 * n), ask = 230 * t->planes;
  const double in_stage = ask + 1200 + t->stage / 16.0 + products + (t->own ? 0 : end);
  const double tile = fmax(fmax(products, (products + end) / CONSUMERS), fmax(fmax(ask, t->stage / 36.0), in_stage / t->stages));
  return t->stage / 16.0 + ceil_of(t->tiles, blocks) * tile + end;
}

/* The cut with the fewest clocks. */
static bool best_cut(const group_plan *mine, int taps, tap_range h, tap_range w, int64_t room, int blocks, group_cut *best) {
  const group_cut all = *best;
  double least = INFINITY;
  for (int parts = 1; parts <= mine->rows; parts++)
    for (int images = 1; images <= (parts == 1 ? mine->image.images : 1); images++) {
      group_cut t = all;
      if (!try_cut(mine, h, w, ceil_of(mine->rows, parts), images, room, &t)) break;
      const double clocks = clocks_of_cut(mine, taps, blocks, &t);
      if (clocks < least) least = clocks, *best = t;
    }
  return least < INFINITY;
}

/* Taps by the class of the result that they belong to (in fprop there is one class). */
static void put_taps(const conv_problem *p, bool dgrad, tap_range h, tap_range w, group_cut *t) {
  int count = 0;
  for (int c = 0; c < t->classes; c++) {
    t->first[c] = count, t->out[c] = c;
    for (int tap = 0; tap < p->R * p->S; tap++) {
      const tap_place row = tap_of(tap / p->S, p->stride_h, p->pad_top, p->dil_h, dgrad),
                      column = tap_of(tap % p->S, p->stride_w, p->pad_left, p->dil_w, dgrad);
      const int plane = row.residue * p->stride_w + column.residue;
      if (dgrad && plane != c) continue;
      t->filter[count] = (unsigned char)tap;
      t->at[count++] = (unsigned)((dgrad ? 0 : plane) * t->plane + ((row.off - h.low) * t->pitch + column.off - w.low) * ROW);
    }
  }
  t->first[t->classes] = count;
}

/* Has every class of the gradient a tap? */
static bool all_met(int taps, int stride, int pad, int dil) {
  unsigned met = 0;
  for (int r = 0; r < taps; r++) met |= 1u << tap_of(r, stride, pad, dil, true).residue;
  return met == (1u << stride) - 1;
}

static const char *plan_groups(const conv_operation *o, const conv_device *device, conv_plan *plan) {
  const conv_problem *p = &o->problem;
  const bool dgrad = o->pass == PASS_DGRAD;
  if (device->arch / 10 != 9) return "wgmma: only compute capability 9.0 has it";
  if (p->groups == 1) return "no groups";
  const int group_c = p->C / p->groups, group_k = p->K / p->groups, larger = group_c > group_k ? group_c : group_k;
  if (p->C % CHUNK != 0 || p->K % CHUNK != 0) return "C or K is no multiple of 8";
  if (larger > WGMMA_M) return "more than 64 channels or filters a group";
  if (p->stride_h > 2 || p->stride_w > 2) return "a stride above 2";
  if (p->H < p->stride_h || p->W < p->stride_w) return "an image smaller than the stride";
  if (p->R * (int64_t)p->S > MOST_TAPS || (p->R - 1) * (int64_t)p->dil_h > 200 || (p->S - 1) * (int64_t)p->dil_w > 200)
    return "filters of more than 32 taps, or that reach over more than 200 pixels";
  if (dgrad && !(all_met(p->R, p->stride_h, p->pad_top, p->dil_h) && all_met(p->S, p->stride_w, p->pad_left, p->dil_w))) return "pixels that no tap meets";
  const char *why = plain_unsupported(p, device);
  if (why) return why;
  group_plan *mine = plan_data<group_plan>(plan);
  group_cut *t = &mine->cut;
  t->groups = WGMMA_M / larger < p->groups ? WGMMA_M / larger : p->groups;
  const int chunks = (p->groups + t->groups - 1) / t->groups;
  if (chunks > 1 && t->groups * (dgrad ? group_c : group_k) != WGMMA_M) return "groups that do not fill 64 channels of the result";
  if (chunks > 1 && t->groups * (dgrad ? group_k : group_c) % CHUNK != 0) return "groups side by side that begin at no multiple of 8 channels";
  t->chunks = divisor_of(chunks), t->unit = group_c % CHUNK == 0 ? CHUNK : group_c % 4 == 0 ? 4 : 1;
  t->by_w_tap = divisor_of(group_c / t->unit), t->by_w_row = divisor_of(p->R * p->S * t->by_w_tap.by), t->by_group = divisor_of(group_k);

  const plane_tensor x = {p->C, p->W, p->H, p->N, p->stride_w, p->stride_h}, y = {p->K, p->Q, p->P, p->N, 1, 1};
  mine->image = dgrad ? y : x, mine->result = dgrad ? x : y;
  mine->rows = ceil_of(mine->result.height, mine->result.stride_h), mine->columns = ceil_of(mine->result.width, mine->result.stride_w);
  t->planes = mine->image.stride_h * mine->image.stride_w, t->classes = mine->result.stride_h * mine->result.stride_w;
  const tap_range h = range_of(p->R, p->stride_h, p->pad_top, p->dil_h, dgrad), w = range_of(p->S, p->stride_w, p->pad_left, p->dil_w, dgrad);
  t->low_h = h.low, t->low_w = w.low;
  if (mine->columns > MOST_N || mine->columns + (int64_t)w.high - w.low > 256) return "rows with their halo have more than 256 pixels";
  const int filters = p->R * p->S * TAP, per_chunk = device->sm_count < chunks ? 1 : device->sm_count / chunks;
  if (!best_cut(mine, p->R * p->S, h, w, (int64_t)device->shared_per_block - 1024 - filters, per_chunk, t))
    return "filters and two tiles do not fit in shared memory";
  put_taps(p, dgrad, h, w, t);
  mine->row = instance_for(positions(t, mine->columns));
  mine->shared = filters + t->stages * t->stage + (t->own ? CONSUMERS * mine->row->n * ROW : 0);
  mine->blocks = chunks * (t->tiles < per_chunk ? t->tiles : per_chunk);
  why = map_planes(plan, &mine->halos, dgrad ? "dy" : "x", &mine->image, t->pitch, t->halo, t->images);
  if (!why) why = map_planes(plan, &mine->results, dgrad ? "dx" : "y", &mine->result, t->pitch, t->images > 1 ? t->halo : t->rows, t->images);
  if (why) return why;
  snprintf(plan->words, sizeof plan->words, "%d group%s a product of %d, %d image%s, %d row%s a tile: %d tiles of %d, %d stages", t->groups,
           t->groups == 1 ? "" : "s", mine->row->n, t->images, t->images == 1 ? "" : "s", t->rows, t->rows == 1 ? "" : "s", chunks, t->tiles, t->stages);
  const cudaError_t status = plan_allow_shared((const void *)mine->row->kernel[dgrad], (size_t)mine->shared);
  return status ? plan_failed(plan, status) : NULL;
}

static cudaError_t launch_groups(const conv_plan *plan, const conv_buffers *b, cudaStream_t stream) {
  const group_plan *mine = plan_data<group_plan>(plan);
  const bool dgrad = plan->operation.pass == PASS_DGRAD;
  plane_maps halos, results;
  cudaError_t status = planes_at(&halos, &mine->halos, &mine->image, dgrad ? b->y : b->x);
  if (!status) status = planes_at(&results, &mine->results, &mine->result, dgrad ? b->x : b->y);
  if (status) return status;
  return launch_kernel({.grid = dim3(mine->blocks), .block = dim3(BLOCK), .shared = (size_t)mine->shared, .stream = stream, .early = true},
                       mine->row->kernel[dgrad], plan->operation.problem, mine->cut, (const __half *)b->w, halos, results);
}

/* An accumulator takes one product after the other, which adds 16 products and what it was; other groups' zeros, too. */
static double growth_groups(const conv_problem *p, bool random) { return growth_truncated((double)p->R * p->S * (BK / 16) * (16 + 1), random); }

NHWC_ROW(groups_fprop, "06u", "groups side by side in one product, zeros between them", PASS_FPROP, 90, plan_groups, launch_groups, growth_groups);
NHWC_ROW(groups_dgrad, "06u", "groups side by side in one product, zeros between them", PASS_DGRAD, 90, plan_groups, launch_groups, growth_groups);
