// explained.hpp - what polyconv_explain answers, as plain data that outlives the explanation.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plan_job.hpp"

namespace job {

struct Answer {
  std::string kernel, reason;
  double estimate_us;
  int64_t workspace_bytes;
  bool accepted, chosen, fallback;
  std::string grouping, note;
  polyconv_candidate all; // its strings are gone
};

struct Explained {
  std::string text;
  std::vector<Answer> answers;

  const Answer *find(const std::string &kernel) const {
    for (const Answer &answer : answers)
      if (answer.kernel == kernel) return &answer;
    return nullptr;
  }
};

inline Explained explain(const std::vector<polyconv_problem> &problems, const polyconv_options &o) {
  polyconv_explanation *explanation = nullptr;
  REQUIRE_MESSAGE(polyconv_explain(nullptr, problems.data(), static_cast<int32_t>(problems.size()), &o, &explanation) ==
                      POLYCONV_SUCCESS,
                  error());
  Explained result;
  result.text = polyconv_explanation_text(explanation);
  for (int32_t i = 0; i < polyconv_explanation_count(explanation); ++i) {
    polyconv_candidate c{};
    c.struct_size = sizeof c;
    REQUIRE(polyconv_explanation_get(explanation, i, &c) == POLYCONV_SUCCESS);
    result.answers.push_back({c.kernel, c.reason, c.estimate_us, c.workspace_bytes, c.accepted == 1, c.chosen == 1,
                              c.fallback == 1, c.grouping, c.note, c});
  }
  polyconv_explanation_destroy(explanation);
  return result;
}

} // namespace job
