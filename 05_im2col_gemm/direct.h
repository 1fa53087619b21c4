/* 05o and 05q: how a direct convolution of small groups is cut into blocks. */
#pragma once
#include <math.h>

#include "05_im2col_gemm/groups.h"
#include "05_im2col_gemm/stream.h" /* divisor */
#include "common/harness/launch.h"

enum { TK = 4, TQ = 2, STAGE_C = 2, STAGES = 3, MOST_THREADS = 224, MOST_PARTS = 16, MOST_STRIPS = 16, MOST_PAIRS = 32, MOST_IMAGES = 16 };

/* From [N][channels of all groups][H][W] to [N][filters of all groups], whose P x Q places have a window each: `stride` apart, the first one pad_top above
 * and pad_left left of the image. w has distances for channels and filters. A block: `parts` fours of filters x `strips` of TP rows of places x
 * `pairs` of columns x `images`. */
typedef struct direct {
  int N, groups, channels, filters, H, W, P, Q, pad_top, pad_left; /* channels and filters of a group */
  int next_channel, next_filter;                                   /* elements of w */
  int out_H, out_W, out_top, out_left;                             /* 05q: the result is larger than P x Q; where place 0 begins in it */
  bool turned;                                                     /* taps from last to first */
  int parts, strips, pairs, images;
  int tiles_k, tiles_h, tiles_w;                                                                         /* of a group, of an image */
  divisor by_tiles, by_tiles_w, by_tiles_k, by_groups, by_pairs, by_parts, by_strips, by_rows, by_units; /* units: of VEC columns, in a row */
  int rows, cols, pitch, shift;            /* of an image's tile of x; its column where the first window begins */
  int all_rows, tile, filter_pitch, stage; /* rows of all images' tiles; floats of them, of a tap's filters, of a stage */
} direct;

/* A kernel. window: rows and columns of it; vec: columns that are copied at a time; issue: instructions of a thread for STAGE_C channels, as ptxas writes
 * them: they decide which row it is. */
typedef struct direct_kernel {
  int tp, stride, vec, window, issue;
  void (*kernel)(direct d, const float *x, const float *w, float *y);
} direct_kernel;

typedef struct direct_plan {
  const direct_kernel *row;
  direct how;
  int blocks, threads;
  size_t shared; /* bytes */
} direct_plan;

static inline int ceil_div(int a, int b) { return (a + b - 1) / b; }

/* The rest of a cut that has parts, strips and images. */
static inline void finish_cut(direct *d, const direct_kernel *row) {
  const int all_pairs = ceil_div(d->Q, TQ);
  d->tiles_w = ceil_div(all_pairs, MOST_PAIRS), d->pairs = ceil_div(all_pairs, d->tiles_w);
  d->tiles_k = ceil_div(ceil_div(d->filters, TK), d->parts), d->tiles_h = ceil_div(d->P, d->strips * row->tp);
  if (d->tiles_w > 1) d->pairs = ceil_div(d->pairs * TQ, row->vec) * row->vec / TQ;
  d->tiles_w = ceil_div(all_pairs, d->pairs), d->shift = (row->vec - 1) & -d->pad_left;
  d->rows = (d->strips * row->tp - 1) * row->stride + row->window,
  d->cols = ceil_div(d->shift + (d->pairs * TQ - 1) * row->stride + row->window, row->vec) * row->vec;
  d->pitch = row->stride == 1 ? (d->cols + 1) / 2 * 2 : d->pairs * TQ * 2 + 2;
  /* Strips that follow each other in a warp read banks that follow each other, as far as banks come in eights. */
  while (row->tp * row->stride * d->pitch / 8 % 4 != d->pairs * TQ / 8 % 4 && d->pitch < d->cols + 8) d->pitch += row->vec == 1 ? 2 : 4;
  d->all_rows = d->images * d->rows, d->tile = d->all_rows * d->pitch;
  d->filter_pitch = TK * (d->parts | 1); /* taps, an odd number of quads apart, lie in all banks */
  d->stage = STAGE_C * (9 * d->filter_pitch + d->tile);
}

/* Tries every number of images, strips and fours of filters in a block, with all kernels, and takes what has least to issue. Of equals the first: fewer images, more strips. */
static inline const char *plan_direct(const direct_kernel *rows, int count, const direct *problem, int stride, const conv_device *device, conv_plan *plan) {
  direct_plan *mine = plan_data<direct_plan>(plan);
  double least = INFINITY;
  for (const direct_kernel *row = rows; row < rows + count; row++)
    for (int parts = 1; (row->vec == 1 || (problem->W % 4 == 0 && problem->pad_left % 2)) && row->stride == stride && parts <= MOST_PARTS; parts++)
      for (int images = 1; images <= MOST_IMAGES && images <= problem->N; images *= 2)
        for (int strips = MOST_STRIPS; strips > 0; strips--) {
          direct d = *problem;
          d.parts = parts, d.strips = strips, d.images = images;
          if (parts > ceil_div(d.filters, TK) || strips > ceil_div(d.P, row->tp) || parts * strips * images > MOST_THREADS) continue;
          finish_cut(&d, row);
          const int lanes = d.pairs * parts * strips * images, threads = ceil_div(lanes > d.cols / row->vec ? lanes : d.cols / row->vec, 32) * 32,
                    steps = ceil_div(d.channels, STAGE_C);
          if (threads > MOST_THREADS) continue;
          const size_t shared = (size_t)(steps < STAGES ? steps : STAGES) * d.stage * sizeof(float) + d.all_rows * sizeof(int);
          const double blocks = (double)d.tiles_w * d.tiles_h * d.tiles_k * d.groups * ceil_div(d.N, images);
          if (shared > device->shared_per_block / 2 || blocks > INT_MAX) continue;
          const double thread = steps * (row->issue + 18 * ceil_div(d.all_rows, threads / (d.cols / row->vec)) + 25 * ceil_div(9 * TK * parts, threads)) + 300;
          /* Warps of the fullest scheduler, and half a one for waiting. */
          const double cost = (ceil(ceil(blocks / device->sm_count) * (threads / 32) / 4) + 0.5) * thread;
          if (!(cost < least)) continue;
          least = cost;
          *mine = {.row = row, .how = d, .blocks = (int)blocks, .threads = threads, .shared = shared};
        }
  if (least == INFINITY) return "2^31 blocks or more";
  direct &d = mine->how;
  d.by_tiles = divisor_of(d.tiles_h * d.tiles_w), d.by_tiles_w = divisor_of(d.tiles_w), d.by_tiles_k = divisor_of(d.tiles_k),
  d.by_groups = divisor_of(d.groups);
  d.by_pairs = divisor_of(d.pairs), d.by_parts = divisor_of(d.parts), d.by_strips = divisor_of(d.strips), d.by_rows = divisor_of(d.rows);
  d.by_units = divisor_of(d.cols / mine->row->vec);
  snprintf(plan->words, sizeof plan->words, "%d filters x %d x %d pixels x %d image%s, %d threads, %d blocks", TK * d.parts, d.strips * mine->row->tp,
           d.pairs * TQ, d.images, d.images == 1 ? "" : "s", mine->threads, mine->blocks);
  const cudaError_t status = plan_allow_shared((const void *)mine->row->kernel, mine->shared);
  return status ? plan_failed(plan, status) : NULL;
}

static inline cudaError_t launch_direct(const conv_plan *plan, const void *x, const void *w, void *y, cudaStream_t stream) {
  const direct_plan *mine = plan_data<direct_plan>(plan);
  return launch_kernel({.grid = (unsigned)mine->blocks, .block = (unsigned)mine->threads, .shared = mine->shared, .stream = stream}, mine->row->kernel,
                       mine->how, (const float *)x, (const float *)w, (float *)y);
}
