// tune_test.cpp - polyconv_tune and the merging of tuning files: what is told, what stops it, what is kept, and which
// calls are refused before anything is timed. The database lies in the build folder, for this process alone.
// SPDX-License-Identifier: Apache-2.0
#include <fstream>
#include <iterator>

#include "plan_job.hpp"

using namespace job;

namespace {

// The library reads its settings once, so they are there before main.
const std::string kDatabase = [] {
  const char *folder = std::getenv("POLYCONV_BINARY_DIR");
  std::string path = std::string(folder != nullptr ? folder : "/tmp") + "/tests/tune/tune_test.txt";
  std::remove(path.c_str());
  setenv("POLYCONV_TUNING_DB", path.c_str(), 1);
  setenv("POLYCONV_TUNING", "on", 1);
  return path;
}();

// A problem that no other case tunes.
polyconv_problem fresh_problem() {
  static int channels = 0;
  return problem("fwd:n1,c" + std::to_string(++channels) + ",k3,i9x9,f3x3");
}

polyconv_options one_thread() {
  polyconv_options o = options("threads/*,reference/*");
  o.threads = 1;
  o.fallback = POLYCONV_FALLBACK_ALLOW;
  o.tuning_budget_ms = 50;
  return o;
}

struct Heard {
  int stop_after = 1 << 30; // calls
  int calls = 0;
  struct Finished {
    std::string token, kernel, reason;
    double us;
    int32_t timed, known, unkept;
  };
  std::vector<Finished> finished;
  double left_ms = -1;
};

int32_t hear(void *context, const polyconv_tune_progress *now) {
  Heard &heard = *static_cast<Heard *>(context);
  CHECK(now->struct_size >= sizeof *now);
  CHECK(now->elapsed_ms >= 0);
  heard.left_ms = now->left_ms;
  if (now->finished != 0)
    heard.finished.push_back({now->token, now->kernel, now->reason, now->us, now->timed, now->known, now->unkept});
  return ++heard.calls >= heard.stop_after ? 1 : 0;
}

polyconv_status tune(const std::vector<polyconv_problem> &problems, const polyconv_options &o, Heard *heard,
                     int64_t budget_ms = 0) {
  return polyconv_tune(nullptr, problems.data(), static_cast<int32_t>(problems.size()), &o, budget_ms, hear, heard);
}

std::string text_of(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

} // namespace

TEST_CASE("what is tuned is told, taken by plans with its day, and not timed again") {
  const std::vector<polyconv_problem> problems = {fresh_problem(), fresh_problem()};
  const polyconv_options o = one_thread();
  polyconv_options plans = o;
  plans.tuning_budget_ms = 0;
  CHECK(std::string(info(try_plan({problems[0]}, plans)).measured_on).empty());
  Heard heard;
  REQUIRE_MESSAGE(tune(problems, o, &heard) == POLYCONV_SUCCESS, error());
  REQUIRE(heard.finished.size() == 2);
  CHECK(heard.left_ms == 0);
  CHECK(heard.finished[0].timed >= 2);
  CHECK(heard.finished[0].known == 0);
  CHECK(heard.finished[0].unkept == 0);
  CHECK(heard.finished[0].us > 0);
  CHECK(heard.calls == heard.finished[0].timed + heard.finished[1].timed + 2);
  const Plan plan = try_plan({problems[0]}, plans);
  CHECK(heard.finished[0].kernel == info(plan).kernel);
  CHECK(info(plan).estimate_us == doctest::Approx(heard.finished[0].us).epsilon(0.01));
  CHECK(std::strlen(info(plan).measured_on) == 10);
  CHECK(contains(text_of(kDatabase), heard.finished[1].token + "\tnumerics=1 math=strict"));

  const std::string before = text_of(kDatabase);
  Heard again;
  REQUIRE(tune(problems, o, &again) == POLYCONV_SUCCESS);
  REQUIRE(again.finished.size() == 2);
  CHECK(again.finished[0].known >= heard.finished[0].timed);
  CHECK(again.finished[0].kernel == heard.finished[0].kernel);
  if (again.finished[0].timed == 0 && again.finished[1].timed == 0) CHECK(text_of(kDatabase) == before);
}

TEST_CASE("a callback that says stop ends it behind the candidate at hand, whose time is kept") {
  const std::vector<polyconv_problem> problems = {fresh_problem(), fresh_problem()};
  Heard heard;
  heard.stop_after = 1;
  REQUIRE(tune(problems, one_thread(), &heard) == POLYCONV_SUCCESS);
  CHECK(heard.calls == 1);
  CHECK(heard.finished.empty());
  Heard rest;
  REQUIRE(tune(problems, one_thread(), &rest) == POLYCONV_SUCCESS);
  REQUIRE(rest.finished.size() == 2);
  CHECK(rest.finished[0].known == 1);
  CHECK(rest.finished[1].known == 0);
}

TEST_CASE("a problem for which no budget is left is not begun") {
  std::vector<polyconv_problem> problems;
  for (int i = 0; i < 200; ++i) problems.push_back(fresh_problem());
  Heard heard;
  polyconv_options o = one_thread();
  o.tuning_budget_ms = 0;
  REQUIRE(tune(problems, o, &heard, 1) == POLYCONV_SUCCESS);
  CHECK(heard.finished.size() < problems.size());
}

TEST_CASE("a problem that nobody takes says why, and the next is tuned") {
  polyconv_options o = one_thread();
  o.fallback = POLYCONV_FALLBACK_ERROR;
  o.kernel = "reference/*";
  Heard heard;
  REQUIRE(tune({fresh_problem(), fresh_problem()}, o, &heard) == POLYCONV_SUCCESS);
  REQUIRE(heard.finished.size() == 2);
  CHECK(heard.finished[0].kernel.empty());
  CHECK(contains(heard.finished[0].reason, "fallback"));
}

TEST_CASE("wrong calls are refused before anything is timed") {
  Heard heard;
  std::vector<polyconv_problem> problems = {fresh_problem(), fresh_problem()};
  problems[1].in_channels = -5;
  CHECK(tune(problems, one_thread(), &heard) == POLYCONV_INVALID_ARGUMENT);
  CHECK(contains(error(), "problems[1]: "));
  CHECK(contains(error(), "in_channels is -5"));
  problems.pop_back();
  const polyconv_options good = one_thread();
  CHECK(polyconv_tune(nullptr, nullptr, 1, &good, 0, hear, &heard) == POLYCONV_INVALID_ARGUMENT);
  CHECK(polyconv_tune(nullptr, problems.data(), 0, &good, 0, hear, &heard) == POLYCONV_INVALID_ARGUMENT);
  CHECK(contains(error(), "count is 0"));
  CHECK(tune(problems, good, &heard, -1) == POLYCONV_INVALID_ARGUMENT);
  CHECK(contains(error(), "budget_ms is -1"));
  polyconv_options o = good;
  o.determinism = POLYCONV_DETERMINISM_INVARIANT;
  CHECK(tune(problems, o, &heard) == POLYCONV_INVALID_ARGUMENT);
  CHECK(contains(error(), "options.determinism is 2"));
  o = good;
  o.parallel_for = [](void *, int64_t tasks, void (*task)(void *, int64_t), void *context) {
    for (int64_t i = 0; i < tasks; ++i) task(context, i);
  };
  CHECK(tune(problems, o, &heard) == POLYCONV_INVALID_ARGUMENT);
  CHECK(contains(error(), "options.parallel_for"));
  CHECK(heard.calls == 0);
}

TEST_CASE("merging takes new lines and those of a later day, and no others") {
  const polyconv_problem tuned = fresh_problem();
  Heard heard;
  REQUIRE(tune({tuned}, one_thread(), &heard) == POLYCONV_SUCCESS);
  const std::string own = text_of(kDatabase), other = kDatabase + ".other";
  const size_t begin = own.find(heard.finished[0].token + "\t"), end = own.find('\n', begin);
  REQUIRE(end != std::string::npos);
  const std::string line = own.substr(begin, end - begin), day = line.substr(line.size() - 10);
  const auto with = [&](const std::string &date) { return line.substr(0, line.size() - 10) + date + "\n"; };
  const auto write = [&](const std::string &text) { std::ofstream(other, std::ios::binary) << text; };
  int64_t taken = -1;
  write("# polyconv tuning 1\n" + with("2001-01-01") + "torn");
  REQUIRE_MESSAGE(polyconv_tune_merge(other.c_str(), &taken) == POLYCONV_SUCCESS, error());
  CHECK(taken == 0);
  CHECK(text_of(kDatabase) == own);
  write("# polyconv tuning 1\n" + with("2999-01-01") + "fwd:x" + with("2001-01-01").substr(line.find('\t')));
  REQUIRE(polyconv_tune_merge(other.c_str(), &taken) == POLYCONV_SUCCESS);
  CHECK(taken == 2);
  CHECK(contains(text_of(kDatabase), "2999-01-01"));
  CHECK(contains(text_of(kDatabase), "fwd:x\t"));
  write("dear diary\n");
  CHECK(polyconv_tune_merge(other.c_str(), &taken) == POLYCONV_IO_ERROR);
  write("# polyconv tuning 2\n");
  CHECK(polyconv_tune_merge(other.c_str(), &taken) == POLYCONV_IO_ERROR);
  CHECK(polyconv_tune_merge((other + ".missing").c_str(), nullptr) == POLYCONV_IO_ERROR);
  CHECK(polyconv_tune_merge(nullptr, nullptr) == POLYCONV_INVALID_ARGUMENT);
  std::remove(other.c_str());
}
