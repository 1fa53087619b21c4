/* Exercise ring: a ring of stages.
 *
 * Given:  06d without its ring: one thread asks for a stage, all wait until its bytes are there, multiply, and wait for the products before the next stage is
 *         asked for. Copy engine and tensor cores take turns.
 * Task:   let copies run ahead: a ring of stages, each with an mbarrier that says that its bytes are there. A stage may be filled again when its products are
 *         done.
 * Layout: NHWC, filters KRSC, fp16 with fp32 sums. No groups. Channels: a multiple of 8.
 * Needs:  compute capability 9.0 (the emulator has it).
 * Level:  three of three stars, about 90 minutes.
 * Grade:  make exercise-ring       (docs/exercises.md has the text) */
#include "06_tensorcore_fp16/ring.cuh"
#include "common/exercise/exercise.h"

static constexpr int BM = 64, BN = 64, STAGE = (BM + BN) * ROW;

/* ================================================================ your part begins here */

static constexpr int STAGES = 1;

/* A block: BM pixels, counted over all images, x BN filters. STAGES times STAGE bytes of shared memory.
 * load_step(), next_step() and multiply() are in 06_tensorcore_fp16/ring.cuh. */
__global__ void __launch_bounds__(THREADS)
    my_fprop_kernel(conv_problem p, const __grid_constant__ CUtensorMap windows, const __grid_constant__ CUtensorMap filter_tiles, __half *y) {
  extern __shared__ __align__(1024) unsigned char shared[];
  __shared__ unsigned long long full[STAGES]; /* a stage's bytes are there */
  const ptx_shared stages = ptx_shared_address(shared), full_at = ptx_shared_address(full);
  const int tiles_k = (p.K + BN - 1) / BN, first_k = blockIdx.x % tiles_k * BN, first_pixel = blockIdx.x / tiles_k * BM;
  const int steps = p.R * p.S * ((p.C + BK - 1) / BK);
  const tile t = tile_of(p, 0, first_k, first_pixel);
  if (threadIdx.x == 0) {
    for (int i = 0; i < STAGES; i++) ptx_mbarrier_init(full_at + 8 * i, 1);
    ptx_fence_mbarrier_init();
  }
  __syncthreads(); /* the barriers are there */

  float sum[1][BN / 2] = {};
  place at = {0, 0, 0}; /* of the next step to be loaded: its tap and first channel */
  for (int step = 0; step < steps; step++) {
    if (threadIdx.x == 0) {
      load_step(p, t, &windows, &filter_tiles, at, stages, stages + BM * ROW, STAGE, full_at);
      at = next_step(p, at, p.C);
    }
    ptx_mbarrier_wait(full_at, step & 1);
    multiply<false>(sum, stages, stages + BM * ROW);
    ptx_wgmma_wait<0>();
    __syncthreads(); /* nobody reads the stage any more */
  }

  put_sums<BN>(shared, sum);
  __syncthreads(); /* the results are there */
  store_results<BM, BN>(p, shared, y + first_k, first_pixel, p.K - first_k);
}

/* ================================================================ your part ends here */

cudaError_t exercise_launch(const conv_problem *p, const conv_buffers *b, cudaStream_t stream) {
  conv_plan plan;
  CUtensorMap windows, filter_tiles;
  const char *why = map_windows(&plan, &windows, p, BK, BM);
  if (!why) why = map_filters(&plan, &filter_tiles, p, BN);
  if (why) {
    fprintf(stderr, "%s\n", why);
    return cudaErrorNotSupported;
  }
  cudaError_t status = map_at(&windows, &windows, b->x);
  if (!status) status = map_at(&filter_tiles, &filter_tiles, b->w);
  if (!status) status = cudaFuncSetAttribute((const void *)my_fprop_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, STAGES * STAGE);
  if (status) return status;
  const int tiles = (p->N * p->P * p->Q + BM - 1) / BM * ((p->K + BN - 1) / BN);
  my_fprop_kernel<<<tiles, THREADS, STAGES * STAGE, stream>>>(*p, windows, filter_tiles, (__half *)b->y);
  return cudaGetLastError();
}
