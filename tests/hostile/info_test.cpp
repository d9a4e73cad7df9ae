// info_test.cpp - backends that end a process or hang while they are loaded: `polyconv-bench info` finds out which in a
// child, says so, and lists the rest; POLYCONV_BACKEND_SKIP then lets other programs run without them.
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cstdlib>
#include <string>

#include "../fake_backends/fakes.hpp"
#include "../skip.hpp"

namespace {

bool contains(const std::string &text, const std::string &part) {
  return text.find(part) != std::string::npos;
}

// The line of a text that begins with a backend's name.
std::string line_of(const std::string &text, const std::string &backend) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    if (line.compare(0, backend.size() + 3, "  " + backend + " ") == 0) return line;
  return "";
}

} // namespace

TEST_CASE("info tells which backends crash, end the process or hang, and goes on") {
  const char *bench = std::getenv("POLYCONV_BENCH");
  if (bench == nullptr) return polyconv_test::skip("polyconv-bench is not built");
  const std::string path = fakes::folder("crashes") + ":" + fakes::folder("exits") + ":" + fakes::folder("hangs") +
                           ":" + fakes::folder("good");
  const fakes::Result info =
      fakes::run("POLYCONV_BACKEND_PATH='" + path + "' timeout 100 '" + bench + "' info --patience 2");
  CAPTURE(info.out);
  CHECK(info.exit_code == 0);
  CHECK(contains(line_of(info.out, "fake-crashes"), "crashes while it is loaded: signal 6"));
  CHECK(contains(line_of(info.out, "fake-exits"), "ends the process while it is loaded: exit code 3"));
  CHECK(contains(line_of(info.out, "fake-hangs"), "hangs while it is loaded: no answer in 2 s"));
  CHECK(contains(line_of(info.out, "fake-good"), "available"));
  CHECK(contains(line_of(info.out, "reference"), "available"));
}

TEST_CASE("the search leaves out what POLYCONV_BACKEND_SKIP names") {
  const std::string path = fakes::folder("crashes") + ":" + fakes::folder("good");
  const fakes::Result result =
      fakes::list("POLYCONV_BACKEND_SKIP='nobody, fake-cr*' POLYCONV_BACKEND_PATH='" + path + "'");
  CHECK(result.exit_code == 0);
  const auto all = fakes::parse(result.out);
  REQUIRE(fakes::find(all, "fake-crashes") != nullptr);
  CHECK(fakes::find(all, "fake-crashes")->reason == "left out by POLYCONV_BACKEND_SKIP");
  REQUIRE(fakes::find(all, "fake-good") != nullptr);
  CHECK(fakes::find(all, "fake-good")->available == "available");
}
