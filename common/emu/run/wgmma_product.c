/* wgmma's arithmetic: operands are gathered through their descriptors as halves, [k][row or column], made floats, and multiplied (wgmma_multiply.c). d is
 * gathered from the threads' registers before a chain and scattered after it.
 *
 * Sums are rounded to nearest after each product, k ascending, record after record. Tensor cores drop what does not fit instead; both are within the bound
 * that the harness derives for them. A NaN is written as 0x7fffffff, CUDA's own, so that every CPU gives the same bits. */
#include "common/emu/run/wgmma_product.h"

#include <stdlib.h>
#include <string.h>

#include "common/emu/run/internal.h"
#include "common/emu/run/wgmma_multiply.h"

enum {
  ROWS = EMU_PRODUCT_ROWS,
  DEPTH = 16, /* of one wgmma */
  BATCH = 4,  /* records that are multiplied at once: d goes through the registers once for them all */
  WINDOW = 256 << 10
};

/* ---------------------------------------------------------------- descriptors */

/* Rows and depth of an operand each lie in two levels: `in` bytes from one to the next inside of a group, `out` bytes from group to group. */
typedef struct layout {
  uint32_t start, swizzle; /* swizzle: the bits that it changes */
  uint32_t row_shift;      /* 2^row_shift rows are a group; of depth 8 */
  uint32_t row_in, row_out, k_in, k_out;
} layout;

/* PTX ISA, Asynchronous Warpgroup Level Matrix Shared Memory Layout, in bytes. With a swizzle of `span` bytes the atom is 8 runs of `span` bytes. */
static layout decode(uint64_t descriptor, bool mn) {
  static const uint32_t span_shift[4] = {4, 7, 6, 5};
  const uint32_t shift = span_shift[descriptor >> 62], span = 1u << shift;
  const uint32_t lbo = (descriptor >> 16 & 0x3fff) << 4, sbo = (descriptor >> 32 & 0x3fff) << 4;
  layout l = {.start = (descriptor & 0x3fff) << 4, .swizzle = span - 16};
  if (!mn) { /* 8 rows, each of `span` bytes along k: LBO counts without a swizzle alone */
    l.row_shift = 3, l.row_in = span, l.row_out = sbo;
    l.k_in = 2, l.k_out = span == 16 ? lbo : 16;
  } else { /* 8 steps of k, each of `span` bytes along the rows */
    l.row_shift = shift - 1, l.row_in = 2, l.row_out = span == 16 ? sbo : lbo;
    l.k_in = span, l.k_out = span == 16 ? lbo : sbo;
  }
  return l;
}

/* The swizzle goes by the bits of the address, wherever the matrix starts: of 128 bytes, bits 7 to 9 onto bits 4 to 6. */
static uint32_t place(const layout *l, uint32_t row, uint32_t k) {
  const uint32_t row_place = (row >> l->row_shift) * l->row_out + (row & ((1u << l->row_shift) - 1)) * l->row_in;
  const uint32_t address = l->start + row_place + (k >> 3) * l->k_out + (k & 7) * l->k_in;
  return (address ^ (address >> 3 & l->swizzle)) & (WINDOW - 1);
}

uint32_t emu_wgmma_address(uint64_t descriptor, bool mn, int row, int k) {
  const layout l = decode(descriptor, mn);
  return place(&l, (uint32_t)row, (uint32_t)k);
}

const char *emu_wgmma_refused(uint64_t descriptor) {
  const uint64_t fields = UINT64_C(0x3fff) | UINT64_C(0x3fff) << 16 | UINT64_C(0x3fff) << 32 | UINT64_C(7) << 49 | UINT64_C(3) << 62;
  if (descriptor & ~fields) return "has bits set outside of its fields";
  if (descriptor >> 49 & 7) return "has a base offset, expected 0: the swizzle goes by the bits of the address";
  return NULL;
}

/* ---------------------------------------------------------------- fragments */

void emu_wgmma_d_place(int thread, int i, int *row, int *column) {
  *row = thread / 32 * 16 + thread % 32 / 4 + i / 2 % 2 * 8;
  *column = i / 4 * 8 + thread % 4 * 2 + i % 2;
}

/* The same with 16 columns. */
void emu_wgmma_a_place(int thread, int half, int *row, int *k) { emu_wgmma_d_place(thread, half, row, k); }

/* ---------------------------------------------------------------- gather */

typedef struct workspace {
  _Alignas(64) float d[ROWS * EMU_PRODUCT_COLUMNS];
  float a[BATCH * DEPTH * ROWS], b[BATCH * DEPTH * EMU_PRODUCT_COLUMNS];
  uint16_t a_halves[BATCH * DEPTH * ROWS], b_halves[BATCH * DEPTH * EMU_PRODUCT_COLUMNS];
} workspace;

/* to [16][stride]: 16 bytes at a time, 8 halves along k or, MN-major, along the rows. */
static void gather(uint16_t *to, int stride, int rows, uint64_t descriptor, bool mn, const unsigned char *shared) {
  const layout l = decode(descriptor, mn);
  if (mn) {
    for (int k = 0; k < DEPTH; k++)
      for (int row = 0; row < rows; row += 8) memcpy(to + k * stride + row, shared + place(&l, (uint32_t)row, (uint32_t)k), 16);
    return;
  }
  for (int row = 0; row < rows; row++)
    for (int k = 0; k < DEPTH; k += 8) {
      uint16_t read[8];
      memcpy(read, shared + place(&l, (uint32_t)row, (uint32_t)k), sizeof read);
      for (int i = 0; i < 8; i++) to[(k + i) * stride + row] = read[i];
    }
}

static void gather_registers(uint16_t *to, const uint32_t (*registers)[4]) {
  for (int thread = 0; thread < EMU_WARPGROUP; thread++)
    for (int half = 0; half < 8; half++) {
      int row, k;
      emu_wgmma_a_place(thread, half, &row, &k);
      to[k * ROWS + row] = (uint16_t)(registers[thread][half / 2] >> 16 * (half % 2));
    }
}

/* Between d and its threads' registers: of 8 columns a thread has two neighbours, in two rows. */
static void gather_d(float *to, int stride, int n, float *const d[EMU_WARPGROUP]) {
  for (int thread = 0; thread < EMU_WARPGROUP; thread++) {
    int row, column;
    emu_wgmma_d_place(thread, 0, &row, &column);
    float *const first = to + row * stride + column, *const second = first + 8 * stride;
    for (int i = 0; i < n / 2; i += 4) {
      memcpy(first + 2 * i, d[thread] + i, 2 * sizeof(float));
      memcpy(second + 2 * i, d[thread] + i + 2, 2 * sizeof(float));
    }
  }
}

static void scatter_d(float *const d[EMU_WARPGROUP], const float *from, int stride, int n) {
  for (int thread = 0; thread < EMU_WARPGROUP; thread++) {
    int row, column;
    emu_wgmma_d_place(thread, 0, &row, &column);
    const float *const first = from + row * stride + column, *const second = first + 8 * stride;
    for (int i = 0; i < n / 2; i += 4) {
      memcpy(d[thread] + i, first + 2 * i, 2 * sizeof(float));
      memcpy(d[thread] + i + 2, second + 2 * i, 2 * sizeof(float));
    }
  }
}

/* ---------------------------------------------------------------- a chain */

static const emu_product_way *chosen;

const char *emu_wgmma_use(int way) {
  const emu_product_way *found = emu_product_ways(way);
  if (found != NULL) chosen = found;
  return found != NULL ? found->name : NULL;
}

/* Of an OS thread: too large for the stack of a CUDA thread. */
static workspace *own(void) {
  static __thread workspace *mine;
  if (mine == NULL) {
    mine = aligned_alloc(64, sizeof *mine);
    if (mine == NULL) emu_no_memory(sizeof *mine, "the product of a wgmma");
    memset(mine, 0, sizeof *mine);
  }
  return mine;
}

void emu_wgmma_chain(float *const d[EMU_WARPGROUP], const emu_wgmma_record *records, int count, const unsigned char *shared) {
  workspace *w = own();
  const emu_product_way *way = chosen != NULL ? chosen : emu_product_ways(0);
  const int n = records->n, stride = (n + 31) / 32 * 32; /* what lies behind column n is computed and dropped */
  bool fresh = true;
  for (int first = 0, next; first < count; first = next) {
    if (!records[first].scale_d) memset(w->d, 0, sizeof w->d);
    else if (fresh) gather_d(w->d, stride, n, d);
    fresh = false;
    for (next = first; next < count && next < first + BATCH && (next == first || records[next].scale_d); next++) {
      const emu_wgmma_record *r = &records[next];
      uint16_t *a = w->a_halves + (next - first) * DEPTH * ROWS, *b = w->b_halves + (next - first) * DEPTH * stride;
      if (r->a_registers != NULL) gather_registers(a, r->a_registers);
      else gather(a, ROWS, ROWS, r->a, r->a_mn, shared);
      gather(b, stride, n, r->b, r->b_mn, shared);
    }
    const int depth = (next - first) * DEPTH;
    way->convert(w->a, w->a_halves, depth * ROWS);
    way->convert(w->b, w->b_halves, depth * stride);
    way->multiply(w->d, w->a, w->b, depth, stride, stride);
  }
  scatter_d(d, w->d, stride, n);
}
