// kept.cpp - see kept.hpp.
// SPDX-License-Identifier: Apache-2.0
#include "kept.hpp"

#include <cuda_runtime.h>

#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <system_error>

#include <polyconv/sdk/backend.hpp>
#include "common/check.hpp"

namespace polyconv::cudnn {
namespace {

std::string file_asked_for() {
  const char *const file = secure_getenv("POLYCONV_CUDNN_CHOICES");
  return file != nullptr ? file : "";
}

template <size_t N>
std::string joined(const int64_t (&values)[N]) {
  std::string text;
  for (const int64_t value : values) text += (text.empty() ? "" : ".") + std::to_string(value);
  return text;
}

std::string text_of(const polyconv_tensor &t) {
  return std::to_string(t.type) + ":" + joined(t.size) + ":" + joined(t.stride);
}

// All that the choice depends on; no tabs, which end it in the file.
std::string key_of(const polyconv_layer &l, const Rules &rules, int64_t limit, int device) {
  cudaDeviceProp properties;
  cuda::check(cudaGetDeviceProperties(&properties, device), "asking for the GPU's name");
  const auto flag = [](bool set) { return set ? "1" : "0"; };
  return std::string(properties.name) + ", cuDNN " + std::to_string(library().get_version()) + ", rules " +
         flag(rules.transforms) + flag(rules.tensor_cores) + flag(rules.reduced_precision) +
         flag(rules.nondeterministic) + ", limit " + std::to_string(limit) + ", direction " +
         std::to_string(l.direction) + ", sums " + std::to_string(l.sum_type) + ", input " + text_of(l.input) +
         ", weights " + text_of(l.weights) + ", output " + text_of(l.output) + ", pads " + joined(l.pad_begin) + "/" +
         joined(l.pad_end) + ", strides " + joined(l.stride) + ", dilation " + joined(l.dilation);
}

} // namespace

KeptChoices::KeptChoices(const polyconv_layer &layer, const Rules &rules, int64_t workspace_limit, int device)
    : file_(file_asked_for()) {
  if (!file_.empty()) key_ = key_of(layer, rules, workspace_limit, device) + "\t";
}

std::optional<Kept> KeptChoices::find(int64_t budget_ms) const {
  std::optional<Kept> found;
  if (file_.empty()) return found;
  std::ifstream lines(file_);
  for (std::string line; std::getline(lines, line);) {
    if (line.compare(0, key_.size(), key_) != 0) continue;
    char engine[160];
    Kept kept = {};
    int cut_short = 0;
    if (std::sscanf(line.c_str() + key_.size(), "%159s %lf us of %d, cut %d, budget %" SCNd64, engine, &kept.us,
                    &kept.measured, &cut_short, &kept.budget_ms) != 5)
      continue; // somebody else's words
    kept.engine = engine;
    kept.cut_short = cut_short != 0;
    if (!kept.cut_short || kept.budget_ms >= budget_ms) found = kept;
  }
  return found;
}

void KeptChoices::add(const Kept &choice) const {
  if (file_.empty()) return;
  char words[96];
  std::snprintf(words, sizeof words, " %.2f us of %d, cut %d, budget %" PRId64 "\n", choice.us, choice.measured,
                choice.cut_short ? 1 : 0, choice.budget_ms);
  const std::string line = key_ + choice.engine + words;
  std::FILE *const file = std::fopen(file_.c_str(), "a"); // whose one write goes to the end, whoever else writes
  bool good = file != nullptr && std::fwrite(line.data(), 1, line.size(), file) == line.size();
  if (file != nullptr) good = std::fclose(file) == 0 && good;
  if (good) return;
  const std::string why = std::generic_category().message(errno);
  sdk::host->log(POLYCONV_LOG_WARNING,
                 ("cudnn: POLYCONV_CUDNN_CHOICES: nothing is kept in " + file_ + ": " + why).c_str());
}

} // namespace polyconv::cudnn
