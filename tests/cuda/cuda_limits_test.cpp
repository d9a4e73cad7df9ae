// cuda_limits_test.cpp - what a GPU lacks is said, and harms nothing that follows: memory, and a cap on the workspace.
// SPDX-License-Identifier: Apache-2.0
#include "cuda.hpp"

using cuda_test::kLayers;
using cuda_test::Layer;
using cuda_test::no_device;
using polyconv::Device;

namespace {

constexpr const char *kDense = "fwd:n2,c32,k32,i20x20,f3x3,p1";

// Plans with a cap on the workspace; the plan or NULL, with the sentence in polyconv_last_error.
struct Capped {
  Capped(const Device &device, const char *kernel, int64_t cap) {
    const polyconv::Problem problem(kDense);
    polyconv::Options options;
    if (kernel != nullptr) options.kernel = kernel;
    options.workspace_limit = cap;
    status = polyconv_plan_create(device.get(), &problem, 1, &options, &plan);
    if (status == POLYCONV_SUCCESS) {
      info.struct_size = sizeof info;
      polyconv::require(polyconv_plan_get_info(plan, &info));
    }
  }
  ~Capped() { polyconv_plan_destroy(plan); }
  Capped(const Capped &) = delete;
  Capped &operator=(const Capped &) = delete;

  polyconv_plan *plan = nullptr;
  polyconv_status status;
  polyconv_plan_info info = {};
};

} // namespace

TEST_CASE("more memory than there is fails as a status, and plans made before and after it run") {
  if (no_device()) return;
  const Device device("cuda:0");
  Layer before(device, kLayers[1], "cuda-direct/direct", 1);
  before.run();
  const std::vector<float> expected = before.output.values();
  const auto all = static_cast<size_t>(device.properties().memory_bytes);
  void *pointer = nullptr;
  CHECK(polyconv_device_alloc(device.get(), all, POLYCONV_MEMORY_DEVICE, &pointer) == POLYCONV_OUT_OF_MEMORY);
  CHECK(std::string(polyconv_last_error()).find(std::to_string(all) + " bytes") != std::string::npos);
  CHECK(pointer == nullptr);
  before.output.set(std::vector<float>(expected.size(), 0.f));
  before.run();
  CHECK(before.output.values() == expected);
  const Layer after(device, kLayers[1], "cuda-direct/direct", 1);
  after.run();
  CHECK(after.output.values() == expected);
}

TEST_CASE("a cap on the workspace makes im2col work in pieces, down to the least, which it names") {
  if (no_device()) return;
  const Device device("cuda:0");
  const char *const kernel = "cuda-gemm/im2col";
  const Capped all(device, kernel, -1);
  REQUIRE(all.status == POLYCONV_SUCCESS);
  CHECK(all.info.workspace_bytes == int64_t{2 * 20 * 20} * 32 * 9 * 4); // pixels x channels x taps x bytes
  const Capped half(device, kernel, all.info.workspace_bytes / 2);
  REQUIRE(half.status == POLYCONV_SUCCESS);
  CHECK(half.info.workspace_bytes <= all.info.workspace_bytes / 2);
  CHECK(half.info.workspace_bytes > all.info.workspace_bytes / 3);
  const Capped none(device, kernel, 0);
  CHECK(none.status == POLYCONV_UNSUPPORTED);
  const std::string sentence = polyconv_last_error();
  CAPTURE(sentence);
  const int64_t least = int64_t{64} * 32 * 9 * 4;
  CHECK(sentence.find("needs a workspace of " + std::to_string(least) + " bytes") != std::string::npos);
  CHECK(Capped(device, kernel, least).status == POLYCONV_SUCCESS);
  CHECK(Capped(device, kernel, least - 1).status == POLYCONV_UNSUPPORTED);
}

TEST_CASE("without a workspace another kernel is chosen") {
  if (no_device()) return;
  const Device device("cuda:0");
  const Capped any(device, "cuda-gemm/*", 0);
  REQUIRE(any.status == POLYCONV_SUCCESS);
  CHECK(any.info.workspace_bytes == 0);
}
