// weights_test.cpp - packed weights as objects: shared between plans of the same format, refused by others.
// SPDX-License-Identifier: Apache-2.0
#include "skip.hpp"
#include "weights_job.hpp"

using namespace weights_job;

TEST_CASE("the format and size of a layer's weights") {
  const char *format = nullptr;
  int64_t bytes = 0;
  const Plan packs = plan({problem(kToken)}, probe("fake-plan-probe/packs"));
  CHECK(polyconv_plan_weights(packs.get(), 0, &format, &bytes) == POLYCONV_SUCCESS);
  CHECK(std::string(format) == "plan_probe:1");
  CHECK(bytes == 4 * 3 * 9 * 4);
  const Plan raw = plan({problem(kToken)}, probe("fake-plan-probe/ties"));
  CHECK(polyconv_plan_weights(raw.get(), 0, &format, &bytes) == POLYCONV_SUCCESS);
  CHECK(std::string(format) == "raw");
  CHECK(bytes == 4 * 3 * 9 * 4);
  CHECK(polyconv_plan_weights(raw.get(), 0, nullptr, nullptr) == POLYCONV_SUCCESS);
  for (const int32_t layer : {-1, 1, 8}) {
    CHECK(polyconv_plan_weights(raw.get(), layer, &format, &bytes) == POLYCONV_INVALID_ARGUMENT);
    CHECK(contains(error(), "layer is " + std::to_string(layer) + ", expected 0 to 0"));
  }
  CHECK(polyconv_plan_weights(nullptr, 0, &format, &bytes) == POLYCONV_INVALID_ARGUMENT);
}

TEST_CASE("weights outlive their plan and serve every plan of the same format and weight problem") {
  Job job({kToken});
  REQUIRE(job.run(probe("fake-plan-probe/packs")) == POLYCONV_SUCCESS);
  const std::vector<char> expected = job.output;
  const Weights weights = create(job);
  Job larger({"fwd:n5,c3,k4,i9x9,f3x3:bias+relu"});
  larger.plan = plan(larger.problems, probe("fake-plan-probe/packs"));
  larger.prepare_run();
  job.packed.clear();
  job.plan = plan(job.problems, probe("fake-plan-probe/packs")); // the one that packed is gone
  CHECK(output_with(&job, weights.get()) == expected);
  larger.buffers.packed[0] = weights.get();
  CHECK_MESSAGE(polyconv_run(larger.plan.get(), &larger.buffers, nullptr) == POLYCONV_SUCCESS, error());
}

TEST_CASE("weights of another format or weight problem are refused, naming both") {
  Job job({kToken});
  REQUIRE(job.run(probe("fake-plan-probe/packs")) == POLYCONV_SUCCESS);
  const Weights weights = create(job);
  Job other({"fwd:n1,c4,k4,i6x6,f3x3"});
  REQUIRE(other.run(probe("fake-plan-probe/packs")) == POLYCONV_SUCCESS);
  other.buffers.packed[0] = weights.get();
  CHECK(polyconv_run(other.plan.get(), &other.buffers, nullptr) == POLYCONV_INVALID_ARGUMENT);
  CHECK(contains(error(), "buffers.packed[0] has format 'plan_probe:1' for"));
  CHECK(contains(error(), "c3"));
  CHECK(contains(error(), "c4"));
  REQUIRE(job.run(probe("fake-plan-probe/packs_once")) == POLYCONV_SUCCESS);
  job.buffers.packed[0] = weights.get();
  CHECK(polyconv_run(job.plan.get(), &job.buffers, nullptr) == POLYCONV_INVALID_ARGUMENT);
  CHECK(contains(error(), "'plan_probe:1'"));
  CHECK(contains(error(), "'plan_probe_once:1'"));
}

TEST_CASE("packing a raw format copies, and packed weights go before raw ones") {
  Job job({kToken});
  REQUIRE(job.run(probe("fake-plan-probe/ties")) == POLYCONV_SUCCESS);
  const std::vector<char> expected = job.output;
  const Weights weights = create(job);
  std::memset(job.weights[0].data(), 0, job.weights[0].size());
  CHECK(output_with(&job, weights.get()) == expected);
  CHECK(output_with(&job, nullptr) != expected);
}

TEST_CASE("raw weights serve plans whose weights lie as they do, and no others") {
  const auto planned = [](const char *token) {
    Job job({token});
    job.plan = plan(job.problems, probe("fake-plan-probe/ties"));
    job.prepare_run();
    return job;
  };
  Job first = planned("fwd:n1,c3,k4,i6x6,f3x3"), same = planned("fwd:n2,c3,k4,i8x8,f3x3:nhwc:ws=27.9.3.1");
  const Weights weights = create(first);
  same.buffers.packed[0] = weights.get();
  CHECK_MESSAGE(polyconv_run(same.plan.get(), &same.buffers, nullptr) == POLYCONV_SUCCESS, error());
  for (const char *token : {"fwd:n1,c3,k4,i6x6,f3x3:krsc", "fwd:n1,c3,k4,i6x6,f3x3:ws=1.4.12.36"}) {
    Job other = planned(token);
    other.buffers.packed[0] = weights.get();
    CHECK(polyconv_run(other.plan.get(), &other.buffers, nullptr) == POLYCONV_INVALID_ARGUMENT);
    CHECK(contains(error(), "expected 'raw' for 'fwd:c3,k4,f3x3:f32-f32:"));
  }
}

TEST_CASE("true convolution packs its taps backwards") {
  for (const char *kernel : {"fake-plan-probe/packs", "fake-plan-probe/ties"}) {
    Job job({kToken});
    job.problems[0].flip = 1;
    check_against_reference(&job, probe(kernel));
  }
}

TEST_CASE("memory may be the caller's or come from the caller's allocator") {
  Job job({kToken});
  REQUIRE(job.run(probe("fake-plan-probe/packs")) == POLYCONV_SUCCESS);
  const std::vector<char> expected = job.output;
  Aligned memory(1024);
  const std::vector<char> zeros(1024, 0);
  std::memcpy(memory.data.get(), zeros.data(), 1024);
  {
    const Weights weights = create(job, memory.data.get());
    CHECK(std::memcmp(memory.data.get(), zeros.data(), 432) != 0);
    CHECK(output_with(&job, weights.get()) == expected);
  }
  polyconv_weights *none = nullptr;
  CHECK(polyconv_weights_create(job.plan.get(), 0, job.weights[0].data(), static_cast<char *>(memory.data.get()) + 8,
                                nullptr, &none) == POLYCONV_INVALID_ARGUMENT);
  CHECK(contains(error(), "expected a multiple of 256 bytes"));

  struct Counter {
    int live = 0, made = 0;
  } counter;
  polyconv_options o = probe("fake-plan-probe/packs");
  o.allocator.context = &counter;
  o.allocator.allocate = [](void *context, size_t bytes, size_t alignment) -> void * {
    ++static_cast<Counter *>(context)->live;
    ++static_cast<Counter *>(context)->made;
    return polyconv_test::allocate_aligned(alignment, bytes);
  };
  o.allocator.release = [](void *context, void *pointer) {
    --static_cast<Counter *>(context)->live;
    polyconv_test::free_aligned(pointer);
  };
  REQUIRE(job.run(o) == POLYCONV_SUCCESS);
  CHECK(counter.made == 1);
  CHECK(counter.live == 1);
  job.packed.clear();
  CHECK(counter.live == 0);
  REQUIRE(polyconv_convolve(nullptr, job.problems.data(), 1, &o, &job.buffers) == POLYCONV_SUCCESS);
  CHECK(counter.made == 2);
  CHECK(counter.live == 0);
  o.allocator.allocate = [](void *, size_t, size_t) -> void * { return nullptr; };
  job.plan = plan(job.problems, o);
  CHECK(polyconv_weights_create(job.plan.get(), 0, job.weights[0].data(), nullptr, nullptr, &none) ==
        POLYCONV_OUT_OF_MEMORY);
  CHECK(contains(error(), "options.allocator returned NULL"));
  CHECK(none == nullptr);
}

TEST_CASE("updating repacks in place, where the plan was made for it") {
  for (const char *kernel : {"fake-plan-probe/packs", "fake-plan-probe/ties"}) {
    Job job({kToken});
    polyconv_options o = probe(kernel);
    REQUIRE(job.run(o) == POLYCONV_SUCCESS);
    const std::vector<char> expected = job.output;
    std::vector<char> negated = job.weights[0];
    negate(&negated);
    const Weights fixed = create(job);
    CHECK(polyconv_weights_update(fixed.get(), negated.data(), nullptr) == POLYCONV_UNSUPPORTED);
    CHECK(contains(error(), "options.dynamic_weights was 0"));
    CHECK(output_with(&job, fixed.get()) == expected);
    o.dynamic_weights = 1;
    REQUIRE(job.run(o) == POLYCONV_SUCCESS);
    const Weights weights = create(job);
    CHECK(polyconv_weights_update(weights.get(), negated.data(), nullptr) == POLYCONV_SUCCESS);
    CHECK(output_with(&job, weights.get()) != expected);
    CHECK(polyconv_weights_update(weights.get(), job.weights[0].data(), nullptr) == POLYCONV_SUCCESS);
    CHECK(output_with(&job, weights.get()) == expected);
    CHECK(polyconv_weights_update(weights.get(), nullptr, nullptr) == POLYCONV_INVALID_ARGUMENT);
    CHECK(polyconv_weights_update(nullptr, negated.data(), nullptr) == POLYCONV_INVALID_ARGUMENT);
  }
}

TEST_CASE("weights larger than the addresses of a process are refused before their size wraps") {
  if (sizeof(void *) != 4) return polyconv_test::skip("64-bit addresses reach any size that a problem may have");
  const Plan made = plan({problem("fwd:n1,c65536,k65536,i1x1,f1x1")}, options("reference/*")); // 16 GiB: 0 in 32 bits
  const float raw = 1;
  polyconv_weights *none = nullptr;
  CHECK(polyconv_weights_create(made.get(), 0, &raw, nullptr, nullptr, &none) == POLYCONV_OUT_OF_MEMORY);
  CHECK(contains(error(), "17179869184 bytes are needed"));
  CHECK(none == nullptr);
}

TEST_CASE("a gradient has no packed weights") {
  Job job({"bwd_w:n1,c3,k4,i6x6,f3x3"});
  REQUIRE(job.run(options("reference/*")) == POLYCONV_SUCCESS);
  polyconv_weights *none = nullptr;
  CHECK(polyconv_weights_create(job.plan.get(), 0, job.weights[0].data(), nullptr, nullptr, &none) ==
        POLYCONV_INVALID_ARGUMENT);
  CHECK(contains(error(), "backward weights"));
}
