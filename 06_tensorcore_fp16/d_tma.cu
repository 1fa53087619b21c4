/* 06d: one thread asks, the copy engine brings: windows by im2col, and barriers that count their bytes.
 *
 * Terms:    tensor memory accelerator (TMA), im2col mode, tensor map, mbarrier, transaction bytes, ring of stages.
 * Idea:     a tensor map knows the image, its padding and the window's stride; so "64 channels of this tap of 128 windows from here on" is one instruction,
 *           swizzled, zeros where the image ends. No thread computes an address. Who needs a stage waits at its mbarrier, which is told how many bytes will
 *           come and counts them; who has read it arrives at another, so that it can be filled again.
 * Change:   against 06c the copies: thread 0's, STAGES ahead. And one product stays at work while the next is asked for. The ring has
 *           four stages, one more, and so a multiprocessor holds one block of 128 x 128, not two.
 * Expect:   06c's threads spent half of their issue slots on copies; here the tensor cores wait for L2 alone, which every window crosses once for each of its
 *           nine taps: 32 KiB for 128 x 128 x 64 products, so 9.4 TB/s of L2 make 600 TFLOP/s. And thread 0 still waits with the others: 450.
 * Passes:   fprop. Layout: NHWC, filters KRSC, fp16 with fp32 sums. Channels: a multiple of 8, with groups of 64 a group. */
#include "06_tensorcore_fp16/maps.h"
#include "06_tensorcore_fp16/stages.cuh"

static constexpr int BM = 128, STAGES = 4, WGMMA_M = 64;

/* Asks for a stage's products: [BM] rows of pixels, then [BN] rows of filters. The first ones of all do not add to what was there. */
template <int BN, bool FIRST> static __device__ __forceinline__ void multiply(float (&sum)[BM / WGMMA_M][BN / 2], ptx_shared stage) {
  const ptx_shared a = stage, b = stage + BM * ROW;
  ptx_wgmma_fence();
#pragma unroll
  for (int l = 0; l < CHUNKS; l += 2) /* 16 channels */
#pragma unroll
    for (int i = 0; i < BM / WGMMA_M; i++) {
      const unsigned long long pixels = ptx_wgmma_descriptor(a + i * WGMMA_M * ROW + l * 16, 16, 8 * ROW, PTX_SWIZZLE_128);
      const unsigned long long filters = ptx_wgmma_descriptor(b + l * 16, 16, 8 * ROW, PTX_SWIZZLE_128);
      if (FIRST && l == 0) ptx_wgmma<0, 0, 0>(sum[i], pixels, filters);
      else ptx_wgmma(sum[i], pixels, filters);
    }
  ptx_wgmma_commit();
}

/* A block: BM pixels, counted over all images, x BN filters of a group. */
template <int BN>
__global__ void __launch_bounds__(THREADS, 1)
    tma_kernel(conv_problem p, const __grid_constant__ CUtensorMap windows, const __grid_constant__ CUtensorMap filter_tiles, __half *__restrict__ y) {
  constexpr int STAGE = (BM + BN) * ROW;
  extern __shared__ __align__(1024) unsigned char shared[];
  __shared__ unsigned long long full[STAGES];  /* a stage's bytes are there */
  __shared__ unsigned long long empty[STAGES]; /* nobody reads them any more */
  const ptx_shared stages = ptx_shared_address(shared), full_at = ptx_shared_address(full), empty_at = ptx_shared_address(empty);
  const int group_c = p.C / p.groups, group_k = p.K / p.groups, tiles_k = (group_k + BN - 1) / BN, image = p.P * p.Q;
  const int group = blockIdx.x / tiles_k % p.groups, first_k = blockIdx.x % tiles_k * BN, first_pixel = blockIdx.x / tiles_k / p.groups * BM;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, parts_c = (group_c + BK - 1) / BK, steps = p.R * p.S * parts_c;
  if (threadIdx.x == 0) {
    for (int i = 0; i < STAGES; i++) ptx_mbarrier_init(full_at + 8 * i, 1), ptx_mbarrier_init(empty_at + 8 * i, THREADS / 32);
    ptx_fence_mbarrier_init();
  }
  __syncthreads(); /* barriers are there */

  /* Thread 0: the next step of the reduction, one tap and 64 channels, to its stage. Taps are counted, not divided: all wait for this thread. */
  const int n = first_pixel / image, in_h = first_pixel / p.Q % p.P * p.stride_h - p.pad_top, in_w = first_pixel % p.Q * p.stride_w - p.pad_left;
  place at = {0, 0, 0};
  auto load = [&](int stage) {
    const ptx_shared a = stages + stage * STAGE;
    ptx_mbarrier_arrive_expect_tx(full_at + 8 * stage, STAGE);
    ptx_tensor_load_im2col(a, &windows, {group * group_c + at.c, in_w, in_h, n}, {(unsigned short)(at.s * p.dil_w), (unsigned short)(at.r * p.dil_h)},
                           full_at + 8 * stage);
    ptx_tensor_load(a + BM * ROW, &filter_tiles, {at.c, at.r * p.S + at.s, group * group_k + first_k}, full_at + 8 * stage);
    at.c += BK;
    if (at.c < group_c) return;
    at.c = 0, at.s++;
    if (at.s == p.S) at.s = 0, at.r++;
  };

  float sum[BM / WGMMA_M][BN / 2];
  if (threadIdx.x == 0)
    for (int step = 0; step < STAGES && step < steps; step++) load(step);
  ptx_mbarrier_wait(full_at, 0);
  multiply<BN, true>(sum, stages);
  for (int step = 1; step < steps; step++) {
    const int stage = step % STAGES, before = (step - 1) % STAGES;
    ptx_mbarrier_wait(full_at + 8 * stage, step / STAGES & 1);
    multiply<BN, false>(sum, stages + stage * STAGE);
    ptx_wgmma_wait<1>(); /* the step before is done: its stage can be filled again */
    if (lane == 0) ptx_mbarrier_arrive(empty_at + 8 * before);
    if (threadIdx.x == 0 && step - 1 + STAGES < steps) {
      ptx_mbarrier_wait(empty_at + 8 * before, (step - 1) / STAGES & 1);
      load(before);
    }
  }
  ptx_wgmma_wait<0>();
  __syncthreads(); /* nobody reads a stage any more */

#pragma unroll
  for (int i = 0; i < BM / WGMMA_M; i++)
#pragma unroll
    for (int j = 0; j < BN / 2; j += 2) /* two neighbours; of row lane / 4, or 8 below */
      put_results<BN>(shared, i * WGMMA_M + 16 * warp + lane / 4 + j / 2 % 2 * 8, j / 4 * 8 + lane % 4 * 2, sum[i][j], sum[i][j + 1]);
  __syncthreads();
  store_results<BM, BN>(p, shared, y + group * group_k + first_k, first_pixel, group_k - first_k);
}

/* ---------------------------------------------------------------- host */

typedef struct instance {
  int bn;
  void (*kernel)(conv_problem p, CUtensorMap windows, CUtensorMap filter_tiles, __half *y);
} instance;

static const instance instances[] = {{64, tma_kernel<64>}, {128, tma_kernel<128>}};

typedef struct tma_plan {
  CUtensorMap windows, filter_tiles;
  const instance *row;
  int blocks, shared;
} tma_plan;

static const char *plan_fprop(const conv_operation *o, const conv_device *device, conv_plan *plan) {
  const conv_problem *p = &o->problem;
  if (device->arch / 10 != 9) return "wgmma: only compute capability 9.0 has it";
  if (p->C / p->groups % (p->groups > 1 ? BK : CHUNK) != 0) return p->groups > 1 ? "channels of a group are no multiple of 64" : "C is no multiple of 8";
  const char *why = plain_unsupported(p, device);
  if (why) return why;
  const int group_k = p->K / p->groups, bn = group_k > 64 ? 128 : 64, pixels = p->N * p->P * p->Q, shared = STAGES * (BM + bn) * ROW;
  const int64_t blocks = (int64_t)((pixels + BM - 1) / BM) * p->groups * ((group_k + bn - 1) / bn);
  if (blocks > INT_MAX) return "2^31 blocks or more";
  tma_plan *mine = plan_data<tma_plan>(plan);
  why = map_windows(plan, &mine->windows, p, BK, BM);
  if (!why) why = map_filters(plan, &mine->filter_tiles, p, bn);
  if (why) return why;
  mine->row = instances, mine->blocks = (int)blocks, mine->shared = shared;
  while (mine->row->bn != bn) mine->row++; /* there is one */
  snprintf(plan->words, sizeof plan->words, "%d pixels x %d filters, %lld block%s", BM, bn, (long long)blocks, blocks == 1 ? "" : "s");
  const cudaError_t status = plan_allow_shared((const void *)mine->row->kernel, (size_t)shared);
  return status ? plan_failed(plan, status) : NULL;
}

static cudaError_t launch_fprop(const conv_plan *plan, const conv_buffers *b, cudaStream_t stream) {
  const tma_plan *mine = plan_data<tma_plan>(plan);
  CUtensorMap windows, filter_tiles;
  cudaError_t status = map_at(&windows, &mine->windows, b->x);
  if (!status) status = map_at(&filter_tiles, &mine->filter_tiles, b->w);
  if (status) return status;
  mine->row->kernel<<<mine->blocks, THREADS, mine->shared, stream>>>(plan->operation.problem, windows, filter_tiles, (__half *)b->y);
  return cudaGetLastError();
}

/* An accumulator takes one product after the other, which adds 16 products and what it was; zeros past the channels, too. */
static double growth_fprop(const conv_problem *p, bool random) {
  const int steps = p->R * p->S * ((p->C / p->groups + BK - 1) / BK);
  return growth_truncated((double)(steps * (BK / 16) * (16 + 1)), random);
}

NHWC_ROW(tma_fprop, "06d", "windows by the copy engine, im2col, and mbarriers", PASS_FPROP, 90, plan_fprop, launch_fprop, growth_fprop);
