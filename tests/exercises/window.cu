/* A solution of exercise window: one box for all taps; between the rows of a tile lie columns of d that nobody stores. */
#include "06_tensorcore_fp16/tiles.cuh"
#include "common/exercise/exercise.h"

static constexpr int MOST_N = 128 /* pixels of a product */, TAP = WGMMA_M * ROW /* bytes of a tap's filters */;

/* A tile: `rows` rows of y, and the box of x that lies under it: `height` rows of `pitch` pixels. Row i of the product of a tap is pixel i of the box, counted from
 * where the tap's pixels begin. */
typedef struct window_cut {
  int rows, pitch, height, tiles_p; /* tiles_p: tiles of an image */
} window_cut;

static window_cut cut_of(const conv_problem *p) {
  window_cut t;
  t.pitch = p->Q + (p->S - 1) * p->dil_w;
  t.rows = MOST_N / t.pitch < p->P ? MOST_N / t.pitch : p->P;
  t.height = t.rows + (p->R - 1) * p->dil_h;
  t.tiles_p = (p->P + t.rows - 1) / t.rows;
  return t;
}

/* Bytes of shared memory for pixels: the box, and what the last tap's product reads; in whole groups of eight rows. It begins at most `height - rows` rows and
 * fewer than `pitch` pixels further on. */
static int pixel_bytes(const window_cut *t) { return (MOST_N + (t->height - t->rows + 1) * t->pitch + 7) / 8 * 8 * ROW; }

/* A block: a tile. d [64 filters][MOST_N pixels] = a [64][64 R S] x b, filters as a. */
__global__ void __launch_bounds__(THREADS) my_fprop_kernel(conv_problem p, window_cut t, int bytes, const __grid_constant__ CUtensorMap boxes,
                                                           const __grid_constant__ CUtensorMap filter_tiles, const __grid_constant__ CUtensorMap results) {
  extern __shared__ __align__(1024) unsigned char shared[];
  __shared__ unsigned long long barrier[1];
  const ptx_shared pixels = ptx_shared_address(shared), filters = pixels + bytes, there = ptx_shared_address(barrier);
  const int n = blockIdx.x / t.tiles_p, first_p = blockIdx.x % t.tiles_p * t.rows;
  if (threadIdx.x == 0) {
    ptx_mbarrier_init(there, 1);
    ptx_fence_mbarrier_init();
  }
  /* Products read MOST_N rows, boxes may have less. What lies behind them becomes columns of d that nobody stores. */
  for (int i = threadIdx.x; i < bytes / 16; i += THREADS) *(uint4 *)(shared + 16 * i) = make_uint4(0, 0, 0, 0);
  ptx_fence_proxy_async(); /* the copy engine and the tensor cores see the zeros */
  __syncthreads();         /* barrier and zeros are there */

  float sum[1][MOST_N / 2] = {};
  for (int tap = 0; tap < p.R * p.S; tap++) {
    const int r = tap / p.S, s = tap % p.S;
    if (threadIdx.x == 0) {
      ptx_mbarrier_arrive_expect_tx(there, (tap == 0 ? t.height * t.pitch * ROW : 0) + TAP);
      if (tap == 0) ptx_tensor_load(pixels, &boxes, {0, -p.pad_left, first_p - p.pad_top, n}, there);
      ptx_tensor_load(filters, &filter_tiles, {0, tap, 0}, there);
    }
    ptx_mbarrier_wait(there, tap & 1);
    multiply<false>(sum, filters, pixels + (r * p.dil_h * t.pitch + s * p.dil_w) * ROW);
    ptx_wgmma_wait<0>();
    __syncthreads(); /* nobody reads the filters any more, and in the end the pixels */
  }

  put_turned<MOST_N>(sum[0], pixels);
  ptx_fence_proxy_async();
  __syncthreads(); /* the results are there */
  if (threadIdx.x == 0) {
    ptx_tensor_store(&results, {0, 0, first_p, n}, pixels);
    ptx_bulk_commit();
    ptx_bulk_wait_read<0>();
  }
}

cudaError_t exercise_launch(const conv_problem *p, const conv_buffers *b, cudaStream_t stream) {
  const window_cut t = cut_of(p);
  const int bytes = pixel_bytes(&t), shared = bytes + TAP;
  const cuuint64_t x_size[4] = {(cuuint64_t)p->C, (cuuint64_t)p->W, (cuuint64_t)p->H, (cuuint64_t)p->N},
                   y_size[4] = {(cuuint64_t)p->K, (cuuint64_t)p->Q, (cuuint64_t)p->P, (cuuint64_t)p->N};
  /* What a box of results has beside the image, or below it, is not stored. */
  const cuuint32_t x_box[4] = {BK, (cuuint32_t)t.pitch, (cuuint32_t)t.height, 1}, y_box[4] = {WGMMA_M, (cuuint32_t)t.pitch, (cuuint32_t)t.rows, 1};
  conv_plan plan;
  CUtensorMap boxes, filter_tiles, results;
  const char *why = map_tiles(&plan, &boxes, "x", 4, x_size, x_box);
  if (!why) why = map_filters(&plan, &filter_tiles, p, WGMMA_M);
  if (!why) why = map_tiles(&plan, &results, "y", 4, y_size, y_box);
  if (why) {
    fprintf(stderr, "%s\n", why);
    return cudaErrorNotSupported;
  }
  cudaError_t status = map_at(&boxes, &boxes, b->x);
  if (!status) status = map_at(&filter_tiles, &filter_tiles, b->w);
  if (!status) status = map_at(&results, &results, b->y);
  if (!status) status = cudaFuncSetAttribute((const void *)my_fprop_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared);
  if (status) return status;
  my_fprop_kernel<<<p->N * t.tiles_p, THREADS, shared, stream>>>(*p, t, bytes, boxes, filter_tiles, results);
  return cudaGetLastError();
}
