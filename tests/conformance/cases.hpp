// cases.hpp - cases.inc, its two others and chains.inc as data.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <doctest/doctest.h>
#include <polyconv/polyconv.h>

#include <string>
#include <vector>

namespace conformance {

struct TestCase {
  std::string name; // the tokens, and what is saved
  std::vector<polyconv_problem> problems;
  int32_t save;
};

// Of all layers together.
inline double flops_of(const std::vector<polyconv_problem> &problems) {
  double sum = 0, flops = 0;
  for (const polyconv_problem &p : problems)
    if (polyconv_problem_flops(&p, &flops) == POLYCONV_SUCCESS) sum += flops;
  return sum;
}

inline TestCase make_case(int32_t save, const std::vector<std::string> &tokens) {
  TestCase result{"", {}, save};
  for (const std::string &token : tokens) {
    polyconv_problem problem;
    polyconv_problem_init(&problem);
    const polyconv_status status = polyconv_problem_parse(token.c_str(), &problem);
    REQUIRE_MESSAGE(status == POLYCONV_SUCCESS, token << ": " << polyconv_last_error());
    result.name += (result.name.empty() ? "" : " ") + token;
    result.problems.push_back(problem);
  }
  if (save == POLYCONV_SAVE_ARGMAX) result.name += " (saves argmax)";
  if (save == POLYCONV_SAVE_PRE_ACTIVATION) result.name += " (saves pre-activation)";
  return result;
}

// As listed: constants, for code that makes so many strings takes a compiler half a minute.
struct ListedCase {
  int32_t save;
  const char *tokens[8]; // NULL behind the last
};

template <size_t Count>
std::vector<TestCase> cases_of(const ListedCase (&listed)[Count]) {
  std::vector<TestCase> cases;
  for (const ListedCase &one : listed) {
    std::vector<std::string> tokens;
    for (const char *token : one.tokens)
      if (token != nullptr) tokens.emplace_back(token);
    cases.push_back(make_case(one.save, tokens));
  }
  return cases;
}

inline std::vector<TestCase> all_cases() {
  static constexpr ListedCase kCases[] = {
#define CASE(token) {POLYCONV_SAVE_NONE, {token}},
#define SAVES(save, token) {save, {token}},
#define CHAIN(...) {POLYCONV_SAVE_NONE, {__VA_ARGS__}},
#include "cases.inc"
#include "cases_gradients.inc"
#include "cases_types.inc"
#undef CHAIN
#undef SAVES
#undef CASE
  };
  return cases_of(kCases);
}

inline std::vector<TestCase> all_chains() {
  static constexpr ListedCase kChains[] = {
#define CHAIN(...) {POLYCONV_SAVE_NONE, {__VA_ARGS__}},
#include "chains.inc"
#undef CHAIN
  };
  return cases_of(kChains);
}

} // namespace conformance
