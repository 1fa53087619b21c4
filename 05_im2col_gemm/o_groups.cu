/* 05o: groups of few channels, and no matrix: windows out of a tile of x that lies in shared memory as it is.
 *
 * Terms:    direct convolution; register blocking; multi-stage copies.
 * Idea:     ResNeXt's 32 groups have 4 to 32 filters each, and a tile of the product has room for 32 to 128: most of its rows multiply nothing. Its other
 *           side is no better: nine columns of the matrix are the same pixels, copied nine times. With so few filters a tile of x with its halo is read
 *           where it lies, by all filters of its group. A thread has TK = 4 filters x TP rows x TQ = 2 columns of y, and reads its window once:
 *
 *               stride 1:   (TP + 2) x 4 pixels, by TP + 2 pairs of LDS.64       nine taps of four filters, by 9 LDS.128:   72 TP multiply-adds
 *
 *           So of 100 instructions more than 80 multiply. All lanes that have the same filters want the same 16 bytes: one read serves them all.
 * Threads:  (image, strip of TP rows, four filters, pair of columns), columns first: whatever an image's width is, lanes are full but for the last warp's.
 *           Images of 7 x 7 share a block with others.
 * Change:   against 05j stages are three, of two channels each, so that two are on their way; a thread copies one column of the tile, or four, and a table says
 *           where its rows lie in x, or that they are padding (direct.cuh). dgrad at stride 1 is the same kernel: dy for x, and filters that are turned when
 *           they are copied. Stride 2: even columns lie in front of the odd ones, so that neighbouring lanes read neighbouring words.
 * Expect:   ResNeXt-50's four layers have 231 million multiply-adds each at batch 16, 6.9 us at an H200's peak. With seven rows a thread ptxas makes 1160 to 1190
 *           instructions for two channels, 1008 of them multiply-adds, and 17 for each row that is copied. The fullest scheduler's, and half a warp's for
 *           waiting, take 11, 12, 13 and 16 us. With what comes before the first multiplication and after the last, in us: res2_3x3 20 (a block has two
 *           stages, whose copies few others hide; memory alone takes 12), res3 14, res4 15, res5 18; at stride 2 res3a 25 (memory 15), res4a 21, res5a 21.
 * Sizes:    3x3, stride 1 or 2, no dilation, any padding; up to 64 channels and 64 filters a group: an odd channel is followed by one of zeros, and
 *           filters are taken in fours.
 * Passes:   fprop, dgrad (stride 1). Layout: NCHW, filters KCRS, fp32. */
#include "05_im2col_gemm/direct.cuh"

/* VEC: columns that are copied at a time. Quads begin where x has them, so windows begin at an odd column: shift is 1 or 3. */
template <int TP, int STRIDE, int VEC>
__global__ void __launch_bounds__(MOST_THREADS, TP *STRIDE > 4 ? 2 : 3)
    groups_kernel(direct d, const float *__restrict__ x, const float *__restrict__ w, float *__restrict__ y) {
  static_assert(VEC == 1 || (VEC == 4 && STRIDE == 1), "columns of stride 2 are sorted when they are copied");
  constexpr int ROWS = (TP - 1) * STRIDE + 3, COLS = (TQ - 1) * STRIDE + 3;
  const share s = share_of(d, TP);
  float sum[TK][TP][TQ] = {};
  each_channel<TP, STRIDE, VEC>(d, s, x, w, [&](const float *filters, const float *window) {
    float pixel[ROWS][COLS + STRIDE % 2]; /* columns of x as they lie, side by side */
#pragma unroll
    for (int row = 0; row < ROWS; row++) {
      const float *at = window + row * d.pitch;
      if (VEC > 1) {
        const float2 middle = *(const float2 *)(at + 1);
        pixel[row][0] = at[0], pixel[row][1] = middle.x, pixel[row][2] = middle.y, pixel[row][3] = at[3];
      } else if (STRIDE == 1) {
        const float2 left = *(const float2 *)at, right = *(const float2 *)(at + 2);
        pixel[row][0] = left.x, pixel[row][1] = left.y, pixel[row][2] = right.x, pixel[row][3] = right.y;
      } else {
        const float2 even = *(const float2 *)at, odd = *(const float2 *)(at + d.pairs * TQ + 2);
        pixel[row][0] = even.x, pixel[row][1] = odd.x, pixel[row][2] = even.y, pixel[row][3] = odd.y, pixel[row][COLS - 1] = at[2];
      }
    }
#pragma unroll
    for (int tap = 0; tap < 9; tap++) {
      const float4 four = *(const float4 *)(filters + tap * d.filter_pitch);
      const float f[TK] = {four.x, four.y, four.z, four.w};
#pragma unroll
      for (int k = 0; k < TK; k++)
#pragma unroll
        for (int p = 0; p < TP; p++)
#pragma unroll
          for (int q = 0; q < TQ; q++) sum[k][p][q] += f[k] * pixel[p * STRIDE + tap / 3][q * STRIDE + tap % 3];
    }
  });

  if (!s.stores) return;
  const int my_k = s.first_k + s.part * TK, my_p = s.first_p + s.strip * TP, my_q = s.first_q + s.pair * TQ;
  float *to = y + (((s.first_n + s.n) * d.groups + s.group) * d.filters + my_k) * d.P * d.Q + my_p * d.Q + my_q;
#pragma unroll
  for (int k = 0; k < TK; k++)
#pragma unroll
    for (int p = 0; p < TP; p++) {
      if (my_k + k >= d.filters || my_p + p >= d.P) continue;
      float *at = to + k * d.P * d.Q + p * d.Q;
      if (d.Q % 2 == 0 && my_q < d.Q) *(float2 *)at = make_float2(sum[k][p][0], sum[k][p][1]);
      else
#pragma unroll
        for (int q = 0; q < TQ; q++)
          if (my_q + q < d.Q) at[q] = sum[k][p][q];
    }
}

/* ---------------------------------------------------------------- host */

#define ROW(TP, STRIDE, VEC, ISSUE) \
  { TP, STRIDE, VEC, 3, ISSUE, groups_kernel<TP, STRIDE, VEC> }
static const direct_kernel kernels[] = {ROW(7, 1, 4, 1190), ROW(7, 1, 1, 1160), ROW(4, 1, 4, 760), ROW(4, 1, 1, 745),
                                        ROW(2, 1, 4, 450),  ROW(2, 1, 1, 440),  ROW(4, 2, 1, 765), ROW(2, 2, 1, 490)};
enum { KERNELS = sizeof kernels / sizeof *kernels };

static const char *plan_fprop(const conv_operation *o, const conv_device *device, conv_plan *plan) {
  const conv_problem *p = &o->problem;
  const char *why = groups_unsupported(p, device);
  if (why) return why;
  direct d = {};
  d.N = p->N, d.groups = p->groups, d.channels = p->C / p->groups, d.filters = p->K / p->groups;
  d.H = p->H, d.W = p->W, d.P = p->P, d.Q = p->Q, d.pad_top = p->pad_top, d.pad_left = p->pad_left;
  d.next_channel = 9, d.next_filter = d.channels * 9;
  return plan_direct(kernels, KERNELS, &d, p->stride_h, device, plan);
}

static const char *plan_dgrad(const conv_operation *o, const conv_device *device, conv_plan *plan) {
  const conv_problem *p = &o->problem;
  const char *why = groups_unsupported(p, device);
  if (why) return why;
  if (p->stride_h != 1) return "only for stride 1 without dilation";
  direct d = {};
  d.N = p->N, d.groups = p->groups, d.channels = p->K / p->groups, d.filters = p->C / p->groups;
  d.H = p->P, d.W = p->Q, d.P = p->H, d.Q = p->W, d.pad_top = 2 - p->pad_top, d.pad_left = 2 - p->pad_left;
  d.next_channel = d.filters * 9, d.next_filter = 9, d.turned = true;
  return plan_direct(kernels, KERNELS, &d, 1, device, plan);
}

static cudaError_t launch_fprop(const conv_plan *plan, const conv_buffers *b, cudaStream_t stream) { return launch_direct(plan, b->x, b->w, b->y, stream); }
static cudaError_t launch_dgrad(const conv_plan *plan, const conv_buffers *b, cudaStream_t stream) { return launch_direct(plan, b->y, b->w, b->x, stream); }

GEMM_ROW(few_groups_fprop, "05o", "groups of few channels: windows of a tile of x as it lies", PASS_FPROP, plan_fprop, launch_fprop, plain_growth_fprop);
GEMM_ROW(few_groups_dgrad, "05o", "groups of few channels: windows of a tile of dy as it lies", PASS_DGRAD, plan_dgrad, launch_dgrad, plain_growth_dgrad);
