/* Half precision is IEEE binary16: checked exhaustively against values built from exponent and fraction, and on random numbers against
 * a search for the nearest half that uses no bit trick. */
#include <cuda_fp16.h>
#include <stdint.h>

#include "tests/tap.h"

/* What the bits mean, by definition. */
static double value_of(unsigned bits) {
  const int sign = bits >> 15 ? -1 : 1, exponent = bits >> 10 & 31, fraction = bits & 1023;
  if (exponent == 31) return fraction ? NAN : sign * (double)INFINITY;
  return sign * (exponent == 0 ? ldexp(fraction, -24) : ldexp(1024 + fraction, exponent - 25));
}

/* The nearest half by binary search over all finite ones, ties to even; 65520, half-way to what would follow 65504, is infinity. */
static unsigned nearest(double x) {
  if (x != x) return 0x7FFF;
  const unsigned sign = signbit(x) ? 0x8000 : 0;
  x = fabs(x);
  if (x >= 65520) return sign | 0x7C00;
  unsigned low = 0, high = 0x7C00; /* value_of(low) <= x < the next */
  while (high - low > 1) {
    const unsigned middle = (low + high) / 2;
    if (value_of(middle) <= x) low = middle;
    else high = middle;
  }
  if (low == 0x7BFF) return sign | low;
  const double below = x - value_of(low), above = value_of(low + 1) - x;
  return sign | (below < above || (below == above && low % 2 == 0) ? low : low + 1);
}

static uint64_t state = 1;
static uint32_t random32() {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(state >> 32);
}

static bool same(__half a, unsigned bits) { return a.bits == bits || (__hisnan(a) && (bits & 0x7FFF) > 0x7C00); }
static __half from_bits(unsigned bits) { return __ushort_as_half((unsigned short)bits); }

__global__ void scale(const half *x, half2 *y, int n) {
  const int i = threadIdx.x;
  if (i < n) y[i] = __hfma2(__half2half2(x[i]), __floats2half2_rn(2.0f, -1.0f), __half2(__float2half(1.0f), 0.5f));
}

int main() {
  int wrong_value = 0, wrong_back = 0;
  for (unsigned bits = 0; bits < 65536; bits++) {
    const double expected = value_of(bits), got = __half2float(from_bits(bits));
    wrong_value += !(got == expected || (got != got && expected != expected)) || (got == 0 && signbit(got) != (bits >> 15 != 0));
    wrong_back += !same(__float2half((float)got), bits);
  }
  ok(wrong_value == 0, "all 65536 halves have the value their bits define");
  ok(wrong_back == 0, "all 65536 halves survive the way to float and back");

  int wrong = 0;
  for (int i = 0; i < 2000000; i++) {
    const float x = __uint_as_float(random32());
    wrong += !same(__float2half_rn(x), nearest(x));
  }
  ok(wrong == 0, "2 million random floats of all sizes round to the nearest half");
  wrong = 0;
  for (unsigned bits = 0; bits < 0x7C00; bits++) { /* the hard cases: half-way points and their neighbours */
    const float middle = (float)((value_of(bits) + (bits == 0x7BFF ? 65536 : value_of(bits + 1))) / 2);
    const float around[3] = {nextafterf(middle, 0), middle, nextafterf(middle, INFINITY)};
    for (const float x : around) wrong += !same(__float2half(x), nearest(x)) || !same(__float2half(-x), nearest(-x));
  }
  ok(wrong == 0, "every half-way point rounds to even, its neighbours to their side");
  wrong = 0;
  for (unsigned bits = 0; bits < 0x7C00; bits++) { /* closer to the middle than a float can be */
    const double middle = (value_of(bits) + (bits == 0x7BFF ? 65536 : value_of(bits + 1))) / 2;
    const double around[3] = {nextafter(middle, 0), middle, nextafter(middle, INFINITY)};
    for (const double x : around) wrong += !same(__double2half(x), nearest(x));
  }
  ok(wrong == 0, "doubles round once, not twice");

  int bad_add = 0, bad_mul = 0, bad_div = 0, bad_fma = 0, bad_compare = 0;
  for (int i = 0; i < 1000000; i++) {
    const __half a = from_bits(random32() & 0xFFFF), b = from_bits(random32() & 0xFFFF), c = from_bits(random32() & 0xFFFF);
    const double x = value_of(a.bits), y = value_of(b.bits), z = value_of(c.bits);
    bad_add += !same(__hadd(a, b), nearest(x + y)) || !same(a - b, nearest(x - y));
    bad_mul += !same(a * b, nearest(x * y));
    bad_div += !same(a / b, nearest(x / y)); /* a quotient of two halves is never so close to a half-way point that double's rounding matters */
    const long double sum = (long double)x * y + z;
    const double once = (double)sum; /* 64 bits hold any sum whose rounding is in doubt */
    bad_fma += !same(__hfma(a, b, c), nearest(once));
    bad_compare += (a < b) != (x < y) || (a == b) != (x == y) || (a >= b) != (x >= y);
  }
  ok(bad_add == 0, "sums and differences of a million random pairs are correctly rounded");
  ok(bad_mul == 0, "products");
  ok(bad_div == 0, "quotients");
  ok(bad_fma == 0, "fused multiply-adds round once");
  ok(bad_compare == 0, "comparisons, NaN included");

  half h[8], *x;
  half2 r[8], *y;
  for (int i = 0; i < 8; i++) h[i] = __float2half((float)i - 3);
  cudaMalloc(&x, sizeof h);
  cudaMalloc(&y, sizeof r);
  cudaMemcpy(x, h, sizeof h, cudaMemcpyHostToDevice);
  scale<<<1, 32>>>(x, y, 8);
  cudaMemcpy((void *)r, y, sizeof r, cudaMemcpyDeviceToHost);
  wrong = 0;
  for (int i = 0; i < 8; i++) wrong += __low2float(r[i]) != 2.0f * ((float)i - 3) + 1 || __half22float2(r[i]).y != -((float)i - 3) + 0.5f;
  ok(wrong == 0, "half and half2 in a kernel");
  ok(sizeof(half) == 2 && sizeof(half2) == 4 && alignof(half2) == 4, "half is 2 bytes, half2 4");
  return done_testing();
}
