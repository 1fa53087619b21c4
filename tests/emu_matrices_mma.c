/* Every way to multiply for mma.m16n8k16, against the plain definition, bit by bit: small and large numbers, subnormals, infinities, NaN. */
#include <string.h>

#include "common/conv/half.h"
#include "common/conv/random.h"
#include "common/emu/run/mma_multiply.h"
#include "tests/tap.h"

/* Towards zero. */
static float truncated(double x) {
  float f = (float)x;
  uint32_t bits;
  memcpy(&bits, &f, sizeof bits);
  if (f - f == 0 && (f > 0 ? f > x : f < x)) bits--;
  memcpy(&f, &bits, sizeof f);
  return f;
}

static void define(emu_mma_matrices *m) {
  for (int row = 0; row < 16; row++)
    for (int column = 0; column < 8; column++) {
      double sum = m->d.at[row][column];
      for (int k = 0; k < 16; k++) sum += (double)half_to_float(m->a.at[row][k]) * half_to_float(m->b.at[k][column]);
      m->d.at[row][column] = truncated(sum);
    }
}

/* What the numbers are like: fp16 bit patterns that may occur, and how large d is. */
static const struct {
  const char *what;
  uint16_t keep, set; /* of random bits */
  double d;
} kinds[] = {{"all numbers", 0xbfff, 0, 1},
             {"subnormal halves", 0x83ff, 0, 0x1p-40},
             {"large halves, about the largest float", 0xfbff, 0x4000, 0x1.fffffep127},
             {"tiny sums", 0x83ff, 0, 0x1p-149},
             {"infinities", 0, 0x7c00, 1},
             {"NaN among the numbers", 0xffff, 0x7000, 1}};

int main(void) {
  plan(0);
  for (int i = 0; emu_mma_ways(i) != NULL; i++)
    for (size_t kind = 0; kind < sizeof kinds / sizeof *kinds; kind++) {
      int wrong = 0, numbers = 0;
      for (uint64_t trial = 0; trial < 200; trial++) {
        emu_mma_matrices m, want;
        for (uint64_t j = 0; j < 256; j++) (&m.a.at[0][0])[j] = (uint16_t)((random_bits(trial, j) & kinds[kind].keep) | kinds[kind].set);
        for (uint64_t j = 0; j < 128; j++) (&m.b.at[0][0])[j] = (uint16_t)((random_bits(trial, 256 + j) & kinds[kind].keep) | kinds[kind].set);
        for (uint64_t j = 0; j < 128; j++) (&m.d.at[0][0])[j] = (float)(kinds[kind].d * random_integer(trial, 384 + j, 1));
        want = m;
        define(&want);
        emu_mma_ways(i)->multiply(&m);
        for (int j = 0; j < 128; j++) {
          const float got = (&m.d.at[0][0])[j], right = (&want.d.at[0][0])[j];
          wrong += right != right ? got == got : memcmp(&got, &right, sizeof got) != 0;
          numbers += right == right;
        }
      }
      ok(wrong == 0 && numbers > 0, "%s: %s, %d wrong of %d that are numbers", emu_mma_ways(i)->name, kinds[kind].what, wrong, numbers);
    }
  return done_testing();
}
