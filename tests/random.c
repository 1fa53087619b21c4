/* Random numbers: the generator's own logarithm and cosine beside the C library's, and what it makes of them beside what independent normal numbers are
 * like. */
#include "common/conv/random.h"

#include "tests/tap.h"

static void elementary_functions(void) {
  enum { NUMBERS = 1000000 };
  double log_off = 0, cosine_off = 0;
  for (uint64_t i = 0; i < NUMBERS; i++) {
    const double u = ((double)(random_bits(5, i) >> 11) + 0.5) * 0x1p-53, near_1 = 1 - u * 0x1p-20, near_0 = u * 0x1p-30;
    const double at[3] = {u, near_1, near_0};
    for (int k = 0; k < 3; k++) log_off = fmax(log_off, fabs(random_log(at[k]) / log(at[k]) - 1));
    cosine_off = fmax(cosine_off, fabs(random_cosine(u) - cos(2 * M_PI * u)));
  }
  ok(log_off < 0x1p-50 && random_log(1) == 0, "the logarithm is the C library's to a share of %.2g", log_off);
  ok(cosine_off < 0x1p-49 && random_cosine(0) == 1 && random_cosine(1) == 1 && fabs(random_cosine(0.25)) < 0x1p-50,
     "the cosine to %.2g, of which half is the rounding of 2 pi v", cosine_off);
}

/* Moments and bins of what is filled in, against what independent normal numbers have. */
static void normal_numbers(void) {
  enum { NUMBERS = 4000000, BINS = 64 };
  double moment[5] = {0}, neighbours = 0, before = 0, chi = 0;
  int64_t bin[BINS] = {0}, beyond_3 = 0;
  for (uint64_t i = 0; i < NUMBERS; i++) {
    const double x = random_normal(1, i);
    for (int k = 1; k <= 4; k++) moment[k] += pow(x, k) / NUMBERS;
    neighbours += x * before / NUMBERS;
    before = x;
    beyond_3 += fabs(x) > 3;
    bin[(int)(BINS * 0.5 * erfc(-x * M_SQRT1_2))]++;
  }
  for (int i = 0; i < BINS; i++) chi += pow((double)bin[i] - (double)NUMBERS / BINS, 2) / ((double)NUMBERS / BINS);
  const double sigma = 1 / sqrt(NUMBERS), expected_beyond = 0.0026997960632601866 * NUMBERS;
  ok(fabs(moment[1]) < 4 * sigma && fabs(moment[2] - 1) < 4 * sqrt(2) * sigma && fabs(moment[3]) < 4 * sqrt(15) * sigma &&
         fabs(moment[4] - 3) < 4 * sqrt(96) * sigma,
     "%d normal numbers: moments %.4f, %.4f, %.4f, %.4f within 4 deviations of 0, 1, 0, 3", NUMBERS, moment[1], moment[2], moment[3], moment[4]);
  ok(fabs(neighbours) < 4 * sigma, "neighbours are not correlated: %.5f", neighbours);
  ok(fabs((double)beyond_3 - expected_beyond) < 4 * sqrt(expected_beyond), "%lld of them are beyond 3, %.0f expected", (long long)beyond_3, expected_beyond);
  ok(chi > 20 && chi < 130, "%d equally likely bins: chi-square %.1f of %d", BINS, chi, BINS - 1);
}

int main(void) {
  plan(0);
  elementary_functions();
  normal_numbers();
  return done_testing();
}
