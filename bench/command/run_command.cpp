// run_command.cpp - `polyconv-bench run`: from the selection to jobs, from jobs to records, from records to an exit
// code.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <set>

#include "command/commands.hpp"
#include "command/jobs.hpp"
#include "command/ladder.hpp"
#include "command/report.hpp"
#include "judge/judge.hpp"
#include "measure/baseline.hpp"
#include "measure/bench_row.hpp"
#include "measure/beside.hpp"
#include "measure/trace.hpp"
#include "result/info.hpp"
#include "result/json.hpp"
#include "result/results.hpp"
#include "trial/rows.hpp"
#include "work/sweep.hpp"

namespace polyconv::bench {

namespace {

int32_t beside_of(const std::string &text) {
  constexpr long long kMost = 1024;
  const std::vector<long long> numbers = parse_numbers(text, "--beside", 0);
  if (numbers.size() != 1 || numbers.front() > kMost)
    throw Error(kUsage, "--beside: '" + text + "' is no number from 0 to 1024");
  return static_cast<int32_t>(numbers.front());
}

RunSettings settings_of(const Arguments &a) {
  RunSettings settings;
  settings.min_seconds = parse_seconds(a.min_time, "--min-time");
  settings.baseline_ms = static_cast<int64_t>(parse_seconds(a.baseline_budget, "--baseline-budget") * 1e3);
  settings.beside = beside_of(a.beside);
  settings.cache = a.cache == "cold" ? Cache::kCold : a.cache == "warm-only" ? Cache::kWarmOnly : Cache::kWarm;
  settings.transfers = a.transfers;
  settings.end_to_end = a.end_to_end;
  settings.graph = a.graph;
  settings.profile = a.profile;
  settings.verify = a.verify == "always" ? Verify::kAlways : a.verify == "never" ? Verify::kNever : Verify::kAuto;
  return settings;
}

// Of a sweep or a ladder most kernels refuse most problems, and some are not there, which is no failure while somebody
// takes each problem.
int exit_code_of_many(const std::vector<Record> &records, bool ladder) {
  const auto refused = [&](const Record &record) {
    return record.status == "unsupported" || (ladder && record.status == "unavailable");
  };
  std::set<std::string> taken;
  for (const Record &record : records)
    if (!refused(record)) taken.insert(record.problem);
  std::vector<Record> counted;
  for (const Record &record : records)
    if (!refused(record) || taken.count(record.problem) == 0) counted.push_back(record);
  return exit_code(counted);
}

// Fills the speed-ups of the last of `records` over the first row of the same problem and mode: of the same device's
// ladder, or else of the first device.
void compare_with_first(std::vector<Record> &records, bool ladder) {
  Record &last = records.back();
  const auto first = std::find_if(records.begin(), records.end(), [&](const Record &record) {
    return record.suite == last.suite && record.problem == last.problem &&
           record.requested_math == last.requested_math && (!ladder || record.device == last.device);
  });
  const auto ratio = [](const std::optional<double> &of_first, const std::optional<double> &own) {
    return of_first && own && *own > 0 ? std::optional<double>(*of_first / *own) : std::nullopt;
  };
  last.speedup = ratio(first->median_us, last.median_us);
  last.transfers_speedup = ratio(first->transfers_us, last.transfers_us);
}

const char *word_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::kHeld: return "held";
    case Verdict::kNotHeld: return "not held";
    case Verdict::kIncomplete: break;
  }
  return "incomplete";
}

// Says on stderr what is held and what is not. A regression goes before everything but a wrong result and wrong usage.
int judge(const std::vector<Expectation> &expectations, const std::vector<Record> &records, int code) {
  if (expectations.empty()) return code;
  const std::vector<Finding> findings = judge_expectations(expectations, records);
  for (const Finding &finding : findings) std::cerr << word_of(finding.verdict) << ": " << finding.sentence << "\n";
  const auto held = std::count_if(expectations.begin(), expectations.end(), [&](const Expectation &e) {
    return std::none_of(findings.begin(), findings.end(), [&](const Finding &finding) {
      return finding.verdict == Verdict::kNotHeld && finding.sentence.rfind(e.where + ": ", 0) == 0;
    });
  });
  std::cerr << format("%lld of %zu expectations held\n", static_cast<long long>(held), expectations.size());
  const bool broken = held < static_cast<std::ptrdiff_t>(expectations.size());
  return !broken || code == kWrong || code == kUsage ? code : static_cast<int>(kRegression);
}

View view_of(const Arguments &a) {
  return a.ladder ? View::kLadder : a.all_configs ? View::kConfigs : View::kTimes;
}

void refuse_wrong_combinations(const Arguments &a, const Selection &selection, const std::string &format_word) {
  const auto one_of = [](const char *first, bool given, const char *second) {
    if (given) throw Error(kUsage, std::string(first) + " and " + second + " do not go together");
  };
  if (a.ladder) {
    one_of("--ladder", !a.kernels.empty() || !a.backends.empty(), "--kernel or --backend");
    one_of("--ladder", a.all_configs, "--all-configs");
    one_of("--ladder", !a.expect.empty(), "--expect");
    for (const std::string &device : selection.devices)
      if (ladder_of(kind_of(device)).empty())
        throw Error(kUsage, "--ladder: there is a ladder of techniques for cuda and cpu, none for " + device);
  }
  if (!a.networks.empty()) {
    one_of("--network", !a.problems.empty(), "a PROBLEM");
    one_of("--network", !a.suites.empty(), "--suite");
    one_of("--network", !a.chain.empty(), "--chain");
    one_of("--network", !a.sets.empty(), "--set");
    one_of("--network", a.ladder, "--ladder");
    one_of("--network", a.all_configs, "--all-configs");
    one_of("--network", a.transfers, "--transfers");
    one_of("--network", a.end_to_end, "--end-to-end");
  }
  if (a.profile && format_word == "csv")
    throw Error(kUsage, "--profile: a line of CSV has no room for it; expected table, markdown or jsonl");
  if (a.graph && selection.devices == std::vector<std::string>{"cpu"})
    throw Error(kUsage, "--graph: the cpu has no graphs; expected a device such as cuda:0");
}

// Rows that ask others' libraries are measured elsewhere: such a library may crash, and the row alone is lost then. Not
// where there is a timeline, which is of one process.
std::unique_ptr<RowProcesses> processes_for(const std::vector<Job> &jobs, const RunSettings &settings) {
  constexpr double kSeconds = 600; // that a row may take, checked against the reference and all, beside the search
  if (settings.trace || std::none_of(jobs.begin(), jobs.end(), asks_others)) return nullptr;
  return std::make_unique<RowProcesses>(
      kSeconds + 2e-3 * static_cast<double>(settings.baseline_ms),
      [&jobs, settings](size_t row) { return json_line(Bench(settings).measure(jobs[row])); });
}

} // namespace

int measure_jobs(const Arguments &a, const std::vector<Job> &jobs, const std::vector<Expectation> &expectations,
                 bool compared) {
  RunSettings settings = settings_of(a);
  std::optional<Trace> trace;
  if (!a.trace.empty() || a.nvtx) trace.emplace(a.trace, a.nvtx);
  settings.trace = trace ? &*trace : nullptr;
  std::vector<std::string> hints; // as of the last row: an interruption may read them at any time
  std::function<void(const std::string &)> told;
  const std::unique_ptr<RowProcesses> processes = processes_for(jobs, settings);
  Bench bench(
      settings,
      [&](const std::string &stage) {
        if (told) told(stage);
      },
      [&](const Job &job) {
        const RowOutcome outcome =
            processes ? processes->outcome_of(static_cast<size_t>(&job - jobs.data())) : RowOutcome{};
        return Bench::Elsewhere{read_record(outcome.line), outcome.fate};
      });
  Report report(a, view_of(a), jobs.size(), [&hints](const std::vector<Record> &records, size_t columns) {
    return summary(records, View::kTimes, columns, hints);
  });
  told = [&report, &trace](const std::string &stage) {
    if (trace) trace->stage(stage);
    report.stage(stage);
  };
  std::optional<Beside> load(std::in_place, settings.beside);
  for (const Job &job : jobs) {
    if (trace) trace->row(job.work.title() + " on " + job.device);
    report.next(job.work.title() + " " + job.request.kernel);
    report.add(bench.measure(job), [&](std::vector<Record> &records) {
      hints = bench.hints();
      if (compared) compare_with_first(records, a.ladder);
    });
  }
  load.reset();
  if (trace) trace->close();
  report.finish();
  const std::vector<Record> &records = report.records();
  return judge(expectations, records,
               a.all_configs || a.ladder ? exit_code_of_many(records, a.ladder) : exit_code(records));
}

int run_command(const Arguments &a) {
  settings_of(a); // refused before anything is looked for
  const std::vector<Expectation> expectations =
      a.expect.empty() ? std::vector<Expectation>() : load_expectations(a.expect);
  Selection selection = select(a, a.expect.empty());
  const std::string format_word = output_format(a.output, a.out_file);
  refuse_wrong_combinations(a, selection, format_word);
  const bool only_expected = selection.works.empty();
  if (only_expected) take_work_from(expectations, selection);
  for (const std::string &baseline : split(a.baselines, ',')) refuse_unknown_baseline(baseline, backend_names());
  const std::vector<Job> jobs = jobs_of(a, selection, expectations, only_expected);

  return measure_jobs(a, jobs, expectations, a.ladder || selection.devices.size() > 1);
}

} // namespace polyconv::bench
