// matrix.cpp - see matrix.hpp.
// SPDX-License-Identifier: Apache-2.0
#include "matrix.hpp"

#include <polyconv/polyconv.h>

#include <algorithm>
#include <map>
#include <memory>
#include <stdexcept>

#include "features.hpp"

namespace {

using Answers = std::map<std::string, Answer>; // by kernel name without backend and config

// Adds what a backend's kernels say about one problem under one math mode; the best answer stays.
void ask(const polyconv_device *device, const polyconv_problem &problem, const std::string &backend, int32_t math,
         int32_t save, Answers &answers) {
  const std::string filter = backend + "/*";
  polyconv_options options;
  polyconv_options_init(&options);
  options.kernel = filter.c_str();
  options.fallback = POLYCONV_FALLBACK_ALLOW;
  options.threads = 2; // the same everywhere: this page is about kernels, not about machines
  options.bind = 1;
  options.math = math;
  options.save = save;
  polyconv_explanation *made = nullptr;
  if (polyconv_explain(device, &problem, 1, &options, &made) != POLYCONV_SUCCESS)
    throw std::runtime_error(polyconv_last_error());
  const std::unique_ptr<polyconv_explanation, void (*)(polyconv_explanation *)> explanation(
      made, polyconv_explanation_destroy);
  for (int32_t i = 0; i < polyconv_explanation_count(made); ++i) {
    polyconv_candidate candidate{};
    candidate.struct_size = sizeof candidate;
    if (polyconv_explanation_get(made, i, &candidate) != POLYCONV_SUCCESS)
      throw std::runtime_error(polyconv_last_error());
    const std::string name(candidate.kernel);
    if (name.compare(0, backend.size() + 1, backend + "/") != 0) continue;
    const Answer answer = !candidate.accepted ? Answer::No : *candidate.reason == '+' ? Answer::Helped : Answer::Yes;
    Answer &kept = answers[name.substr(backend.size() + 1, name.find('@') - backend.size() - 1)];
    kept = std::max(kept, answer);
  }
}

// What is saved: as the feature says, or as a gradient needs it.
int32_t save_for(const polyconv_problem &problem, int32_t save) {
  const bool reads =
      problem.epilogue.activation != POLYCONV_ACT_NONE || problem.epilogue.pool.kind == POLYCONV_POOL_MAX;
  return problem.direction != POLYCONV_FORWARD && reads && save == POLYCONV_SAVE_NONE ? POLYCONV_SAVE_PRE_ACTIVATION
                                                                                      : save;
}

// One combination: a kernel takes a type group where it takes each of its rows that is a valid problem.
Answers ask_group(const polyconv_device *device, const Feature &feature, const Direction &direction,
                  const TypeGroup &group, const std::string &backend) {
  Answers worst;
  for (const char *types : group.types) {
    polyconv_problem problem;
    if (polyconv_problem_parse(token_of(feature, direction, types).c_str(), &problem) != POLYCONV_SUCCESS) continue;
    if (feature.save == POLYCONV_SAVE_PRE_ACTIVATION && problem.direction != POLYCONV_FORWARD) continue; // as "relu"
    Answers answers;
    for (int32_t math = POLYCONV_MATH_STRICT; math <= POLYCONV_MATH_FAST; ++math)
      ask(device, problem, backend, math, save_for(problem, feature.save), answers);
    for (const auto &[kernel, answer] : answers) {
      const auto [place, first] = worst.emplace(kernel, answer);
      if (!first) place->second = std::min(place->second, answer);
    }
  }
  return worst;
}

} // namespace

Matrix ask_backend(const std::string &backend, const std::string &device_kind) {
  const polyconv_device *device = nullptr;
  if (polyconv_device_find(device_kind.c_str(), &device) != POLYCONV_SUCCESS)
    throw std::runtime_error(polyconv_last_error());
  Matrix matrix;
  matrix.backend = backend;
  for (int32_t i = 0; i < polyconv_backend_count(); ++i)
    for (int32_t k = 0; polyconv_backend_kernel(i, k) != nullptr; ++k) {
      const std::string name = polyconv_backend_kernel(i, k);
      if (name.compare(0, backend.size() + 1, backend + "/") == 0)
        matrix.kernels.push_back(name.substr(backend.size() + 1));
    }
  const std::vector<std::vector<Answer>> none(type_groups().size(),
                                              std::vector<Answer>(directions().size(), Answer::NoProblem));
  matrix.answers.assign(matrix.kernels.size(), {features().size(), none});
  for (size_t f = 0; f < features().size(); ++f) {
    bool valid = false;
    for (size_t g = 0; g < type_groups().size(); ++g)
      for (size_t d = 0; d < directions().size(); ++d) {
        const Answers answers = ask_group(device, features()[f], directions()[d], type_groups()[g], backend);
        valid = valid || !answers.empty();
        for (size_t k = 0; k < matrix.kernels.size(); ++k)
          if (const auto found = answers.find(matrix.kernels[k]); found != answers.end())
            matrix.answers[k][f][g][d] = found->second;
      }
    if (!valid) throw std::runtime_error(std::string(features()[f].name) + " is valid in no combination");
  }
  return matrix;
}
