// row.hpp - one row of a report: what its pictures and tables need of a Result, as numbers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "result/results.hpp"

namespace polyconv::bench {

struct Row {
  size_t index = 0; // in the table, which pictures point to
  std::string problem, suite, name, type, device, device_name, kernel, math, requested, status, reason;
  std::string baseline, baseline_kernel, threads;
  int64_t count = 1; // how often the layer occurs in its network
  bool fallback = false;
  // Microseconds, GFLOP/s, operations a byte, percent of the roof; absent where not measured or not above 0.
  std::optional<double> us, low_us, high_us, p95_us, baseline_us, ratio, gflops, intensity, roof_pct;
  std::optional<double> error, bound_pct;

  bool good() const { return status == "good"; }
  std::string title() const { return name.empty() ? problem : name; }
  // Of all its occurrences.
  double all_us() const { return us.value_or(0) * static_cast<double>(count); }
};

// The rows of files, each measurement once (its last row).
std::vector<Row> rows_of(const std::vector<Result> &results);

// Of several rows of one problem on one device (kernels, configs), the one that counts: the library's own choice, or
// without one the fastest that is good.
std::vector<Row> chosen_of(const std::vector<Row> &rows);

// The kernel without its config and backend: "dense" of "threads/dense@avx512"; of a network with several "several".
std::string family_of(const std::string &kernel);

// What a reader sees who points at the row.
std::string words_of(const Row &row);

} // namespace polyconv::bench
