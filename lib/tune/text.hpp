// text.hpp - the tuning database as text: one line a measurement, sorted, so that two files are merged by
// putting one behind the other and a person can read them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <tuple>

namespace polyconv {

// What one kernel took for one problem.
struct Measurement {
  std::string version;  // of the kernels that ran, by their sources
  double us = 0;        // the median
  double spread_us = 0; // the median distance from it
  int64_t workspace_bytes = 0;
  std::string date; // "2026-11-28"
};

// By kernels ("threads/dense@avx512 + threads/pool@avx2").
using Measurements = std::map<std::string, Measurement>;

// By problem token, conditions and device, with tabs between.
using TuningTable = std::map<std::string, Measurements, std::less<>>;

enum class TuningText {
  Read,
  Newer,  // of a later version: nothing was read, and who writes it over would lose what it holds
  Foreign // no tuning file at all
};

// Adds what a file says to *table; a later line replaces an earlier one with the same key and kernels. Lines that are
// torn or mean nothing are counted in *skipped and left out.
TuningText read_tuning_text(std::string_view text, TuningTable *table, int64_t *skipped);

std::string tuning_text(const TuningTable &table);

// The fields of a key must not contain what separates them.
std::string tuning_field(std::string text);

// "2026-11-28" of seconds since 1970.
std::string date_text(int64_t seconds);

} // namespace polyconv
