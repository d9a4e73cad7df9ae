// compare_command.cpp - `polyconv-bench compare`: two result files of `run`, row by row.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "command/commands.hpp"
#include "numbers/statistics.hpp"
#include "print/output.hpp"
#include "result/results.hpp"
#include "system/terminal.hpp"
#include "text/grid.hpp"

namespace polyconv::bench {

namespace {

struct Verdict {
  std::string word; // "", "slower", "faster", or what is wrong with the row
  bool fails = false;
  std::optional<double> change; // new time over old
};

Verdict judge(const Result &before, const Result *after, double most) {
  if (before.at("status") != "good") return {"was " + before.at("status"), false, std::nullopt};
  if (!after) return {"missing", true, std::nullopt};
  if (after->at("status") != "good")
    return {"now " + after->at("status") + ": " + after->at("reason"), true, std::nullopt};
  const std::optional<double> old_time = before.number("median_us"), new_time = after->number("median_us");
  if (!old_time || *old_time <= 0) return {"was not timed", false, std::nullopt};
  if (!new_time) return {"not timed", true, std::nullopt};
  const double change = *new_time / *old_time;
  if (change > 1 + most) return {"slower", true, change};
  return {change < 1 / (1 + most) ? "faster" : "", false, change};
}

std::string time_of(const Result *row) {
  const std::optional<double> time = row ? row->number("median_us") : std::nullopt;
  return time ? show_time(*time) : "-";
}

// Kernels of the two rows, once where they agree.
std::string kernels_of(const Result &before, const Result *after) {
  const std::string older = before.at("kernel"), newer = after ? after->at("kernel") : older;
  return older == newer || newer.empty() ? older : older + " -> " + newer;
}

} // namespace

int compare_command(const Arguments &a) {
  const double most = parse_percent(a.fail_slower, "--fail-slower");
  const std::vector<Result> old_rows = last_of_each(read_all_results({a.old_file}));
  const std::vector<Result> new_rows = last_of_each(read_all_results({a.new_file}));
  std::map<std::string, const Result *> news;
  for (const Result &row : new_rows) news[key_of(row)] = &row;
  if (old_rows.front().at("device_name") != new_rows.front().at("device_name"))
    std::cerr << "polyconv-bench: the two files were measured on different devices: "
              << old_rows.front().at("device_name") << " and " << new_rows.front().at("device_name") << "\n";

  Grid grid({{"problem", false, Fit::kHeading},
             {"kernel", false, Fit::kWrap},
             {"threads", true},
             {"old", true},
             {"new", true},
             {"change", true},
             {"", false, Fit::kWrap}});
  std::vector<double> changes;
  size_t failures = 0, clocks = 0;
  for (const Result &before : old_rows) {
    const auto match = news.find(key_of(before));
    const Result *after = match == news.end() ? nullptr : match->second;
    const Verdict verdict = judge(before, after, most);
    if (verdict.change) changes.push_back(*verdict.change);
    clocks += verdict.change && before.at("clock") != after->at("clock") ? 1 : 0;
    failures += verdict.fails ? 1 : 0;
    grid.add({before.at("problem"), kernels_of(before, after), before.at("threads"), time_of(&before), time_of(after),
              verdict.change ? format("%+.1f%%", (*verdict.change - 1) * 100) : "", verdict.word});
  }
  if (clocks > 0)
    std::cerr << format(
        "polyconv-bench: %zu rows were timed by another clock (wall, events, graph): their change says "
        "little\n",
        clocks);
  Output output(a, {".md"});
  output.stream() << (output_format(a.output, a.out_file) == "markdown"
                          ? grid.markdown()
                          : grid.text(a.out_file.empty() ? stdout_columns() : 0, nullptr));
  if (!changes.empty())
    output.stream() << format("\ngeometric mean of new/old over %zu rows: %.3f\n", changes.size(),
                              geometric_mean(changes));
  if (failures > 0)
    output.stream() << format("%zu rows are slower by more than %.3g%%, not good any more or missing\n", failures,
                              most * 100);
  output.stream().flush();
  if (!output.stream()) throw Error(kUsage, "the output could not be written");
  return failures > 0 ? kRegression : kGood;
}

} // namespace polyconv::bench
