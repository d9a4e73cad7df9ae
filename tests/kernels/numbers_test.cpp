// numbers_test.cpp - single numbers at the ends of their types, where every kernel that takes the problem must agree:
// sums of nothing, numbers that round to Inf when they are taken apart.
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <polyconv/sdk/check.hpp>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include "fake_backends/fakes.hpp"
#include "skip.hpp"

namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

polyconv_problem problem(const std::string &token) {
  polyconv_problem p;
  polyconv_problem_init(&p);
  REQUIRE_MESSAGE(polyconv_problem_parse(token.c_str(), &p) == POLYCONV_SUCCESS, std::string(polyconv_last_error()));
  return p;
}

polyconv_options options_for(const char *kernel) { // which they point to
  polyconv_options options;
  polyconv_options_init(&options);
  options.kernel = kernel;
  options.fallback = POLYCONV_FALLBACK_ALLOW;
  return options;
}

// The outputs, of f32; false where the kernel does not take the problem.
bool run(const polyconv_problem &p, const polyconv_options &options, const void *input, const void *weights,
         const float *scale, std::vector<float> *output) {
  int64_t bytes = 0;
  REQUIRE(polyconv_problem_tensor(&p, POLYCONV_TENSOR_OUTPUT, nullptr, &bytes) == POLYCONV_SUCCESS);
  output->assign(static_cast<size_t>(bytes) / sizeof(float), -12345.0f);
  polyconv_buffers buffers;
  polyconv_buffers_init(&buffers);
  buffers.input = const_cast<void *>(input);
  buffers.weights[0] = const_cast<void *>(weights);
  buffers.scale[0] = scale;
  buffers.output = output->data();
  const polyconv_status status = polyconv_convolve(nullptr, &p, 1, &options, &buffers);
  REQUIRE_MESSAGE((status == POLYCONV_SUCCESS || status == POLYCONV_UNSUPPORTED), std::string(polyconv_last_error()));
  return status == POLYCONV_SUCCESS;
}

bool same_number(float a, float b) {
  return std::isnan(a) ? std::isnan(b) : a == b && std::signbit(a) == std::signbit(b);
}

void check_same(const std::string &what, const std::vector<float> &found, const std::vector<float> &expected) {
  REQUIRE(found.size() == expected.size());
  for (size_t i = 0; i < found.size(); ++i)
    CHECK_MESSAGE(same_number(found[i], expected[i]),
                  what << ": [" << i << "] is " << found[i] << "; expected " << expected[i]);
}

// Kernels of tiles in memory are right wherever this test runs.
void load_soft_tiles() {
  const std::string path = (fakes::build_tests() / "soft_tiles" / "libpolyconv_soft_tiles.so").string();
  if (std::filesystem::exists(path)) polyconv_backend_load(path.c_str());
}

} // namespace

TEST_CASE("outputs that no tap reaches pass through the scale on every kernel") {
  const std::vector<int8_t> input = {1, -2, 3, -4}, weights = {5};
  for (const char *token : {"tfwd:i4,f1,s2:s8-s8-f32:scale", "tfwd:i2x2,f1,s3x2:s8-s8-f32:nhwc:scale"}) {
    const polyconv_problem p = problem(token);
    for (const float scale : {-1.0f, kInf, std::numeric_limits<float>::quiet_NaN()}) {
      std::vector<float> expected, found;
      REQUIRE(run(p, options_for("reference/*"), input.data(), weights.data(), &scale, &expected));
      for (const std::string &kernel : polyconv::check::kernel_names())
        if (run(p, options_for(kernel.c_str()), input.data(), weights.data(), &scale, &found))
          check_same(kernel + " on " + token + ", scale " + std::to_string(scale), found, expected);
    }
  }
}

// f32 is taken apart into bf16, whose largest number is below f32's.
TEST_CASE("emulated f32 products of the largest numbers are finite") {
  load_soft_tiles();
  int taken = 0;
  for (const char *token :
       {"fwd:c1,k1,i3,f1:nhwc", "fwd:c40,k33,i3x5,f3x3:nhwc", "fwd:c3,k2,i9x11,f7x7,s2:nhwc", "fwd:c40,k5,i3x7,f1x1"}) {
    const polyconv_problem p = problem(token);
    int64_t inputs = 0, weights = 0;
    REQUIRE(polyconv_problem_tensor(&p, POLYCONV_TENSOR_INPUT, nullptr, &inputs) == POLYCONV_SUCCESS);
    REQUIRE(polyconv_problem_tensor(&p, POLYCONV_TENSOR_WEIGHTS, nullptr, &weights) == POLYCONV_SUCCESS);
    for (const bool large_input : {true, false}) {
      constexpr float kLarge = 3.4e38f, kSmall = 0.001f;
      std::vector<float> x(static_cast<size_t>(inputs) / 4, large_input ? kLarge : kSmall), found;
      std::vector<float> w(static_cast<size_t>(weights) / 4, large_input ? kSmall : kLarge);
      const double sum = static_cast<double>(kLarge) * static_cast<double>(kSmall) *
                         (static_cast<double>(w.size()) / static_cast<double>(p.out_channels));
      for (const std::string &kernel : polyconv::check::kernel_names()) {
        polyconv_options options = options_for(kernel.c_str());
        options.math = POLYCONV_MATH_FP32_EMULATED;
        if (kernel.find("/matrix") == std::string::npos || !run(p, options, x.data(), w.data(), nullptr, &found))
          continue;
        ++taken;
        for (const float y : found)
          CHECK_MESSAGE(std::fabs(static_cast<double>(y) - sum) <= sum * 1e-5,
                        kernel << " on " << std::string(token) << ": " << y << "; expected " << sum);
      }
    }
  }
  if (taken == 0) return polyconv_test::skip("no kernel takes f32 apart here");
}

// What polyconv.h leaves to kernels beside POLYCONV_PAD_*, and no more.
TEST_CASE("an infinite weight reaches no transposed result but those whose window holds it or lies over an edge") {
  const std::vector<float> ones(8, 1.0f), weights = {1, kInf, 1};
  const polyconv_problem p = problem("tfwd:i8,f3");
  std::vector<float> found;
  for (const std::string &kernel : polyconv::check::kernel_names()) {
    if (!run(p, options_for(kernel.c_str()), ones.data(), weights.data(), nullptr, &found)) continue;
    REQUIRE(found.size() == 10);
    for (size_t i = 1; i < 9; ++i) CHECK_MESSAGE((i < 2 || i > 7 || found[i] == kInf), kernel << ": " << found[i]);
    for (const size_t i : {size_t{1}, size_t{8}}) CHECK_MESSAGE(!(found[i] < kInf), kernel << ": " << found[i]);
    for (const size_t i : {size_t{0}, size_t{9}})
      CHECK_MESSAGE((found[i] == 1 || std::isnan(found[i])), kernel << ": " << found[i]);
  }
}

TEST_CASE("backward weights have no level at which a batch changes nothing") {
  const polyconv_problem p = problem("bwd_w:n2,c3,k4,i6x6,f3x3");
  polyconv_options options;
  polyconv_options_init(&options);
  options.determinism = POLYCONV_DETERMINISM_INVARIANT;
  polyconv_plan *plan = nullptr;
  CHECK(polyconv_plan_create(nullptr, &p, 1, &options, &plan) == POLYCONV_UNSUPPORTED);
  CHECK(plan == nullptr);
}

TEST_CASE("packed weights serve other sizes, padding and layouts, and no other stride or dilation") {
  const auto plan_of = [](const char *token, polyconv_plan **plan) {
    const polyconv_problem p = problem(token);
    const polyconv_options options = options_for("*/direct");
    return polyconv_plan_create(nullptr, &p, 1, &options, plan);
  };
  polyconv_plan *own = nullptr;
  if (plan_of("fwd:n1,c3,k4,i9x9,f3x3", &own) == POLYCONV_UNSUPPORTED)
    return polyconv_test::skip("no kernel here packs weights");
  const std::vector<float> raw(4 * 3 * 9, 1.0f), input(3 * 81 * 4, 1.0f);
  polyconv_weights *weights = nullptr;
  REQUIRE(polyconv_weights_create(own, 0, raw.data(), nullptr, nullptr, &weights) == POLYCONV_SUCCESS);
  const auto run_with = [&](const char *token) {
    polyconv_plan *plan = nullptr;
    REQUIRE(plan_of(token, &plan) == POLYCONV_SUCCESS);
    polyconv_plan_info info = {};
    info.struct_size = sizeof info;
    REQUIRE(polyconv_plan_get_info(plan, &info) == POLYCONV_SUCCESS);
    std::vector<float> output(16 * 1024), bias(4);
    std::vector<char> workspace(static_cast<size_t>(info.workspace_bytes) + 2 * POLYCONV_ALIGNMENT);
    polyconv_buffers buffers;
    polyconv_buffers_init(&buffers);
    buffers.input = const_cast<float *>(input.data());
    buffers.output = output.data();
    buffers.bias[0] = bias.data();
    buffers.packed[0] = weights;
    const size_t past = reinterpret_cast<uintptr_t>(workspace.data()) % POLYCONV_ALIGNMENT;
    buffers.workspace = workspace.data() + POLYCONV_ALIGNMENT - past;
    buffers.workspace_size = static_cast<size_t>(info.workspace_bytes);
    const polyconv_status status = polyconv_run(plan, &buffers, nullptr);
    polyconv_plan_destroy(plan);
    return status;
  };
  for (const char *token :
       {"fwd:n3,c3,k4,i9x7,f3x3", "fwd:n1,c3,k4,i9x9,f3x3,p1:bias+relu", "fwd:n1,c3,k4,i9x9,f3x3:nhwc"})
    CHECK_MESSAGE(run_with(token) == POLYCONV_SUCCESS, std::string(polyconv_last_error()));
  for (const char *token : {"fwd:n1,c3,k4,i9x9,f3x3,s2", "fwd:n1,c3,k4,i9x9,f3x3,d2", "fwd:n1,c3,k4,i9x9,f3x3:flip"})
    CHECK_MESSAGE(run_with(token) == POLYCONV_INVALID_ARGUMENT, std::string(token));
  polyconv_weights_destroy(weights);
  polyconv_plan_destroy(own);
}

TEST_CASE("a residual has its gradient also where the input is empty") {
  const polyconv_problem p = problem("bwd_d:n1,c0,k2,i3,f1:residual:rs=2");
  const std::vector<float> gradient = {1, 2, 3, 4, 5, 6};
  std::vector<float> residual(6, -1.0f);
  polyconv_options options;
  polyconv_options_init(&options);
  options.fallback = POLYCONV_FALLBACK_ALLOW;
  polyconv_buffers buffers;
  polyconv_buffers_init(&buffers);
  buffers.output = const_cast<float *>(gradient.data());
  buffers.residual_gradient[0] = residual.data();
  REQUIRE_MESSAGE(polyconv_convolve(nullptr, &p, 1, &options, &buffers) == POLYCONV_SUCCESS,
                  std::string(polyconv_last_error()));
  for (size_t i = 0; i < residual.size(); ++i) CHECK(residual[i] == 2 * gradient[i]);
}
