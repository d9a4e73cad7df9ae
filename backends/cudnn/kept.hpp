// kept.hpp - what searches found, kept for later plans and processes: a search takes a second or more for each layer.
// A text file that POLYCONV_CUDNN_CHOICES names, a line for each choice; nothing is kept where it is unset.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace polyconv::cudnn {

struct Kept {
  std::string engine; // a candidate's name: "nhwc/eng28{2=1}"
  double us;
  int measured;
  bool cut_short;
  int64_t budget_ms; // that the search had
};

// The file that POLYCONV_CUDNN_CHOICES names; "" where it names none, and in privileged programs.
std::string choices_file();

// The choices for one layer in a file, or none where that is "": those of lines that begin with `key`, which has no
// tab.
class KeptChoices {
 public:
  KeptChoices(std::string file, const std::string &key) : file_(std::move(file)), key_(key + "\t") {}

  // The last one that a search with this budget would not better: one that was complete, or had as long.
  std::optional<Kept> find(int64_t budget_ms) const;
  // Why it could not be kept; "" where it was. Several processes may add at once.
  std::string add(const Kept &choice) const;

 private:
  const std::string file_;
  const std::string key_;
};

} // namespace polyconv::cudnn
