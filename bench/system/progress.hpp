// progress.hpp - what is being done, on stderr, while long work goes on: a bar on a terminal, or a line for each step
// where somebody asks for it. Nothing otherwise.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

namespace polyconv::bench {

class Progress {
 public:
  // `when`: "auto" is a bar where stderr is a terminal, "always" lines everywhere, "never" nothing. Error(kUsage) for
  // another word.
  Progress(size_t total, const std::string &when);
  ~Progress(); // wipes the bar

  // `label` is what is being done now, as the next of the total.
  void next(const std::string &label);

  // What of it: "checking", "timing".
  void stage(const std::string &name);

  // Wipes the bar so that something else can be printed; the next step draws it again.
  void wipe();

 private:
  void draw(const std::string &what);

  size_t total_, done_ = 0;
  bool bar_, lines_;
  bool drawn_ = false;
  std::string label_;
};

} // namespace polyconv::bench
