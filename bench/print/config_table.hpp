// config_table.hpp - the rows of a sweep over configs, put in an order that people can read.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "result/record.hpp"

namespace polyconv::bench {

// For each problem (on one device, in one mode ...): kernels in the order in which they came, each with its fastest
// config first; the fastest of all marked (Record::best); then one row for each kernel and reason that refused.
std::vector<Record> ordered_by_config(const std::vector<Record> &records);

} // namespace polyconv::bench
