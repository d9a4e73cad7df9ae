/* values.c - see values.h.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "values.h"

#include <math.h>
#include <string.h>

static uint32_t next(uint32_t *state) { /* xorshift, by Marsaglia */
  *state ^= *state << 13;
  *state ^= *state >> 17;
  *state ^= *state << 5;
  return *state;
}

/* A float's upper half is a bfloat16; a half has 5 bits of exponent, of which random numbers here use 2. */
static double small_float(uint16_t bits, int32_t type) {
  const int mantissa_bits = type == POLYCONV_F16 ? 10 : 7, bias = type == POLYCONV_F16 ? 15 : 127;
  const int exponent = bits >> mantissa_bits & (type == POLYCONV_F16 ? 0x1f : 0xff);
  const double mantissa = (double)(bits & ((1 << mantissa_bits) - 1)) / (1 << mantissa_bits);
  double value;
  if (exponent == (type == POLYCONV_F16 ? 0x1f : 0xff))
    value = mantissa > 0 ? NAN : INFINITY;
  else
    value = exponent == 0 ? ldexp(mantissa, 1 - bias) : ldexp(1 + mantissa, exponent - bias);
  return bits >> 15 ? -value : value;
}

static double value_at(const void *data, int32_t type, int64_t i) {
  switch (type) {
    case POLYCONV_F64: return ((const double *)data)[i];
    case POLYCONV_F32: return ((const float *)data)[i];
    case POLYCONV_S32: return ((const int32_t *)data)[i];
    case POLYCONV_S8: return ((const int8_t *)data)[i];
    case POLYCONV_U8: return ((const uint8_t *)data)[i];
    default: return small_float(((const uint16_t *)data)[i], type);
  }
}

void fill_randomly(void *data, int32_t type, int64_t bytes, uint32_t seed) {
  const int64_t count = bytes / (int64_t)polyconv_type_size(type);
  uint32_t state = seed * 2654435761u + 1;
  int64_t i;
  for (i = 0; i < count; ++i) {
    const uint32_t bits = next(&state);
    const float number = (float)(bits >> 8) / (float)(1 << 23) - 1;
    switch (type) {
      case POLYCONV_F64: ((double *)data)[i] = number; break;
      case POLYCONV_F32: ((float *)data)[i] = number; break;
      case POLYCONV_S32: ((int32_t *)data)[i] = (int32_t)(bits % 201) - 100; break;
      case POLYCONV_S8:
      case POLYCONV_U8: ((uint8_t *)data)[i] = (uint8_t)bits; break;
      case POLYCONV_F16: ((uint16_t *)data)[i] = (uint16_t)(0x3400 | (bits & 0x87ff)); break; /* 1/4 to 1, signed */
      default: ((uint16_t *)data)[i] = (uint16_t)(0x3e80 | (bits & 0x80ff)); break;           /* likewise */
    }
  }
}

int compare(const void *data, const void *expected, int32_t type, int64_t bytes, double *difference) {
  const int64_t count = bytes / (int64_t)polyconv_type_size(type);
  const double allowed = type == POLYCONV_F64                            ? 1e-11
                         : type == POLYCONV_F32                          ? 1e-4
                         : type == POLYCONV_F16 || type == POLYCONV_BF16 ? 3e-2
                                                                         : 0;
  double largest = 0, apart = 0;
  int64_t i;
  for (i = 0; i < count; ++i) {
    const double a = value_at(data, type, i), b = value_at(expected, type, i);
    if (isnan(a) != isnan(b)) return *difference = INFINITY, 0;
    if (a == b || isnan(a)) continue;
    if (fabs(a - b) > apart) apart = fabs(a - b);
  }
  for (i = 0; i < count; ++i)
    if (fabs(value_at(expected, type, i)) > largest) largest = fabs(value_at(expected, type, i));
  *difference = largest > 0 ? apart / largest : apart;
  return *difference <= allowed;
}
