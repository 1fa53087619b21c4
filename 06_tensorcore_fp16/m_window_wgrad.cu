/* 06m: the gradient of 3 x 3 filters: a halo tile once, a row of taps as the columns of one product.
 *
 * Terms:    halo tile, descriptor arithmetic, split-K, deterministic reduction, programmatic dependent launch.
 * Idea:     06l loads x once for each of nine taps. In a halo tile, pixels as rows of channels, say 64, all nine are there (06g), and here pixels are the reduction:
 *           b's columns are 64 channels, those of the next tap lie one pixel further on, and where b's next 64 columns begin is a field of its descriptor. Set to one
 *           pixel, 128 bytes, it makes b of a row of taps: 192 columns that overlap in shared memory.
 *
 *               dw [64 filters][r][3 taps][64 channels] += dy [16 positions][64 filters], transposed, x [16 positions + r rows, + 0, 1, 2][64 channels]
 *
 *           dy lies at the same positions, with zeros where the halo tile has columns or rows between images: what x holds there does not matter, if it is finite.
 * Roles:    three consumers, a row of taps each, all with the same 64 filters; sums of 64 filters x 3 taps x a row's channels stay in registers for all of a block's tiles.
 * Rows:     of 16, 32 or 64 channels, swizzled by as many bytes as they have. Few channels: no zeros are multiplied. 64 channels: a block that has a quarter of them leaves a
 *           quarter of the sums. An estimate chooses.
 * Pieces:   blocks share the tiles of pixels; at the same time all blocks are at the same pixels, so that L2 serves those with other filters and channels. Each leaves
 *           its sums in the workspace, a second kernel adds them in the blocks' order. If there are as many pieces of dw as blocks, they go to dw at once.
 * Change:   against 06l the tile, its descriptors, and rows by the channels. So three consumers, who take registers from the one producer; and whole tiles, every n-th,
 *           for stretches of steps.
 * Expect:   (before anything ran on a GPU) a position costs three products of 64 x 192, 288 clocks for 16 of them, and brings 300 bytes: products decide. 64 channels and
 *           filters, 56 x 56, 256 images: 96 % of the positions count, so 77 us at 800 TFLOP/s and 5 for the sums; 95 where power decides. With 14 x 14 pixels 87 % count.
 * Passes:   wgrad. Layout: NHWC, filters KRSC, fp16 with fp32 sums. Channels and filters: multiples of 8. 3 x 3, no stride, no groups; rows up to 256 with their halo. */
#include <math.h>

#include "06_tensorcore_fp16/cost.h"
#include "06_tensorcore_fp16/parts.cuh"
#include "06_tensorcore_fp16/tiles.cuh"
#include "common/harness/launch.h"

static constexpr int CONSUMERS = 3, BLOCK = (1 + CONSUMERS) * THREADS, MOST_STAGES = 8, TAPS = 3 /* of a row */;
static constexpr int K16 = 16 /* positions of a product */, FILTERS = WGMMA_M;

/* Tiles of `rows` rows of one image, or of `images` whole ones; dy has as many columns as the halo tile, and with several images as many rows. */
typedef struct window_cut {
  divisor by_p, pairs, parts_c;                         /* by the tiles of an image; by the pieces of dw; by those of the channels */
  int rows, images, pitch, halo, tiles, splits, stages; /* tiles: of pixels, of which a block takes every splits-th */
  int steps, gradients, stage;                          /* products of a tile; bytes of dy and of all */
} window_cut;

/* parts[split][pair][row of taps][octet of columns][thread]: two neighbouring channels of two filters. */
template <int CHANNELS>
__global__ void __launch_bounds__(BLOCK, 1)
    window_wgrad_kernel(conv_problem p, window_cut t, const __grid_constant__ CUtensorMap halos, const __grid_constant__ CUtensorMap gradients,
                        float4 *__restrict__ parts, __half *__restrict__ dw) {
  using X = box_row<CHANNELS>;
  constexpr int OCTETS = TAPS * CHANNELS / 8;
  extern __shared__ __align__(1024) unsigned char shared[];
  __shared__ unsigned long long barriers[2 * MOST_STAGES];
  const ptx_shared stages = ptx_shared_address(shared);
  const ring r = {ptx_shared_address(barriers), ptx_shared_address(barriers + MOST_STAGES)};
  const int role = uniform(threadIdx.x / THREADS), split = divide(blockIdx.x, t.pairs), pair = blockIdx.x - split * t.pairs.by, of_k = divide(pair, t.parts_c),
            first_k = of_k * FILTERS, first_c = (pair - of_k * t.parts_c.by) * CHANNELS;
  const int halo_bytes = t.pitch * t.halo * t.images * X::BYTES, gradient_bytes = t.pitch * (t.images > 1 ? t.halo : t.rows) * t.images * ROW;
  if (threadIdx.x == 0) {
    ptx_griddepcontrol_launch_dependents(); /* the next kernel may begin */
    ptx_prefetch_tensormap(&halos), ptx_prefetch_tensormap(&gradients);
    ring_begin(r, t.stages, CONSUMERS * THREADS / 32);
  }

  slot s = {0, 0};
  if (role == 0) { /* the producer */
    __syncwarp();
    ptx_bar_arrive(1, BLOCK); /* barriers are there; who made them need not wait */
    ptx_setmaxnreg_dec<40>();
    if (threadIdx.x != 0) return;
    ptx_griddepcontrol_wait(); /* what the kernel before wrote is there */
    for (int i = split; i < t.tiles; i += t.splits, s = next_slot(s, t.stages)) {
      const int of_p = divide(i, t.by_p), row = (i - of_p * t.by_p.by) * t.rows, n = of_p * t.images;
      const ptx_shared to = stages + s.stage * t.stage, full = r.full + 8 * s.stage;
      ptx_mbarrier_wait(r.empty + 8 * s.stage, s.parity ^ 1);
      ptx_mbarrier_arrive_expect_tx(full, gradient_bytes + halo_bytes);
      ptx_tensor_load(to, &gradients, {first_k, 0, row, n}, full);
      ptx_tensor_load(to + t.gradients, &halos, {first_c, -p.pad_left, row - p.pad_top, n}, full);
    }
    return;
  }

  /* What lies behind the boxes: dy's zeros count, and x must not be NaN. */
  for (int stage = 0; stage < t.stages; stage++) {
    unsigned char *const at = shared + stage * t.stage;
    for (int i = gradient_bytes / 16 + threadIdx.x - THREADS; i < t.gradients / 16; i += CONSUMERS * THREADS) *(uint4 *)(at + i * 16) = uint4();
    for (int i = (t.gradients + halo_bytes) / 16 + threadIdx.x - THREADS; i < t.stage / 16; i += CONSUMERS * THREADS) *(uint4 *)(at + i * 16) = uint4();
  }
  ptx_fence_proxy_async();
  __syncwarp();           /* some lanes went round the loops once more */
  ptx_bar_sync(1, BLOCK); /* barriers and zeros are there */
  ptx_setmaxnreg_inc<152>();
  ptx_griddepcontrol_wait();
  const int me = role - 1, lane = threadIdx.x % 32; /* of the consumers: the row of taps */
  const ptx_shared b = stages + t.gradients + me * p.dil_h * t.pitch * X::BYTES;
  float sum[OCTETS * 4] = {};
  int before = -1;
  for (int i = split; i < t.tiles; i += t.splits, s = next_slot(s, t.stages)) {
    ptx_mbarrier_wait(r.full + 8 * s.stage, s.parity);
    unsigned long long of_a = ptx_wgmma_descriptor(stages + s.stage * t.stage, ROW, 8 * ROW, PTX_SWIZZLE_128);
    unsigned long long of_b = ptx_wgmma_descriptor(b + s.stage * t.stage, p.dil_w * X::BYTES, 8 * X::BYTES, X::SWIZZLE);
    for (int step = 0; step < t.steps; step++, of_a += K16 * CHUNKS, of_b += K16 * X::BYTES / 16) {
      ptx_wgmma_fence();
      ptx_wgmma<1, 1>(sum, of_a, of_b);
      ptx_wgmma_commit();
      if (step > 0) continue;
      ptx_wgmma_wait<1>(); /* the tile before is done */
      if (before >= 0 && lane == 0) ptx_mbarrier_arrive(r.empty + 8 * before);
    }
    before = s.stage;
  }
  ptx_wgmma_wait<0>();

  if (t.splits > 1) {
    float4 *const to = parts + ((int64_t)blockIdx.x * CONSUMERS + me) * (OCTETS * THREADS) + threadIdx.x % THREADS;
#pragma unroll
    for (int j = 0; j < OCTETS; j++) to[j * THREADS] = make_float4(sum[4 * j], sum[4 * j + 1], sum[4 * j + 2], sum[4 * j + 3]);
  } else {
#pragma unroll
    for (int j = 0; j < OCTETS; j++)
      put_dw(p, me * TAPS + j * 8 / CHANNELS, first_c + j * 8 % CHANNELS + lane % 4 * 2, first_k + threadIdx.x / 32 % 4 * 16 + lane / 4,
             make_float4(sum[4 * j], sum[4 * j + 1], sum[4 * j + 2], sum[4 * j + 3]), dw);
  }
}

/* dw, of all splits' sums, in their order. A block: an octet of a pair's row of taps; its threads add as many lanes of the sum as blockDim.y says, and then these.
 * parts without __restrict__: they are written after this kernel has begun. */
template <int CHANNELS>
__global__ void __launch_bounds__(MOST_LANES *THREADS) add_splits_kernel(conv_problem p, window_cut t, const float4 *parts, __half *__restrict__ dw) {
  constexpr int OCTETS = TAPS * CHANNELS / 8;
  __shared__ float4 lanes[MOST_LANES][THREADS];
  if (threadIdx.x == 0 && threadIdx.y == 0) ptx_griddepcontrol_launch_dependents(); /* the next kernel may begin */
  const int octet = blockIdx.x % OCTETS, row = blockIdx.x / OCTETS % CONSUMERS, pair = blockIdx.x / (OCTETS * CONSUMERS), of_k = divide(pair, t.parts_c);
  const float4 *const from = parts + (int64_t)blockIdx.x * THREADS + threadIdx.x;
  float4 sum = make_float4(0, 0, 0, 0);
  ptx_griddepcontrol_wait(); /* the parts are there */
#pragma unroll 8
  for (int split = threadIdx.y; split < t.splits; split += blockDim.y) {
    const float4 part = from[(int64_t)split * t.pairs.by * (CONSUMERS * OCTETS * THREADS)];
    sum.x += part.x, sum.y += part.y, sum.z += part.z, sum.w += part.w;
  }
  if (!sum_of_lanes(lanes, &sum)) return;
  put_dw(p, row * TAPS + octet * 8 / CHANNELS, (pair - of_k * t.parts_c.by) * CHANNELS + octet * 8 % CHANNELS + threadIdx.x % 4 * 2,
         of_k * FILTERS + threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4, sum, dw);
}

/* ---------------------------------------------------------------- host */

/* The kernels by the channels of a position. */
typedef void (*window_t)(conv_problem p, window_cut t, CUtensorMap halos, CUtensorMap gradients, float4 *parts, __half *dw);
typedef void (*add_t)(conv_problem p, window_cut t, const float4 *parts, __half *dw);
typedef struct window_row {
  int channels;
  window_t window;
  add_t add;
} window_row;
static const window_row widths[] = {{16, window_wgrad_kernel<16>, add_splits_kernel<16>},
                                    {32, window_wgrad_kernel<32>, add_splits_kernel<32>},
                                    {64, window_wgrad_kernel<64>, add_splits_kernel<64>}};

typedef struct window_plan {
  CUtensorMap halos, gradients;
  window_cut cut;
  const window_row *width;
  int blocks, lanes;
} window_plan;

/* Bytes of all parts: sums in fp32. */
static int64_t parts_bytes(const window_cut &t, int channels) {
  return (int64_t)t.pairs.by * t.splits * CONSUMERS * (TAPS * channels / 8) * THREADS * (int)sizeof(float4);
}

static int64_t up_to(int64_t all, int whole) { return ceil_div(all, whole) * whole; }

/* The cut into tiles of `rows` rows, or of images if those are all; false: two of them do not fit into shared memory, or no box is so large. */
static bool try_cut(const conv_problem *p, int channels, int rows, int images, int64_t room, window_cut *t) {
  t->rows = rows, t->images = images, t->pitch = p->Q + (p->S - 1) * p->dil_w, t->halo = rows + (p->R - 1) * p->dil_h;
  if (t->pitch > 256 || t->halo > 256 || images > 256) return false;
  const int64_t box = (int64_t)t->pitch * t->halo * images, dy = (int64_t)t->pitch * (images > 1 ? t->halo : rows) * images;
  if (box > INT_MAX / ROW / 2) return false;
  t->steps = (int)ceil_div(dy, K16), t->gradients = t->steps * K16 * ROW;
  const int64_t read = (int64_t)t->steps * K16 + (p->R - 1) * p->dil_h * t->pitch + (p->S - 1) * p->dil_w; /* rows that the last product's descriptors reach */
  t->stage = (int)up_to(t->gradients + (read > box ? read : box) * channels * 2, 8 * ROW);
  t->stages = room / t->stage < MOST_STAGES ? (int)(room / t->stage) : MOST_STAGES;
  t->by_p = divisor_of((int)ceil_div(p->P, rows)), t->tiles = t->by_p.by * (int)ceil_div(p->N, images);
  return t->stages >= 2;
}

/* Clocks of the block that has most tiles, and of the sums that all leave, by the constants of 06l's cut (pixel_cut.h), but for 200 clocks until a tile is there and 950
 * bytes of sums a clock (docs/results/06_training.md). A product is as long as its sums take, or as its operands take to be read, 128 bytes a clock. */
static double clocks_of_cut(const window_cut &t, int channels, int sm_count) {
  const double columns = TAPS * channels, products = t.steps * 1.22 * CONSUMERS * fmax(columns / 2, 16 + columns / 4);
  const double bytes = (double)t.images * t.pitch * (t.halo * 2 * channels + (t.images > 1 ? t.halo : t.rows) * ROW) / 41;
  const double tile = 200 + fmax(products, bytes) + 0.13 * fmin(products, bytes), rounds = ceil_div(t.pairs.by, sm_count) * ceil_div(t.tiles, t.splits);
  return rounds * tile + (t.splits > 1 ? parts_bytes(t, channels) / 950.0 : 0);
}

/* The cheapest width and cut. */
static bool best_cut(const conv_problem *p, int64_t room, int sm_count, const window_row **width, window_cut *best) {
  double least = INFINITY;
  for (const window_row &row : widths)
    for (int parts = 1; parts <= p->P; parts++)
      for (int images = 1; images <= (parts == 1 ? p->N : 1); images++) {
        window_cut t = {};
        if (!try_cut(p, row.channels, (int)ceil_div(p->P, parts), images, room, &t)) break;
        t.parts_c = divisor_of((int)ceil_div(p->C, row.channels)), t.pairs = divisor_of(t.parts_c.by * (int)ceil_div(p->K, FILTERS));
        t.splits = t.pairs.by < sm_count ? sm_count / t.pairs.by : 1;
        if (t.splits > t.tiles) t.splits = t.tiles;
        const double clocks = clocks_of_cut(t, row.channels, sm_count);
        if (clocks < least) least = clocks, *best = t, *width = &row;
      }
  return least < INFINITY;
}

static const char *plan_wgrad(const conv_operation *o, const conv_device *device, conv_plan *plan) {
  const conv_problem *p = &o->problem;
  if (device->arch / 10 != 9) return "wgmma: only compute capability 9.0 has it";
  if (p->groups > 1) return "groups";
  if (p->C % CHUNK != 0 || p->K % CHUNK != 0) return "C or K is no multiple of 8";
  if (p->R != CONSUMERS || p->S != TAPS) return "the filter is not 3x3";
  if (p->stride_h > 1 || p->stride_w > 1) return "a stride";
  const char *why = plain_unsupported(p, device);
  if (why) return why;
  if (p->Q + 2 * (int64_t)p->dil_w > 256 || 2 * (int64_t)p->dil_h > 200) return "rows with their halo have more than 256 pixels";
  window_plan *mine = plan_data<window_plan>(plan);
  window_cut *t = &mine->cut;
  if (!best_cut(p, (int64_t)device->shared_per_block - 1024 - (int64_t)sizeof(float4) * MOST_LANES * THREADS, device->sm_count, &mine->width, t))
    return "two tiles do not fit in shared memory";
  const window_row *const row = mine->width;
  mine->blocks = t->pairs.by * t->splits;
  mine->lanes = t->splits < 4 ? 1 : t->splits < 4 * MOST_LANES ? t->splits / 4 : MOST_LANES;
  plan->workspace_bytes = t->splits > 1 ? (size_t)parts_bytes(*t, row->channels) : 0;
  const cuuint64_t x_size[4] = {(cuuint64_t)p->C, (cuuint64_t)p->W, (cuuint64_t)p->H, (cuuint64_t)p->N},
                   y_size[4] = {(cuuint64_t)p->K, (cuuint64_t)p->Q, (cuuint64_t)p->P, (cuuint64_t)p->N};
  const cuuint32_t x_box[4] = {(cuuint32_t)row->channels, (cuuint32_t)t->pitch, (cuuint32_t)t->halo, (cuuint32_t)t->images},
                   y_box[4] = {FILTERS, (cuuint32_t)t->pitch, (cuuint32_t)(t->images > 1 ? t->halo : t->rows), (cuuint32_t)t->images};
  why = map_tiles(plan, &mine->halos, "x", 4, x_size, x_box, CU_TENSOR_MAP_L2_PROMOTION_L2_256B, swizzle_of(row->channels));
  if (!why) why = map_tiles(plan, &mine->gradients, "dy", 4, y_size, y_box);
  if (why) return why;
  snprintf(plan->words, sizeof plan->words, "%d image%s, %d row%s a tile: %d tiles by %d block%s for each of %d piece%s of %d channels, %d stages", t->images,
           t->images == 1 ? "" : "s", t->rows, t->rows == 1 ? "" : "s", t->tiles, t->splits, t->splits == 1 ? "" : "s", t->pairs.by,
           t->pairs.by == 1 ? "" : "s", row->channels, t->stages);
  const cudaError_t status = plan_allow_shared((const void *)row->window, (size_t)(t->stages * t->stage));
  return status ? plan_failed(plan, status) : NULL;
}

static cudaError_t launch_wgrad(const conv_plan *plan, const conv_buffers *b, cudaStream_t stream) {
  const window_plan *mine = plan_data<window_plan>(plan);
  const conv_problem &p = plan->operation.problem;
  const window_cut &t = mine->cut;
  CUtensorMap halos, gradients;
  cudaError_t status = map_at(&halos, &mine->halos, b->x);
  if (!status) status = map_at(&gradients, &mine->gradients, b->y);
  if (status) return status;
  status = launch_kernel({.grid = dim3(mine->blocks), .block = dim3(BLOCK), .shared = (size_t)(t.stages * t.stage), .stream = stream, .early = true},
                         mine->width->window, p, t, halos, gradients, (float4 *)b->workspace, (__half *)b->w);
  if (status || t.splits == 1) return status;
  const int octets = CONSUMERS * TAPS * mine->width->channels / 8;
  return launch_kernel({.grid = dim3(t.pairs.by * octets), .block = dim3(THREADS, mine->lanes), .stream = stream, .early = true}, mine->width->add, p, t,
                       (const float4 *)b->workspace, (__half *)b->w);
}

/* An accumulator takes one product after the other, which adds 16 positions and what it was, at most for all of them; then the splits, in lanes. */
static double growth_wgrad(const conv_problem *p, bool random) {
  const double positions = (double)p->N * (p->P + 2 * p->dil_h) * (p->Q + 2 * p->dil_w), steps = ceil(positions / K16) + (double)p->N * p->P;
  return growth_truncated(steps * (K16 + 1) + steps + MOST_LANES, random);
}

NHWC_ROW(window_wgrad, "06m", "wgrad of 3x3: a halo tile once, a row of taps as columns of one product", PASS_WGRAD, 90, plan_wgrad, launch_wgrad,
         growth_wgrad);
