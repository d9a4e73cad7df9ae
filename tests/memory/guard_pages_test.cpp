// guard_pages_test.cpp - no kernel of the CPU touches memory beyond its tensors and its workspace, where that memory
// belongs to somebody else or to nobody: everything that a run is given ends, or begins, at a page without access.
// Problems are those of the conformance tests, random ones, and tensors that overlap themselves.
// ctest-label: conformance
// SPDX-License-Identifier: Apache-2.0
#include <polyconv/sdk/check.hpp>

#include <cstdio>
#include <map>
#include <memory>
#include <vector>

#include "conformance/aimed.hpp"
#include "conformance/cases.hpp"
#include "conformance/tame.hpp"
#include "fenced.hpp"
#include "skip.hpp"

namespace {

using conformance::TestCase;
using fenced::Buffer;
using fenced::Side;

struct PlanDeleter {
  void operator()(polyconv_plan *plan) const { polyconv_plan_destroy(plan); }
};
struct WeightsDeleter {
  void operator()(polyconv_weights *weights) const { polyconv_weights_destroy(weights); }
};

// Every buffer of a problem or chain, filled with finite numbers of its type (the bytes of 0 and of small ones).
class Fences {
 public:
  Fences(const TestCase &test, const polyconv_plan *plan, Side side) : side_(side) {
    polyconv_buffers_init(&buffers);
    const auto last = test.problems.size() - 1;
    buffers.input = add(test.problems[0], POLYCONV_TENSOR_INPUT);
    buffers.output = add(test.problems[last], POLYCONV_TENSOR_OUTPUT);
    for (size_t i = 0; i <= last; ++i) {
      const polyconv_problem &p = test.problems[i];
      const bool pools = p.epilogue.pool.kind == POLYCONV_POOL_MAX,
                 saves_all = test.save == POLYCONV_SAVE_PRE_ACTIVATION;
      buffers.weights[i] = add(p, POLYCONV_TENSOR_WEIGHTS);
      buffers.bias[i] = add(p, POLYCONV_TENSOR_BIAS);
      buffers.scale[i] = add(p, POLYCONV_TENSOR_SCALE);
      buffers.residual[i] = add(p, POLYCONV_TENSOR_RESIDUAL);
      buffers.slope[i] = add(p, POLYCONV_TENSOR_SLOPE);
      buffers.weights_zero_point[i] = add(p, POLYCONV_TENSOR_WEIGHTS_ZERO_POINT);
      buffers.residual_gradient[i] = add(p, POLYCONV_TENSOR_RESIDUAL_GRADIENT);
      if (test.save != POLYCONV_SAVE_NONE && (saves_all || pools))
        buffers.saved[i] = add(p, saves_all ? POLYCONV_TENSOR_PRE_ACTIVATION : POLYCONV_TENSOR_ARGMAX);
      pack(plan, static_cast<int32_t>(i));
    }
    polyconv_plan_info info = {};
    info.struct_size = sizeof info;
    REQUIRE(polyconv_plan_get_info(plan, &info) == POLYCONV_SUCCESS);
    buffers.workspace_size = static_cast<size_t>(info.workspace_bytes);
    memory_.emplace_back(buffers.workspace_size, side_, POLYCONV_ALIGNMENT);
    buffers.workspace = memory_.back().data();
  }

  polyconv_buffers buffers;

 private:
  void *add(const polyconv_problem &problem, int32_t which) {
    polyconv_tensor tensor = {};
    int64_t bytes = 0;
    if (polyconv_problem_tensor(&problem, which, &tensor, &bytes) != POLYCONV_SUCCESS) return nullptr;
    memory_.emplace_back(static_cast<size_t>(bytes), side_, polyconv_type_size(tensor.type));
    // The pointer of a tensor is that of its element 0, which negative strides put behind others.
    return static_cast<char *>(memory_.back().data()) +
           tensor.offset * static_cast<int64_t>(polyconv_type_size(tensor.type));
  }

  void pack(const polyconv_plan *plan, int32_t layer) {
    const char *format = nullptr;
    int64_t bytes = 0;
    REQUIRE(polyconv_plan_weights(plan, layer, &format, &bytes) == POLYCONV_SUCCESS);
    if (std::string(format) == "raw") return;
    memory_.emplace_back(static_cast<size_t>(bytes), side_, POLYCONV_ALIGNMENT);
    polyconv_weights *made = nullptr;
    REQUIRE(polyconv_weights_create(plan, layer, buffers.weights[layer], memory_.back().data(), nullptr, &made) ==
            POLYCONV_SUCCESS);
    packed_.emplace_back(made);
    buffers.packed[layer] = made;
  }

  const Side side_;
  std::vector<Buffer> memory_;
  std::vector<std::unique_ptr<polyconv_weights, WeightsDeleter>> packed_;
};

// One run at each side of the pages. False where the kernel does not take the problem.
bool run(const TestCase &test, const std::string &kernel) {
  polyconv_options options;
  polyconv_options_init(&options);
  options.kernel = kernel.c_str();
  options.math = POLYCONV_MATH_FAST;
  options.determinism = POLYCONV_DETERMINISM_NONE;
  options.fallback = POLYCONV_FALLBACK_ALLOW;
  options.save = test.save;
  options.threads = 2;
  if (test.problems.size() > 1) options.grouping = "8";
  polyconv_plan *made = nullptr;
  const polyconv_status status =
      polyconv_plan_create(nullptr, test.problems.data(), static_cast<int32_t>(test.problems.size()), &options, &made);
  const std::unique_ptr<polyconv_plan, PlanDeleter> plan(made);
  if (status == POLYCONV_UNSUPPORTED) return false;
  REQUIRE_MESSAGE(status == POLYCONV_SUCCESS, test.name << ": " << polyconv_last_error());
  for (const Side side : {Side::kEnd, Side::kBegin}) {
    std::snprintf(fenced::running, sizeof fenced::running, "%s on %s, buffers at the %s of pages", kernel.c_str(),
                  test.name.c_str(), side == Side::kEnd ? "end" : "begin");
    Fences fences(test, plan.get(), side);
    const polyconv_status ran = polyconv_run(plan.get(), &fences.buffers, nullptr);
    CHECK_MESSAGE(ran == POLYCONV_SUCCESS, fenced::running << ": " << polyconv_last_error());
  }
  return true;
}

// The configs of each kernel of the backends under test. OpenMP and oneTBB have the same.
std::map<std::string, std::vector<std::string>> configs_by_kernel() {
  std::map<std::string, std::vector<std::string>> result;
  for (const std::string &name : polyconv::check::kernel_names())
    if (name.rfind("openmp/", 0) == 0 || name.rfind("reference/", 0) == 0)
      result[name.substr(0, name.find('@'))].push_back(name);
  return result;
}

// Each case on every kernel, in as many of its configs as `each`, others from case to case.
void run_all(const std::vector<TestCase> &cases, size_t each) {
  fenced::catch_trespassers();
  const auto kernels = configs_by_kernel();
  if (kernels.empty()) polyconv_test::skip("neither openmp nor reference is there");
  int64_t runs = 0;
  size_t turn = 0; // every second kernel of a case where there are many
  for (size_t i = 0; i < cases.size(); ++i)
    for (const auto &[kernel, configs] : kernels)
      for (size_t j = 0; j < std::min(each, configs.size()); ++j)
        if (each > 1 || (turn++ + i) % 2 == 0)
          runs += run(cases[i], configs[configs.size() - 1 - (i + j) % configs.size()]);
  MESSAGE(runs << " of " << cases.size() << " problems on " << kernels.size() << " kernels");
  CHECK(2 * runs >= static_cast<int64_t>(cases.size())); // the reference takes all but chains, and some kernels those
}

template <class Random>
std::vector<TestCase> random_cases(Random random, int count) {
  std::vector<TestCase> cases;
  for (int i = 0; i < count; ++i) {
    TestCase test{"", {random.next()}, POLYCONV_SAVE_NONE};
    char token[512] = "?";
    polyconv_problem_format(&test.problems[0], token, sizeof token, nullptr);
    test.name = token;
    cases.push_back(test);
  }
  return cases;
}

} // namespace

TEST_CASE("the problems of the conformance tests stay inside their buffers") {
  run_all(conformance::all_cases(), 1);
  run_all(conformance::all_chains(), 2);
}

TEST_CASE("random problems and views stay inside their buffers") {
  run_all(random_cases(conformance::AimedProblem(20261123), 100), 1);
  run_all(random_cases(conformance::TameProblem(20261123), 100), 1);
}

TEST_CASE("tensors that overlap themselves are not read beyond") {
  std::vector<TestCase> cases;
  for (const char *token : {
           "fwd:c5,k1,i12x23,f3x1:xs=1.1.1.1",
           "fwd:c8,k31,i40x40,f3x3:xs=1.4096.4.1",
           "fwd:n2,c8,k31,i40x40,f3x3,p1:xs=16384.4096.4.1",
           "bwd_w:c5,k1,i12x23,f3x1:xs=1.1.1.1",
           "bwd_w:c8,k16,i40x40,f3x3:xs=1.4096.4.1:ys=1.2048.3.1",
           "bwd_d:c8,k31,i40x40,f3x3:ys=1.4096.4.1",
           "bwd_d:c8,k31,i40x40,f1x1:ys=1.4096.4.1",
           "tfwd:c8,k31,i40x40,f3x3,s2:xs=1.4096.4.1",
           "fwd:n3,c16,k16,i9x40,f1x1:xs=40.40.1.1",
           "fwd:n1,c16,k16,g16,i20x40,f3x3,p1:xs=1.1.2.1",
           "fwd:n2,c16,k32,i20x20,f3x3,p1:nhwc:xs=3000.1.120.8",
           "fwd:n2,c32,k32,i20x20,f3x3,p1:nhwc:bf16:xs=3000.1.120.8",
           "fwd:n2,c32,k32,i20x20,f1x1:nhwc:s8:xs=3000.1.120.8",
           "bwd_w:n2,c32,k32,i20x20,f3x3,p1:nhwc:f16:xs=3000.1.120.8:ys=2000.1.90.4",
           "fwd:n1,c1,k1,i200x200,f15x15:xs=1.1.3.1:separable",
           "fwd:n1,c1,k64,i65536,f400,s160:xs=1.1.1",
       })
    cases.push_back(conformance::make_case(POLYCONV_SAVE_NONE, {token}));
  run_all(cases, 5);
}
