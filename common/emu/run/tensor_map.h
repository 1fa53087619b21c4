/* Tensor maps as the copy engine reads them. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { EMU_TENSOR_DIMS = 5 };

typedef enum { EMU_FILL_ZEROS, EMU_FILL_NAN } emu_fill;

/* What cuTensorMapEncodeTiled or ...Im2col has put into a CUtensorMap (common/emu/include/cuda.h). Dimensions from the innermost on. */
typedef struct emu_tensor_map {
  bool im2col;
  int dims, element_bytes, type;            /* type: CUtensorMapDataType */
  unsigned char *base;                      /* global memory */
  uint64_t size[EMU_TENSOR_DIMS];           /* elements */
  uint64_t stride[EMU_TENSOR_DIMS];         /* bytes; [0]: an element's */
  uint32_t box[EMU_TENSOR_DIMS];            /* tiled: elements of a box along each dimension, before element strides */
  uint32_t element_stride[EMU_TENSOR_DIMS]; /* every so many-th element */
  int32_t lower[3], upper[3];               /* im2col: corners of the box of window bases, W first */
  uint32_t channels, pixels;                /* im2col: of a box */
  int interleave, swizzle;                  /* CUtensorMapInterleave, CUtensorMapSwizzle */
  emu_fill fill;
} emu_tensor_map;

/* Reads the 128 bytes at `map`. Returns NULL, or what is wrong: not 64-byte aligned, not one that was encoded, ... */
const char *emu_tensor_map_read(const void *map, emu_tensor_map *out);

/* Bytes of a box in shared memory: what a load reports to its mbarrier, whatever lies outside of the tensor. */
uint32_t emu_box_bytes(const emu_tensor_map *m);

/* NULL, or why a copy of a box to (from) this shared address may not be: alignment, offsets of im2col mode where it is tiled, ... */
const char *emu_box_refused(const emu_tensor_map *m, int dims, bool has_offsets, uint32_t shared);
/* The same of im2col mode's offsets, dims - 2 of them: how far a tap may lie from its window's base. */
const char *emu_box_offsets_refused(const emu_tensor_map *m, const uint16_t *offsets);

/* The same of a box's coordinates: the innermost is a multiple of 16 bytes; a store's are none of them negative. On an H200 an illegal instruction each; the
 * manual does not have it. */
const char *emu_box_start_refused(const emu_tensor_map *m, const int32_t *coordinates, bool store);

/* Where the byte at this shared address lies under a swizzle (CUtensorMapSwizzle, up to 128 bytes): the number of its 16-byte chunk is XORed with the
 * address bits from 7 on. */
uint32_t emu_swizzle(int swizzle, uint32_t address);

/* Calls piece() for every run of bytes of a box, up to 16 each: at `shared`, swizzled by the bits of the address; from (to) `global`, NULL: outside of the
 * tensor. A store writes 16 bytes wherever one of them is inside: behind rows that are no multiple of 16 bytes it writes past their end (as an H200 does). */
typedef void emu_box_piece(void *context, uint32_t shared, unsigned char *global, unsigned bytes);
void emu_box_walk(const emu_tensor_map *m, const int32_t *coordinates, const uint16_t *offsets, bool store, uint32_t shared, emu_box_piece *piece,
                  void *context);
