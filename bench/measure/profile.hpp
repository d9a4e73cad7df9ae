// profile.hpp - where the time of a run goes: each step of the plan or layer of the network, each call of the API, each
// copy between host and device. Through the public API alone: the library tells the steps (options.observer), events of
// the device their time.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "result/record.hpp"
#include "subject/network.hpp"
#include "subject/subject.hpp"

namespace polyconv::bench {

// The lines of a table, in the order in which a program meets them: plan, prepare, copy in, run and its steps, copy
// out. `subject` is the row's own; the steps are watched on a second plan of the same `request`, so that watching costs
// the first nothing. Throws Unable.
std::vector<ProfileLine> profile(const polyconv_device *device, const Work &work, const PlanRequest &request,
                                 Subject &subject, BufferPool &pool, int64_t memory_limit);

// The same of a network: run, graph, each distinct layer with all its occurrences. `network` cannot run any more
// afterwards: its layers took the pool's memory.
std::vector<ProfileLine> profile_network(const polyconv_device *device, const Work &work, const PlanRequest &request,
                                         Network &network, BufferPool &pool, int64_t memory_limit);

} // namespace polyconv::bench
