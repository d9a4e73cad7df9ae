// text.hpp - reading and writing the pieces of a problem token: numbers that print and parse exactly, whatever
// the locale, and errors that show the part they are about.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <polyconv/sdk/printf.hpp>

#include <cstdint>
#include <string>
#include <string_view>

namespace polyconv {

// One entry an axis, or one for all.
struct AxisList {
  int count = 0;
  int64_t values[3] = {};
};

// A part of a token, read from left to right. Every function that returns a value throws Failure(INVALID_ARGUMENT)
// naming the whole part where the text is not what was asked for.
class Piece {
 public:
  explicit Piece(std::string_view whole) : whole_(whole), rest_(whole) {}

  std::string_view whole() const { return whole_; }
  std::string_view rest() const { return rest_; }
  bool empty() const { return rest_.empty(); }

  bool take(std::string_view text);            // skips `text` if it comes next
  std::string_view take_until(char separator); // up to the separator (which is skipped) or the end
  int64_t size(const char *what);              // digits
  int32_t integer(const char *what);           // digits with or without '-'
  int64_t signed_size(const char *what);       // likewise
  float real32(const char *what);
  double real64(const char *what);
  AxisList axes(const char *what);        // sizes with 'x' between
  AxisList signed_axes(const char *what); // likewise, each with or without '-'
  void finish(const char *what);          // nothing may be left

  [[noreturn]] POLYCONV_PRINTF(2, 3) void refuse(const char *format, ...) const;

 private:
  AxisList list_of(const char *what, int64_t (Piece::*number)(const char *));

  std::string_view whole_;
  std::string_view rest_;
};

// The shortest text that parses back to the same number; no '+' in exponents, since '+' joins an epilogue.
std::string to_text(int64_t value);
std::string to_text(float value);
std::string to_text(double value);

// "3x5", or "3" where `count` equal values may be one.
std::string axes_text(const int64_t *values, int count, bool shorten);

} // namespace polyconv
