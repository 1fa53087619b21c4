/* 06r: the filter gradient of depthwise layers on tensor cores.
 *
 * Terms:    tensor cores, mma.sync, ldmatrix.
 * Idea:     for one tap, dw of 8 channels is the diagonal of the product x^T dy, [8 channels][pixels] times [pixels][8 channels]. Seven eighths of
 *           that product is of no use, but an mma.sync computes it faster than FMAs compute the diagonal alone, and the fragments come
 *           out of NHWC pixels as they lie: ldmatrix.trans turns 16 pixels of 8 channels into a fragment, and a tap's shift is an address.
 * Change:   against 04i a warp has 8 channels and 16 pixels at a time. R rows of dy and S shifts of a row of x are R + S fragments, and they meet in
 *           R x S products: two rows of dy are the 16 rows of an mma's first factor, one shift of x the 8 columns of the second (where a row
 *           is left over, two shifts of x and that row). Rows of x and dy come by cp.async, STAGES steps ahead of the arithmetic.
 * Expect:   the way from memory, x and dy once, for 3x3 and 5x5. 7x7: 25 mma for 16 pixels of 8 channels, which a warp can issue one every 6 cycles:
 *           about one and a half times as long.
 * Sizes:    3x3, 5x5, 7x7 with stride 1 or 2, no dilation. C = K = groups, a multiple of 8. Others: 04i.
 *           Zeros of padding take part: an infinity in x or dy may become NaN in other taps of its channel.
 * Passes:   wgrad. Layout: NHWC, filters KRSC, fp16 with fp32 sums. */
#include <cuda_fp16.h>
#include <cuda_pipeline.h>
#include <cuda_runtime.h>
#include <stdio.h>

#include "04_constant_filter/depthwise.h"
#include "06_tensorcore_fp16/tensor_wgrad_plan.cuh"
#include "common/harness/launch.h"
#include "common/ptx/ptx.cuh"

/* d[upper, then lower channels][channels] += (upper, lower)^T right, over 16 pixels or the first 8 */
template <bool EIGHT>
static __device__ __forceinline__ void multiply(float (&d)[4], const unsigned (&upper)[2], const unsigned (&lower)[2], const unsigned (&right)[2]) {
  const unsigned left[4] = {upper[0], lower[0], upper[1], lower[1]};
  if (EIGHT) ptx_mma_m16n8k8(d, left, right);
  else ptx_mma_m16n8k16(d, left, right);
}

/* The fragments of one group of pixels, and all products of rows of dy and shifts of x. A fragment: [16 pixels][8 channels], 2 registers. Two are
 * loaded at a time, by lanes that point to their 32 pixels.
 * dy_rows[k / 2]: to rows t - k and t - k - 1 of dy, in the order in which an mma's first factor has them; or to a last row t - k alone.
 * x_pixel: to row t * STRIDE of x; lanes 16..31 to the shift after that of lanes 0..15, which is `to_next` bytes on. */
template <int SIZE, int STRIDE, int PITCH, bool EIGHT, int PRODUCTS>
static __device__ __forceinline__ void multiply_group(float (&sum)[PRODUCTS][4], const ptx_shared *dy_rows, ptx_shared x_pixel, int dy_offset, int x_bytes,
                                                      int to_next, bool second) {
  constexpr int FLIGHT = flight(SIZE, STRIDE);
  constexpr int TWO = STRIDE == 1 ? 2 : 1, LAST = (SIZE - 1) / 2 * TWO; /* slots to the next two shifts, to the last shift */
  unsigned gradient[FLIGHT + 1][2], d[4];
#pragma unroll
  for (int k = 0; k + 1 < FLIGHT; k += 2) {
    ptx_ldmatrix_x4_trans(d, dy_rows[k / 2] + dy_offset);
    gradient[k][0] = d[0], gradient[k + 1][0] = d[1], gradient[k][1] = d[2], gradient[k + 1][1] = d[3];
  }
#pragma unroll
  for (int row = 0; row < STRIDE; row++) { /* row t * STRIDE + row of x */
    const ptx_shared from = x_pixel + row * x_bytes, last = from + LAST * PITCH - (second ? to_next : 0);
    unsigned shifted[SIZE + 1][2];     /* from column s on */
    if (row == 0 && FLIGHT % 2 == 1) { /* the last row of dy and the last shift */
      ptx_ldmatrix_x4_trans(d, second ? last : dy_rows[FLIGHT / 2] + dy_offset);
      gradient[FLIGHT - 1][0] = d[0], gradient[FLIGHT - 1][1] = d[1];
    } else {
      ptx_ldmatrix_x4_trans(d, last);
    }
    shifted[SIZE - 1][0] = shifted[SIZE][0] = d[2], shifted[SIZE - 1][1] = shifted[SIZE][1] = d[3];

    const int count = filter_rows(SIZE, STRIDE, row), at = row * products(SIZE, filter_rows(SIZE, STRIDE, 0));
#pragma unroll
    for (int s = 0; s < SIZE; s++) {
      if (s % 2 == 0 && s + 1 < SIZE) {
        ptx_ldmatrix_x4_trans(d, from + s / 2 * TWO * PITCH);
        shifted[s][0] = d[0], shifted[s][1] = d[1], shifted[s + 1][0] = d[2], shifted[s + 1][1] = d[3];
      }
#pragma unroll
      for (int k = 0; k + 1 < count; k += 2) multiply<EIGHT>(sum[at + k / 2 * SIZE + s], gradient[k], gradient[k + 1], shifted[s]);
      if (count % 2 == 1 && s % 2 == 0) multiply<EIGHT>(sum[at + count / 2 * SIZE + s / 2], shifted[s], shifted[s + 1], gradient[count - 1]);
    }
  }
}

/* A lane's sums of the diagonals, row g (and g + 8) of each product, to parts[tap][channels]. */
template <int SIZE, int STRIDE, int PRODUCTS>
static __device__ __forceinline__ void store_diagonals(const float (&sum)[PRODUCTS][4], float *to, int channels, int g) {
  constexpr int EVEN = products(SIZE, filter_rows(SIZE, STRIDE, 0));
#pragma unroll
  for (int d = 0; d < STRIDE; d++) {
    const int count = filter_rows(SIZE, STRIDE, d);
#pragma unroll
    for (int k = 0; k < count; k++)
#pragma unroll
      for (int s = 0; s < SIZE; s++) {
        const bool paired = k + 1 < count || count % 2 == 0;
        const float(&product)[4] = sum[d * EVEN + k / 2 * SIZE + (paired ? s : s / 2)];
        const int half = (paired ? k : s) % 2 * 2;
        to[((k * STRIDE + d) * SIZE + s) * channels] = g % 2 ? product[half + 1] : product[half];
      }
  }
}

/* place[image][column of dy] = where x under it lies at tap 0, in bytes from the start of a row. */
template <int PITCH> static __device__ __forceinline__ void find_places(const wgrad_plan &plan, int *place) {
  for (int i = threadIdx.x; i < plan.groups * GROUP; i += blockDim.x) {
    const int pixel = min(i, plan.pixels - 1);
    place[i] = (pixel / plan.columns * plan.image_pitch + pixel % plan.columns) * PITCH;
  }
}

/* Zeros in the columns of padding of all rows of x, which stay for a walk. */
template <int STRIDE, int PITCH>
static __device__ __forceinline__ void clear_padding(const conv_problem &p, const wgrad_plan &plan, uint4 *x_ring, int first_image, int copy_pixel,
                                                     int copy_octet, int odd) {
  for (int pixel = copy_pixel; pixel < plan.images * plan.width; pixel += 32) {
    const int in_row = pixel / plan.width, column = pixel % plan.width, image = first_image + in_row;
    const int w = image % plan.tiles * plan.columns * STRIDE - p.pad_left + column;
    const int to = (in_row * plan.image_pitch + column / STRIDE) * PITCH + column % STRIDE * odd;
    if (w < 0 || w >= p.W || image / plan.tiles >= p.N)
      for (int slot = 0; slot < (STAGES + 1) * STRIDE; slot++) x_ring[(slot * plan.x_bytes + to) / 16 + copy_octet] = make_uint4(0, 0, 0, 0);
  }
}

/* What a thread copies of x: from where in row h, to where in a row of the ring. */
template <int STRIDE, int PITCH, int COPIES>
static __device__ __forceinline__ void find_x(const conv_problem &p, const wgrad_plan &plan, int (&from)[COPIES], int (&to)[COPIES], bool (&wanted)[COPIES],
                                              int first_image, int h, int copy_pixel, int copy_octet, int copy_channel, int odd) {
#pragma unroll
  for (int i = 0; i < COPIES; i++) {
    const int pixel = copy_pixel + 32 * i, in_row = pixel / plan.real, image = first_image + in_row, n = min(image / plan.tiles, p.N - 1);
    const int first_w = image % plan.tiles * plan.columns * STRIDE - p.pad_left;
    const int w = min(max(first_w, 0), p.W - plan.real) + pixel % plan.real, column = w - first_w;
    wanted[i] = in_row < plan.images && image / plan.tiles < p.N && column >= 0 && column < plan.width && copy_channel < p.C;
    from[i] = ((n * p.H + h) * p.W + w) * p.C + copy_channel;
    to[i] = (in_row * plan.image_pitch + column / STRIDE) * PITCH + column % STRIDE * odd + copy_octet * 16;
  }
}

/* What a thread copies of dy: from where in row `row`. Zeros that stay, where nothing is copied. */
template <int PITCH, int SLOTS, int COPIES>
static __device__ __forceinline__ void find_dy(const conv_problem &p, const wgrad_plan &plan, int (&from)[COPIES], bool (&wanted)[COPIES], uint4 *shared,
                                               int dy_ring, int first_image, int row, int copy_pixel, int copy_octet, int copy_channel) {
#pragma unroll
  for (int i = 0; i < COPIES; i++) {
    const int pixel = copy_pixel + 32 * i, image = first_image + pixel / plan.columns;
    const int n = min(image / plan.tiles, p.N - 1), q = image % plan.tiles * plan.columns + pixel % plan.columns;
    wanted[i] = pixel < plan.pixels && image / plan.tiles < p.N && q < p.Q && copy_channel < p.C;
    from[i] = ((n * p.P + row) * p.Q + q) * p.C + copy_channel;
    if (!wanted[i] && pixel < plan.groups * GROUP)
      for (int slot = 0; slot < SLOTS; slot++) shared[(dy_ring + slot * plan.dy_bytes + pixel * PITCH) / 16 + copy_octet] = make_uint4(0, 0, 0, 0);
  }
}

/* parts[part][tap][channel]. A block: one part of octets x 8 channels; a warp: 8 of them. x and dy without __restrict__: they may be written until the
 * kernel before has ended. */
template <int SIZE, int STRIDE, int OCTETS>
__global__ void __launch_bounds__(32 * OCTETS, resident_blocks(SIZE, STRIDE, OCTETS))
    tensor_wgrad_kernel(conv_problem p, wgrad_plan plan, const __half *x, const __half *dy, float *__restrict__ parts) {
  constexpr int FLIGHT = flight(SIZE, STRIDE), X_SLOTS = STAGES + 1, DY_SLOTS = STAGES + FLIGHT, PITCH = pitch_of(OCTETS);
  constexpr int DY_COPIES = MOST_PIXELS / 32, X_COPIES = STRIDE * DY_COPIES;
  constexpr int EVEN = products(SIZE, filter_rows(SIZE, STRIDE, 0)), ODD = STRIDE == 2 ? products(SIZE, filter_rows(SIZE, STRIDE, 1)) : 0;
  constexpr int PRODUCTS = EVEN + ODD;
  extern __shared__ uint4 shared[];
  if (threadIdx.x == 0) ptx_griddepcontrol_launch_dependents(); /* the next kernel may begin */
  const int x_step = STRIDE * plan.x_bytes, x_ring_bytes = X_SLOTS * x_step, dy_ring_bytes = DY_SLOTS * plan.dy_bytes;
  const ptx_shared x_ring = ptx_shared_address(shared), dy_ring = x_ring + x_ring_bytes; /* [X_SLOTS][STRIDE], [DY_SLOTS][image][column][channel] */
  int *place = (int *)(shared + (x_ring_bytes + dy_ring_bytes) / 16); /* [image][column of dy]: of x at tap 0, in bytes from the start of a row */

  const int chunk = blockIdx.x % plan.chunks, part = blockIdx.x / plan.chunks, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int channel = (chunk * OCTETS + warp) * OCTET;
  const int odd = plan.images * plan.image_pitch * PITCH; /* stride 2: odd columns of x lie behind the even ones */
  const int copy_octet = threadIdx.x % OCTETS, copy_pixel = threadIdx.x / OCTETS, copy_channel = (chunk * OCTETS + copy_octet) * OCTET;
  const int first_walk = (int)((int64_t)plan.walks * part / plan.parts), end_walk = (int)((int64_t)plan.walks * (part + 1) / plan.parts);

  /* ldmatrix: matrices 0..3 are lanes' eighths. x: pixels 0..7 and 8..15, then the same one shift on. dy: pixels 0..7 of two rows, then 8..15. */
  const bool second = lane >= 16, second_row = lane / 8 % 2 == 1;
  const int to_next = STRIDE == 1 ? PITCH : odd;

  find_places<PITCH>(plan, place);
  float sum[PRODUCTS][4] = {};
  for (int walk = first_walk; walk < end_walk; walk++) {
    const int first_image = walk / plan.strips * plan.images, first_p = walk % plan.strips * plan.strip, rows = min(plan.strip, p.P - first_p);
    const int first_h = first_p * STRIDE - p.pad_top; /* of x, at step 0; step t: row t of dy, rows t * STRIDE and on of x */
    const int first_step = first_h < 0 ? min(-first_h / STRIDE, FLIGHT - 1 + rows) : 0;
    const int steps = min(rows + FLIGHT - 1, (p.H - 1 - first_h + STRIDE) / STRIDE) - first_step;
    __syncthreads(); /* nobody is in the walk before */

    /* What this thread copies: from where in the row of the next copy, to where in a row of the ring. */
    int x_from[X_COPIES], x_to[X_COPIES], dy_from[DY_COPIES];
    int copied = first_step, copied_row = first_step - (FLIGHT - 1), copy_x_at = 0, copy_dy_at = 0;
    bool x_wanted[X_COPIES], dy_wanted[DY_COPIES];
    find_x<STRIDE, PITCH>(p, plan, x_from, x_to, x_wanted, first_image, first_h + first_step * STRIDE, copy_pixel, copy_octet, copy_channel, odd);
    find_dy<PITCH, DY_SLOTS>(p, plan, dy_from, dy_wanted, shared, x_ring_bytes, first_image, first_p + copied_row, copy_pixel, copy_octet, copy_channel);
    clear_padding<STRIDE, PITCH>(p, plan, shared, first_image, copy_pixel, copy_octet, odd);
    const auto copy_dy = [&] {
      const bool zeros = copied_row < 0 || copied_row >= rows;
#pragma unroll
      for (int i = 0; i < DY_COPIES; i++) {
        if (dy_wanted[i]) ptx_cp_async_16(dy_ring + copy_dy_at + (copy_pixel + 32 * i) * PITCH + copy_octet * 16, dy + dy_from[i], zeros);
        dy_from[i] += p.Q * p.C;
      }
      copied_row++;
      if ((copy_dy_at += plan.dy_bytes) == dy_ring_bytes) copy_dy_at = 0;
    };
    const auto copy_step = [&] {
      if (copied < first_step + steps) {
        copy_dy();
#pragma unroll
        for (int row = 0; row < STRIDE; row++) {
          const int h = first_h + copied * STRIDE + row;
#pragma unroll
          for (int i = 0; i < X_COPIES; i++) {
            if (x_wanted[i]) ptx_cp_async_16(x_ring + copy_x_at + row * plan.x_bytes + x_to[i], x + x_from[i], h < 0 || h >= p.H);
            x_from[i] += p.W * p.C;
          }
        }
        if ((copy_x_at += x_step) == x_ring_bytes) copy_x_at = 0;
      }
      __pipeline_commit();
      copied++;
    };
    if (walk == first_walk) ptx_griddepcontrol_wait(); /* what the kernel before wrote is there */
    for (int k = 0; k < FLIGHT - 1; k++) copy_dy();
    for (int i = 0; i < STAGES; i++) copy_step();

    ptx_shared x_row = x_ring + warp * 16 + (second ? to_next : 0), dy_rows[(FLIGHT + 1) / 2]; /* as multiply_group wants them */
#pragma unroll
    for (int k = 0; k < FLIGHT; k += 2) {
      const bool pair = k + 1 < FLIGHT;
      const int row = FLIGHT - 1 - k - (pair && second_row ? 1 : 0), pixel = pair ? lane % 8 + lane / 16 * 8 : lane % 16;
      dy_rows[k / 2] = dy_ring + row * plan.dy_bytes + pixel * PITCH + warp * 16;
    }
    for (int step = 0; step < steps; step++) {
      __pipeline_wait_prior(STAGES - 1);
      __syncthreads(); /* this step's rows are there, and nobody is in the step before: its slot of x is free */
      copy_step();
      if (channel < p.C) {
        int left = plan.pixels, dy_offset = 0;
        const int *x_place = place + lane % 16;
#pragma unroll(SIZE + STRIDE == 4 ? 2 : 1)
        for (; left > 8; left -= GROUP, dy_offset += GROUP * PITCH, x_place += GROUP)
          multiply_group<SIZE, STRIDE, PITCH, false>(sum, dy_rows, x_row + *x_place, dy_offset, plan.x_bytes, to_next, second);
        if (left > 0) multiply_group<SIZE, STRIDE, PITCH, true>(sum, dy_rows, x_row + *x_place, dy_offset, plan.x_bytes, to_next, second);
      }
      if ((x_row += x_step) >= dy_ring) x_row -= x_ring_bytes;
#pragma unroll
      for (int k = 0; k < FLIGHT; k += 2)
        if ((dy_rows[k / 2] += plan.dy_bytes) >= dy_ring + dy_ring_bytes) dy_rows[k / 2] -= dy_ring_bytes;
    }
  }

  /* The diagonals: lane 4 g + t has row g (and g + 8) and columns 2t and 2t + 1 of each product. */
  const int g = lane / 4;
  if (lane % 4 != g / 2 || channel >= p.C) return;
  store_diagonals<SIZE, STRIDE>(sum, parts + (int64_t)part * SIZE * SIZE * p.C + channel + g, p.C, g);
}

/* dw[channel][tap]: a block adds up all parts of 32 channels of one tap, blockDim.y parts at a time. parts without __restrict__: they are written
 * after this kernel has begun. */
__global__ void __launch_bounds__(32 * SUM_LANES) sum_wgrad_parts_kernel(int channels, int taps, int part_count, const float *parts, __half *dw) {
  __shared__ float shared[SUM_LANES][32];
  if (threadIdx.x == 0 && threadIdx.y == 0) ptx_griddepcontrol_launch_dependents(); /* the next kernel may begin */
  const int tap = blockIdx.x % taps, channel = blockIdx.x / taps * 32 + threadIdx.x;
  float sum = 0;
  ptx_griddepcontrol_wait(); /* the parts are there */
  if (channel < channels)
    for (int part = threadIdx.y; part < part_count; part += blockDim.y) sum += parts[((int64_t)part * taps + tap) * channels + channel];
  shared[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y > 0 || channel >= channels) return;
  for (int lane = 1; lane < blockDim.y; lane++) sum += shared[lane][threadIdx.x];
  dw[channel * taps + tap] = __float2half_rn(sum);
}

/* ---------------------------------------------------------------- host */

typedef void (*tensor_wgrad_t)(conv_problem p, wgrad_plan plan, const __half *x, const __half *dy, float *parts);

/* The kernels: size of the filter, stride, octets of a block. */
typedef struct tensor_wgrad_row {
  int size, stride, octets;
  tensor_wgrad_t kernel;
} tensor_wgrad_row;
static const tensor_wgrad_row table[] = {
    {3, 1, 4, tensor_wgrad_kernel<3, 1, 4>}, {3, 1, 6, tensor_wgrad_kernel<3, 1, 6>}, {3, 2, 4, tensor_wgrad_kernel<3, 2, 4>},
    {3, 2, 6, tensor_wgrad_kernel<3, 2, 6>}, {5, 1, 4, tensor_wgrad_kernel<5, 1, 4>}, {5, 2, 4, tensor_wgrad_kernel<5, 2, 4>},
    {7, 1, 4, tensor_wgrad_kernel<7, 1, 4>}, {7, 2, 4, tensor_wgrad_kernel<7, 2, 4>},
};

/* What a launch needs. */
typedef struct tensor_wgrad_launch {
  tensor_wgrad_t kernel;
  wgrad_plan work;
  int lanes; /* of the sum of the parts */
  bool early;
} tensor_wgrad_launch;

static const char *plan_wgrad(const conv_operation *o, const conv_device *device, conv_plan *plan) {
  const conv_problem *p = &o->problem;
  if (p->C != p->groups || p->K != p->groups) return "not depthwise: C, K and groups differ";
  if (p->C % OCTET != 0) return "C is no multiple of 8";
  tensor_wgrad_launch *l = plan_data<tensor_wgrad_launch>(plan);
  for (const tensor_wgrad_row &row : table)
    if (is_square(p, row.size, row.stride) && row.octets == octets_of(p)) l->kernel = row.kernel;
  if (!l->kernel) return "not 3x3, 5x5 or 7x7 with stride 1 or 2 and no dilation";
  const wgrad_plan work = l->work = make_plan(p);
  if (work.shared > (int64_t)device->shared_per_block) return "the rows in flight do not fit in shared memory";
  const char *why = plain_plan(o, device, plan);
  if (why) return why;
  l->lanes = work.parts / 4 < 1 ? 1 : work.parts / 4 > SUM_LANES ? SUM_LANES : work.parts / 4;
  plan->workspace_bytes = (size_t)work.parts * (size_t)p->C * (size_t)(p->R * p->S) * sizeof(float);
  snprintf(plan->words, sizeof plan->words, "%d channels a block, tiles of %d columns, %d at a time, %d parts", OCTET * work.octets, work.columns, work.images,
           work.parts);
  cudaError_t status = plan_allow_shared((const void *)l->kernel, (size_t)work.shared);
  if (!status) status = kernel_waits((const void *)l->kernel, &l->early);
  return status ? plan_failed(plan, status) : NULL;
}

static cudaError_t launch_wgrad(const conv_plan *plan, const conv_buffers *b, cudaStream_t stream) {
  const conv_problem &p = plan->operation.problem;
  const tensor_wgrad_launch *l = plan_data<tensor_wgrad_launch>(plan);
  const wgrad_plan &work = l->work;
  const __half *x = (const __half *)b->x, *dy = (const __half *)b->y;
  float *parts = (float *)b->workspace;
  const cudaError_t status = launch_kernel(
      {.grid = dim3(work.parts * work.chunks), .block = dim3(32 * work.octets), .shared = (size_t)work.shared, .stream = stream, .early = l->early}, l->kernel,
      p, work, x, dy, parts);
  if (status) return status;
  const int taps = p.R * p.S;
  const int blocks = taps * ((p.C + 31) / 32);
  return launch_kernel({.grid = dim3(blocks), .block = dim3(32, l->lanes), .stream = stream, .early = l->early}, sum_wgrad_parts_kernel, p.C, taps, work.parts,
                       parts, (__half *)b->w);
}

/* An accumulator takes one mma after the other, which adds 16 products and what it was; then the parts are added. */
static double growth_wgrad(const conv_problem *p, bool random) {
  const wgrad_plan t = make_plan(p);
  const double walks = (double)((t.walks + t.parts - 1) / t.parts);
  return growth_truncated(walks * (t.strip + flight(p->S, p->stride_h) - 1) * t.groups * (double)(GROUP + 1) + t.parts, random);
}

NHWC_ROW(tensor_wgrad, "06r", "depthwise, fp16: diagonals of tensor core products", PASS_WGRAD, 80, plan_wgrad, launch_wgrad, growth_wgrad);
