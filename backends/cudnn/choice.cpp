// choice.cpp - see choice.hpp.
// SPDX-License-Identifier: Apache-2.0
#include "choice.hpp"

#include <algorithm>
#include <functional>
#include <iterator>
#include <set>

#include <polyconv/sdk/backend.hpp>
#include "compilation.hpp"
#include "kept.hpp"
#include "key.hpp"
#include "stopwatch.hpp"

namespace polyconv::cudnn {
namespace {

// Bytes from a tensor's first element to behind its last.
int64_t extent_bytes(const polyconv_tensor &t) {
  int64_t elements = t.offset + 1;
  for (int axis = 0; axis < 5; ++axis) elements += (t.size[axis] - 1) * std::max<int64_t>(t.stride[axis], 0);
  return elements * (t.type == POLYCONV_F64 ? 8 : t.type == POLYCONV_F32 ? 4 : 2);
}

double median(std::vector<double> &samples) {
  const auto middle = samples.begin() + static_cast<std::ptrdiff_t>(samples.size() / 2);
  std::nth_element(samples.begin(), middle, samples.end());
  return *middle;
}

class Search {
 public:
  Search(cudnnHandle_t handle, const polyconv_layer &layer, const Rules &rules, int64_t workspace_limit,
         const polyconv_policy &policy)
      : handle_(handle), layer_(layer), rules_(rules), limit_(workspace_limit), policy_(policy) {
    const bool last = copies_bytes(layer, Order::ChannelsLast) < copies_bytes(layer, Order::ChannelsFirst);
    for (const Order order : {kOrders[last ? 1 : 0], kOrders[last ? 0 : 1]}) {
      if (copies_bytes(layer, order) > limit_) continue;
      try {
        ways_.push_back(std::make_shared<const Way>(handle, layer, order, policy));
      } catch (const sdk::Error &error) {
        if (error.status() != POLYCONV_UNSUPPORTED) throw;
        why_ = error.what();
      }
    }
  }

  std::optional<Choice> first() {
    for (const cudnnBackendHeurMode_t mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK})
      for (const Candidate &candidate : proposals(ways_, mode, rules_)) {
        const Finalised made = finalise(handle_, candidate.config);
        if (accepted(candidate, made))
          return Choice{candidate.way, made.execution, candidate.name(), 0, 0, false, false};
      }
    return std::nullopt;
  }

  // What another search found, where it can be had again and the rules still take it: the file is anybody's.
  std::optional<Choice> again(const Kept &kept) {
    try {
      const std::optional<Candidate> candidate = named(ways_, kept.engine);
      if (!candidate || !candidate->way->graph().allows(candidate->config.engine, rules_)) return std::nullopt;
      const Finalised made = finalise(handle_, candidate->config);
      if (!accepted(*candidate, made)) return std::nullopt;
      return Choice{candidate->way, made.execution, kept.engine, kept.us, kept.measured, kept.cut_short, true};
    } catch (const sdk::Error &) { // an engine that takes these knobs no more
      return std::nullopt;
    }
  }

  std::optional<Choice> fastest() {
    watch_.emplace();
    // The likeliest first, so that the others are soon seen to be behind; then every engine, then what else is
    // proposed, then other knobs.
    std::vector<Candidate> candidates = proposals(ways_, CUDNN_HEUR_MODE_A, rules_);
    const auto add = [&candidates](std::vector<Candidate> more) {
      std::move(more.begin(), more.end(), std::back_inserter(candidates));
    };
    add(engines(ways_, rules_));
    for (const cudnnBackendHeurMode_t mode : {CUDNN_HEUR_MODE_B, CUDNN_HEUR_MODE_FALLBACK})
      add(proposals(ways_, mode, rules_));
    deadline_ = Clock::now() + std::chrono::milliseconds(policy_.tuning_ms);
    deadline_ += measure(std::move(candidates), Clock::time_point::max());
    if (!late()) measure(other_knobs(), deadline_);
    if (timed_.empty()) return std::nullopt;
    const Timed &winner = play_off();
    return Choice{winner.candidate.way,
                  winner.execution,
                  winner.candidate.name(),
                  winner.us,
                  static_cast<int>(timed_.size()),
                  cut_short_,
                  false};
  }

  const std::string &why() const { return why_; }

 private:
  struct Timed {
    Candidate candidate;
    std::shared_ptr<const Execution> execution;
    double us;
  };

  bool late() const { return !timed_.empty() && Clock::now() > deadline_; }

  bool accepted(const Candidate &candidate, const Finalised &made) {
    if (made.execution && candidate.way->copies() + made.execution->workspace_bytes() <= limit_) return true;
    why_ = made.execution ? "the engines that take it need more workspace" : made.why;
    return false;
  }

  // Those not known yet: the engines that are ready as long as there is time, meanwhile on other threads the
  // compilation of the rest, which is begun until `compile_until`; what was compiled is measured in any case. How long
  // nothing was measured because compilers were not done.
  Clock::duration measure(std::vector<Candidate> candidates, Clock::time_point compile_until) {
    const auto known = [this](const Candidate &c) { return !known_.insert(c.name()).second; };
    candidates.erase(std::remove_if(candidates.begin(), candidates.end(), known), candidates.end());
    const auto dear = std::stable_partition(candidates.begin(), candidates.end(),
                                            [](const Candidate &c) { return !c.config.compiled; });
    const std::vector<Candidate> compiled(std::make_move_iterator(dear), std::make_move_iterator(candidates.end()));
    candidates.erase(dear, candidates.end());

    Compilation compilation(layer_, compiled, compile_until, policy_);
    for (const Candidate &candidate : candidates) {
      if (late()) {
        cut_short_ = true;
        break;
      }
      measure(candidate, finalise(handle_, candidate.config));
    }
    const Clock::time_point begin = Clock::now();
    const std::vector<std::optional<Finalised>> &made = compilation.wait(handle_);
    const Clock::duration waited = Clock::now() - begin;
    for (size_t i = 0; i < compiled.size(); ++i)
      if (made[i])
        measure(compiled[i], *made[i]);
      else
        cut_short_ = true;
    return waited;
  }

  void measure(const Candidate &candidate, const Finalised &made) {
    if (!accepted(candidate, made)) return;
    double us = 0;
    try {
      us = time_of(*candidate.way, *made.execution);
    } catch (const sdk::Error &error) { // out of memory, or an engine that fails: unless the device is lost, go on
      cuda::check(cudaDeviceSynchronize(), "measuring an engine");
      why_ = error.what();
      return;
    }
    char line[160];
    std::snprintf(line, sizeof line, "cudnn: %s takes %.1f us", candidate.name().c_str(), us);
    sdk::host->log(POLYCONV_LOG_DEBUG, line);
    timed_.push_back({candidate, made.execution, us});
    best_us_ = std::min(best_us_, us);
  }

  using Run = std::function<void(cudaStream_t)>;

  // On scratch memory, which stays where it is as long as nobody asks for more of it.
  Run run_of(const Way &way, const Execution &execution) {
    const Pointers pointers = scratch(way, execution);
    return [this, &way, &execution, pointers, pack = way.pack(pointers)](cudaStream_t stream) {
      way.run(handle_, execution, pack, pointers, stream);
    };
  }

  Pointers scratch(const Way &way, const Execution &execution) {
    const int64_t weights = writes_weights(layer_) ? extent_bytes(layer_.weights) : packed_bytes(layer_.weights);
    return {input_.get(extent_bytes(layer_.input)), weights_.get(weights), output_.get(extent_bytes(layer_.output)),
            workspace_.get(way.copies() + execution.workspace_bytes())};
  }

  // The median of a few samples; fewer where the engine is far behind.
  double time_of(const Way &way, const Execution &execution) {
    constexpr double kLoadingUs = 4e4, kHostUs = 20, kShortUs = 2000, kSampleUs = 200;
    const Run run = run_of(way, execution);
    const double first = watch_->us(1, run); // loads code, for up to kLoadingUs
    if (first > 2 * best_us_ + kLoadingUs) return first;
    const double second = watch_->us(1, run); // waits for the host, for up to kHostUs
    if (second > 1.5 * best_us_ + kHostUs) return second;
    const int runs = std::clamp(static_cast<int>(kSampleUs / (second + 1)), 1, 40);
    const Stopwatch::Recorded recorded = watch_->record(runs, run);
    std::vector<double> samples(second < kShortUs ? 5 : 3);
    for (double &sample : samples) sample = watch_->us(recorded, runs, run);
    return median(samples);
  }

  // The few that are fastest once more, in turn and for longer: what a chip reaches in its first milliseconds, while it
  // is cool, or with one sample of luck, is not what it keeps up.
  Timed &play_off() {
    constexpr size_t kFinalists = 4, kRounds = 5;
    constexpr double kSampleUs = 2000;
    const size_t count = std::min(kFinalists, timed_.size());
    const auto faster = [](const Timed &a, const Timed &b) { return a.us < b.us; };
    std::partial_sort(timed_.begin(), timed_.begin() + static_cast<std::ptrdiff_t>(count), timed_.end(), faster);
    struct Finalist {
      Timed *timed;
      Run run;
      int runs;
      Stopwatch::Recorded recorded;
      std::vector<double> samples = {};
    };
    std::vector<Finalist> finalists;
    for (size_t i = 0; i < count && timed_[i].us < 1.1 * best_us_; ++i) {
      const int runs = std::clamp(static_cast<int>(kSampleUs / (timed_[i].us + 1)), 1, 100);
      scratch(*timed_[i].candidate.way, *timed_[i].execution); // for all, before anything is recorded of it
      finalists.push_back({&timed_[i], nullptr, runs, nullptr});
    }
    for (Finalist &one : finalists) {
      one.run = run_of(*one.timed->candidate.way, *one.timed->execution);
      one.recorded = watch_->record(one.runs, one.run);
    }
    for (size_t round = 0; round < kRounds; ++round)
      for (Finalist &one : finalists) one.samples.push_back(watch_->us(one.recorded, one.runs, one.run));
    for (Finalist &one : finalists) one.timed->us = median(one.samples);
    return *std::min_element(timed_.begin(), timed_.begin() + static_cast<std::ptrdiff_t>(count), faster);
  }

  // Of the few engines that are fastest so far and not far behind, less far where each setting is compiled.
  std::vector<Candidate> other_knobs() {
    constexpr size_t kEngines = 4;
    std::stable_sort(timed_.begin(), timed_.end(), [](const Timed &a, const Timed &b) { return a.us < b.us; });
    std::vector<const Candidate *> leaders;
    std::vector<Candidate> found;
    for (const Timed &timed : timed_) {
      const Candidate &one = timed.candidate;
      const bool known = std::any_of(leaders.begin(), leaders.end(), [&](const Candidate *leader) {
        return leader->config.engine == one.config.engine && leader->way == one.way;
      });
      if (known || leaders.size() == kEngines || timed.us > (one.config.compiled ? 1.2 : 2) * best_us_) continue;
      leaders.push_back(&one);
      std::vector<Candidate> more = variations(one.way, one.config.engine);
      std::move(more.begin(), more.end(), std::back_inserter(found));
    }
    return found;
  }

  cudnnHandle_t handle_;
  const polyconv_layer &layer_;
  const Rules rules_;
  const int64_t limit_;
  const polyconv_policy &policy_;
  Ways ways_;
  std::string why_ = "it proposes no engine";
  Clock::time_point deadline_;
  std::optional<Stopwatch> watch_;
  Scratch input_, weights_, output_, workspace_;
  std::set<std::string> known_;
  std::vector<Timed> timed_;
  double best_us_ = 1e12;
  bool cut_short_ = false;
};

// The fastest, as it was kept or by searching, which is then kept.
std::optional<Choice> fastest(Search &search, const KeptChoices &choices, int64_t budget_ms) {
  if (const std::optional<Kept> kept = choices.find(budget_ms))
    if (std::optional<Choice> choice = search.again(*kept)) return choice;
  std::optional<Choice> choice = search.fastest();
  if (!choice) return choice;
  const std::string why_not = choices.add({choice->name, choice->us, choice->measured, choice->cut_short, budget_ms});
  if (!why_not.empty())
    sdk::host->log(POLYCONV_LOG_WARNING, ("cudnn: POLYCONV_CUDNN_CHOICES: nothing is kept: " + why_not).c_str());
  return choice;
}

} // namespace

Choice choose(cudnnHandle_t handle, const polyconv_layer &layer, const Rules &rules, int64_t workspace_limit,
              const polyconv_policy &policy) {
  Search search(handle, layer, rules, workspace_limit, policy);
  std::optional<Choice> choice;
  if (policy.tuning_ms > 0) {
    const std::string file = choices_file();
    const std::string key = file.empty() ? "" : key_of(layer, rules, workspace_limit, policy.device_index);
    choice = fastest(search, KeptChoices(file, key), policy.tuning_ms);
  } else {
    choice = search.first();
  }
  if (!choice) throw sdk::Error(POLYCONV_UNSUPPORTED, "cuDNN has no engine for this: " + search.why());
  return *choice;
}

} // namespace polyconv::cudnn
