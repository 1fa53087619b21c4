/* Half precision is IEEE binary16: checked exhaustively against values built from exponent and fraction, and on random numbers against
 * a search for the nearest half that uses no bit trick. Only the toolkit's names are used: nvcc compiles it too, for a GPU. */
#include <cuda_fp16.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

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

static bool same(unsigned a, unsigned b) { return a == b || ((a & 0x7FFF) > 0x7C00 && (b & 0x7FFF) > 0x7C00); }
static unsigned bits_of(__half a) { return __half_as_ushort(a); }
static __half from_bits(unsigned bits) { return __ushort_as_half((unsigned short)bits); }

enum { OPERANDS = 1000000 };
struct results {
  unsigned short sum, difference, product, quotient, fused;
  unsigned short compared; /* bit 0: <, bit 1: ==, bit 2: >= */
};

__global__ void operate(const unsigned short *operand, results *r, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const __half a = __ushort_as_half(operand[3 * i]), b = __ushort_as_half(operand[3 * i + 1]), c = __ushort_as_half(operand[3 * i + 2]);
  r[i].sum = __half_as_ushort(__hadd(a, b));
  r[i].difference = __half_as_ushort(a - b);
  r[i].product = __half_as_ushort(a * b);
  r[i].quotient = __half_as_ushort(a / b);
  r[i].fused = __half_as_ushort(__hfma(a, b, c));
  r[i].compared = (unsigned short)((a < b) + 2 * (a == b) + 4 * (a >= b));
}

__global__ void scale(const half *x, half2 *y, int n) {
  const int i = threadIdx.x;
  if (i < n) y[i] = __hfma2(__half2half2(x[i]), __floats2half2_rn(2.0f, -1.0f), __half2(__float2half(1.0f), 0.5f));
}

int main() {
  int wrong_value = 0, wrong_back = 0;
  for (unsigned bits = 0; bits < 65536; bits++) {
    const double expected = value_of(bits), got = __half2float(from_bits(bits));
    wrong_value += !(got == expected || (got != got && expected != expected)) || (got == 0 && signbit(got) != (bits >> 15 != 0));
    wrong_back += !same(bits_of(__float2half((float)got)), bits);
  }
  ok(wrong_value == 0, "all 65536 halves have the value their bits define");
  ok(wrong_back == 0, "all 65536 halves survive the way to float and back");

  int wrong = 0;
  for (int i = 0; i < 2000000; i++) {
    const uint32_t bits = random32();
    float x;
    memcpy(&x, &bits, sizeof x);
    wrong += !same(bits_of(__float2half_rn(x)), nearest(x));
  }
  ok(wrong == 0, "2 million random floats of all sizes round to the nearest half");
  wrong = 0;
  for (unsigned bits = 0; bits < 0x7C00; bits++) { /* the hard cases: half-way points and their neighbours */
    const float middle = (float)((value_of(bits) + (bits == 0x7BFF ? 65536 : value_of(bits + 1))) / 2);
    const float around[3] = {nextafterf(middle, 0), middle, nextafterf(middle, INFINITY)};
    for (const float x : around) wrong += !same(bits_of(__float2half(x)), nearest(x)) || !same(bits_of(__float2half(-x)), nearest(-x));
  }
  ok(wrong == 0, "every half-way point rounds to even, its neighbours to their side");
  wrong = 0;
  for (unsigned bits = 0; bits < 0x7C00; bits++) { /* closer to the middle than a float can be */
    const double middle = (value_of(bits) + (bits == 0x7BFF ? 65536 : value_of(bits + 1))) / 2;
    const double around[3] = {nextafter(middle, 0), middle, nextafter(middle, INFINITY)};
    for (const double x : around) wrong += !same(bits_of(__double2half(x)), nearest(x));
  }
  ok(wrong == 0, "doubles round once, not twice");

  static unsigned short operands[3 * OPERANDS];
  static results host[OPERANDS];
  for (unsigned short &operand : operands) operand = (unsigned short)random32();
  unsigned short *device_operands;
  results *device;
  cudaMalloc(&device_operands, sizeof operands);
  cudaMalloc(&device, sizeof host);
  cudaMemcpy(device_operands, operands, sizeof operands, cudaMemcpyHostToDevice);
  operate<<<(OPERANDS + 255) / 256, 256>>>(device_operands, device, OPERANDS);
  cudaMemcpy(host, device, sizeof host, cudaMemcpyDeviceToHost);

  int bad_add = 0, bad_mul = 0, bad_div = 0, bad_fma = 0, bad_compare = 0;
  for (int i = 0; i < OPERANDS; i++) {
    const double a = value_of(operands[3 * i]), b = value_of(operands[3 * i + 1]), c = value_of(operands[3 * i + 2]);
    bad_add += !same(host[i].sum, nearest(a + b)) || !same(host[i].difference, nearest(a - b));
    bad_mul += !same(host[i].product, nearest(a * b));
    bad_div += !same(host[i].quotient, nearest(a / b));                         /* a quotient of halves is never so near to a half-way point that double errs */
    bad_fma += !same(host[i].fused, nearest((double)((long double)a * b + c))); /* nor a sum, in 64 bits and then 53 */
    bad_compare += host[i].compared != (a < b) + 2 * (a == b) + 4 * (a >= b);
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
