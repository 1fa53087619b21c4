/* 06e: who loads does nothing else: a producer, and two warpgroups that multiply.
 *
 * Terms:    warp specialization, producer and consumer, setmaxnreg.
 * Idea:     in 06d the thread that asks for copies also multiplies, and asks late: it must wait for its own products first. Here a thread of a warpgroup of its own asks, as soon as
 *           a stage is empty, and runs ahead as far as the ring allows. Two warpgroups multiply, so that one has products under way while the other waits,
 *           and a filter row that is loaded serves both. The producer needs few registers and gives them to those who hold sums.
 * Change:   against 06d the roles, and larger tiles: 256 pixels x 128 filters, or 128 x 256.
 * Expect:   a step of 48 KiB for 128 x 256 x 64 products takes the tensor cores 1024 clocks; at 800 TFLOP/s that is 9.4 TB/s of all multiprocessors, what L2 can
 *           give at most. And nobody hides the beginning and the end of a tile: one block fits on a multiprocessor. 550 TFLOP/s.
 * Passes:   fprop. Layout: NHWC, filters KRSC, fp16 with fp32 sums. Channels: a multiple of 8, with groups of 64 a group. */
#include "06_tensorcore_fp16/ring.cuh"

static constexpr int STAGES = 4, CONSUMERS = 2, BLOCK = (1 + CONSUMERS) * THREADS;

/* A block: 128 M pixels, counted over all images, x BN filters of a group; a consumer: 64 M of the pixels. */
template <int BN, int M>
__global__ void __launch_bounds__(BLOCK, 1)
    roles_kernel(conv_problem p, const __grid_constant__ CUtensorMap windows, const __grid_constant__ CUtensorMap filter_tiles, __half *__restrict__ y) {
  constexpr int PIXELS = WGMMA_M * M, BM = CONSUMERS * PIXELS, STAGE = (BM + BN) * ROW;
  extern __shared__ __align__(1024) unsigned char shared[];
  __shared__ unsigned long long barriers[2 * STAGES];
  const ptx_shared stages = ptx_shared_address(shared);
  const ring r = {ptx_shared_address(barriers), ptx_shared_address(barriers + STAGES)};
  const int group_c = p.C / p.groups, group_k = p.K / p.groups, tiles_k = (group_k + BN - 1) / BN;
  const int group = blockIdx.x / tiles_k % p.groups, first_k = blockIdx.x % tiles_k * BN, first_pixel = blockIdx.x / tiles_k / p.groups * BM;
  const int parts_c = (group_c + BK - 1) / BK, steps = p.R * p.S * parts_c, role = uniform(threadIdx.x / THREADS);
  if (threadIdx.x == 0) ring_begin(r, STAGES, CONSUMERS * THREADS / 32);
  __syncthreads(); /* barriers are there */

  if (role == 0) { /* the producer */
    ptx_setmaxnreg_dec<40>();
    if (threadIdx.x != 0) return;
    const tile t = tile_of(p, group, first_k, first_pixel);
    place at = {0, 0, 0};
    for (int step = 0; step < steps; step++, at = next_step(p, at, group_c)) {
      const int stage = step % STAGES;
      const ptx_shared a = stages + stage * STAGE;
      if (step >= STAGES) ptx_mbarrier_wait(r.empty + 8 * stage, (step / STAGES - 1) & 1);
      load_step(p, t, &windows, &filter_tiles, at, a, a + BM * ROW, STAGE, r.full + 8 * stage);
    }
    return;
  }

  ptx_setmaxnreg_inc<232>();
  const int me = role - 1; /* of the consumers */
  float sum[M][BN / 2];
  ptx_mbarrier_wait(r.full, 0);
  multiply<true>(sum, stages + me * PIXELS * ROW, stages + BM * ROW);
  for (int step = 1; step < steps; step++) {
    const int stage = step % STAGES;
    const ptx_shared a = stages + stage * STAGE;
    ptx_mbarrier_wait(r.full + 8 * stage, step / STAGES & 1);
    multiply<false>(sum, a + me * PIXELS * ROW, a + BM * ROW);
    ptx_wgmma_wait<1>(); /* the step before is done */
    if (threadIdx.x % 32 == 0) ptx_mbarrier_arrive(r.empty + 8 * ((step - 1) % STAGES));
  }
  ptx_wgmma_wait<0>();
  ptx_bar_sync(1, CONSUMERS * THREADS); /* nobody reads a stage any more */

  unsigned char *const results = shared + me * PIXELS * BN * 2;
  put_sums<BN>(results, sum);
  ptx_bar_sync(2 + me, THREADS); /* this consumer's are there */
  store_results<PIXELS, BN>(p, results, y + group * group_k + first_k, first_pixel + me * PIXELS, group_k - first_k);
}

/* ---------------------------------------------------------------- host */

typedef struct instance {
  int bn, bm;
  void (*kernel)(conv_problem p, CUtensorMap windows, CUtensorMap filter_tiles, __half *y);
} instance;

/* The first whose filters are enough. */
static const instance instances[] = {{64, 256, roles_kernel<64, 2>}, {128, 256, roles_kernel<128, 2>}, {256, 128, roles_kernel<256, 1>}};

typedef struct roles_plan {
  CUtensorMap windows, filter_tiles;
  const instance *row;
  int blocks, shared;
} roles_plan;

static const char *plan_fprop(const conv_operation *o, const conv_device *device, conv_plan *plan) {
  const conv_problem *p = &o->problem;
  if (device->arch / 10 != 9) return "wgmma: only compute capability 9.0 has it";
  if (p->C / p->groups % (p->groups > 1 ? BK : CHUNK) != 0) return p->groups > 1 ? "channels of a group are no multiple of 64" : "C is no multiple of 8";
  const char *why = plain_unsupported(p, device);
  if (why) return why;
  const int group_k = p->K / p->groups, pixels = p->N * p->P * p->Q;
  roles_plan *mine = plan_data<roles_plan>(plan);
  mine->row = instances;
  while (mine->row->bn < group_k && mine->row->bn < 256) mine->row++;
  const int bn = mine->row->bn, bm = mine->row->bm;
  const int64_t blocks = (int64_t)((pixels + bm - 1) / bm) * p->groups * ((group_k + bn - 1) / bn);
  if (blocks > INT_MAX) return "2^31 blocks or more";
  mine->blocks = (int)blocks, mine->shared = STAGES * (bm + bn) * ROW;
  why = map_windows(plan, &mine->windows, p, BK, bm);
  if (!why) why = map_filters(plan, &mine->filter_tiles, p, bn);
  if (why) return why;
  snprintf(plan->words, sizeof plan->words, "%d pixels x %d filters, %lld block%s", bm, bn, (long long)blocks, blocks == 1 ? "" : "s");
  const cudaError_t status = plan_allow_shared((const void *)mine->row->kernel, (size_t)mine->shared);
  return status ? plan_failed(plan, status) : NULL;
}

static cudaError_t launch_fprop(const conv_plan *plan, const conv_buffers *b, cudaStream_t stream) {
  const roles_plan *mine = plan_data<roles_plan>(plan);
  CUtensorMap windows, filter_tiles;
  cudaError_t status = map_at(&windows, &mine->windows, b->x);
  if (!status) status = map_at(&filter_tiles, &mine->filter_tiles, b->w);
  if (status) return status;
  mine->row->kernel<<<mine->blocks, BLOCK, mine->shared, stream>>>(plan->operation.problem, windows, filter_tiles, (__half *)b->y);
  return cudaGetLastError();
}

NHWC_ROW(roles_fprop, "06e", "a producer and two warpgroups that multiply", PASS_FPROP, 90, plan_fprop, launch_fprop, growth_steps);
