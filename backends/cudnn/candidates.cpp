// candidates.cpp - see candidates.hpp.
// SPDX-License-Identifier: Apache-2.0
#include "candidates.hpp"

#include <algorithm>

namespace polyconv::cudnn {

std::vector<Candidate> proposals(const Ways &ways, cudnnBackendHeurMode_t mode, const Rules &rules) {
  std::vector<Candidate> found;
  for (const auto &way : ways)
    for (Config &config : way->graph().proposals(mode, rules)) found.push_back({way, std::move(config)});
  return found;
}

std::vector<Candidate> engines(const Ways &ways, const Rules &rules) {
  std::vector<Candidate> found;
  for (const auto &way : ways) {
    const int64_t count = way->graph().engine_count();
    for (int64_t number = 0; number < count; ++number)
      for (Config &config : way->graph().engine(number, rules)) found.push_back({way, std::move(config)});
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const Candidate &a, const Candidate &b) { return a.config.engine > b.config.engine; });
  return found;
}

std::vector<Candidate> variations(const std::shared_ptr<const Way> &way, int64_t engine) {
  std::vector<Candidate> found;
  for (Config &config : way->graph().variations(engine)) found.push_back({way, std::move(config)});
  return found;
}

} // namespace polyconv::cudnn
