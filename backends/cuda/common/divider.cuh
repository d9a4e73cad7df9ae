// divider.cuh - division of numbers below 2^31 by a number that the host knows: one multiplication and a shift, where
// the device's own division takes twenty instructions and registers that loops keep for it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <polyconv/sdk/padding.hpp>

#include <cstdint>

namespace polyconv::cuda {

// n / by = n * ceil(2^(31 + bits) / by) / 2^(31 + bits), where 2^bits is the least power of two not below `by`: the
// rounded factor is too large by less than 1 / 2^31 of itself.
struct Divider {
  int32_t by = 1;
  uint32_t factor = 0, shift = 0; // factor 0: by one

  static Divider make(int32_t by) {
    uint32_t bits = 0;
    while (int64_t{1} << bits < by) ++bits;
    if (bits == 0) return {};
    return {by, static_cast<uint32_t>(((uint64_t{1} << (31 + bits)) + static_cast<uint32_t>(by) - 1) / by), bits - 1};
  }
  POLYCONV_HOST_DEVICE int32_t operator()(int32_t n) const {
#ifdef __CUDA_ARCH__
    return factor == 0 ? n : static_cast<int32_t>(__umulhi(static_cast<uint32_t>(n), factor) >> shift);
#else
    return factor == 0 ? n : static_cast<int32_t>(uint64_t{static_cast<uint32_t>(n)} * factor >> 32 >> shift);
#endif
  }
};

// Likewise, of numbers whose product with the divisor is below 2^32: without a shift, and cheap to make on the device.
struct Quotient {
  uint32_t factor = 0; // 2^32 / divisor, rounded up; 0 for 1

  Quotient() = default;
  POLYCONV_HOST_DEVICE explicit Quotient(int32_t by)
      : factor(by <= 1 ? 0 : 0xffffffffu / static_cast<uint32_t>(by) + 1) {}
#ifdef __CUDACC__
  __device__ int32_t operator()(int32_t n) const {
    return factor == 0 ? n : static_cast<int32_t>(__umulhi(static_cast<uint32_t>(n), factor));
  }
#endif
};

} // namespace polyconv::cuda
