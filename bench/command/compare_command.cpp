// compare_command.cpp - `polyconv-bench compare`: two result files of `run`, or several runs of each, row by row; and
// how much runs of the same code differ on this machine.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "command/commands.hpp"
#include "judge/changes.hpp"
#include "print/output.hpp"
#include "system/terminal.hpp"
#include "text/grid.hpp"

namespace polyconv::bench {

namespace {

// Kernels of the two rows, once where they agree.
std::string kernels_of(const RowChange &c) {
  const std::string older = c.before.at("kernel"), newer = c.after ? c.after->at("kernel") : older;
  return older == newer || newer.empty() ? older : older + " -> " + newer;
}

std::string percent(double change) {
  return format("%+.1f%%", (change - 1) * 100);
}

std::string interval_of(const RowChange &c) {
  if (!c.change || *c.low == *c.high) return "";
  return percent(*c.low) + " to " + percent(*c.high);
}

Grid grid_of(const std::vector<RowChange> &changes) {
  Grid grid({{"problem", false, Fit::kHeading},
             {"kernel", false, Fit::kWrap},
             {"threads", true},
             {"old", true},
             {"new", true},
             {"change", true},
             {"95 % interval", true, Fit::kDrop, 1},
             {"", false, Fit::kWrap}});
  for (const RowChange &c : changes)
    grid.add({c.before.at("problem"), kernels_of(c), c.before.at("threads"), c.old_us ? show_time(*c.old_us) : "-",
              c.new_us ? show_time(*c.new_us) : "-", c.change ? percent(*c.change) : "", interval_of(c), c.word},
             c.fails              ? Tone::kBad
             : c.word == "faster" ? Tone::kGood
                                  : Tone::kPlain);
  return grid;
}

std::string sums_of(const std::vector<RowChange> &changes, const Tolerance &tolerance) {
  std::string text;
  if (const std::optional<MeanChange> mean = mean_of(changes)) {
    text += format("\ngeometric mean of new/old over %zu rows: %.3f", mean->rows, mean->mean);
    if (mean->rows > 1) text += format(" (%.3f to %.3f with 95 %%)", mean->interval.low, mean->interval.high);
    text += "\n";
  }
  const auto failures = std::count_if(changes.begin(), changes.end(), [](const RowChange &c) { return c.fails; });
  if (failures > 0)
    text += format("%lld rows are slower by more than %.3g%%, not good any more or missing\n",
                   static_cast<long long>(failures), tolerance.most * 100);
  return text;
}

void warn(const std::vector<RowChange> &changes, const std::string &old_device, const std::string &new_device) {
  if (old_device != new_device)
    std::cerr << "polyconv-bench: the two files were measured on different devices, so that no change is a regression: "
              << old_device << " and " << new_device << "\n";
  const auto clocks = std::count_if(changes.begin(), changes.end(), [](const RowChange &c) {
    return c.change && c.before.at("clock") != c.after->at("clock");
  });
  if (clocks > 0)
    std::cerr << format(
        "polyconv-bench: %lld rows were timed by another clock (wall, events, graph): their change says little\n",
        static_cast<long long>(clocks));
}

// `compare --noise A B …`: learns what runs of the same code differ by here, and keeps it.
int learn(const Arguments &a) {
  Runs runs;
  for (const std::string &files : a.result_files)
    for (std::vector<Result> &run : read_runs(files)) runs.push_back(std::move(run));
  const std::string device = runs.front().front().at("device_name");
  for (const std::vector<Result> &run : runs)
    if (run.front().at("device_name") != device)
      throw Error(kUsage,
                  "--noise: the files are of different devices: " + device + " and " + run.front().at("device_name"));
  const double spread = spread_of(runs);
  keep_spread(device, spread);
  std::cout << format("In 95 %% of the rows two of these %zu runs differ by less than %.1f%%. ", runs.size(),
                      100 * spread)
            << "Later comparisons on " << (device.empty() ? "this device" : device)
            << " take that into their intervals.\n";
  return kGood;
}

double spread_for(const Arguments &a, const std::string &device) {
  return a.spread.empty() ? known_spread(device).value_or(0) : parse_percent(a.spread, "--spread");
}

} // namespace

int compare_command(const Arguments &a) {
  if (a.noise) return learn(a);
  if (a.result_files.size() != 2)
    throw Error(kUsage, format("compare wants two results, OLD and NEW (each may be several files of the same code, "
                               "joined by commas), not %zu",
                               a.result_files.size()));
  Tolerance tolerance;
  tolerance.most = parse_percent(a.fail_slower, "--fail-slower");
  const Runs olds = read_runs(a.result_files[0]), news = read_runs(a.result_files[1]);
  const std::string old_device = olds.front().front().at("device_name"),
                    new_device = news.front().front().at("device_name");
  tolerance.spread = spread_for(a, new_device);
  const std::vector<RowChange> changes = changes_between(olds, news, tolerance);
  warn(changes, old_device, new_device);
  const Grid grid = grid_of(changes);
  Output output(a, {".md"});
  output.stream() << (output_format(a.output, a.out_file) == "markdown"
                          ? grid.markdown()
                          : grid.text(a.out_file.empty() ? stdout_columns() : 0, nullptr,
                                      a.out_file.empty() && stdout_takes_colours()))
                  << sums_of(changes, tolerance);
  output.finish();
  if (old_device != new_device) return kUsage; // what is slower there is no regression
  const bool fails = std::any_of(changes.begin(), changes.end(), [](const RowChange &c) { return c.fails; });
  return fails ? kRegression : kGood;
}

} // namespace polyconv::bench
