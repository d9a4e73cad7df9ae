// run_command.cpp - `polyconv-bench run`: from the selection to jobs, from jobs to records, from records to an exit
// code. SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <set>
#include <tuple>

#include "commands.hpp"
#include "expect.hpp"
#include "measure/bench_row.hpp"
#include "output.hpp"
#include "progress.hpp"
#include "selection.hpp"

namespace polyconv::bench {

namespace {

RunSettings settings_of(const Arguments &a) {
  RunSettings settings;
  settings.min_seconds = parse_real(a.min_time, "--min-time");
  if (settings.min_seconds < 0 || settings.min_seconds > 3600)
    throw Error(kUsage, "--min-time: '" + a.min_time + "' is not a number of seconds from 0 to 3600");
  settings.cold = a.cache == "cold";
  settings.transfers = a.transfers;
  settings.end_to_end = a.end_to_end;
  settings.verify = a.verify == "always" ? Verify::kAlways : a.verify == "never" ? Verify::kNever : Verify::kAuto;
  return settings;
}

// What a problem is measured against: the command line's baselines and those of the expectations about it.
std::vector<std::string> baselines_for(const Work &work, const std::string &math, const Arguments &a,
                                       const std::vector<Expectation> &expectations) {
  std::vector<std::string> baselines = split(a.baselines, ',');
  for (const Expectation &e : expectations)
    if (e.work.token == work.token && e.math == math) baselines.push_back(e.baseline);
  std::vector<std::string> distinct;
  for (const std::string &baseline : baselines)
    if (std::find(distinct.begin(), distinct.end(), baseline) == distinct.end()) distinct.push_back(baseline);
  if (distinct.empty()) distinct.emplace_back();
  return distinct;
}

// The problems and modes of an expectation file stand for themselves where the command line names no problem.
void take_work_from(const std::vector<Expectation> &expectations, Selection &selection) {
  std::set<std::string> tokens, modes;
  selection.maths.clear();
  for (const Expectation &e : expectations) {
    if (tokens.insert(e.work.token).second) selection.works.push_back(e.work);
    if (modes.insert(e.math).second) selection.maths.push_back(parse_math(e.math));
  }
}

bool expected_under(const Work &work, const std::string &math, const std::vector<Expectation> &expectations) {
  return std::any_of(expectations.begin(), expectations.end(),
                     [&](const Expectation &e) { return e.work.token == work.token && e.math == math; });
}

std::vector<Job> jobs_of(const Arguments &a, const Selection &selection, const std::vector<Expectation> &expectations,
                         bool only_expected) {
  std::vector<Job> jobs;
  for (const Work &work : selection.works) {
    for (const std::string &device : selection.devices) {
      const std::vector<std::string> globs = a.all_configs ? names_on(device, selection) : globs_on(device, selection);
      for (const MathMode &math : selection.maths) {
        if (only_expected && !expected_under(work, math.word, expectations)) continue;
        for (const std::string &baseline : baselines_for(work, math.word, a, expectations))
          for (long long threads : selection.threads)
            for (const std::string &glob : globs)
              jobs.push_back({work, device, selection.request(glob, math, threads), math.word, baseline});
      }
    }
  }
  return jobs;
}

// With --all-configs most kernels refuse most problems, which is no failure while somebody takes each.
int exit_code_of_configs(const std::vector<Record> &records) {
  std::set<std::string> taken;
  for (const Record &record : records)
    if (record.status != "unsupported") taken.insert(record.problem);
  std::vector<Record> counted;
  for (const Record &record : records)
    if (record.status != "unsupported" || taken.count(record.problem) == 0) counted.push_back(record);
  return exit_code(counted);
}

// Says on stderr what is not held. A regression goes before everything but a wrong result and wrong usage.
int judge(const std::vector<Expectation> &expectations, const std::vector<Record> &records, int code) {
  const std::vector<std::string> broken = broken_expectations(expectations, records);
  for (const std::string &sentence : broken) std::cerr << "not held: " << sentence << "\n";
  if (!expectations.empty())
    std::cerr << format("%zu of %zu expectations held\n",
                        expectations.size() - std::min(broken.size(), expectations.size()), expectations.size());
  return broken.empty() || code == kWrong || code == kUsage ? code : static_cast<int>(kRegression);
}

} // namespace

int run_command(const Arguments &a) {
  const RunSettings settings = settings_of(a);
  const std::vector<Expectation> expectations =
      a.expect.empty() ? std::vector<Expectation>() : load_expectations(a.expect);
  Selection selection = select(a, a.expect.empty());
  const bool only_expected = selection.works.empty();
  if (only_expected) take_work_from(expectations, selection);
  const std::vector<Job> jobs = jobs_of(a, selection, expectations, only_expected);

  const std::string format_word = output_format(a.output, a.out_file);
  Output output(a.out_file);
  RecordWriter writer(format_word, View::kTimes, output.stream());
  std::vector<Record> records;
  {
    Bench bench(settings);
    Progress progress(jobs.size());
    for (const Job &job : jobs) {
      progress.next(job.work.token + " " + job.request.kernel);
      records.push_back(bench.measure(job));
      progress.wipe();
      writer.add(records.back());
    }
  }
  writer.finish();
  const std::string means = summary(records, View::kTimes);
  if (!means.empty()) {
    std::ostream &place = a.out_file.empty() && format_word == "table" ? std::cout : std::cerr;
    place << "\n" << means << std::flush;
  }
  return judge(expectations, records, a.all_configs ? exit_code_of_configs(records) : exit_code(records));
}

} // namespace polyconv::bench
