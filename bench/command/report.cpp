// report.cpp - see report.hpp.
// SPDX-License-Identifier: Apache-2.0
#include "command/report.hpp"

#include <iostream>
#include <utility>

#include "system/terminal.hpp"
#include "text/text.hpp"

namespace polyconv::bench {

Report::Report(const Arguments &a, View view, size_t total, Closing closing)
    : format_(output_format(a.output, a.out_file)),
      file_(a.out_file),
      width_(file_.empty() && format_ == "table" ? stdout_columns() : 0),
      total_(total),
      output_(a, {".jsonl", ".csv", ".md"}),
      writer_(format_, view, output_.stream(), width_, file_.empty() && stdout_takes_colours()),
      progress_(total, a.progress),
      closing_(std::move(closing)),
      interruption_([this](int) { last_words(); }) {}

Report::~Report() {
  if (finished_ || records_.empty()) return;
  try { // an error ends the command: the rows that are done are kept
    output_.finish();
  } catch (const std::exception &) { // the other error is told
  }
}

void Report::next(const std::string &label) {
  const std::lock_guard<std::mutex> lock(mutex_);
  progress_.next(label);
}

void Report::stage(const std::string &name) {
  const std::lock_guard<std::mutex> lock(mutex_);
  progress_.stage(name);
}

void Report::add(const Record &record, const std::function<void(std::vector<Record> &)> &change) {
  const std::lock_guard<std::mutex> lock(mutex_);
  records_.push_back(record);
  if (change) change(records_);
  progress_.wipe();
  writer_.add(records_.back());
}

void Report::write() {
  progress_.wipe();
  writer_.finish();
  output_.finish();
  const std::string below = closing_(records_, width_);
  if (below.empty()) return;
  std::ostream &place = file_.empty() && format_ == "table" ? std::cout : std::cerr;
  place << "\n" << below << std::flush;
}

void Report::finish() {
  const std::lock_guard<std::mutex> lock(mutex_);
  finished_ = true;
  write();
}

// The lock is never given back: the process ends, and nobody may write behind this.
void Report::last_words() {
  mutex_.lock();
  if (finished_) return;
  try {
    write();
  } catch (const std::exception &failure) { // the output, most probably
    std::cerr << "polyconv-bench: " << failure.what() << "\n";
  }
  std::cerr << format("polyconv-bench: interrupted after %zu of %zu rows\n", records_.size(), total_) << std::flush;
}

} // namespace polyconv::bench
