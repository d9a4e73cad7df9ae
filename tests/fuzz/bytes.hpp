// bytes.hpp - the input of a fuzz target, taken from the front piece by piece. What is beyond the end reads as 0, so
// that every input means something and a shorter one means nearly the same.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

namespace polyconv_fuzz {

class Bytes {
 public:
  Bytes(const uint8_t *data, size_t size) : data_(data), left_(size) {}

  void take_into(void *to, size_t size) {
    const size_t taken = std::min(size, left_);
    std::memset(to, 0, size);
    if (taken > 0) std::memcpy(to, data_, taken);
    data_ += taken;
    left_ -= taken;
  }

  template <class T>
  T take() {
    T value;
    take_into(&value, sizeof value);
    return value;
  }

  // One of 0 .. count-1; count is at most 256.
  int32_t below(int32_t count) { return take<uint8_t>() % count; }
  bool yes() { return below(2) == 1; }

  // Mostly a size that makes a small problem, sometimes one at the edge of what 64 bits hold.
  int64_t size_value() {
    switch (below(8)) {
      case 0: return take<int64_t>();
      case 1: return static_cast<int64_t>((uint64_t{1} << below(64)) + static_cast<uint64_t>(below(3)) - 1);
      case 2: return -static_cast<int64_t>(below(9));
      case 3: return below(256);
      default: return 1 + below(8);
    }
  }

  std::string rest() {
    std::string text(reinterpret_cast<const char *>(data_), left_);
    left_ = 0;
    return text;
  }

 private:
  const uint8_t *data_;
  size_t left_;
};

} // namespace polyconv_fuzz
