/* 05q: the gradient of the image at stride 2 for groups of few channels: cells of 2 x 2 pixels, nine products of four pixels of dy.
 *
 * Terms:    direct convolution; strided dgrad by residue classes.
 * Idea:     at stride 2 pixels of dx come in four classes, which meet 1, 2, 2 and 4 taps (05i). Those of a cell of 2 x 2, one of each class, meet all
 *           nine, each once, and of dy the same 2 x 2 pixels:
 *
 *               first row of the cell:  tap row 1 with dy row u            second row:  tap row 2 with dy row u, tap row 0 with u + 1
 *
 *           and columns likewise. So a thread has TK = 4 channels of dx x TP x TQ = 2 cells, and what it reads is a convolution of windows of 2 x 2.
 *           Where padding is odd, cells begin with row 0; where it is even, with row -1, of which nothing is stored.
 * Change:   against 05o windows are smaller and sums are more: for a channel (TP + 1) x 3 pixels and nine quads of filters meet 72 TP multiply-adds. No class
 *           takes a launch or blocks of its own, and a cell's two columns are stored side by side, not every other one (05i turns its sums in
 *           shared memory for that).
 * Expect:   ResNeXt-50's three layers of stride 2 at batch 16, 6.9 us of multiply-adds each: 375 instructions for two channels of dy, 288 of them
 *           multiply-adds. The fullest scheduler's, and half a warp's for waiting, take 15, 15 and 18 us; in all 22 for res3a (memory alone takes 15), 17, 20.
 * Sizes:    3x3, stride 2, no dilation, any padding; up to 64 channels and 64 filters a group.
 * Passes:   dgrad. Layout: NCHW, filters KCRS, fp32. */
#include "05_im2col_gemm/direct.cuh"

/* P, Q count cells. */
template <int TP>
__global__ void __launch_bounds__(MOST_THREADS, TP > 1 ? 2 : 3)
    cells_kernel(direct d, const float *__restrict__ dy, const float *__restrict__ w, float *__restrict__ dx) {
  const share s = share_of(d, TP);
  float sum[TK][2 * TP][2 * TQ] = {};
  each_channel<TP, 1, 1>(d, s, dy, w, [&](const float *filters, const float *window) {
    float pixel[TP + 1][TQ + 1];
#pragma unroll
    for (int row = 0; row <= TP; row++) {
      const float2 left = *(const float2 *)(window + row * d.pitch);
      pixel[row][0] = left.x, pixel[row][1] = left.y, pixel[row][2] = window[row * d.pitch + 2];
    }
#pragma unroll
    for (int tap = 0; tap < 9; tap++) {
      const int r = tap / 3, q = tap % 3; /* 1: first row of a cell; 2: second, same row of dy; 0: second, the row below */
      const float4 four = *(const float4 *)(filters + tap * d.filter_pitch);
      const float f[TK] = {four.x, four.y, four.z, four.w};
#pragma unroll
      for (int k = 0; k < TK; k++)
#pragma unroll
        for (int i = 0; i < TP; i++)
#pragma unroll
          for (int j = 0; j < TQ; j++) sum[k][2 * i + (r != 1)][2 * j + (q != 1)] += f[k] * pixel[i + (r == 0)][j + (q == 0)];
    }
  });

  if (!s.stores) return;
  const int my_c = s.first_k + s.part * TK, h = 2 * (s.first_p + s.strip * TP) + d.out_top, at_w = 2 * (s.first_q + s.pair * TQ) + d.out_left;
  float *to = dx + (((s.first_n + s.n) * d.groups + s.group) * d.filters + my_c) * d.out_H * d.out_W + h * d.out_W + at_w;
  const bool quads = d.out_left == 0 && d.out_W % 4 == 0;
#pragma unroll
  for (int k = 0; k < TK; k++)
#pragma unroll
    for (int i = 0; i < 2 * TP; i++) {
      if (my_c + k >= d.filters || h + i < 0 || h + i >= d.out_H) continue;
      float *at = to + (k * d.out_H + i) * d.out_W;
      if (quads && at_w < d.out_W) *(float4 *)at = make_float4(sum[k][i][0], sum[k][i][1], sum[k][i][2], sum[k][i][3]);
      else
#pragma unroll
        for (int j = 0; j < 2 * TQ; j++)
          if (at_w + j >= 0 && at_w + j < d.out_W) at[j] = sum[k][i][j];
    }
}

/* ---------------------------------------------------------------- host */

static const direct_kernel kernels[] = {{2, 1, 1, 2, 395, cells_kernel<2>}, {1, 1, 1, 2, 280, cells_kernel<1>}};

/* Cell i of a line has pixels 2 i + begin and the next, and meets pixels i + first and the next of dy. */
typedef struct cells {
  int first, begin, count;
} cells;
static cells cells_of(int size, int pad) {
  const int first = (pad + 1) / 2 - 1, begin = pad % 2 - 1;
  return {first, begin, (size - 1 - begin) / 2 + 1};
}

static const char *plan_dgrad(const conv_operation *o, const conv_device *device, conv_plan *plan) {
  const conv_problem *p = &o->problem;
  const char *why = groups_unsupported(p, device);
  if (why) return why;
  if (p->stride_h != 2) return "only for stride 2 without dilation";
  const cells rows = cells_of(p->H, p->pad_top), columns = cells_of(p->W, p->pad_left);
  direct d = {};
  d.N = p->N, d.groups = p->groups, d.channels = p->K / p->groups, d.filters = p->C / p->groups;
  d.H = p->P, d.W = p->Q, d.P = rows.count, d.Q = columns.count, d.pad_top = -rows.first, d.pad_left = -columns.first;
  d.out_H = p->H, d.out_W = p->W, d.out_top = rows.begin, d.out_left = columns.begin;
  d.next_channel = d.filters * 9, d.next_filter = 9;
  return plan_direct(kernels, sizeof kernels / sizeof *kernels, &d, 1, device, plan);
}

static cudaError_t launch_dgrad(const conv_plan *plan, const conv_buffers *b, cudaStream_t stream) { return launch_direct(plan, b->y, b->w, b->x, stream); }

GEMM_ROW(cells_dgrad, "05q", "groups of few channels at stride 2: cells of 2 x 2 pixels", PASS_DGRAD, plan_dgrad, launch_dgrad, plain_growth_dgrad);
