/* 06c: four warps multiply as one: wgmma, operands by descriptor.
 *
 * Terms:    warpgroup, wgmma, matrix descriptor, asynchronous proxy.
 * Idea:     a warpgroup asks for a product of 64 pixels x BN filters x 16 channels, and the tensor cores read both from shared memory: no ldmatrix, no fragments
 *           of operands, and sums alone in registers. A descriptor says where a matrix begins, how far it is from eight rows to the next, and that its chunks
 *           are swizzled, as 06b's are: that swizzle is the hardware's. What threads copied is visible to the tensor cores after a fence between the proxies.
 * Change:   against 06b the product, and the fence. A stage's copies are 06b's (stages.cuh).
 * Expect:   tensor cores no longer wait for registers to be loaded. But all four warps wait for their products before the next stage, and all 128 threads copy;
 *           two blocks of a multiprocessor take turns: 450 TFLOP/s, and no less than 06b.
 * Passes:   fprop. Layout: NHWC, filters KRSC, fp16 with fp32 sums. Channels of a group: a multiple of 8. R + S up to 32. */
#include "06_tensorcore_fp16/stages.cuh"

static constexpr int BM = 128, STAGES = 3, WGMMA_M = 64;

/* A block: BM pixels, counted over all images, x BN filters of a group. */
template <int BN>
__global__ void __launch_bounds__(THREADS, 2) wgmma_kernel(conv_problem p, const __half *__restrict__ x, const __half *__restrict__ w, __half *__restrict__ y) {
  constexpr int STAGE = (BM + BN) * ROW;
  extern __shared__ __align__(1024) unsigned char shared[];
  const ptx_shared stages = ptx_shared_address(shared);
  const int group_c = p.C / p.groups, group_k = p.K / p.groups, tiles_k = (group_k + BN - 1) / BN;
  const int group = blockIdx.x / tiles_k % p.groups, first_k = blockIdx.x % tiles_k * BN, first_pixel = blockIdx.x / tiles_k / p.groups * BM;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, filters = group_k - first_k, steps = (p.R * p.S * group_c + BK - 1) / BK;
  x += group * group_c;
  w += (group * group_k + first_k) * p.R * p.S * group_c;
  copies<BM> c = copies_begin<BM>(p, first_pixel);

  float sum[BM / WGMMA_M][BN / 2] = {};
#pragma unroll
  for (int i = 0; i < STAGES - 1; i++) {
    copy_stage<BM, BN>(p, c, x, w, filters, stages + i * STAGE);
    __pipeline_commit();
  }
  for (int step = 0; step < steps; step++) {
    __pipeline_wait_prior(STAGES - 2);
    ptx_fence_proxy_async(); /* what this thread has copied, the tensor cores see */
    __syncthreads();         /* the stage is there; and nobody reads the one before it any more */
    copy_stage<BM, BN>(p, c, x, w, filters, stages + (step + STAGES - 1) % STAGES * STAGE);
    __pipeline_commit();
    const ptx_shared a = stages + step % STAGES * STAGE, b = a + BM * ROW;
    ptx_wgmma_fence();
#pragma unroll
    for (int l = 0; l < CHUNKS; l += 2) /* 16 channels */
#pragma unroll
      for (int i = 0; i < BM / WGMMA_M; i++)
        ptx_wgmma(sum[i], ptx_wgmma_descriptor(a + i * WGMMA_M * ROW + l * 16, 16, 8 * ROW, PTX_SWIZZLE_128),
                  ptx_wgmma_descriptor(b + l * 16, 16, 8 * ROW, PTX_SWIZZLE_128));
    ptx_wgmma_commit();
    ptx_wgmma_wait<0>();
  }

  __pipeline_wait_prior(0);
  __syncthreads(); /* nobody reads or fills a stage any more */
#pragma unroll
  for (int i = 0; i < BM / WGMMA_M; i++)
#pragma unroll
    for (int j = 0; j < BN / 2; j += 2) /* two neighbours; of row lane / 4, or 8 below */
      put_results<BN>(shared, i * WGMMA_M + 16 * warp + lane / 4 + j / 2 % 2 * 8, j / 4 * 8 + lane % 4 * 2, sum[i][j], sum[i][j + 1]);
  __syncthreads();
  store_results<BM, BN>(p, shared, y + group * group_k + first_k, first_pixel, filters);
}

/* ---------------------------------------------------------------- host */

typedef struct instance {
  int bn;
  void (*kernel)(conv_problem p, const __half *x, const __half *w, __half *y);
} instance;

static const instance instances[] = {{64, wgmma_kernel<64>}, {128, wgmma_kernel<128>}};

typedef struct wgmma_plan {
  const instance *row;
  int blocks, shared;
} wgmma_plan;

static const char *plan_fprop(const conv_operation *o, const conv_device *device, conv_plan *plan) {
  const conv_problem *p = &o->problem;
  if (device->arch / 10 != 9) return "wgmma: only compute capability 9.0 has it";
  if (p->C / p->groups % CHUNK != 0) return "channels of a group are no multiple of 8";
  const char *why = plain_unsupported(p, device);
  if (why) return why;
  if (p->R + p->S > 32) return "R + S > 32 (the bits of a window)";
  const int group_k = p->K / p->groups, bn = group_k > 64 ? 128 : 64, pixels = p->N * p->P * p->Q, shared = STAGES * (BM + bn) * ROW;
  const int64_t blocks = (int64_t)((pixels + BM - 1) / BM) * p->groups * ((group_k + bn - 1) / bn);
  if (blocks > INT_MAX) return "2^31 blocks or more";
  const instance *row = instances;
  while (row->bn != bn) row++; /* there is one */
  *plan_data<wgmma_plan>(plan) = {row, (int)blocks, shared};
  snprintf(plan->words, sizeof plan->words, "%d pixels x %d filters, %lld block%s", BM, bn, (long long)blocks, blocks == 1 ? "" : "s");
  const cudaError_t status = plan_allow_shared((const void *)row->kernel, (size_t)shared);
  return status ? plan_failed(plan, status) : NULL;
}

static cudaError_t launch_fprop(const conv_plan *plan, const conv_buffers *b, cudaStream_t stream) {
  const wgmma_plan *mine = plan_data<wgmma_plan>(plan);
  mine->row->kernel<<<mine->blocks, THREADS, mine->shared, stream>>>(plan->operation.problem, (const __half *)b->x, (const __half *)b->w, (__half *)b->y);
  return cudaGetLastError();
}

/* An accumulator takes one product after the other, which adds 16 products and what it was; the last stage's zeros, too. */
static double growth_fprop(const conv_problem *p, bool random) {
  const int steps = (p->R * p->S * (p->C / p->groups) + BK - 1) / BK;
  return growth_truncated((double)(steps * (BK / 16) * (16 + 1)), random);
}

NHWC_ROW(wgmma_fprop, "06c", "wgmma: a warpgroup multiplies out of shared memory", PASS_FPROP, 90, plan_fprop, launch_fprop, growth_fprop);
