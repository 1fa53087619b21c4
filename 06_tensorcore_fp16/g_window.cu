/* 06g: the window slides, the data stay: a tap is the same tile under a moved descriptor.
 *
 * Terms:    halo tile, implicit im2col in shared memory, descriptor arithmetic, weight-stationary.
 * Idea:     06d to 06f fetch every pixel once for each tap. But in shared memory, pixels as rows of 64 channels, the pixels of tap (r, s) are those of tap (0, 0)
 *           r * pitch + s rows further on: the same matrix from another row. A swizzle is a matter of addresses, not of where a matrix begins, so a descriptor may
 *           begin at any row. One tiled load brings a tile with its halo, padding as zeros, and all taps are multiplied from there; all filters stay in shared
 *           memory for good. Columns that lie between the rows of the tile are computed, too, and dropped by the store, whose box reaches past the image there.
 * Roles:    filters are a, [64][64] a tap, and pixels b, up to 256 at a time: with 64 filters as b the tensor cores would wait for shared memory.
 * Change:   against 06f the operands; two consumers have a tile each, and results go out from the very stage that they were computed from.
 * Expect:   each pixel crosses L2 1.5 times instead of 9; 36 products of 64 x 232 x 16 for 4 rows of 56 pixels, of which 3.4 % are dropped: 730 TFLOP/s on 64
 *           channels and 64 filters.
 * Passes:   fprop. Layout: NHWC, filters KRSC, fp16 with fp32 sums. C and K: multiples of 8 up to 64. Stride 1, no groups; rows of y up to 256 with their halo. */
#include "06_tensorcore_fp16/ring.cuh"

static constexpr int CONSUMERS = 2, BLOCK = (1 + CONSUMERS) * THREADS, TAP = WGMMA_M * ROW /* bytes of a tap's filters */, MOST_STAGES = 4, MOST_N = 256;

/* A tile of y: `rows` rows of one image, or `images` whole ones; its halo tile has `pitch` columns and `halo` rows an image. */
typedef struct window_cut {
  int rows, images, pitch, halo, tiles_p, tiles, stages, stage; /* stage: bytes */
} window_cut;

/* Sums [64 filters][N pixels] to a stage, [pixel][64 filters] of halves, swizzled. */
template <int N> static __device__ __forceinline__ void put_turned(const float (&sum)[N / 2], ptx_shared stage) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4, chunk = 2 * warp + lane / 8 % 2; /* 8 filters are 16 bytes */
#pragma unroll
  for (int j = 0; j + 1 < N / 8; j += 2) { /* two times eight pixels, 16 filters */
    unsigned part[4];
#pragma unroll
    for (int i = 0; i < 4; i++) part[i] = two_halves(sum[4 * (j + i / 2) + 2 * (i % 2)], sum[4 * (j + i / 2) + 2 * (i % 2) + 1]);
    ptx_stmatrix_x4_trans(stage + swizzled(8 * (j + lane / 16) + lane % 8, chunk), part);
  }
  if (N / 8 % 2 == 1) {
    constexpr int j = N / 8 - 1;
    unsigned part[2];
#pragma unroll
    for (int i = 0; i < 2; i++) part[i] = two_halves(sum[4 * j + 2 * i], sum[4 * j + 2 * i + 1]);
    ptx_stmatrix_x2_trans(stage + swizzled(8 * j + lane % 8, chunk), part);
  }
}

/* Asks for the products of a tap, from the row where its pixels begin. The first one of a tile does not add to what was there. */
template <bool FIRST, int SUMS> static __device__ __forceinline__ void multiply_tap(float (&sum)[SUMS], ptx_shared filters, ptx_shared pixels) {
  ptx_wgmma_fence();
#pragma unroll
  for (int l = 0; l < CHUNKS; l += 2) { /* 16 channels */
    const unsigned long long a = ptx_wgmma_descriptor(filters + l * 16, 16, 8 * ROW, PTX_SWIZZLE_128);
    const unsigned long long b = ptx_wgmma_descriptor(pixels + l * 16, 16, 8 * ROW, PTX_SWIZZLE_128);
    if (FIRST && l == 0) ptx_wgmma<0, 0, 0>(sum, a, b);
    else ptx_wgmma(sum, a, b);
  }
  ptx_wgmma_commit();
}

/* N: pixels of a product, those between the rows included. */
template <int N>
__global__ void __launch_bounds__(BLOCK, 1) window_kernel(conv_problem p, window_cut t, const __grid_constant__ CUtensorMap halos,
                                                          const __grid_constant__ CUtensorMap filter_tiles, const __grid_constant__ CUtensorMap results) {
  extern __shared__ __align__(1024) unsigned char shared[];
  __shared__ unsigned long long barriers[2 * MOST_STAGES];
  __shared__ unsigned long long filters_there;
  const int taps = p.R * p.S, box = t.pitch * t.halo * t.images * ROW, role = threadIdx.x / THREADS;
  const ptx_shared filters = ptx_shared_address(shared), stages = filters + taps * TAP, filters_at = ptx_shared_address(&filters_there);
  const ring r = {ptx_shared_address(barriers), ptx_shared_address(barriers + MOST_STAGES)};
  if (threadIdx.x == 0) {
    ptx_mbarrier_init(filters_at, 1);
    ring_begin(r, t.stages, 1);
  }
  const int behind = (t.stage - box) / 16; /* what lies behind a box is read, and of no use; but it must not be NaN */
  for (int i = threadIdx.x; i < t.stages * behind; i += BLOCK)
    *(uint4 *)(shared + taps * TAP + i / behind * t.stage + box + i % behind * 16) = make_uint4(0, 0, 0, 0);
  ptx_fence_proxy_async();
  __syncthreads(); /* barriers and zeros are there */

  if (role == 0) { /* the producer */
    ptx_setmaxnreg_dec<56>();
    if (threadIdx.x != 0) return;
    ptx_mbarrier_arrive_expect_tx(filters_at, taps * TAP);
    for (int tap = 0; tap < taps; tap++) ptx_tensor_load(filters + tap * TAP, &filter_tiles, {0, tap, 0}, filters_at);
    for (int i = blockIdx.x, count = 0; i < t.tiles; i += gridDim.x, count++) {
      const int stage = count % t.stages;
      if (count >= t.stages) ptx_mbarrier_wait(r.empty + 8 * stage, (count / t.stages - 1) & 1);
      ptx_mbarrier_arrive_expect_tx(r.full + 8 * stage, box);
      ptx_tensor_load(stages + stage * t.stage, &halos, {0, -p.pad_left, i % t.tiles_p * t.rows - p.pad_top, i / t.tiles_p * t.images}, r.full + 8 * stage);
    }
    return;
  }

  ptx_setmaxnreg_inc<224>();
  const int me = role - 1; /* of the consumers */
  ptx_mbarrier_wait(filters_at, 0);
  for (int i = blockIdx.x, count = 0; i < t.tiles; i += gridDim.x, count++) {
    if (count % CONSUMERS != me) continue;
    const int stage = count % t.stages;
    const ptx_shared pixels = stages + stage * t.stage;
    ptx_mbarrier_wait(r.full + 8 * stage, count / t.stages & 1);
    float sum[N / 2];
    multiply_tap<true>(sum, filters, pixels);
    for (int tap = 1; tap < taps; tap++) multiply_tap<false>(sum, filters + tap * TAP, pixels + (tap / p.S * p.dil_h * t.pitch + tap % p.S * p.dil_w) * ROW);
    ptx_wgmma_wait<0>();
    ptx_bar_sync(1 + me, THREADS); /* nobody reads the pixels any more */
    put_turned<N>(sum, pixels);
    ptx_fence_proxy_async();
    ptx_bar_sync(1 + me, THREADS); /* the sums are there */
    if (threadIdx.x % THREADS == 0) {
      ptx_tensor_store(&results, {0, 0, i % t.tiles_p * t.rows, i / t.tiles_p * t.images}, pixels);
      ptx_bulk_commit();
      ptx_bulk_wait_read<0>();
      ptx_mbarrier_arrive(r.empty + 8 * stage);
    }
  }
  if (threadIdx.x % THREADS == 0) ptx_bulk_wait<0>();
}

/* ---------------------------------------------------------------- host */

typedef struct instance {
  int n;
  void (*kernel)(conv_problem p, window_cut t, CUtensorMap halos, CUtensorMap filter_tiles, CUtensorMap results);
} instance;

/* The first that is enough. */
static const instance instances[] = {{64, window_kernel<64>},   {96, window_kernel<96>},   {128, window_kernel<128>}, {192, window_kernel<192>},
                                     {232, window_kernel<232>}, {240, window_kernel<240>}, {256, window_kernel<256>}};

typedef struct window_plan {
  CUtensorMap halos, filter_tiles, results;
  const instance *row;
  window_cut cut;
  int blocks, shared;
} window_plan;

/* Positions of a tile's outputs, from the first to the last, those between rows and images included. */
static int positions(const conv_problem *p, const window_cut *t) { return ((t->images - 1) * t->halo + t->rows - 1) * t->pitch + p->Q; }

/* As many whole images as fit, or as many rows of one as its tiles can be equal with. */
static window_cut cut_of(const conv_problem *p) {
  const int reach_h = (p->R - 1) * p->dil_h;
  window_cut t = {};
  t.rows = p->P, t.images = 1, t.pitch = p->Q + (p->S - 1) * p->dil_w, t.halo = p->P + reach_h;
  if (positions(p, &t) > MOST_N) {
    const int most = (MOST_N - p->Q) / t.pitch + 1, tiles = (p->P + most - 1) / most;
    t.rows = (p->P + tiles - 1) / tiles, t.halo = t.rows + reach_h;
  } else {
    while (t.images < p->N && t.images < 256) {
      t.images++;
      if (positions(p, &t) <= MOST_N) continue;
      t.images--;
      break;
    }
  }
  t.tiles_p = (p->P + t.rows - 1) / t.rows, t.tiles = t.tiles_p * ((p->N + t.images - 1) / t.images);
  return t;
}

static const char *plan_fprop(const conv_operation *o, const conv_device *device, conv_plan *plan) {
  const conv_problem *p = &o->problem;
  if (device->arch / 10 != 9) return "wgmma: only compute capability 9.0 has it";
  if (p->groups > 1) return "groups";
  if (p->C % CHUNK != 0 || p->K % CHUNK != 0 || p->C > BK || p->K > WGMMA_M) return "C and K are no multiples of 8 up to 64";
  if (p->stride_h > 1 || p->stride_w > 1) return "a stride";
  const char *why = plain_unsupported(p, device);
  if (why) return why;
  if (p->Q > MOST_N || p->Q + (p->S - 1) * (int64_t)p->dil_w > 256 || (p->R - 1) * (int64_t)p->dil_h > 200)
    return "rows with their halo have more than 256 pixels";
  window_plan *mine = plan_data<window_plan>(plan);
  window_cut *t = &mine->cut;
  *t = cut_of(p);
  if (t->halo > 256) return "a halo of more than 256 rows";
  mine->row = instances;
  while (mine->row->n < positions(p, t)) mine->row++; /* there is one */
  /* A stage has room for the box, and for what the last tap reads from there. */
  const int box = t->pitch * t->halo * t->images, read = mine->row->n + (p->R - 1) * p->dil_h * t->pitch + (p->S - 1) * p->dil_w;
  t->stage = ((read > box ? read : box) + 7) / 8 * 8 * ROW;
  const int64_t filters = (int64_t)p->R * p->S * TAP, room = (int64_t)device->shared_per_block - 1024 - filters;
  t->stages = room < 0 ? 0 : room / t->stage < MOST_STAGES ? (int)(room / t->stage) : MOST_STAGES;
  if (t->stages < 2) return "filters and two tiles do not fit in shared memory";
  mine->shared = (int)filters + t->stages * t->stage;
  mine->blocks = t->tiles < device->sm_count ? t->tiles : device->sm_count;
  const cuuint64_t x_size[4] = {(cuuint64_t)p->C, (cuuint64_t)p->W, (cuuint64_t)p->H, (cuuint64_t)p->N},
                   y_size[4] = {(cuuint64_t)p->K, (cuuint64_t)p->Q, (cuuint64_t)p->P, (cuuint64_t)p->N};
  const cuuint32_t x_box[4] = {BK, (cuuint32_t)t->pitch, (cuuint32_t)t->halo, (cuuint32_t)t->images},
                   y_box[4] = {WGMMA_M, (cuuint32_t)t->pitch, (cuuint32_t)(t->images > 1 ? t->halo : t->rows), (cuuint32_t)t->images};
  why = map_tiles(plan, &mine->halos, "x", 4, x_size, x_box);
  if (!why) why = map_filters(plan, &mine->filter_tiles, p, WGMMA_M);
  if (!why) why = map_tiles(plan, &mine->results, "y", 4, y_size, y_box);
  if (why) return why;
  snprintf(plan->words, sizeof plan->words, "%d image%s, %d row%s a tile: products of %d, %d stages, %d tiles", t->images, t->images == 1 ? "" : "s", t->rows,
           t->rows == 1 ? "" : "s", mine->row->n, t->stages, t->tiles);
  const cudaError_t status = plan_allow_shared((const void *)mine->row->kernel, (size_t)mine->shared);
  return status ? plan_failed(plan, status) : NULL;
}

static cudaError_t launch_fprop(const conv_plan *plan, const conv_buffers *b, cudaStream_t stream) {
  const window_plan *mine = plan_data<window_plan>(plan);
  CUtensorMap halos, filter_tiles, results;
  cudaError_t status = map_at(&halos, &mine->halos, b->x);
  if (!status) status = map_at(&filter_tiles, &mine->filter_tiles, b->w);
  if (!status) status = map_at(&results, &mine->results, b->y);
  if (status) return status;
  mine->row->kernel<<<mine->blocks, BLOCK, mine->shared, stream>>>(plan->operation.problem, mine->cut, halos, filter_tiles, results);
  return cudaGetLastError();
}

NHWC_ROW(resident_fprop, "06g", "a halo tile once, taps by moved descriptors, filters resident", PASS_FPROP, 90, plan_fprop, launch_fprop, growth_steps);
