// huge_test.cpp - index arithmetic beyond 2^31: the same small convolution in tensors whose elements lie billions of
// places apart. Memory is reserved, and only the few pages that hold elements are ever touched.
// ctest-label: conformance
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <polyconv/sdk/check.hpp>
#include <polyconv/sdk/epilogue.hpp>

#include <map>

#include <sys/mman.h>

#include "skip.hpp"

namespace {

using polyconv::sdk::load_as;
using polyconv::sdk::store_as;

// Address space for one tensor of a problem; data() is NULL where the system gives none.
class Reserved {
 public:
  Reserved(const polyconv_problem &p, int32_t which) {
    int64_t bytes = 0;
    if (polyconv_problem_tensor(&p, which, &tensor, &bytes) != POLYCONV_SUCCESS) return;
    size_ = static_cast<size_t>(bytes);
    void *memory = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory != MAP_FAILED) memory_ = memory;
  }
  ~Reserved() {
    if (memory_ != nullptr) munmap(memory_, size_);
  }
  Reserved(const Reserved &) = delete;
  Reserved &operator=(const Reserved &) = delete;

  void *data() const { return memory_; }

  template <class Visit>
  void each(const Visit &visit) const {
    const int64_t(&s)[5] = tensor.size;
    for (int64_t i = 0; i < s[0] * s[1] * s[2] * s[3] * s[4]; ++i) {
      int64_t rest = i, offset = 0;
      for (int axis = 4; axis >= 0; --axis) {
        offset += rest % s[axis] * tensor.stride[axis];
        rest /= s[axis];
      }
      visit(offset);
    }
  }
  // Small whole numbers, the same for every stride.
  void fill(uint32_t state) {
    each([&](int64_t offset) {
      state = state * 1664525u + 1013904223u;
      store_as(memory_, tensor.type, offset, static_cast<double>(state >> 29));
    });
  }
  std::vector<double> values() const {
    std::vector<double> result;
    each([&](int64_t offset) { result.push_back(load_as<double>(memory_, tensor.type, offset)); });
    return result;
  }

  polyconv_tensor tensor = {};

 private:
  size_t size_ = 0;
  void *memory_ = nullptr;
};

enum class Outcome { Ran, Unsupported, NoMemory };

Outcome run(const std::string &token, const std::string &kernel, std::vector<double> *result) {
  polyconv_problem p;
  polyconv_problem_init(&p);
  REQUIRE_MESSAGE(polyconv_problem_parse(token.c_str(), &p) == POLYCONV_SUCCESS, std::string(polyconv_last_error()));
  polyconv_options options;
  polyconv_options_init(&options);
  options.kernel = kernel.c_str();
  options.fallback = POLYCONV_FALLBACK_ALLOW;
  options.threads = 2;
  options.workspace_limit = 1 << 24;
  polyconv_plan *plan = nullptr;
  const polyconv_status planned = polyconv_plan_create(nullptr, &p, 1, &options, &plan);
  if (planned == POLYCONV_UNSUPPORTED) return Outcome::Unsupported;
  REQUIRE(planned == POLYCONV_SUCCESS);
  Reserved input(p, POLYCONV_TENSOR_INPUT), weights(p, POLYCONV_TENSOR_WEIGHTS), output(p, POLYCONV_TENSOR_OUTPUT);
  polyconv_plan_info info = {};
  info.struct_size = sizeof info;
  REQUIRE(polyconv_plan_get_info(plan, &info) == POLYCONV_SUCCESS);
  void *workspace = nullptr;
  REQUIRE(polyconv_device_alloc(nullptr, static_cast<size_t>(info.workspace_bytes), POLYCONV_MEMORY_DEVICE,
                                &workspace) == POLYCONV_SUCCESS);
  polyconv_buffers buffers;
  polyconv_buffers_init(&buffers);
  polyconv_weights *packed = nullptr;
  Outcome outcome = Outcome::NoMemory;
  if (input.data() != nullptr && weights.data() != nullptr && output.data() != nullptr) {
    outcome = Outcome::Ran;
    if (p.direction != POLYCONV_BACKWARD_DATA) input.fill(1);
    if (p.direction != POLYCONV_BACKWARD_WEIGHTS) weights.fill(2);
    if (p.direction != POLYCONV_FORWARD) output.fill(3);
    const char *format = nullptr;
    REQUIRE(polyconv_plan_weights(plan, 0, &format, nullptr) == POLYCONV_SUCCESS);
    if (std::string(format) != "raw")
      REQUIRE(polyconv_weights_create(plan, 0, weights.data(), nullptr, nullptr, &packed) == POLYCONV_SUCCESS);
    buffers.input = input.data();
    buffers.output = output.data();
    buffers.weights[0] = weights.data();
    buffers.packed[0] = packed;
    buffers.workspace = workspace;
    buffers.workspace_size = static_cast<size_t>(info.workspace_bytes);
    CHECK_MESSAGE(polyconv_run(plan, &buffers, nullptr) == POLYCONV_SUCCESS, std::string(polyconv_last_error()));
    *result = (p.direction == POLYCONV_FORWARD         ? output
               : p.direction == POLYCONV_BACKWARD_DATA ? input
                                                       : weights)
                  .values();
  }
  polyconv_weights_destroy(packed);
  polyconv_device_free(nullptr, workspace, POLYCONV_MEMORY_DEVICE);
  polyconv_plan_destroy(plan);
  return outcome;
}

// A problem, and the strides that put its elements far apart: more than 2^31 elements between images, channels, rows
// or pixels.
struct Spread {
  const char *problem, *strides;
};
constexpr Spread kSpreads[] = {
    {"fwd:n2,c3,k4,i6x7,f3x3,p1", ":xs=3000000000.70.10.1:ys=3000000000.70.10.1"},
    {"fwd:n2,c3,k4,i6x7,f3x3,p1", ":xs=70.1500000000.10.1:ys=70.1500000000.10.1"},
    {"fwd:n1,c2,k3,i4x5,f3x3,p1", ":xs=100.50.1000000000.1:ys=100.50.1000000000.1"},
    {"fwd:n1,c2,k3,i3x4,f3x3,p1", ":xs=9.3.1.1500000000:ys=9.3.1.1500000000"},
    {"fwd:n2,c8,k8,i3x4,f1x1:nhwc", ":xs=3000000000.1.40.10:ys=3000000000.1.40.10"},
    {"fwd:n2,c6,k6,g6,i6x7,f3x3,p1", ":xs=3000000000.70.10.1:ys=3000000000.70.10.1"},
    {"fwd:n2,c1,k1,i6x7,f3x3,p1", ":xs=3000000000.1.10.1:ys=3000000000.1.10.1"},
    {"fwd:n1,c3,k4,i6x7,f3x3,p1", ":ws=1000000000.9.3.1"},
    {"bwd_d:n2,c3,k4,i6x7,f3x3,p1", ":xs=3000000000.70.10.1:ys=3000000000.70.10.1"},
    {"bwd_d:n1,c3,k4,i6x7,f3x3,s2,p1", ":xs=500.1500000000.10.1:ys=500.1500000000.10.1"},
    {"bwd_w:n2,c3,k4,i6x7,f3x3,p1", ":xs=3000000000.70.10.1:ws=1000000000.9.3.1:ys=3000000000.70.10.1"},
    {"tfwd:n2,c3,k4,i6x7,f3x3,s2,p1", ":xs=3000000000.70.10.1:ys=3000000000.300.20.1"},
};

} // namespace

TEST_CASE("elements beyond 2^31 are read and written where they lie") {
  std::map<std::string, int> taken;
  for (const Spread &spread : kSpreads) {
    std::vector<double> expected;
    REQUIRE(run(spread.problem, "reference/*", &expected) == Outcome::Ran);
    for (const std::string &kernel : polyconv::check::kernel_names()) {
      std::vector<double> found;
      const std::string token = std::string(spread.problem) + spread.strides;
      const Outcome outcome = run(token, kernel, &found);
      if (outcome == Outcome::NoMemory) return polyconv_test::skip("the system reserves no " + token);
      if (outcome != Outcome::Ran) continue;
      CHECK_MESSAGE(found == expected, kernel << " on " << token);
      ++taken[kernel.substr(0, kernel.find('@'))];
    }
  }
  for (const auto &[kernel, count] : taken) MESSAGE(kernel << " took " << count);
  CHECK(taken["reference/convolve"] == sizeof kSpreads / sizeof *kSpreads);
}

TEST_CASE("padding and channels of billions take no memory to plan") {
  std::vector<double> expected;
  const std::string token = "fwd:n1,c2,k3,i5x7,f3x3,s2000000000x1,p2000000000x1";
  REQUIRE(run(token, "reference/*", &expected) == Outcome::Ran);
  CHECK(expected.size() == 3 * 3 * 7);
  for (const std::string &kernel : polyconv::check::kernel_names()) {
    std::vector<double> found;
    if (run(token, kernel, &found) == Outcome::Ran) CHECK_MESSAGE(found == expected, kernel);
  }
  polyconv_problem p;
  REQUIRE(polyconv_problem_parse("fwd:n1,c2000000000,k1,i2x2,f1x1:nhwc", &p) == POLYCONV_SUCCESS);
  std::map<std::string, bool> planned;
  for (const std::string &kernel : polyconv::check::kernel_names()) {
    polyconv_options options;
    polyconv_options_init(&options);
    options.kernel = kernel.c_str();
    polyconv_plan *plan = nullptr;
    const polyconv_status status = polyconv_plan_create(nullptr, &p, 1, &options, &plan);
    CHECK((status == POLYCONV_SUCCESS || status == POLYCONV_UNSUPPORTED));
    if (status == POLYCONV_SUCCESS) polyconv_plan_destroy(plan);
    planned[kernel.substr(0, kernel.find('@'))] |= status == POLYCONV_SUCCESS;
  }
  if (planned.count("threads/direct") == 0) return polyconv_test::skip("no threads here");
  CHECK(planned["threads/direct"]);
  CHECK(!planned["threads/few"]); // lists a pixel of padding
}
