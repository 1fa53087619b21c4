/* The copy engine's boxes: which bytes of a tensor go where in shared memory.
 *
 * A box is rows of neighbouring elements, one after the other without gaps: of a tiled map one for each place of the outer dimensions, of an im2col map one
 * for each pixel. Whatever lies outside of the tensor has its place in shared memory all the same. */
#include <stdio.h>

#include "common/emu/run/tensor_map.h"

enum { CHUNK = 16, BOX_ALIGN = 128, SHARED_BYTES = 1 << 18 };

/* Elements of a box along a dimension: every element_stride-th. */
static uint32_t extent(const emu_tensor_map *m, int d) { return (m->box[d] + m->element_stride[d] - 1) / m->element_stride[d]; }

uint32_t emu_box_bytes(const emu_tensor_map *m) {
  if (m->im2col) return m->pixels * m->channels * (uint32_t)m->element_bytes;
  uint64_t bytes = (uint64_t)m->element_bytes;
  for (int d = 0; d < m->dims; d++) bytes *= extent(m, d);
  return bytes > UINT32_MAX ? UINT32_MAX : (uint32_t)bytes;
}

const char *emu_box_refused(const emu_tensor_map *m, int dims, bool has_offsets, uint32_t shared) {
  static _Thread_local char why[160];
  const uint64_t end = (uint64_t)(shared % SHARED_BYTES) + emu_box_bytes(m);
  if (dims != m->dims) snprintf(why, sizeof why, "expected coordinates of the map's %d dimensions, got %d", m->dims, dims);
  else if (m->im2col && !has_offsets) snprintf(why, sizeof why, "a map of im2col mode, an instruction of tiled mode");
  else if (!m->im2col && has_offsets) snprintf(why, sizeof why, "a map of tiled mode, an instruction of im2col mode");
  else if (shared % BOX_ALIGN != 0) snprintf(why, sizeof why, "expected a shared address that is a multiple of %d, got 0x%x", BOX_ALIGN, shared);
  else if (end > SHARED_BYTES) snprintf(why, sizeof why, "a box of %u bytes at 0x%x: past the end of shared memory", emu_box_bytes(m), shared);
  else return NULL;
  return why;
}

const char *emu_box_offsets_refused(const emu_tensor_map *m, const uint16_t *offsets) {
  static _Thread_local char why[160];
  static const unsigned most[EMU_TENSOR_DIMS + 1] = {[3] = 65535, [4] = 255, [5] = 31}; /* 16 bits for all of them together */
  for (int i = 0; i < m->dims - 2; i++)
    if (offsets[i] > most[m->dims])
      return snprintf(why, sizeof why, "expected an offset %d of 0 to %u, for %d dimensions, got %u", i, most[m->dims], m->dims, offsets[i]), why;
  return NULL;
}

const char *emu_box_start_refused(const emu_tensor_map *m, const int32_t *coordinates, bool store) {
  static _Thread_local char why[160];
  if ((int64_t)coordinates[0] * m->element_bytes % CHUNK != 0)
    return snprintf(why, sizeof why, "expected a first coordinate that is a multiple of %d bytes, got %d of %d bytes each", CHUNK, coordinates[0],
                    m->element_bytes),
           why;
  for (int d = 0; store && d < m->dims; d++)
    if (coordinates[d] < 0)
      return snprintf(why, sizeof why, "a store: expected coordinates that are not negative, got %d in dimension %d", coordinates[d], d), why;
  return NULL;
}

uint32_t emu_swizzle(int swizzle, uint32_t address) {
  const uint32_t bits = (1u << swizzle) - 1; /* 0, 1, 3, 7 */
  return address ^ (address >> 7 & bits) << 4;
}

/* Where the walk is and whom it tells. */
typedef struct walk {
  const emu_tensor_map *m;
  bool store;
  uint32_t shared; /* of the next row */
  emu_box_piece *piece;
  void *context;
} walk;

static unsigned clamp(int64_t x, unsigned high) { return x < 0 ? 0 : x > high ? high : (unsigned)x; }

/* One row, `elements` from coordinate `first` on. row: where element 0 of the row lies; NULL: outside of the tensor. */
static void walk_row(walk *w, unsigned char *row, int64_t first, unsigned elements) {
  const unsigned element = (unsigned)w->m->element_bytes, each = CHUNK / element;
  for (unsigned i = 0; i < elements; i += each, first += each, w->shared += CHUNK) {
    const uint32_t to = emu_swizzle(w->m->swizzle, w->shared);
    /* elements [from, end) of the chunk are in the tensor */
    const unsigned from = row ? clamp(-first, each) : each;
    unsigned end = row ? clamp((int64_t)w->m->size[0] - first, each) : each;
    if (w->store && end > 0) end = each;
    if (from > 0) w->piece(w->context, to, NULL, from * element);
    if (end > from) w->piece(w->context, to + from * element, row + (first + from) * element, (end - from) * element);
    if (end < each) w->piece(w->context, to + end * element, NULL, (each - end) * element);
  }
}

/* The row that the coordinates `at` of the outer dimensions name, NULL outside of the tensor. */
static unsigned char *row_at(const emu_tensor_map *m, const int64_t at[EMU_TENSOR_DIMS]) {
  unsigned char *row = m->base;
  for (int d = 1; d < m->dims; d++) {
    if (at[d] < 0 || at[d] >= (int64_t)m->size[d]) return NULL;
    row += (uint64_t)at[d] * m->stride[d];
  }
  return row;
}

static void walk_tile(walk *w, const int32_t *coordinates) {
  const emu_tensor_map *m = w->m;
  int64_t at[EMU_TENSOR_DIMS];
  uint32_t left[EMU_TENSOR_DIMS];
  for (int d = 0; d < m->dims; d++) {
    at[d] = coordinates[d];
    left[d] = extent(m, d);
  }
  for (int d = 0; d < m->dims;) {
    walk_row(w, row_at(m, at), at[0], m->box[0]);
    for (d = 1; d < m->dims; d++) { /* the next row: one step along the first outer dimension that has one left */
      at[d] += m->element_stride[d];
      if (--left[d] > 0) break;
      at[d] = coordinates[d];
      left[d] = extent(m, d);
    }
  }
}

/* Windows' bases run along W, then H, then D, each within its corners, then to the next image. */
static void next_window(const emu_tensor_map *m, int64_t base[EMU_TENSOR_DIMS]) {
  const int images = m->dims - 1;
  for (int d = 1; d < images; d++) {
    base[d] += m->element_stride[d];
    if (base[d] <= (int64_t)m->size[d] - 1 + m->upper[d - 1]) return;
    base[d] = m->lower[d - 1];
  }
  base[images] += m->element_stride[images];
}

static void walk_pixels(walk *w, const int32_t *coordinates, const uint16_t *offsets) {
  const emu_tensor_map *m = w->m;
  int64_t base[EMU_TENSOR_DIMS], at[EMU_TENSOR_DIMS];
  for (int d = 0; d < m->dims; d++) base[d] = coordinates[d];
  for (uint32_t p = 0; p < m->pixels; p++) {
    for (int d = 1; d < m->dims; d++) at[d] = base[d] + (d < m->dims - 1 ? offsets[d - 1] : 0);
    walk_row(w, row_at(m, at), base[0], m->channels);
    next_window(m, base);
  }
}

void emu_box_walk(const emu_tensor_map *m, const int32_t *coordinates, const uint16_t *offsets, bool store, uint32_t shared, emu_box_piece *piece,
                  void *context) {
  walk w = {m, store, shared, piece, context};
  if (m->im2col) walk_pixels(&w, coordinates, offsets);
  else walk_tile(&w, coordinates);
}
