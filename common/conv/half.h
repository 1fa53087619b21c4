/* IEEE 754 binary16 in software: C17 has no portable half type yet. For the harness, and for the emulator's cuda_fp16.h. */
#pragma once
#include <stdint.h>
#include <string.h>

#include "common/conv/host_device.h"

/* Every half is a float: exact. */
static inline HOST_DEVICE float half_to_float(uint16_t h) {
  const uint32_t sign = (uint32_t)(h & 0x8000u) << 16, exponent = (h >> 10) & 31u, fraction = h & 1023u;
  uint32_t bits;
  if (exponent == 31) {
    bits = sign | 0x7f800000u | fraction << 13; /* infinity, NaN */
  } else if (exponent != 0) {
    bits = sign | (exponent + 112) << 23 | fraction << 13;
  } else { /* zero, subnormal: fraction * 2^-24 */
    const float value = (float)fraction * 0x1p-24f;
    memcpy(&bits, &value, sizeof bits);
    bits |= sign;
  }
  float f;
  memcpy(&f, &bits, sizeof f);
  return f;
}

/* Rounds to the nearest half, ties to even; beyond 65519.99 to infinity. */
static inline HOST_DEVICE uint16_t half_from_float(float f) {
  uint32_t bits;
  memcpy(&bits, &f, sizeof bits);
  const uint16_t sign = (uint16_t)(bits >> 16 & 0x8000u);
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return 0x7fffu;         /* NaN, as the hardware writes it */
  if (magnitude >= 0x477ff000u) return sign | 0x7c00u; /* 65520 and more */
  if (magnitude < 0x38800000u) {                       /* below 2^-14: a subnormal half, in units of 2^-24 */
    float value;
    memcpy(&value, &magnitude, sizeof value);
    value += 0.5f; /* 0.5 has a spacing of 2^-24: the addition rounds to nearest even for us */
    memcpy(&bits, &value, sizeof bits);
    return sign | (uint16_t)(bits - 0x3f000000u);
  }
  const uint32_t rounded = magnitude + 0xfffu + (magnitude >> 13 & 1u); /* half of the dropped bits' weight, ties to even */
  return sign | (uint16_t)((rounded - 0x38000000u) >> 13);
}

/* Rounds a double straight to half: going through float could round twice. A round-to-odd float keeps enough to decide. */
static inline HOST_DEVICE uint16_t half_from_double(double d) {
  float f = (float)d;
  if ((double)f != d && f - f == 0) { /* inexact and finite: make the last bit sticky */
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    if (!(bits & 1u)) {
      const double magnitude_f = f < 0 ? -(double)f : (double)f, magnitude_d = d < 0 ? -d : d;
      bits += magnitude_d > magnitude_f ? 1u : (uint32_t)-1; /* towards d: the neighbour is odd */
      memcpy(&f, &bits, sizeof f);
    }
  }
  return half_from_float(f);
}
