// baseline.cpp - what a row is measured against.
// SPDX-License-Identifier: Apache-2.0
#include "baseline.hpp"

#include <algorithm>

#include "../text.hpp"
#include "tensors.hpp"

namespace polyconv::bench {
namespace {

bool is_cudnn(const std::string &baseline) {
  return baseline == "cudnn" || baseline == "cudnn-any";
}

bool multiplies_f32(const Work &work) {
  const auto is_f32 = [](const polyconv_problem &problem) { return problem.weights_type == POLYCONV_F32; };
  return std::any_of(work.problems.begin(), work.problems.end(), is_f32) ||
         std::any_of(work.layers.begin(), work.layers.end(), multiplies_f32);
}

} // namespace

bool is_ceiling(const std::string &baseline) {
  return baseline == "fma" || baseline == "copy";
}

PlanRequest baseline_request(const std::string &baseline, const PlanRequest &row, int64_t budget_ms) {
  PlanRequest request = row;
  request.grouping.clear(); // a vendor's kernels take what they take
  if (baseline == "unfused") {
    // Threads of one runtime wait on the cores that the other's need: layers of both in one plan take twice as long.
    const std::string runtime = row.kernel.substr(0, row.kernel.find('/'));
    request.kernel = runtime == "openmp" || runtime == "tbb" ? runtime + "/*" : "";
    request.grouping = "none";
    request.tuning_ms = budget_ms;
    return request;
  }
  request.kernel = baseline.find_first_of("/*?") == std::string::npos ? baseline + "/*" : baseline;
  if (baseline == "cudnn") request.kernel = "cudnn/direct";
  if (baseline == "cudnn-any") {
    request.kernel = row.math >= POLYCONV_MATH_TF32 ? "cudnn/fast" : "cudnn/any";
    request.math = POLYCONV_MATH_FAST;
  }
  if (baseline == "onednn") {
    request.kernel = "onednn/conv@auto";
    request.math = POLYCONV_MATH_STRICT;
  }
  for (const char *vendor : {"cudnn/", "onednn/"})
    if (request.kernel.rfind(vendor, 0) == 0) request.tuning_ms = budget_ms;
  return request;
}

Work baseline_work(const std::string &baseline, const Work &work, std::string *left_out) {
  left_out->clear();
  if (work.is_network() || !is_cudnn(baseline)) return work;
  std::vector<std::string> words;
  const auto leave_out = [&words](bool there, const std::string &word) {
    if (there && std::find(words.begin(), words.end(), word) == words.end()) words.push_back(word);
  };
  std::vector<polyconv_problem> sums = work.problems;
  for (polyconv_problem &problem : sums) {
    const polyconv_epilogue &had = problem.epilogue;
    leave_out(had.has_scale != 0, "scale");
    leave_out(had.has_bias != 0, "bias");
    leave_out(had.residual_from != POLYCONV_RESIDUAL_NONE, "residual");
    leave_out(had.activation != POLYCONV_ACT_NONE, "activation");
    polyconv_problem plain;
    polyconv_problem_init(&plain);
    plain.epilogue.pool = had.pool;
    problem.epilogue = plain.epilogue;
  }
  if (words.empty()) return work;
  *left_out = "without " + join(words, ", ");
  return make_work(sums);
}

std::string baseline_rounding(const std::string &baseline, int32_t row_math, const Work &work) {
  const bool rounds = is_cudnn(baseline) && row_math >= POLYCONV_MATH_TF32 && multiplies_f32(work);
  return rounds ? "may round to TF32" : "";
}

std::string baseline_mode(const std::string &baseline, const std::string &row, const std::string &type) {
  if (baseline == "cudnn-any") return type == "f32" && (row == "tf32" || row == "fast") ? "tf32" : "fast";
  return baseline == "onednn" ? "strict" : row;
}

// Sums of f16, bf16 and images are f32; s8 and u8 multiply in units that are not measured.
std::string fma_kind(const Work &work) {
  if (work.is_network()) {
    const std::string first = fma_kind(work.layers.front());
    const bool same = std::all_of(work.layers.begin(), work.layers.end(),
                                  [&](const Work &layer) { return fma_kind(layer) == first; });
    return same ? first : "";
  }
  switch (work.problems.front().weights_type) {
    case POLYCONV_F64: return "fma_f64";
    case POLYCONV_F32:
    case POLYCONV_F16:
    case POLYCONV_BF16: return "fma_f32";
    default: return "";
  }
}

Sampler ceiling_sampler(const std::string &baseline, const Work &work, RateMeter &meter) {
  constexpr double kSeconds = 2e-3; // a sample of the multiply-add rate
  if (baseline == "copy") {
    const double bytes = compulsory_bytes(work);
    return [=, &meter](int64_t repeats) { return static_cast<double>(repeats) * bytes / meter.copy(); };
  }
  const std::string kind = fma_kind(work);
  if (kind.empty()) throw Unable("unsupported", "no multiply-add rate is measured for the types of this problem");
  const double flops = flops_of(work);
  return [=, &meter](int64_t repeats) {
    return static_cast<double>(repeats) * flops / meter.fma(kind == "fma_f64", kSeconds);
  };
}

} // namespace polyconv::bench
