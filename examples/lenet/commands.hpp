// commands.hpp - lenet test and lenet time.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "session.hpp"

namespace lenet {

struct Examination {
  std::string weights;   // a checkpoint, or a file of weights alone
  std::string confusion; // SVG; empty: none
  int64_t batch = 1000;
};

// Prints accuracy and the time of every layer ("op time 1"); returns the accuracy. Throws Failure.
double examine(const Network &network, const Settings &settings, const Images &test, const Examination &examination);

// Prints the time of every layer for every batch, then of the network's largest convolution with larger pictures and
// more channels.
void sweep(const Network &network, const Settings &settings, const std::vector<int64_t> &batches);

} // namespace lenet
