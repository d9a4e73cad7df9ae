// choice.cpp - see choice.hpp.
// SPDX-License-Identifier: Apache-2.0
#include "choice.hpp"

#include <polyconv/polyconv.h>

#include <memory>
#include <stdexcept>

// Weights are krsc where channels are last, as frameworks have them: only gradients of weights see the difference.
const Part kCpuPart = {"On the CPU",
                       "cpu",
                       "threads/*",
                       {{"f32, channels last", ":nhwc:krsc:f32", POLYCONV_MATH_STRICT},
                        {"f32, channels first", ":f32", POLYCONV_MATH_STRICT}}};
const Part kCudaPart = {"On a GPU",
                        "cuda",
                        "cuda-*/*",
                        {{"f16, channels last", ":nhwc:krsc:f16", POLYCONV_MATH_STRICT},
                         {"f32 strict, channels first", ":f32", POLYCONV_MATH_STRICT},
                         {"TF32, channels last", ":nhwc:krsc:f32", POLYCONV_MATH_TF32}}};

const std::vector<Direction> &directions() {
  static const std::vector<Direction> all = {
      {"Forward", "fwd"}, {"Gradient of data", "bwd_d"}, {"Gradient of weights", "bwd_w"}};
  return all;
}

namespace {

void require(polyconv_status status, const std::string &token) {
  if (status != POLYCONV_SUCCESS) throw std::runtime_error(token + ": " + polyconv_last_error());
}

// A layer of the census in another direction; a transposed one stays transposed.
std::string token_of(const std::string &forward, const Direction &direction, const Column &column) {
  const size_t end = forward.find(':');
  const bool transposed = forward[0] == 't';
  if (end == std::string::npos || forward.substr(transposed, end - transposed) != "fwd")
    throw std::runtime_error(forward + ": expected a forward layer");
  return (transposed ? "t" : "") + std::string(direction.word) + forward.substr(end) + column.parts;
}

// The candidate that a plan of the layer would take; its kernel is empty where there is none.
struct Taken {
  std::string kernel; // the full name, with the config
  bool generic = false, helped = false;
};

Taken take(const polyconv_device *device, const std::string &token, const Part &part, int32_t math) {
  polyconv_problem problem;
  require(polyconv_problem_parse(token.c_str(), &problem), token);
  polyconv_options options;
  polyconv_options_init(&options);
  options.kernel = part.filter;
  options.fallback = POLYCONV_FALLBACK_ALLOW;
  options.threads = 2; // the same everywhere: this page is about kernels, not about machines
  options.bind = 1;
  options.math = math;
  polyconv_explanation *made = nullptr;
  require(polyconv_explain(device, &problem, 1, &options, &made), token);
  const std::unique_ptr<polyconv_explanation, void (*)(polyconv_explanation *)> explanation(
      made, polyconv_explanation_destroy);
  for (int32_t i = 0; i < polyconv_explanation_count(made); ++i) {
    polyconv_candidate candidate{};
    candidate.struct_size = sizeof candidate;
    require(polyconv_explanation_get(made, i, &candidate), token);
    if (candidate.chosen != 0) return {candidate.kernel, candidate.fallback != 0, *candidate.reason == '+'};
  }
  return {};
}

Chosen choose(const polyconv_device *device, const std::string &token, const Part &part, int32_t math) {
  const Taken taken = take(device, token, part, math);
  const size_t slash = taken.kernel.find('/'), at = taken.kernel.find('@');
  if (slash == std::string::npos) return {"", "", false, false};
  return {taken.kernel.substr(0, slash), taken.kernel.substr(slash + 1, at - slash - 1), taken.generic, taken.helped};
}

} // namespace

bool answers_here(const Part &part, const char *isa) {
  const polyconv_device *device = nullptr;
  if (polyconv_device_find(part.device, &device) != POLYCONV_SUCCESS) return false;
  const std::string taken = take(device, "fwd:c64,k64,i56x56,f3x3,p1", part, POLYCONV_MATH_STRICT).kernel;
  return !taken.empty() && (isa == nullptr || taken.substr(taken.find('@') + 1) == isa);
}

Answers ask(const Part &part, const std::vector<LayerClass> &census) {
  const polyconv_device *device = nullptr;
  require(polyconv_device_find(part.device, &device), part.device);
  Answers answers(directions().size(), {census.size(), std::vector<Cell>(part.columns.size())});
  for (size_t d = 0; d < directions().size(); ++d)
    for (size_t k = 0; k < census.size(); ++k)
      for (size_t c = 0; c < part.columns.size(); ++c)
        for (const std::string &token : census[k].tokens)
          ++answers[d][k][c]
                   [choose(device, token_of(token, directions()[d], part.columns[c]), part, part.columns[c].math)];
  return answers;
}
