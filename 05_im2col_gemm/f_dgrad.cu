/* 05f: the gradient of the image, as a matrix product for every residue of the stride.
 *
 *     dx[n,c,h,w] = sum over k,r,s of w[k,c,r,s] * dy[n,k,p,q]        where p * stride = h + pad - r*dil, and q likewise
 *
 * Idea:     with a stride of 2 half of the r's leave a remainder in that division, and which half depends on whether h is even. So the pixels are taken
 *           in classes, by h modulo the stride and w modulo the stride. In a class h = stride * i + a the same r's count for all pixels, and
 *           p = i + (a + pad - r*dil) / stride: a convolution of stride 1 again, with fewer taps. No product is computed that is not needed, and no
 *           tap is tested in the loop. At stride 1 there is one class.
 * Change:   against 05d C and K change places, a block has a class (blockIdx.z) and its taps, and the table says where a tap lies in w, too, as
 *           the elements of w that a class needs are no longer neighbours. A class without taps is zeros: a 1x1 filter of stride 2 reaches a quarter
 *           of the pixels.
 * Expect:   as 05d at stride 1, w read in smaller pieces; at stride 2 the four classes of a 3x3 filter have 4, 2, 2 and 1 taps, 9 in all, not 36.
 * Sizes:    R + S up to 30 (the bits), one stride times the other up to 65535 (gridDim.z).
 * Passes:   dgrad. Layout: NCHW, filters KCRS, fp32. */
#include <cuda_pipeline.h>
#include <cuda_runtime.h>

#include "05_im2col_gemm/tile.h"
#include "common/plain.h"

enum { PERIOD = 8, LAST_PERIOD = 30, ALL = -1, SUM_THREADS = 128, MOST_SLICES = 32, LEAST_STEPS = 4, MOST_CLASSES = 65535 /* gridDim.z */ };

/* Two elements of the reduction, as in 05c. */
typedef int4 taps; /* { offset, bits, offset, bits } */

/* The taps of a class along one axis: first, first + step, ... */
typedef struct progression {
  int first, step, count;
} progression;

/* Those r of `size` for which stride divides at - r * dil. */
static __device__ progression taps_of(int at, int stride, int dil, int size) {
  progression t = {0, 1, 0};
  for (int r = 0; r < size; r++) {
    if ((at - r * dil) % stride != 0) continue;
    if (t.count == 0) t.first = r;
    if (t.count == 1) t.step = r - t.first;
    t.count++;
  }
  return t;
}

/* A block of 2 BM threads: BM channels of a group x BN pixels of class blockIdx.z, counted over all images; slice blockIdx.y of their sums,
 * out[slices][N][C][H][W]. */
template <int BM>
__global__ void __launch_bounds__(2 * BM, 256 / BM) dgrad_kernel(conv_problem p, const float *__restrict__ dy, const float *__restrict__ w, float *__restrict__ out) {
  constexpr int THREADS = 2 * BM, PITCH = BM + 4, FLOATS = BK * (PITCH + BN), B_COPIES = COPY_K * BN / THREADS;
  static_assert(BM % WARP_M == 0 && BN % WARP_N == 0 && THREADS == BM / TM * (BN / TN), "a thread has TM x TN sums");
  extern __shared__ float4 shared[];
  float *buffers = (float *)shared;           /* two of: [BK][PITCH] filters, [BK][BN] pixels of dy */
  int *table = (int *)(buffers + 2 * FLOATS); /* [PERIOD][taps] of { offset, bits }; then, of offsets in w */

  /* The class: pixels (stride_h * i + class_h, stride_w * j + class_w), rows x cols of them an image. */
  const int class_h = blockIdx.z / p.stride_w, class_w = blockIdx.z % p.stride_w;
  const int rows = (p.H - class_h + p.stride_h - 1) / p.stride_h, cols = (p.W - class_w + p.stride_w - 1) / p.stride_w;
  const int group_c = p.C / p.groups, group_k = p.K / p.groups, tiles_c = (group_c + BM - 1) / BM;
  const int group = blockIdx.x / tiles_c % p.groups, first_c = blockIdx.x % tiles_c * BM, first_pixel = blockIdx.x / tiles_c / p.groups * BN;
  const int image = rows * cols, plane = p.P * p.Q, pixels = p.N * image, thread = threadIdx.x;
  if (first_pixel >= pixels) return; /* some classes have fewer */
  const progression r = taps_of(class_h + p.pad_top, p.stride_h, p.dil_h, p.R), s = taps_of(class_w + p.pad_left, p.stride_w, p.dil_w, p.S);
  const int filter = r.count * s.count, terms = group_k * filter, slice_steps = ((terms + BK - 1) / BK + gridDim.y - 1) / gridDim.y;
  const int first = blockIdx.y * slice_steps, steps = min((terms + BK - 1) / BK - first, slice_steps);

  const int my_row = tile_row(thread), my_col = tile_col(thread);
  float sum[TM][TN] = {};
  if (steps > 0) {
    int *w_table = table + 2 * PERIOD * filter;
    for (int i = thread; i < PERIOD * filter; i += THREADS) {
      const int k = i / filter, tap_r = r.first + i / s.count % r.count * r.step, tap_s = s.first + i % s.count * s.step;
      const int row = (class_h + p.pad_top - tap_r * p.dil_h) / p.stride_h, col = (class_w + p.pad_left - tap_s * p.dil_w) / p.stride_w;
      table[2 * i] = k * plane + row * p.Q + col;
      table[2 * i + 1] = 1 << tap_r | 1 << (p.R + tap_s) | (k >= group_k % PERIOD ? 1 << LAST_PERIOD : 0);
      w_table[i] = (k * group_c * p.R + tap_r) * p.S + tap_s;
    }

    /* What this thread copies of the filters: element a_l of every COPY_K, of channels a_c, a_c + BM / 4, ... (past the last channel: of the last). */
    const int a_l = thread % COPY_K, a_c = thread / COPY_K, period = first * BK / (PERIOD * filter);
    const float *a_from = w + (group * group_k + period * PERIOD) * group_c * p.R * p.S;
    int a_row[4];
#pragma unroll
    for (int i = 0; i < 4; i++) a_row[i] = min(first_c + a_c + i * (BM / 4), group_c - 1) * p.R * p.S;

    /* And of dy: elements b_l, b_l + 1, ... of every COPY_K, for one pixel of dx. */
    const int b_l = thread / BN * B_COPIES, b_column = thread % BN, b_pixel = first_pixel + b_column;
    const int n = b_pixel / image, i_h = b_pixel / cols % rows, i_w = b_pixel % cols;
    const float *b_from = dy + (n * p.K + group * group_k + period * PERIOD) * plane + i_h * p.Q + i_w;
    int left = terms - period * PERIOD * filter, position = first * BK % (PERIOD * filter); /* elements from this period on; where in the table we are */
    int missing = b_pixel < pixels ? 0 : ALL;
    for (int i = 0; i < r.count; i++) {
      const int tap = r.first + i * r.step, row = i_h + (class_h + p.pad_top - tap * p.dil_h) / p.stride_h;
      if (row < 0 || row >= p.P) missing |= 1 << tap;
    }
    for (int i = 0; i < s.count; i++) {
      const int tap = s.first + i * s.step, col = i_w + (class_w + p.pad_left - tap * p.dil_w) / p.stride_w;
      if (col < 0 || col >= p.Q) missing |= 1 << (p.R + tap);
    }
    if (left < PERIOD * filter) missing |= 1 << LAST_PERIOD;
    __syncthreads(); /* the table is there */

    /* Starts the copies of the next COPY_K elements, to rows `row` and on of the buffer at `to`. */
    const auto copy = [&](float *to, int row) {
      float *a_to = to + (row + a_l) * PITCH + a_c, *b_to = to + BK * PITCH + (row + b_l) * BN + b_column;
      taps two[B_COPIES / 2];
#pragma unroll
      for (int i = 0; i < B_COPIES / 2; i++) two[i] = *(const taps *)(table + 2 * (position + b_l) + 4 * i);
      const float *a_element = a_from + w_table[min(position + a_l, left - 1)]; /* past the last element the last one again: dy is zero there */
#pragma unroll
      for (int i = 0; i < B_COPIES / 2; i++) {
        __pipeline_memcpy_async(b_to + 2 * i * BN, b_from + two[i].x, 4, two[i].y & missing ? 4 : 0);
        __pipeline_memcpy_async(b_to + (2 * i + 1) * BN, b_from + two[i].z, 4, two[i].w & missing ? 4 : 0);
      }
#pragma unroll
      for (int i = 0; i < 4; i++) __pipeline_memcpy_async(a_to + i * (BM / 4), a_element + a_row[i], 4);
      position += COPY_K;
      if (position == PERIOD * filter) {
        position = 0;
        if (left > PERIOD * filter) {
          left -= PERIOD * filter, b_from += PERIOD * plane, a_from += PERIOD * group_c * p.R * p.S;
          if (left < PERIOD * filter) missing |= 1 << LAST_PERIOD;
        } else {
          missing = ALL; /* the end */
        }
      }
    };

    operands o[2]; /* of this element of the reduction and of the next */
    copy(buffers, 0);
    copy(buffers, COPY_K);
    __pipeline_commit();
    __pipeline_wait_prior(0);
    __syncthreads(); /* the first stage is there */
    read_operands(o[0], buffers + my_row, buffers + BK * PITCH + my_col);
    int now = 0; /* the buffer that is read */
    for (int steps_left = steps; steps_left > 0; steps_left--) {
#pragma unroll
      for (int l = 0; l < BK; l++) {
        if ((l == 5 || l == 9) && steps_left > 1) copy(buffers + (FLOATS - now), l == 5 ? 0 : COPY_K);
        if (l == BK - 1) {
          __pipeline_commit();
          __pipeline_wait_prior(0);
          __syncthreads(); /* the next stage is there, and nobody reads this one any more */
          now = FLOATS - now;
        }
        const int next = (l + 1) % BK;
        if (next || steps_left > 1) read_operands(o[next % 2], buffers + now + my_row + next * PITCH, buffers + now + BK * PITCH + my_col + next * BN);
        add_products(sum, o[l % 2]);
      }
    }
  }

  /* out[n][C][H][W], a quad of pixels at a time where it is aligned and so within one image. */
  const int my_c = group * group_c + first_c + my_row, end_c = (group + 1) * group_c, my_pixel = first_pixel + my_col;
  const bool quads = p.stride_h == 1 && p.stride_w == 1 && image % 4 == 0;
  out += (int)blockIdx.y * p.N * p.C * p.H * p.W;
#pragma unroll
  for (int j = 0; j < TN; j++) {
    const int pixel = my_pixel + quad_col(j), h = pixel / cols % rows * p.stride_h + class_h, column = pixel % cols * p.stride_w + class_w;
    if (pixel >= pixels || (j % 4 && quads)) continue;
    float *to = out + (pixel / image * p.C * p.H + h) * p.W + column;
#pragma unroll
    for (int i = 0; i < TM; i++) {
      const int c = my_c + quad_row(i);
      if (c >= end_c) continue;
      if (j % 4 == 0 && quads)
        store_quad(to + c * p.H * p.W, &sum[i][j]);
      else
        to[c * p.H * p.W] = sum[i][j];
    }
  }
}

/* dx = the sum of all slices, first to last. A thread: one element. */
__global__ void __launch_bounds__(SUM_THREADS) add_image_slices_kernel(int count, int slices, const float *__restrict__ parts, float *__restrict__ dx) {
  const int i = blockIdx.x * SUM_THREADS + threadIdx.x;
  if (i >= count) return;
  float sum = 0;
#pragma unroll 4
  for (int slice = 0; slice < slices; slice++) sum += parts[slice * count + i];
  dx[i] = sum;
}

/* ---------------------------------------------------------------- host */

static const char *unsupported(const conv_problem *p, const conv_device *device) {
  if (p->R + p->S > LAST_PERIOD) return "R + S exceeds 30";
  if ((int64_t)p->stride_h * p->stride_w > MOST_CLASSES) return "more than 65535 classes of pixels (a stride times the other)";
  const char *why = plain_unsupported(p, device);
  if (why) return why;
  const int64_t rows = (p->H - 1) / p->stride_h + 1, cols = (p->W - 1) / p->stride_w + 1, beyond = (rows > p->P ? rows - p->P : 0) * p->Q + cols; /* dy's end */
  return problem_y_count(p) + beyond > INT_MAX - 1024 ? "dy and what windows of dx begin behind it have 2^31 elements or more (offsets are 32-bit)" : NULL;
}

/* How a problem is cut. */
typedef struct split {
  int bm, slices;
} split;

/* Tiles of a class, as many as the largest has. */
static int64_t tiles_of(const conv_problem *p, int bm) {
  const int64_t pixels = (int64_t)p->N * ((p->H + p->stride_h - 1) / p->stride_h) * ((p->W + p->stride_w - 1) / p->stride_w);
  return (pixels + BN - 1) / BN * p->groups * ((p->C / p->groups + bm - 1) / bm);
}

/* As in 05d: the share of its peak that a multiprocessor reaches with so many warps at a time, and the clocks that a problem takes. All classes
 * together have the terms of one filter. */
static double efficiency(int warps) { return warps >= 16 ? 0.67 : warps >= 12 ? 0.65 : warps >= 8 ? 0.60 : 0.40; }

static double clocks_of(const conv_problem *p, const split *s, int multiprocessors) {
  const int resident = 256 / s->bm, classes = p->stride_h * p->stride_w;
  const int64_t blocks = (tiles_of(p, s->bm) * classes * s->slices + multiprocessors - 1) / multiprocessors, full = blocks / resident, rest = blocks % resident;
  const double steps = (double)problem_terms(p, PASS_DGRAD) / (BK * classes) / s->slices, block = steps * s->bm * (double)(BN * BK / 128);
  double clocks = (double)full * resident * block / efficiency(16) + (rest ? (double)rest * block / efficiency((int)rest * s->bm / 16) : 0);
  clocks += 2500.0 * (double)(full + (rest > 0));
  if (s->slices > 1) clocks += 3000 + (2.0 * s->slices + 1) * (double)problem_x_count(p) * sizeof(float) / (16.0 * multiprocessors);
  return clocks;
}

static split split_of(const conv_problem *p) {
  int device = 0, multiprocessors = 0;
  if (cudaGetDevice(&device) || cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device)) multiprocessors = 1;
  const int64_t steps = problem_terms(p, PASS_DGRAD) / (BK * p->stride_h * p->stride_w);
  split best = {64, 1};
  for (int bm = 64; bm <= (p->C / p->groups > 64 ? 128 : 64); bm *= 2)
    for (int slices = 1; slices <= MOST_SLICES && (slices == 1 || steps / slices >= LEAST_STEPS); slices++) {
      const split s = {bm, slices};
      if (slices > 1 && problem_x_count(p) * slices > INT_MAX) break;
      if (clocks_of(p, &s, multiprocessors) < clocks_of(p, &best, multiprocessors)) best = s;
    }
  return best;
}

static size_t workspace_bytes(const conv_problem *p) {
  const split s = split_of(p);
  return s.slices > 1 ? (size_t)s.slices * (size_t)problem_x_count(p) * sizeof(float) : 0;
}

static cudaError_t launch_dgrad(const conv_problem *p, const conv_buffers *b, cudaStream_t stream) {
  const split s = split_of(p);
  const dim3 blocks((unsigned)tiles_of(p, s.bm), s.slices, p->stride_h * p->stride_w);
  const size_t bytes = (size_t)(2 * BK * (s.bm + 4 + BN)) * sizeof(float) + (size_t)(PERIOD * p->R * p->S * 3) * sizeof(int);
  const auto kernel = s.bm == 128 ? dgrad_kernel<128> : dgrad_kernel<64>;
  float *out = (float *)(s.slices > 1 ? b->workspace : b->x);
  if (bytes > 48 << 10) { /* more must be asked for */
    const cudaError_t status = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
    if (status) return status;
  }
  kernel<<<blocks, 2 * s.bm, bytes, stream>>>(*p, (const float *)b->y, (const float *)b->w, out);
  if (s.slices > 1) {
    const int count = (int)problem_x_count(p);
    add_image_slices_kernel<<<(count + SUM_THREADS - 1) / SUM_THREADS, SUM_THREADS, 0, stream>>>(count, s.slices, out, (float *)b->x);
  }
  return cudaGetLastError();
}

extern "C" const conv_kernel classes_dgrad;
const conv_kernel classes_dgrad = {.name = "05f",
                                   .idea = "a product for every residue of the stride",
                                   .place = ON_GPU,
                                   .pass = PASS_DGRAD,
                                   .dtype = DTYPE_FP32,
                                   .layout = LAYOUT_NCHW,
                                   .min_arch = 0,
                                   .unsupported = unsupported,
                                   .workspace_bytes = workspace_bytes,
                                   .launch = launch_dgrad,
                                   .growth = plain_growth_dgrad};
