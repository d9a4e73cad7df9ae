// text.cpp - numbers and lists of a problem token. std::from_chars and to_chars know no locale and round-trip.
// SPDX-License-Identifier: Apache-2.0
#include "token/text.hpp"

#include "base/read_number.hpp"
#include "base/status.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdarg>
#include <cstdio>

namespace polyconv {
namespace {

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// Text of strangers inside a sentence: printable, and not endless.
std::string shown(std::string_view text) {
  constexpr size_t kMost = 64;
  std::string result(text.substr(0, kMost));
  for (char &c : result)
    if (c < ' ' || c > '~') c = '?';
  return text.size() > kMost ? result + "..." : result;
}

std::string found(std::string_view rest) {
  return rest.empty() ? "nothing" : "\"" + shown(rest) + "\"";
}

template <class Number>
std::string printed(Number value) {
  char buffer[64]; // the longest shortest double has 24 characters
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value).ptr;
  std::string text(buffer, end);
  text.erase(std::remove(text.begin(), text.end(), '+'), text.end());
  return text;
}

// Reads a number at the start of `rest` and moves it on; false where there is none that fits.
template <class Number>
bool read(std::string_view *rest, Number *value) {
  const std::from_chars_result result = read_number(*rest, value);
  if (result.ec != std::errc()) return false;
  rest->remove_prefix(static_cast<size_t>(result.ptr - rest->data()));
  return true;
}

// from_chars also reads "inf" and "nan": a number of a token begins with a digit, a sign or a point.
bool looks_like_real(std::string_view text) {
  if (!text.empty() && text[0] == '-') text.remove_prefix(1);
  return !text.empty() && (is_digit(text[0]) || text[0] == '.');
}

} // namespace

bool Piece::take(std::string_view text) {
  if (rest_.substr(0, text.size()) != text) return false;
  rest_.remove_prefix(text.size());
  return true;
}

std::string_view Piece::take_until(char separator) {
  const size_t end = std::min(rest_.find(separator), rest_.size());
  const std::string_view taken = rest_.substr(0, end);
  rest_.remove_prefix(std::min(end + 1, rest_.size()));
  return taken;
}

int64_t Piece::size(const char *what) {
  int64_t value = 0;
  if (rest_.empty() || !is_digit(rest_[0]) || !read(&rest_, &value))
    refuse("expected %s (a whole number below 2^63), found %s", what, found(rest_).c_str());
  return value;
}

int64_t Piece::signed_size(const char *what) {
  int64_t value = 0;
  if (!read(&rest_, &value)) refuse("expected %s (a whole number of 64 bits), found %s", what, found(rest_).c_str());
  return value;
}

int32_t Piece::integer(const char *what) {
  int32_t value = 0;
  if (!read(&rest_, &value)) refuse("expected %s (a whole number of 32 bits), found %s", what, found(rest_).c_str());
  return value;
}

float Piece::real32(const char *what) {
  float value = 0;
  if (!looks_like_real(rest_) || !read(&rest_, &value))
    refuse("expected %s (a number that f32 can hold), found %s", what, found(rest_).c_str());
  return value;
}

double Piece::real64(const char *what) {
  double value = 0;
  if (!looks_like_real(rest_) || !read(&rest_, &value))
    refuse("expected %s (a number that f64 can hold), found %s", what, found(rest_).c_str());
  return value;
}

AxisList Piece::axes(const char *what) {
  return list_of(what, &Piece::size);
}
AxisList Piece::signed_axes(const char *what) {
  return list_of(what, &Piece::signed_size);
}

AxisList Piece::list_of(const char *what, int64_t (Piece::*number)(const char *)) {
  AxisList list;
  do {
    if (list.count == 3) refuse("expected at most 3 axes of %s", what);
    list.values[list.count++] = (this->*number)(what);
  } while (take("x"));
  return list;
}

void Piece::finish(const char *what) {
  if (!rest_.empty()) refuse("expected nothing after %s, found \"%s\"", what, shown(rest_).c_str());
}

void Piece::refuse(const char *format, ...) const {
  char sentence[512];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(sentence, sizeof sentence, format, arguments);
  va_end(arguments);
  throw failure(POLYCONV_INVALID_ARGUMENT, "token part \"%s\": %s", shown(whole_).c_str(), sentence);
}

std::string to_text(int64_t value) {
  return printed(value);
}
std::string to_text(float value) {
  return printed(value);
}
std::string to_text(double value) {
  return printed(value);
}

std::string axes_text(const int64_t *values, int count, bool shorten) {
  if (shorten && std::all_of(values, values + count, [&](int64_t v) { return v == values[0]; })) count = 1;
  std::string text = to_text(values[0]);
  for (int i = 1; i < count; ++i) text += "x" + to_text(values[i]);
  return text;
}

} // namespace polyconv
