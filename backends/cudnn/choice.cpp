// choice.cpp - see choice.hpp.
// SPDX-License-Identifier: Apache-2.0
#include "choice.hpp"

#include <algorithm>
#include <chrono>
#include <future>
#include <optional>
#include <set>

#include <polyconv/sdk/backend.hpp>
#include "candidates.hpp"
#include "stopwatch.hpp"

namespace polyconv::cudnn {
namespace {

using Clock = std::chrono::steady_clock;

// Bytes from a tensor's first element to behind its last.
int64_t extent_bytes(const polyconv_tensor &t) {
  int64_t elements = t.offset + 1;
  for (int axis = 0; axis < 5; ++axis) elements += (t.size[axis] - 1) * std::max<int64_t>(t.stride[axis], 0);
  return elements * (t.type == POLYCONV_F64 ? 8 : t.type == POLYCONV_F32 ? 4 : 2);
}

// A candidate made ready to run, or why it is not.
struct Finalised {
  std::shared_ptr<const Execution> execution;
  std::string why;
};

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
      for (const Candidate &candidate : proposals(ways_, mode, rules_, SIZE_MAX)) {
        const Finalised made = finalise(candidate);
        if (accepted(candidate, made)) return Choice{candidate.way, made.execution, candidate.name(), 0, 0, false};
      }
    return std::nullopt;
  }

  std::optional<Choice> fastest() {
    deadline_ = Clock::now() + std::chrono::milliseconds(policy_.tuning_ms);
    watch_.emplace();
    // The likeliest first, so that the others are soon seen to be behind; then every engine, then what else is
    // proposed, then other knobs.
    constexpr size_t kLikely = 2;
    std::vector<Candidate> candidates = proposals(ways_, CUDNN_HEUR_MODE_A, rules_, kLikely);
    for (Candidate &engine : engines(ways_, rules_)) candidates.push_back(std::move(engine));
    measure(std::move(candidates));
    for (const cudnnBackendHeurMode_t mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_B, CUDNN_HEUR_MODE_FALLBACK})
      if (!late()) measure(proposals(ways_, mode, rules_, SIZE_MAX));
    turn_knobs();
    if (best_) {
      best_->measured = static_cast<int>(timed_.size());
      best_->cut_short = cut_short_;
    }
    return best_;
  }

  const std::string &why() const { return why_; }

 private:
  struct Timed {
    std::shared_ptr<const Way> way;
    int64_t engine;
    double us;
  };

  bool late() const { return best_ && Clock::now() > deadline_; }

  // On any thread: with a handle of its own.
  Finalised finalise(const Candidate &candidate) const {
    try {
      const cuda::DeviceScope scope(policy_.device_index);
      const Handle handle(policy_.device_index);
      return {std::make_shared<const Execution>(handle.get(), candidate.config), ""};
    } catch (const sdk::Error &error) {
      return {nullptr, error.what()};
    }
  }

  bool accepted(const Candidate &candidate, const Finalised &made) {
    if (made.execution && candidate.way->copies() + made.execution->workspace_bytes() <= limit_) return true;
    why_ = made.execution ? "the engines that take it need more workspace" : made.why;
    return false;
  }

  // Those not known yet, as long as there is time. Some engines are compiled when they are finalised, which takes up to
  // a second each: several are at once, while nothing is timed.
  void measure(std::vector<Candidate> candidates) {
    candidates.erase(std::remove_if(candidates.begin(), candidates.end(),
                                    [&](const Candidate &c) { return !known_.insert(c.name()).second; }),
                     candidates.end());
    const size_t several = static_cast<size_t>(std::clamp(policy_.threads, 1, 16));
    for (size_t begin = 0; begin < candidates.size(); begin += several) {
      if (late()) {
        cut_short_ = true;
        return;
      }
      const size_t end = std::min(begin + several, candidates.size());
      std::vector<std::future<Finalised>> making;
      making.reserve(end - begin);
      for (size_t i = begin; i < end; ++i)
        making.push_back(std::async(std::launch::async, [this, &candidates, i] { return finalise(candidates[i]); }));
      for (const std::future<Finalised> &one : making) one.wait();
      for (size_t i = begin; i < end; ++i) measure(candidates[i], making[i - begin].get());
    }
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
    timed_.push_back({candidate.way, candidate.config.engine, us});
    if (!best_ || us < best_->us) best_ = Choice{candidate.way, made.execution, candidate.name(), us, 0, false};
  }

  // The median of a few samples; fewer where the engine is far behind. The first run, which loads code, is left out.
  double time_of(const Way &way, const Execution &execution) {
    const int64_t weights = writes_weights(layer_) ? extent_bytes(layer_.weights) : packed_bytes(layer_.weights);
    const Pointers pointers = {input_.get(extent_bytes(layer_.input)), weights_.get(weights),
                               output_.get(extent_bytes(layer_.output)),
                               workspace_.get(way.copies() + execution.workspace_bytes())};
    const Descriptor pack = way.pack(pointers);
    const auto run = [&](cudaStream_t stream) { way.run(handle_, execution, pack, pointers, stream); };
    constexpr double kShortUs = 2000;
    const double best = best_ ? best_->us : 1e12;
    const double first = watch_->us(1, run);
    if (first > 10 * best && first > 5e4) return first;
    const double second = watch_->us(1, run);
    if (second > 2 * best) return second;
    const int runs = std::clamp(static_cast<int>(200 / (second + 1)), 1, 20); // short ones: several between two events
    double samples[5];
    const int count = second < kShortUs ? 5 : 3;
    for (int i = 0; i < count; ++i) samples[i] = watch_->us(runs, run);
    std::nth_element(samples, samples + count / 2, samples + count);
    return samples[count / 2];
  }

  // Other knobs of the few engines that are fastest so far.
  void turn_knobs() {
    constexpr size_t kEngines = 4;
    std::stable_sort(timed_.begin(), timed_.end(), [](const Timed &a, const Timed &b) { return a.us < b.us; });
    std::vector<Timed> leaders;
    for (const Timed &timed : timed_) {
      const bool known = std::any_of(leaders.begin(), leaders.end(), [&](const Timed &leader) {
        return leader.engine == timed.engine && leader.way == timed.way;
      });
      if (!known && leaders.size() < kEngines) leaders.push_back(timed);
    }
    for (const Timed &leader : leaders)
      if (!late()) measure(variations(leader.way, leader.engine));
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
  std::optional<Choice> best_;
  bool cut_short_ = false;
};

} // namespace

Choice choose(cudnnHandle_t handle, const polyconv_layer &layer, const Rules &rules, int64_t workspace_limit,
              const polyconv_policy &policy) {
  Search search(handle, layer, rules, workspace_limit, policy);
  const std::optional<Choice> choice = policy.tuning_ms > 0 ? search.fastest() : search.first();
  if (!choice) throw sdk::Error(POLYCONV_UNSUPPORTED, "cuDNN has no engine for this: " + search.why());
  return *choice;
}

} // namespace polyconv::cudnn
