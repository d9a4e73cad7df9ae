// rows_test.cpp - a library of others that ends the process on some problems: `polyconv-bench run` loses those rows,
// with the reason, and measures the rest.
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "../fake_backends/fakes.hpp"
#include "../skip.hpp"

namespace {

constexpr const char *kProblems = "fwd:c7,k4,i9x9,f3x3 fwd:c5,k4,i9x9,f3x3 fwd:c6,k4,i9x9,f3x3 fwd:c3,k4,i9x9,f3x3";

// The rows as they are written, and the exit code.
struct Rows {
  int exit_code;
  std::vector<std::string> lines;
};

Rows rows_of(const std::string &bench, const std::string &options) {
  const fakes::Result run =
      fakes::run("POLYCONV_BACKEND_PATH='" + fakes::folder("crashing_library") + "' timeout 100 '" + bench + "' run " +
                 kProblems + " --min-time 0 --cache warm-only --baseline-budget 0 -o jsonl " + options);
  CAPTURE(run.out);
  Rows rows = {run.exit_code, {}};
  std::istringstream text(run.out);
  for (std::string line; std::getline(text, line);)
    if (!line.empty() && line.front() == '{') rows.lines.push_back(line);
  REQUIRE(rows.lines.size() == 4);
  return rows;
}

bool contains(const std::string &text, const std::string &part) {
  return text.find(part) != std::string::npos;
}

} // namespace

TEST_CASE("a baseline that ends the process loses its row alone") {
  const char *bench = std::getenv("POLYCONV_BENCH");
  if (bench == nullptr) return polyconv_test::skip("polyconv-bench is not built");
  const Rows rows = rows_of(bench, "--kernel 'reference/*' --baseline onednn");
  for (const std::string &line : rows.lines) CHECK(contains(line, "\"status\":\"good\""));
  CHECK(contains(rows.lines[0], "\"baseline_reason\":\"device error: crashes while it is measured: signal 6"));
  CHECK(contains(rows.lines[1],
                 "\"baseline_reason\":\"device error: ends the process while it is measured: exit code 3"));
  CHECK(contains(rows.lines[2], "\"baseline_reason\":\"device error: crashes while it is measured: signal 6"));
  CHECK(contains(rows.lines[3], "\"baseline_kernel\":\"onednn/conv@auto\""));
  CHECK(contains(rows.lines[3], "\"baseline_reason\":null"));
}

TEST_CASE("so does a row that asks for such a kernel") {
  const char *bench = std::getenv("POLYCONV_BENCH");
  if (bench == nullptr) return polyconv_test::skip("polyconv-bench is not built");
  const Rows rows = rows_of(bench, "--kernel 'onednn/*'");
  CHECK(rows.exit_code != 0);
  CHECK(contains(rows.lines[0], "\"status\":\"device error\",\"reason\":\"crashes while it is measured: signal 6"));
  CHECK(contains(rows.lines[1], "\"status\":\"device error\",\"reason\":\"ends the process while it is measured"));
  CHECK(contains(rows.lines[2], "\"status\":\"device error\",\"reason\":\"crashes while it is measured: signal 6"));
  CHECK(contains(rows.lines[3], "\"status\":\"good\""));
}
