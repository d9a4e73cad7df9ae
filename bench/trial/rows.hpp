// rows.hpp - rows that a library of others may not come back from, each in a process of its own.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <string>

namespace polyconv::bench {

// What came of a row: its line, or the fate of the process that was to write one: "crashes while it is measured: signal
// 11 (Segmentation fault)". Neither where the system gives no process.
struct RowOutcome {
  std::string line, fate;
};

// A process from which others are forked, one a row. It is made while this process has no threads yet: after `fork` a
// runtime's threads are gone and it waits for them for ever.
class RowProcesses {
 public:
  // `measure(row)` is called in a process of its own, gives one line, and has `seconds` for it.
  RowProcesses(double seconds, const std::function<std::string(size_t row)> &measure);
  ~RowProcesses();
  RowProcesses(const RowProcesses &) = delete;
  RowProcesses &operator=(const RowProcesses &) = delete;

  RowOutcome outcome_of(size_t row);

 private:
  int socket_ = -1, process_ = -1;
};

} // namespace polyconv::bench
