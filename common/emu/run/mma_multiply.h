/* The product of mma.m16n8k16 as one matrix product, for each kind of CPU: mma.c brings the fragments. */
#pragma once
#include <stdint.h>

/* In vectors that a compiler cuts for its CPU. */
typedef uint16_t emu_halves8 __attribute__((vector_size(16)));
typedef float emu_floats8 __attribute__((vector_size(32)));

/* a [16][16], b [16][8]: halves. d [16][8] += a b: each sum in double, from k = 0 on, then cut to float. */
typedef struct emu_mma_matrices {
  union {
    uint16_t at[16][16];
    emu_halves8 half_row[16][2];
  } a;
  union {
    uint16_t at[16][8];
    emu_halves8 row[16];
  } b;
  union {
    float at[16][8];
    emu_floats8 row[16];
  } d;
} emu_mma_matrices;

typedef struct emu_mma_way {
  const char *name;
  void (*multiply)(emu_mma_matrices *m);
} emu_mma_way;

/* The ways that this CPU can go, the fastest first; NULL behind the last. All give the same. */
const emu_mma_way *emu_mma_ways(int index);
