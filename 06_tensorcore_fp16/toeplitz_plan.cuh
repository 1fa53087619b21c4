/* What the host decides for 06p and 06q: the kernel of toeplitz.cuh, its strips, its shared memory. */
#pragma once
#include <stdio.h>

#include "04_constant_filter/depthwise.h"
#include "06_tensorcore_fp16/toeplitz.cuh"

typedef void (*toeplitz_t)(sweep p, const __half *in, const __half *w, __half *out);

/* What else a problem's C must be for a row: some rows are for multiples of 48, others for all but these. */
enum { ANY_C, BY_48, NOT_BY_48 };

/* A kernel and what the host must know of it. */
typedef struct toeplitz_row {
  int size, stride, c;
  toeplitz_t kernel;
  int channels, warps, tile, staged, step, gap, flight, down, up, at_once, ring;
} toeplitz_row;

template <int SIZE, int DOWN, int UP, bool TURNED, int CHANNELS, int WARPS> static constexpr toeplitz_row toeplitz_of(int c = ANY_C) {
  typedef toeplitz_sizes<SIZE, DOWN, UP, TURNED, CHANNELS, WARPS> sizes;
  toeplitz_row row = {};
  row.size = SIZE, row.stride = DOWN * UP, row.c = c;
  row.kernel = toeplitz_kernel<SIZE, DOWN, UP, TURNED, CHANNELS, WARPS>;
  row.channels = CHANNELS, row.warps = WARPS, row.tile = sizes::TILE, row.staged = sizes::STAGED, row.step = sizes::STEP, row.gap = sizes::GAP;
  row.flight = sizes::FLIGHT, row.down = DOWN, row.up = UP, row.at_once = sizes::AT_ONCE, row.ring = sizes::RING;
  return row;
}

/* What a launch needs. */
typedef struct toeplitz_launch {
  toeplitz_t kernel;
  size_t shared;
  int blocks, threads;
  sweep s;
} toeplitz_launch;

/* Tiles of a row, and the slots that a block keeps of one: 16 tiles, a gap for every image they may lie in, and what the last one reads beyond. */
static inline void toeplitz_tiles(const toeplitz_row *k, sweep *s) {
  s->tiles = (s->out_w + s->shift_w + k->tile - 1) / k->tile;
  const int images = TILES % s->tiles == 0 ? TILES / s->tiles : (TILES - 2) / s->tiles + 2;
  s->slots = TILES * k->step + images * k->gap + 16 - k->step - k->gap;
}

static inline size_t toeplitz_shared(const toeplitz_row *k, const sweep *s) {
  const int pixels = k->at_once * (k->ring * k->down * s->slots + 2 * k->up * TILES * k->staged);
  return (size_t)pixels * (size_t)(k->channels * k->warps) * 2 + (size_t)s->slots * sizeof(int);
}

static inline const char *toeplitz_unsupported(const conv_problem *p, const conv_device *device) {
  if (p->C != p->groups || p->K != p->groups) return "not depthwise: C, K and groups differ";
  if (p->C % 8 != 0) return "C is no multiple of 8";
  if (p->R != p->S || (p->S != 3 && p->S != 5 && p->S != 7)) return "the filter is not 3x3, 5x5 or 7x7";
  if (p->stride_h != p->stride_w || p->stride_h > 2 || p->dil_h != 1 || p->dil_w != 1) return "stride is not 1 or 2, or the filter is dilated";
  return plain_unsupported(p, device);
}

static inline bool toeplitz_is_for(const toeplitz_row *k, const conv_problem *p) {
  return is_square(p, k->size, k->stride) && (k->c == ANY_C || (k->c == BY_48) == (p->C % 48 == 0));
}

/* Rows of a strip such that the cost is lowest; returns it. A block's start costs as much as six steps, a step of a multiprocessor's blocks one
 * unit and another one for every 32 channels: a rough fit to times of several strips on an H200. */
static inline int64_t toeplitz_strip(const toeplitz_row *k, sweep *s, int multiprocessors, int resident) {
  const int rows = s->out_h + s->shift_h, chunk = k->channels * k->warps;
  const int64_t blocks = (int64_t)((s->N * s->tiles + TILES - 1) / TILES) * ((s->C + chunk - 1) / chunk);
  int64_t least = INT64_MAX;
  for (int strips = 1; strips <= rows; strips++) {
    const int strip = ((rows + strips - 1) / strips + k->up - 1) / k->up * k->up, steps = (strip + k->flight - 2) / k->up + 1;
    const int64_t each = (blocks * ((rows + strip - 1) / strip) + multiprocessors - 1) / multiprocessors;
    const int64_t together = each < resident ? each : resident;
    const int64_t cost = (each + resident - 1) / resident * (steps + 6) * (32 + together * chunk);
    if (cost < least) least = cost, s->strip = strip;
  }
  return least;
}

/* Takes the first of the kernels that fits, or one that costs a seventh less. */
static inline const char *toeplitz_plan(const toeplitz_row *table, int count, const conv_problem *p, sweep s, const conv_device *device, conv_plan *plan) {
  toeplitz_launch *l = plan_data<toeplitz_launch>(plan);
  int64_t least = INT64_MAX;
  for (const toeplitz_row *k = table; k < table + count; k++) {
    if (!toeplitz_is_for(k, p)) continue;
    toeplitz_tiles(k, &s);
    const size_t shared = toeplitz_shared(k, &s);
    if (shared > device->shared_per_block) continue;
    int resident = 0;
    cudaError_t status = plan_allow_shared((const void *)k->kernel, shared);
    if (!status) status = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, (const void *)k->kernel, 32 * k->warps, shared);
    if (status) return plan_failed(plan, status);
    const int64_t cost = toeplitz_strip(k, &s, device->sm_count, resident > 0 ? resident : 1);
    if (l->kernel && 7 * cost >= 6 * least) continue;
    least = cost;
    const int chunk = k->channels * k->warps, rows = s.out_h + s.shift_h;
    l->kernel = k->kernel, l->shared = shared, l->threads = 32 * k->warps, l->s = s;
    l->blocks = (s.N * s.tiles + TILES - 1) / TILES * ((s.C + chunk - 1) / chunk) * ((rows + s.strip - 1) / s.strip);
    snprintf(plan->words, sizeof plan->words, "%d channels a block, strips of %d rows", chunk, s.strip);
  }
  return l->kernel ? NULL : "the rows on their way exceed the shared memory";
}

static inline cudaError_t toeplitz_run(const conv_plan *plan, const void *in, const void *w, void *out, cudaStream_t stream) {
  const toeplitz_launch *l = plan_data<toeplitz_launch>(plan);
  l->kernel<<<l->blocks, l->threads, l->shared, stream>>>(l->s, (const __half *)in, (const __half *)w, (__half *)out);
  return cudaGetLastError();
}

/* Each of the R products adds S terms to a sum and cuts what lies below the last bit of the largest. */
static inline double toeplitz_growth(const conv_problem *p, bool random) { return growth_truncated(p->R * (p->S + 1), random); }
