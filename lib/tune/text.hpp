// text.hpp - the tuning database as text: one line a measurement, sorted, so that two files are merged by
// putting one behind the other and a person can read them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace polyconv {

// What one kernel took for one problem.
struct Measurement {
  std::string version;  // of the kernels that ran, by their sources and what compiled them (key.hpp)
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

// Where a file's lines about a key stand: blocks of whole lines, each of which begins with it.
using TuningLines = std::map<std::string_view, std::vector<std::string_view>>;

// Finds lines without reading what they say, since of tens of thousands a process asks for few. The views are into
// `text`. Lines that are torn are counted in *skipped and left out.
TuningText find_tuning_lines(std::string_view text, TuningLines *lines, int64_t *skipped);

// Adds what the blocks of a key say; a later line replaces an earlier one about the same kernels. Lines whose numbers
// mean nothing are counted in *skipped and left out.
void read_tuning_lines(const std::vector<std::string_view> &blocks, Measurements *measurements, int64_t *skipped);

// Both, for all keys of a file.
TuningText read_tuning_text(std::string_view text, TuningTable *table, int64_t *skipped);

std::string tuning_text(const TuningTable &table);

// The fields of a key must not contain what separates them.
std::string tuning_field(std::string text);

// "2026-11-28" of seconds since 1970.
std::string date_text(int64_t seconds);

} // namespace polyconv
