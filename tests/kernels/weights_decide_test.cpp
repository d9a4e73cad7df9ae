// weights_decide_test.cpp - layers over a few pixels take as long as their weights take to come: a chain of them costs
// no less for being one kernel, and one that is large is shared among the threads.
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <polyconv/polyconv.hpp>

#include <string>
#include <vector>

#include "missing.hpp"

namespace {

// Squeeze and excitation: 0.9 MB of weights each, 0.5 million multiplications in all.
std::vector<polyconv::Problem> gate() {
  return {polyconv::Problem("fwd:n1,c960,k240,i1x1,f1x1:nhwc:bias+relu"),
          polyconv::Problem("fwd:n1,c240,k960,i1x1,f1x1:nhwc:bias")};
}

polyconv_plan_info info(const std::vector<polyconv::Problem> &problems, const char *kernel, int threads) {
  polyconv::Options options;
  options.threads = threads, options.kernel = kernel;
  const polyconv::Plan plan(problems, options);
  return plan.info();
}

} // namespace

TEST_CASE("a chain's estimate has its weights") {
  if (polyconv_test::missing("threads")) return;
  double alone = 0;
  for (const polyconv::Problem &layer : gate()) alone += info({layer}, "threads/dense*", 1).estimate_us;
  const double together = info(gate(), "threads/chain*,threads/dense*", 1).estimate_us;
  CHECK(together > 0.5 * alone);
}

TEST_CASE("a pixel's large layer is shared among threads") {
  if (polyconv_test::missing("threads")) return;
  const double one = info({gate()[0]}, "threads/dense*", 1).estimate_us;
  const double two = info({gate()[0]}, "threads/dense*", 2).estimate_us;
  CHECK(two < 0.7 * one);
}
