// session.cpp - shares of a budget, one problem after another.
// SPDX-License-Identifier: Apache-2.0
#include "tune/session.hpp"

#include "os/os.hpp"
#include "plan/chain.hpp"
#include "plan/choose.hpp"
#include "token/token.hpp"
#include "tune/tune.hpp"

#include <algorithm>
#include <limits>

namespace polyconv {
namespace {

class Session {
 public:
  Session(const polyconv_device &device, const Options &options, int64_t budget_ms, size_t problems,
          const TuneWatch &watch)
      : device_(device), options_(options), budget_ns_(budget_ms * 1000000), problems_(problems), watch_(watch) {}

  // False where the session is to end, by the watcher's word or because no time is left.
  bool tune(size_t index, const Layer &layer) {
    if (budget_ns_ > 0 && gone_ns() >= budget_ns_) return false;
    const int64_t begin_ns = os::monotonic_ns();
    now_ = {};
    now_.problem = index;
    now_.token = format_token(layer.problem);
    std::vector<Candidate> candidates = time_one(layer, share_ns(index));
    now_.finished = true;
    describe(candidates);
    if (now_.timed > 0) {
      ++took_time_;
      timing_ns_ += os::monotonic_ns() - begin_ns;
    }
    return going_on_ && tell(index + 1);
  }

 private:
  int64_t gone_ns() const { return os::monotonic_ns() - start_ns_; }

  // What one problem may take: an even share of what is left for those from it on, and no more than the options say.
  int64_t share_ns(size_t index) const {
    int64_t share = std::numeric_limits<int64_t>::max();
    if (budget_ns_ > 0)
      share = std::max<int64_t>(1, (budget_ns_ - gone_ns()) / static_cast<int64_t>(problems_ - index));
    const int64_t most_ms = options_.values.tuning_budget_ms;
    return most_ms > 0 ? std::min(share, most_ms * 1000000) : share;
  }

  std::vector<Candidate> time_one(const Layer &layer, int64_t share) {
    const std::vector<Layer> layers = {layer};
    Question question = make_question(device_, options_);
    question.tuning_ns = share;
    question.options.policy.tuning_ms = share / 1000000;
    question.all_configs = true;
    tuner().prepare(layers, &question);
    const Group group = make_group(layers, 0, 1);
    std::vector<Candidate> candidates = ask_all(question, group, Keep::Takers);
    if (candidates.empty() || !candidates.front().accepted()) return candidates;
    const auto tell_one = [this](const Candidate &candidate, bool known) {
      ++(known ? now_.known : now_.timed);
      now_.kernel = names_of(candidate);
      now_.us = candidate.estimate_us;
      return known || (going_on_ = tell(now_.problem));
    };
    Unkept unkept = time_candidates(question, group, &candidates, tell_one);
    now_.unkept = static_cast<int32_t>(unkept.times);
    now_.reason = std::move(unkept.why);
    return candidates;
  }

  void describe(const std::vector<Candidate> &candidates) {
    now_.kernel.clear();
    now_.us = 0;
    if (!candidates.empty() && candidates.front().accepted() && candidates.front().measured) {
      now_.kernel = names_of(candidates.front());
      now_.us = candidates.front().estimate_us;
    } else {
      now_.reason = candidates.empty() ? "no kernel was asked" : reasons_of(candidates);
    }
  }

  // The problems to come are expected to take as long as those did that were not known yet.
  bool tell(size_t done) {
    constexpr double kMs = 1e-6;
    const double gone = static_cast<double>(gone_ns());
    now_.elapsed_ms = gone * kMs;
    const double left = static_cast<double>(problems_ - done);
    now_.left_ms = -1;
    if (took_time_ > 0) now_.left_ms = left * kMs * static_cast<double>(timing_ns_) / static_cast<double>(took_time_);
    if (done == problems_) now_.left_ms = 0;
    if (budget_ns_ > 0)
      now_.left_ms = std::min(now_.left_ms < 0 ? std::numeric_limits<double>::infinity() : now_.left_ms,
                              std::max(0.0, (static_cast<double>(budget_ns_) - gone) * kMs));
    return watch_ == nullptr || watch_(now_);
  }

  const polyconv_device &device_;
  const Options &options_;
  const int64_t budget_ns_, start_ns_ = os::monotonic_ns();
  const size_t problems_;
  const TuneWatch &watch_;
  TuneProgress now_;
  bool going_on_ = true;
  int64_t took_time_ = 0, timing_ns_ = 0; // problems that were not known as a whole, and what they took together
};

} // namespace

void tune_all(const polyconv_device &device, const std::vector<Layer> &problems, const Options &options,
              int64_t budget_ms, const TuneWatch &watch) {
  Session session(device, options, budget_ms, problems.size(), watch);
  for (size_t i = 0; i < problems.size(); ++i)
    if (!session.tune(i, problems[i])) return;
}

} // namespace polyconv
