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
 * Parties:  L2 hands out more of what several blocks want at the same time. So tiles walk together, those of the same columns, or all: a party's blocks take the same
 *           stretch of pixels, each for its own tile, and neighbours in the grid are neighbours in the party.
 * Narrow:   where there are no more tiles than multiprocessors, b's columns may be five boxes of 32 channels: 160 of them, when 192 or 256 leave multiprocessors idle.
 * Outside:  a window's padding is zero, and so is all past the last pixel, in x and in dy.
 * Change:   against 06f a reduction over pixels and not over taps and channels, tiles that are shared, the second kernel; and as in 06j four producers that take
 *           turns. The ring, the roles and the early launch are the same; consumers need few registers, so none are handed over.
 * Expect:   (before anything ran on a GPU) mb16ic64ih56oc128oh56kh3ph1: three tiles of 128 filters x 3 taps, 18 steps a block of 40 KiB at 52 bytes a clock, 7.5 us;
 *           a launch and a first load 2 us, sums written 1 us, a second kernel that reads 13 MB out of L2 3 us: 13 to 14 us. Where x and dy are larger than L2, blocks
 *           that are in different places of different tiles read most of their boxes from memory: worse than 06f there.
 * Passes:   wgrad. Layout: NHWC, filters KRSC, fp16 with fp32 sums. Channels and filters: multiples of 8. No groups. */
#include "06_tensorcore_fp16/pixel_cut.h"
#include "common/harness/launch.h"

/* N: columns of a product. */
template <int N, int CHANNELS>
__global__ void __launch_bounds__(BLOCK, 1) pixels_kernel(conv_problem p, pixel_cut t, const __grid_constant__ CUtensorMap windows,
                                                          const __grid_constant__ CUtensorMap gradients, float4 *__restrict__ parts, __half *__restrict__ dw) {
  constexpr int X_BOX = PIXELS * box_row<CHANNELS>::BYTES;
  extern __shared__ __align__(1024) unsigned char shared[];
  __shared__ unsigned long long barriers[2 * MOST_STAGES];
  const ptx_shared stages = ptx_shared_address(shared);
  const ring r = {ptx_shared_address(barriers), ptx_shared_address(barriers + MOST_STAGES)};
  /* No minimum here: of the smallest of three numbers, one of them with another sign, nvcc 13.0 made a wrong instruction (docs/06_training.md). */
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
      const corner at = corner_of(t, party * t.party.by + member, 0);
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
        for (int box = 0; box < t.boxes; box++, to += X_BOX) {
          ptx_tensor_load_im2col(to, &windows, {of_x.c, in_w, in_h, n}, {(unsigned short)(of_x.s * p.dil_w), (unsigned short)(of_x.r * p.dil_h)}, full);
          if (at.box + box + 1 < t.all) of_x = next_step(p, of_x, p.C, CHANNELS); /* past the last box: the last again, for nobody */
        }
      }
    }
    return;
  }

  ptx_bar_sync(1, BLOCK);
  ptx_griddepcontrol_wait();
  const int me = role - 1; /* of the consumers */
  const ptx_shared a = stages + me * t.filters_apart * ROW, b = stages + t.filters * ROW + me * t.boxes_apart * X_BOX;
  const bool first_lane = threadIdx.x % 32 == 0;
  for (int party = divide(first, t.steps), i = first; i < end; party++) {
    float sum[N / 2];
    int before = s.stage;
    ptx_mbarrier_wait(r.full + 8 * s.stage, s.parity);
    multiply_pixels<true, CHANNELS>(sum, a + s.stage * t.stage, b + s.stage * t.stage);
    i++, s = next_slot(s, t.stages);
    for (const int stop = min(end, (party + 1) * t.steps.by); i < stop; i++, s = next_slot(s, t.stages)) {
      ptx_mbarrier_wait(r.full + 8 * s.stage, s.parity);
      multiply_pixels<false, CHANNELS>(sum, a + s.stage * t.stage, b + s.stage * t.stage);
      ptx_wgmma_wait<1>(); /* the step before is done */
      if (first_lane) ptx_mbarrier_arrive(r.empty + 8 * before);
      before = s.stage;
    }
    ptx_wgmma_wait<0>();
    if (first_lane) ptx_mbarrier_arrive(r.empty + 8 * before);

    leave_sums<N, CHANNELS>(p, t, sum, corner_of(t, party * t.party.by + member, 0), me, piece_of(t, unit, party, member, 0, me), parts, dw);
  }
}

/* ---------------------------------------------------------------- host */

typedef struct pixels_plan {
  CUtensorMap windows, gradients;
  pixel_cut cut;
  int lanes;
} pixels_plan;

typedef void (*pixels_t)(conv_problem p, pixel_cut t, CUtensorMap windows, CUtensorMap gradients, float4 *parts, __half *dw);
static const pixels_t instances[] = {pixels_kernel<WIDE, WIDE>, pixels_kernel<2 * WIDE, WIDE>, pixels_kernel<3 * WIDE, WIDE>, pixels_kernel<4 * WIDE, WIDE>,
                                     pixels_kernel<5 * NARROW, NARROW>}; /* by n - 1; five boxes are narrow ones (pixel_shapes) */

static const char *plan_wgrad(const conv_operation *o, const conv_device *device, conv_plan *plan) {
  const conv_problem *p = &o->problem;
  if (device->arch / 10 != 9) return "wgmma: only compute capability 9.0 has it";
  if (p->groups > 1) return "groups";
  if (p->C % CHUNK != 0 || p->K % CHUNK != 0) return "C or K is no multiple of 8";
  const char *why = plain_unsupported(p, device);
  if (why) return why;
  pixels_plan *mine = plan_data<pixels_plan>(plan);
  const cuuint64_t size[2] = {(cuuint64_t)p->K, (cuuint64_t)p->N * p->P * p->Q};
  const cuuint32_t box[2] = {WIDE, PIXELS};
  pixel_cut *t = &mine->cut;
  if (best_cut(p, device->sm_count, NO_PAIR, NO_PAIR, t) == INFINITY) return "2^30 steps of 64 pixels or more, of all tiles together";
  why = map_windows(plan, &mine->windows, p, t->channels, PIXELS, FETCH);
  if (!why) why = map_tiles(plan, &mine->gradients, "dy", 2, size, box, FETCH);
  if (why) return why;
  t->stages = stages_of(t, device);
  mine->lanes = lanes_of(t);
  plan->workspace_bytes = (size_t)parts_bytes(t);
  snprintf(plan->words, sizeof plan->words, "%d filters x %d channels, %d part%s of %d tile%s, by %d blocks, %d stages", t->filters, t->boxes * t->channels,
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
  return launch_kernel({.grid = dim3(tiles_of(&t) * CONSUMERS * columns_of(&t) / 8), .block = dim3(THREADS, mine->lanes), .stream = stream, .early = true},
                       add_parts_kernel, p, t, (const float4 *)b->workspace, (__half *)b->w);
}

NHWC_ROW(dense_wgrad, "06l", "the reduction over all pixels, shared out evenly; both operands as they lie", PASS_WGRAD, 90, plan_wgrad, launch_wgrad,
         growth_of_pixels);
