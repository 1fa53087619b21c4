/* 06h: the same window for any number of channels: filters stream past it.
 *
 * Terms:    halo tile, filter streaming, two producers, strips.
 * Idea:     more than 64 channels are 64 at a time, and more filters than shared memory holds come tap by tap, through a ring of their own. Two consumers with 64
 *           filters each multiply the same pixels, so that a halo tile serves 128 filters; where there are only 64, both have these, and different rows of the
 *           tile. A producer for each ring: one may be far ahead while the other waits.
 * Strips:   an image wider than a product is cut into strips. What lies between their rows would be stored over the neighbour's columns; so results are packed
 *           on their way to shared memory, which costs a division by a multiplication.
 * Padding:  what is padding on the right of a row is padding on the left of the next one, below an image above the next: it is loaded once.
 * Change:   against 06g the loop over channels, the filters' ring, the packed results, which have shared memory of their own: the next tile's halo is loaded
 *           while they leave.
 * Expect:   (before anything ran) 128 filters x 240 pixels x 64 channels x 9 taps want 16 KiB a tap of filters and 45 KiB once of pixels: 190 KiB for 35 MFLOP,
 *           4 TB/s at 800 TFLOP/s: no limit. 700 TFLOP/s where there are tiles for all multiprocessors; less where the last round is not full.
 * Passes:   fprop; dgrad as 06j (TURNED). Layout: NHWC, filters KRSC, fp16 with fp32 sums. C and K: multiples of 8. Stride 1, no groups; two halo tiles and four taps in shared memory. */
#include "03_shared_tiling/turned.h"
#include "06_tensorcore_fp16/cost.h"
#include "06_tensorcore_fp16/packed.cuh"
#include "06_tensorcore_fp16/tiles.cuh"
#include "common/harness/launch.h"

static constexpr int CONSUMERS = 2, BLOCK = (1 + CONSUMERS) * THREADS;
static constexpr int HALOS = 2, FILTERS = 4 /* stages at least */, MOST_FILTERS = 12, MOST_N = 256, NOWHERE = 16 * ROW;

/* A tile of y: 128 filters, half of them for each consumer; or, where there are only 64, twice the rows, half of them for each. A consumer's results are `rows` rows
 * by `columns` columns of one image, or of `images` if those are all there are; with its halo a tile has `pitch` columns and `halo` rows an image. */
typedef struct stream_cut {
  result_rows results;
  int filters, filters_apart, rows, rows_apart;                        /* of a tile; from one consumer to the next */
  divisor by_q, by_p, by_k;                                            /* the tiles of columns, of rows, of filters */
  int tiles_q, tiles_p, tiles_k, tiles, parts_c, filter_stages, stage; /* stage: bytes of a halo stage */
} stream_cut;

typedef struct corner {
  int k, q, p, n; /* where a tile begins */
} corner;

static __device__ __forceinline__ corner corner_of(const stream_cut &t, int tile) {
  const int of_k = divide(tile, t.by_k), of_q = divide(of_k, t.by_q), of_p = divide(of_q, t.by_p);
  return {(tile - of_k * t.tiles_k) * t.filters, (of_k - of_q * t.tiles_q) * t.results.columns, (of_q - of_p * t.tiles_p) * t.rows, of_p * t.results.images};
}

/* A tap of `rows` filters: a box; or (TURNED), as 06j, boxes of 64 channels under 64 filters, the last tap first. */
template <bool TURNED>
static __device__ __forceinline__ void load_filters(const CUtensorMap *filter_tiles, const int (&at)[3], int taps, int rows, ptx_shared to, ptx_shared full) {
  if (!TURNED) ptx_tensor_load(to, filter_tiles, {at[0], at[1], at[2]}, full);
  else
    for (int k = 0; k < rows; k += WGMMA_M) ptx_tensor_load(to + k * ROW, filter_tiles, {at[2] + k, taps - 1 - at[1], at[0]}, full);
}

/* Where a consumer is: its filters in the first stage, the pixels of the part's first tap; bytes of a stage; the stages before, of filters and of pixels; the next. */
typedef struct consumer {
  ptx_shared filters, pixels;
  int filter_stage, before, halo_before;
  slot next;
} consumer;

/* All taps of a part. CHANNELS: no more are there. */
template <bool TURNED, int CHANNELS, int SUMS>
static __device__ __forceinline__ void multiply_part(float (&sum)[1][SUMS], const conv_problem &p, const stream_cut &t, consumer *w, int part,
                                                     const ring &filter_ring, const ring &pixel_ring) {
  const bool first_lane = threadIdx.x % 32 == 0;
  int column = 0, at = 0; /* of the tap: its column, and where its pixels begin */
  for (int tap = 0; tap < p.R * p.S; tap++, w->next = next_slot(w->next, t.filter_stages)) {
    ptx_mbarrier_wait(filter_ring.full + 8 * w->next.stage, w->next.parity);
    multiply<false, TURNED, CHANNELS>(sum, w->filters + w->next.stage * w->filter_stage, w->pixels + at * ROW);
    if (part + tap > 0) {
      ptx_wgmma_wait<1>(); /* the tap before is done: its filters, and with a part's last tap its pixels */
      if (first_lane) ptx_mbarrier_arrive(filter_ring.empty + 8 * w->before);
      if (first_lane && tap == 0) ptx_mbarrier_arrive(pixel_ring.empty + 8 * w->halo_before);
    }
    w->before = w->next.stage, at += p.dil_w, column++;
    if (column == p.S) column = 0, at += p.dil_h * t.results.pitch - p.S * p.dil_w;
  }
}

/* N: pixels of a product, those between the rows included. */
template <int N, bool TURNED>
__global__ void __launch_bounds__(BLOCK, 1) stream_kernel(conv_problem p, stream_cut t, const __grid_constant__ CUtensorMap halos,
                                                          const __grid_constant__ CUtensorMap filter_tiles, const __grid_constant__ CUtensorMap results) {
  extern __shared__ __align__(1024) unsigned char shared[];
  __shared__ unsigned long long barriers[2 * (HALOS + MOST_FILTERS)];
  const int taps = p.R * p.S, filter_stage = t.filters * ROW, box = t.results.pitch * t.results.halo * t.results.images * ROW, warp = uniform(threadIdx.x / 32),
            role = warp / 4;
  const ptx_shared stages = ptx_shared_address(shared), filters = stages + HALOS * t.stage, outputs = filters + t.filter_stages * filter_stage;
  const ring pixel_ring = {ptx_shared_address(barriers), ptx_shared_address(barriers + HALOS)};
  const ring filter_ring = {ptx_shared_address(barriers + 2 * HALOS), ptx_shared_address(barriers + 2 * HALOS + MOST_FILTERS)};
  if (threadIdx.x == 0) {
    ptx_griddepcontrol_launch_dependents(); /* the next kernel may begin */
    ptx_prefetch_tensormap(&halos), ptx_prefetch_tensormap(&filter_tiles);
    ring_begin(pixel_ring, HALOS, CONSUMERS * THREADS / 32);
  }
  if (threadIdx.x == 32) ring_begin(filter_ring, t.filter_stages, CONSUMERS * THREADS / 32);
  if (role == 0) { /* the producers: a thread for pixels, one for filters, each with a ring that it made */
    __syncwarp();
    ptx_bar_arrive(1, BLOCK); /* barriers are there; who made them need not wait */
    ptx_setmaxnreg_dec<56>();
    if (warp > 1 || threadIdx.x % 32 != 0) return;
    slot s = {0, 0};
    if (warp == 0)
      for (int i = blockIdx.x; i < t.tiles; i += gridDim.x) {
        const corner from = corner_of(t, i);
        if (i == (int)blockIdx.x) ptx_griddepcontrol_wait(); /* what the kernel before wrote is there */
        for (int part = 0; part < t.parts_c; part++, s = next_slot(s, HALOS)) {
          ptx_mbarrier_wait(pixel_ring.empty + 8 * s.stage, s.parity ^ 1);
          ptx_mbarrier_arrive_expect_tx(pixel_ring.full + 8 * s.stage, box);
          ptx_tensor_load(stages + s.stage * t.stage, &halos, {part * BK, from.q - p.pad_left, from.p - p.pad_top, from.n}, pixel_ring.full + 8 * s.stage);
        }
      }
    else /* of filters */
      for (int i = blockIdx.x; i < t.tiles; i += gridDim.x) {
        const int k = corner_of(t, i).k;
        if (i == (int)blockIdx.x) ptx_griddepcontrol_wait();
        for (int part = 0; part < t.parts_c; part++)
          for (int tap = 0; tap < taps; tap++, s = next_slot(s, t.filter_stages)) {
            ptx_mbarrier_wait(filter_ring.empty + 8 * s.stage, s.parity ^ 1);
            ptx_mbarrier_arrive_expect_tx(filter_ring.full + 8 * s.stage, filter_stage);
            load_filters<TURNED>(&filter_tiles, {part * BK, tap, k}, taps, t.filters, filters + s.stage * filter_stage, filter_ring.full + 8 * s.stage);
          }
      }
    return;
  }

  const int behind = (t.stage - box) / 16; /* behind a box lies the last row's padding on the right, and the last image's below: zeros */
  for (int stage = 0; stage < HALOS; stage++)
    for (int i = threadIdx.x - THREADS; i < behind; i += CONSUMERS * THREADS) *(uint4 *)(shared + stage * t.stage + box + i * 16) = make_uint4(0, 0, 0, 0);
  ptx_fence_proxy_async();
  __syncwarp();           /* some lanes went round the loop once more */
  ptx_bar_sync(1, BLOCK); /* barriers and zeros are there */
  ptx_setmaxnreg_inc<224>();
  ptx_griddepcontrol_wait();
  const int me = role - 1; /* of the consumers */
  const ptx_shared mine = outputs + me * (N * ROW + NOWHERE);
  const bool stores = threadIdx.x % THREADS == 0, first_lane = threadIdx.x % 32 == 0;
  slot halo = {0, 0}, s = {0, 0};
  for (int i = blockIdx.x; i < t.tiles; i += gridDim.x) {
    float sum[1][N / 2] = {};
    consumer w = {filters + me * t.filters_apart * ROW, 0, filter_stage, 0, 0, s};
    for (int part = 0; part < t.parts_c; part++, halo = next_slot(halo, HALOS)) {
      const int channels = p.C - part * BK;
      w.pixels = stages + halo.stage * t.stage + me * t.rows_apart * t.results.pitch * ROW;
      ptx_mbarrier_wait(pixel_ring.full + 8 * halo.stage, halo.parity);
      if (channels > 48) multiply_part<TURNED, 64>(sum, p, t, &w, part, filter_ring, pixel_ring);
      else if (channels > 32) multiply_part<TURNED, 48>(sum, p, t, &w, part, filter_ring, pixel_ring);
      else multiply_part<TURNED, 32>(sum, p, t, &w, part, filter_ring, pixel_ring);
      w.halo_before = halo.stage;
    }
    s = w.next;
    ptx_wgmma_wait<0>();
    if (first_lane) ptx_mbarrier_arrive(filter_ring.empty + 8 * w.before), ptx_mbarrier_arrive(pixel_ring.empty + 8 * w.halo_before);

    const corner to = corner_of(t, i);
    const int k = to.k + me * t.filters_apart;
    if (stores) ptx_bulk_wait_read<0>(); /* the tile before has left */
    ptx_bar_sync(2 + me, THREADS);
    put_outputs<N>(t.results, sum[0], mine, mine + N * ROW);
    ptx_fence_proxy_async();
    ptx_bar_sync(2 + me, THREADS); /* the outputs are there */
    if (stores && k < p.K) {
      ptx_tensor_store(&results, {k, to.q, to.p + me * t.rows_apart, to.n}, mine);
      ptx_bulk_commit();
    }
  }
  if (stores) ptx_bulk_wait_read<0>(); /* shared memory may go; what is written is there when the grid ends */
}

/* ---------------------------------------------------------------- host */

typedef struct instance {
  int n;
  void (*kernel[2])(conv_problem p, stream_cut t, CUtensorMap halos, CUtensorMap filter_tiles, CUtensorMap results); /* as they lie, turned */
} instance;

/* The first that is enough. */
#define ROW_OF(N)                                          \
  {                                                        \
    N, { stream_kernel<N, false>, stream_kernel<N, true> } \
  }
static const instance instances[] = {ROW_OF(56),  ROW_OF(64),  ROW_OF(80),  ROW_OF(96),  ROW_OF(104), ROW_OF(112), ROW_OF(120), ROW_OF(128), ROW_OF(144),
                                     ROW_OF(160), ROW_OF(176), ROW_OF(192), ROW_OF(208), ROW_OF(216), ROW_OF(232), ROW_OF(248), ROW_OF(256)};

static const instance *instance_for(int positions) {
  const instance *row = instances;
  while (row->n < positions) row++; /* there is one */
  return row;
}

typedef struct stream_plan {
  CUtensorMap halos, filter_tiles, results;
  conv_problem problem; /* the convolution that the pass is */
  const instance *row;
  stream_cut cut;
  int blocks, shared;
} stream_plan;

static int parts_of(int all, int part) { return (all + part - 1) / part; }
static int largest(int a, int b) { return a > b ? a : b; }

static int positions_of(const result_rows *r) { return ((r->images - 1) * r->halo + r->rows - 1) * r->pitch + r->columns; }

/* The cut into `columns` and `rows` and images; false: it fits into no product, or not into shared memory. */
static bool try_cut(const conv_problem *p, const conv_device *device, int filters, int columns, int rows, int images, stream_cut *t) {
  const int reach_h = (p->R - 1) * p->dil_h, reach_w = (p->S - 1) * p->dil_w;
  const bool same = filters == WGMMA_M; /* for both consumers */
  t->filters = filters, t->filters_apart = same ? 0 : WGMMA_M, t->rows_apart = same ? rows : 0, t->rows = rows + (CONSUMERS - 1) * t->rows_apart;
  result_rows *r = &t->results;
  *r = {columns, rows, columns + reach_w, t->rows + reach_h, images, 0, 0};
  /* What is padding on the right of a row is padding on the left of the next one, and so it is below and above. */
  const int right = p->Q - 1 + reach_w - p->pad_left - (p->W - 1), below = p->P - 1 + reach_h - p->pad_top - (p->H - 1);
  if (columns == p->Q) r->pitch = largest(p->Q, p->W + largest(right, p->pad_left));
  if (rows == p->P && t->rows == rows) r->halo = largest(p->P, p->H + largest(below, p->pad_top));
  if (r->pitch > 256 || r->halo > 256 || positions_of(r) > MOST_N) return false;
  r->of_pitch = (unsigned)(65536 + r->pitch - 1) / (unsigned)r->pitch, r->of_halo = (unsigned)(65536 + r->halo - 1) / (unsigned)r->halo;
  /* A stage has room for the box, and for what the last tap reads from there. */
  const int n = instance_for(positions_of(r))->n, box = r->pitch * r->halo * images;
  t->stage = parts_of(largest(box, n + (reach_h + (CONSUMERS - 1) * t->rows_apart) * r->pitch + reach_w), 8) * 8 * ROW;
  const int64_t room = (int64_t)device->shared_per_block - 1024 - HALOS * (int64_t)t->stage - CONSUMERS * (n * ROW + NOWHERE);
  if (room < FILTERS * t->filters * ROW) return false;
  t->filter_stages = room / (t->filters * ROW) < MOST_FILTERS ? (int)room / (t->filters * ROW) : MOST_FILTERS;
  t->tiles_q = parts_of(p->Q, columns), t->tiles_p = parts_of(p->P, t->rows), t->tiles_k = parts_of(p->K, t->filters), t->parts_c = parts_of(p->C, BK);
  t->by_q = divisor_of(t->tiles_q), t->by_p = divisor_of(t->tiles_p), t->by_k = divisor_of(t->tiles_k);
  t->tiles = t->tiles_q * t->tiles_p * parts_of(p->N, images) * t->tiles_k;
  return true;
}

static const char *unsupported(const conv_problem *p) {
  if (p->groups > 1) return "groups";
  if (p->C % CHUNK != 0 || p->K % CHUNK != 0) return "C or K is no multiple of 8";
  if (p->stride_h > 1 || p->stride_w > 1) return "a stride";
  return NULL;
}

/* What a cut costs, in clocks (cost.h). Filters, which all multiprocessors want at the same time, arrive at 50 bytes a clock, not at 70; and what is copied under
 * products is not free: of cuts with as many products the one with the smaller halo. */
static double cost_of(const conv_problem *p, const stream_cut *t, int sm_count) {
  const int n = instance_for(positions_of(&t->results))->n, taps = p->R * p->S, rows = t->results.pitch * t->results.halo * t->results.images;
  double tile = clocks_of_end(n);
  for (int part = 0; part < t->parts_c; part++) {
    const int channels = p->C - part * BK < BK ? p->C - part * BK : BK;
    const double products = 2 * CONSUMERS * n *
                            (channels > 48   ? 4
                             : channels > 32 ? 3
                                             : 2) /
                            4.0,
                 copies = fmax((t->filters + (double)rows / taps) * ((int)ROW / 50.0), channels % 16 ? 20.0 * rows / taps : 0);
    tile += taps * (fmax(products, copies) + 0.1 * fmin(products, copies));
  }
  return clocks_of_rounds(p, parts_of(t->tiles, sm_count), tile);
}

/* The cheapest one's clocks; there may be none. */
static double best_cut(const conv_problem *p, const conv_device *device, stream_cut *best) {
  double least = INFINITY;
  if ((p->R - 1) * (int64_t)p->dil_h > 255 || (p->S - 1) * (int64_t)p->dil_w > 255) return least;
  for (int filters = p->K > WGMMA_M ? CONSUMERS * WGMMA_M : WGMMA_M; filters >= WGMMA_M; filters -= WGMMA_M)
    for (int strips = 1; strips <= p->Q; strips++) {
      const int columns = parts_of(p->Q, strips);
      if (strips > 1 && columns == parts_of(p->Q, strips - 1)) continue;
      for (int parts = 1; parts <= p->P; parts++) {
        const int rows = parts_of(p->P, parts);
        if (parts > 1 && rows == parts_of(p->P, parts - 1)) continue;
        for (int images = 1; images <= (strips * parts == 1 && filters > WGMMA_M ? p->N : 1); images++) {
          stream_cut t;
          if (!try_cut(p, device, filters, columns, rows, images, &t)) break;
          const double cost = cost_of(p, &t, device->sm_count) * (filters < p->K && filters == WGMMA_M ? 1.03 : 1); /* pixels come twice as often */
          if (cost < least) least = cost, *best = t;
        }
      }
    }
  return least;
}

extern "C" double stream_window_clocks(const conv_problem *p, const conv_device *device) {
  stream_cut t;
  return unsupported(p) ? INFINITY : best_cut(p, device, &t);
}

static const char *plan_stream(const conv_operation *o, const conv_device *device, conv_plan *plan) {
  const conv_problem *given = &o->problem;
  const bool turned = o->pass == PASS_DGRAD;
  if (device->arch / 10 != 9) return "wgmma: only compute capability 9.0 has it";
  const char *why = unsupported(given);
  if (!why) why = plain_unsupported(given, device);
  if (why) return why;
  stream_plan *mine = plan_data<stream_plan>(plan);
  const conv_problem *p = &mine->problem;
  mine->problem = turned_pass(o).p;
  stream_cut *t = &mine->cut;
  if (best_cut(p, device, t) == INFINITY) return "a tile with its halo does not fit in shared memory";
  const result_rows *r = &t->results;
  mine->row = instance_for(positions_of(r));
  mine->shared = HALOS * t->stage + t->filter_stages * t->filters * ROW + CONSUMERS * (mine->row->n * ROW + NOWHERE);
  mine->blocks = t->tiles < device->sm_count ? t->tiles : device->sm_count;
  const cuuint64_t x_size[4] = {(cuuint64_t)p->C, (cuuint64_t)p->W, (cuuint64_t)p->H, (cuuint64_t)p->N},
                   y_size[4] = {(cuuint64_t)p->K, (cuuint64_t)p->Q, (cuuint64_t)p->P, (cuuint64_t)p->N};
  const cuuint32_t x_box[4] = {BK, (cuuint32_t)r->pitch, (cuuint32_t)r->halo, (cuuint32_t)r->images},
                   y_box[4] = {WGMMA_M, (cuuint32_t)r->columns, (cuuint32_t)r->rows, (cuuint32_t)r->images};
  why = map_tiles(plan, &mine->halos, turned ? "dy" : "x", 4, x_size, x_box);
  if (!why) why = map_filters(plan, &mine->filter_tiles, given, turned ? WGMMA_M : t->filters);
  if (!why) why = map_tiles(plan, &mine->results, turned ? "dx" : "y", 4, y_size, y_box);
  if (why) return why;
  snprintf(plan->words, sizeof plan->words, "%d x %d x %d pixels a tile: products of %d, %d tiles", r->images, r->rows, r->columns, mine->row->n, t->tiles);
  const cudaError_t status = plan_allow_shared((const void *)mine->row->kernel[turned], (size_t)mine->shared);
  return status ? plan_failed(plan, status) : NULL;
}

static cudaError_t launch_stream(const conv_plan *plan, const conv_buffers *b, cudaStream_t stream) {
  const stream_plan *mine = plan_data<stream_plan>(plan);
  const bool turned = plan->operation.pass == PASS_DGRAD;
  CUtensorMap halos, filter_tiles, results;
  cudaError_t status = map_at(&halos, &mine->halos, turned ? b->y : b->x);
  if (!status) status = map_at(&filter_tiles, &mine->filter_tiles, b->w);
  if (!status) status = map_at(&results, &mine->results, turned ? b->x : b->y);
  if (status) return status;
  return launch_kernel({.grid = dim3(mine->blocks), .block = dim3(BLOCK), .shared = (size_t)mine->shared, .stream = stream, .early = true},
                       mine->row->kernel[turned], mine->problem, mine->cut, halos, filter_tiles, results);
}

static double growth_stream_dgrad(const conv_problem *p, bool random) {
  const conv_problem turned = turned_dgrad(p).p;
  return growth_steps(&turned, random);
}

NHWC_ROW(stream_window_fprop, "06h", "filters stream past a halo tile, any C and K", PASS_FPROP, 90, plan_stream, launch_stream, growth_steps);
NHWC_ROW(stream_window_dgrad, "06h", "filters stream past a halo tile, any C and K", PASS_DGRAD, 90, plan_stream, launch_stream, growth_stream_dgrad);
