// kept.hpp - what searches found, kept for later plans and processes: a search takes a second or more for each layer.
// A text file that POLYCONV_CUDNN_CHOICES names, a line for each choice; nothing is kept where it is unset.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "graph.hpp"

namespace polyconv::cudnn {

struct Kept {
  std::string engine; // a candidate's name: "nhwc/eng28{2=1}"
  double us;
  int measured;
  bool cut_short;
  int64_t budget_ms; // that the search had
};

// The choices for one layer: of this GPU and version of cuDNN, under the same rules and limit.
class KeptChoices {
 public:
  KeptChoices(const polyconv_layer &layer, const Rules &rules, int64_t workspace_limit, int device);

  // The last one that a search with this budget would not better: one that was complete, or had as long.
  std::optional<Kept> find(int64_t budget_ms) const;
  // Warns where the file cannot be written. Several processes may add at once.
  void add(const Kept &choice) const;

 private:
  const std::string file_;
  std::string key_;
};

} // namespace polyconv::cudnn
