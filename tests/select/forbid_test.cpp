// forbid_test.cpp - forcing a kernel leaves the steps beside it free; '!' before a pattern of options.kernel forbids.
// SPDX-License-Identifier: Apache-2.0
#include "explained.hpp"

namespace {

using namespace job;

const char *const kToken = "fwd:n1,c4,k4,i8x8,f3x3,p1";

std::string taken(const std::string &kernels, const char *token = kToken) {
  load("plan_probe");
  return chosen({problem(token)}, options(kernels.c_str()));
}

} // namespace

TEST_CASE("a forced kernel has its pooling, conversions and gradients without their being named") {
  CHECK(taken("fake-plan-probe/ties@only", "fwd:n1,c4,k4,i8x8,f3x3,p1:maxpool2") ==
        "fake-plan-probe/ties@only + fake-plan-probe/pool@only");
  CHECK(taken("fake-plan-probe/likes_last", kToken) ==
        "fake-plan-probe/likes_last@only + fake-plan-probe/convert@only + fake-plan-probe/convert@only");
  const std::string both = taken("fake-plan-probe/likes_last", "fwd:n1,c4,k4,i8x8,f3x3,p1:maxpool2");
  CHECK(contains(both, "fake-plan-probe/pool@only"));
  CHECK(contains(both, "fake-plan-probe/convert@only"));
  // Of another backend, where its own has none that can.
  polyconv_options o = options("reference/convolve");
  o.save = POLYCONV_SAVE_PRE_ACTIVATION;
  CHECK(contains(chosen({problem("bwd_d:n1,c4,k4,i8x8,f3x3:relu")}, o), " + reference/gradient@"));
}

TEST_CASE("every kernel that explain lists as accepted can be forced alone") {
  load("plan_probe");
  for (const char *token : {"fwd:n1,c8,k8,i10x10,f3x3,p1:nhwc:bias+relu+maxpool2", "bwd_d:n1,c8,k8,i10x10,f3x3,p1",
                            "fwd:n1,c8,k8,i10x10,f3x3,p1:s8:avgpool2", "tfwd:n2,c4,k8,i5x5,f3x3,s2:f16:maxpool2"}) {
    for (const Answer &answer : explain({problem(token)}, options()).answers) {
      if (!answer.accepted) continue;
      CAPTURE(answer.kernel);
      CHECK(taken(answer.kernel, token).compare(0, answer.kernel.size(), answer.kernel) == 0);
    }
  }
}

TEST_CASE("a step beside the kernel is taken from elsewhere where the filter forbids it by name") {
  const char *pooled = "fwd:n1,c4,k4,i8x8,f3x3,p1:maxpool2";
  CHECK(taken("fake-plan-probe/ties, !fake-plan-probe/pool", pooled) ==
        "fake-plan-probe/ties@only + fake-plan-probe/pool_slowly@only");
  CHECK(taken("! fake-plan-probe/pool@o*,fake-plan-probe/ties", pooled) ==
        "fake-plan-probe/ties@only + fake-plan-probe/pool_slowly@only");
  CHECK(contains(taken("fake-plan-probe/ties,!*/pool*", pooled),
                 "does not pool, and nobody whom options.kernel leaves takes the pooling as a step of its own"));
}

TEST_CASE("what is forbidden does not convolve, whatever admits it") {
  CHECK(taken("fake-plan-probe/*,!fake-plan-probe/*").find("matches no kernel") != std::string::npos);
  CHECK(taken("fake-plan-probe/two_speeds,fake-plan-probe/ties,!fake-plan-probe/two*") == "fake-plan-probe/ties@only");
  CHECK(taken("fake-plan-probe/two_speeds,!*@fast") == "fake-plan-probe/two_speeds@slow");
  CHECK(taken("fake-plan-probe/two_speeds@*,!fake-plan-probe/two_speeds@fast") == "fake-plan-probe/two_speeds@slow");
  const std::string free = taken("");
  CHECK(contains(free, "options.kernel is \"\""));
}

TEST_CASE("a filter that only forbids admits the rest, but for what must be named") {
  load("plan_probe");
  const std::string usual = chosen({problem(kToken)}, options());
  const std::string backend = usual.substr(0, usual.find('/'));
  const std::string other = taken("!" + backend + "/*");
  CHECK(other.compare(0, backend.size() + 1, backend + "/") != 0);
  CHECK(taken("!fake-plan-probe/ties") == usual);
  CHECK(taken("!o*/*,!t*/*,!fake*/*") == "reference/convolve@plain");
}
