// checked.hpp - 64-bit arithmetic on sizes that remembers whether it ever overflowed: for numbers that come from a
// caller or a backend and that nothing has bounded yet.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace polyconv {

class Checked {
 public:
  explicit Checked(int64_t value) : value_(value) {}
  Checked &add(int64_t other) {
    fine_ = !__builtin_add_overflow(value_, other, &value_) && fine_;
    return *this;
  }
  Checked &subtract(int64_t other) {
    fine_ = !__builtin_sub_overflow(value_, other, &value_) && fine_;
    return *this;
  }
  Checked &multiply(int64_t other) {
    fine_ = !__builtin_mul_overflow(value_, other, &value_) && fine_;
    return *this;
  }
  // False where anything overflowed; *value is nothing to rely on then.
  bool get(int64_t *value) const {
    *value = value_;
    return fine_;
  }
  bool at_most(int64_t limit) const { return fine_ && value_ <= limit; }

 private:
  int64_t value_;
  bool fine_ = true;
};

} // namespace polyconv
