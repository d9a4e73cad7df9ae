// case.cpp - one problem checked in every mode: what the mode can say, planning, the name read back, running and
// comparing, with the oracle's answers kept.
// SPDX-License-Identifier: Apache-2.0
#include <polyconv/sdk/check.hpp>

#include <cmath>
#include <cstring>
#include <list>

#include "compare.hpp"
#include "data.hpp"
#include "settled.hpp"

namespace polyconv::check {
namespace {

// Why an exact check of this layer would not be one; "" where it would.
const char *inexact(const polyconv_problem &p) {
  const polyconv_epilogue &e = p.epilogue;
  if (row_of(p) == Row::Quantised) return "";
  const bool clips =
      e.activation == POLYCONV_ACT_CLIPPED_RELU && e.activation_alpha == std::nearbyint(e.activation_alpha);
  if (e.activation != POLYCONV_ACT_NONE && e.activation != POLYCONV_ACT_RELU && !clips)
    return "exact checks stop at relu and a whole clip: other activations round";
  if (e.has_scale) return "exact checks take no scale";
  if (e.pool.kind == POLYCONV_POOL_AVERAGE) return "exact checks take no average pooling";
  if (e.residual_from != POLYCONV_RESIDUAL_NONE && e.residual_scale != std::nearbyint(e.residual_scale))
    return "exact checks take whole residual scales only";
  if (e.out_scale != 1.0f) return "exact checks of images take an out_scale of 1 only";
  if (p.pad_value != std::nearbyint(p.pad_value) || std::fabs(p.pad_value) > 64)
    return "exact checks take small whole pad values only";
  return "";
}

// Why NaN and Inf say nothing about this layer.
const char *always_finite(const polyconv_problem &p) {
  const int32_t act = p.epilogue.activation;
  if (row_of(p) != Row::Float) return "integers are always finite";
  if (p.batch == 0) return "an empty batch holds no NaN";
  if (act > POLYCONV_ACT_LEAKY_RELU) return "what smooth activations make of Inf is left to the implementation";
  return "";
}

const char *unsuitable(Mode mode, const polyconv_problem &p) {
  return mode == Mode::Exact ? inexact(p) : mode == Mode::NonFinite ? always_finite(p) : "";
}

// The accuracy that the mode entered promises.
Tolerance tolerance_of(Mode mode, const polyconv_problem &p, const polyconv_plan_info &info) {
  if (mode == Mode::Exact) return {0, 0};
  const double unit = sum_type(p) == POLYCONV_F64 ? 0x1p-53 : 0x1p-24;
  if (std::strcmp(info.math, "tf32") == 0) return {2, 0x1p-11}; // far above what a transform adds
  if (info.transform != 0) return {32, unit};
  if (std::strcmp(info.math, "fp32_emulated") == 0) return {8, unit};
  if (std::strcmp(info.math, "fast") == 0) return {2, 0x1p-8}; // bf16 products are allowed
  return {2, unit};
}

// The plan must run what was asked for: options.kernel itself where it holds no wildcard, else its beginning.
bool ran_as_asked(const char *asked, const std::string &ran) {
  if (asked == nullptr || std::strchr(asked, ',') != nullptr) return true;
  const std::string name = ran.substr(0, ran.find(" + "));
  const size_t literal = std::strcspn(asked, "*?");
  if (asked[literal] != '\0') return name.compare(0, literal, asked, literal) == 0;
  return name == asked || name.compare(0, literal + 1, std::string(asked) + "@") == 0;
}

} // namespace

struct Case::State {
  struct Known {
    Mode mode;
    Tolerance tolerance;
    int32_t save;
    std::vector<Tensor> data;
    Expected expected;
  };
  std::vector<polyconv_problem> problems;
  uint64_t seed;
  std::list<Known> known;
  Placement placement;

  const Known &knowledge(Mode mode, const Tolerance &tolerance, int32_t save) {
    for (const Known &k : known)
      if (k.mode == mode && k.tolerance == tolerance && k.save == save) return k;
    Known k{mode, tolerance, save, make_data(problems, save, mode, seed), {}};
    k.expected = expect(problems, save, tolerance, k.data);
    return known.emplace_back(std::move(k));
  }

  void run(Mode mode, const polyconv_device *device, const polyconv_options &options, const polyconv_plan *plan,
           Result &result) {
    const polyconv_plan_info info = info_of(plan);
    result.kernel = info.kernel;
    result.math = info.math;
    if (!ran_as_asked(options.kernel, result.kernel))
      throw Misbehaved{"asked for " + std::string(options.kernel) + ", the plan runs " + result.kernel};
    for (const polyconv_problem &p : problems)
      if (*unsuitable(mode, p) != '\0') throw NotApplicable{unsuitable(mode, p)};
    if (info.transform != 0 && mode == Mode::Exact)
      throw NotApplicable{"a transform rounds also where every sum is representable"};
    const Known &k = knowledge(mode, tolerance_of(mode, problems[0], info), options.save);
    std::vector<Tensor> found = k.data;
    const bool same_bits = options.determinism >= POLYCONV_DETERMINISM_RUN;
    execute(device, plan, static_cast<int32_t>(problems.size()), options, found, {0xff, 0x7f}, same_bits, placement);
    const bool spreads = info.transform != 0 && mode == Mode::NonFinite; // over a tile
    compare(problems, k.expected, found, spreads, result);
  }
};

Case::Case(const std::vector<polyconv_problem> &problems, uint64_t seed) : state_(new State{problems, seed, {}, {}}) {}

Case::Case(const std::string &token, uint64_t seed) : state_(new State{{}, seed, {}, {}}) {
  polyconv_problem problem;
  polyconv_problem_init(&problem);
  if (polyconv_problem_parse(token.c_str(), &problem) != POLYCONV_SUCCESS)
    throw std::invalid_argument(token + ": " + polyconv_last_error());
  state_->problems = {problem};
}

void Case::place(const Placement &placement) {
  state_->placement = placement;
}

Case::~Case() = default;
Case::Case(Case &&) noexcept = default;
Case &Case::operator=(Case &&) noexcept = default;

Result Case::run(Mode mode, const polyconv_device *device, const polyconv_options &options) noexcept {
  return run(mode, device, options, nullptr);
}

Result Case::run(Mode mode, const polyconv_device *device, const polyconv_options &options,
                 const polyconv_plan *plan) noexcept {
  Result result = settled([&](Result &settling) {
    const Plan own = plan == nullptr ? make_plan(device, state_->problems, options) : Plan();
    state_->run(mode, device, options, plan == nullptr ? own.get() : plan, settling);
  });
  if (result.verdict == Verdict::Unsupported && !result.kernel.empty()) result.verdict = Verdict::Failed;
  return result;
}

Result Case::run_all(const polyconv_device *device, const polyconv_options &options) noexcept {
  Result best;
  for (Mode mode : {Mode::NonFinite, Mode::Exact, Mode::Random}) {
    Result result = run(mode, device, options);
    if (!result.acceptable()) {
      result.sentence = std::string(mode_name(mode)) + " check: " + result.sentence;
      return result;
    }
    if (result.good() || !best.good()) best = result;
  }
  return best;
}

} // namespace polyconv::check
