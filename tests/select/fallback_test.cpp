// fallback_test.cpp - fallbacks, reference and generic kernels, come after all others, whatever they estimate or are
// measured to take: as kernels, as steps beside kernels, in chains, with a tuning budget and in explanations.
// SPDX-License-Identifier: Apache-2.0
#include "explained.hpp"

namespace {

using namespace job;

const char *const kToken = "fwd:n1,c4,k4,i8x8,f3x3,p1";
const char *const kPooled = "fwd:n1,c4,k4,i8x8,f3x3,p1:maxpool2";

// The kernels of plan_probe that a list names, without its name.
std::string globs(const std::string &list) {
  load("plan_probe");
  std::string text;
  for (size_t begin = 0; begin <= list.size();) {
    const size_t end = std::min(list.find(',', begin), list.size());
    text += (text.empty() ? "fake-plan-probe/" : ",fake-plan-probe/") + list.substr(begin, end - begin);
    begin = end + 1;
  }
  return text;
}

std::string named(const std::string &kernel) {
  return "fake-plan-probe/" + kernel + "@only";
}

} // namespace

TEST_CASE("a fallback that estimates the least time is taken only where nobody else accepts") {
  const std::string both = globs("generic_quick,drags,ties"), alone = globs("generic_quick");
  polyconv_options o = options(both.c_str());
  CHECK(chosen({problem(kToken)}, o) == named("drags")); // 1 us as the fallback, which stands before it in the filter
  const std::string slower = globs("generic_quick,ties");
  o.kernel = slower.c_str();
  CHECK(chosen({problem(kToken)}, o) == named("ties")); // 50 us for 1
  CHECK(info(plan({problem(kToken)}, o)).fallback == 0);
  o.determinism = POLYCONV_DETERMINISM_INVARIANT;
  CHECK(chosen({problem(kToken)}, o) == named("ties"));
  o.kernel = alone.c_str();
  CHECK(chosen({problem(kToken)}, o) == named("generic_quick"));
  CHECK(info(plan({problem(kToken)}, o)).fallback == 1);
}

TEST_CASE("a problem on which reference estimated less than all others goes to another") {
  const polyconv_problem p = problem("tfwd:n1,c1,k22,i23x18,f1x1,s4,p9x1/1x0,d2,o3x0");
  polyconv_options o = options("o*/*,t*/*");
  polyconv_status status = POLYCONV_SUCCESS;
  if (!try_plan({p}, o, &status)) {
    MESSAGE("no backend but reference is here: " << error());
    return;
  }
  o = options();
  CHECK(!contains(chosen({p}, o), "reference/convolve"));
}

TEST_CASE("of the steps beside a kernel too the fallbacks come last") {
  const std::string list = globs("ties");
  CHECK(chosen({problem(kPooled)}, options(list.c_str())) == named("ties") + " + " + named("pool")); // 7 us for 1
}

TEST_CASE("a kernel with a fallback beside it goes before one that is a fallback itself, and after the rest") {
  const std::string list = globs("generic_quick,ties") + ",!*/pool,!*/pool_slowly";
  const polyconv_options o = options(list.c_str());
  CHECK(chosen({problem(kPooled)}, o) == named("ties") + " + " + named("pool_generic"));
  CHECK(info(plan({problem(kPooled)}, o)).fallback == 1);
}

TEST_CASE("a tuning budget is not spent on fallbacks where others accept") {
  const std::string both = globs("generic_quick,drags"); // drags takes 3 ms, whatever it says
  polyconv_options o = options(both.c_str());
  o.tuning_budget_ms = 200;
  CHECK(chosen({problem(kToken)}, o) == named("drags"));
  const Explained e = explain({problem(kToken)}, o);
  REQUIRE(e.answers.size() > 1);
  CHECK(e.answers[0].kernel == named("drags"));
  CHECK(e.answers[0].all.measured == 1);
  CHECK(e.answers[1].kernel == named("generic_quick"));
  CHECK(e.answers[1].all.measured == 0);
}

TEST_CASE("kernels that fail when they are timed leave the fallback, which is then timed") {
  const std::string both = globs("generic_quick,fails@create");
  polyconv_options o = options(both.c_str());
  o.tuning_budget_ms = 50;
  CHECK(chosen({problem(kToken)}, o) == named("generic_quick"));
}

TEST_CASE("a chain takes the grouping with the fewest layers on fallbacks") {
  const std::vector<polyconv_problem> two(2, problem(kToken));
  const std::string both = globs("ties,fuses_generically"), layers = named("ties") + " + " + named("ties");
  polyconv_options o = options(both.c_str());
  CHECK(chosen(two, o) == layers); // 100 us for 2
  const Explained e = explain(two, o);
  REQUIRE(e.answers.size() > 1);
  CHECK(e.answers[0].kernel == layers);
  CHECK(e.answers[1].kernel == named("fuses_generically"));
  o.tuning_budget_ms = 60;
  CHECK(chosen(two, o) == layers);
  const std::string three = globs("generic,fuses_generically");
  o = options(three.c_str());
  CHECK(chosen(two, o) == named("fuses_generically")); // both are fallbacks: the quicker one
}

TEST_CASE("explanations list fallbacks after the others, and tell what would avoid one") {
  const std::string list = globs("generic_quick,ties,scratch");
  polyconv_options o = options(list.c_str());
  const Explained e = explain({problem(kToken)}, o);
  std::vector<std::string> accepted;
  for (const Answer &answer : e.answers)
    if (answer.accepted) accepted.push_back(answer.kernel);
  CHECK(accepted == std::vector<std::string>{named("scratch"), named("ties"), named("generic_quick")});
  const std::string fallback = globs("generic_quick,scratch");
  o.kernel = fallback.c_str();
  o.workspace_limit = 0;
  const std::string text = explain({problem(kToken)}, o).text;
  CAPTURE(text);
  CHECK(contains(text,
                 "a larger workspace_limit: " + named("scratch") + " takes it in about 15 us, which is no fallback"));
}
