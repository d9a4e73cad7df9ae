// jobs.cpp - from what the command line and expectation files ask for to the rows of `run`.
// SPDX-License-Identifier: Apache-2.0
#include "command/jobs.hpp"

#include <algorithm>
#include <set>

#include "command/ladder.hpp"
#include "text/text.hpp"

namespace polyconv::bench {

namespace {

// What a problem is measured against: the command line's baselines and those of the expectations about it.
std::vector<std::string> baselines_for(const Work &work, const std::string &math, const Arguments &a,
                                       const std::vector<Expectation> &expectations) {
  std::vector<std::string> baselines = split(a.baselines, ',');
  for (const Expectation &e : expectations)
    if (e.math == math && e.concerns(work.token)) baselines.push_back(e.baseline);
  std::vector<std::string> distinct;
  for (const std::string &baseline : baselines)
    if (std::find(distinct.begin(), distinct.end(), baseline) == distinct.end()) distinct.push_back(baseline);
  if (distinct.empty()) distinct.emplace_back();
  return distinct;
}

bool expected_under(const Work &work, const std::string &math, const std::vector<Expectation> &expectations) {
  return std::any_of(expectations.begin(), expectations.end(),
                     [&](const Expectation &e) { return e.math == math && e.concerns(work.token); });
}

// Where neither problems nor kernels are named, the file's own: its rows name the kernels that hold them.
std::vector<std::string> kernels_expected(const Work &work, const std::string &math,
                                          const std::vector<Expectation> &expectations) {
  std::vector<std::string> kernels;
  for (const Expectation &e : expectations)
    if (e.math == math && e.concerns(work.token) &&
        std::find(kernels.begin(), kernels.end(), e.kernel) == kernels.end())
      kernels.push_back(e.kernel);
  return kernels;
}

void add_ladder(const Arguments &a, const Selection &selection, const Work &work, const std::string &device,
                std::vector<Job> &jobs) {
  for (const MathMode &math : selection.maths)
    for (const std::string &baseline : baselines_for(work, math.word, a, {}))
      for (long long threads : selection.threads)
        for (const Rung &rung : ladder_of(kind_of(device)))
          jobs.push_back(
              {work, device, selection.request(rung.kernels, math, threads), math.word, baseline, rung.technique});
}

} // namespace

void take_work_from(const std::vector<Expectation> &expectations, Selection &selection) {
  std::set<std::string> tokens, modes;
  selection.maths.clear();
  for (const Expectation &e : expectations) {
    for (const Work &work : e.works)
      if (tokens.insert(work.token).second) selection.works.push_back(work);
    if (modes.insert(e.math).second) selection.maths.push_back(parse_math(e.math));
  }
}

std::vector<Job> jobs_of(const Arguments &a, const Selection &selection, const std::vector<Expectation> &expectations,
                         bool only_expected) {
  std::vector<Job> jobs;
  for (const Work &work : selection.works) {
    for (const std::string &device : selection.devices) {
      if (a.ladder) {
        add_ladder(a, selection, work, device, jobs);
        continue;
      }
      const std::vector<std::string> named = a.all_configs ? names_on(device, selection) : globs_on(device, selection);
      for (const MathMode &math : selection.maths) {
        if (only_expected && !expected_under(work, math.word, expectations)) continue;
        const bool by_file = only_expected && named == std::vector<std::string>{""};
        const std::vector<std::string> globs = by_file ? kernels_expected(work, math.word, expectations) : named;
        for (const std::string &baseline : baselines_for(work, math.word, a, expectations))
          for (long long threads : selection.threads)
            for (const std::string &grouping : selection.groupings)
              for (const std::string &glob : globs)
                jobs.push_back(
                    {work, device, selection.request(glob, math, threads, grouping), math.word, baseline, ""});
      }
    }
  }
  return jobs;
}

} // namespace polyconv::bench
