/* A solution of exercise predict: all lanes of all warps are listed. */
#include "common/exercise/exercise.h"

enum { WARP = 32, FLOATS_PER_SECTOR = 8 };

/* Sectors of one request whose lanes ask for these elements. */
static int sectors(const int64_t element[], int lanes) {
  int distinct = 0;
  for (int i = 0; i < lanes; i++) {
    bool seen = false;
    for (int j = 0; j < i; j++) seen |= element[j] / FLOATS_PER_SECTOR == element[i] / FLOATS_PER_SECTOR;
    distinct += !seen;
  }
  return distinct;
}

/* The element that thread i asks for when its loops stand at (c, r, s). */
typedef int64_t (*address)(const conv_problem *p, int64_t i, int c, int r, int s);

static int64_t of_store(const conv_problem *p, int64_t i, int c, int r, int s) {
  (void)c, (void)r, (void)s;
  const int64_t k = i % p->K, pixel = i / p->K % (p->P * p->Q), n = i / p->K / (p->P * p->Q);
  return (n * p->K + k) * p->P * p->Q + pixel;
}

static int64_t of_filter(const conv_problem *p, int64_t i, int c, int r, int s) { return ((i % p->K * p->C + c) * p->R + r) * p->S + s; }

static int64_t of_image(const conv_problem *p, int64_t i, int c, int r, int s) {
  const int64_t q = i / p->K % p->Q, out_p = i / p->K / p->Q % p->P, n = i / p->K / p->Q / p->P;
  return ((n * p->C + c) * p->H + out_p + r) * p->W + q + s;
}

/* Sum over all warps and all rounds of the three loops. */
static int64_t all_requests(const conv_problem *p, address of, int C, int R, int S) {
  const int64_t threads = (int64_t)p->N * p->K * p->P * p->Q;
  int64_t sum = 0;
  for (int64_t first = 0; first < threads; first += WARP)
    for (int c = 0; c < C; c++)
      for (int r = 0; r < R; r++)
        for (int s = 0; s < S; s++) {
          const int lanes = threads - first < WARP ? (int)(threads - first) : WARP;
          int64_t element[WARP];
          for (int lane = 0; lane < lanes; lane++) element[lane] = of(p, first + lane, c, r, s);
          sum += sectors(element, lanes);
        }
  return sum;
}

int64_t predict_store_sectors(const conv_problem *p) { return all_requests(p, of_store, 1, 1, 1); }
int64_t predict_filter_sectors(const conv_problem *p) { return all_requests(p, of_filter, p->C, p->R, p->S); }
int64_t predict_image_sectors(const conv_problem *p) { return all_requests(p, of_image, p->C, p->R, p->S); }
