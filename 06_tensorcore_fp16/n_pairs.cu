/* 06n: wgrad by pairs of blocks: what both want is asked for once.
 *
 * Terms:    cluster, multicast, distributed shared memory.
 * Idea:     of 06l's 24 KiB a step of 128 filters x 64 channels, products take 256 clocks; L2 takes longer to hand out so much to every multiprocessor, where each box
 *           is wanted by few. So two blocks are a cluster, with the same pixels and either the same channels and other filters, or the same filters and other
 *           channels. What is the same each of them loads by halves, 32 pixels, and for both (multicast): an instruction, two places in shared memory.
 * Ring:     a stage is full when all its bytes are there, whoever asked for them, and empty when both blocks have multiplied it: consumers tell both. Nobody leaves
 *           before the other has nothing to tell any more.
 * Change:   against 06l the cluster, and boxes of 32 pixels for what is shared.
 * Expect:   (before anything ran on a GPU) 1x1 of 512 and 2048 channels, 7 x 7 pixels, 32 images: 16 KiB a step and block for 24; 25 steps at 273 clocks for 410, 1.9 us
 *           less of 9, and 0.3 us more for the launch of clusters. Nothing where products decide.
 * Passes:   wgrad. Layout: NHWC, filters KRSC, fp16 with fp32 sums. Channels and filters: multiples of 8. No groups. */
#include "06_tensorcore_fp16/pixel_cut.h"
#include "common/harness/launch.h"

static constexpr int PAIR = 2, HALF = PIXELS / PAIR;
static constexpr unsigned short BOTH = 3 /* blocks, as bits */;

/* N: columns of a product. */
template <int N>
__global__ void __launch_bounds__(BLOCK, 1) pair_kernel(conv_problem p, pixel_cut t, const __grid_constant__ CUtensorMap windows,
                                                        const __grid_constant__ CUtensorMap gradients, float4 *__restrict__ parts, __half *__restrict__ dw) {
  extern __shared__ __align__(1024) unsigned char shared[];
  __shared__ unsigned long long barriers[2 * MOST_STAGES];
  const ptx_shared stages = ptx_shared_address(shared);
  const ring r = {ptx_shared_address(barriers), ptx_shared_address(barriers + MOST_STAGES)};
  /* No minimum here: of the smallest of three numbers, one of them with another sign, nvcc 13.0 made a wrong instruction (docs/06_training.md). */
  const int role = uniform(threadIdx.x / THREADS), rank = blockIdx.x % PAIR, unit = divide(blockIdx.x / PAIR, t.party),
            member = blockIdx.x / PAIR - unit * t.party.by, first = unit * t.each.by, end = unit + 1 < t.units ? first + t.each.by : t.total;
  if (threadIdx.x == 0) {
    ptx_griddepcontrol_launch_dependents(); /* the next kernel may begin */
    ptx_prefetch_tensormap(&windows), ptx_prefetch_tensormap(&gradients);
    ring_begin(r, t.stages, PAIR * CONSUMERS * THREADS / 32);
  }
  __syncwarp();
  ptx_cluster_arrive();
  ptx_cluster_wait(); /* both blocks' barriers are there */

  slot s = {0, 0};
  if (role == 0) {                        /* the producers, in turns */
    int turn = uniform(threadIdx.x / 32); /* steps until this warp's next */
    const bool shared_x = t.filters_next > 0;
    if (threadIdx.x % 32 != 0) return;
    ptx_griddepcontrol_wait(); /* what the kernel before wrote is there */
    for (int party = divide(first, t.steps), i = first; i < end; party++) {
      const corner at = corner_of(t, party * t.party.by + member, rank);
      const place first_place = place_of(p, t, at.box);
      for (const int stop = min(end, (party + 1) * t.steps.by); i < stop; i++, s = next_slot(s, t.stages)) {
        if (!my_turn(&turn)) continue;
        const int pixel = (i - party * t.steps.by) * PIXELS, half = rank * HALF, x_pixel = pixel + (shared_x ? half : 0), n = divide(x_pixel, t.image),
                  of_image = x_pixel - n * t.image.by, row = divide(of_image, t.row);
        const int in_w = (of_image - row * p.Q) * p.stride_w - p.pad_left, in_h = row * p.stride_h - p.pad_top;
        const ptx_shared full = r.full + 8 * s.stage;
        ptx_shared to = stages + s.stage * t.stage;
        ptx_mbarrier_wait(r.empty + 8 * s.stage, s.parity ^ 1);
        ptx_mbarrier_arrive_expect_tx(full, t.stage);
        for (int k = 0; k < t.filters; k += WIDE, to += BOX)
          if (shared_x) ptx_tensor_load(to, &gradients, {at.k + k, pixel}, full);
          else ptx_tensor_load_multicast(to + half * ROW, &gradients, {at.k + k, pixel + half}, full, BOTH);
        place of_x = first_place;
        for (int box = 0; box < t.boxes; box++, to += BOX) {
          const int from[4] = {of_x.c, in_w, in_h, n};
          const unsigned short tap[2] = {(unsigned short)(of_x.s * p.dil_w), (unsigned short)(of_x.r * p.dil_h)};
          if (!shared_x) ptx_tensor_load_im2col(to, &windows, from, tap, full);
          else ptx_tensor_load_im2col_multicast(to + half * ROW, &windows, from, tap, full, BOTH);
          if (at.box + box + 1 < t.all) of_x = next_step(p, of_x, p.C); /* past the last box: the last again, for nobody */
        }
      }
    }
    ptx_cluster_arrive();
    ptx_cluster_wait(); /* nobody tells this block anything any more */
    return;
  }

  ptx_griddepcontrol_wait();
  const int me = role - 1; /* of the consumers */
  const ptx_shared a = stages + me * t.filters_apart * ROW, b = stages + t.filters * ROW + me * t.boxes_apart * BOX;
  const int lane = threadIdx.x % 32;
  const ptx_shared empty = ptx_mapa(r.empty, lane % PAIR); /* a lane for each block */
  for (int party = divide(first, t.steps), i = first; i < end; party++) {
    float sum[N / 2];
    int before = s.stage;
    ptx_mbarrier_wait(r.full + 8 * s.stage, s.parity);
    multiply_pixels<true, WIDE>(sum, a + s.stage * t.stage, b + s.stage * t.stage);
    i++, s = next_slot(s, t.stages);
    for (const int stop = min(end, (party + 1) * t.steps.by); i < stop; i++, s = next_slot(s, t.stages)) {
      ptx_mbarrier_wait(r.full + 8 * s.stage, s.parity);
      multiply_pixels<false, WIDE>(sum, a + s.stage * t.stage, b + s.stage * t.stage);
      ptx_wgmma_wait<1>(); /* the step before is done */
      if (lane < PAIR) ptx_mbarrier_arrive_cluster(empty + 8 * before);
      before = s.stage;
    }
    ptx_wgmma_wait<0>();
    if (lane < PAIR) ptx_mbarrier_arrive_cluster(empty + 8 * before);

    leave_sums<N, WIDE>(p, t, sum, corner_of(t, party * t.party.by + member, rank), me, piece_of(t, unit, party, member, rank, me), parts, dw);
  }
  ptx_cluster_arrive();
  ptx_cluster_wait(); /* nobody tells this block anything any more */
}

/* ---------------------------------------------------------------- host */

typedef struct pair_plan {
  CUtensorMap windows, gradients;
  pixel_cut cut;
  int lanes;
} pair_plan;

typedef void (*pair_t)(conv_problem p, pixel_cut t, CUtensorMap windows, CUtensorMap gradients, float4 *parts, __half *dw);
static const pair_t instances[] = {pair_kernel<WIDE>, pair_kernel<2 * WIDE>, pair_kernel<3 * WIDE>, pair_kernel<4 * WIDE>}; /* by n - 1 */

static const char *plan_wgrad(const conv_operation *o, const conv_device *device, conv_plan *plan) {
  const conv_problem *p = &o->problem;
  if (device->arch / 10 != 9) return "wgmma: only compute capability 9.0 has it";
  if (p->groups > 1) return "groups";
  if (p->C % CHUNK != 0 || p->K % CHUNK != 0) return "C or K is no multiple of 8";
  if (device->sm_count < PAIR) return "one multiprocessor: a pair of blocks has two";
  const char *why = plain_unsupported(p, device);
  if (why) return why;
  pair_plan *mine = plan_data<pair_plan>(plan);
  pixel_cut *t = &mine->cut;
  if (best_cut(p, device->sm_count, SHARED_X, SHARED_DY, t) == INFINITY) return "2^30 steps of 64 pixels or more, of all tiles together";
  const bool shared_x = t->filters_next > 0;
  why = map_windows(plan, &mine->windows, p, WIDE, shared_x ? HALF : PIXELS, FETCH);
  const cuuint64_t size[2] = {(cuuint64_t)p->K, (cuuint64_t)p->N * p->P * p->Q};
  const cuuint32_t box[2] = {WIDE, (cuuint32_t)(shared_x ? PIXELS : HALF)};
  if (!why) why = map_tiles(plan, &mine->gradients, "dy", 2, size, box, FETCH);
  if (why) return why;
  t->stages = stages_of(t, device);
  mine->lanes = lanes_of(t);
  plan->workspace_bytes = (size_t)parts_bytes(t);
  snprintf(plan->words, sizeof plan->words, "shared %s, %d filters x %d channels, %d part%s of %d tile%s, %d blocks, %d stages", shared_x ? "x" : "dy",
           t->filters, t->boxes * WIDE, t->parties, t->parties == 1 ? "y" : "ies", t->party.by, t->party.by == 1 ? "" : "s", blocks_of(t), t->stages);
  const cudaError_t status = plan_allow_shared((const void *)instances[t->n - 1], (size_t)(t->stages * t->stage));
  return status ? plan_failed(plan, status) : NULL;
}

static cudaError_t launch_wgrad(const conv_plan *plan, const conv_buffers *b, cudaStream_t stream) {
  const pair_plan *mine = plan_data<pair_plan>(plan);
  const conv_problem &p = plan->operation.problem;
  const pixel_cut &t = mine->cut;
  CUtensorMap windows, gradients;
  cudaError_t status = map_at(&windows, &mine->windows, b->x);
  if (!status) status = map_at(&gradients, &mine->gradients, b->y);
  if (status) return status;
  status = launch_kernel(
      {.grid = dim3(blocks_of(&t)), .block = dim3(BLOCK), .shared = (size_t)(t.stages * t.stage), .stream = stream, .cluster = PAIR, .early = true},
      instances[t.n - 1], p, t, windows, gradients, (float4 *)b->workspace, (__half *)b->w);
  if (status || alone(t)) return status;
  return launch_kernel(
      {.grid = dim3(tiles_of(&t) * PAIR * CONSUMERS * columns_of(&t) / 8), .block = dim3(THREADS, mine->lanes), .stream = stream, .early = true},
      add_parts_kernel, p, t, (const float4 *)b->workspace, (__half *)b->w);
}

NHWC_ROW(pair_wgrad, "06n", "06l by pairs of blocks: what both want is asked for once", PASS_WGRAD, 90, plan_wgrad, launch_wgrad, growth_of_pixels);
