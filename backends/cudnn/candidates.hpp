// candidates.hpp - what may be chosen: the engines of cuDNN with their knobs, in every way.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "way.hpp"

namespace polyconv::cudnn {

struct Candidate {
  std::shared_ptr<const Way> way;
  Config config;

  std::string name() const { return std::string(order_name(way->order())) + "/" + config.name(); } // "nhwc/eng28{2=1}"
};

// The ways from one of which a candidate comes, the one with fewer conversions first.
using Ways = std::vector<std::shared_ptr<const Way>>;

// What a heuristic proposes for each way, the best first.
std::vector<Candidate> proposals(const Ways &ways, cudnnBackendHeurMode_t mode, const Rules &rules);

// Every engine with the knobs that it sets by itself; those with high numbers, the newer ones, first.
std::vector<Candidate> engines(const Ways &ways, const Rules &rules);

// An engine with its knobs at other values.
std::vector<Candidate> variations(const std::shared_ptr<const Way> &way, int64_t engine);

// The one of that name, which a search has found before; none where no way or engine is like it. Throws sdk::Error
// where the engine does not take its knobs.
std::optional<Candidate> named(const Ways &ways, const std::string &name);

} // namespace polyconv::cudnn
