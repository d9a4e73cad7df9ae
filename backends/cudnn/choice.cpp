// choice.cpp - see choice.hpp.
// SPDX-License-Identifier: Apache-2.0
#include "choice.hpp"

#include <algorithm>
#include <chrono>
#include <optional>
#include <set>

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

class Search {
 public:
  Search(cudnnHandle_t handle, const polyconv_layer &layer, const Rules &rules, int64_t workspace_limit,
         const polyconv_policy &policy)
      : handle_(handle), layer_(layer), rules_(rules), limit_(workspace_limit) {
    // The order that takes fewer conversions goes first.
    const Order own =
        copies_bytes(layer, kOrders[1]) < copies_bytes(layer, kOrders[0]) ? Order::ChannelsLast : Order::ChannelsFirst;
    for (const Order order : {own, own == Order::ChannelsFirst ? Order::ChannelsLast : Order::ChannelsFirst}) {
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
    for (const auto &way : ways_)
      for (const cudnnBackendHeurMode_t mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK})
        for (const Config &config : way->graph().proposals(mode, rules_))
          if (const auto execution = finalised(*way, config))
            return Choice{way, execution, full_name(*way, config), 0, 0, refused_};
    return std::nullopt;
  }

  std::optional<Choice> fastest(int64_t milliseconds) {
    deadline_ = Clock::now() + std::chrono::milliseconds(milliseconds);
    watch_.emplace();
    // The likeliest first, so that the rest is quickly seen to be behind; then every engine, then what else is
    // proposed.
    constexpr size_t kLikely = 2;
    for (const auto &way : ways_) measure_proposals(way, CUDNN_HEUR_MODE_A, kLikely);
    for (const auto &way : ways_) measure_engines(way);
    for (const cudnnBackendHeurMode_t mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_B, CUDNN_HEUR_MODE_FALLBACK})
      for (const auto &way : ways_) measure_proposals(way, mode, SIZE_MAX);
    turn_knobs();
    if (best_) {
      best_->tried = static_cast<int>(known_.size()) - refused_;
      best_->refused = refused_;
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

  static std::string full_name(const Way &way, const Config &config) {
    return std::string(order_name(way.order())) + "/" + config.name;
  }

  bool late() const { return best_ && Clock::now() > deadline_; }

  // NULL where the engine does not take the problem, or not within the workspace.
  std::shared_ptr<const Execution> finalised(const Way &way, const Config &config) {
    try {
      auto execution = std::make_shared<const Execution>(handle_, config);
      if (way.copies() + execution->workspace_bytes() <= limit_) return execution;
      why_ = "the engines that take it need more workspace";
    } catch (const sdk::Error &error) {
      why_ = error.what();
    }
    ++refused_;
    return nullptr;
  }

  void measure_proposals(const std::shared_ptr<const Way> &way, cudnnBackendHeurMode_t mode, size_t most) {
    if (late()) return;
    for (const Config &config : way->graph().proposals(mode, rules_))
      if (most-- > 0) measure(way, config);
  }

  // With the knobs that each engine sets by itself.
  void measure_engines(const std::shared_ptr<const Way> &way) {
    const int64_t count = way->graph().engine_count();
    for (int64_t number = 0; number < count && !late(); ++number) {
      std::vector<Config> engine;
      if (way->graph().engine(number, rules_, &engine)) measure(way, engine[0]);
    }
  }

  void measure(const std::shared_ptr<const Way> &way, const Config &config) {
    const std::string name = full_name(*way, config);
    if (late() || !known_.insert(name).second) return;
    const auto execution = finalised(*way, config);
    if (!execution) return;
    double us = 0;
    try {
      us = time_of(*way, *execution);
    } catch (const sdk::Error &error) { // out of memory, or an engine that fails: unless the device is lost, go on
      cuda::check(cudaDeviceSynchronize(), "measuring an engine");
      why_ = error.what();
      ++refused_;
      return;
    }
    timed_.push_back({way, config.engine, us});
    if (!best_ || us < best_->measured_us) best_ = Choice{way, execution, name, us, 0, 0};
  }

  // The median of a few samples; fewer where the engine is far behind. The first run, which loads code, is left out.
  double time_of(const Way &way, const Execution &execution) {
    const Pointers pointers = {input_.get(extent_bytes(layer_.input)), weights_.get(packed_bytes(layer_.weights)),
                               output_.get(extent_bytes(layer_.result)),
                               workspace_.get(way.copies() + execution.workspace_bytes())};
    const Descriptor pack = way.pack(pointers);
    const auto run = [&](cudaStream_t stream) { way.run(handle_, execution, pack, pointers, stream); };
    constexpr double kShortUs = 2000;
    const double best = best_ ? best_->measured_us : 1e12;
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
      for (const Config &config : leader.way->graph().variations(leader.engine)) measure(leader.way, config);
  }

  cudnnHandle_t handle_;
  const polyconv_layer &layer_;
  const Rules rules_;
  const int64_t limit_;
  std::vector<std::shared_ptr<const Way>> ways_;
  std::string why_ = "it proposes no engine";
  Clock::time_point deadline_;
  std::optional<Stopwatch> watch_;
  Scratch input_, weights_, output_, workspace_;
  std::set<std::string> known_;
  std::vector<Timed> timed_;
  std::optional<Choice> best_;
  int refused_ = 0;
};

} // namespace

Choice choose(cudnnHandle_t handle, const polyconv_layer &layer, const Rules &rules, int64_t workspace_limit,
              const polyconv_policy &policy) {
  Search search(handle, layer, rules, workspace_limit, policy);
  const std::optional<Choice> choice = policy.tuning_ms > 0 ? search.fastest(policy.tuning_ms) : search.first();
  if (!choice) throw sdk::Error(POLYCONV_UNSUPPORTED, "cuDNN has no engine for this: " + search.why());
  return *choice;
}

} // namespace polyconv::cudnn
