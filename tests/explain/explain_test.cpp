// explain_test.cpp - polyconv_explain: every kernel's answer, in order, the one that planning takes among them, and a
// text that a person can read.
// SPDX-License-Identifier: Apache-2.0
#include "explained.hpp"

namespace {

using namespace job;

polyconv_options probe(const char *kernels) {
  load("plan_probe");
  return options(kernels);
}

// The last section of the text alone: elsewhere real kernels give their reasons, in words that depend on the processor.
std::string what_would_change(const Explained &e) {
  const size_t at = e.text.find("what would change the answer");
  REQUIRE_MESSAGE(at != std::string::npos, e.text);
  return e.text.substr(at);
}

const char *const kToken = "fwd:n1,c4,k4,i8x8,f3x3,p1:relu";

} // namespace

TEST_CASE("the chosen one comes first, then the accepted by estimate, and planning agrees") {
  for (const char *token : {kToken, "fwd:n1,c4,k4,i8x8,f3x3,p1:relu+maxpool2", "bwd_d:n1,c4,k4,i8x8,f3x3",
                            "bwd_w:n1,c4,k4,i8x8,f3x3", "tfwd:n1,c4,k4,i8x8,f3x3", "fwd:n1,c4,k4,i8x8,f3x3:s8"}) {
    CAPTURE(std::string(token));
    const Explained e = explain({problem(token)}, options());
    REQUIRE(!e.answers.empty());
    CHECK(e.answers[0].chosen);
    CHECK(e.answers[0].accepted);
    const std::string planned = chosen({problem(token)}, options());
    CHECK(planned.substr(0, planned.find(" + ")) == e.answers[0].kernel);
    for (size_t i = 1; i < e.answers.size(); ++i) {
      CHECK(!e.answers[i].chosen);
      CHECK(e.answers[i].accepted <= e.answers[i - 1].accepted);
      if (e.answers[i].accepted) CHECK(e.answers[i].estimate_us >= e.answers[i - 1].estimate_us);
      if (!e.answers[i].accepted) CHECK(e.answers[i].reason != "");
    }
  }
}

TEST_CASE("what the filter hides and what must be named keeps its answer") {
  const Explained e = explain({problem(kToken)}, probe("fake-plan-probe/ties,fake-plan-probe/t*@slow"));
  REQUIRE(e.find("fake-plan-probe/ties@only") != nullptr);
  CHECK(e.find("fake-plan-probe/ties@only")->chosen);
  REQUIRE(e.find("fake-plan-probe/two_speeds@slow") != nullptr);
  CHECK(e.find("fake-plan-probe/two_speeds@slow")->accepted);
  CHECK(e.find("fake-plan-probe/two_speeds@fast") == nullptr);
  const Answer *hidden = e.find("fake-plan-probe/scratch@only");
  REQUIRE(hidden != nullptr);
  CHECK(!hidden->accepted);
  CHECK(hidden->reason == "hidden by options.kernel");
  CHECK(hidden->estimate_us == doctest::Approx(15));
  CHECK(hidden->workspace_bytes == 1000);
  const Explained plain = explain({problem(kToken)}, options());
  REQUIRE(plain.find("fake-plan-probe/ties@only") != nullptr);
  CHECK(plain.find("fake-plan-probe/ties@only")->reason == "taken only where options.kernel names it");
}

TEST_CASE("what an accepted kernel adds is told") {
  const Explained e = explain({problem("fwd:n1,c3,k4,i8x8,f3x3,p1:maxpool2")}, probe("fake-plan-probe/likes_last"));
  CHECK(e.answers[0].kernel == "fake-plan-probe/likes_last@only");
  CHECK(contains(e.answers[0].reason, "+ pooling step fake-plan-probe/pool@only (7 us)"));
  CHECK(contains(e.answers[0].reason, "+ conversion of the input for a kernel in channels last"));
  CHECK(e.answers[0].estimate_us == doctest::Approx(18));
  CHECK(contains(e.text, "pools"));
  CHECK(contains(e.text, "converts the layout"));
}

TEST_CASE("a problem that nobody takes is explained all the same") {
  polyconv_options o = probe("fake-plan-probe/tf32");
  const Explained e = explain({problem(kToken)}, o);
  CHECK(contains(e.text, "nobody takes it under these options"));
  CHECK(contains(e.text, "math tf32: fake-plan-probe/tf32@only takes it in about 2 us"));
  CHECK(contains(e.text, "without options.kernel: "));
  for (const Answer &answer : e.answers) CHECK(!answer.accepted);
  o.determinism = POLYCONV_DETERMINISM_IDENTICAL;
  CHECK(contains(explain({problem(kToken)}, o).text, "s8/u8 rows only"));
}

TEST_CASE("what would change the answer, and only what would") {
  polyconv_options o =
      probe("fake-plan-probe/ties,fake-plan-probe/tf32,fake-plan-probe/transform,fake-plan-probe/bound");
  const std::string text = what_would_change(explain({problem(kToken)}, o));
  CHECK(contains(text, "math tf32: fake-plan-probe/tf32@only takes it in about 2 us, 25.0 times as fast"));
  CHECK(!contains(text, "math fp32_emulated"));
  CHECK(!contains(text, "math fast:")); // leads where tf32 led
  CHECK(contains(text, "bind: fake-plan-probe/bound@only takes it in about 6 us, 8.3 times as fast"));
  o = probe("fake-plan-probe/generic,fake-plan-probe/scratch");
  o.workspace_limit = 10;
  const Explained limit = explain({problem(kToken)}, o);
  const std::string limited = what_would_change(limit);
  CHECK(contains(limited, "a larger workspace_limit: fake-plan-probe/scratch@only"));
  CHECK(contains(limit.text, "needs 1000 bytes of workspace, options.workspace_limit is 10"));
  CHECK(contains(limit.text, "(a fallback)"));
}

TEST_CASE("the text names problem, device, kernel, steps and the others") {
  load("plan_probe");
  const Explained e =
      explain({problem(kToken)}, probe("fake-plan-probe/ties,fake-plan-probe/generic,fake-plan-probe/packs"));
  INFO(e.text);
  CHECK(contains(e.text, std::string(kToken) + " on cpu\n  fake-plan-probe/packs@only\n  about 30 us"));
  CHECK(contains(e.text, "weights packed as plan_probe:1 (576 bytes)"));
  CHECK(contains(e.text, "other candidates\n  fake-plan-probe/ties@only"));
  CHECK(contains(e.text, "1.67x"));
  CHECK(contains(e.text, "fallback"));
  CHECK(contains(e.text, "\nrejected\n"));
  CHECK(contains(e.text, "what would change the answer"));
  for (size_t at = 0; (at = e.text.find(" \n", at)) != std::string::npos; ++at) FAIL("a line ends in a blank");
}

TEST_CASE("a chain: the plan as a whole, fused answers, and each layer") {
  const polyconv_problem p = problem("fwd:n1,c4,k4,i8x8,f3x3,p1");
  const Explained apart = explain({p, p}, probe("fake-plan-probe/scratch,fake-plan-probe/fuses_all"));
  CHECK(apart.answers[0].kernel == "fake-plan-probe/scratch@only + fake-plan-probe/scratch@only");
  CHECK(apart.answers[0].chosen);
  CHECK(apart.answers[0].estimate_us == doctest::Approx(30));
  REQUIRE(apart.find("fake-plan-probe/fuses_all@only") != nullptr);
  CHECK(apart.find("fake-plan-probe/fuses_all@only")->accepted);
  CHECK(contains(apart.text, "other kernels that take all layers in one\n  fake-plan-probe/fuses_all@only  40 us"));
  CHECK(contains(apart.text, "layer 1 alone, "));
  const Explained fused = explain({p, p}, probe("fake-plan-probe/scratch,fake-plan-probe/fuses_two"));
  CHECK(fused.answers[0].kernel == "fake-plan-probe/fuses_two@only");
  CHECK(contains(fused.text, "convolves 2 layers in one"));
}

TEST_CASE("a chain: every grouping with its time, what it saves, and what fused kernels tell") {
  const polyconv_problem p = problem("fwd:n1,c4,k4,i8x8,f3x3,p1");
  const std::vector<polyconv_problem> three(3, p);
  polyconv_options o = probe("fake-plan-probe/scratch,fake-plan-probe/fuses_two,fake-plan-probe/fuses_all");
  const Explained e = explain(three, o);
  INFO(e.text);
  const std::string pair = "fake-plan-probe/fuses_two@only", alone = "fake-plan-probe/scratch@only";
  const int64_t between = 4 * 8 * 8 * 4;
  CHECK(e.answers[0].kernel == pair + " + " + alone);
  CHECK(e.answers[0].chosen);
  CHECK(e.answers[0].grouping == "2+1");
  CHECK(e.answers[0].all.saved_bytes == 2 * between);
  CHECK(e.answers[0].all.shared_bytes == 2000);
  REQUIRE(e.find(alone + " + " + alone + " + " + alone) != nullptr);
  CHECK(e.find(alone + " + " + alone + " + " + alone)->grouping == "none");
  const Answer *all = e.find("fake-plan-probe/fuses_all@only");
  REQUIRE(all != nullptr);
  CHECK(all->grouping == "3");
  CHECK(all->note == "tiles of 3 layers");
  CHECK(all->all.saved_bytes == 4 * between);
  CHECK(all->all.recomputed_outputs == 12);
  CHECK(all->all.blocks == 7);
  CHECK(all->all.threads == 128);
  CHECK(all->all.occupancy == 0.5f);
  CHECK(all->all.measured == 0);
  for (const char *words : {"\ngroupings\n  2+1   about 27 us  1.00x  saves 2.0 KiB", "  none  about 45 us  1.67x",
                            "  3     about 40 us", "\nfused\n", "layers 0 to 2",
                            "12 outputs (2.3 %) computed again, 7 blocks of 128 threads, 2.9 KiB shared, "
                            "occupancy 50 %, tiles of 3 layers"})
    CHECK_MESSAGE(contains(e.text, words), std::string(words));
  o.grouping = "none";
  const Explained forced = explain(three, o);
  CHECK(forced.answers[0].grouping == "none");
  CHECK(contains(forced.text,
                 "without options.grouping: " + pair + " + " + alone + " takes it in about 27 us, 1.7 times"));
  o.grouping = nullptr;
  o.shared_memory_limit = 1000;
  CHECK(contains(explain(three, o).text, "a larger shared_memory_limit: " + pair));
  o.shared_memory_limit = -1;
  o.tuning_budget_ms = 60;
  const Explained timed = explain(three, o);
  INFO(timed.text);
  CHECK(timed.answers[0].all.measured == 1);
  for (size_t i = 1; i < timed.answers.size() && timed.answers[i].all.measured == 1; ++i)
    CHECK(timed.answers[i].estimate_us >= timed.answers[0].estimate_us);
  CHECK(contains(timed.text, "measured "));
  // A single layer has no grouping.
  CHECK(explain({p}, options()).answers[0].grouping.empty());
}

TEST_CASE("what a kernel tells of itself must make sense") {
  const polyconv_problem p = problem("fwd:n1,c4,k4,i8x8,f3x3,p1");
  for (const char *config : {"negative_figures", "beyond_all_occupancy"}) {
    const std::string name = std::string("fake-plan-probe/liar@") + config;
    CHECK(contains(chosen({p}, probe(name.c_str())), "defect: it tells of"));
  }
}

TEST_CASE("with a tuning budget times are measured, and said to be") {
  polyconv_options o = probe("fake-plan-probe/two_speeds,fake-plan-probe/liar@nan_estimate,fake-plan-probe/fails@run");
  o.tuning_budget_ms = 100;
  const Explained e = explain({problem(kToken)}, o);
  INFO(e.text);
  CHECK(e.answers[0].chosen);
  CHECK(contains(e.answers[0].kernel, "fake-plan-probe/two_speeds@"));
  CHECK(e.answers[0].estimate_us != doctest::Approx(50).epsilon(1e-9));
  CHECK(contains(e.text, "\n  measured "));
  CHECK(contains(e.text, ", predicted "));
  REQUIRE(e.find("fake-plan-probe/fails@run") != nullptr);
  CHECK(contains(e.find("fake-plan-probe/fails@run")->reason, "failed while it was timed: the device fell over"));
  const polyconv_problem p = problem("fwd:n1,c4,k4,i8x8,f3x3,p1");
  CHECK(contains(explain({p, p}, o).text, "\n  measured "));
}

TEST_CASE("arguments of explain") {
  const polyconv_problem p = problem(kToken);
  polyconv_explanation *e = nullptr;
  CHECK(polyconv_explain(nullptr, &p, 1, nullptr, nullptr) == POLYCONV_INVALID_ARGUMENT);
  CHECK(polyconv_explain(nullptr, nullptr, 1, nullptr, &e) == POLYCONV_INVALID_ARGUMENT);
  CHECK(polyconv_explain(nullptr, &p, 0, nullptr, &e) == POLYCONV_INVALID_ARGUMENT);
  CHECK(e == nullptr);
  REQUIRE(polyconv_explain(nullptr, &p, 1, nullptr, &e) == POLYCONV_SUCCESS);
  polyconv_candidate c{};
  CHECK(polyconv_explanation_get(e, 0, &c) == POLYCONV_INVALID_ARGUMENT); // no struct_size
  c.struct_size = sizeof c;
  CHECK(polyconv_explanation_get(e, -1, &c) == POLYCONV_INVALID_ARGUMENT);
  CHECK(polyconv_explanation_get(e, polyconv_explanation_count(e), &c) == POLYCONV_INVALID_ARGUMENT);
  CHECK(contains(error(), "index is "));
  CHECK(polyconv_explanation_get(nullptr, 0, &c) == POLYCONV_INVALID_ARGUMENT);
  CHECK(polyconv_explanation_count(nullptr) == 0);
  CHECK(std::string(polyconv_explanation_text(nullptr)).empty());
  polyconv_explanation_destroy(e);
  polyconv_explanation_destroy(nullptr);
}
