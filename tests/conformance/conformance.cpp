// conformance.cpp - every kernel of a backend, in every config, on every case that it takes: exact, random and
// non-finite data against the reference, poisoned, guarded, run twice (polyconv/sdk/check.hpp). One process a backend:
// POLYCONV_CONFORMANCE names it (CTest does), or several with commas, or the first letters of kernels' names, as in
// cuda-tensor/wgmma; unset means all. POLYCONV_CONFORMANCE_RANDOM: how many random problems of each sort, for long
// runs; POLYCONV_CONFORMANCE_SEED: others than every day's; POLYCONV_CONFORMANCE_CUT=5: one case in five, for backends
// whose kernels are the same objects as another's that is held to all; POLYCONV_CONFORMANCE_FLOPS: of the listed cases
// only those of no more operations, for emulators, which take a minute for the largest.
// SPDX-License-Identifier: Apache-2.0
#include <polyconv/sdk/check.hpp>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <map>
#include <set>
#include <sstream>

#include "aimed.hpp"
#include "cases.hpp"
#include "not_here.hpp"
#include "number_from.hpp"
#include "random_chain.hpp"
#include "skip.hpp"
#include "steps.hpp"
#include "tame.hpp"

using namespace polyconv::check;

namespace {

// A backend under test and its device.
struct Tested {
  polyconv_backend_info info;
  const polyconv_device *device;
};

std::vector<std::string> asked_names() {
  const char *list = std::getenv("POLYCONV_CONFORMANCE");
  std::istringstream rest(list == nullptr ? "" : list);
  std::vector<std::string> names;
  for (std::string name; std::getline(rest, name, ',');) names.push_back(name);
  return names;
}

// A backend, or a kernel by its full name.
bool asked_for(const std::string &name) {
  const std::vector<std::string> names = asked_names();
  const std::string backend = name.substr(0, name.find('/'));
  return names.empty() || std::any_of(names.begin(), names.end(), [&](const std::string &asked) {
           return asked == backend || (name == backend ? asked.rfind(name + "/", 0) == 0 : name.rfind(asked, 0) == 0);
         });
}

std::vector<Tested> tested_backends() {
  std::vector<Tested> result;
  int found = 0;
  for (int32_t i = 0; i < polyconv_backend_count(); ++i) {
    Tested t{};
    t.info.struct_size = sizeof t.info;
    REQUIRE(polyconv_backend_get(i, &t.info) == POLYCONV_SUCCESS);
    if (!asked_for(t.info.name)) continue;
    ++found;
    if (!t.info.available || polyconv_device_find(t.info.device_kind, &t.device) != POLYCONV_SUCCESS)
      polyconv_test::skip(std::string(t.info.name) + ": " + t.info.reason);
    else
      result.push_back(t);
  }
  REQUIRE_MESSAGE(found > 0, "none of the backends asked for is there: they were not built");
  return result;
}

enum class Fused { kNotAsked, kAllLayers };

polyconv_options options_for(const std::string &kernel, int32_t save, Fused fused = Fused::kNotAsked) {
  polyconv_options options;
  polyconv_options_init(&options);
  options.kernel = kernel.c_str();
  if (fused == Fused::kAllLayers) options.grouping = "8"; // as many in one group as a chain may have
  options.fallback = POLYCONV_FALLBACK_ALLOW;
  options.save = save;
  options.bind = 1;
  return options;
}

std::string without_config(const std::string &name) {
  return name.substr(0, name.find('@'));
}

// How often each config convolved, and each kernel took part in any step.
struct Counts {
  std::map<std::string, int> convolved;       // by full name
  std::set<std::string> took_part;            // by name without config
  std::map<std::string, std::string> excused; // by name without config: why it takes nothing on this machine

  void add(const std::string &config, const std::string &steps) {
    ++convolved[config];
    for (size_t begin = 0; begin < steps.size();) {
      const size_t end = std::min(steps.find(" + ", begin), steps.size());
      took_part.insert(without_config(steps.substr(begin, end - begin)));
      begin = end + 3;
    }
  }
};

std::string described(const Placement &placement) {
  return (placement.elements == 0 ? "" : " (from element " + std::to_string(placement.elements) + ")") +
         std::string(placement.in_place ? " (in place)" : "");
}

std::string reason_of(const Result &result) {
  const bool unknown = result.sentence.find("without a reason") != std::string::npos;
  return unknown ? result.sentence + ": " + conformance::said_to_steps() : result.sentence;
}

void check_case(const conformance::TestCase &test, const Tested &tested, const std::vector<std::string> &kernels,
                Counts &counts, Fused fused = Fused::kNotAsked, const Placement &placement = {},
                const std::vector<Mode> &modes = {std::begin(kModes), std::end(kModes)}) {
  Case c(test.problems);
  c.place(placement);
  for (const std::string &kernel : kernels) {
    polyconv_options options = options_for(kernel, test.save, fused);
    bool accepted = false;
    for (Mode mode : modes) {
      // Once as in training, where a kernel may read raw weights that it packs otherwise.
      const bool last = accepted && mode == modes.back();
      options.dynamic_weights = last ? POLYCONV_WEIGHTS_NEW : POLYCONV_WEIGHTS_CONSTANT;
      Result result = c.run(mode, tested.device, options);
      if (last && result.verdict == Verdict::Unsupported) {
        options.dynamic_weights = POLYCONV_WEIGHTS_CONSTANT;
        result = c.run(mode, tested.device, options);
      }
      if (result.verdict == Verdict::Unsupported && result.sentence.find("only under math ") != std::string::npos) {
        options.math = POLYCONV_MATH_FAST; // of another mode than strict: the freest admits it, and the offer names it
        result = c.run(mode, tested.device, options);
      }
      if (result.verdict == Verdict::Unsupported) {
        if (polyconv_test::is_not_here(result.sentence)) counts.excused[without_config(kernel)] = result.sentence;
        break;
      }
      CHECK_MESSAGE(result.acceptable(),
                    kernel << " on " << test.name << described(placement) << ", " << std::string(mode_name(mode))
                           << ": " << std::string(verdict_name(result.verdict)) << ", " << reason_of(result));
      if (result.good() && !accepted) counts.add(kernel, result.kernel);
      accepted = accepted || result.good();
    }
  }
}

// The reference fuses nothing and runs chains layer by layer: that shows that the chains make sense.
Fused asked_of(const Tested &tested) {
  return std::string(tested.info.name) == "reference" ? Fused::kNotAsked : Fused::kAllLayers;
}

std::vector<std::string> kernels_of(const Tested &tested) {
  std::vector<std::string> result;
  for (const std::string &name : kernel_names(tested.info.device_kind))
    if (name.compare(0, name.find('/'), tested.info.name) == 0 && asked_for(name)) result.push_back(name);
  return result;
}

int cut() {
  return polyconv_test::cut_from("POLYCONV_CONFORMANCE_CUT");
}
int random_count(int usual) {
  return std::max(polyconv_test::number_from("POLYCONV_CONFORMANCE_RANDOM", usual) / cut(), 1);
}
// The listed cases that are not too large.
std::vector<conformance::TestCase> small_enough(std::vector<conformance::TestCase> cases) {
  const int most = polyconv_test::number_from("POLYCONV_CONFORMANCE_FLOPS", std::numeric_limits<int>::max());
  const auto too_large = [&](const conformance::TestCase &test) { return conformance::flops_of(test.problems) > most; };
  cases.erase(std::remove_if(cases.begin(), cases.end(), too_large), cases.end());
  return cases;
}
std::vector<conformance::TestCase> some(const std::vector<conformance::TestCase> &cases) {
  std::vector<conformance::TestCase> result;
  for (size_t i = 0; i < cases.size(); i += static_cast<size_t>(cut())) result.push_back(cases[i]);
  return result;
}
uint64_t seed(uint64_t usual) {
  return usual + 1000 * static_cast<uint64_t>(polyconv_test::number_from("POLYCONV_CONFORMANCE_SEED", 0));
}

// Of problems, or of chains of them.
template <class Random>
std::vector<conformance::TestCase> random_cases(Random &random, int usual) {
  std::vector<conformance::TestCase> cases;
  for (int i = 0; i < random_count(usual); ++i) {
    conformance::TestCase test{"", {random.next()}, POLYCONV_SAVE_NONE};
    for (const polyconv_problem &problem : test.problems) {
      char token[512] = "?";
      polyconv_problem_format(&problem, token, sizeof token, nullptr);
      test.name += (test.name.empty() ? "" : " > ") + std::string(token);
    }
    cases.push_back(test);
  }
  return cases;
}

// The configs of each kernel.
std::vector<std::vector<std::string>> by_kernel(const std::vector<std::string> &names) {
  std::vector<std::vector<std::string>> result;
  for (const std::string &name : names) {
    if (result.empty() || without_config(result.back()[0]) != without_config(name)) result.emplace_back();
    result.back().push_back(name);
  }
  return result;
}

// A few of them, others each time.
std::vector<std::string> some_of(const std::vector<std::string> &configs, size_t turn) {
  constexpr size_t kMost = 3;
  const size_t first = turn * 2654435761 / 256; // in step with nothing that goes round
  std::vector<std::string> result;
  for (size_t i = 0; i < std::min(kMost, configs.size()); ++i) result.push_back(configs[(first + i) % configs.size()]);
  return result;
}

// Every case by every kernel in every config.
void check_each(const std::vector<conformance::TestCase> &cases, const Tested &tested,
                const std::vector<Mode> &modes = {std::begin(kModes), std::end(kModes)}) {
  Counts counts;
  for (const conformance::TestCase &test : cases)
    check_case(test, tested, kernels_of(tested), counts, Fused::kNotAsked, {}, modes);
  for (const auto &[kernel, count] : counts.convolved) MESSAGE(kernel << " took " << count << " of " << cases.size());
}

// Half of the problems from aligned memory; others as far behind it as views of a caller's may begin, or in place. All
// aligned for cuDNN, whose kernels bind pointers at multiples of 16 bytes alone (tests/cuda/cudnn_test.cpp).
Placement some_place(const Tested &tested, size_t turn) {
  constexpr int32_t kMoved[] = {~0, 1 << POLYCONV_TENSOR_INPUT, 1 << POLYCONV_TENSOR_OUTPUT,
                                1 << POLYCONV_TENSOR_RESIDUAL | 1 << POLYCONV_TENSOR_BIAS};
  constexpr int64_t kElements[] = {0, 1, 0, 4, 0, 2};
  const bool aligned = std::string(tested.info.name) == "cudnn";
  return {aligned ? 0 : kElements[turn / 8 % 6], kMoved[turn / 3 % 4], turn % 5 < 2};
}

// Two cases below want them, and once is enough.
int steps_checked(const polyconv_backend_info &backend, const std::string &kernel) {
  static std::map<std::string, int> known;
  const auto found = known.find(kernel);
  return found != known.end() ? found->second : known[kernel] = conformance::check_steps(backend, kernel);
}

} // namespace

TEST_CASE("every step is right") { // by itself: quick enough for tests/cuda/sanitize.sh
  for (const Tested &tested : tested_backends())
    for (const std::string &kernel : kernels_of(tested)) {
      const int steps = steps_checked(tested.info, kernel);
      if (steps > 0) MESSAGE(kernel << " took " << steps << " steps");
    }
}

TEST_CASE("every kernel and config is right on every case that it takes") {
  const std::vector<Tested> backends = tested_backends();
  const std::vector<conformance::TestCase> cases = some(small_enough(conformance::all_cases()));
  const std::vector<conformance::TestCase> chains = some(small_enough(conformance::all_chains()));
  for (const Tested &tested : backends) {
    const std::vector<std::string> kernels = kernels_of(tested);
    Counts counts;
    for (const std::string &kernel : kernels)
      steps_checked(tested.info, kernel); // the quick ones first, for runs that are cut off
    const auto place = [](size_t i) { return Placement{0, ~0, i % 2 != 0}; };
    for (size_t i = 0; i < cases.size(); ++i) check_case(cases[i], tested, kernels, counts, Fused::kNotAsked, place(i));
    Counts fused;
    for (size_t i = 0; i < chains.size(); ++i)
      check_case(chains[i], tested, kernels, fused, asked_of(tested), place(i));
    counts.took_part.insert(fused.took_part.begin(), fused.took_part.end());
    for (const std::string &kernel : kernels) {
      const int steps = steps_checked(tested.info, kernel);
      MESSAGE(kernel << " took " << counts.convolved[kernel] << " of " << cases.size() << " convolutions, " << steps
                     << " steps, " << fused.convolved[kernel] << " of " << chains.size() << " chains");
      if (steps > 0 || counts.convolved[kernel] > 0) counts.took_part.insert(without_config(kernel));
    }
    for (const auto &[kernel, reason] : counts.excused)
      if (counts.took_part.insert(kernel).second) MESSAGE(kernel << " was not tested: " << reason);
    for (const std::string &kernel : kernels)
      CHECK_MESSAGE((counts.took_part.count(without_config(kernel)) == 1 || cut() > 1),
                    kernel << " takes no case at all");
  }
}

// Stores that pass the caches by. Not on GPUs, which have no such threshold. With random numbers alone: where a store
// goes wrong does not depend on what it stores, and these are by far the largest tensors here.
TEST_CASE("every CPU kernel is right where results exceed the caches") {
  std::vector<conformance::TestCase> cases;
  for (const char *token :
       {"fwd:n1,c2,k32,i257x256,f1x1:nhwc:bias+relu", "fwd:n1,c2,k34,i229x272,f1x1:bias+relu",
        "fwd:n2,c2,k48,i139x166,f3x1:nhwc:ys=2183232.1.15936.96", "fwd:n1,c32,k32,g32,i183x183,f3x3,p1:nhwc:bias",
        "fwd:n1,c4,k64,i182x182,f1x1:nhwc:u8-s8-s32", "fwd:n1,c1,k2,i2050x1024,f1x3,p0x1"})
    cases.push_back(conformance::make_case(POLYCONV_SAVE_NONE, {token}));
  for (const Tested &tested : tested_backends())
    if (std::string(tested.info.device_kind) == "cpu") check_each(some(cases), tested, {Mode::Random});
}

TEST_CASE("every kernel and config is right on random problems") {
  conformance::TameProblem random(seed(7));
  const std::vector<conformance::TestCase> cases = random_cases(random, 400);
  for (const Tested &tested : tested_backends()) check_each(cases, tested);
}

// These are many for each kernel, so that its configs may take turns.
TEST_CASE("every kernel is right on random problems of the kinds that kernels are written for") {
  conformance::AimedProblem random(seed(13));
  const std::vector<conformance::TestCase> cases = random_cases(random, 160);
  for (const Tested &tested : tested_backends()) {
    const std::vector<std::vector<std::string>> kernels = by_kernel(kernels_of(tested));
    Counts counts;
    for (size_t i = 0; i < cases.size(); ++i)
      for (const std::vector<std::string> &configs : kernels)
        check_case(cases[i], tested, some_of(configs, i), counts, Fused::kNotAsked, some_place(tested, i));
    std::map<std::string, int> sums;
    for (const auto &[kernel, count] : counts.convolved) sums[without_config(kernel)] += count;
    for (const auto &[kernel, count] : sums) MESSAGE(kernel << " took " << count << " times one of " << cases.size());
  }
}

TEST_CASE("every kernel that takes several layers as one is right on random chains") {
  conformance::RandomChain random(seed(11));
  const std::vector<conformance::TestCase> chains = random_cases(random, 400);
  for (const Tested &tested : tested_backends()) {
    Counts counts;
    for (size_t i = 0; i < chains.size(); ++i)
      check_case(chains[i], tested, kernels_of(tested), counts, asked_of(tested), some_place(tested, i));
    for (const auto &[kernel, count] : counts.convolved)
      MESSAGE(kernel << " took " << count << " of " << chains.size());
  }
}

TEST_CASE("the three directions of every backend are adjoint") {
  const char *const problems[] = {"fwd:n2,c5,k7,i9x8,f3x3,s2,p1",
                                  "fwd:n1,c6,k9,g3,i9x9,f3x3,p2,d2:nhwc",
                                  "fwd:n2,c3,k4,i6x7,f3x3,p1:f64",
                                  "fwd:n1,c4,k4,g4,i7x7,f3x3,p1:f16",
                                  "fwd:n1,c3,k2,i3x4,f3x3,p5:pad=reflect",
                                  "fwd:n1,c3,k4,i17,f5,s3,p4/1",
                                  "fwd:n1,c2,k3,i4x5x6,f3x2x3,p1",
                                  "fwd:n1,c3,k4,i5x6,f3x3,p3:pad=circular",
                                  "tfwd:n2,c3,k4,i5x6,f3x3,s2,p1,o1",
                                  "fwd:n1,c8,k8,i6x6,f1x1:nhwc:f32",
                                  "fwd:n1,c3,k4,i6x7,f3x3,p1:flip",
                                  "fwd:n1,c2,k3,i3x2,f3x3,p7:pad=symmetric",
                                  "fwd:n1,c2,k3,i5x4,f3x3,s2,p2:pad=replicate:bf16"};
  for (const Tested &tested : tested_backends()) {
    int good = 0;
    const std::string glob = std::string(tested.info.name) + "/*";
    for (const char *token : problems) {
      const conformance::TestCase test = conformance::make_case(POLYCONV_SAVE_NONE, {token});
      const Result result = adjoint(test.problems[0], tested.device, options_for(glob, POLYCONV_SAVE_NONE));
      if (result.verdict == Verdict::Unsupported) continue;
      CHECK_MESSAGE(result.acceptable(), std::string(token) << " by " << result.kernel << ": " << reason_of(result));
      good += result.good();
    }
    MESSAGE(std::string(tested.info.name) << ": " << good << " problems with adjoint directions");
  }
}
