// told_test.cpp - the line of log that tells of a plan: what stands in it, and that it can be as long as a chain needs.
// SPDX-License-Identifier: Apache-2.0
#include "plan_job.hpp"

using namespace job;

namespace {

constexpr const char *kLayer = "fwd:n1,c4,k4,i6x6,f3x3,p1";

// The plans that were told while this lives.
class Listener {
 public:
  explicit Listener(int32_t level = POLYCONV_LOG_INFO) { polyconv_set_log(keep, this, level); }
  ~Listener() { polyconv_set_log(nullptr, nullptr, POLYCONV_LOG_ERROR); }
  Listener(const Listener &) = delete;
  Listener &operator=(const Listener &) = delete;

  std::vector<std::string> plans;

 private:
  static void keep(void *context, int32_t level, const char *message) {
    if (level == POLYCONV_LOG_INFO && std::strncmp(message, "plan ", 5) == 0)
      static_cast<Listener *>(context)->plans.emplace_back(message);
  }
};

std::string told(const std::vector<polyconv_problem> &problems, const polyconv_options &o) {
  polyconv_backend_count();
  Listener listener;
  polyconv_status status;
  const Plan plan = try_plan(problems, o, &status);
  REQUIRE_MESSAGE(status == POLYCONV_SUCCESS, error());
  REQUIRE(listener.plans.size() == 1);
  return listener.plans[0];
}

polyconv_options on_reference() {
  polyconv_options o = options("reference/*");
  o.threads = 2;
  o.fallback = POLYCONV_FALLBACK_ALLOW;
  return o;
}

std::string command_in(const std::string &line) {
  return line.substr(line.find("; run: ") + 7);
}

void own_threads(void *, int64_t tasks, void (*task)(void *task_context, int64_t i), void *task_context) {
  for (int64_t i = 0; i < tasks; ++i) task(task_context, i);
}

} // namespace

TEST_CASE("a plan is one line at info, and none below") {
  const std::string line = told({problem(kLayer)}, on_reference());
  CHECK(contains(line, std::string("plan ") + kLayer + " on cpu: reference/convolve@plain, "));
  CHECK(contains(line, " us estimated; run: polyconv-bench run "));
  CHECK(command_in(line) ==
        std::string("polyconv-bench run ") + kLayer + " --device cpu --kernel reference/convolve@plain --threads 2");
  Listener warnings(POLYCONV_LOG_WARNING);
  CHECK(try_plan({problem(kLayer)}, on_reference()) != nullptr);
  CHECK(warnings.plans.empty());
}

TEST_CASE("options that are not the default stand in the command, and what it cannot say behind it") {
  polyconv_options o = on_reference();
  o.math = POLYCONV_MATH_FAST;
  o.determinism = POLYCONV_DETERMINISM_NONE;
  o.workspace_limit = 4096;
  o.shared_memory_limit = 512;
  CHECK(contains(told({problem(kLayer)}, o),
                 " --kernel reference/convolve@plain --math fast --determinism 0 --threads 2 "
                 "--workspace-limit 4096 --shared-memory 512"));
  o = on_reference();
  o.kernel = "reference/*, !reference/p*";
  CHECK(contains(told({problem(kLayer)}, o), " --kernel 'reference/convolve@plain,!reference/p*'"));
  o = on_reference();
  o.save = POLYCONV_SAVE_PRE_ACTIVATION;
  o.parallel_for = own_threads;
  CHECK(contains(told({problem(std::string(kLayer) + ":relu")}, o), " --threads 2 # without save, parallel_for"));
}

TEST_CASE("a chain says its groups; eight layers are told whole") {
  const char *layer =
      "fwd:n1,c4,k4,i6x6,f3x3,p1:ws=60000000000000.15000000000000.2000000000000.333333333333:"
      "scale+bias+lrelu0.12345678";
  const std::string line = told(std::vector<polyconv_problem>(8, problem(layer)), on_reference());
  std::string token = layer;
  for (int i = 1; i < 8; ++i) token += std::string(" > ") + layer;
  CHECK(line.size() > 2048);
  CHECK(command_in(line) ==
        "polyconv-bench run '" + token + "' --device cpu --grouping none --threads 2 # without options.kernel");
}
