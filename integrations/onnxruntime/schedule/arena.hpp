// arena.hpp - places in one block of memory, given out before it exists.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef POLYCONV_ORT_ARENA_HPP
#define POLYCONV_ORT_ARENA_HPP

#include <polyconv/polyconv.h>

#include <algorithm>
#include <map>

namespace polyconv_ort {

class Arena {
 public:
  // The lowest place that is large enough: what was used last is still in the caches there.
  size_t take(size_t bytes) {
    bytes = rounded(bytes);
    size_t at = 0;
    for (const auto &[offset, size] : used_) {
      if (offset - at >= bytes) break;
      at = offset + size;
    }
    used_[at] = bytes;
    bytes_ = std::max(bytes_, at + bytes);
    return at;
  }
  void give(size_t offset) { used_.erase(offset); }
  size_t bytes() const { return bytes_; }

 private:
  // At least one unit, so that no two places begin alike.
  static size_t rounded(size_t bytes) {
    return std::max<size_t>(1, (bytes + POLYCONV_ALIGNMENT - 1) / POLYCONV_ALIGNMENT) * POLYCONV_ALIGNMENT;
  }
  std::map<size_t, size_t> used_; // offset: bytes
  size_t bytes_ = 0;
};

} // namespace polyconv_ort
#endif // POLYCONV_ORT_ARENA_HPP
