// jobs.hpp - from what the command line and expectation files ask for to the rows of `run`.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "arguments/arguments.hpp"
#include "arguments/selection.hpp"
#include "judge/expect.hpp"
#include "measure/job.hpp"

namespace polyconv::bench {

// The problems and modes of an expectation file stand for themselves where the command line names no problem.
void take_work_from(const std::vector<Expectation> &expectations, Selection &selection);

// A row for each combination of problem, device, mode, baseline, threads and kernel. `only_expected`: the problems are
// those of the expectations, and only what these are about is run, on the kernels that they name unless the command
// line names others.
std::vector<Job> jobs_of(const Arguments &arguments, const Selection &selection,
                         const std::vector<Expectation> &expectations, bool only_expected);

// Measures the jobs in order and writes their rows as the arguments say, with a summary below; the exit code is the
// gravest row's, or that of `expectations`. `compared`: rows of one problem beside its first.
int measure_jobs(const Arguments &arguments, const std::vector<Job> &jobs, const std::vector<Expectation> &expectations,
                 bool compared);

} // namespace polyconv::bench
