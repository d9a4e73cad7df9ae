// output.hpp - records as a table, Markdown, CSV or JSONL, and the summary of suites.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "result/record.hpp"

namespace polyconv::bench {

// Which columns and rows a table has; CSV and JSONL always have every field, and rows as they come.
enum class View { kTimes, kChecks, kLadder, kConfigs };

// "table", "markdown", "csv", "json" or "jsonl": as asked for, else by the ending of the file, else a table.
std::string output_format(const std::string &asked, const std::string &file);

// CSV and JSONL are written row by row, so that nothing is lost when a long run is stopped; tables by finish, when the
// widths are known. Lines of a table have up to `width` characters, 0 for any number; `coloured`, rows that went wrong
// are red.
class RecordWriter {
 public:
  RecordWriter(std::string format, View view, std::ostream &out, size_t width = 0, bool coloured = false)
      : format_(std::move(format)),
        view_(view),
        out_(out),
        width_(format_ == "table" ? width : 0),
        coloured_(coloured) {}

  void add(const Record &record);
  // Writes the table.
  void finish();

 private:
  std::string format_;
  View view_;
  std::ostream &out_;
  size_t width_;
  bool coloured_;
  std::vector<Record> records_;
  bool header_ = false;
};

// What a table leaves out because it is the same in every row: machine, threads, mode. One line.
std::string caption(const std::vector<Record> &records, View view);

// `hints` and what is odd about the rows, a sentence a line, then geometric means for each suite and kernel selection,
// over rows that are good; each distinct layer once. "" where there is nothing to summarise.
std::string summary(const std::vector<Record> &records, View view, size_t width = 0,
                    const std::vector<std::string> &hints = {});

// The process's exit code: the gravest of the rows.
int exit_code(const std::vector<Record> &records);

} // namespace polyconv::bench
