// faulty_test.cpp - the checks are themselves checked: a backend of kernels with one defect each. Every defect must
// turn the check red, by the mode that is meant to catch it, and the correct kernel beside them must stay green.
// ctest-label: conformance
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <polyconv/sdk/check.hpp>

#include "fake_backends/fakes.hpp"

using namespace polyconv::check;

namespace {

constexpr const char *kProblem = "fwd:n2,c8,k5,i9x11,f3x3,p1:bias";
constexpr const char *kStrided = "fwd:n2,c3,k4,i6x5,f3x3,p1:ys=400.70.11.2";

void load() {
  static const polyconv_status status = polyconv_backend_load(fakes::path("faulty").c_str());
  REQUIRE_MESSAGE(status == POLYCONV_SUCCESS, std::string(polyconv_last_error()));
}

Result check(Case problem, const std::string &kernel, Mode mode) {
  load();
  const std::string name = "fake-faulty/" + kernel + "@only";
  polyconv_options options;
  polyconv_options_init(&options);
  options.kernel = name.c_str();
  options.math = POLYCONV_MATH_FAST; // transforms
  const Result result = problem.run(mode, nullptr, options);
  CHECK(result.kernel == name);
  return result;
}

Result check(const std::string &kernel, Mode mode, const char *problem = kProblem) {
  return check(Case(std::string(problem)), kernel, mode);
}

// Two layers on one image, of a type; the second reads what lies outside the first one's output.
Result check_chain(const std::string &kernel, Mode mode, const std::string &type = "f32") {
  std::vector<polyconv_problem> problems(2);
  const std::string tokens[] = {"fwd:n1,c20,k3,i9x11,f3x3,p1:" + type + ":bias+relu",
                                "fwd:n1,c3,k2,i9x11,f3x3,p1:" + type + ":bias"};
  for (size_t i = 0; i < 2; ++i) {
    polyconv_problem_init(&problems[i]);
    REQUIRE(polyconv_problem_parse(tokens[i].c_str(), &problems[i]) == POLYCONV_SUCCESS);
  }
  return check(Case(problems), kernel, mode);
}

bool red_chain(const std::string &kernel, Mode mode, const std::string &type = "f32") {
  const Result result = check_chain(kernel, mode, type);
  INFO(kernel << ", " << std::string(mode_name(mode)) << ": " << result.sentence);
  CHECK(result.sentence.find("elements are wrong") != std::string::npos);
  return result.verdict == Verdict::Wrong;
}

bool red(const std::string &kernel, Mode mode, const std::string &words, const char *problem = kProblem) {
  const Result result = check(kernel, mode, problem);
  INFO(kernel << ", " << std::string(mode_name(mode)) << ": " << std::string(verdict_name(result.verdict)) << ", "
              << result.sentence);
  CHECK(result.sentence.find(words) != std::string::npos);
  return result.verdict == Verdict::Wrong;
}

} // namespace

TEST_CASE("a correct kernel is green in every mode") {
  for (const char *problem : {kProblem, kStrided})
    for (Mode mode : kModes) {
      const Result result = check("correct", mode, problem);
      CHECK_MESSAGE(result.good(), result.sentence);
    }
}

TEST_CASE("a dropped last tap is red") {
  CHECK(red("dropped_last_tap", Mode::Exact, "elements are wrong"));
  CHECK(red("dropped_last_tap", Mode::Random, "elements are wrong"));
}

TEST_CASE("a dropped last channel is red") {
  CHECK(red("dropped_last_channel", Mode::Exact, "elements are wrong"));
  CHECK(red("dropped_last_channel", Mode::Random, "elements are wrong"));
}

TEST_CASE("R and S swapped is red") {
  CHECK(red("swapped_r_and_s", Mode::Exact, "elements are wrong"));
  CHECK(red("swapped_r_and_s", Mode::Random, "elements are wrong"));
}

TEST_CASE("a shifted border is red") {
  CHECK(red("shifted_border", Mode::Exact, "elements are wrong"));
  CHECK(red("shifted_border", Mode::Random, "elements are wrong"));
}

TEST_CASE("sums in f16 are red on random data") {
  // Small integers are exact in f16 too: this is what random data are for.
  CHECK(red("f16_sums", Mode::Random, "elements are wrong"));
}

TEST_CASE("one row past the end is red") {
  CHECK(red("row_past_the_end", Mode::Exact, "guard zone behind the output"));
  CHECK(red("row_past_the_end", Mode::Random, "guard zone behind the output"));
}

TEST_CASE("a stale workspace is red") {
  CHECK(red("stale_workspace", Mode::Exact, ""));
  CHECK(red("stale_workspace", Mode::Random, ""));
}

TEST_CASE("writing between strided elements is red") {
  CHECK(red("writes_gaps", Mode::Exact, "between the strided elements of the output", kStrided));
}

TEST_CASE("writing to the input is red") {
  CHECK(red("writes_input", Mode::Exact, "changed the input"));
}

TEST_CASE("a NaN that does not propagate is red") {
  CHECK(red("nan_to_zero", Mode::NonFinite, "expected nan"));
  CHECK(check("nan_to_zero", Mode::Random).good()); // nobody else sees it
}

TEST_CASE("a transform's NaN is green in its image, red in others") {
  constexpr const char *kImages = "fwd:n3,c8,k5,i9x11,f3x3,p1:bias"; // the first has neither NaN nor Inf
  CHECK(check("nan_in_its_image", Mode::NonFinite, kImages).good());
  CHECK(red("nan_everywhere", Mode::NonFinite, "is nan; expected", kImages));
  CHECK(check("nan_everywhere", Mode::Random, kImages).good()); // nobody else sees it
}

TEST_CASE("an element that is not written is red") {
  CHECK(red("skips_last_element", Mode::Exact, ""));
}

TEST_CASE("packing past the end of the packed weights is red") {
  CHECK(red("overruns_packed", Mode::Exact, "guard zone behind the packed weights"));
}

TEST_CASE("a correct chain is green in every mode and type") {
  for (const char *type : {"f32", "f16", "bf16"})
    for (Mode mode : kModes) {
      const Result result = check_chain("chain_correct", mode, type);
      CHECK_MESSAGE(result.good(), std::string(type)
                                       << ", " << std::string(mode_name(mode)) << ": " << result.sentence);
    }
}

TEST_CASE("a chain that computes what lies outside an inner image, where the next layer pads, is red") {
  for (const char *type : {"f32", "f16"}) {
    CHECK(red_chain("chain_computes_padding", Mode::Exact, type));
    CHECK(red_chain("chain_computes_padding", Mode::Random, type));
  }
}

TEST_CASE("a chain whose tiles miss a column of halo is red") {
  CHECK(red_chain("chain_short_halo", Mode::Exact));
  CHECK(red_chain("chain_short_halo", Mode::Random));
}

TEST_CASE("a chain that does not round what lies between to its type is red on exact data") {
  for (const char *type : {"f16", "bf16"}) CHECK(red_chain("chain_unrounded", Mode::Exact, type));
  CHECK(check_chain("chain_unrounded", Mode::Exact).good()); // f32 has nothing to round
}

TEST_CASE("a chain without an inner bias is red") {
  CHECK(red_chain("chain_drops_inner_bias", Mode::Exact));
  CHECK(red_chain("chain_drops_inner_bias", Mode::Random));
}

TEST_CASE("asking for one kernel and getting another is no success") {
  load();
  polyconv_options options;
  polyconv_options_init(&options);
  options.kernel = "fake-faulty/no_such_kernel";
  const Result result = Case(std::string(kProblem)).run(Mode::Exact, nullptr, options);
  CHECK_FALSE(result.acceptable());
}

TEST_CASE("an infinite weight over numbers that rounding may make 0 blames nobody") {
  // 25 images of lenet-strided: one number that the last layer reads behind a relu is 1e-8 in f64 and 0 in f16, so that
  // it is Inf times 0 to every kernel and Inf to the oracle.
  const char *const tokens[] = {
      "fwd:n25,c1,k6,i28x28,f5x5,p2:f16:bias+relu", "fwd:n25,c6,k16,i28x28,f4x4,s2:f16:bias+relu",
      "fwd:n25,c16,k8,i13x13,f3x3,p1:f16:bias+relu", "fwd:n25,c8,k4,i13x13,f3x3:f16:bias+relu"};
  std::vector<polyconv_problem> problems(4);
  for (size_t i = 0; i < 4; ++i) REQUIRE(polyconv_problem_parse(tokens[i], &problems[i]) == POLYCONV_SUCCESS);
  polyconv_options options;
  polyconv_options_init(&options);
  options.kernel = "reference/*";
  const Result result = Case(problems).run(Mode::NonFinite, nullptr, options);
  INFO(result.sentence);
  CHECK(result.good());
}
