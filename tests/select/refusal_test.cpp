// refusal_test.cpp - what plan refuses, explain does not call chosen; and what no call on the CPU takes, no run takes.
// SPDX-License-Identifier: Apache-2.0
#include "explained.hpp"

namespace {

using namespace job;

const char *const kToken = "fwd:n1,c4,k4,i8x8,f3x3,p1";

// What plan and explain say of one question must agree.
void check_agreement(const std::vector<polyconv_problem> &problems, const polyconv_options &o) {
  polyconv_status status = POLYCONV_SUCCESS;
  const Plan plan = try_plan(problems, o, &status);
  const Explained e = explain(problems, o);
  CAPTURE(e.text);
  int chosen = 0;
  for (const Answer &answer : e.answers) {
    chosen += answer.chosen;
    if (answer.chosen) {
      CHECK(answer.accepted);
      CHECK(status == POLYCONV_SUCCESS);
      if (plan) CHECK(answer.workspace_bytes >= info(plan).workspace_bytes);
    }
  }
  CHECK(chosen == (status == POLYCONV_SUCCESS ? 1 : 0));
  if (status != POLYCONV_SUCCESS) CHECK(contains(e.text, "nobody takes it under these options"));
}

} // namespace

TEST_CASE("explain chooses nothing where plan refuses a chain for its workspace") {
  load("plan_probe");
  polyconv_options o = options("fake-plan-probe/ties");
  const std::vector<polyconv_problem> two(2, problem(kToken));
  check_agreement(two, o);
  o.workspace_limit = 0;
  CHECK(contains(chosen(two, o), "options.workspace_limit is 0, expected at least 1024"));
  check_agreement(two, o);
  o.determinism = POLYCONV_DETERMINISM_INVARIANT;
  check_agreement(two, o);
}

TEST_CASE("determinism 2 in chains: kernels that convert for a batch and not for one image") {
  load("plan_probe");
  // Of one image whose channels lie side by side both layouts are the same; of three images a batch's stride decides.
  polyconv_options o = options("fake-plan-probe/likes_last,fake-plan-probe/ties");
  const std::vector<std::vector<std::string>> chains = {
      {"fwd:n3,c1,k1,i6x6,f3x3,p1", "fwd:n3,c1,k1,i6x6,f3x3,p1", "fwd:n3,c1,k1,i6x6,f3x3,p1"},
      {"fwd:n3,c4,k4,i1x1,f1x1:xs=7.1.4.4", "fwd:n3,c4,k4,i1x1,f1x1"},
      {"fwd:n3,c4,k4,i8x8,f3x3,p1:xs=300.1.32.4", "fwd:n3,c4,k4,i8x8,f3x3,p1"},
      {"fwd:n3,c4,k4,i8x8,f3x3,p1", "fwd:n3,c4,k4,i8x8,f3x3,p1:nhwc"}};
  for (const std::vector<std::string> &tokens : chains) {
    std::vector<polyconv_problem> chain;
    for (const std::string &token : tokens) chain.push_back(problem(token));
    for (const int64_t limit : {int64_t{-1}, int64_t{1} << 20, int64_t{2048}, int64_t{0}}) {
      for (const int32_t level : {POLYCONV_DETERMINISM_RUN, POLYCONV_DETERMINISM_INVARIANT}) {
        CAPTURE(tokens[0]);
        CAPTURE(limit);
        o.workspace_limit = limit;
        o.determinism = level;
        if (polyconv_problem_validate(chain.data(), static_cast<int32_t>(chain.size())) == POLYCONV_SUCCESS)
          check_agreement(chain, o);
        check_agreement({chain[0]}, o);
      }
    }
  }
}

TEST_CASE("determinism 2: a kernel of a chain that rejects the batch is told as the reason") {
  load("plan_probe");
  polyconv_options o = options("fake-plan-probe/few_images");
  o.determinism = POLYCONV_DETERMINISM_INVARIANT;
  const std::vector<polyconv_problem> two(2, problem("fwd:n8,c4,k4,i8x8,f3x3,p1"));
  CHECK(contains(chosen(two, o), "which rejects this batch: takes up to 4 images, not 8"));
  check_agreement(two, o);
}

TEST_CASE("the CPU has no stream but NULL, for a run as for a copy") {
  const Plan planned = plan({problem(kToken)}, options("reference/*"));
  int stream = 0;
  const auto refused = [](polyconv_status status) {
    CHECK(status == POLYCONV_INVALID_ARGUMENT);
    CHECK(contains(error(), "expected NULL: the CPU has no other stream"));
  };
  std::vector<float> data(4 * 4 * 3 * 3 + 4 * 8 * 8 * 2);
  polyconv_buffers buffers;
  polyconv_buffers_init(&buffers);
  buffers.weights[0] = data.data();
  buffers.input = data.data() + 144;
  buffers.output = data.data() + 144 + 256;
  refused(polyconv_device_copy(nullptr, data.data(), data.data() + 4, 4, &stream));
  refused(polyconv_run(planned.get(), &buffers, &stream));
  polyconv_bound *bound = nullptr;
  REQUIRE(polyconv_bind(planned.get(), &buffers, &bound) == POLYCONV_SUCCESS);
  refused(polyconv_run_bound(bound, &stream));
  CHECK(polyconv_run_bound(bound, nullptr) == POLYCONV_SUCCESS);
  polyconv_bound_destroy(bound);
  polyconv_weights *weights = nullptr;
  refused(polyconv_weights_create(planned.get(), 0, data.data(), nullptr, &stream, &weights));
  CHECK(weights == nullptr);
}
