// read_number.hpp - std::from_chars, which knows no locale, and what stands in for it where a C++ library reads no real
// numbers so: clang's before 20.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>

namespace polyconv {

// How many letters at the start of `text` are a real number in decimals, as std::from_chars takes them: 0 for none.
inline size_t real_length(std::string_view text) {
  const auto digits_from = [&](size_t i) {
    const auto other = std::find_if(text.begin() + static_cast<std::ptrdiff_t>(std::min(i, text.size())), text.end(),
                                    [](char c) { return c < '0' || c > '9'; });
    return static_cast<size_t>(other - text.begin()) - std::min(i, text.size());
  };
  const auto is_at = [&](size_t i, char a, char b) { return i < text.size() && (text[i] == a || text[i] == b); };
  size_t end = is_at(0, '-', '-') ? 1 : 0;
  const size_t whole = digits_from(end);
  end += whole;
  const size_t behind = is_at(end, '.', '.') ? digits_from(end + 1) : 0;
  if (whole + behind == 0) return 0;
  if (is_at(end, '.', '.')) end += 1 + behind;
  if (is_at(end, 'e', 'E')) {
    const size_t sign = is_at(end + 1, '+', '-') ? 1 : 0, power = digits_from(end + 1 + sign);
    if (power > 0) end += 1 + sign + power;
  }
  return end;
}

// What the C library prints between the whole and the rest of a number: the locale of whoever uses this library is
// theirs.
inline std::string decimal_point() {
  char half[16] = "";
  const int length = std::snprintf(half, sizeof half, "%.1f", 0.5);
  return length > 2 ? std::string(half + 1, static_cast<size_t>(length) - 2) : ".";
}

// std::from_chars of a float or a double by the C library: for finite numbers in decimals.
template <class Real>
std::from_chars_result read_real(std::string_view text, Real *value) {
  const size_t length = real_length(text);
  if (length == 0) return {text.data(), std::errc::invalid_argument};
  std::string number(text.substr(0, length));
  const std::string_view mantissa = text.substr(0, std::min(number.find_first_of("eE"), length));
  const bool is_zero = mantissa.find_first_of("123456789") == std::string_view::npos;
  if (const size_t point = number.find('.'); point != std::string::npos) number.replace(point, 1, decimal_point());
  char *end = nullptr;
  Real found = 0;
  if constexpr (std::is_same_v<Real, float>)
    found = std::strtof(number.c_str(), &end);
  else
    found = std::strtod(number.c_str(), &end);
  const bool whole = end == number.c_str() + number.size();
  if (!whole || !std::isfinite(found) || (found == 0) != is_zero)
    return {text.data() + length, std::errc::result_out_of_range};
  *value = found;
  return {text.data() + length, std::errc()};
}

template <class Number, class = void>
struct HasFromChars : std::false_type {};
template <class Number>
struct HasFromChars<Number, std::void_t<decltype(std::from_chars(
                                std::declval<const char *>(), std::declval<const char *>(), std::declval<Number &>()))>>
    : std::true_type {};

template <class Number>
std::from_chars_result read_number(std::string_view text, Number *value) {
  if constexpr (HasFromChars<Number>::value)
    return std::from_chars(text.data(), text.data() + text.size(), *value);
  else
    return read_real(text, value);
}

} // namespace polyconv
