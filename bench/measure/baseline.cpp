// baseline.cpp - what a row is measured against.
// SPDX-License-Identifier: Apache-2.0
#include "measure/baseline.hpp"

#include <algorithm>

#include "subject/tensors.hpp"
#include "text/text.hpp"

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

std::vector<std::string> special_baselines() {
  return {"fma", "copy", "unfused", "cudnn", "cudnn-any", "onednn"};
}

void refuse_unknown_baseline(const std::string &baseline, const std::vector<std::string> &backends) {
  const std::string backend = baseline.substr(0, baseline.find('/'));
  const bool glob =
      baseline.find_first_of("*?") < baseline.find('/') && baseline.find_first_of("*?") != std::string::npos;
  std::vector<std::string> names = special_baselines();
  const bool special = std::find(names.begin(), names.end(), baseline) != names.end();
  if (special || glob || std::find(backends.begin(), backends.end(), backend) != backends.end()) return;
  names.insert(names.end(), backends.begin(), backends.end());
  throw Error(kUsage, "--baseline: '" + baseline + "' is none of " + join(special_baselines(), ", ") +
                          ", no backend and no kernel glob such as openmp/direct" + did_you_mean(backend, names));
}

PlanRequest baseline_request(const std::string &baseline, const PlanRequest &row, int64_t budget_ms) {
  PlanRequest request = row;
  request.grouping.clear(); // a vendor's kernels take what they take
  if (baseline == "unfused") {
    // Threads of one runtime wait on the cores that the other's need: layers of both in one plan take twice as long.
    const std::string runtime = row.kernel.substr(0, row.kernel.find('/'));
    request.kernel = runtime == "threads" || runtime == "openmp" || runtime == "tbb" ? runtime + "/*" : "";
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

std::vector<Unit> units_for(const Work &layer, int32_t math) {
  switch (layer.problems.front().weights_type) {
    case POLYCONV_F64: return {{"fma_f64", 1}};
    case POLYCONV_F16: return {{"fma_f16", 1}, {"fma_f32", 1}};
    case POLYCONV_BF16: return {{"fma_bf16", 1}, {"fma_f32", 1}};
    case POLYCONV_S8:
    case POLYCONV_U8: return {{"fma_s8", 1}};
    case POLYCONV_F32: break;
    default: return {};
  }
  std::vector<Unit> units = {{"fma_f32", 1}};
  if (math >= POLYCONV_MATH_FP32_EMULATED) units.push_back({"fma_bf16", 1.0 / 3}); // at least three products for each
  if (math >= POLYCONV_MATH_TF32) units.push_back({"fma_tf32", 1});
  if (math >= POLYCONV_MATH_FAST) units.push_back({"fma_bf16", 1});
  return units;
}

Sampler ceiling_sampler(const std::string &baseline, const Work &work, int32_t math, RateMeter &meter) {
  constexpr double kSeconds = 2e-3; // a sample of the multiply-add rate
  if (baseline == "copy") {
    const double bytes = compulsory_bytes(work);
    return [=, &meter](int64_t repeats) { return static_cast<double>(repeats) * bytes / meter.copy(); };
  }
  if (work.is_network()) { // the sum of its layers
    std::vector<Sampler> layers;
    for (const Work &layer : work.layers) layers.push_back(ceiling_sampler(baseline, layer, math, meter));
    const std::vector<Work> works = work.layers;
    return [=](int64_t repeats) {
      double seconds = 0;
      for (size_t i = 0; i < layers.size(); ++i) seconds += static_cast<double>(works[i].count) * layers[i](repeats);
      return seconds;
    };
  }
  Unit fastest;
  double best = 0;
  for (const Unit &unit : units_for(work, math)) {
    const double rate = meter.has(unit.kind) ? unit.share * meter.fma(unit.kind, kSeconds) : 0;
    if (rate > best) best = rate, fastest = unit;
  }
  if (best <= 0) throw Unable("unsupported", "no multiply-add rate is known for the types of this problem");
  const double flops = flops_of(work);
  return [=, &meter](int64_t repeats) {
    return static_cast<double>(repeats) * flops / (fastest.share * meter.fma(fastest.kind, kSeconds));
  };
}

std::optional<double> seconds_at(const Ceilings &ceilings, int threads, const Work &work, int32_t math) {
  double seconds = 0;
  for (const Work &layer : work.layers) {
    const std::optional<double> own = seconds_at(ceilings, threads, layer, math);
    if (!own) return std::nullopt;
    seconds += static_cast<double>(layer.count) * *own;
  }
  if (work.is_network()) return seconds;
  double fastest = 0;
  for (const Unit &unit : units_for(work, math))
    fastest = std::max(fastest, unit.share * ceilings.best(unit.kind, threads).value_or(0));
  const std::optional<double> copy = ceilings.best("copy", threads);
  if (fastest <= 0 || !copy) return std::nullopt;
  return std::max(flops_of(work) / fastest, compulsory_bytes(work) / *copy);
}

} // namespace polyconv::bench
