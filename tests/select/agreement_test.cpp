// agreement_test.cpp - rules of selection on random problems under random options: explain chooses what plan takes, a
// fallback only where nobody else accepts, and every kernel that accepts can be forced alone by its full name.
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <polyconv/polyconv.h>

#include <string>

#include "../random_problem.hpp"

namespace {

constexpr int kProblems = 2000;

std::string token_of(const polyconv_problem &problem) {
  char text[512];
  return polyconv_problem_format(&problem, text, sizeof text, nullptr) == POLYCONV_SUCCESS ? text : "?";
}

polyconv_options draw_options(polyconv_test::RandomProblem *random) {
  polyconv_options o;
  polyconv_options_init(&o);
  o.fallback = POLYCONV_FALLBACK_ALLOW;
  o.determinism = static_cast<int32_t>(random->between(POLYCONV_DETERMINISM_NONE, POLYCONV_DETERMINISM_IDENTICAL));
  o.math = static_cast<int32_t>(random->between(POLYCONV_MATH_STRICT, POLYCONV_MATH_FAST));
  o.save = static_cast<int32_t>(random->between(POLYCONV_SAVE_NONE, POLYCONV_SAVE_PRE_ACTIVATION));
  o.bind = random->chance(50);
  o.threads = static_cast<int32_t>(random->between(1, 4));
  if (random->chance(30)) o.workspace_limit = random->between(0, 1 << 20);
  return o;
}

// Whether a plan is made, and of a fallback.
struct Planned {
  bool made = false, fallback = false;
  Planned(const polyconv_problem &problem, const polyconv_options &o) {
    polyconv_plan *plan = nullptr;
    made = polyconv_plan_create(nullptr, &problem, 1, &o, &plan) == POLYCONV_SUCCESS;
    polyconv_plan_info info;
    info.struct_size = sizeof info;
    if (made && polyconv_plan_get_info(plan, &info) == POLYCONV_SUCCESS) fallback = info.fallback != 0;
    polyconv_plan_destroy(plan);
  }
};

} // namespace

TEST_CASE("random problems: chosen is what is planned, fallbacks come last, and whoever accepts can be forced") {
  polyconv_test::RandomProblem random(19);
  int explained = 0, forced = 0;
  for (int n = 0; n < kProblems; ++n) {
    const polyconv_problem problem = random.next();
    const polyconv_options o = draw_options(&random);
    polyconv_explanation *explanation = nullptr;
    if (polyconv_explain(nullptr, &problem, 1, &o, &explanation) != POLYCONV_SUCCESS) continue; // a save that it lacks
    ++explained;
    CAPTURE(token_of(problem));
    const Planned planned(problem, o);
    int chosen = 0, others = 0;
    for (int32_t i = 0; i < polyconv_explanation_count(explanation); ++i) {
      polyconv_candidate candidate;
      candidate.struct_size = sizeof candidate;
      REQUIRE(polyconv_explanation_get(explanation, i, &candidate) == POLYCONV_SUCCESS);
      chosen += candidate.chosen;
      others += candidate.accepted != 0 && candidate.fallback == 0;
      if (candidate.accepted == 0 || o.determinism == POLYCONV_DETERMINISM_INVARIANT) continue; // it asks for one image
      polyconv_options only = o;
      only.kernel = candidate.kernel;
      CAPTURE(std::string(candidate.kernel));
      CHECK(Planned(problem, only).made);
      ++forced;
    }
    CHECK(chosen == (planned.made ? 1 : 0));
    CHECK((!planned.fallback || others == 0));
    polyconv_explanation_destroy(explanation);
  }
  CHECK(explained > kProblems / 10);
  CHECK(forced > kProblems / 10);
}
