// tune.cpp - times candidates as plans of their own, and whole groupings of a chain beside each other.
// SPDX-License-Identifier: Apache-2.0
#include "tune/tune.hpp"

#include "os/log.hpp"
#include "os/os.hpp"
#include "token/token.hpp"
#include "tune/database.hpp"
#include "tune/key.hpp"
#include "tune/known.hpp"
#include "tune/trial.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <optional>

namespace polyconv {
namespace {

constexpr size_t kRuns = 9;

double median(std::vector<double> times) {
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

struct Timed {
  double us, spread_us; // the median, and the median distance from it
};

Timed settled(std::vector<double> times) {
  const double middle = median(times);
  for (double &time : times) time = std::abs(time - middle);
  return {middle, median(std::move(times))};
}

// The fastest candidate so far, ready to run again.
struct Champion {
  std::unique_ptr<Trial> trial;
  double us = std::numeric_limits<double>::infinity();
};

// The median of a few runs after a first one that nobody counts; fewer where one takes long. One that is ten times
// slower than the best so far is the last; the first tells that only where it took so long that being the first does
// not matter. Who comes near the best so far runs in turn with it, and its time is as many times the best's as their
// runs beside each other say: on a machine that others use too, the one that met a quiet moment would win.
Timed measure(Trial *trial, const Champion &best, double best_us, int64_t deadline_ns) {
  constexpr double kHopeless = 10, kNear = 1.5, kLongUs = 10e3;
  constexpr size_t kLook = 3;
  const double first_us = trial->run_us();
  if (first_us > kHopeless * best_us && first_us > kLongUs) return {first_us, 0};
  std::vector<double> times;
  const auto goes_on = [&](size_t runs) { return times.size() < runs && os::monotonic_ns() < deadline_ns; };
  do times.push_back(trial->run_us());
  while (times.back() <= kHopeless * best_us && goes_on(best.trial != nullptr ? kLook : kRuns));
  if (best.trial == nullptr || times.back() > kHopeless * best_us) return settled(std::move(times));
  const bool near = median(times) <= kNear * best.us || best.trial->run_us() > kNear * best.us; // or all is slower now
  if (!near) {
    while (goes_on(kRuns)) times.push_back(trial->run_us());
    return settled(std::move(times));
  }
  times.clear();
  do {
    const double beside_us = std::max(best.trial->run_us(), 1e-3); // a coarse clock may say 0
    times.push_back(trial->run_us() / beside_us * best.us);
  } while (goes_on(kRuns));
  return settled(std::move(times));
}

std::unique_ptr<Trial> trial_of(const Question &question, const Group &group, const Candidate &candidate,
                                const Scratch &scratch) {
  LayoutBuilder builder;
  builder.add(group, candidate, Scratch::ends(group));
  const Part part = {group, candidate};
  return std::make_unique<Trial>(question, builder.finish(), std::vector<const Part *>{&part}, scratch);
}

// The same; where memory is short the best one's goes first.
std::unique_ptr<Trial> trial_beside(const Question &question, const Group &group, const Candidate &candidate,
                                    const Scratch &scratch, Champion *best) {
  try {
    return trial_of(question, group, candidate, scratch);
  } catch (const Failure &failure) {
    if (best->trial == nullptr || failure.status() != POLYCONV_OUT_OF_MEMORY) throw;
  }
  best->trial.reset();
  return trial_of(question, group, candidate, scratch);
}

// A grouping of a whole chain, ready to run, and its times.
struct Contender {
  Grouping *grouping;
  std::unique_ptr<Trial> trial;
  std::vector<double> times;
};

Contender contender_of(const Question &question, const std::vector<Layer> &layers, Grouping *grouping,
                       const Scratch &scratch) {
  std::vector<Part> parts;
  std::vector<const Part *> pointers;
  for (const auto &part : grouping->parts) {
    parts.push_back(*part);
    pointers.push_back(part.get());
  }
  Contender contender = {grouping, nullptr, {}};
  contender.trial = std::make_unique<Trial>(question, lay_out(layers, parts), pointers, scratch);
  contender.trial->run_us(); // warm
  return contender;
}

// Does something with a grouping; one that fails is out of the comparison, and the plan is made without it.
template <class Action>
void unless_it_fails(Grouping *grouping, Action &&action) {
  try {
    action();
  } catch (const Failure &failure) {
    grouping->failure = std::string("failed while it was timed: ") + failure.what();
    log(POLYCONV_LOG_WARNING, "tuning grouping %s: %s", grouping->words().c_str(), failure.what());
  }
}

// False, and the candidate rejected, where it fails: a kernel that cannot do what it offered is no choice. `best_us`
// may be the time of one that was known before, `best` is of those timed now.
bool time_candidate(const Question &question, const Group &group, const Scratch &scratch, double best_us,
                    int64_t deadline_ns, Champion *best, Candidate *candidate) {
  try {
    std::unique_ptr<Trial> trial = trial_beside(question, group, *candidate, scratch, best);
    const Timed timed = measure(trial.get(), *best, best_us, deadline_ns);
    if (timed.us < best->us) *best = {std::move(trial), timed.us};
    candidate->estimate_us = kept_us(timed.us); // so that this call chooses by what later ones will know
    candidate->spread_us = kept_us(timed.spread_us);
    candidate->measured = true;
    candidate->provenance = {today(), false};
    return true;
  } catch (const Failure &failure) {
    log(POLYCONV_LOG_WARNING, "tuning: %s", failure.what());
    candidate->verdict = Verdict::Rejected;
    std::snprintf(candidate->offer.reason, sizeof candidate->offer.reason, "failed while it was timed: %s",
                  failure.what());
    return false;
  }
}

// How much less the best takes now than when it was timed, 1 where it does not. Others' times hang on the best's, so
// one busy moment would make all of them too long.
double quieter_now(const Champion &best, int64_t deadline_ns) {
  if (best.trial == nullptr) return 1;
  try {
    std::vector<double> times;
    do times.push_back(best.trial->run_us());
    while (times.size() < kRuns && os::monotonic_ns() < deadline_ns);
    const double now_us = median(std::move(times));
    return now_us > 0 ? std::min(1.0, now_us / best.us) : 1;
  } catch (const Failure &failure) { // it has run well before: its time stands
    log(POLYCONV_LOG_WARNING, "tuning: %s", failure.what());
    return 1;
  }
}

void scale_times(double factor, std::vector<Candidate> *candidates) {
  for (Candidate &candidate : *candidates) {
    candidate.estimate_us = kept_us(candidate.estimate_us * factor);
    candidate.spread_us = kept_us(candidate.spread_us * factor);
  }
}

} // namespace

Unkept time_candidates(const Question &question, const Group &group, std::vector<Candidate> *candidates,
                       const TimedCallback &timed) {
  const int64_t deadline_ns = os::monotonic_ns() + question.tuning_ns;
  const std::shared_ptr<const Measurements> known = known_measurements(question.tuning_key).here;
  const auto known_of = [&known](const Candidate &candidate) -> const Measurement * {
    if (known == nullptr || !candidate.accepted()) return nullptr;
    const auto found = known->find(names_of(candidate));
    return found != known->end() && is_about(found->second, candidate, false) ? &found->second : nullptr;
  };
  std::optional<Scratch> scratch;
  std::vector<Candidate> measured, fresh, rest;
  Champion best;
  double best_us = std::numeric_limits<double>::infinity();
  bool going_on = true;
  for (Candidate &candidate : *candidates) {
    const bool in_vain = !measured.empty() && candidate.fallback_rank() > measured.front().fallback_rank();
    const bool in_time = measured.empty() || os::monotonic_ns() < deadline_ns;
    const Measurement *const earlier = known_of(candidate);
    if (earlier != nullptr) {
      take_measurement(*earlier, false, &candidate);
    } else if (!candidate.accepted() || !in_time || in_vain || !going_on) {
      rest.push_back(candidate);
      continue;
    } else {
      if (!scratch) scratch.emplace(question, group);
      if (!time_candidate(question, group, *scratch, best_us, deadline_ns, &best, &candidate))
        rest.push_back(candidate);
      if (!candidate.measured) continue;
      fresh.push_back(candidate);
    }
    best_us = std::min(best_us, candidate.estimate_us);
    measured.push_back(candidate);
    if (timed != nullptr && going_on) going_on = timed(candidate, earlier != nullptr);
  }
  if (fresh.size() == measured.size()) { // times from earlier have their own moment
    const double factor = quieter_now(best, deadline_ns);
    for (std::vector<Candidate> *times : {&fresh, &measured}) scale_times(factor, times);
  }
  std::string why = remember(question.tuning_key, entries_of(fresh));
  settle_noise(&measured);
  std::stable_partition(rest.begin(), rest.end(), [](const Candidate &candidate) { return candidate.accepted(); });
  *candidates = std::move(measured);
  candidates->insert(candidates->end(), rest.begin(), rest.end());
  return {why.empty() ? 0 : fresh.size(), std::move(why)};
}

namespace {

void time_groupings(const Question &question, const std::vector<Layer> &layers, std::vector<Grouping> *groupings) {
  const int64_t deadline_ns = os::monotonic_ns() + question.tuning_ns / 2;
  const Scratch scratch(question, make_group(layers, 0, static_cast<int32_t>(layers.size())));
  std::vector<Contender> contenders;
  for (Grouping &grouping : *groupings) {
    const bool unfused = grouping.parts.size() == layers.size(); // nothing may be slower, so it is always there
    if (grouping.fallback_layers() > groupings->front().fallback_layers()) continue; // never taken, and slow
    if (contenders.size() > 0 && !unfused && os::monotonic_ns() >= deadline_ns) continue;
    unless_it_fails(&grouping, [&] { contenders.push_back(contender_of(question, layers, &grouping, scratch)); });
  }
  // In turn, so that all see the same machine.
  for (size_t round = 0; round < kRuns && (round == 0 || os::monotonic_ns() < deadline_ns); ++round)
    for (Contender &contender : contenders)
      if (contender.grouping->failure.empty())
        unless_it_fails(contender.grouping, [&] { contender.times.push_back(contender.trial->run_us()); });
  for (Contender &contender : contenders) {
    if (!contender.grouping->failure.empty()) continue;
    contender.grouping->us = median(std::move(contender.times));
    contender.grouping->measured = true;
    contender.grouping->provenance = {today(), false};
  }
}

class LibraryTuner final : public Tuner {
 public:
  void prepare(const std::vector<Layer> &layers, Question *question) const override {
    if (tuning_mode() == TuningMode::Freeze) question->tuning_ns = question->options.policy.tuning_ms = 0;
    question->tuning_key = tuning_key(*question, token_of(layers), layers.size());
  }
  void time(const Question &question, const Group &group, std::vector<Candidate> *candidates) const override {
    time_candidates(question, group, candidates);
  }
  void time_whole(const Question &question, const std::vector<Layer> &layers,
                  std::vector<Grouping> *groupings) const override {
    time_groupings(question, layers, groupings);
  }
  bool choose_known(const Question &question, const Group &group, const std::vector<Candidate> &candidates,
                    Candidate *choice) const override {
    return polyconv::choose_known(question, group, candidates, choice);
  }
};

} // namespace

const Tuner &tuner() {
  static const LibraryTuner made;
  return made;
}

} // namespace polyconv
