// judge.cpp - results beside a file of bars.
// SPDX-License-Identifier: Apache-2.0
#include "judge/judge.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "measure/baseline.hpp"
#include "numbers/distribution.hpp"
#include "text/text.hpp"

namespace polyconv::bench {

namespace {

// The first kernel that ran and is none of those that a bar names; "" where there is no such.
std::string foreign_kernel(const Expectation &e, const Record &record) {
  const auto foreign = [&](const std::string &kernel) {
    const std::string first = kernel.substr(0, kernel.find(" + "));
    return !glob_match(e.kernel, kernel) && !glob_match(e.kernel, first);
  };
  for (const LayerLine &layer : record.layers)
    if (foreign(layer.kernel)) return layer.kernel;
  return record.layers.empty() && foreign(record.kernel) ? record.kernel : "";
}

LayerTimes times_of(const Record &record) {
  return {record.problem, record.kernel, record.median_us.value_or(0), record.baseline_us.value_or(0),
          record.ratio.value_or(0)};
}

// Why a record is none to compare, or the kernel took too long; "" where the bar is about its ratio.
std::string why_no_ratio(const Expectation &e, const Record &record) {
  if (record.status != "good") return "the row is " + record.status + ": " + record.reason;
  const std::string foreign = foreign_kernel(e, record);
  if (!foreign.empty()) return foreign + " ran, not " + e.kernel;
  if (e.max_us && record.median_us.value_or(*e.max_us + 1) > *e.max_us)
    return format("%s took %s, more than %s", record.kernel.c_str(), show_time(record.median_us.value_or(0)).c_str(),
                  show_time(*e.max_us).c_str());
  if (e.baseline.empty()) return "";
  if (!record.baseline_reason.empty()) return "the baseline " + e.baseline + " is missing: " + record.baseline_reason;
  if (!record.ratio || !record.baseline_us) return "the baseline " + e.baseline + " was not measured";
  const std::string mode = baseline_mode(e.baseline, e.math, e.type);
  if (!is_ceiling(e.baseline) && record.baseline_math != mode)
    return "the baseline ran in math mode " + record.baseline_math + ", not " + mode;
  if (e.baseline_max_us && *record.baseline_us > *e.baseline_max_us)
    return format("the baseline took %s us, above its most of %s us: it is not at its best",
                  show_number(*record.baseline_us).c_str(), show_number(*e.baseline_max_us).c_str());
  const LayerTimes times = times_of(record);
  if (!are_times(times))
    return format("%g us beside %g us of the baseline, the ratio %g, are no times; expected finite ones above 0",
                  times.own_us, times.baseline_us, times.ratio);
  return "";
}

// Why one record does not hold the bar of its own problem; "" where it does.
std::string why_broken(const Expectation &e, const Record &record) {
  std::string why = why_no_ratio(e, record);
  if (!why.empty() || !e.least_ratio || *record.ratio >= *e.least_ratio) return why;
  return format("the ratio to %s is %.3f, below %.3f (%s took %s)", e.baseline.c_str(), *record.ratio, *e.least_ratio,
                record.kernel.c_str(), show_time(record.median_us.value_or(0)).c_str());
}

// Whether a row was asked for the kernels of another bar about the same problem.
bool of_another(const Record &record, const Expectation &e, const std::vector<Expectation> &expectations) {
  return record.requested != e.kernel &&
         std::any_of(expectations.begin(), expectations.end(), [&](const Expectation &other) {
           return other.kernel == record.requested && other.concerns(record.problem);
         });
}

// The layers of suites that ran with one number of threads.
struct Group {
  Distribution layers;
  size_t lost = 0; // they have no ratio; each has its own sentence
};

// Says one bar of suites after another over one group of layers.
class BarsOfSuites {
 public:
  BarsOfSuites(const Expectation &e, const Group &group, size_t lost_to_all, std::string with,
               std::vector<Finding> &findings)
      : e_(e), layers_(group.layers), lost_(group.lost + lost_to_all), with_(std::move(with)), findings_(findings) {}

  void judge() const {
    if (layers_.size() == 0) {
      say(Verdict::kIncomplete, format("none of %zu layers%s has a ratio to %s: its bars cannot be told", lost_,
                                       with_.c_str(), e_.baseline.c_str()));
      return;
    }
    if (e_.least_ratio)
      at_least("the geometric mean of the ratios to " + e_.baseline + over(), layers_.geometric_mean(),
               *e_.least_ratio);
    if (e_.most_below) judge_share();
    if (e_.least_each) judge_least();
    if (e_.least_sum)
      at_least("the ratio of the summed times of " + e_.baseline + " to ours" + over(), layers_.sum_ratio(),
               *e_.least_sum);
  }

 private:
  // " over 9 layers with 2 threads", " over 8 of 9 layers"
  std::string over() const {
    const std::string all = lost_ > 0 ? format(" of %zu", layers_.size() + lost_) : "";
    return format(" over %zu%s layers%s", layers_.size(), all.c_str(), with_.c_str());
  }
  void say(Verdict verdict, const std::string &sentence) const {
    findings_.push_back({verdict, e_.where + ": " + e_.about + ": " + sentence});
  }
  Verdict where_held() const { return lost_ > 0 ? Verdict::kIncomplete : Verdict::kHeld; }

  void at_least(const std::string &what, double measured, double bar) const {
    const bool held = measured >= bar;
    say(held ? where_held() : Verdict::kNotHeld,
        format("%s is %.3f, %s %.3f", what.c_str(), measured, held ? "at least" : "below", bar));
  }
  void judge_share() const {
    const double share = layers_.share_below(*e_.below);
    const bool held = share <= *e_.most_below;
    say(held ? where_held() : Verdict::kNotHeld,
        format("the share of ratios to %s below %g%s is %.2f%% (%zu), %s %s%%", e_.baseline.c_str(), *e_.below,
               over().c_str(), share * 100, layers_.count_below(*e_.below), held ? "at most" : "above",
               format("%g", *e_.most_below * 100).c_str()));
  }
  // Beside the least ratio, every other layer that is below the bar is named.
  void judge_least() const {
    const std::vector<LayerTimes> sorted = layers_.by_ratio();
    const std::string least = "the least ratio to " + e_.baseline + over();
    if (sorted.front().ratio >= *e_.least_each) {
      at_least(least, sorted.front().ratio, *e_.least_each);
      return;
    }
    for (const LayerTimes &layer : sorted) {
      if (layer.ratio >= *e_.least_each) break;
      const bool first = &layer == &sorted.front();
      const std::string what = first ? least : "a ratio to " + e_.baseline + with_;
      say(Verdict::kNotHeld,
          format("%s is %.3f, below %.3f: %s (%s took %s)", what.c_str(), layer.ratio, *e_.least_each,
                 layer.token.c_str(), layer.kernel.c_str(), show_time(layer.own_us).c_str()));
    }
  }

  const Expectation &e_;
  const Distribution &layers_;
  const size_t lost_;
  const std::string with_;
  std::vector<Finding> &findings_;
};

// The bars of suites: over the layers, once for each number of threads that was asked for.
void judge_suites(const Expectation &e, std::map<int64_t, Group> groups, size_t lost_to_all,
                  std::vector<Finding> &findings) {
  if (groups.empty()) groups[0] = {};
  for (const auto &[threads, group] : groups) {
    const std::string with = groups.size() > 1 ? format(" with %lld threads", static_cast<long long>(threads)) : "";
    BarsOfSuites(e, group, lost_to_all, with, findings).judge();
  }
}

void judge(const Expectation &e, const std::vector<Expectation> &expectations, const std::vector<Record> &records,
           std::vector<Finding> &findings) {
  std::map<int64_t, Group> groups;
  size_t lost_to_all = 0; // those that say no number of threads
  for (const Work &work : e.works) {
    const auto not_held = [&](const std::string &why) {
      findings.push_back({Verdict::kNotHeld, e.where + ": " + work.token + ": " + why});
    };
    bool matched = false;
    for (const Record &record : records) {
      if (record.problem != work.token || record.type != e.type || record.requested_math != e.math ||
          record.baseline != e.baseline || of_another(record, e, expectations))
        continue;
      matched = true;
      const std::string why = e.of_suites ? why_no_ratio(e, record) : why_broken(e, record);
      if (!why.empty()) not_held(why);
      if (why.empty() && e.of_suites) groups[record.threads.value_or(0)].layers.add(times_of(record));
      if (!why.empty()) ++(record.threads ? groups[*record.threads].lost : lost_to_all);
    }
    if (!matched) {
      not_held("matches no row of this run");
      ++lost_to_all;
    }
  }
  if (e.of_suites) judge_suites(e, std::move(groups), lost_to_all, findings);
}

} // namespace

std::vector<Finding> judge_expectations(const std::vector<Expectation> &expectations,
                                        const std::vector<Record> &records) {
  std::vector<Finding> findings;
  for (const Expectation &e : expectations) judge(e, expectations, records, findings);
  return findings;
}

std::vector<std::string> broken_expectations(const std::vector<Expectation> &expectations,
                                             const std::vector<Record> &records) {
  std::vector<std::string> broken;
  for (const Finding &finding : judge_expectations(expectations, records))
    if (finding.verdict == Verdict::kNotHeld) broken.push_back(finding.sentence);
  return broken;
}

} // namespace polyconv::bench
