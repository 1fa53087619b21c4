/* 06h: the same window for any number of channels: filters stream past it.
 *
 * Terms:    halo tile, filter streaming, two producers, strips.
 * Idea:     more than 64 channels are 64 at a time, and more filters than shared memory holds come tap by tap, through a ring of their own. Two consumers with 64
 *           filters each multiply the same pixels, so that a halo tile serves 128 filters. A producer for each ring: one may be far ahead while the other waits.
 * Strips:   an image wider than a product is cut into strips. What lies between their rows would be stored over the neighbour's columns; so results are packed
 *           on their way to shared memory, which costs a division by a multiplication.
 * Change:   against 06g the loop over channels, the filters' ring, the packed results, which have shared memory of their own: the next tile's halo is loaded
 *           while they leave.
 * Expect:   128 filters x 240 pixels x 64 channels x 9 taps want 16 KiB a tap of filters and 45 KiB once of pixels: 190 KiB for 35 M products, 4 TB/s at 800
 *           TFLOP/s: no limit. 700 TFLOP/s where there are tiles for all multiprocessors; less where the last round is not full.
 * Passes:   fprop. Layout: NHWC, filters KRSC, fp16 with fp32 sums. C and K: multiples of 8. Stride 1, no groups; halos up to 44 KiB. */
#include "06_tensorcore_fp16/window.cuh"

static constexpr int CONSUMERS = 2, BLOCK = (1 + CONSUMERS) * THREADS, BK_FILTERS = CONSUMERS * WGMMA_M, FILTER_STAGE = BK_FILTERS * ROW;
static constexpr int HALOS = 2, FILTERS = 4, MOST_N = 256, MOST_HALO = 352 /* pixels of a halo tile */, NOWHERE = 16 * ROW;

/* A tile of y: `rows` rows by `columns` columns of one image, or of `images` if those are all there are; with its halo `pitch` columns and `halo` rows an image. */
typedef struct stream_cut {
  result_rows results;
  int tiles_q, tiles_p, tiles_k, tiles, parts_c, stage; /* stage: bytes of a halo stage */
} stream_cut;

/* N: pixels of a product, those between the rows included. */
template <int N>
__global__ void __launch_bounds__(BLOCK, 1) stream_kernel(conv_problem p, stream_cut t, const __grid_constant__ CUtensorMap halos,
                                                          const __grid_constant__ CUtensorMap filter_tiles, const __grid_constant__ CUtensorMap results) {
  extern __shared__ __align__(1024) unsigned char shared[];
  __shared__ unsigned long long barriers[2 * (HALOS + FILTERS)];
  const int taps = p.R * p.S, box = t.results.pitch * t.results.halo * t.results.images * ROW, role = threadIdx.x / THREADS;
  const ptx_shared stages = ptx_shared_address(shared), filters = stages + HALOS * t.stage, outputs = filters + FILTERS * FILTER_STAGE;
  const ring pixel_ring = {ptx_shared_address(barriers), ptx_shared_address(barriers + HALOS)};
  const ring filter_ring = {ptx_shared_address(barriers + 2 * HALOS), ptx_shared_address(barriers + 2 * HALOS + FILTERS)};
  if (threadIdx.x == 0) {
    ring_begin(pixel_ring, HALOS, CONSUMERS * THREADS / 32);
    ring_begin(filter_ring, FILTERS, CONSUMERS * THREADS / 32);
  }
  const int behind = (t.stage - box) / 16; /* what lies behind a box is read, and of no use; but it must not be NaN */
  for (int i = threadIdx.x; i < HALOS * behind; i += BLOCK) *(uint4 *)(shared + i / behind * t.stage + box + i % behind * 16) = make_uint4(0, 0, 0, 0);
  ptx_fence_proxy_async();
  __syncthreads(); /* barriers and zeros are there */

  if (role == 0) { /* the producers */
    ptx_setmaxnreg_dec<56>();
    if (threadIdx.x == 0) /* of pixels */
      for (int i = blockIdx.x, count = 0; i < t.tiles; i += gridDim.x) {
        const int tile = i / t.tiles_k, q = tile % t.tiles_q * t.results.columns, row = tile / t.tiles_q % t.tiles_p * t.results.rows;
        for (int part = 0; part < t.parts_c; part++, count++) {
          const int stage = count % HALOS;
          if (count >= HALOS) ptx_mbarrier_wait(pixel_ring.empty + 8 * stage, (count / HALOS - 1) & 1);
          ptx_mbarrier_arrive_expect_tx(pixel_ring.full + 8 * stage, box);
          ptx_tensor_load(stages + stage * t.stage, &halos, {part * BK, q - p.pad_left, row - p.pad_top, tile / t.tiles_q / t.tiles_p * t.results.images},
                          pixel_ring.full + 8 * stage);
        }
      }
    if (threadIdx.x == 32) /* of filters */
      for (int i = blockIdx.x, count = 0; i < t.tiles; i += gridDim.x)
        for (int step = 0; step < t.parts_c * taps; step++, count++) {
          const int stage = count % FILTERS;
          if (count >= FILTERS) ptx_mbarrier_wait(filter_ring.empty + 8 * stage, (count / FILTERS - 1) & 1);
          ptx_mbarrier_arrive_expect_tx(filter_ring.full + 8 * stage, FILTER_STAGE);
          ptx_tensor_load(filters + stage * FILTER_STAGE, &filter_tiles, {step / taps * BK, step % taps, i % t.tiles_k * BK_FILTERS},
                          filter_ring.full + 8 * stage);
        }
    return;
  }

  ptx_setmaxnreg_inc<224>();
  const int me = role - 1; /* of the consumers */
  const ptx_shared mine = outputs + me * (N * ROW + NOWHERE);
  const bool first_lane = threadIdx.x % 32 == 0;
  for (int i = blockIdx.x, parts = 0, count = 0; i < t.tiles; i += gridDim.x) {
    float sum[N / 2];
    for (int part = 0; part < t.parts_c; part++, parts++) {
      const ptx_shared pixels = stages + parts % HALOS * t.stage;
      ptx_mbarrier_wait(pixel_ring.full + 8 * (parts % HALOS), parts / HALOS & 1);
      for (int tap = 0; tap < taps; tap++, count++) {
        const int stage = count % FILTERS;
        const ptx_shared a = filters + stage * FILTER_STAGE + me * WGMMA_M * ROW;
        const ptx_shared b = pixels + (tap / p.S * p.dil_h * t.results.pitch + tap % p.S * p.dil_w) * ROW;
        ptx_mbarrier_wait(filter_ring.full + 8 * stage, count / FILTERS & 1);
        if (part + tap == 0) {
          multiply_tap<true>(sum, a, b);
        } else {
          multiply_tap<false>(sum, a, b);
          ptx_wgmma_wait<1>(); /* the tap before is done: its filters, and with a part's last tap its pixels */
          if (first_lane) ptx_mbarrier_arrive(filter_ring.empty + 8 * ((count - 1) % FILTERS));
          if (first_lane && tap == 0) ptx_mbarrier_arrive(pixel_ring.empty + 8 * ((parts - 1) % HALOS));
        }
      }
    }
    ptx_wgmma_wait<0>();
    if (first_lane) ptx_mbarrier_arrive(filter_ring.empty + 8 * ((count - 1) % FILTERS)), ptx_mbarrier_arrive(pixel_ring.empty + 8 * ((parts - 1) % HALOS));

    const int tile = i / t.tiles_k, k = i % t.tiles_k * BK_FILTERS + me * WGMMA_M;
    const bool stores = threadIdx.x % THREADS == 0;
    if (stores) ptx_bulk_wait_read<0>(); /* the tile before has left */
    ptx_bar_sync(1 + me, THREADS);
    put_outputs<N>(t.results, sum, mine, mine + N * ROW);
    ptx_fence_proxy_async();
    ptx_bar_sync(1 + me, THREADS); /* the outputs are there */
    if (stores && k < p.K) {
      ptx_tensor_store(
          &results, {k, tile % t.tiles_q * t.results.columns, tile / t.tiles_q % t.tiles_p * t.results.rows, tile / t.tiles_q / t.tiles_p * t.results.images},
          mine);
      ptx_bulk_commit();
    }
  }
  if (threadIdx.x % THREADS == 0) ptx_bulk_wait<0>();
}

/* ---------------------------------------------------------------- host */

typedef struct instance {
  int n;
  void (*kernel)(conv_problem p, stream_cut t, CUtensorMap halos, CUtensorMap filter_tiles, CUtensorMap results);
} instance;

/* The first that is enough. */
static const instance instances[] = {{64, stream_kernel<64>},   {96, stream_kernel<96>},   {128, stream_kernel<128>}, {192, stream_kernel<192>},
                                     {232, stream_kernel<232>}, {240, stream_kernel<240>}, {256, stream_kernel<256>}};

static const instance *instance_for(int positions) {
  const instance *row = instances;
  while (row->n < positions) row++; /* there is one */
  return row;
}

typedef struct stream_plan {
  CUtensorMap halos, filter_tiles, results;
  const instance *row;
  stream_cut cut;
  int blocks, shared;
} stream_plan;

static int parts_of(int all, int part) { return (all + part - 1) / part; }

/* The cut into `columns` and `rows` and images; false: it fits into no product, or its halo into no stage. */
static bool try_cut(const conv_problem *p, int columns, int rows, int images, stream_cut *t) {
  const int reach_h = (p->R - 1) * p->dil_h, reach_w = (p->S - 1) * p->dil_w;
  result_rows *r = &t->results;
  *r = {columns, rows, columns + reach_w, rows + reach_h, images, 0, 0};
  if (r->pitch > 256 || r->halo > 256 || r->pitch * r->halo * images > MOST_HALO || ((images - 1) * r->halo + rows - 1) * r->pitch + columns > MOST_N)
    return false;
  r->of_pitch = (unsigned)(65536 + r->pitch - 1) / (unsigned)r->pitch, r->of_halo = (unsigned)(65536 + r->halo - 1) / (unsigned)r->halo;
  t->tiles_q = parts_of(p->Q, columns), t->tiles_p = parts_of(p->P, rows), t->tiles_k = parts_of(p->K, BK_FILTERS), t->parts_c = parts_of(p->C, BK);
  const int64_t tiles = (int64_t)t->tiles_q * t->tiles_p * parts_of(p->N, images) * t->tiles_k;
  t->tiles = (int)tiles;
  return tiles <= INT_MAX;
}

static int positions_of(const result_rows *r) { return ((r->images - 1) * r->halo + r->rows - 1) * r->pitch + r->columns; }

/* The cut whose fullest multiprocessor has the fewest products to do; of equal ones the one with the smallest halo. */
static bool best_cut(const conv_problem *p, int sm_count, stream_cut *best) {
  double least = INFINITY;
  for (int strips = 1; strips <= p->Q; strips++) {
    const int columns = parts_of(p->Q, strips);
    if (strips > 1 && columns == parts_of(p->Q, strips - 1)) continue;
    for (int parts = 1; parts <= p->P; parts++) {
      const int rows = parts_of(p->P, parts);
      if (parts > 1 && rows == parts_of(p->P, parts - 1)) continue;
      for (int images = 1; images <= (strips * parts == 1 ? p->N : 1); images++) {
        stream_cut t;
        if (!try_cut(p, columns, rows, images, &t)) break;
        const double cost =
            (double)parts_of(t.tiles, sm_count) * instance_for(positions_of(&t.results))->n + 1e-6 * t.results.pitch * t.results.halo * images * t.tiles;
        if (cost < least) least = cost, *best = t;
      }
    }
  }
  return least < INFINITY;
}

static const char *plan_fprop(const conv_operation *o, const conv_device *device, conv_plan *plan) {
  const conv_problem *p = &o->problem;
  if (device->arch / 10 != 9) return "wgmma: only compute capability 9.0 has it";
  if (p->groups > 1) return "groups";
  if (p->C % CHUNK != 0 || p->K % CHUNK != 0) return "C or K is no multiple of 8";
  if (p->stride_h > 1 || p->stride_w > 1) return "a stride";
  const char *why = plain_unsupported(p, device);
  if (why) return why;
  stream_plan *mine = plan_data<stream_plan>(plan);
  stream_cut *t = &mine->cut;
  if ((p->R - 1) * (int64_t)p->dil_h >= MOST_HALO || (p->S - 1) * (int64_t)p->dil_w >= MOST_HALO || !best_cut(p, device->sm_count, t))
    return "a tile with its halo does not fit in shared memory";
  const result_rows *r = &t->results;
  mine->row = instance_for(positions_of(r));
  /* A stage has room for the box, and for what the last tap reads from there. */
  const int box = r->pitch * r->halo * r->images, read = mine->row->n + (p->R - 1) * p->dil_h * r->pitch + (p->S - 1) * p->dil_w;
  t->stage = parts_of(read > box ? read : box, 8) * 8 * ROW;
  mine->shared = HALOS * t->stage + FILTERS * FILTER_STAGE + CONSUMERS * (mine->row->n * ROW + NOWHERE);
  if ((size_t)mine->shared + 1024 > device->shared_per_block) return "a tile with its halo does not fit in shared memory";
  mine->blocks = t->tiles < device->sm_count ? t->tiles : device->sm_count;
  const cuuint64_t x_size[4] = {(cuuint64_t)p->C, (cuuint64_t)p->W, (cuuint64_t)p->H, (cuuint64_t)p->N},
                   y_size[4] = {(cuuint64_t)p->K, (cuuint64_t)p->Q, (cuuint64_t)p->P, (cuuint64_t)p->N};
  const cuuint32_t x_box[4] = {BK, (cuuint32_t)r->pitch, (cuuint32_t)r->halo, (cuuint32_t)r->images},
                   y_box[4] = {WGMMA_M, (cuuint32_t)r->columns, (cuuint32_t)r->rows, (cuuint32_t)r->images};
  why = map_tiles(plan, &mine->halos, "x", 4, x_size, x_box);
  if (!why) why = map_filters(plan, &mine->filter_tiles, p, BK_FILTERS);
  if (!why) why = map_tiles(plan, &mine->results, "y", 4, y_size, y_box);
  if (why) return why;
  snprintf(plan->words, sizeof plan->words, "%d x %d x %d pixels a tile: products of %d, %d tiles", r->images, r->rows, r->columns, mine->row->n, t->tiles);
  const cudaError_t status = plan_allow_shared((const void *)mine->row->kernel, (size_t)mine->shared);
  return status ? plan_failed(plan, status) : NULL;
}

static cudaError_t launch_fprop(const conv_plan *plan, const conv_buffers *b, cudaStream_t stream) {
  const stream_plan *mine = plan_data<stream_plan>(plan);
  CUtensorMap halos, filter_tiles, results;
  cudaError_t status = map_at(&halos, &mine->halos, b->x);
  if (!status) status = map_at(&filter_tiles, &mine->filter_tiles, b->w);
  if (!status) status = map_at(&results, &mine->results, b->y);
  if (status) return status;
  mine->row->kernel<<<mine->blocks, BLOCK, mine->shared, stream>>>(plan->operation.problem, mine->cut, halos, filter_tiles, results);
  return cudaGetLastError();
}

NHWC_ROW(stream_window_fprop, "06h", "filters stream past a halo tile, any C and K", PASS_FPROP, 90, plan_fprop, launch_fprop, growth_steps);
