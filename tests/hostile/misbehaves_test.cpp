// misbehaves_test.cpp - kernels that break the ABI's rules once they have been chosen: every odd status and every
// exception becomes a status of polyconv.h and a sentence, or a line of log where nothing can be returned.
// SPDX-License-Identifier: Apache-2.0
#include "explained.hpp"

namespace {

using namespace job;

const char *const kToken = "fwd:n1,c4,k4,i8x8,f3x3,p1";
const std::string kKernel = "fake-misbehaves/kernel@";

polyconv_options forced(std::string *config) {
  load("misbehaves");
  *config = kKernel + *config;
  return options(config->c_str());
}

// The log's errors while it lives.
struct Errors {
  std::vector<std::string> lines;
  Errors() { polyconv_set_log(add, this, POLYCONV_LOG_ERROR); }
  ~Errors() { polyconv_set_log(nullptr, nullptr, 0); }
  static void add(void *context, int32_t, const char *line) { static_cast<Errors *>(context)->lines.push_back(line); }
};

struct Run {
  std::vector<float> data = std::vector<float>(2000, 1.0f);
  Aligned workspace{512};
  polyconv_buffers buffers;
  Run() {
    polyconv_buffers_init(&buffers);
    buffers.weights[0] = data.data();
    buffers.input = data.data() + 200;
    buffers.output = data.data() + 800;
    buffers.workspace = workspace.data.get();
    buffers.workspace_size = workspace.size;
  }
};

} // namespace

TEST_CASE("the fake that does nothing wrong plans, binds and runs") {
  std::string config = "nothing";
  const Plan planned = plan({problem(kToken)}, forced(&config));
  CHECK(info(planned).workspace_bytes == 512);
  Run run;
  CHECK(polyconv_run(planned.get(), &run.buffers, nullptr) == POLYCONV_SUCCESS);
}

TEST_CASE("create: a number that is no status, an exception, a workspace that lies") {
  const struct {
    const char *config, *sentence;
  } rows[] = {
      {"create_minus_nine", "create returned status -9, which is none"},
      {"create_throws", "create threw a C++ exception across the C ABI (the fake throws)"},
      {"workspace_high", "offered 512 bytes of workspace and needs 9223372036854775807"},
      {"workspace_throws", "workspace threw a C++ exception across the C ABI"},
  };
  for (const auto &row : rows) {
    std::string config = row.config;
    polyconv_status status = POLYCONV_SUCCESS;
    CHECK(!try_plan({problem(kToken)}, forced(&config), &status));
    CAPTURE(error());
    CHECK(status == POLYCONV_INTERNAL);
    CHECK(contains(error(), row.sentence));
  }
  std::string config = "workspace_low"; // less than nothing: what was offered
  CHECK(info(plan({problem(kToken)}, forced(&config))).workspace_bytes == 512);
}

TEST_CASE("pack, bind and run likewise") {
  Run run;
  for (const std::string name : {"pack_throws", "pack_odd"}) {
    std::string config = name;
    const Plan planned = plan({problem(kToken)}, forced(&config));
    polyconv_weights *weights = nullptr;
    CHECK(polyconv_weights_create(planned.get(), 0, run.data.data(), nullptr, nullptr, &weights) == POLYCONV_INTERNAL);
    CHECK(weights == nullptr);
    CHECK(contains(error(), name == "pack_odd" ? "pack returned status 1000, which is none" : "pack threw"));
  }
  for (const std::string name : {"run_throws", "run_minus_one"}) {
    std::string config = name;
    const Plan planned = plan({problem(kToken)}, forced(&config));
    CHECK(polyconv_run(planned.get(), &run.buffers, nullptr) == POLYCONV_INTERNAL);
    CHECK(contains(error(), name == "run_throws" ? "run threw" : "run returned status -1, which is none"));
    CHECK(polyconv_convolve(nullptr, &*std::vector<polyconv_problem>{problem(kToken)}.begin(), 1, nullptr,
                            &run.buffers) == POLYCONV_SUCCESS); // others go on
  }
  std::string config = "bind_throws";
  const Plan planned = plan({problem(kToken)}, forced(&config));
  polyconv_bound *bound = nullptr;
  CHECK(polyconv_bind(planned.get(), &run.buffers, &bound) == POLYCONV_INTERNAL);
  CHECK(bound == nullptr);
}

TEST_CASE("an exception where something is given back costs a line of log, not the process") {
  const Errors errors;
  std::string config = "destroy_throws";
  plan({problem(kToken)}, forced(&config)).reset();
  REQUIRE(errors.lines.size() == 1);
  CHECK(errors.lines[0] == kKernel + "destroy_throws: destroy threw a C++ exception across the C ABI");
  config = "unbind_throws";
  const Plan planned = plan({problem(kToken)}, forced(&config));
  Run run;
  polyconv_bound *bound = nullptr;
  REQUIRE(polyconv_bind(planned.get(), &run.buffers, &bound) == POLYCONV_SUCCESS);
  polyconv_bound_destroy(bound);
  REQUIRE(errors.lines.size() == 2);
  CHECK(contains(errors.lines[1], "unbind threw"));
}

TEST_CASE("supports: a rejected answer's config is not asked for its name, nor a layout looked for that there is not") {
  std::string config = "config_beyond";
  const Explained explained = explain({problem(kToken)}, forced(&config));
  const auto lied = [](const auto &answer) { return contains(answer.reason, "it chose config 1000 of 15"); };
  const auto answer = std::find_if(explained.answers.begin(), explained.answers.end(), lied);
  REQUIRE(answer != explained.answers.end());
  CHECK(answer->kernel == kKernel + "config_beyond");
  config = "layout_beyond";
  polyconv_status status = POLYCONV_SUCCESS;
  CHECK(!try_plan({problem(kToken)}, forced(&config), &status));
  CHECK(status == POLYCONV_UNSUPPORTED);
  CHECK(contains(error(), "wants a layout that there is not"));
}

TEST_CASE("a kernel that forgets the name of its config is planned all the same") {
  load("misbehaves");
  const Errors errors;
  const Plan planned = plan({problem(kToken)}, options("fake-misbehaves/forgetful"));
  CHECK(std::string(info(planned).kernel) == "fake-misbehaves/forgetful@?");
  REQUIRE(!errors.lines.empty());
  CHECK(contains(errors.lines[0], "config_name threw a C++ exception"));
}

TEST_CASE("as many configs as there may be are asked in a moment, not each about all") {
  load("misbehaves");
  const Plan planned = plan({problem(kToken)}, options("fake-misbehaves/many@*"));
  CHECK(std::string(info(planned).kernel) == "fake-misbehaves/many@one_of_many");
}
