// plan_test.cpp - plans of more than one step (pooling apart, layouts converted), what a plan says of itself, bind,
// tuning, devices and the one-shot call. Results are compared with the reference backend, bit by bit.
// SPDX-License-Identifier: Apache-2.0
#include "plan_job.hpp"

namespace {

using namespace job;

polyconv_options probe(const char *kernels) {
  load("plan_probe");
  return options(kernels);
}

} // namespace

TEST_CASE("pooling that a kernel rejects becomes a step, by the best pool kernel of the same backend") {
  for (const char *token : {"fwd:n2,c3,k4,i9x11,f3x3,p1:bias+relu+maxpool2", "fwd:n1,c4,k6,i8x8,f3x3:nhwc:avgpool2",
                            "fwd:n1,c4,k4,i8x8,f1x1:residual+relu+maxpool3"}) {
    CAPTURE(std::string(token));
    Job job({token});
    check_against_reference(&job, probe("fake-plan-probe/ties"));
    CHECK(job.kernel == "fake-plan-probe/ties@only + fake-plan-probe/pool@only");
    CHECK(info(plan(job.problems, probe("fake-plan-probe/ties"))).estimate_us == doctest::Approx(57));
  }
}

TEST_CASE("pooling that the backend's own kernels do not take is taken by another backend's") {
  Job job({"fwd:n1,c4,k4,i8x8,f3x3,p1:avgpool3"});
  job.problems[0].epilogue.pool.count_include_pad = 1;
  job.problems[0].epilogue.pool.pad_begin[0] = job.problems[0].epilogue.pool.pad_end[0] = 1;
  Job padded = Job::of(job.problems);
  check_against_reference(&padded, probe("fake-plan-probe/ties"));
  CHECK(contains(padded.kernel, "fake-plan-probe/ties@only + "));
  CHECK(!contains(padded.kernel, "fake-plan-probe/pool"));
}

TEST_CASE("saved argmax belongs to the pool step, the pre-activation to the kernel") {
  for (const int32_t save : {POLYCONV_SAVE_ARGMAX, POLYCONV_SAVE_PRE_ACTIVATION}) {
    Job job({"fwd:n2,c3,k4,i9x9,f3x3,p1:bias+relu+maxpool2"}, save);
    polyconv_options o = probe("fake-plan-probe/ties");
    o.save = save;
    check_against_reference(&job, o);
    CHECK(job.steps == 2);
    CHECK(!job.saved[0].empty());
  }
}

TEST_CASE("a layout that a kernel wants is made by conversions, each counted and named") {
  const struct {
    const char *kernel, *token;
    int32_t steps;
  } cases[] = {
      {"fake-plan-probe/likes_last", "fwd:n2,c3,k4,i7x9,f3x3,p1:bias+relu", 3},
      {"fake-plan-probe/likes_last", "fwd:n2,c3,k4,i7x9,f3x3,p1:nhwc", 1},
      {"fake-plan-probe/likes_first", "fwd:n2,c3,k4,i7x9,f3x3,p1:nhwc", 3},
      {"fake-plan-probe/likes_last", "fwd:n2,c4,k4,i7x9,f3x3,p1:residual+relu", 4},
      {"fake-plan-probe/likes_last", "fwd:n2,c1,k4,i7x9,f3x3,p1", 2},               // one channel lies either way
      {"fake-plan-probe/likes_last", "fwd:n2,c3,k4,i8x8,f3x3,p1:relu+maxpool2", 3}, // the pool step reads any strides
  };
  for (const auto &one : cases) {
    CAPTURE(std::string(one.token));
    Job job({one.token});
    check_against_reference(&job, probe(one.kernel));
    CHECK(contains(job.kernel, one.kernel));
    CHECK(job.steps == one.steps);
  }
  Job saves({"fwd:n2,c3,k4,i7x9,f3x3,p1:relu"}, POLYCONV_SAVE_PRE_ACTIVATION);
  polyconv_options o = probe("fake-plan-probe/likes_last");
  o.save = POLYCONV_SAVE_PRE_ACTIVATION;
  check_against_reference(&saves, o);
}

TEST_CASE("conversions cost time, so a slower kernel without any may win") {
  CHECK(chosen({problem("fwd:n1,c3,k4,i8x8,f3x3")}, probe("fake-plan-probe/likes_last,fake-plan-probe/scratch")) ==
        "fake-plan-probe/likes_last@only + fake-plan-probe/convert@only + fake-plan-probe/convert@only");
  // 10 + 1 + 1 (+ 1 with a residual, + ...) against 12.5 us an image
  CHECK(chosen({problem("fwd:n1,c4,k4,i8x8,f3x3,p1:residual")},
               probe("fake-plan-probe/likes_last,fake-plan-probe/per_image")) == "fake-plan-probe/per_image@only");
}

TEST_CASE("a plan tells what it is") {
  const Plan made = plan({problem("fwd:n1,c4,k4,i8x8,f3x3")}, probe("fake-plan-probe/packs"));
  const polyconv_plan_info i = info(made);
  CHECK(std::string(i.kernel) == "fake-plan-probe/packs@only");
  CHECK(std::string(i.math) == "strict");
  CHECK(i.workspace_bytes == 0);
  CHECK(i.estimate_us == doctest::Approx(30));
  CHECK(i.step_count == 1);
  CHECK(i.fallback == 0);
  CHECK(i.threads >= 1);
  CHECK(i.needs_bind == 0);
  CHECK(i.transform == 0);
  polyconv_options o = probe("fake-plan-probe/tf32");
  o.math = POLYCONV_MATH_FAST;
  o.threads = 3;
  const Plan fast = plan({problem("fwd:n1,c4,k4,i8x8,f3x3")}, o);
  CHECK(std::string(info(fast).math) == "tf32"); // the mode entered, not the one allowed
  CHECK(info(fast).threads == 3);

  polyconv_plan_info older{};
  older.struct_size = offsetof(polyconv_plan_info, workspace_bytes);
  older.workspace_bytes = -7;
  CHECK(polyconv_plan_get_info(made.get(), &older) == POLYCONV_SUCCESS);
  CHECK(std::string(older.kernel) == "fake-plan-probe/packs@only");
  CHECK(older.workspace_bytes == -7);
  older.struct_size = 0;
  CHECK(polyconv_plan_get_info(made.get(), &older) == POLYCONV_INVALID_ARGUMENT);
  CHECK(polyconv_plan_get_info(nullptr, &older) == POLYCONV_INVALID_ARGUMENT);
  CHECK(polyconv_plan_get_info(made.get(), nullptr) == POLYCONV_INVALID_ARGUMENT);
}

TEST_CASE("every direction runs, transposed or not, and an empty batch has nothing to do") {
  for (const char *token : {"fwd:n2,c4,k6,i7x7,f3x3,s2,p1", "bwd_d:n2,c4,k6,i7x7,f3x3,s2,p1",
                            "tfwd:n2,c4,k6,i5x5,f3x3,s2", "tbwd_d:n2,c4,k6,i5x5,f3x3,s2"}) {
    CAPTURE(std::string(token));
    Job job({token});
    check_against_reference(&job, probe(nullptr));
    Job empty({[&] {
      std::string zero = token;
      return zero.replace(zero.find("n2"), 2, "n0");
    }()});
    polyconv_options o = probe(nullptr);
    REQUIRE_MESSAGE(empty.run(o) == POLYCONV_SUCCESS, error());
    empty.buffers.input = empty.buffers.output = nullptr;
    CHECK(polyconv_run(empty.plan.get(), &empty.buffers, nullptr) == POLYCONV_SUCCESS);
    CHECK(info(empty.plan).workspace_bytes == 0);
  }
}

TEST_CASE("backward weights of an empty batch are zeros") {
  for (const char *token : {"bwd_w:n0,c4,k6,i7x7,f3x3", "tbwd_w:n0,c4,k6,i7x7,f3x3"}) {
    CAPTURE(std::string(token));
    Job job({token});
    std::memset(job.weights[0].data(), 0x55, job.weights[0].size());
    job.buffers.input = job.buffers.output = nullptr;
    REQUIRE_MESSAGE(job.run(probe(nullptr)) == POLYCONV_SUCCESS, error());
    CHECK(job.weights[0] == std::vector<char>(job.weights[0].size(), 0));
  }
}

TEST_CASE("a kernel that needs bind is bound once and run many times") {
  Job job({"fwd:n1,c4,k4,i8x8,f3x3,p1:bias+relu"});
  polyconv_options o = probe("fake-plan-probe/bound");
  o.bind = 1;
  job.plan = plan(job.problems, o);
  job.prepare_run();
  CHECK(info(job.plan).needs_bind == 1);
  CHECK(polyconv_run(job.plan.get(), &job.buffers, nullptr) == POLYCONV_INVALID_ARGUMENT);
  CHECK(contains(error(), "expected polyconv_run_bound"));
  polyconv_bound *bound = nullptr;
  REQUIRE(polyconv_bind(job.plan.get(), &job.buffers, &bound) == POLYCONV_SUCCESS);
  job.plan.reset(); // a bound plan stands on its own
  for (int i = 0; i < 3; ++i) {
    job.poison();
    REQUIRE(polyconv_run_bound(bound, nullptr) == POLYCONV_SUCCESS);
  }
  const std::vector<char> output = job.output;
  polyconv_bound_destroy(bound);
  REQUIRE(job.run(options("reference/*")) == POLYCONV_SUCCESS);
  CHECK(output == job.output);
  CHECK(polyconv_run_bound(nullptr, nullptr) == POLYCONV_INVALID_ARGUMENT);
  CHECK(polyconv_bind(job.plan.get(), &job.buffers, nullptr) == POLYCONV_INVALID_ARGUMENT);
  job.buffers.output = job.buffers.input; // checked at bind
  CHECK(polyconv_bind(job.plan.get(), &job.buffers, &bound) == POLYCONV_INVALID_ARGUMENT);
  polyconv_bound_destroy(nullptr);
}

TEST_CASE("plans with kernels that bind for free bind too, and failures of bind are told") {
  Job job({"fwd:n2,c3,k4,i9x9,f3x3,p1:bias+relu+maxpool2"});
  job.plan = plan(job.problems, probe("fake-plan-probe/ties"));
  job.prepare_run();
  polyconv_bound *bound = nullptr;
  REQUIRE(polyconv_bind(job.plan.get(), &job.buffers, &bound) == POLYCONV_SUCCESS);
  CHECK(polyconv_run_bound(bound, nullptr) == POLYCONV_SUCCESS);
  polyconv_bound_destroy(bound);
  Job failing({"fwd:n1,c4,k4,i8x8,f3x3"});
  failing.plan = plan(failing.problems, probe("fake-plan-probe/fails@bind"));
  failing.prepare_run();
  bound = nullptr;
  CHECK(polyconv_bind(failing.plan.get(), &failing.buffers, &bound) == POLYCONV_OUT_OF_MEMORY);
  CHECK(bound == nullptr);
  CHECK(contains(error(), "no memory for a texture"));
}

TEST_CASE("a kernel that learns its workspace when the plan is made gets that much, at most what it offered") {
  polyconv_options o = probe("fake-plan-probe/settles@modest");
  for (const char *token : {"fwd:n1,c4,k4,i8x8,f3x3,p1:bias+relu", "fwd:n1,c4,k4,i8x8,f3x3,p1:bias+relu+maxpool2"}) {
    Job job({token}); // what lies between convolution and pooling moves with the smaller workspace
    check_against_reference(&job, o);
  }
  const polyconv_problem p = problem("fwd:n1,c4,k4,i8x8,f3x3");
  CHECK(info(plan({p}, o)).workspace_bytes == 500);
  o.tuning_budget_ms = 50; // alone, it has the budget to itself
  CHECK(info(plan({p}, o)).workspace_bytes == 2000);
  CHECK(
      contains(chosen({p}, probe("fake-plan-probe/settles@greedy")), "offered 8000 bytes of workspace and needs 9000"));
}

TEST_CASE("tuning measures, starting with the best estimate, and reports what it measured") {
  polyconv_options o = probe("fake-plan-probe/two_speeds,fake-plan-probe/ties,fake-plan-probe/packs");
  o.tuning_budget_ms = 200;
  const Plan tuned = plan({problem("fwd:n1,c4,k4,i8x8,f3x3,p1:bias+relu+maxpool2")}, o);
  const double us = info(tuned).estimate_us;
  CHECK(us > 0);
  for (const double estimate : {37.0, 57.0, 107.0}) CHECK(us != doctest::Approx(estimate).epsilon(1e-9));
  Job job({"fwd:n1,c4,k4,i8x8,f3x3,p1:bias+relu+maxpool2"});
  check_against_reference(&job, o);
  // What fails while it is timed is no choice.
  o.kernel = "fake-plan-probe/fails@run,fake-plan-probe/generic";
  CHECK(chosen({problem("fwd:n1,c4,k4,i8x8,f3x3")}, o) == "fake-plan-probe/generic@only");
}

TEST_CASE("tuning binds what must be bound, measures on devices, and shares its budget among a chain's groups") {
  polyconv_options o = probe("fake-plan-probe/bound");
  o.bind = 1;
  o.tuning_budget_ms = 50;
  CHECK(chosen({problem("fwd:n1,c4,k4,i8x8,f3x3")}, o) == "fake-plan-probe/bound@only");
  load("device");
  const polyconv_device *fake = nullptr;
  REQUIRE(polyconv_device_find("fake", &fake) == POLYCONV_SUCCESS);
  o.kernel = nullptr;
  polyconv_status status = POLYCONV_SUCCESS;
  const Plan on_device = try_plan({problem("fwd:n1,c4,k4,i8x8,f3x3:bias")}, o, &status, fake);
  CHECK_MESSAGE(status == POLYCONV_SUCCESS, error());
  CHECK(info(on_device).estimate_us > 0);
  o = probe("fake-plan-probe/ties,fake-plan-probe/packs,fake-plan-probe/fuses_all");
  o.tuning_budget_ms = 60;
  Job chain(std::vector<std::string>(4, "fwd:n1,c4,k4,g4,i32x32,f1x1:bias"));
  check_against_reference(&chain, o);
}

TEST_CASE("a kernel that fails when the plan is made, or when it runs, is named") {
  const polyconv_problem p = problem("fwd:n1,c4,k4,i8x8,f3x3");
  CHECK(chosen({p}, probe("fake-plan-probe/fails@create")) == "out of memory: no room for an instance");
  Job job = Job::of({p});
  CHECK(job.run(probe("fake-plan-probe/fails@run")) == POLYCONV_DEVICE_ERROR);
  CHECK(error() == "the device fell over");
  CHECK(job.run(probe("fake-plan-probe/fails@run_silently")) == POLYCONV_DEVICE_ERROR);
  CHECK(contains(error(), "fake-plan-probe/fails@run_silently"));
  CHECK(contains(error(), "run"));
  CHECK(job.run(probe("fake-plan-probe/fails@odd_status")) == POLYCONV_INTERNAL);
  CHECK(contains(error(), "status 99, which is none"));
}

TEST_CASE("arguments of plan_create") {
  const polyconv_problem p = problem("fwd:n1,c4,k4,i8x8,f3x3");
  polyconv_plan *made = reinterpret_cast<polyconv_plan *>(1);
  CHECK(polyconv_plan_create(nullptr, &p, 1, nullptr, nullptr) == POLYCONV_INVALID_ARGUMENT);
  CHECK(polyconv_plan_create(nullptr, nullptr, 1, nullptr, &made) == POLYCONV_INVALID_ARGUMENT);
  CHECK(polyconv_plan_create(nullptr, &p, 0, nullptr, &made) == POLYCONV_INVALID_ARGUMENT);
  CHECK(polyconv_plan_create(nullptr, &p, 9, nullptr, &made) == POLYCONV_INVALID_ARGUMENT);
  CHECK(made == reinterpret_cast<polyconv_plan *>(1)); // nothing written
  CHECK(polyconv_plan_create(nullptr, &p, 1, nullptr, &made) == POLYCONV_SUCCESS);
  polyconv_plan_destroy(made);
  polyconv_plan_destroy(nullptr);
}

TEST_CASE("convolve does all four steps, on the CPU and on a device with memory of its own") {
  load("device");
  const polyconv_device *fake = nullptr;
  REQUIRE(polyconv_device_find("fake", &fake) == POLYCONV_SUCCESS);
  load("plan_probe");
  const struct {
    const polyconv_device *device;
    const char *kernel;
  } cases[] = {{nullptr, nullptr},
               {nullptr, "fake-plan-probe/packs"},
               {nullptr, "fake-plan-probe/bound"},
               {nullptr, "fake-plan-probe/scratch"},
               {fake, "fake-device/direct"},
               {fake, "fake-device/packed"},
               {fake, "fake-device/bound"}};
  for (const auto &one : cases) {
    CAPTURE(std::string(one.kernel != nullptr ? one.kernel : "any"));
    Job job({"fwd:n2,c3,k4,i9x9,f3x3,p1:bias+relu"});
    polyconv_options o = options(one.kernel);
    o.bind = 1;
    REQUIRE_MESSAGE(polyconv_convolve(one.device, job.problems.data(), 1, &o, &job.buffers) == POLYCONV_SUCCESS,
                    error());
    const std::vector<char> output = job.output;
    job.poison();
    REQUIRE(job.run(options("reference/*")) == POLYCONV_SUCCESS);
    CHECK(output == job.output);
  }
}

TEST_CASE("convolve refuses what run would, and leaves gaps of a strided output alone") {
  load("device");
  const polyconv_device *fake = nullptr;
  REQUIRE(polyconv_device_find("fake", &fake) == POLYCONV_SUCCESS);
  for (const polyconv_device *device : {static_cast<const polyconv_device *>(nullptr), fake}) {
    Job job({"fwd:n1,c3,k4,i9x9,f3x3,p1:bias"});
    const polyconv_buffers good = job.buffers;
    job.buffers.weights[0] = nullptr;
    CHECK(polyconv_convolve(device, job.problems.data(), 1, nullptr, &job.buffers) == POLYCONV_INVALID_ARGUMENT);
    CHECK(contains(error(), "buffers.weights[0] is NULL"));
    job.buffers = good;
    job.buffers.bias[0] = nullptr;
    CHECK(polyconv_convolve(device, job.problems.data(), 1, nullptr, &job.buffers) == POLYCONV_INVALID_ARGUMENT);
    CHECK(contains(error(), "buffers.bias[0] is NULL"));
    job.buffers = good;
    job.buffers.output = job.buffers.input;
    CHECK(polyconv_convolve(device, job.problems.data(), 1, nullptr, &job.buffers) == POLYCONV_INVALID_ARGUMENT);
    CHECK(contains(error(), "overlaps"));
    CHECK(polyconv_convolve(device, job.problems.data(), 1, nullptr, nullptr) == POLYCONV_INVALID_ARGUMENT);
  }
  polyconv_problem strided = problem("fwd:n1,c2,k2,i4x4,f1x1");
  strided.has_output_strides = 1;
  const int64_t strides[] = {64, 32, 8, 2};
  std::copy(std::begin(strides), std::end(strides), strided.output_strides);
  Job job = Job::of({strided});
  REQUIRE_MESSAGE(polyconv_convolve(nullptr, &strided, 1, nullptr, &job.buffers) == POLYCONV_SUCCESS, error());
  for (size_t i = 4; i < 8; ++i) CHECK(job.output[i] == static_cast<char>(0xff)); // the gap after the first element
}
