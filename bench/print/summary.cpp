// summary.cpp - what many records come to: geometric means for each suite, and the exit code.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "numbers/statistics.hpp"
#include "print/output.hpp"
#include "system/terminal.hpp"
#include "text/grid.hpp"
#include "text/text.hpp"

namespace polyconv::bench {

namespace {

struct Group {
  std::set<std::string> problems; // that have been counted
  size_t rows = 0, good = 0;
  std::vector<double> times, speedups, rates, roofs, ratios;
};

using Key = std::tuple<std::string, std::string, std::string, std::string>; // suite, device, selection, baseline

// The groups in the order in which they first appear: a ladder's techniques, say, from the simplest on.
class Groups {
 public:
  Group &operator[](const Key &key) {
    const auto [found, added] = places_.try_emplace(key, groups_.size());
    if (added) groups_.emplace_back(key, Group());
    return groups_[found->second].second;
  }
  const std::vector<std::pair<Key, Group>> &all() const { return groups_; }

 private:
  std::map<Key, size_t> places_;
  std::vector<std::pair<Key, Group>> groups_;
};

void add(std::vector<double> &values, const std::optional<double> &value) {
  if (value && *value > 0) values.push_back(*value);
}

std::string mean(const std::vector<double> &values, std::string (*shower)(double)) {
  return values.empty() ? "" : shower(geometric_mean(values));
}

std::string show_factor(double value) {
  return format("%.2fx", value);
}

std::string show_percent(double value) {
  return format("%.0f%%", value);
}

// Several configs of one kernel are several selections; the library's own choices are one.
std::string selection_of(const Record &record, bool threads) {
  std::string text = record.requested.empty() ? "(the library's choice)" : record.requested;
  if (!record.technique.empty()) text = record.technique;
  if (threads && record.threads) text += format(", %lld threads", static_cast<long long>(*record.threads));
  if (record.requested_math != "strict") text += ", " + record.requested_math;
  return text;
}

// More than a ceiling can be off by.
bool above_roof(const Record &record) {
  return record.roofline_pct && *record.roofline_pct > 105;
}

} // namespace

std::string summary(const std::vector<Record> &records, View view, size_t width,
                    const std::vector<std::string> &hints) {
  Groups groups;
  std::set<int64_t> threads;
  for (const Record &record : records)
    if (record.threads) threads.insert(*record.threads);
  for (const Record &record : records) {
    if (!record.layers.empty()) continue; // a network is no layer
    const std::string selection = selection_of(record, threads.size() > 1);
    const std::string suite = record.suite.empty() ? "(command line)" : record.suite;
    Group &group = groups[{suite, record.device, selection, record.baseline}];
    if (!group.problems.insert(record.problem).second) continue;
    ++group.rows;
    if (record.status != "good") continue;
    ++group.good;
    add(group.times, record.median_us);
    add(group.speedups, record.speedup);
    add(group.rates, record.gflops);
    if (!above_roof(record)) add(group.roofs, record.roofline_pct);
    add(group.ratios, record.ratio);
  }
  const bool times = view == View::kTimes;
  Grid grid({{"suite", false},
             {"device", false, Fit::kDrop, 2},
             {"kernels", false, Fit::kWrap},
             {"good", true},
             {"time", true},
             {"speed-up", true},
             {"GFLOP/s", true, Fit::kDrop, 1},
             {"roof", true},
             {"baseline", false, Fit::kWrap},
             {"ratio", true}});
  for (const auto &[key, group] : groups.all()) {
    const auto &[suite, device, selection, baseline] = key;
    if (group.rows < 2) continue;                                              // its one row says it all
    if (group.good == 0 && selection.find('@') != std::string::npos) continue; // one config of many
    const auto of = [&](const std::vector<double> &values, std::string (*shower)(double)) {
      return times ? mean(values, shower) : "";
    };
    grid.add({suite, device, selection, format("%zu/%zu", group.good, group.rows), of(group.times, show_time),
              of(group.speedups, show_factor), of(group.rates, show_number), of(group.roofs, show_percent), baseline,
              of(group.ratios, show_number)});
  }
  const auto unsteady = std::count_if(records.begin(), records.end(), [](const Record &record) {
    return record.median_us && record.p95_us && *record.p95_us > 2 * *record.median_us;
  });
  std::string warning;
  if (unsteady > 0)
    warning =
        format("%lld of the rows have a p95 above twice their median: the machine was busy with something else.\n",
               static_cast<long long>(unsteady));
  const auto above = std::count_if(records.begin(), records.end(), above_roof);
  if (above > 0)
    warning += format(
        "%lld of the rows are above their roof, and not in its mean: a transform does fewer operations than are "
        "counted, "
        "or the ceilings were measured on a busy machine.\n",
        static_cast<long long>(above));
  const bool timed = std::any_of(records.begin(), records.end(), [](const Record &r) { return r.gflops.has_value(); });
  for (const std::string &hint : hints)
    if (timed) warning += hint + "\n";
  warning = wrapped(warning, width);
  if (grid.empty()) return warning;
  return warning + std::string(times ? "Geometric means over good rows, each distinct layer once:\n" : "Good rows:\n") +
         grid.text(width, nullptr);
}

int exit_code(const std::vector<Record> &records) {
  std::set<std::string> statuses;
  for (const Record &record : records) statuses.insert(record.status);
  for (const char *benign : {"good", "skipped"}) statuses.erase(benign);
  if (statuses.erase("invalid argument") > 0) return kUsage;
  const bool missing = statuses.erase("unavailable") > 0, unsupported = statuses.erase("unsupported") > 0;
  if (!statuses.empty()) return kWrong; // wrong, or a failure of kernel, device or memory
  return missing ? kMissing : unsupported ? kUnsupported : kGood;
}

} // namespace polyconv::bench
