// report.hpp - the rows of run and check as they come: told of on stderr, written, and not lost where somebody presses
// Ctrl-C in the middle.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "arguments/arguments.hpp"
#include "command/commands.hpp"
#include "print/output.hpp"
#include "system/progress.hpp"
#include "system/terminal.hpp"

namespace polyconv::bench {

class Report {
 public:
  using Closing = std::function<std::string(const std::vector<Record> &, size_t columns)>;

  // `closing` is what stands below a table of all rows, in lines of so many columns (0: any number), and on stderr
  // where stdout holds data. After an interruption it is the same of the rows that are done; the exit code then is 128
  // + the signal's. Error(kUsage) for a file that cannot be written.
  Report(const Arguments &arguments, View view, size_t total, Closing closing);
  ~Report();

  // `label` is what is being done now, as the next of the total; `name` what of it.
  void next(const std::string &label);
  void stage(const std::string &name);

  // Takes a row; `change` may look at all there are, and change the last, before it is written.
  void add(const Record &record, const std::function<void(std::vector<Record> &)> &change = {});

  // Writes the table and what stands below. Nothing is interrupted any more.
  void finish();

  const std::vector<Record> &records() const { return records_; }

 private:
  void write();
  void last_words();

  std::mutex mutex_; // of all below, between the rows and their interruption
  std::string format_, file_;
  size_t width_, total_;
  Output output_;
  RecordWriter writer_;
  Progress progress_;
  Closing closing_;
  std::vector<Record> records_;
  bool finished_ = false;
  Interruption interruption_; // the last: it uses the others
};

} // namespace polyconv::bench
