// results.hpp - result files of `run -o jsonl`, read again: to be compared, drawn and reported.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "result/record.hpp"

namespace polyconv::bench {

// One row of a result file. Files of older versions have fewer fields, so that all but the problem may be absent.
struct Result {
  std::map<std::string, std::string> text; // strings; numbers as text; null left out
  std::vector<LayerLine> layers;           // of a network
  std::vector<ProfileLine> profile;        // of a row that was profiled

  std::optional<double> number(const std::string &field) const;
  std::optional<int64_t> whole(const std::string &field) const; // nothing where it is no number that 64 bits hold
  std::string at(const std::string &field) const;               // "" where null or absent
  bool good() const { return at("status") == "good"; }
};

struct ResultFile {
  std::vector<Result> rows; // at least one
  std::string warning;      // one sentence where the last line is cut off, and left out; else ""
};

// Reads a JSONL file of `run`. Error(kUsage) naming file and line: what is no result, has another shape than this
// bench knows, or was written by a later version. A run that was killed, or a full disk, leaves half a last line: the
// rows before it count.
ResultFile read_results(const std::string &path);

// The same of several files; every warning goes to stderr.
std::vector<Result> read_all_results(const std::vector<std::string> &paths);

// The record that json_line wrote as `line`; nothing where it is none. What no line holds, `requested_threads` and
// `best`, is as in a new record.
std::optional<Record> read_record(const std::string &line);

// What must be equal for two rows to be the same measurement. The kernel is left out: another choice that is faster is
// welcome, and one that is slower a regression. The number of threads is in it.
std::string key_of(const Result &row);

// The last row for each key and suite, in the order of their first ones: a run that was resumed or repeated has a row
// twice.
std::vector<Result> last_of_each(const std::vector<Result> &rows);

} // namespace polyconv::bench
