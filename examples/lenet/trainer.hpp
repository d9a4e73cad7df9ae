// trainer.hpp - lenet train: epochs of steps, each step one captured graph where the device has graphs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "checkpoint.hpp"
#include "session.hpp"

namespace lenet {

struct Training {
  std::string checkpoint; // written after every epoch; empty: nowhere
  bool resume = false;
  int32_t stop_after = 0; // an epoch of the run at which to end; 0: its last
  std::string curve;      // SVG; empty: none
  bool quiet = false;
  Checkpoint run; // seed, optimiser, batch, rate, epochs
};

// Trains, prints a line an epoch, and returns the last state. Throws Failure, also where somebody interrupts.
Checkpoint train(const Network &network, const Settings &settings, const Images &training, const Images &test,
                 const Training &options);

} // namespace lenet
