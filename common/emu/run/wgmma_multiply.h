/* The inner loop of wgmma's arithmetic, in as many ways as CPUs have vectors. */
#pragma once
#include <stdint.h>

enum { EMU_PRODUCT_ROWS = 64, EMU_PRODUCT_COLUMNS = 256 /* at most; room for a multiple of 32 */ };

/* One way: halves to floats, `count` a multiple of 32; d [64][stride] += a b for `columns` of them, a multiple of 32; a [depth][64], b [depth][stride];
 * addresses: multiples of 64.
 *
 * Every element is summed in the order of depth, each time a product and a sum in fp32. The product of two halves has 22 bits and is exact, so a fused
 * multiply-add gives the same bits as a multiplication and an addition; a NaN is written as 0x7fffffff. So all ways agree, on all CPUs. */
typedef struct emu_product_way {
  const char *name;
  void (*convert)(float *to, const uint16_t *halves, int count);
  void (*multiply)(float *d, const float *a, const float *b, int depth, int columns, int stride);
} emu_product_way;

/* The way number `index` of those that this CPU has, the fastest first; NULL: there are no more. */
const emu_product_way *emu_product_ways(int index);
