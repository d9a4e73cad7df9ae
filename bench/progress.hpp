// progress.hpp - a bar on stderr while long work goes on; nothing where stderr is not a terminal.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

namespace polyconv::bench {

class Progress {
 public:
  explicit Progress(size_t total);
  ~Progress(); // wipes the bar

  // `label` is what is being done now, as the next of the total.
  void next(const std::string &label);

  // Wipes the bar so that something else can be printed; the next step draws it again.
  void wipe();

 private:
  size_t total_, done_ = 0;
  bool shown_;
  bool drawn_ = false;
};

} // namespace polyconv::bench
