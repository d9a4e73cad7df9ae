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

inline std::vector<TestCase> all_cases() {
  return {
#define CASE(token) make_case(POLYCONV_SAVE_NONE, {token}),
#define SAVES(save, token) make_case(save, {token}),
#define CHAIN(...) make_case(POLYCONV_SAVE_NONE, {__VA_ARGS__}),
#include "cases.inc"
#include "cases_gradients.inc"
#include "cases_types.inc"
#undef CHAIN
#undef SAVES
#undef CASE
  };
}

inline std::vector<TestCase> all_chains() {
  return {
#define CHAIN(...) make_case(POLYCONV_SAVE_NONE, {__VA_ARGS__}),
#include "chains.inc"
#undef CHAIN
  };
}

} // namespace conformance
