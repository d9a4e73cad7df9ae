// float_mode_test.cpp - what a program makes of floating point for a thread of its own changes no bit of a run.
// SPDX-License-Identifier: Apache-2.0
#include <cfenv>

#include <polyconv/sdk/float_mode.hpp>
#include <polyconv/sdk/half.hpp>

#include "plan_job.hpp"

using namespace job;

namespace {

using polyconv::sdk::kFloatDefault;
using polyconv::sdk::kFloatFlags;
using polyconv::sdk::kFloatFlushes;
using polyconv::sdk::read_float_mode;
using polyconv::sdk::write_float_mode;

// The kernels of one backend on so many threads, with what a run of the problem gives.
struct Layer {
  Plan made;
  Weights packed;
  std::vector<char> input, weights, output, workspace;

  Layer(const char *token, const std::string &kernel, int threads, float scale) {
    const polyconv_problem p = problem(token);
    polyconv_options o = options(kernel.c_str());
    o.threads = threads;
    o.fallback = POLYCONV_FALLBACK_ALLOW;
    made = plan({p}, o);
    fill(p, POLYCONV_TENSOR_INPUT, scale, &input);
    fill(p, POLYCONV_TENSOR_WEIGHTS, 1, &weights);
    polyconv_tensor tensor;
    int64_t bytes = 0;
    REQUIRE(polyconv_problem_tensor(&p, POLYCONV_TENSOR_OUTPUT, &tensor, &bytes) == POLYCONV_SUCCESS);
    output.resize(static_cast<size_t>(bytes));
    workspace.resize(static_cast<size_t>(info(made).workspace_bytes) + POLYCONV_ALIGNMENT);
    polyconv_weights *made_weights = nullptr;
    REQUIRE_MESSAGE(
        polyconv_weights_create(made.get(), 0, weights.data(), nullptr, nullptr, &made_weights) == POLYCONV_SUCCESS,
        error());
    packed.reset(made_weights);
  }

  std::vector<char> run() {
    polyconv_buffers b;
    polyconv_buffers_init(&b);
    b.input = input.data(), b.output = output.data(), b.packed[0] = packed.get();
    const auto at = reinterpret_cast<uintptr_t>(workspace.data());
    b.workspace = workspace.data() + (POLYCONV_ALIGNMENT - at % POLYCONV_ALIGNMENT) % POLYCONV_ALIGNMENT;
    b.workspace_size = workspace.size() - POLYCONV_ALIGNMENT;
    REQUIRE_MESSAGE(polyconv_run(made.get(), &b, nullptr) == POLYCONV_SUCCESS, error());
    return output;
  }

 private:
  // Numbers of either sign and all digits, times `scale`.
  static void fill(const polyconv_problem &p, int32_t which, float scale, std::vector<char> *to) {
    polyconv_tensor tensor;
    int64_t bytes = 0;
    REQUIRE(polyconv_problem_tensor(&p, which, &tensor, &bytes) == POLYCONV_SUCCESS);
    to->resize(static_cast<size_t>(bytes));
    const polyconv::sdk::DefaultFloatMode mode;
    std::mt19937 random(7);
    const size_t each = polyconv_type_size(tensor.type);
    for (size_t i = 0; i < to->size() / each; ++i) {
      const float value = (static_cast<float>(random() >> 8) * 0x1p-23f - 1) * scale;
      const polyconv::sdk::f16 half = polyconv::sdk::to_f16(value);
      std::memcpy(to->data() + i * each, each == 2 ? static_cast<const void *>(&half) : &value, each);
    }
  }
};

// What `body` gives while the calling thread flushes denormals.
template <class Body>
void flushing(const Body &body) {
  constexpr uint64_t mode = kFloatDefault | kFloatFlushes;
  write_float_mode(mode);
  body();
  CHECK((read_float_mode() & ~kFloatFlags) == mode);
  write_float_mode(kFloatDefault);
}

constexpr bool kKnown = kFloatFlushes != 0; // how processors of this kind are told

const char *const kBackends[] = {"reference/*", "threads/*", "openmp/*", "tbb/*"};

bool is_there(const std::string &kernels) {
  for (int32_t i = 0; i < polyconv_backend_count(); ++i)
    if (const char *kernel = polyconv_backend_kernel(i, 0)) {
      const char *const end = std::strchr(kernel, '/');
      if (kernels.rfind(std::string(kernel, end), 0) == 0) return true;
    }
  return false;
}

} // namespace

// The first test: its threads are made by one that flushes, and have its mode.
TEST_CASE("denormals are kept by every thread of a run, whatever the one that calls makes of its own" *
          doctest::skip(!kKnown)) {
  for (const char *kernels : kBackends) {
    if (!is_there(kernels)) continue;
    CAPTURE(kernels);
    Layer alone("fwd:n4,c16,k16,i64x64,f3x3,p1", kernels, 1, 1e-39f);
    const std::vector<char> expected = alone.run();
    flushing([&] {
      Layer layer("fwd:n4,c16,k16,i64x64,f3x3,p1", kernels, 4, 1e-39f);
      for (int i = 0; i < 10; ++i) CHECK(layer.run() == expected);
      Layer halves("fwd:n1,c4,k4,i16x16,f3x3,p1:f16", kernels, 1, 2e-5f);
      const std::vector<char> found = halves.run();
      write_float_mode(kFloatDefault);
      CHECK(found == halves.run());
      for (int i = 0; i < 10; ++i) CHECK(layer.run() == expected);
      write_float_mode(kFloatDefault | kFloatFlushes);
    });
  }
}

TEST_CASE("rounding in another direction, as a thread may be set to, changes no bit" * doctest::skip(!kKnown)) {
  for (const char *kernels : kBackends) {
    if (!is_there(kernels)) continue;
    CAPTURE(kernels);
    Layer layer("fwd:n2,c8,k8,i24x24,f3x3,p1", kernels, 2, 1);
    const std::vector<char> expected = layer.run();
    for (const int direction : {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO}) {
      std::fesetround(direction);
      const std::vector<char> found = layer.run();
      Layer made("fwd:n2,c8,k8,i24x24,f3x3,p1", kernels, 1, 1); // planned and packed in that mode
      const std::vector<char> again = made.run();
      CHECK(std::fegetround() == direction);
      std::fesetround(FE_TONEAREST);
      CHECK(found == expected);
      CHECK(again == expected);
    }
  }
}
