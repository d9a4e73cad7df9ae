// main.cpp - the entry of every test executable: doctest's runner, plus two rules that it lacks: nothing run is a
// failure, and everything skipped is reported as skipped.
// SPDX-License-Identifier: Apache-2.0
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <cstdio>

#include "skip.hpp"

namespace {

constexpr int kExitSkipped = 77; // SKIP_RETURN_CODE in CMakeLists.txt

int cases_run = 0;
int cases_skipped = 0;

// Counts the test cases that really started.
struct CaseCounter : doctest::IReporter {
  explicit CaseCounter(const doctest::ContextOptions &) {}
  void report_query(const doctest::QueryData &) override {}
  void test_run_start() override {}
  void test_run_end(const doctest::TestRunStats &) override {}
  void test_case_start(const doctest::TestCaseData &) override { ++cases_run; }
  void test_case_reenter(const doctest::TestCaseData &) override {}
  void test_case_end(const doctest::CurrentTestCaseStats &) override {}
  void test_case_exception(const doctest::TestCaseException &) override {}
  void subcase_start(const doctest::SubcaseSignature &) override {}
  void subcase_end() override {}
  void log_assert(const doctest::AssertData &) override {}
  void log_message(const doctest::MessageData &) override {}
  void test_case_skipped(const doctest::TestCaseData &) override {}
};

DOCTEST_REGISTER_LISTENER("case_counter", 1, CaseCounter);

} // namespace

void polyconv_test::skip(const std::string &reason) {
  ++cases_skipped;
  std::printf("skipped: %s\n", reason.c_str());
}

int main(int argc, char **argv) {
  doctest::Context context(argc, argv);
  const int result = context.run();
  if (context.shouldExit() || result != 0) return result;
  if (cases_run == 0) {
    std::printf("no test case ran: the filter matches nothing\n");
    return 1;
  }
  return cases_skipped == cases_run ? kExitSkipped : 0;
}
