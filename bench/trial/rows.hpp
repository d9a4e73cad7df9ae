// rows.hpp - which rows a library of others would not come back from, found out in processes of their own.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <string>

namespace polyconv::bench {

// A process from which others are forked, one a trial. It is made while this process has no threads yet: after `fork` a
// runtime's threads are gone and it waits for them for ever.
class RowTrials {
 public:
  // `attempt(row)` is called in a process of its own. An exception is no fate; not to be done within `seconds` is.
  RowTrials(double seconds, const std::function<void(size_t row)> &attempt);
  ~RowTrials();
  RowTrials(const RowTrials &) = delete;
  RowTrials &operator=(const RowTrials &) = delete;

  // "crashes while it is tried: signal 11 (Segmentation fault)"; "" where it comes back, or where nothing can be tried.
  std::string fate_of(size_t row);

 private:
  int socket_ = -1, process_ = -1;
};

} // namespace polyconv::bench
