// candidates.cpp - see candidates.hpp.
// SPDX-License-Identifier: Apache-2.0
#include "candidates.hpp"

#include <algorithm>
#include <cstdlib>

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

std::optional<Candidate> named(const Ways &ways, const std::string &name) {
  const size_t slash = name.find("/eng");
  if (slash == std::string::npos) return std::nullopt;
  char *end = nullptr;
  const int64_t engine = std::strtoll(name.c_str() + slash + 4, &end, 10);
  Setting knobs;
  while (*end == '{' || *end == ',') {
    const long type = std::strtol(end + 1, &end, 10);
    if (*end != '=') return std::nullopt;
    knobs.emplace_back(static_cast<cudnnBackendKnobType_t>(type), std::strtoll(end + 1, &end, 10));
  }
  for (const auto &way : ways) {
    if (name.compare(0, slash, order_name(way->order())) != 0) continue;
    Candidate found = {way, way->graph().configured(engine, knobs)};
    if (found.name() == name) return found;
  }
  return std::nullopt;
}

} // namespace polyconv::cudnn
