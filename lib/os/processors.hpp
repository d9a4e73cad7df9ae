// processors.hpp - how many threads a plan has where its options name no number: what affinity, CPU quotas and
// OMP_NUM_THREADS leave of the machine.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace polyconv {

// What options.threads = 0 stands for on the calling thread, 1 to 1024: the processors that its affinity allows, at
// most as many as the CPU quotas of the process's cgroups pay for (rounded up), and at most OMP_NUM_THREADS. Quotas and
// environment are read once a process.
int32_t default_threads();

// The first number of a list as OMP_NUM_THREADS has it, "4" or "4,2"; 0 where it is no positive number.
int32_t first_of_list(const std::string &list);

// The processors that the quotas of this process's cgroups (version 1 or 2, all their parents included) pay for,
// rounded up, >= 1; 0 where there is no quota. `root` is what "/" stands for: "" but in tests.
int32_t processors_of_quota(const std::string &root);

} // namespace polyconv
