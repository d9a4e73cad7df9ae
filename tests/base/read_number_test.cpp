// read_number_test.cpp - real numbers are read alike by the C++ library and by what stands in for it, in any locale.
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <clocale>
#include <cstdint>
#include <cstring>

#include "base/read_number.hpp"

namespace {

constexpr const char *kTexts[] = {"0",
                                  "-0",
                                  "0.5",
                                  ".5",
                                  "5.",
                                  "-.5",
                                  ".",
                                  "-",
                                  "",
                                  "+1",
                                  " 1",
                                  "1e5",
                                  "1e+5",
                                  "1E-5",
                                  "1e",
                                  "1e+",
                                  "1.e3",
                                  ".e3",
                                  "0x10",
                                  "1x3",
                                  "1..2",
                                  "1.5.2",
                                  "3.4e38",
                                  "3.5e38",
                                  "1e-45",
                                  "1e-46",
                                  "0e-999",
                                  "1e999",
                                  "-1e999",
                                  "1e-999",
                                  "0.1",
                                  "16777217",
                                  "1.7e308",
                                  "1.8e308",
                                  "4.9e-324",
                                  "2.4e-324",
                                  "1,5",
                                  "12345678901234567890123456789012345678901234567890.5",
                                  "9007199254740993",
                                  "0.30000000000000004",
                                  "0.000000000000000000000000000000000000000000000000000001"};

template <class Real>
void reads_alike(const char *text) {
  Real by_library = 7, own = 7;
  const std::string_view view = text;
  const std::from_chars_result expected = polyconv::read_number(view, &by_library);
  const std::from_chars_result found = polyconv::read_real(view, &own);
  CAPTURE(text);
  CHECK(found.ec == expected.ec);
  if (expected.ec == std::errc()) CHECK(found.ptr == expected.ptr);
  CHECK(std::memcmp(&own, &by_library, sizeof own) == 0); // -0 is not 0
}

} // namespace

TEST_CASE("real numbers are read as std::from_chars reads them") {
  for (const char *text : kTexts) {
    reads_alike<float>(text);
    reads_alike<double>(text);
  }
}

TEST_CASE("a locale with another decimal point changes nothing") {
  const std::string before = std::setlocale(LC_NUMERIC, nullptr);
  for (const char *locale : {"de_DE.UTF-8", "fr_FR.UTF-8", "C"}) {
    if (std::setlocale(LC_NUMERIC, locale) == nullptr) continue;
    for (const char *text : kTexts) reads_alike<double>(text);
    double half = 0;
    CHECK(polyconv::read_real("0.5,", &half).ec == std::errc());
    CHECK(half == 0.5);
  }
  std::setlocale(LC_NUMERIC, before.c_str());
}
